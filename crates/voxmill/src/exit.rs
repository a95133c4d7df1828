//! How the program ends, and with which exit code.

/// What came of a command that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    /// It did its work, and the answer is no.
    Failed,
    /// Ctrl-C or SIGTERM; what was done is kept.
    Interrupted,
}

impl Exit {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            // 128 + SIGINT, as shells count.
            Exit::Interrupted => 130,
        }
    }

    /// Ends the process without the exit handlers of C libraries. Threads that serve a GPU live as
    /// long as the process, and a driver that tears itself down under them may free memory twice:
    /// a finished training then ends with an abort, as was seen once on Mesa's software GPU.
    /// What was printed must have been flushed.
    #[expect(unsafe_code, reason = "only C can leave without exit handlers")]
    pub(crate) fn leave(self) -> ! {
        // SAFETY: ends the process; every file that matters was closed when its command returned.
        unsafe { libc::_exit(self.code()) }
    }
}
