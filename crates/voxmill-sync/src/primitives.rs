//! The few primitives that everything here is made of, so that a model checker can take their place.

use std::time::Duration;

#[cfg(loom)]
use checked as platform;
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use loom::thread::{self, Thread};
#[cfg(not(loom))]
use real as platform;
// The model checker's own cannot be the `self` of a method; what it would check is only the count.
pub(crate) use std::sync::Arc;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::thread::{self, Thread};

pub(crate) use platform::{Hint, spin_until, wait_briefly};

/// Nothing here panics while it holds a lock, except in the caller's own `Drop` of an item; what the
/// lock protects is whole even then.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Threads that wait for something, first come, first served.
///
/// A thread registers under the lock of what it waits for, releases the lock and parks; whoever
/// changes the thing takes it out under the same lock and unparks it. So no wake-up is lost, and only
/// those are woken that can continue.
#[derive(Debug, Default)]
pub(crate) struct WaitList<K>(Vec<(K, Thread)>);

impl<K> WaitList<K> {
    fn forget_this_thread(&mut self) {
        let this = thread::current().id();
        self.0.retain(|(_, thread)| thread.id() != this);
    }

    /// The first that `may_go`, to be unparked once the lock is released.
    pub(crate) fn take_first(&mut self, may_go: impl Fn(&K) -> bool) -> Option<Thread> {
        let first = self.0.iter().position(|(key, _)| may_go(key))?;
        Some(self.0.remove(first).1)
    }

    pub(crate) fn take_all(&mut self) -> Vec<Thread> {
        self.0.drain(..).map(|(_, thread)| thread).collect()
    }
}

/// Registers this thread in a list of what the lock protects, releases the lock and sleeps until it is
/// woken or the time is over. It may also wake for no reason: the caller checks again.
pub(crate) fn wait<'a, S, K>(
    mutex: &'a Mutex<S>,
    mut state: MutexGuard<'a, S>,
    list: impl Fn(&mut S) -> &mut WaitList<K>,
    key: K,
    longest: Option<Duration>,
) -> MutexGuard<'a, S> {
    list(&mut state).0.push((key, thread::current()));
    drop(state);
    platform::park(longest);
    let mut state = lock(mutex);
    list(&mut state).forget_this_thread();
    state
}

pub(crate) fn wake(threads: impl IntoIterator<Item = Thread>) {
    for thread in threads {
        thread.unpark();
    }
}

/// Runs the function at the first call only.
pub(crate) fn once(function: impl FnOnce()) -> impl FnMut() {
    let mut function = Some(function);
    move || {
        if let Some(function) = function.take() {
            function();
        }
    }
}

#[cfg(not(loom))]
mod real {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    /// What a thread that is about to wait may read without the lock. Whatever it reads, it takes the
    /// lock and checks again.
    #[derive(Debug)]
    pub(crate) struct Hint(AtomicU64);

    impl Hint {
        pub(crate) fn new(value: u64) -> Hint {
            Hint(AtomicU64::new(value))
        }

        pub(crate) fn set(&self, value: u64) {
            // Most often nothing changed, and then nobody's copy is touched.
            if self.get() != value {
                self.0.store(value, Relaxed);
            }
        }

        pub(crate) fn get(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    pub(crate) fn park(longest: Option<Duration>) {
        match longest {
            Some(longest) => std::thread::park_timeout(longest),
            None => std::thread::park(),
        }
    }

    /// Checks a few times more for what will likely come at once, before anything else is done about it.
    pub(crate) fn spin_until(ready: impl Fn() -> bool) {
        const SPINS: u32 = 4;
        for step in 0..SPINS {
            if ready() {
                return;
            }
            for _ in 0..1 << step {
                std::hint::spin_loop();
            }
        }
    }

    /// Spins, then lets others run for some microseconds before the thread is put to sleep: waking it
    /// costs more than handing over an item that needs no work. Where the cores are busy, one turn takes
    /// all of that time.
    pub(crate) fn wait_briefly(ready: impl Fn() -> bool, mut before_waiting: impl FnMut()) {
        const LONGEST: Duration = Duration::from_micros(30);
        spin_until(&ready);
        if ready() {
            return;
        }
        before_waiting();
        let begin = Instant::now();
        while !ready() && begin.elapsed() < LONGEST {
            std::thread::yield_now();
        }
    }
}

/// Under the model checker there is no time: nobody looks early, so there are no hints to look at, and no
/// wait is over by itself. Hints would only multiply the interleavings by reads that decide nothing.
#[cfg(loom)]
mod checked {
    #[derive(Debug)]
    pub(crate) struct Hint;

    impl Hint {
        pub(crate) fn new(_value: u64) -> Hint {
            Hint
        }

        pub(crate) fn set(&self, _value: u64) {}

        pub(crate) fn get(&self) -> u64 {
            unreachable!("nobody looks early")
        }
    }

    pub(crate) fn park(_longest: Option<std::time::Duration>) {
        loom::thread::park();
    }

    pub(crate) fn spin_until(_ready: impl Fn() -> bool) {}

    pub(crate) fn wait_briefly(_ready: impl Fn() -> bool, _before_waiting: impl FnMut()) {}
}
