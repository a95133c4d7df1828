//! A pipeline before it runs: each stage is declared once, with its name, its plan and its work.
//!
//! ```
//! # use std::convert::Infallible;
//! # use voxmill_pipeline::{Pipeline, plan::{Plan, Setting}, stage::Work};
//! # use voxmill_telemetry::recorder::Recorder;
//! let pipeline = Pipeline::source(Plan::new("squares", "sum"), "numbers", |from| {
//!     (from..10).map(Ok::<u64, Infallible>)
//! })
//! .stage("square", Work::new(|number: u64| Ok::<_, Infallible>(number * number)))
//! .workers(Setting::fixed(2))
//! .buffer(Setting::from(8));
//! // Plain data until here; threads come with `start`.
//! assert_eq!(pipeline.plan().stages[1].workers.value, 2);
//! let (items, gaps) = pipeline.start(Recorder::off())?.finish()?;
//! assert_eq!((items, gaps.len()), (10, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::sync::{Arc, OnceLock};

use voxmill_telemetry::recorder::{Naming, Recorder};

use crate::assembly::{Assembly, Flow};
use crate::budget::Refused;
use crate::group::{EmptyGroup, Group, Groups};
use crate::item::{BoxError, catch_panic};
use crate::monitor::Monitor;
use crate::plan::{
    self, AfterError, BudgetPlan, OnError, Order, Plan, PlanError, Setting, StagePlan,
};
use crate::resume::ResumePoint;
use crate::run::Running;
use crate::stage::{Stage, Work};

/// Why a pipeline cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("stage `{0}` is to retry, but its work is not `retrying`")]
    CannotRetry(String),
    #[error("stage `{stage}` enters the budget `{budget}`, but its work is not `reserving`")]
    ReservesNothing { stage: String, budget: String },
    #[error("stage `{stage}` always has exactly one worker, and the plan gives it {workers}")]
    OneWorkerOnly { stage: String, workers: usize },
    #[error("the source `{0}` cannot be within a budget: bytes are admitted behind it")]
    SourceInBudget(String),
    #[error("slots are filled by the function of the last stage, and `{0}` has none")]
    NothingFillsSlots(String),
    #[error(
        "items that come out of order are batched within the budget `{budget}`, which they enter behind \
         stage `{stage}`: parts of many batches could use it up; enter it right behind the source"
    )]
    BatchesOutOfOrder { stage: String, budget: String },
    #[error("the slots do not fit")]
    Slots(#[source] Refused),
    #[error(transparent)]
    Groups(#[from] EmptyGroup),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// Where items of type `T` come out: another stage can be added, or it can be started.
///
/// [`workers`](Pipeline::workers), [`buffer`](Pipeline::buffer), [`in_budget`](Pipeline::in_budget) and
/// [`on_error`](Pipeline::on_error) are about the stage that was declared last.
pub struct Pipeline<T> {
    declared: Declared,
    assemble: Assemble<T>,
}

/// What has been declared so far, whatever the type of the items.
struct Declared {
    plan: Plan,
    /// Stages that have one worker by their nature.
    single: Vec<usize>,
    groups: Vec<Groups>,
    from: ResumePoint,
    skipped: u64,
    /// How the items of this part of the pipeline are called; the next batching begins a new part.
    naming: Arc<OnceLock<Naming>>,
}

type Assemble<T> = Box<dyn FnOnce(&mut Assembly) -> Result<Flow<T>, StartError> + Send>;

impl<T> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("plan", &self.declared.plan)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Pipeline<T> {
    /// A pipeline begins with its source: a function that gives the items from a number on. Item `n` must
    /// be the same whenever it is asked for; that is what makes a number enough to resume.
    ///
    /// Of `plan` counts what concerns the whole run (names, order, overlap, budgets, slots, …). Its stages
    /// are those that are declared here and from here on.
    pub fn source<I, E>(
        plan: Plan,
        name: &str,
        items_from: impl FnOnce(u64) -> I + Send + 'static,
    ) -> Pipeline<T>
    where
        I: Iterator<Item = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let naming = Arc::new(OnceLock::new());
        let part_naming = Arc::clone(&naming);
        Pipeline {
            declared: Declared {
                plan: Plan {
                    stages: vec![StagePlan::new(name)],
                    ..plan
                },
                single: vec![0],
                groups: Vec::new(),
                from: ResumePoint::default(),
                skipped: 0,
                naming,
            },
            assemble: Box::new(move |assembly| {
                let stage = assembly.stage(&part_naming);
                let items = items_from(assembly.first_item());
                let items = items.map(|item| item.map_err(Into::into));
                Ok(assembly.put_source(stage, Box::new(items)))
            }),
        }
    }

    /// One worker, two places behind it, no budget; an error stops the run.
    pub fn stage<U: Send + 'static>(self, name: &str, work: Work<T, U>) -> Pipeline<U> {
        let naming = Arc::clone(&self.declared.naming);
        self.then(name, naming, |assembly, stage, input| {
            assembly.put_stage(stage, input, work)
        })
    }

    /// Items that belong together become one.
    pub fn batch(mut self, name: &str, groups: Groups) -> Pipeline<Group<T>> {
        self.declared.single.push(self.declared.plan.stages.len());
        self.declared.groups.push(groups.clone());
        let next_naming = Arc::new(OnceLock::new());
        let naming = std::mem::replace(&mut self.declared.naming, Arc::clone(&next_naming));
        self.then(name, naming, move |assembly, stage, input| {
            assembly.put_batching(stage, input, groups, &next_naming)
        })
    }

    fn then<U>(
        mut self,
        name: &str,
        naming: Arc<OnceLock<Naming>>,
        put: impl FnOnce(&mut Assembly, Arc<Stage>, Flow<T>) -> Result<Flow<U>, StartError>
        + Send
        + 'static,
    ) -> Pipeline<U> {
        self.declared.plan.stages.push(StagePlan::new(name));
        let before = self.assemble;
        Pipeline {
            declared: self.declared,
            assemble: Box::new(move |assembly| {
                let input = before(assembly)?;
                let stage = assembly.stage(&naming);
                put(assembly, stage, input)
            }),
        }
    }

    /// How many workers the last stage has.
    pub fn workers(self, workers: Setting) -> Pipeline<T> {
        self.last_stage(|stage| stage.workers = workers)
    }

    /// How many finished items may wait behind the stage.
    pub fn buffer(self, buffer: Setting) -> Pipeline<T> {
        self.last_stage(|stage| stage.buffer = buffer)
    }

    /// The budget that the stage's results live in.
    pub fn in_budget(self, budget: impl Into<String>) -> Pipeline<T> {
        self.last_stage(|stage| stage.budget = Some(budget.into()))
    }

    /// What becomes of an item that the stage fails on.
    pub fn on_error(self, retries: u32, then: AfterError) -> Pipeline<T> {
        self.last_stage(|stage| stage.on_error = OnError { retries, then })
    }

    fn last_stage(mut self, change: impl FnOnce(&mut StagePlan)) -> Pipeline<T> {
        if let Some(stage) = self.declared.plan.stages.last_mut() {
            change(stage);
        }
        self
    }

    /// Bytes that stages can be [within](Pipeline::in_budget).
    pub fn budget(mut self, name: impl Into<String>, bytes: u64) -> Pipeline<T> {
        let name = name.into();
        self.declared.plan.budgets.push(BudgetPlan { name, bytes });
        self
    }

    /// How the items of this part of the pipeline are called in messages, by number.
    pub fn named(self, name: impl Fn(u64) -> String + Send + Sync + 'static) -> Pipeline<T> {
        // The first name given is kept.
        let _ = self.declared.naming.set(safe_naming(name));
        self
    }

    /// Resumes from where an earlier run was. Numbers are the consumer's.
    pub fn resume_at(mut self, point: ResumePoint) -> Pipeline<T> {
        self.declared.from = point;
        self
    }

    /// Items that were skipped before the run was resumed count towards the plan's `max_skipped`.
    pub fn skipped_before(mut self, skipped: u64) -> Pipeline<T> {
        self.declared.skipped = skipped;
        self
    }

    /// What will run, as plain data: to be shown, logged and checked before any thread exists.
    pub fn plan(&self) -> &Plan {
        &self.declared.plan
    }

    /// Whether it can be started; the first thing that is wrong otherwise.
    pub fn check(&self) -> Result<(), StartError> {
        plan::check(&self.declared.plan)?;
        self.declared.check_single()
    }

    /// Checks the plan, then starts all threads.
    pub fn start(self, recorder: Recorder) -> Result<Running<T>, StartError> {
        self.check()?;
        let it = self.declared;
        let (groups, single) = (it.groups, it.single);
        let mut assembly = Assembly::new(it.plan, recorder, &it.from, groups, single, it.skipped)?;
        let flow = (self.assemble)(&mut assembly)?;
        assembly.name_consumer(&it.naming);
        let (shared, starts) = assembly.finish();
        let mut running = Running::new(flow, shared, it.from);
        for start in starts {
            // What already runs is joined when `running` is dropped.
            start().map_err(StartError::Thread)?;
        }
        running.monitor = Monitor::start(&running.control).map_err(StartError::Thread)?;
        Ok(running)
    }
}

