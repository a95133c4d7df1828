//! Runs that were recorded: their logs, and which of them is like the one asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::{Run, fact};
use voxmill_telemetry::log::LogError;

use crate::TrainSettings;
use crate::advice::profile;
use crate::args::Flags;
use crate::config::file::ConfigFile;
use crate::config::keys;
use crate::error::UserError;
use crate::run_folder;

/// A run's folder, or its log.
pub fn read_run(path: &Path) -> anyhow::Result<Run> {
    let log = match path.is_dir() {
        true => path.join(run_folder::EVENTS),
        false => path.to_owned(),
    };
    Run::read(&log).map_err(|error| of_log(path, error))
}

/// A log that cannot be read, with the next move.
pub fn of_log(path: &Path, error: LogError) -> anyhow::Error {
    let hint = match &error {
        LogError::Open { .. } => {
            "give the folder of a run, which has events.jsonl in it, or a log that --log wrote"
        }
        LogError::NewerVersion { .. } => "read it with the newer program that wrote it",
        _ => "give another run",
    };
    UserError::new(format!("cannot read the log of `{}`", path.display()), hint)
        .because(error)
        .into()
}

/// The folders of runs, by their logs.
pub fn all(runs_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runs_dir).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path());
    folders
        .filter(|path| path.join(run_folder::EVENTS).is_file())
        .collect()
}

/// When its log got its last line: a run's name may be any.
pub fn last_written(run: &Path) -> SystemTime {
    let facts = run.join(run_folder::EVENTS).metadata();
    facts
        .and_then(|facts| facts.modified())
        .unwrap_or(UNIX_EPOCH)
}

/// A run may be named without the folder that runs are in, and so may what is in its folder.
pub fn find(runs_dir: &Path, run: &Path) -> Result<PathBuf, UserError> {
    let below = runs_dir.join(run);
    let places = [run, &below].into_iter();
    let found = { places }.find(|path| path.exists()).map(Path::to_owned);
    found.ok_or_else(|| {
        let below = match run.components().count() {
            1 if !run.is_absolute() => format!(", here or in `{}`", runs_dir.display()),
            _ => String::new(),
        };
        let what = format!("there is no `{}`{below}", run.display());
        let hint = "give the folder of a run, or its name: `voxmill runs` lists them";
        UserError::new(what, hint)
    })
}

/// Where runs are kept, before there are settings.
pub fn runs_dir_of(flags: &Flags) -> anyhow::Result<PathBuf> {
    let key = &keys::RUNS_DIR;
    if let Some(typed) = flags.get(key) {
        return Ok(typed);
    }
    let file = flags.config.as_deref().map(ConfigFile::read);
    let in_file = file.transpose()?.and_then(|file| file.get(key));
    Ok(in_file.map_or_else(|| key.default(), |(dir, _)| dir))
}

/// The newest run that is like the one asked for: the same model, batches and device. What it measured is
/// the best guess of what comes.
pub fn newest_like(settings: &TrainSettings) -> Option<(PathBuf, Profile)> {
    let mut logs = all(&settings.run_folder.runs_dir);
    logs.sort_by_key(|run| std::cmp::Reverse(last_written(run)));
    let wanted = [
        (fact::MODEL_SIZE, settings.model_size.name().to_owned()),
        (
            fact::BATCH_SIZE,
            settings.data.batches.batch_size.to_string(),
        ),
        (fact::DEVICE, settings.devices.devices.model().to_string()),
    ];
    logs.into_iter().find_map(|path| {
        let run = Run::read(&path.join(run_folder::EVENTS)).ok()?;
        let like = |(name, value): &(&str, String)| run.fact(name) == Some(value);
        if run.steps.len() < ENOUGH_STEPS as usize || !wanted.iter().all(like) {
            return None;
        }
        let profile = profile(&run);
        (profile.steps >= ENOUGH_STEPS).then_some((path, profile))
    })
}

/// In its last start, which is what is measured. Fewer are warm-up.
const ENOUGH_STEPS: u64 = 20;

/// The last part of each path; where two are alike, the paths as they were typed.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let last = |path: &PathBuf| {
        let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
        let named = match whole
            .file_name()
            .is_some_and(|name| name == run_folder::EVENTS)
        {
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

/// The log of a run that is named by its folder or by the log itself.
pub fn log_of(path: &Path) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let log = path.join(run_folder::EVENTS);
    if log.is_file() {
        return Ok(log);
    }
    let runs = std::fs::read_dir(path).into_iter().flatten().flatten();
    let holds_runs = { runs }.any(|run| run.path().join(run_folder::EVENTS).is_file());
    Err(UserError::new(
        format!(
            "the folder `{}` has no {}",
            path.display(),
            run_folder::EVENTS
        ),
        match holds_runs {
            true => "it holds runs: give two of the folders in it",
            false => "give the folder of a run, such as runs/<time>-<name>, or its log",
        },
    )
    .into())
}

/// A run with steps, or why it has none.
pub fn check_steps(run: &Run, log: &Path, in_progress: bool) -> Result<(), UserError> {
    if !run.steps.is_empty() {
        return Ok(());
    }
    let shown = log.display();
    let flaws = &run.flaws;
    if run.starts == 0 && flaws.damaged + flaws.unknown > 0 {
        let what = format!("`{shown}` is not the log of a run: no line of it is an event");
        let hint = format!("the log of a run is {} in its folder", run_folder::EVENTS);
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
