//! A plan and the functions of its stages, put together and then run.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use voxmill_telemetry::plan::{Order, Plan, PlanError};
use voxmill_telemetry::recorder::{Naming, Recorder};

use crate::assembly::{Assembly, Flow};
use crate::budget::Refused;
use crate::group::{EmptyGroup, Group, Groups};
use crate::item::BoxError;
use crate::position::Position;
use crate::run::Running;
use crate::stage::Work;

/// Why a road cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("the plan has stage `{planned}` where the road has `{found}`")]
    OtherStage { planned: String, found: String },
    #[error("the plan has {planned} stages and the road has {found}")]
    StageCount { planned: usize, found: usize },
    #[error("stage `{stage}` is to retry, but its work is not `retrying`")]
    CannotRetry { stage: String },
    #[error("stage `{stage}` enters the budget `{budget}`, but its work is not `reserving`")]
    ReservesNothing { stage: String, budget: String },
    #[error("stage `{stage}` has one worker by its nature, and the plan gives it {workers}")]
    OneWorkerOnly { stage: String, workers: usize },
    #[error("the source `{stage}` cannot be within a budget: bytes are admitted behind it")]
    SourceInBudget { stage: String },
    #[error("slots are filled by the function of the last stage, and `{stage}` has none")]
    NothingFillsSlots { stage: String },
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

/// Where items of type `T` come out: another stage can be put on, or it can be started.
pub struct Road<T> {
    plan: Plan,
    /// Names of the stages so far.
    stages: Vec<String>,
    /// Stages that have one worker by their nature.
    single: Vec<usize>,
    groups: Vec<Groups>,
    position: Position,
    skipped: u64,
    /// How the items of this part of the road are called; the next batching begins a new part.
    naming: Arc<OnceLock<Naming>>,
    assemble: Assemble<T>,
}

type Assemble<T> = Box<dyn FnOnce(&mut Assembly) -> Result<Flow<T>, StartError> + Send>;

impl<T> fmt::Debug for Road<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Road")
            .field("plan", &self.plan)
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Road<T> {
    /// A road begins with its source: a function that gives the items from a number on. Item `n` must
    /// be the same whenever it is asked for; that is what makes a position enough to resume.
    pub fn source<I, E>(
        plan: Plan,
        name: &str,
        items_from: impl FnOnce(u64) -> I + Send + 'static,
    ) -> Road<T>
    where
        I: Iterator<Item = Result<T, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let naming = Arc::new(OnceLock::new());
        let part_naming = Arc::clone(&naming);
        Road {
            plan,
            stages: vec![name.to_owned()],
            single: vec![0],
            groups: Vec::new(),
            position: Position::default(),
            skipped: 0,
            naming,
            assemble: Box::new(move |assembly| {
                let stage = assembly.stage(&part_naming);
                let items = items_from(assembly.first_item());
                let items = items.map(|item| item.map_err(Into::into));
                Ok(assembly.put_source(stage, Box::new(items)))
            }),
        }
    }

    /// How the items of this part of the road are called in messages, by number.
    pub fn named(self, name: impl Fn(u64) -> String + Send + Sync + 'static) -> Road<T> {
        // The first name given is kept.
        let _ = self.naming.set(safe_naming(name));
        self
    }

    /// Goes on from where an earlier run was. Numbers are the consumer's.
    pub fn resume_at(self, position: Position) -> Road<T> {
        Road { position, ..self }
    }

    /// Items that were skipped before the run was resumed count towards the plan's `max_skipped`.
    pub fn skipped_before(self, skipped: u64) -> Road<T> {
        Road { skipped, ..self }
    }

    pub fn stage<U: Send + 'static>(mut self, name: &str, work: Work<T, U>) -> Road<U> {
        self.stages.push(name.to_owned());
        let (before, naming) = (self.assemble, Arc::clone(&self.naming));
        Road {
            plan: self.plan,
            stages: self.stages,
            single: self.single,
            groups: self.groups,
            position: self.position,
            skipped: self.skipped,
            naming: self.naming,
            assemble: Box::new(move |assembly| {
                let input = before(assembly)?;
                let stage = assembly.stage(&naming);
                assembly.put_stage(stage, input, work)
            }),
        }
    }

    /// The end of a road whose last stage takes everything: nothing comes out but the count.
    pub fn sink(self, name: &str, work: Work<T, ()>) -> Road<()> {
        self.stage(name, work)
    }

    /// Items that belong together become one.
    pub fn batch(mut self, name: &str, groups: Groups) -> Road<Group<T>> {
        self.single.push(self.stages.len());
        self.stages.push(name.to_owned());
        self.groups.push(groups.clone());
        let (before, naming) = (self.assemble, self.naming);
        let next_naming = Arc::new(OnceLock::new());
        Road {
            plan: self.plan,
            stages: self.stages,
            single: self.single,
            groups: self.groups,
            position: self.position,
            skipped: self.skipped,
            naming: Arc::clone(&next_naming),
            assemble: Box::new(move |assembly| {
                let input = before(assembly)?;
                let stage = assembly.stage(&naming);
                assembly.put_batching(stage, input, groups, &next_naming)
            }),
        }
    }

    /// Checks that plan and road agree, then starts all threads.
    pub fn start(self, recorder: Recorder) -> Result<Running<T>, StartError> {
        let plan = self.plan;
        plan.check()?;
        agree(&plan, &self.stages, &self.single)?;
        let mut assembly =
            Assembly::new(plan, recorder, &self.position, self.groups, self.skipped)?;
        let flow = (self.assemble)(&mut assembly)?;
        assembly.name_consumer(&self.naming);
        let (shared, starts) = assembly.finish(self.single);
        let mut running = Running::new(flow, shared, self.position);
        for start in starts {
            // What already runs is joined when `running` is dropped.
            start().map_err(StartError::Thread)?;
        }
        running.watch_over().map_err(StartError::Thread)?;
        Ok(running)
    }
}

