//! `voxmill runs`: which runs there are, how they stand and what they take.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use voxmill_report::results::runs::{BestHeldOut, ListedRun, ListedState, RunList, VERSION};
use voxmill_report::terminal::runs_text;
use voxmill_settings::args::RunsArgs;
use voxmill_telemetry::event::{Event, Outcome};
use voxmill_telemetry::log::{LogReader, is_being_written};

use super::{paint, print_result, warning};
use crate::progress::CountProgress;
use voxmill_settings::recorded;
use voxmill_settings::run_folder::EVENTS;

pub(crate) fn run(args: &RunsArgs) -> anyhow::Result<()> {
    let runs_dir = args.runs_dir();
    let folders = recorded::all(&runs_dir);
    let mut progress = CountProgress::new(folders.len(), "run");
    let mut runs: Vec<(SystemTime, ListedRun)> = Vec::new();
    for folder in folders {
        runs.push((recorded::last_written(&folder), listed(&folder)));
        progress.one();
    }
    progress.finish();
    runs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
    let list = RunList {
        version: VERSION,
        runs_dir,
        runs: runs.into_iter().map(|(_, run)| run).collect(),
    };
    print_result(&list, args.json, |list| runs_text(list, paint()))
}

/// A log that cannot be read costs what it would have said, with a warning.
fn listed(folder: &Path) -> ListedRun {
    let log = folder.join(EVENTS);
    // Asked before the log is read: a run that ends meanwhile has said so in what is read.
    let is_written = is_being_written(&log);
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    let mut run = ListedRun {
        name: name.to_string_lossy().into_owned(),
        path: folder.to_owned(),
        verb: None,
        state: ListedState::Stopped,
        killed: true,
        step: 0,
        best_held_out: None,
        started_unix_seconds: None,
        seconds: 0.0,
        bytes: bytes(folder),
    };
    if let Err(error) = read(&log, &mut run) {
        let error = anyhow::Error::from(error);
        warning!("{error:#}");
    }
    if is_written && run.killed {
        (run.state, run.killed) = (ListedState::Running, false);
    }
    run
}

fn read(log: &Path, run: &mut ListedRun) -> Result<(), voxmill_telemetry::log::LogError> {
    for stamped in LogReader::open(log)? {
        let stamped = stamped?;
        match &stamped.event {
            Event::RunStarted(started) => {
                run.verb = Some(started.name.clone()).filter(|name| !name.is_empty());
                run.started_unix_seconds = Some(started.unix_seconds);
                (run.state, run.killed, run.seconds) = (ListedState::Stopped, true, 0.0);
                continue;
            }
            Event::Step(step) => run.step = step.step,
            Event::Validated(found) => {
                let mel = found
                    .losses
                    .get("mel")
                    .copied()
                    .filter(|mel| mel.is_finite());
                let lowest = run.best_held_out.map_or(f64::INFINITY, |best| best.mel);
                if let Some(mel) = mel.filter(|mel| *mel < lowest) {
                    run.best_held_out = Some(BestHeldOut {
                        step: found.step,
                        mel,
                    });
                }
            }
            Event::RunEnded { outcome } => {
                run.killed = false;
                run.state = match outcome {
                    Outcome::Finished => ListedState::Finished,
                    Outcome::Interrupted => ListedState::Stopped,
                    Outcome::Failed => ListedState::Failed,
                };
            }
            _ => {}
        }
        run.seconds = run.seconds.max(stamped.at.seconds());
    }
    Ok(())
}

/// Of all files below a folder; links count as themselves.
fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => bytes(&entry.path()),
        Ok(facts) => facts.len(),
        // It has gone meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}
