//! A run as plain data, before any thread exists: checked here and put into words.
//!
//! The types are those that the log stores; a [`Pipeline`](crate::Pipeline) fills them as its stages are
//! declared.

use std::fmt::{self, Write};
use voxmill_format::{counted, size};

pub use voxmill_telemetry::plan::{
    AdaptPlan, AfterError, BudgetPlan, OnError, Order, Plan, Setting, SlotsPlan, StagePlan,
};

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the plan `{0}` has no stages")]
    NoStages(String),
    #[error("a stage of the plan `{0}` has no name")]
    NamelessStage(String),
    #[error("two stages are named `{0}`")]
    SameName(String),
    #[error("two budgets are named `{0}`")]
    SameBudget(String),
    #[error("stage `{0}` has no workers")]
    NoWorkers(String),
    #[error("the buffer behind stage `{0}` holds nothing")]
    NoBuffer(String),
    #[error("`{user}` uses the budget `{budget}`, which the plan does not name")]
    UnknownBudget { user: String, budget: String },
    #[error("budget `{0}` has no bytes")]
    EmptyBudget(String),
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
    #[error("the longest wait at the start, {0} s, is not a time span")]
    BadStartDelay(String),
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
        return Err(PlanError::NoStages(plan.name.clone()));
    }
    for (index, budget) in plan.budgets.iter().enumerate() {
        if budget.bytes == 0 {
            return Err(PlanError::EmptyBudget(budget.name.clone()));
        }
        if plan.budgets[..index].iter().any(|b| b.name == budget.name) {
            return Err(PlanError::SameBudget(budget.name.clone()));
        }
    }
    for (index, stage) in plan.stages.iter().enumerate() {
        check_stage(plan, index, stage)?;
    }
    if let Some(slots) = &plan.slots {
        check_slots(plan, slots)?;
    }
    if !(0.0..=1e6).contains(&plan.start_delay_seconds) {
        let seconds = plan.start_delay_seconds.to_string();
        return Err(PlanError::BadStartDelay(seconds));
    }
    if let Some(adapt) = plan.adapt {
        let fixed = plan.stages.iter().filter(|stage| stage.workers.fixed);
        let fixed = fixed.map(|stage| stage.workers.value).sum();
        let workers = plan.stages.iter().map(|stage| stage.workers.value).sum();
        let most = adapt.most_workers;
        if workers > most.max(fixed) {
            return Err(PlanError::WorkersBeyondLimit {
                workers,
                fixed,
                most,
            });
        }
    }
    Ok(())
}

