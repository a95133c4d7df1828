//! A run's folder: where it is, what is in it, which is the newest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_trainer::checkpoint::{
    CheckpointError, CheckpointFolder, Checkpoints, FoundCheckpoint,
};

use voxmill_settings::config::file::ConfigFile;
use voxmill_settings::config::keys::{self, Role};
use voxmill_settings::config::value::Kind;
use voxmill_settings::error::UserError;
use voxmill_settings::{Origin, ResolvedSetting, RunFolder};

pub(crate) const SETTINGS: &str = "settings.yaml";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const SAMPLES: &str = "samples";
/// The list of bad clips.
pub(crate) const QUARANTINE: &str = "quarantine.csv";
const CHECKPOINTS: &str = "checkpoints";

/// `<runs>/<time>-<name>`, or the folder that was asked for.
pub(crate) fn planned(wanted: &RunFolder) -> PathBuf {
    if let Some(dir) = &wanted.dir {
        return dir.clone();
    }
    let name = format!("{}-{}", now(), wanted.name);
    // Two runs in one second get different folders.
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone())
        .chain(numbered)
        .map(|name| wanted.runs_dir.join(name))
        .find(|path| !path.exists())
        .unwrap_or_else(|| wanted.runs_dir.join(&name))
}

pub(crate) fn create(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).map_err(|error| {
        let what = format!("cannot make the run's folder `{}`", path.display());
        let hint = "give a folder that can be written with --run-dir";
        UserError::new(what, hint).because(error).into()
    })
}

/// Where a new run's checkpoints are, unless they are moved.
pub(crate) fn own_checkpoints(run: &Path) -> PathBuf {
    run.join(CHECKPOINTS)
}

/// In the run's folder, unless its settings moved them.
pub(crate) fn checkpoints_of(run: &Path) -> PathBuf {
    let settings = ConfigFile::read(&run.join(SETTINGS)).ok();
    let moved = settings.and_then(|file| file.get::<PathBuf>(&keys::CHECKPOINT_DIR));
    moved.map_or_else(|| run.join(CHECKPOINTS), |(dir, _)| dir)
}

/// The newest run below a folder that has a checkpoint.
pub(crate) fn newest(runs_dir: &Path) -> anyhow::Result<PathBuf> {
    let mut runs: Vec<PathBuf> = std::fs::read_dir(runs_dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let all = Checkpoints::new(&checkpoints_of(path), 1).list();
            all.is_ok_and(|all| !all.is_empty())
        })
        .collect();
    // Their names begin with the time.
    runs.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    runs.pop().ok_or_else(|| {
        let what = format!(
            "there is no run with a checkpoint in `{}`",
            runs_dir.display()
        );
        let hint = "`voxmill train` makes one; --runs-dir says where to look";
        UserError::new(what, hint).into()
    })
}

/// How a checkpoint may be named: by its folder, a run's folder, a folder of checkpoints.
#[derive(Debug)]
pub(crate) enum CheckpointPath {
    Checkpoint(PathBuf),
    Folder(PathBuf),
}

impl CheckpointPath {
    pub(crate) fn find(path: &Path) -> CheckpointPath {
        const FACTS: &str = "checkpoint.json";
        if path.join(FACTS).is_file() {
            return CheckpointPath::Checkpoint(path.to_owned());
        }
        match path.file_name().is_some_and(|name| name == FACTS) {
            true => CheckpointPath::Checkpoint(path.parent().unwrap_or(path).to_owned()),
            false if checkpoints_of(path).is_dir() => CheckpointPath::Folder(checkpoints_of(path)),
            false => CheckpointPath::Folder(path.to_owned()),
        }
    }

    /// The run that it belongs to, as far as its place shows.
    pub(crate) fn run(&self) -> Option<&Path> {
        match self {
            CheckpointPath::Checkpoint(path) => path.parent()?.parent(),
            CheckpointPath::Folder(path) => path.parent(),
        }
    }

    /// To be resumed: the newest.
    pub(crate) fn newest(&self) -> Result<FoundCheckpoint, CheckpointError> {
        match self {
            CheckpointPath::Checkpoint(path) => CheckpointFolder::open(path).map(alone),
            CheckpointPath::Folder(path) => Checkpoints::new(path, 1).newest(),
        }
    }

