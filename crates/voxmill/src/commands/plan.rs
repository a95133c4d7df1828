//! `voxmill plan`: a run on hardware that is not there, from a file of stage times or from a log with changes.

use voxmill_analysis::plan::{Planned, plan, plan_of_log};
use voxmill_analysis::simulate::model::RunModel;
use voxmill_analysis::simulate::what_if::{WhatIfError, parse, predict};
use voxmill_report::terminal::plan_text;
use voxmill_settings::args::{PlanArgs, runs_dir};
use voxmill_settings::config::plan::read;
use voxmill_settings::error::UserError;

use super::{paint, print_result};
use crate::session::predictions;
use voxmill_settings::recorded::{find, read_run};

/// Of a run whose length nobody stated.
const STEPS: u64 = 100_000;

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let planned = match (&args.file, &args.replay) {
        (Some(run), _) if run.is_dir() => {
            let what = format!(
                "`{}` is a folder, and no file with stage times",
                run.display()
            );
            let hint = format!(
                "a run's log is taken with --replay: `voxmill plan --replay {} --what-if 'model=2x'`",
                run.display()
            );
            return Err(UserError::new(what, hint).into());
        }
        (Some(file), _) => {
            let mut run = read(file)?;
            run.steps = args.steps.unwrap_or(run.steps);
            plan(&run).map_err(|error| {
                let hint = "give each stage workers and room, and the run slots and steps";
                UserError::new(format!("cannot plan `{}`: {error}", file.display()), hint)
            })?
        }
        (None, Some(log)) => of_log(log, args)?,
        (None, None) => {
            let hint = "give a YAML file, or --replay with a run and --what-if";
            return Err(UserError::new("there is nothing to plan", hint).into());
        }
    };
    print_result(&planned, args.json, |planned| plan_text(planned, paint()))
}

fn of_log(log: &std::path::Path, args: &PlanArgs) -> anyhow::Result<Planned> {
    let unanswered =
        |error: WhatIfError| UserError::new(format!("--what-if: {error}"), error.hint());
    let question = args.what_if.as_deref().unwrap_or_default();
    let changes = parse(question).map_err(|refusal| unanswered(refusal.into()))?;
    let log = find(&runs_dir(None), log)?;
    let run = read_run(&log)?;
    let model = RunModel::of(&run).map_err(|error| unanswered(error.into()))?;
    let prediction = predict(&model, &changes).map_err(unanswered)?;
    predictions::keep(&log, &run, std::slice::from_ref(&prediction), "plan");
    Ok(plan_of_log(prediction, args.steps.unwrap_or(STEPS)))
}
