//! `voxmill compare`: runs compared with the first of them, from their logs alone.

use std::path::{Path, PathBuf};

use voxmill_analysis::compare::{Candidate, compare};
use voxmill_report::terminal::comparison_text;
use voxmill_telemetry::log::is_being_written;

use super::{paint, print_result};
use crate::exit::Exit;
use voxmill_settings::args::{CompareArgs, runs_dir};
use voxmill_settings::error::UserError;
use voxmill_settings::recorded::{check_steps, find, log_of, names, read_run};
use voxmill_settings::run_folder::{EVENTS, settings_of};

pub(crate) fn run(args: CompareArgs) -> anyhow::Result<Exit> {
    if args.runs.len() < 2 {
        let what = "there is one run, and nothing to compare it with";
        let hint = "give two runs or more: voxmill compare runs/a runs/b";
        return Err(UserError::new(what, hint).into());
    }
    let paths = found(&args.runs)?;
    let runs = paths.iter().zip(names(&paths));
    let candidates = runs.map(|(path, name)| candidate(path, name));
    let candidates = candidates.collect::<anyhow::Result<Vec<Candidate>>>()?;
    let comparison = compare(&candidates, args.fail_above);
    print_result(&comparison, args.json, |c| comparison_text(c, paint()))?;
    Ok(match comparison.failed() {
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// Runs by their folders or names.
pub(super) fn found(runs: &[PathBuf]) -> Result<Vec<PathBuf>, UserError> {
    let runs = runs.iter();
    runs.map(|run| find(&runs_dir(None), run)).collect()
}

fn candidate(path: &Path, name: String) -> anyhow::Result<Candidate> {
    let log = log_of(path)?;
    // Asked before the log is read: a run that ends meanwhile has said so in what is read.
    let in_progress = is_being_written(&log);
    let run = read_run(&log)?;
    check_steps(&run, &log, in_progress)?;
    let folder = log.parent().filter(|_| log.ends_with(EVENTS));
    Ok(Candidate {
        name,
        run,
        in_progress,
        settings: folder.and_then(settings_of),
    })
}
