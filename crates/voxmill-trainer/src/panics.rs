//! The program's one panic hook, set once, with a switch for each thread.
//!
//! It stands here because this is the lowest crate that needs it: opening a device must not print the
//! library's panics, and the dashboard of the program above takes those of workers off the terminal. A hook
//! that each of them swapped for its own would get lost when two did so at the same time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, PoisonError};

type Listener = dyn Fn(&PanicHookInfo<'_>) -> bool + Send + Sync;

static LISTENER: Mutex<Option<Arc<Listener>>> = Mutex::new(None);

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// How many threads are quiet.
static QUIET_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Runs what may panic; a panic of this thread in it is not printed.
pub fn quietly<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    set_hook();
    let before = QUIET.replace(true);
    QUIET_THREADS.fetch_add(1, SeqCst);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET_THREADS.fetch_sub(1, SeqCst);
    QUIET.set(before);
    result
}

/// Whether nobody wants to hear of a panic of this thread. The tensor library works for its callers on threads
/// of its own, catches what panics there and hands it back to the caller, who may be quiet.
fn is_quiet() -> bool {
    let of_library = |name: &str| name.starts_with("DSU-") || name.starts_with("DSD-");
    QUIET.get()
        || QUIET_THREADS.load(SeqCst) > 0 && std::thread::current().name().is_some_and(of_library)
}

/// From now on `listener` receives each panic, and returns whether it is still to be printed. It takes the place
/// of an earlier one.
pub fn listen(listener: impl Fn(&PanicHookInfo<'_>) -> bool + Send + Sync + 'static) {
    set_hook();
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(listener));
}

fn set_hook() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if is_quiet() {
                return;
            }
            // Not called under the lock: it may take long, and a panic in it comes here again.
            let listener = LISTENER
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if listener.is_none_or(|listener| listener(panic)) {
                print(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_thread_is_quiet_alone_and_only_for_as_long_as_it_says() {
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        listen(move |panic| {
            let ours = panic.payload_as_str() == Some("heard by the test");
            count.fetch_add(usize::from(ours), SeqCst);
            !ours
        });
        let fails = || -> () { panic!("heard by the test") };
        assert!(quietly(fails).is_err());
        assert_eq!(heard.load(SeqCst), 0);
        assert_eq!(quietly(|| 3).ok(), Some(3));
        // Another thread is heard while this one is quiet, unless it works for it; so is this one afterwards.
        for (name, heard_then) in [("worker", 1), ("DSD-0-0", 1)] {
            let other = || std::thread::Builder::new().name(name.into()).spawn(fails);
            assert!(quietly(|| other().unwrap().join().is_err()).unwrap());
            assert_eq!(heard.load(SeqCst), heard_then, "{name}");
        }
        assert!(catch_unwind(fails).is_err());
        assert_eq!(heard.load(SeqCst), 2);
    }
}
