//! A run as plain data, before any thread exists: stages, workers, buffers, slots and budgets.
//!
//! A plan is built, checked ([`Plan::check`]), printed and stored with the run's log; only then does
//! a pipeline run it. The order of `stages` is the order of the road: the first is the source, and
//! what comes behind the last is the consumer.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub stages: Vec<StagePlan>,
    /// Who takes the items at the end of the road.
    pub consumer: String,
    #[serde(default)]
    pub budgets: Vec<BudgetPlan>,
    /// Places on the consumer's device; without them the last stage has an ordinary buffer.
    #[serde(default)]
    pub slots: Option<SlotsPlan>,
    #[serde(default)]
    pub order: Order,
    /// The longest that the consumer waits for full slots (or a full buffer) before its first item.
    /// Zero: it takes the first item as soon as it is there.
    #[serde(default)]
    pub start_delay_seconds: f64,
    /// `false`: the stages run one after another on the consumer's thread.
    pub overlap: bool,
    #[serde(default)]
    pub adapt: Option<AdaptPlan>,
    /// More skipped items than this stop the run.
    #[serde(default)]
    pub max_skipped: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Items leave every stage in the order in which they came, whatever the number of workers.
    #[default]
    Kept,
    /// Items leave a stage as they are done.
    Free,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    pub name: String,
    pub workers: Setting,
    /// How many finished items may wait behind this stage.
    pub buffer: Setting,
    /// The budget that the stage's results live in.
    #[serde(default)]
    pub budget: Option<String>,
    #[serde(default)]
    pub on_error: OnError,
}

/// A count that the controller may move, unless the user fixed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub value: usize,
    #[serde(default)]
    pub fixed: bool,
}

/// What becomes of an item that a stage fails on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnError {
    /// Tries after the first; a panic is not tried again.
    pub retries: u32,
    pub then: AfterError,
}

impl Default for OnError {
    fn default() -> OnError {
        OnError {
            retries: 0,
            then: AfterError::Stop,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterError {
    /// The item becomes a hole that the consumer is told of.
    Skip,
    /// The run ends with the error, after all items before it.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetPlan {
    pub name: String,
    pub bytes: u64,
}

/// Places on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotsPlan {
    /// Batches in preparation or ready; the one in training has a place besides.
    pub ahead: Setting,
    /// The largest batch.
    pub bytes_each: u64,
    /// The device's budget, which the places take their bytes from once.
    #[serde(default)]
    pub budget: Option<String>,
}

impl SlotsPlan {
    /// All places: those ahead and the one in training.
    pub fn places(&self) -> usize {
        self.ahead.value + 1
    }
}

/// What the adaptive controller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdaptPlan {
    /// Workers of all stages together.
    pub most_workers: usize,
    /// Items in any one buffer.
    pub most_buffered: usize,
}

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the plan `{plan}` has no stages")]
    NoStages { plan: String },
    #[error("a stage of the plan `{plan}` has no name")]
    NamelessStage { plan: String },
    #[error("two stages are named `{stage}`")]
    SameName { stage: String },
    #[error("two budgets are named `{budget}`")]
    SameBudget { budget: String },
    #[error("stage `{stage}` has no workers")]
    NoWorkers { stage: String },
    #[error("the buffer behind stage `{stage}` holds nothing")]
    NoBuffer { stage: String },
    #[error("`{user}` uses the budget `{budget}`, which the plan does not name")]
    UnknownBudget { user: String, budget: String },
    #[error("budget `{budget}` has no bytes")]
    EmptyBudget { budget: String },
    #[error(
        "stage `{stage}` comes back to the budget `{budget}` after another: bytes are granted where \
         items enter a budget, so a road may enter each only once"
    )]
    BudgetEnteredTwice { stage: String, budget: String },
    #[error("slots need at least one place ahead of the one in training")]
    NoSlots,
    #[error(
        "{places} slots of {bytes_each} bytes do not fit into the budget `{budget}` of {bytes} bytes"
    )]
    SlotsBeyondBudget {
        places: usize,
        bytes_each: u64,
        budget: String,
        bytes: u64,
    },
    #[error("the longest wait at the start, {seconds} s, is not a time span")]
    BadStartDelay { seconds: String },
    #[error(
        "the plan asks for {workers} workers and {fixed} of them are fixed, but the controller may use {most}"
    )]
    WorkersBeyondLimit {
        workers: usize,
        fixed: usize,
        most: usize,
    },
}

