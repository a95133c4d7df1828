//! What is simulated: stages, buffers, budgets, slots and cores, and how long each item takes.

pub use voxmill_telemetry::plan::{Order, Plan};

/// A plan as the simulation needs it. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The source first.
    pub stages: Vec<Stage>,
    pub order: Order,
    pub overlap: bool,
    /// Batches that may be in preparation or ready, besides the one in training.
    pub slots_ahead: Option<usize>,
    pub start_delay: u64,
    /// Bytes of each budget.
    pub budgets: Vec<u64>,
    /// Cores that all workers and the model share; `None`: as many as are asked for.
    pub cores: Option<f64>,
    pub consumer: Consumer,
}

/// A stage of a simulated run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub name: String,
    pub workers: usize,
    /// Finished items that may wait behind it.
    pub buffer: usize,
    /// Which of the budgets its results live in.
    pub budget: Option<usize>,
    /// It puts several items together to one.
    pub gathers: bool,
}

impl Stage {
    /// One worker, two places behind it, as a plan has them by default.
    pub fn new(name: impl Into<String>) -> Stage {
        Stage {
            name: name.into(),
            workers: 1,
            buffer: 2,
            budget: None,
            gathers: false,
        }
    }
}

/// Who takes the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Batches whose gradients make one step.
    pub batches_a_step: u64,
    /// A device of its own works through what it is given; the thread that asks for batches is one batch ahead of it.
    /// Otherwise that thread does the work.
    pub runs_ahead: bool,
}

impl Default for Consumer {
    fn default() -> Consumer {
        Consumer {
            batches_a_step: 1,
            runs_ahead: false,
        }
    }
}

/// What an item asks of the worker that handles it. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Passes whatever else runs: a disk, a device, a sleep.
    pub waits: u64,
    /// Needs cores.
    pub computes: u64,
    /// How many cores it keeps busy while it computes.
    pub threads: f64,
}

impl Demand {
    /// It needs no core.
    pub fn waiting(nanos: u64) -> Demand {
        Demand {
            waits: nanos,
            ..Demand::default()
        }
    }

    /// It needs one core.
    pub fn computing(nanos: u64) -> Demand {
        Demand {
            computes: nanos,
            threads: 1.0,
            ..Demand::default()
        }
    }

    /// What training asks for that computes on `threads`; none where a GPU does it.
    pub(super) fn on_threads(nanos: u64, threads: f64) -> Demand {
        match threads > 0.0 {
            true => Demand {
                threads,
                ..Demand::computing(nanos)
            },
            false => Demand::waiting(nanos),
        }
    }

    /// With all the cores that it asks for.
    pub fn alone(self) -> u64 {
        self.waits + self.computes
    }
}

/// What a batch asks of the consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Training {
    pub demand: Demand,
    /// What lies between this step and the next.
    pub overhead: u64,
}

/// Bytes of an item in its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Asked for before it is worked on, where it enters the budget.
    pub reserved: u64,
    /// Held from the end of the stage on.
    pub kept: u64,
}

/// How long things take, and how large they are: a function of stage and number, so that a change of the plan meets
/// the same items.
pub trait Load {
    fn demand(&self, stage: usize, number: u64) -> Demand;

    fn training(&self, batch: u64) -> Training;

    /// Items that a stage that gathers puts into this group.
    fn members(&self, _stage: usize, _group: u64) -> u64 {
        1
    }

    /// `None`: what it holds does not change here.
    fn bytes(&self, _stage: usize, _number: u64) -> Option<Bytes> {
        None
    }
}

/// Why a setup cannot be simulated to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    #[error("there is nothing to simulate: no stages, or no steps")]
    Nothing,
    #[error("stage `{0}` has no workers or no room behind it")]
    NoRoom(String),
    #[error("there is no slot ahead of the batch in training")]
    NoSlots,
    #[error("there are no cores")]
    NoCores,
    #[error("an item of stage `{stage}` needs {need} bytes, and its budget has {limit} bytes")]
    TooLarge {
        stage: String,
        need: u64,
        limit: u64,
    },
    #[error("the items of stage `{stage}` wait for bytes that cannot come free")]
    Stuck { stage: String },
}

impl Setup {
    /// Stages one after another with a buffer of two behind each, and a consumer that does its own work.
    pub fn new(stages: Vec<Stage>) -> Setup {
        Setup {
            stages,
            order: Order::Kept,
            overlap: true,
            slots_ahead: None,
            start_delay: 0,
            budgets: Vec::new(),
            cores: None,
            consumer: Consumer::default(),
        }
    }

    /// Of the stages that gather, the last: from there on items are batches.
    pub fn batches_from(&self) -> usize {
        let gathers = self.stages.iter().rposition(|stage| stage.gathers);
        gathers.unwrap_or(0)
    }

    /// Refuses what could never run.
    pub fn check(&self) -> Result<(), SimulationError> {
        if self.stages.is_empty() {
            return Err(SimulationError::Nothing);
        }
        let none = |stage: &&Stage| stage.workers == 0 || stage.buffer == 0;
        if let Some(stage) = self.stages.iter().find(none) {
            return Err(SimulationError::NoRoom(stage.name.clone()));
        }
        if self.slots_ahead == Some(0) {
            return Err(SimulationError::NoSlots);
        }
        match self.cores {
            Some(cores) if cores.is_nan() || cores <= 0.0 => Err(SimulationError::NoCores),
            _ => Ok(()),
        }
    }
}