impl Declared {
    /// What the source and the batching stages ask of a plan.
    fn check_single(&self) -> Result<(), StartError> {
        let stages = &self.plan.stages;
        for &index in &self.single {
            let stage = &stages[index];
            if stage.workers.value != 1 {
                return Err(StartError::OneWorkerOnly {
                    stage: stage.name.clone(),
                    workers: stage.workers.value,
                });
            }
            if stage.on_error.retries > 0 {
                return Err(StartError::CannotRetry(stage.name.clone()));
            }
        }
        let last = stages.len() - 1;
        if self.plan.slots.is_some() && self.single.contains(&last) {
            return Err(StartError::NothingFillsSlots(stages[last].name.clone()));
        }
        // Where order is free, only the first stage behind the source admits items in their order; later
        // on, unfinished batches could hold all the bytes that the missing members of others need.
        let batching = self.single.iter().filter(|&&index| index > 0);
        for &index in batching.filter(|_| self.plan.order == Order::Free) {
            let budget = &stages[index].budget;
            let entered = stages.iter().position(|stage| stage.budget == *budget);
            if let (Some(budget), Some(entered @ 2..)) = (budget, entered) {
                return Err(StartError::BatchesOutOfOrder {
                    stage: stages[entered - 1].name.clone(),
                    budget: budget.clone(),
                });
            }
        }
        match stages[0].budget {
            Some(_) => Err(StartError::SourceInBudget(stages[0].name.clone())),
            None => Ok(()),
        }
    }
}

/// A name must never be the reason why something fails.
fn safe_naming(name: impl Fn(u64) -> String + Send + Sync + 'static) -> Naming {
    Arc::new(move |number| {
        catch_panic(|| name(number))
            .unwrap_or_else(|_| format!("item {number}, whose name is not known"))
    })
}