impl Setting {
    /// A value that the controller may move.
    pub fn from(value: usize) -> Setting {
        Setting {
            value,
            fixed: false,
        }
    }

    /// A value that the user chose.
    pub fn fixed(value: usize) -> Setting {
        Setting { value, fixed: true }
    }
}

impl StagePlan {
    /// One worker and two places behind it, both free to move; an error stops the run.
    pub fn new(name: impl Into<String>) -> StagePlan {
        StagePlan {
            name: name.into(),
            workers: Setting::from(1),
            buffer: Setting::from(2),
            budget: None,
            on_error: OnError::default(),
        }
    }

    pub fn workers(self, workers: Setting) -> StagePlan {
        StagePlan { workers, ..self }
    }

    pub fn buffer(self, buffer: Setting) -> StagePlan {
        StagePlan { buffer, ..self }
    }

    pub fn in_budget(self, budget: impl Into<String>) -> StagePlan {
        StagePlan {
            budget: Some(budget.into()),
            ..self
        }
    }

    pub fn on_error(self, retries: u32, then: AfterError) -> StagePlan {
        StagePlan {
            on_error: OnError { retries, then },
            ..self
        }
    }
}

impl Plan {
    /// An ordered, overlapped road without budgets, slots or a controller.
    pub fn new(name: impl Into<String>, consumer: impl Into<String>) -> Plan {
        Plan {
            name: name.into(),
            stages: Vec::new(),
            consumer: consumer.into(),
            budgets: Vec::new(),
            slots: None,
            order: Order::Kept,
            start_delay_seconds: 0.0,
            overlap: true,
            adapt: None,
            max_skipped: None,
        }
    }

    pub fn stage(mut self, stage: StagePlan) -> Plan {
        self.stages.push(stage);
        self
    }

    pub fn budget(mut self, name: impl Into<String>, bytes: u64) -> Plan {
        self.budgets.push(BudgetPlan {
            name: name.into(),
            bytes,
        });
        self
    }

    pub fn workers(&self) -> usize {
        self.stages.iter().map(|stage| stage.workers.value).sum()
    }

