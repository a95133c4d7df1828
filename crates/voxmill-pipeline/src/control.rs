//! A run as it is seen from outside: what it knows of itself, and what can be changed while it runs.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use voxmill_sync::lock;
use voxmill_telemetry::recorder::Recorder;

use crate::assembly::named;
use crate::budget::Budget;
use crate::buffer::{Buffer, FillLevel};
use crate::counters::{RunSnapshot, StageCounters};
use crate::meter::Meter;
use crate::plan::Plan;
use crate::pool::Pool;
use crate::resume::ResumePoint;
use crate::slots::Slots;
use crate::stage::Faults;

/// A buffer, whatever is in it.
pub(crate) trait AnyBuffer: Send + Sync {
    fn level(&self) -> FillLevel;
    fn set_capacity(&self, capacity: usize);
    fn cancel(&self);
}

impl<T: Send> AnyBuffer for Buffer<T> {
    fn level(&self) -> FillLevel {
        Buffer::level(self)
    }

    fn set_capacity(&self, capacity: usize) {
        Buffer::set_capacity(self, capacity);
    }

    fn cancel(&self) {
        Buffer::cancel(self);
    }
}

pub(crate) struct StageHandle {
    pub(crate) name: String,
    pub(crate) pool: Option<Arc<Pool>>,
    /// The meter of a stage that has no threads.
    pub(crate) inline: Option<Arc<Meter>>,
    pub(crate) buffer: Option<Arc<dyn AnyBuffer>>,
}

/// What all who have to do with a run share.
pub(crate) struct RunShared {
    pub(crate) plan: Plan,
    pub(crate) recorder: Recorder,
    pub(crate) stages: Vec<StageHandle>,
    /// Stages that have one worker by their nature.
    pub(crate) single: Vec<usize>,
    pub(crate) budgets: Vec<Arc<Budget>>,
    pub(crate) slots: Option<Arc<Slots>>,
    /// Shared with stages that have no buffer to ask.
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) faults: Arc<Faults>,
}

impl RunShared {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
        // From the end: nobody may take for the end of the pipeline what is only the end of the run, and
        // get a batch that is not whole for the last one.
        for stage in self.stages.iter().rev() {
            if let Some(buffer) = &stage.buffer {
                buffer.cancel();
            }
        }
        for budget in &self.budgets {
            budget.cancel();
        }
        if let Some(slots) = &self.slots {
            slots.cancel();
        }
    }

    pub(crate) fn stop_threads(&self) -> Vec<JoinHandle<()>> {
        let pools = self.stages.iter().filter_map(|stage| stage.pool.as_ref());
        pools.flat_map(|pool| pool.stop()).collect()
    }
}

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no stage `{0}`")]
    NoStage(String),
    #[error("there is no budget `{0}`")]
    NoBudget(String),
    #[error("stage `{0}` always has exactly one worker")]
    OneWorkerOnly(String),
    #[error("the stages run one after another: there are no workers or buffers to change")]
    NoOverlap,
    #[error("slots bound what is behind stage `{0}`, not a buffer")]
    Slots(String),
    #[error("a stage needs a worker, a buffer room for an item, and a budget bytes")]
    Zero,
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Changes a run from outside. Clones control the same run.
#[derive(Clone)]
pub struct Control {
    pub(crate) shared: Arc<RunShared>,
    pub(crate) consumer: Arc<Meter>,
    pub(crate) done: Arc<Mutex<ResumePoint>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("plan", &self.shared.plan.name)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Ends the run: items in hand are finished and dropped, and the consumer sees the end.
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    /// What is done so far: enough to resume.
    pub fn resume_point(&self) -> ResumePoint {
        lock(&self.done).clone()
    }

    /// How many items were skipped, those before a resume included.
    pub fn skipped(&self) -> u64 {
        self.shared.faults.skipped.load(SeqCst)
    }

    /// A surplus worker goes when it has handed over its item; one that waits takes one more first.
    pub fn set_workers(&self, stage: &str, workers: usize) -> Result<(), ChangeError> {
        let (index, handle) = self.stage(stage, workers)?;
        if self.shared.single.contains(&index) {
            return Err(ChangeError::OneWorkerOnly(stage.into()));
        }
        let pool = handle.pool.as_ref().ok_or(ChangeError::NoOverlap)?;
        pool.set_workers(workers).map_err(ChangeError::Thread)
    }

    /// Changes how many items the buffer behind a stage may hold.
    pub fn set_capacity(&self, stage: &str, items: usize) -> Result<(), ChangeError> {
        let (index, handle) = self.stage(stage, items)?;
        if self.shared.slots.is_some() && index + 1 == self.shared.stages.len() {
            return Err(ChangeError::Slots(stage.into()));
        }
        let buffer = handle.buffer.as_ref().ok_or(ChangeError::NoOverlap)?;
        buffer.set_capacity(items);
        Ok(())
    }

    /// An item that waits for bytes and is larger than a lower limit is refused like any that is too large.
    pub fn set_budget(&self, budget: &str, bytes: u64) -> Result<(), ChangeError> {
        if bytes == 0 {
            return Err(ChangeError::Zero);
        }
        let found = named(&self.shared.budgets, Some(budget));
        let found = found.ok_or_else(|| ChangeError::NoBudget(budget.into()))?;
        found.set_limit(bytes);
        Ok(())
    }

    fn stage(&self, name: &str, value: usize) -> Result<(usize, &StageHandle), ChangeError> {
        if value == 0 {
            return Err(ChangeError::Zero);
        }
        let mut stages = self.shared.stages.iter().enumerate();
        stages
            .find(|(_, stage)| stage.name == name)
            .ok_or_else(|| ChangeError::NoStage(name.into()))
    }

    /// What the run knows of itself now.
    pub fn snapshot(&self) -> RunSnapshot {
        let now = self.shared.recorder.now();
        let stage = |handle: &StageHandle| {
            let pool = handle.pool.as_ref();
            let mut counters = StageCounters {
                name: handle.name.clone(),
                workers: pool.map_or(1, |pool| pool.workers()),
                ..StageCounters::default()
            };
            let meters = pool.map(|pool| pool.meters()).unwrap_or_default();
            for meter in meters.iter().chain(&handle.inline) {
                meter.add_to(&mut counters, now);
            }
            if let Some(level) = handle.buffer.as_ref().map(|buffer| buffer.level()) {
                counters.buffered = level.items;
                counters.capacity = level.capacity;
            }
            counters
        };
        let mut consumer = StageCounters {
            name: self.shared.plan.consumer.clone(),
            workers: 1,
            ..StageCounters::default()
        };
        self.consumer.add_to(&mut consumer, now);
        let stages = self.shared.stages.iter().map(stage);
        RunSnapshot {
            at: now.duration(),
            stages: stages.chain([consumer]).collect(),
            budgets: self.shared.budgets.iter().map(|it| it.usage()).collect(),
        }
    }
}
