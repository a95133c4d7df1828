//! A run's folder: where it is, what is in it, which is the newest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_format::Utc;
use voxmill_trainer::checkpoint::{
    CheckpointError, CheckpointFolder, Checkpoints, FoundCheckpoint,
};

use crate::config::file::ConfigFile;
use crate::config::keys::{self, Role};
use crate::config::value::Kind;
use crate::error::UserError;
use crate::{Origin, ResolvedSetting, RunFolder};
use voxmill_untrusted::shown;

/// The settings of the run, as a configuration file.
pub const SETTINGS: &str = "settings.yaml";
/// The log.
pub const EVENTS: &str = "events.jsonl";
/// The folder of what the voice spoke while it learnt.
pub const SAMPLES: &str = "samples";
/// The list of bad clips.
pub const QUARANTINE: &str = "quarantine.csv";
const CHECKPOINTS: &str = "checkpoints";

/// Makes `<runs>/<time>-<name>`, or the folder that was asked for, which may be there.
pub fn create(wanted: &RunFolder) -> anyhow::Result<PathBuf> {
    let failed = |path: &Path, error: io::Error| {
        let what = format!("cannot make the run's folder `{}`", path.display());
        let hint = "give a folder that can be written with --run-dir";
        UserError::new(what, hint).because(error)
    };
    if let Some(dir) = &wanted.dir {
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        return Ok(dir.clone());
    }
    let name = format!("{}-{}", now(), wanted.name);
    create_numbered(&wanted.runs_dir, &name)
        .map_err(|error| failed(&wanted.runs_dir.join(name), error).into())
}

/// A folder that nobody has: of several that ask for one name at once, each gets another.
pub fn create_numbered(parent: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(parent)?;
    let mut path = parent.join(name);
    for number in 2.. {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
        path = parent.join(format!("{name}-{number}"));
    }
    unreachable!("no folder has that many entries");
}

/// A file that is on the disk and has not got its name yet: under that there is the old content or the new, whatever ends
/// the program. Dropped, it leaves the old.
#[derive(Debug)]
pub struct Staged {
    unfinished: PathBuf,
    path: PathBuf,
}

impl Staged {
    /// Writes it under another name, and waits until the disk has it.
    pub fn write(path: &Path, content: &str) -> io::Result<Staged> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let staged = Staged {
            unfinished: folder_of(path).join(format!(".unfinished-{name}")),
            path: path.to_owned(),
        };
        // What lies there may be a link to somewhere else: it is removed, not followed.
        let removed = fs::remove_file(&staged.unfinished);
        removed.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = File::create_new(&staged.unfinished)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        Ok(staged)
    }

    /// Gives it its name.
    pub fn put(self) -> io::Result<()> {
        fs::rename(&self.unfinished, &self.path)?;
        File::open(folder_of(&self.path))?.sync_all()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Nothing is there once it has its name.
        let _ = fs::remove_file(&self.unfinished);
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or(Path::new(""));
    match folder == Path::new("") {
        true => Path::new("."),
        false => folder,
    }
}

/// What distinguishes a run from all others, also from one in the same folder before it: 64 random bits.
pub fn new_id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Where a new run's checkpoints are, unless they are moved.
pub fn own_checkpoints(run: &Path) -> PathBuf {
    run.join(CHECKPOINTS)
}

/// In the run's folder, unless its settings moved them.
pub fn checkpoints_of(run: &Path) -> PathBuf {
    let settings = ConfigFile::read(&run.join(SETTINGS)).ok();
    let moved = settings.and_then(|file| file.get::<PathBuf>(&keys::CHECKPOINT_DIR));
    moved.map_or_else(|| run.join(CHECKPOINTS), |(dir, _)| dir)
}

/// The checkpoints of a run, wherever it has them, and no other's.
fn own_of(run: &Path) -> Checkpoints {
    let checkpoints = Checkpoints::new(&checkpoints_of(run), 1);
    match id_of(run) {
        Some(id) => checkpoints.of_run(&id),
        None => checkpoints,
    }
}

/// Where the run that a folder holds has its checkpoints, if there is one that has any: who begins another run in the
/// folder takes its settings away, and with them the way back to it.
pub fn checkpoints_to_lose(run: &Path) -> io::Result<Option<PathBuf>> {
    if !run.join(SETTINGS).is_file() {
        return Ok(None);
    }
    let theirs = checkpoints_of(run);
    // They may be on a disk that is not there at the moment.
    let is_away = theirs != own_checkpoints(run) && !theirs.exists();
    let has_any = is_away || !own_of(run).own()?.is_empty();
    Ok(has_any.then_some(theirs))
}

fn is_run(path: &Path) -> bool {
    path.join(SETTINGS).is_file() || checkpoints_of(path).is_dir()
}

/// The run below a folder whose newest checkpoint is the newest. A run's name says nothing: it may be any.
pub fn newest(runs_dir: &Path) -> anyhow::Result<PathBuf> {
    let entries = fs::read_dir(runs_dir).into_iter().flatten().flatten();
    let runs = entries.filter_map(|entry| {
        let run = entry.path();
        Some((last_saved(&own_of(&run))?, run))
    });
    runs.max().map(|(_, run)| run).ok_or_else(|| {
        let what = format!(
            "there is no run with a checkpoint in `{}`",
            runs_dir.display()
        );
        let hint = "`voxmill train` starts one; --runs-dir says where to look";
        UserError::new(what, hint).into()
    })
}

