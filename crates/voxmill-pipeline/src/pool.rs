//! The threads of one stage: how many there are, and how that changes while they work.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{Builder, JoinHandle};

use voxmill_telemetry::recorder::Recorder;

use crate::meter::{Meter, Watch};
use crate::sync::lock;

/// The body of a worker thread.
pub(crate) type Body = Arc<dyn Fn(&Presence) + Send + Sync>;

pub(crate) struct Pool {
    stage: String,
    target: AtomicUsize,
    present: AtomicUsize,
    state: Mutex<State>,
    body: OnceLock<Body>,
    /// Called when the last worker has gone.
    all_gone: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
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
            body: OnceLock::new(),
            all_gone: Box::new(all_gone),
        })
    }

    /// Starts the first workers.
    pub(crate) fn start(self: &Arc<Self>, workers: usize, body: Body) -> io::Result<()> {
        // A pool is started once.
        let _ = self.body.set(body);
        self.set_workers(workers)
    }

    /// New workers begin at once; surplus ones go when they have handed over what they have in hand.
    pub(crate) fn set_workers(self: &Arc<Self>, workers: usize) -> io::Result<()> {
        let mut state = lock(&self.state);
        let Some(body) = self.body.get().filter(|_| !state.stopping) else {
            return Ok(());
        };
        self.target.store(workers.max(1), Relaxed);
        while self.present.load(Relaxed) < workers {
            let number = state.taken.iter().position(|taken| !taken);
            let number = number.unwrap_or_else(|| {
                state.taken.push(false);
                state.meters.push(Arc::new(Meter::new()));
                state.taken.len() - 1
            });
            let (pool, body) = (Arc::clone(self), Arc::clone(body));
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
    /// What the worker tells its time with.
    pub(crate) fn watch(&self, recorder: &Recorder) -> Watch {
        let lane = recorder.lane(&self.pool.stage, self.number);
        Watch::new(Arc::clone(&self.meter), lane, recorder.clone())
    }

    /// Whether there are more workers than wanted; whoever is told so must go.
    pub(crate) fn is_surplus(&self) -> bool {
        let pool = &self.pool;
        let too_many = || pool.present.load(Relaxed) > pool.target.load(Relaxed);
        // The lock is only taken when it is likely; under it, no two workers claim the same surplus.
        too_many() && {
            let _state = lock(&pool.state);
            let claimed = too_many();
            if claimed {
                pool.present.fetch_sub(1, Relaxed);
                self.has_left.set(true);
            }
            claimed
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
        drop(state);
        if all_gone {
            (self.pool.all_gone)();
        }
    }
}
