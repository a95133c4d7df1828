//! A hang must be a failure that says what hung, not a job that runs into its time limit.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Far beyond what any run here takes, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

static WATCHED: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());
static CHANGED: Condvar = Condvar::new();

/// Aborts the whole process with `what` if it still exists after a minute.
#[derive(Debug)]
pub(crate) struct Watched(u64);

pub(crate) fn watch(what: impl Into<String>) -> Watched {
    static START: Once = Once::new();
    START.call_once(|| {
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(bark)
            .unwrap();
    });
    silence_expected_panics();
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let id = watched.last_key_value().map_or(0, |(id, _)| id + 1);
    watched.insert(id, (Instant::now() + LONGEST, what.into()));
    CHANGED.notify_one();
    Watched(id)
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.remove(&self.0);
    }
}

fn bark() {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        if let Some((_, what)) = watched.values().find(|(until, _)| *until <= now) {
            // Not by a macro: what those print is kept back until the test ends.
            let _ = writeln!(std::io::stderr(), "hangs: {what}");
            std::process::abort();
        }
        let first = watched.values().map(|(until, _)| *until).min();
        let wait = first.map_or(LONGEST, |until| until - now);
        watched = CHANGED
            .wait_timeout(watched, wait)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

/// What panics on purpose begins its message with this word.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// Hundreds of panics that belong to the tests would hide the one that does not.
fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let speak = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let said = panic.payload_as_str().unwrap_or_default();
            if !said.starts_with(ON_PURPOSE) {
                speak(panic);
            }
        }));
    });
}
