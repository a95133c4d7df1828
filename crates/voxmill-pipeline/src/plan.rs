//! A run as plain data, before any thread exists: checked here and put into words.
//!
//! The types are those that the log stores; a [`Pipeline`](crate::Pipeline) fills them as its stages are
//! declared.

use std::fmt::{self, Write};

pub use voxmill_telemetry::plan::{
    AdaptPlan, AfterError, BudgetPlan, OnError, Order, Plan, Setting, SlotsPlan, StagePlan,
};

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
         items enter a budget, so a pipeline may enter each only once"
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

/// Whether the plan can be run; the first thing that is wrong otherwise.
pub fn check(plan: &Plan) -> Result<(), PlanError> {
    if plan.stages.is_empty() {
        return Err(PlanError::NoStages {
            plan: plan.name.clone(),
        });
    }
    for (index, budget) in plan.budgets.iter().enumerate() {
        if budget.bytes == 0 {
            return Err(PlanError::EmptyBudget {
                budget: budget.name.clone(),
            });
        }
        if plan.budgets[..index].iter().any(|b| b.name == budget.name) {
            return Err(PlanError::SameBudget {
                budget: budget.name.clone(),
            });
        }
    }
    for (index, stage) in plan.stages.iter().enumerate() {
        check_stage(plan, index, stage)?;
    }
    if let Some(slots) = &plan.slots {
        check_slots(plan, slots)?;
    }
    if !(0.0..=1e6).contains(&plan.start_delay_seconds) {
        return Err(PlanError::BadStartDelay {
            seconds: plan.start_delay_seconds.to_string(),
        });
    }
    if let Some(adapt) = plan.adapt {
        let fixed = plan.stages.iter().filter(|stage| stage.workers.fixed);
        let fixed = fixed.map(|stage| stage.workers.value).sum();
        let workers = plan.stages.iter().map(|stage| stage.workers.value).sum();
        if workers > adapt.most_workers.max(fixed) {
            return Err(PlanError::WorkersBeyondLimit {
                workers,
                fixed,
                most: adapt.most_workers,
            });
        }
    }
    Ok(())
}

fn check_stage(plan: &Plan, index: usize, stage: &StagePlan) -> Result<(), PlanError> {
    let before = &plan.stages[..index];
    let name = || stage.name.clone();
    if stage.name.is_empty() {
        return Err(PlanError::NamelessStage {
            plan: plan.name.clone(),
        });
    }
    if stage.name == plan.consumer || before.iter().any(|other| other.name == stage.name) {
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
    if !plan.budgets.iter().any(|known| &known.name == budget) {
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

fn check_slots(plan: &Plan, slots: &SlotsPlan) -> Result<(), PlanError> {
    if slots.ahead.value == 0 {
        return Err(PlanError::NoSlots);
    }
    let Some(name) = &slots.budget else {
        return Ok(());
    };
    let Some(budget) = plan.budgets.iter().find(|budget| &budget.name == name) else {
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

/// The plan as a person reads it: a line a stage, in the order of the pipeline.
pub fn describe(plan: &Plan) -> String {
    let mut text = String::new();
    // A string takes whatever is written to it.
    let _ = write_plan(&mut text, plan);
    text
}

fn write_plan(f: &mut String, plan: &Plan) -> fmt::Result {
    let shown = |setting: Setting| match setting.fixed {
        true => format!("{} (fixed)", setting.value),
        false => setting.value.to_string(),
    };
    let order = match plan.order {
        Order::Kept => "in order",
        Order::Free => "in any order",
    };
    let overlap = if plan.overlap {
        "stages overlap"
    } else {
        "one stage after another"
    };
    writeln!(f, "{}: {order}, {overlap}", plan.name)?;
    let names = plan.stages.iter().map(|stage| stage.name.len());
    let width = names.chain([plan.consumer.len()]).max().unwrap_or(0);
    for stage in &plan.stages {
        write!(
            f,
            "  {:width$}  workers {}, buffer {}",
            stage.name,
            shown(stage.workers),
            shown(stage.buffer)
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
    write!(f, "  {:width$}  takes", plan.consumer)?;
    match &plan.slots {
        Some(slots) => write!(f, " from {} slots ahead", shown(slots.ahead))?,
        None => write!(f, " from the buffer")?,
    }
    if plan.start_delay_seconds > 0.0 {
        write!(
            f,
            ", starts when full or after {} s",
            plan.start_delay_seconds
        )?;
    }
    writeln!(f)?;
    for budget in &plan.budgets {
        writeln!(
            f,
            "  budget {}: {:.1} MB",
            budget.name,
            budget.bytes as f64 / 1e6
        )?;
    }
    match plan.adapt {
        Some(adapt) => writeln!(
            f,
            "  adapts: at most {} workers, buffers of at most {}",
            adapt.most_workers, adapt.most_buffered
        ),
        None => writeln!(f, "  does not adapt"),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::builder::Pipeline;
    use crate::stage::Work;

    /// A plan with something of everything.
    fn training() -> Plan {
        let pass = || Work::new(Ok::<u64, Infallible>);
        let whole_run = Plan {
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
        };
        let pipeline = Pipeline::source(whole_run, "plan", numbers)
            .budget("host", 4_000_000_000)
            .budget("device 0", 200_000_000)
            .stage("featurize", pass())
            .workers(Setting::fixed(6))
            .buffer(Setting::from(64))
            .in_budget("host")
            .on_error(2, AfterError::Skip)
            .stage("batch", pass())
            .in_budget("host")
            .stage("transfer", pass())
            .on_error(1, AfterError::Stop);
        pipeline.plan().clone()
    }

    fn numbers(from: u64) -> impl Iterator<Item = Result<u64, Infallible>> + Send {
        (from..10).map(Ok)
    }

    #[test]
    fn a_plan_reads_like_the_road_it_is() {
        assert_eq!(check(&training()), Ok(()));
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
        assert_eq!(describe(&training()), said);
        let plain = Plan {
            order: Order::Free,
            overlap: false,
            ..Plan::new("prepare", "cache")
        };
        let plain = Pipeline::source(plain, "clips", numbers).on_error(0, AfterError::Skip);
        let plain = plain.plan();
        let said = "\
prepare: in any order, one stage after another
  clips  workers 1, buffer 2, skips errors
  cache  takes from the buffer
  does not adapt
";
        assert_eq!(describe(plain), said);
    }

    /// What the check says of a training plan that was spoilt.
    fn spoilt(spoil: impl FnOnce(&mut Plan)) -> PlanError {
        let mut plan = training();
        spoil(&mut plan);
        check(&plan).unwrap_err()
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
        assert_eq!(check(&plan), Ok(()), "what the user fixed is respected");
    }
}