/// Whether the plan is one of this road.
fn agree(plan: &Plan, stages: &[String], single: &[usize]) -> Result<(), StartError> {
    for (planned, found) in plan.stages.iter().zip(stages) {
        if planned.name != *found {
            return Err(StartError::OtherStage {
                planned: planned.name.clone(),
                found: found.clone(),
            });
        }
    }
    if plan.stages.len() != stages.len() {
        return Err(StartError::StageCount {
            planned: plan.stages.len(),
            found: stages.len(),
        });
    }
    for &index in single {
        let stage = &plan.stages[index];
        if stage.workers.value != 1 {
            return Err(StartError::OneWorkerOnly {
                stage: stage.name.clone(),
                workers: stage.workers.value,
            });
        }
        if stage.on_error.retries > 0 {
            return Err(StartError::CannotRetry {
                stage: stage.name.clone(),
            });
        }
    }
    if plan.slots.is_some() && single.contains(&(stages.len() - 1)) {
        return Err(StartError::NothingFillsSlots {
            stage: stages[stages.len() - 1].clone(),
        });
    }
    // Where order is free, only the first stage behind the source admits items in their order; later
    // on, unfinished batches could hold all the bytes that the missing members of others need.
    for &index in single
        .iter()
        .filter(|&&index| index > 0 && plan.order == Order::Free)
    {
        let budget = &plan.stages[index].budget;
        let entered = plan.stages.iter().position(|stage| stage.budget == *budget);
        if let (Some(budget), Some(entered @ 2..)) = (budget, entered) {
            return Err(StartError::BatchesOutOfOrder {
                stage: plan.stages[entered - 1].name.clone(),
                budget: budget.clone(),
            });
        }
    }
    match &plan.stages[0] {
        source if source.budget.is_some() => Err(StartError::SourceInBudget {
            stage: source.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// A name must never be the reason why something fails.
fn safe_naming(name: impl Fn(u64) -> String + Send + Sync + 'static) -> Naming {
    Arc::new(move |number| {
        catch_unwind(AssertUnwindSafe(|| name(number)))
            .unwrap_or_else(|_| format!("item {number}, whose name is not known"))
    })
}
