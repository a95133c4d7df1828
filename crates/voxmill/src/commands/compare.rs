//! `voxmill compare`: runs compared with the first of them, from their logs alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use voxmill_analysis::compare::{Candidate, compare};
use voxmill_analysis::run::Run;
use voxmill_report::terminal::comparison_text;
use voxmill_telemetry::log::is_being_written;

use super::{paint, print_result};
use crate::exit::Exit;
use crate::session::recorded::{find, read_run};
use crate::session::run_folder::{EVENTS, settings_of};
use voxmill_settings::args::{CompareArgs, runs_dir};
use voxmill_settings::error::UserError;

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

pub(super) fn found(runs: &[PathBuf]) -> Result<Vec<PathBuf>, UserError> {
    let runs = runs.iter();
    runs.map(|run| find(&runs_dir(None), run)).collect()
}

/// The last part of each path; where two are alike, the paths as they were typed.
pub(super) fn names(paths: &[PathBuf]) -> Vec<String> {
    let last = |path: &PathBuf| {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        let named = match whole.file_name().is_some_and(|name| name == EVENTS) {
            true => whole.parent().map(Path::to_owned).unwrap_or(whole),
            false => whole,
        };
        let name = named.file_name().unwrap_or(named.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let short: Vec<String> = paths.iter().map(last).collect();
    let distinct: BTreeSet<&String> = short.iter().collect();
    match distinct.len() == short.len() {
        true => short,
        false => paths
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    }
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

pub(super) fn log_of(path: &Path) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let log = path.join(EVENTS);
    if log.is_file() {
        return Ok(log);
    }
    let runs = std::fs::read_dir(path).into_iter().flatten().flatten();
    let holds_runs = { runs }.any(|run| run.path().join(EVENTS).is_file());
    Err(UserError::new(
        format!("the folder `{}` has no {EVENTS}", path.display()),
        match holds_runs {
            true => "it holds runs: give two of the folders in it",
            false => "give the folder of a run, such as runs/<time>-<name>, or its log",
        },
    )
    .into())
}

/// A run with steps, or why it has none.
pub(super) fn check_steps(run: &Run, log: &Path, in_progress: bool) -> Result<(), UserError> {
    if !run.steps.is_empty() {
        return Ok(());
    }
    let shown = log.display();
    let flaws = &run.flaws;
    if run.starts == 0 && flaws.damaged + flaws.unknown > 0 {
        let what = format!("`{shown}` is not the log of a run: no line of it is an event");
        let hint = format!("the log of a run is {EVENTS} in its folder");
        return Err(UserError::new(what, hint));
    }
    if run.starts == 0 {
        let what = format!("the log `{shown}` is empty");
        let hint = "its run ended before it began; give another one";
        return Err(UserError::new(what, hint));
    }
    let hint = if run.name() == "prepare" {
        "it is a log of `prepare`, which trains nothing; compare runs of `train`"
    } else if !run.phases.is_empty() {
        "all that was measured in it belongs to other phases of a profile"
    } else if in_progress {
        "the run has just begun, and steps are written every --log-every of them: wait a little"
    } else {
        "its run ended before the first steps were written; give another one"
    };
    let what = format!("the log `{shown}` has no step in it");
    Err(UserError::new(what, hint))
}
