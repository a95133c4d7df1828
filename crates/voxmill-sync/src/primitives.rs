//! The few primitives that everything here is made of, so that a model checker can take their place.

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
};
// The model checker's own cannot be the `self` of a method; what it would check is only the count.
pub(crate) use std::sync::Arc;
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
};

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
/// those are woken that can go on.
#[derive(Debug)]
pub(crate) struct Waiting<K> {
    list: Vec<(K, Thread)>,
}

impl<K> Waiting<K> {
    pub(crate) fn new() -> Waiting<K> {
        Waiting { list: Vec::new() }
    }

    /// Registers this thread; it must then release the lock and park.
    pub(crate) fn register(&mut self, key: K) {
        self.forget_this_thread();
        self.list.push((key, thread::current()));
    }

    /// To be called after parking: a thread may wake without having been woken.
    pub(crate) fn forget_this_thread(&mut self) {
        let this = thread::current().id();
        self.list.retain(|(_, thread)| thread.id() != this);
    }

    /// The first that `may_go`, to be unparked once the lock is released.
    pub(crate) fn take_first(&mut self, may_go: impl Fn(&K) -> bool) -> Option<Thread> {
        let first = self.list.iter().position(|(key, _)| may_go(key))?;
        Some(self.list.remove(first).1)
    }

    pub(crate) fn take_all(&mut self) -> Vec<Thread> {
        self.list.drain(..).map(|(_, thread)| thread).collect()
    }
}

pub(crate) fn wake(threads: impl IntoIterator<Item = Thread>) {
    for thread in threads {
        thread.unpark();
    }
}

/// What is called again and again but is to happen once.
pub(crate) fn once(happen: impl FnOnce()) -> impl FnMut() {
    let mut happen = Some(happen);
    move || {
        if let Some(happen) = happen.take() {
            happen();
        }
    }
}

#[cfg(not(loom))]
pub(crate) use real::{park_timeout, spin_until, yield_until};

#[cfg(not(loom))]
mod real {
    pub(crate) use std::thread::park_timeout;
    use std::time::{Duration, Instant};

    /// A look or two more at what will likely come at once, before anything else is done about it.
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

    /// Lets others run for some microseconds before the thread is put to sleep: waking it costs more than
    /// handing over an item that needs no work. Where the cores are busy, one turn takes all of that time.
    pub(crate) fn yield_until(ready: impl Fn() -> bool) {
        const LONGEST: Duration = Duration::from_micros(30);
        let begin = Instant::now();
        while !ready() && begin.elapsed() < LONGEST {
            std::thread::yield_now();
        }
    }
}

#[cfg(loom)]
pub(crate) use checked::{park_timeout, spin_until, yield_until};

/// Under the model checker there is no time: nobody looks early, and no wait is over by itself.
#[cfg(loom)]
mod checked {
    pub(crate) fn park_timeout(_longest: std::time::Duration) {
        loom::thread::park();
    }

    pub(crate) fn spin_until(_ready: impl Fn() -> bool) {}

    pub(crate) fn yield_until(_ready: impl Fn() -> bool) {}
}
