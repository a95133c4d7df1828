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
    /// The run ends with the error; where order is kept, after all items before it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan with something of everything.
    fn training() -> Plan {
        Plan {
            slots: Some(SlotsPlan {
                ahead: Setting::fixed(3),
                bytes_each: 50_000_000,
                budget: Some("device 0".into()),
            }),
            start_delay_seconds: 2.0,
            adapt: Some(AdaptPlan {
                most_workers: 12,
                most_buffered: 50,
            }),
            max_skipped: Some(100),
            ..Plan::new("train", "model")
                .stage(StagePlan::new("plan"))
                .stage(
                    StagePlan::new("featurize")
                        .workers(Setting::fixed(6))
                        .buffer(Setting::from(64))
                        .in_budget("host")
                        .on_error(2, AfterError::Skip),
                )
                .stage(StagePlan::new("batch").in_budget("host"))
                .stage(StagePlan::new("transfer").on_error(1, AfterError::Stop))
                .budget("host", 4_000_000_000)
                .budget("device 0", 200_000_000)
        }
    }

    #[test]
    fn a_plan_reads_like_the_road_it_is() {
        assert_eq!(training().check(), Ok(()));
        let said = "\
train: in order, stages overlap
  plan       workers 1, buffer 2
  featurize  workers 6 (fixed), buffer 64, within host, retries 2 times, then skips
  batch      workers 1, buffer 2, within host
  transfer   workers 1, buffer 2, retries 1 times, then stops
  model      takes from 3 (fixed) slots ahead, starts when full or after 2 s
  budget host: 4000.0 MB
  budget device 0: 200.0 MB
  adapts: at most 12 workers, buffers of at most 50
";
        assert_eq!(training().to_string(), said);
        let plain = Plan {
            order: Order::Free,
            overlap: false,
            ..Plan::new("prepare", "cache")
                .stage(StagePlan::new("clips").on_error(0, AfterError::Skip))
        };
        let said = "\
prepare: in any order, one stage after another
  clips  workers 1, buffer 2, skips errors
  cache  takes from the buffer
  does not adapt
";
        assert_eq!(plain.to_string(), said);
    }

    #[test]
    fn a_plan_is_the_same_after_it_was_stored() {
        let plan = training();
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }

    #[test]
    fn what_a_stored_plan_does_not_say_is_the_default() {
        let json = r#"{
            "name": "old", "consumer": "out", "overlap": true,
            "stages": [{"name": "in", "workers": {"value": 1}, "buffer": {"value": 2}}]
        }"#;
        let expected = Plan::new("old", "out").stage(StagePlan::new("in"));
        assert_eq!(serde_json::from_str::<Plan>(json).unwrap(), expected);
    }

    /// What the check says of a training plan that was spoilt.
    fn spoilt(spoil: impl FnOnce(&mut Plan)) -> PlanError {
        let mut plan = training();
        spoil(&mut plan);
        plan.check().unwrap_err()
    }

    fn stage(name: &str) -> String {
        name.to_owned()
    }

    #[test]
    fn stages_need_names_workers_and_room() {
        let plan = stage("train");
        let error = spoilt(|plan| plan.stages.clear());
        assert_eq!(error, PlanError::NoStages { plan: plan.clone() });
        let error = spoilt(|plan| plan.stages[1].name.clear());
        assert_eq!(error, PlanError::NamelessStage { plan });
        for taken in ["batch", "model"] {
            let error = spoilt(|plan| plan.stages[3].name = taken.into());
            let stage = stage(taken);
            assert_eq!(error, PlanError::SameName { stage });
        }
        let error = spoilt(|plan| plan.stages[1].workers = Setting::fixed(0));
        let featurize = stage("featurize");
        assert_eq!(
            error,
            PlanError::NoWorkers {
                stage: featurize.clone()
            }
        );
        let error = spoilt(|plan| plan.stages[1].buffer = Setting::from(0));
        assert_eq!(error, PlanError::NoBuffer { stage: featurize });
    }

    #[test]
    fn budgets_must_be_known_hold_something_and_be_entered_once() {
        let error = spoilt(|plan| plan.budgets[0].bytes = 0);
        assert_eq!(
            error,
            PlanError::EmptyBudget {
                budget: "host".into()
            }
        );
        let error = spoilt(|plan| plan.budgets[1].name = "host".into());
        assert_eq!(
            error,
            PlanError::SameBudget {
                budget: "host".into()
            }
        );
        let error = spoilt(|plan| plan.stages[3].budget = Some("disk".into()));
        assert!(matches!(error, PlanError::UnknownBudget { user, .. } if user == "transfer"));
        // Out of the host's budget and in again: the way in could wait for the way back.
        let error = spoilt(|plan| {
            plan.stages[2].budget = None;
            plan.stages[3].budget = Some("host".into());
        });
        assert!(
            matches!(error, PlanError::BudgetEnteredTwice { stage, .. } if stage == "transfer")
        );
    }

    #[test]
    fn slots_must_fit_into_their_budget() {
        let slots =
            |change: fn(&mut SlotsPlan)| spoilt(|plan| change(plan.slots.as_mut().unwrap()));
        assert_eq!(slots(|slots| slots.ahead.value = 0), PlanError::NoSlots);
        let error = slots(|slots| slots.ahead.value = 4);
        assert!(matches!(
            error,
            PlanError::SlotsBeyondBudget { places: 5, .. }
        ));
        let error = slots(|slots| slots.bytes_each = u64::MAX);
        assert!(matches!(error, PlanError::SlotsBeyondBudget { .. }));
        let error = slots(|slots| slots.budget = Some("device 9".into()));
        assert!(matches!(error, PlanError::UnknownBudget { user, .. } if user == "slots"));
    }

    #[test]
    fn the_start_delay_is_a_time_span() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY] {
            let error = spoilt(|plan| plan.start_delay_seconds = seconds);
            assert!(matches!(error, PlanError::BadStartDelay { .. }));
        }
    }

    #[test]
    fn the_workers_of_a_plan_that_adapts_are_within_its_limit_unless_all_are_fixed() {
        let error = spoilt(|plan| plan.adapt.as_mut().unwrap().most_workers = 8);
        let beyond = PlanError::WorkersBeyondLimit {
            workers: 9,
            fixed: 6,
            most: 8,
        };
        assert_eq!(error, beyond);
        let mut plan = training();
        plan.adapt.as_mut().unwrap().most_workers = 8;
        for stage in &mut plan.stages {
            stage.workers.fixed = true;
        }
        assert_eq!(plan.check(), Ok(()), "what the user fixed is respected");
    }
}
