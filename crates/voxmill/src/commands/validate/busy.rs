//! How busy the model device was in the newest run like this one: the only share that may be named,
//! for it was measured.

use std::path::{Path, PathBuf};

use voxmill_telemetry::event::Event;
use voxmill_telemetry::log::LogReader;

use crate::commands::train::run_folder::{EVENTS, SETTINGS};
use crate::settings::TrainSettings;

/// A share over fewer steps would say little.
const LEAST_STEPS: u64 = 20;
/// The settings that two runs must have in common.
const ALIKE: [&str; 3] = ["size", "batch_size", "device"];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    pub(super) run: PathBuf,
    /// Of the model thread's time in its steps, what was the step itself and not waiting.
    pub(super) share: f64,
    pub(super) steps: u64,
    pub(super) seconds_a_step: f64,
}

pub(super) fn newest_like(settings: &TrainSettings) -> Option<Busy> {
    let wanted = ALIKE.map(|name| {
        let line = settings.shown.iter().find(|line| line.key.name == name);
        line.map(|line| line.value.clone()).unwrap_or_default()
    });
    newest_in(&settings.run_folder.runs_dir, &wanted)
}

fn newest_in(runs_dir: &Path, wanted: &[String; 3]) -> Option<Busy> {
    let entries = std::fs::read_dir(runs_dir).ok()?.flatten();
    let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // Their names begin with the time.
    runs.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    let newest_first = runs.into_iter().rev();
    newest_first
        .filter(|run| {
            let text = std::fs::read_to_string(run.join(SETTINGS)).unwrap_or_default();
            ALIKE
                .iter()
                .zip(wanted)
                .all(|(name, wanted)| value_of(&text, name) == Some(wanted))
        })
        .find_map(|run| measured(&run))
}

/// A value of a run's `settings.yaml`, whether somebody gave it or it stands there as a comment.
fn value_of<'a>(settings: &'a str, name: &str) -> Option<&'a str> {
    settings.lines().find_map(|line| {
        let line = line.trim_start().trim_start_matches("# ");
        let value = line.strip_prefix(name)?.strip_prefix(": ")?;
        let value = value.split("  # ").next().unwrap_or(value);
        Some(value.trim().trim_matches('"'))
    })
}

fn measured(run: &Path) -> Option<Busy> {
    let log = LogReader::open(run.join(EVENTS)).ok()?;
    let (mut steps, mut service, mut wall) = (0, 0.0, 0.0);
    for stamped in log.flatten() {
        if let Event::Step(step) = stamped.event {
            steps += 1;
            service += step.service.seconds();
            wall += (step.waited + step.service + step.overhead).seconds();
        }
    }
    (steps >= LEAST_STEPS && wall > 0.0).then(|| Busy {
        run: run.to_owned(),
        share: service / wall,
        steps,
        seconds_a_step: wall / steps as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const SETTINGS_TEXT: &str = "# The settings of this run. What nobody gave is a comment.\ndata:\n  \
        # batch_size: 8  # auto (for the built-in corpus)\n  device: cpu  # flag\nmodel:\n  # size: tiny  # default\n";

    fn run(runs: &Path, name: &str, steps: u64, waited: u64) {
        let dir = runs.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(SETTINGS), SETTINGS_TEXT).unwrap();
        let mut log = String::new();
        for step in 0..steps {
            let _ = writeln!(
                log,
                r#"{{"at":{step},"event":"step","step":{step},"waited":{waited},"service":90}}"#
            );
        }
        std::fs::write(dir.join(EVENTS), log).unwrap();
    }

    fn wanted(batch: &str) -> [String; 3] {
        ["tiny", batch, "cpu"].map(str::to_owned)
    }

    #[test]
    fn the_newest_run_with_steps_enough_is_taken() {
        let runs = tempfile::tempdir().unwrap();
        assert_eq!(newest_in(runs.path(), &wanted("8")), None);
        run(runs.path(), "20260101-000000-a", 40, 10);
        run(runs.path(), "20260201-000000-b", 3, 0);
        let busy = newest_in(runs.path(), &wanted("8")).unwrap();
        assert!(
            busy.run.ends_with("20260101-000000-a"),
            "b has too few steps"
        );
        assert!((busy.share - 0.9).abs() < 1e-9 && busy.steps == 40);
        assert_eq!(
            newest_in(runs.path(), &wanted("16")),
            None,
            "another batch size"
        );
    }

    #[test]
    fn values_are_found_whether_they_were_given_or_not() {
        assert_eq!(value_of(SETTINGS_TEXT, "batch_size"), Some("8"));
        assert_eq!(value_of(SETTINGS_TEXT, "device"), Some("cpu"));
        assert_eq!(value_of(SETTINGS_TEXT, "size"), Some("tiny"));
        assert_eq!(value_of(SETTINGS_TEXT, "seed"), None);
    }
}