fn check_stage(plan: &Plan, index: usize, stage: &StagePlan) -> Result<(), PlanError> {
    let before = &plan.stages[..index];
    let name = || stage.name.clone();
    if stage.name.is_empty() {
        return Err(PlanError::NamelessStage(plan.name.clone()));
    }
    if stage.name == plan.consumer || before.iter().any(|other| other.name == stage.name) {
        return Err(PlanError::SameName(name()));
    }
    if stage.workers.value == 0 {
        return Err(PlanError::NoWorkers(name()));
    }
    if stage.buffer.value == 0 {
        return Err(PlanError::NoBuffer(name()));
    }
    let Some(budget) = &stage.budget else {
        return Ok(());
    };
    find_budget(plan, &stage.name, budget)?;
    let used = |other: &StagePlan| other.budget == stage.budget;
    if before.iter().any(used) && !before.last().is_some_and(used) {
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
    let budget = find_budget(plan, "slots", name)?;
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

fn find_budget<'a>(plan: &'a Plan, user: &str, name: &str) -> Result<&'a BudgetPlan, PlanError> {
    let found = plan.budgets.iter().find(|budget| budget.name == name);
    found.ok_or_else(|| PlanError::UnknownBudget {
        user: user.to_owned(),
        budget: name.to_owned(),
    })
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
        let (workers, buffer) = (shown(stage.workers), shown(stage.buffer));
        write!(
            f,
            "  {:width$}  workers {workers}, buffer {buffer}",
            stage.name
        )?;
        if let Some(budget) = &stage.budget {
            write!(f, ", within {budget}")?;
        }
        match (stage.on_error.retries, stage.on_error.then) {
            (0, AfterError::Stop) => {}
            (0, AfterError::Skip) => write!(f, ", skips errors")?,
            (retries, AfterError::Skip) => {
                write!(f, ", retries {}, then skips", counted(retries, "time"))?;
            }
            (retries, AfterError::Stop) => {
                write!(f, ", retries {}, then stops", counted(retries, "time"))?;
            }
        }
        writeln!(f)?;
    }
    write!(f, "  {:width$}  takes", plan.consumer)?;
    match &plan.slots {
        Some(slots) => write!(f, " from {} slots ahead", shown(slots.ahead))?,
        None => write!(f, " from the buffer")?,
    }
    let delay = plan.start_delay_seconds;
    if delay > 0.0 {
        write!(f, ", starts when full or after {delay} s")?;
    }
    writeln!(f)?;
    for budget in &plan.budgets {
        writeln!(f, "  budget {}: {}", budget.name, size(budget.bytes))?;
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
    fn a_plan_reads_like_the_pipeline_it_is() {
        assert_eq!(check(&training()), Ok(()));
        let expected = "\
train: in order, stages overlap
  plan       workers 1, buffer 2
  featurize  workers 6 (fixed), buffer 64, within host, retries 2 times, then skips
  batch      workers 1, buffer 2, within host
  transfer   workers 1, buffer 2, retries 1 time, then stops
  model      takes from 3 (fixed) slots ahead, starts when full or after 2 s
  budget host: 4.0 GB
  budget device 0: 200 MB
  adapts: at most 12 workers, buffers of at most 50
";
        assert_eq!(describe(&training()), expected);
        let plain = Plan {
            order: Order::Free,
            overlap: false,
            ..Plan::new("prepare", "cache")
        };
        let plain = Pipeline::source(plain, "clips", numbers).on_error(0, AfterError::Skip);
        let expected = "\
prepare: in any order, one stage after another
  clips  workers 1, buffer 2, skips errors
  cache  takes from the buffer
  does not adapt
";
        assert_eq!(describe(plain.plan()), expected);
    }

    fn slots(plan: &mut Plan) -> &mut SlotsPlan {
        plan.slots.as_mut().unwrap()
    }

    #[test]
    fn a_plan_that_cannot_be_run_is_refused_with_the_reason() {
        let refused = |spoil: &dyn Fn(&mut Plan), expected: &str| {
            let mut plan = training();
            spoil(&mut plan);
            assert_eq!(check(&plan).unwrap_err().to_string(), expected);
        };
        refused(
            &|plan| plan.stages.clear(),
            "the plan `train` has no stages",
        );
        let error = "a stage of the plan `train` has no name";
        refused(&|plan| plan.stages[1].name.clear(), error);
        for taken in ["batch", "model"] {
            let error = format!("two stages are named `{taken}`");
            refused(&|plan| plan.stages[3].name = taken.into(), &error);
        }
        let error = "stage `featurize` has no workers";
        refused(&|plan| plan.stages[1].workers = Setting::fixed(0), error);
        let error = "the buffer behind stage `featurize` holds nothing";
        refused(&|plan| plan.stages[1].buffer = Setting::from(0), error);

        refused(
            &|plan| plan.budgets[0].bytes = 0,
            "budget `host` has no bytes",
        );
        let error = "two budgets are named `host`";
        refused(&|plan| plan.budgets[1].name = "host".into(), error);
        let error = "`transfer` uses the budget `disk`, which the plan does not name";
        refused(&|plan| plan.stages[3].budget = Some("disk".into()), error);
        // Out of the host's budget and in again: the way in could wait for the way back.
        let in_again = |plan: &mut Plan| {
            plan.stages[2].budget = None;
            plan.stages[3].budget = Some("host".into());
        };
        let error = "stage `transfer` comes back to the budget `host` after another: bytes are granted \
                     where items enter a budget, so a pipeline may enter each only once";
        refused(&in_again, error);

        let error = "slots need at least one place ahead of the one in training";
        refused(&|plan| slots(plan).ahead.value = 0, error);
        let error =
            "5 slots of 50000000 bytes do not fit into the budget `device 0` of 200000000 bytes";
        refused(&|plan| slots(plan).ahead.value = 4, error);
        let error = "4 slots of 18446744073709551615 bytes do not fit into the budget `device 0` of \
                     200000000 bytes";
        refused(&|plan| slots(plan).bytes_each = u64::MAX, error);
        let error = "`slots` uses the budget `device 9`, which the plan does not name";
        refused(&|plan| slots(plan).budget = Some("device 9".into()), error);

        for (seconds, shown) in [(-1.0, "-1"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let error = format!("the longest wait at the start, {shown} s, is not a time span");
            refused(&|plan| plan.start_delay_seconds = seconds, &error);
        }
        let error =
            "the plan asks for 9 workers and 6 of them are fixed, but the controller may use 8";
        refused(&|plan| plan.adapt.as_mut().unwrap().most_workers = 8, error);
    }

    #[test]
    fn what_the_user_fixed_may_exceed_the_limit_of_a_plan_that_adapts() {
        let mut plan = training();
        plan.adapt.as_mut().unwrap().most_workers = 8;
        for stage in &mut plan.stages {
            stage.workers.fixed = true;
        }
        assert_eq!(check(&plan), Ok(()));
    }
}
