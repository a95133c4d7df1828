//! Ctrl-C, SIGTERM and SIGHUP: the first asks the work to stop and keep what is done, the second ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;

use crate::dashboard::restore_terminal;
use crate::exit::Exit;
use crate::hang_up;

static ASKED_TO_STOP: AtomicBool = AtomicBool::new(false);

/// What the first Ctrl-C does, where a key was pressed instead.
pub(crate) fn request_stop() {
    ASKED_TO_STOP.store(true, Ordering::Relaxed);
}

/// For work that knows no flag of its own.
pub(crate) fn is_asked_to_stop() -> bool {
    ASKED_TO_STOP.load(Ordering::Relaxed)
}

/// The flag that long work looks at between items.
pub(crate) fn watch() -> anyhow::Result<&'static AtomicBool> {
    // What is set next would undo `nohup`.
    let ignored = hang_up::ignore_signal();
    ctrlc::set_handler(|| {
        // A terminal that is closed sends two signals, the shell's and its own: nobody asked twice.
        if ASKED_TO_STOP.swap(true, Ordering::Relaxed) && !hang_up::has_hung_up() {
            restore_terminal();
            Exit::Interrupted.leave();
        }
    })
    .context("cannot listen for Ctrl-C")?;
    if ignored {
        hang_up::ignore_signal();
    }
    Ok(&ASKED_TO_STOP)
}