    /// Whether the plan can be run; the first thing that is wrong otherwise.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.stages.is_empty() {
            return Err(PlanError::NoStages {
                plan: self.name.clone(),
            });
        }
        for (index, budget) in self.budgets.iter().enumerate() {
            if budget.bytes == 0 {
                return Err(PlanError::EmptyBudget {
                    budget: budget.name.clone(),
                });
            }
            if self.budgets[..index].iter().any(|b| b.name == budget.name) {
                return Err(PlanError::SameBudget {
                    budget: budget.name.clone(),
                });
            }
        }
        for (index, stage) in self.stages.iter().enumerate() {
            self.check_stage(index, stage)?;
        }
        if let Some(slots) = &self.slots {
            self.check_slots(slots)?;
        }
        if !(0.0..=1e6).contains(&self.start_delay_seconds) {
            return Err(PlanError::BadStartDelay {
                seconds: self.start_delay_seconds.to_string(),
            });
        }
        if let Some(adapt) = self.adapt {
            let fixed = self.stages.iter().filter(|stage| stage.workers.fixed);
            let fixed = fixed.map(|stage| stage.workers.value).sum();
            if self.workers() > adapt.most_workers.max(fixed) {
                return Err(PlanError::WorkersBeyondLimit {
                    workers: self.workers(),
                    fixed,
                    most: adapt.most_workers,
                });
            }
        }
        Ok(())
    }

    fn check_stage(&self, index: usize, stage: &StagePlan) -> Result<(), PlanError> {
        let before = &self.stages[..index];
        let name = || stage.name.clone();
        if stage.name.is_empty() {
            return Err(PlanError::NamelessStage {
                plan: self.name.clone(),
            });
        }
        if stage.name == self.consumer || before.iter().any(|other| other.name == stage.name) {
            return Err(PlanError::SameName { stage: name() });
        }
        if stage.workers.value == 0 {
            return Err(PlanError::NoWorkers { stage: name() });
        }
        if stage.buffer.value == 0 {
            return Err(PlanError::NoBuffer { stage: name() });
        }
        let Some(budget) = &stage.budget else {
            return Ok(());
        };
        if !self.budgets.iter().any(|known| &known.name == budget) {
            return Err(PlanError::UnknownBudget {
                user: name(),
                budget: budget.clone(),
            });
        }
        let used_before = before.iter().any(|s| s.budget.as_ref() == Some(budget));
        let used_just_before = before
            .last()
            .is_some_and(|s| s.budget.as_ref() == Some(budget));
        if used_before && !used_just_before {
            return Err(PlanError::BudgetEnteredTwice {
                stage: name(),
                budget: budget.clone(),
            });
        }
        Ok(())
    }

    fn check_slots(&self, slots: &SlotsPlan) -> Result<(), PlanError> {
        if slots.ahead.value == 0 {
            return Err(PlanError::NoSlots);
        }
        let Some(name) = &slots.budget else {
            return Ok(());
        };
        let Some(budget) = self.budgets.iter().find(|budget| &budget.name == name) else {
            return Err(PlanError::UnknownBudget {
                user: "slots".to_owned(),
                budget: name.clone(),
            });
        };
        if slots.bytes_each.saturating_mul(slots.places() as u64) > budget.bytes {
            return Err(PlanError::SlotsBeyondBudget {
                places: slots.places(),
                bytes_each: slots.bytes_each,
                budget: name.clone(),
                bytes: budget.bytes,
            });
        }
        Ok(())
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            self.value,
            if self.fixed { " (fixed)" } else { "" }
        )
    }
}

/// The plan as a person reads it: a line a stage, in the order of the road.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Kept => "in order",
            Order::Free => "in any order",
        };
        let overlap = if self.overlap {
            "stages overlap"
        } else {
            "one stage after another"
        };
        writeln!(f, "{}: {order}, {overlap}", self.name)?;
        let names = self.stages.iter().map(|stage| stage.name.len());
        let width = names.chain([self.consumer.len()]).max().unwrap_or(0);
        for stage in &self.stages {
            write!(
                f,
                "  {:width$}  workers {}, buffer {}",
                stage.name, stage.workers, stage.buffer
            )?;
            if let Some(budget) = &stage.budget {
                write!(f, ", within {budget}")?;
            }
            match stage.on_error {
                OnError {
                    retries: 0,
                    then: AfterError::Stop,
                } => {}
                OnError {
                    retries: 0,
                    then: AfterError::Skip,
                } => write!(f, ", skips errors")?,
                OnError {
                    retries,
                    then: AfterError::Skip,
                } => {
                    write!(f, ", retries {retries} times, then skips")?;
                }
                OnError {
                    retries,
                    then: AfterError::Stop,
                } => {
                    write!(f, ", retries {retries} times, then stops")?;
                }
            }
            writeln!(f)?;
        }
        write!(f, "  {:width$}  takes", self.consumer)?;
        match &self.slots {
            Some(slots) => write!(f, " from {} slots ahead", slots.ahead)?,
            None => write!(f, " from the buffer")?,
        }
        if self.start_delay_seconds > 0.0 {
            write!(
                f,
                ", starts when full or after {} s",
                self.start_delay_seconds
            )?;
        }
        writeln!(f)?;
        for budget in &self.budgets {
            writeln!(
                f,
                "  budget {}: {:.1} MB",
                budget.name,
                budget.bytes as f64 / 1e6
            )?;
        }
        match self.adapt {
            Some(adapt) => writeln!(
                f,
                "  adapts: at most {} workers, buffers of at most {}",
                adapt.most_workers, adapt.most_buffered
            ),
            None => writeln!(f, "  does not adapt"),
        }
    }
}
