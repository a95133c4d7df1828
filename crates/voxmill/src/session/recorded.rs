//! Runs that were recorded: their logs, and which of them is like the one asked for.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_analysis::profile::Profile;
use voxmill_analysis::run::{Run, fact};
use voxmill_telemetry::log::LogError;

use super::run_folder;
use crate::advice::profile;
use voxmill_settings::TrainSettings;
use voxmill_settings::error::UserError;

/// A run's folder, or its log.
pub(crate) fn read_run(path: &Path) -> anyhow::Result<Run> {
    let log = match path.is_dir() {
        true => path.join(run_folder::EVENTS),
        false => path.to_owned(),
    };
    Run::read(&log).map_err(|error| of_log(path, error))
}

pub(crate) fn of_log(path: &Path, error: LogError) -> anyhow::Error {
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
pub(crate) fn all(runs_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(runs_dir).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path());
    folders
        .filter(|path| path.join(run_folder::EVENTS).is_file())
        .collect()
}

/// When its log got its last line: a run's name may be any.
pub(crate) fn last_written(run: &Path) -> SystemTime {
    let facts = run.join(run_folder::EVENTS).metadata();
    facts
        .and_then(|facts| facts.modified())
        .unwrap_or(UNIX_EPOCH)
}

/// A run may be named without the folder that runs are in.
pub(crate) fn below(runs_dir: &Path, run: &Path) -> PathBuf {
    let below = runs_dir.join(run);
    match !run.exists() && below.exists() {
        true => below,
        false => run.to_owned(),
    }
}

/// The newest run that is like the one asked for: the same model, batches and device. What it measured is
/// the best guess of what comes.
pub(crate) fn newest_like(settings: &TrainSettings) -> Option<(PathBuf, Profile)> {
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
        let alike = || wanted.iter().all(like);
        if run.steps.len() < ENOUGH_STEPS as usize || !alike() {
            return None;
        }
        let profile = profile(&run);
        (profile.steps >= ENOUGH_STEPS).then_some((path, profile))
    })
}

/// In its last start, which is what is measured. Fewer are warm-up.
const ENOUGH_STEPS: u64 = 20;
