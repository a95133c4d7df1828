//! Terminals that were closed while the program runs, and the signal for it.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::termios::tcgetattr;

/// Whether the terminal was closed that this program reads from or writes to.
pub(crate) fn has_hung_up() -> bool {
    is_closed(std::io::stdin()) || is_closed(std::io::stdout()) || is_closed(std::io::stderr())
}

/// What is no terminal at all is another error.
fn is_closed(stream: impl AsFd) -> bool {
    tcgetattr(stream).err() == Some(Errno::IO)
}

/// Ignores the signal of a closed terminal, and says whether it was ignored before: `nohup` asks for that.
#[expect(unsafe_code, reason = "signals are set by a C function")]
pub(crate) fn ignore_signal() -> bool {
    // SAFETY: installs no handler, and may be called at any time.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) == libc::SIG_IGN }
}