    /// To speak: the voice of the best.
    pub(crate) fn best(&self) -> Result<FoundCheckpoint, CheckpointError> {
        match self {
            CheckpointPath::Checkpoint(path) => CheckpointFolder::open_voice(path).map(alone),
            CheckpointPath::Folder(path) => Checkpoints::new(path, 1).best(),
        }
    }
}

fn alone(checkpoint: CheckpointFolder) -> FoundCheckpoint {
    FoundCheckpoint {
        checkpoint,
        damaged: Vec::new(),
    }
}

/// Keys that belong to one start of a run, not to the run.
const OF_ONE_START: [&str; 3] = ["init_from", "runs_dir", "dashboard"];

/// The settings as a config file: what was given as it is, the rest as comments. `--resume` reads it.
pub(crate) fn settings_yaml(shown: &[ResolvedSetting]) -> String {
    let mut text =
        String::from("# The settings of this run. Settings that were not given are comments.\n");
    for section in ["data", "model", "training"] {
        let of_section = shown.iter().filter(|line| {
            line.key.section.name() == section
                && keys::KEYS.iter().any(|key| std::ptr::eq(*key, line.key))
                && matches!(line.key.role, Role::Acts)
                && !OF_ONE_START.contains(&line.key.name)
        });
        let _ = writeln!(text, "{section}:");
        for line in of_section {
            let given = matches!(line.origin, Origin::Flag | Origin::File(_));
            let (comment, value) = match given {
                true => ("", in_a_file(line.key.kind, &line.value)),
                false => ("# ", line.value.clone()),
            };
            let origin = &line.origin;
            let _ = writeln!(text, "  {comment}{}: {value}  # {origin}", line.key.name);
        }
    }
    text
}

/// Every setting that a run's file names, also what nobody gave. `None` where there is no such file.
pub(crate) fn settings_of(run: &Path) -> Option<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(run.join(SETTINGS)).ok()?;
    Some(text.lines().filter_map(setting).collect())
}

/// A line as [`settings_yaml`] writes it, comment or not.
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("  ")?;
    let (name, rest) = line.strip_prefix("# ").unwrap_or(line).split_once(": ")?;
    let (value, _origin) = rest.rsplit_once("  # ").unwrap_or((rest, ""));
    let quoted = serde_json::from_str::<String>(value).ok();
    Some((name.to_owned(), quoted.unwrap_or_else(|| value.to_owned())))
}

fn in_a_file(kind: Kind, value: &str) -> String {
    match kind {
        // A run may be resumed from another folder. Quoted as in JSON, which YAML reads.
        Kind::Path => {
            let absolute = std::path::absolute(value).unwrap_or_else(|_| value.into());
            serde_json::Value::from(absolute.to_string_lossy()).to_string()
        }
        Kind::Name => serde_json::Value::from(value).to_string(),
        _ => value.to_owned(),
    }
}

/// The time of day in UTC, so that names sort.
fn now() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    stamp(since_1970.map_or(0, |since| since.as_secs()))
}

fn stamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days as i64);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that the
/// leap day is a year's last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let line = |key, value: &str, origin| ResolvedSetting {
            key,
            value: value.to_owned(),
            origin,
        };
        let yaml = settings_yaml(&[
            line(&keys::BATCH_SIZE, "4", Origin::Flag),
            line(&keys::NUM_WORKERS, "1", Origin::Auto("few: cores")),
            line(&keys::CACHE_DIR, "/a b: \"c\"", Origin::Flag),
            line(&keys::LEXICON, "none", Origin::Default),
        ]);
        let read: BTreeMap<_, _> = yaml.lines().filter_map(setting).collect();
        let expected = [
            ("batch_size", "4"),
            ("num_workers", "1"),
            ("cache_dir", "/a b: \"c\""),
            ("lexicon", "none"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, expected.into());
    }

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_400), "20000229-000000");
        assert_eq!(stamp(1_794_800_000), "20261116-033320");
    }
}
