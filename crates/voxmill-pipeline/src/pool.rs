//! The threads of one stage: how many there are, and how that changes while they work.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use voxmill_sync::lock;
use voxmill_telemetry::recorder::Recorder;

use crate::meter::{Meter, Watch};

/// The body of a worker thread.
pub(crate) type Body = Arc<dyn Fn(&Presence) + Send + Sync>;

pub(crate) struct Pool {
    stage: String,
    target: AtomicUsize,
    present: AtomicUsize,
    state: Mutex<PoolState>,
    /// Dropped when the pool is stopped: it holds what the workers work on.
    body: Mutex<Option<Body>>,
    /// Called when the last worker has gone.
    all_gone: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct PoolState {
    /// One for each worker number that was ever used; a number is used again when it is free.
    meters: Vec<Arc<Meter>>,
    taken: Vec<bool>,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

impl Pool {
    pub(crate) fn new(stage: &str, all_gone: impl Fn() + Send + Sync + 'static) -> Arc<Pool> {
        Arc::new(Pool {
            stage: stage.to_owned(),
            target: AtomicUsize::new(0),
            present: AtomicUsize::new(0),
            state: Mutex::default(),
            body: Mutex::new(None),
            all_gone: Box::new(all_gone),
        })
    }

    /// Starts the first workers.
    pub(crate) fn start(self: &Arc<Self>, workers: usize, body: Body) -> io::Result<()> {
        *lock(&self.body) = Some(body);
        self.set_workers(workers)
    }

    /// New workers begin at once; surplus ones go when they have handed over what they have in hand, or
    /// take next.
    pub(crate) fn set_workers(self: &Arc<Self>, workers: usize) -> io::Result<()> {
        let mut state = lock(&self.state);
        let Some(body) = lock(&self.body).clone().filter(|_| !state.stopping) else {
            return Ok(());
        };
        self.target.store(workers.max(1), Relaxed);
        // A thread's stack is only freed when it is joined; these have nothing left to do.
        for ended in state.threads.extract_if(.., |thread| thread.is_finished()) {
            let _ = ended.join();
        }
        while self.present.load(Relaxed) < workers {
            let free = state.taken.iter().position(|taken| !taken);
            let number = free.unwrap_or_else(|| {
                state.taken.push(false);
                state.meters.push(Arc::default());
                state.taken.len() - 1
            });
            let (pool, body) = (Arc::clone(self), Arc::clone(&body));
            let meter = Arc::clone(&state.meters[number]);
            let thread = Builder::new().name(format!("{}-{number}", self.stage));
            let thread = thread.spawn(move || {
                body(&Presence {
                    pool,
                    number,
                    meter,
                    has_left: Cell::new(false),
                });
            })?;
            state.taken[number] = true;
            self.present.fetch_add(1, Relaxed);
            state.threads.push(thread);
        }
        Ok(())
    }

    pub(crate) fn workers(&self) -> usize {
        self.present.load(Relaxed)
    }

    pub(crate) fn meters(&self) -> Vec<Arc<Meter>> {
        lock(&self.state).meters.clone()
    }

    /// No thread is started any more; those that were are handed over to be joined.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        let mut state = lock(&self.state);
        state.stopping = true;
        *lock(&self.body) = None;
        std::mem::take(&mut state.threads)
    }
}

/// A worker thread is there for as long as this lives, however it ends.
pub(crate) struct Presence {
    pool: Arc<Pool>,
    number: usize,
    meter: Arc<Meter>,
    /// It gave up its place among the workers before it ended.
    has_left: Cell<bool>,
}

impl Presence {
    /// What the worker keeps time with.
    pub(crate) fn watch(&self, recorder: &Recorder) -> Watch {
        let lane = recorder.lane(&self.pool.stage, self.number);
        Watch::new(Arc::clone(&self.meter), lane, recorder.clone())
    }

    /// Whether there are more workers than wanted; if so this one must go.
    pub(crate) fn is_surplus(&self) -> bool {
        self.leaves_if(|present, target| present > target)
    }

