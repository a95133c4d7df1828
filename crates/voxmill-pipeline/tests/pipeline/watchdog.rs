//! A hang must be a failure that names what hung, not a job that runs into its time limit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
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
        silence_expected_panics();
        let thread = std::thread::Builder::new().name("watchdog".into());
        thread.spawn(abort_what_hangs).unwrap();
    });
    let mut watched = watched();
    let id = watched.last_key_value().map_or(0, |(id, _)| id + 1);
    watched.insert(id, (Instant::now() + LONGEST, what.into()));
    CHANGED.notify_one();
    Watched(id)
}

thread_local! {
    static THIS_TEST: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Watches the test of this thread until it ends, or starts something else that is to be watched.
pub(crate) fn watch_this_test(what: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    THIS_TEST.set(Some(watch(format!("{test}, pipeline `{what}`"))));
}

impl Drop for Watched {
    fn drop(&mut self) {
        watched().remove(&self.0);
    }
}

fn watched() -> MutexGuard<'static, BTreeMap<u64, (Instant, String)>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn abort_what_hangs() {
    let mut watched = watched();
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

/// What panics on purpose begins its message with this.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// Hundreds of panics that belong to the tests would hide the one that does not.
fn silence_expected_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        if !message.starts_with(ON_PURPOSE) {
            report(panic);
        }
    }));
}