/// When the last checkpoint of a run was written, by the time of the file that is written last.
fn last_saved(checkpoints: &Checkpoints) -> Option<SystemTime> {
    let all = checkpoints.own().ok()?;
    let written = |path: &PathBuf| fs::metadata(path.join(FACTS)).ok()?.modified().ok();
    all.iter().filter_map(written).max()
}

/// What a checkpoint is known by.
const FACTS: &str = "checkpoint.json";

/// How a checkpoint may be named: by its folder, a run's folder, a folder of checkpoints.
#[derive(Debug)]
pub enum CheckpointPath {
    /// One checkpoint's own folder.
    Checkpoint(PathBuf),
    /// A run's folder.
    Run(PathBuf),
    /// A folder of checkpoints.
    Folder(PathBuf),
}

impl CheckpointPath {
    /// By what is in the folder.
    pub fn find(path: &Path) -> CheckpointPath {
        if path.join(FACTS).is_file() {
            return CheckpointPath::Checkpoint(path.to_owned());
        }
        match path.file_name().is_some_and(|name| name == FACTS) {
            true => CheckpointPath::Checkpoint(path.parent().unwrap_or(path).to_owned()),
            false if is_run(path) => CheckpointPath::Run(path.to_owned()),
            false => CheckpointPath::Folder(path.to_owned()),
        }
    }

    /// The run that it belongs to, as far as its place shows.
    pub fn run(&self) -> Option<&Path> {
        match self {
            CheckpointPath::Checkpoint(path) => path.parent()?.parent(),
            CheckpointPath::Run(path) => Some(path),
            CheckpointPath::Folder(path) => path.parent(),
        }
    }

    /// The folder that its checkpoints are in.
    pub fn folder(&self) -> Option<PathBuf> {
        match self {
            CheckpointPath::Checkpoint(path) => path.parent().map(Path::to_owned),
            CheckpointPath::Run(path) => Some(checkpoints_of(path)),
            CheckpointPath::Folder(path) => Some(path.clone()),
        }
    }

    /// To be resumed: the newest.
    pub fn newest(&self) -> Result<FoundCheckpoint, CheckpointError> {
        match self {
            CheckpointPath::Checkpoint(path) => CheckpointFolder::open(path).map(alone),
            CheckpointPath::Run(path) => own_of(path).newest(),
            CheckpointPath::Folder(path) => Checkpoints::new(path, 1).newest(),
        }
    }

    /// To speak: the voice of the best.
    pub fn best(&self) -> Result<FoundCheckpoint, CheckpointError> {
        match self {
            CheckpointPath::Checkpoint(path) => CheckpointFolder::open_voice(path).map(alone),
            CheckpointPath::Run(path) => own_of(path).best(),
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
const OF_ONE_START: [&str; 2] = ["runs_dir", "dashboard"];

/// The settings as a config file: what was given as it is, the rest as comments. `--resume` reads it.
pub fn settings_yaml(shown: &[ResolvedSetting], id: Option<&str>) -> String {
    let mut text =
        String::from("# The settings of this run. Settings that were not given are comments.\n");
    if let Some(id) = id {
        let _ = writeln!(text, "{ID}{id}");
    }
    for section in ["data", "model", "training"] {
        let of_section = shown.iter().filter(|line| {
            line.key.section.name() == section
                && keys::KEYS.iter().any(|key| std::ptr::eq(*key, line.key))
                && matches!(line.key.role, Role::Acts)
                && !OF_ONE_START.contains(&line.key.name)
        });
        let _ = writeln!(text, "{section}:");
        for line in of_section {
            let (comment, value) = match given_in_a_file(line) {
                Some(value) => ("", value),
                None => ("# ", shown::line(&line.value).into_owned()),
            };
            // A path in it could end the line.
            let origin = line.origin.to_string();
            let origin = shown::line(&origin);
            let _ = writeln!(text, "  {comment}{}: {value}  # {origin}", line.key.name);
        }
    }
    text
}

/// A value that somebody gave, as a file has it.
pub fn given_in_a_file(line: &ResolvedSetting) -> Option<String> {
    let given = matches!(line.origin, Origin::Flag | Origin::File(_));
    given.then(|| in_a_file(line.key.kind, &line.value))
}

/// Checkpoints say the same, so that they are known wherever they are.
const ID: &str = "# run ";

/// What distinguishes a run from all others, as its settings have it. Runs from before there was one have none.
pub fn id_of(run: &Path) -> Option<String> {
    let text = ConfigFile::text_of(&run.join(SETTINGS)).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix(ID))?;
    Some(id.trim().to_owned())
}

/// Every setting that a run's file names, also what nobody gave. `None` where there is no such file.
pub fn settings_of(run: &Path) -> Option<BTreeMap<String, String>> {
    let text = ConfigFile::text_of(&run.join(SETTINGS)).ok()?;
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
            quoted(&absolute.to_string_lossy())
        }
        Kind::Name => quoted(value),
        _ => value.to_owned(),
    }
}

fn quoted(value: &str) -> String {
    shown::json(&serde_json::Value::from(value).to_string()).into_owned()
}

/// The time of day in UTC, so that names sort.
fn now() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Utc::of_unix(since_1970.map_or(0, |since| since.as_secs())).stamp()
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
        let yaml = settings_yaml(
            &[
                line(&keys::BATCH_SIZE, "4", Origin::Flag),
                line(&keys::NUM_WORKERS, "1", Origin::Auto("few: cores")),
                line(&keys::CACHE_DIR, "/a b: \"c\"", Origin::Flag),
                line(&keys::LEXICON, "none", Origin::Default),
            ],
            Some("0123"),
        );
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
}