    /// Whether there are others to continue without this worker; if so it must go.
    pub(crate) fn leaves_it_to_others(&self) -> bool {
        self.leaves_if(|present, _| present > 1)
    }

    fn leaves_if(&self, may_go: impl Fn(usize, usize) -> bool) -> bool {
        let pool = &self.pool;
        let may_go = || may_go(pool.present.load(Relaxed), pool.target.load(Relaxed));
        // The lock is only taken when it is likely; under it, no two workers go for the same reason.
        may_go() && {
            let _state = lock(&pool.state);
            let goes = may_go();
            if goes {
                pool.present.fetch_sub(1, Relaxed);
                self.has_left.set(true);
            }
            goes
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        state.taken[self.number] = false;
        if !self.has_left.get() {
            self.pool.present.fetch_sub(1, Relaxed);
        }
        let all_gone = self.pool.present.load(Relaxed) == 0;
        // Whoever ends with nobody left has seen the end of the items; more workers would see it too.
        state.stopping |= all_gone;
        drop(state);
        if all_gone {
            (self.pool.all_gone)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A pool whose workers do nothing but check whether they are surplus, once for each new signal.
    struct Idle {
        pool: Arc<Pool>,
        signal: Arc<(Mutex<u64>, Condvar)>,
        closed: Arc<AtomicU64>,
    }

    impl Idle {
        fn start(workers: usize) -> Idle {
            let closed = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&closed);
            let pool = Pool::new("idle", move || {
                count.fetch_add(1, Relaxed);
            });
            let signal = Arc::new((Mutex::new(0), Condvar::new()));
            let received = Arc::clone(&signal);
            let body = move |presence: &Presence| {
                let (value, changed) = &*received;
                let mut last = 0;
                while !presence.is_surplus() && last < u64::MAX {
                    let next = changed.wait_while(lock(value), |value| *value == last);
                    last = *next.unwrap();
                }
            };
            pool.start(workers, Arc::new(body)).unwrap();
            Idle {
                pool,
                signal,
                closed,
            }
        }

        fn send(&self, signal: u64) {
            *lock(&self.signal.0) = signal;
            self.signal.1.notify_all();
        }

        fn set_workers(&self, workers: usize, signal: u64) {
            self.pool.set_workers(workers).unwrap();
            self.send(signal);
            self.wait_for(workers);
        }

        fn wait_for(&self, workers: usize) {
            while self.pool.workers() != workers {
                std::thread::yield_now();
            }
        }

        fn stop(&self) {
            self.send(u64::MAX);
            for thread in self.pool.stop() {
                thread.join().unwrap();
            }
        }
    }

    impl Drop for Idle {
        fn drop(&mut self) {
            self.stop();
        }
    }

    #[test]
    fn the_last_worker_to_go_reports_it() {
        let idle = Idle::start(4);
        idle.set_workers(1, 1);
        assert_eq!(idle.closed.load(Relaxed), 0, "one is still there");
        idle.send(u64::MAX);
        idle.wait_for(0);
        idle.stop();
        assert!(idle.closed.load(Relaxed) >= 1);
    }

    #[test]
    fn threads_that_have_ended_are_joined_however_often_their_number_changes() {
        let idle = Idle::start(1);
        for signal in 1..200 {
            idle.set_workers(1 + signal as usize % 3, signal);
        }
        let mut most = lock(&idle.pool.state).threads.len();
        while most > 3 {
            // The last ones may be about to end.
            idle.pool.set_workers(2).unwrap();
            assert!(most < 50, "{most} threads were kept");
            most = lock(&idle.pool.state).threads.len();
            idle.send(1000 + most as u64);
        }
        let numbers = idle.pool.meters().len();
        assert!(numbers <= 5, "worker numbers are used again");
    }

    #[test]
    fn a_pool_that_was_stopped_starts_nobody() {
        let idle = Idle::start(2);
        idle.stop();
        idle.pool.set_workers(5).unwrap();
        assert_eq!(idle.pool.workers(), 0);
    }
}
