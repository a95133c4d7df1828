//! A run's folder of checkpoints: written whole or not at all, checked before use.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

use super::ownership::remove_file;
use super::place::KnownFolder;
use super::{
    ALIGNMENTS, Best, CHECKPOINT_VERSION, CheckpointError, CheckpointFacts, CheckpointFolder, JSON,
    Snapshot, StoredAlignments, TRAINING, VOICE, WITHOUT_ALIGNMENTS, durations, untrusted, weights,
};

/// `checkpoint.json`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredFacts {
    version: u32,
    /// What wrote it.
    program: String,
    /// Of this very file, with [`NO_HASH`] in this place: a digit that changes still reads as
    /// JSON. Checkpoints from before there was one have none.
    #[serde(default)]
    own_blake3: Option<String>,
    files: BTreeMap<String, StoredFile>,
    #[serde(flatten)]
    pub(super) facts: CheckpointFacts,
}

/// As long as a hash.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

impl StoredFacts {
    /// `checkpoint.json`, with its own hash in place of [`NO_HASH`].
    fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_string_pretty(self).expect("plain values always serialise");
        let hash = blake3::hash(json.as_bytes()).to_hex();
        json.replacen(NO_HASH, &hash, 1).into_bytes()
    }

    fn is_unharmed(&self, json: &[u8]) -> bool {
        let (Some(hash), Ok(json)) = (&self.own_blake3, str::from_utf8(json)) else {
            return true;
        };
        let unhashed = json.replacen(hash, NO_HASH, 1);
        *blake3::hash(unhashed.as_bytes()).to_hex() == **hash
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredFile {
    bytes: u64,
    blake3: String,
}

impl StoredFile {
    fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            blake3: blake3::hash(bytes).to_hex().to_string(),
        }
    }
}

const CHANGED: &str = "its content has changed";

impl StoredFacts {
    /// From the bytes of `checkpoint.json`, which say where they are from. Hashes are not compared yet.
    pub(super) fn parse(json: &[u8], path: &Path) -> Result<Self, CheckpointError> {
        let damaged = |why: serde_json::Error| CheckpointError::damaged(path, why);
        #[derive(Deserialize)]
        struct OnlyVersion {
            version: u32,
        }
        let OnlyVersion { version } = serde_json::from_slice(json).map_err(damaged)?;
        if !(1..=CHECKPOINT_VERSION).contains(&version) {
            return Err(CheckpointError::Version {
                path: path.to_owned(),
                found: version,
            });
        }
        let stored: Self = serde_json::from_slice(json).map_err(damaged)?;
        let mut names = stored.files.keys();
        let known = [VOICE, TRAINING, ALIGNMENTS];
        if let Some(name) = names.find(|name| !known.contains(&name.as_str())) {
            let why = format!("it names a file that no checkpoint has: {name:?}");
            return Err(CheckpointError::damaged(path, why));
        }
        untrusted::check(&stored.facts).map_err(|why| CheckpointError::damaged(path, why))?;
        Ok(stored)
    }
}

impl StoredFacts {
    /// Completes the facts by the alignments, where they have a file.
    pub(super) fn read_alignments(&mut self, folder: &Path) -> Result<(), CheckpointError> {
        let Some(expected) = self.files.get(ALIGNMENTS) else {
            return Ok(());
        };
        let path = folder.join(ALIGNMENTS);
        let fitting = untrusted::file_bytes(&self.facts.voice, ALIGNMENTS);
        let bytes = untrusted::read(&path, &fitting)?;
        if StoredFile::of(&bytes) != *expected {
            return Err(CheckpointError::damaged(&path, CHANGED));
        }
        durations::load(&mut self.facts.alignments, &path, &bytes)
    }
}

/// Reads a checkpoint's facts and compares them, and the files that are wanted, with their hashes.
pub(super) fn read(folder: &Path, files: &[&str]) -> Result<StoredFacts, CheckpointError> {
    let path = folder.join(JSON);
    let json =
        untrusted::read(&path, &(1..=untrusted::MOST_JSON)).map_err(|error| match error {
            CheckpointError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                CheckpointError::None(folder.to_owned())
            }
            error => error,
        })?;
    let stored = StoredFacts::parse(&json, &path)?;
    if !stored.is_unharmed(&json) {
        return Err(CheckpointError::damaged(&path, CHANGED));
    }
    for &name in files {
        let expected = stored
            .files
            .get(name)
            .ok_or_else(|| CheckpointError::damaged(&path, format!("it does not name `{name}`")))?;
        let path = folder.join(name);
        let (bytes, hash) =
            untrusted::hash(&path, &untrusted::file_bytes(&stored.facts.voice, name))?;
        if (bytes, &*hash.to_hex()) != (expected.bytes, &expected.blake3) {
            return Err(CheckpointError::damaged(&path, CHANGED));
        }
    }
    Ok(stored)
}

/// A run's `checkpoints` folder.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    /// How many of the newest to keep, apart from the best one.
    keep: usize,
    /// What distinguishes this run from others, where it is known.
    pub(super) run: Option<String>,
    /// The folder as it was when the run began, where it must stay the same.
    pub(super) place: Option<KnownFolder>,
    /// A disk that takes this long for each.
    #[cfg(test)]
    pub(crate) delay: Duration,
}

/// The newest checkpoint that is whole, and what was wrong with those after it.
#[derive(Debug)]
pub struct FoundCheckpoint {
    pub checkpoint: CheckpointFolder,
    pub damaged: Vec<CheckpointError>,
}

/// A checkpoint that is there.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) step: u64,
    /// The best of the run when it was snapped.
    pub(crate) best: Option<Best>,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Since its snapshot was begun.
    pub(crate) took: Duration,
    /// Old ones that should have gone are still there.
    pub(crate) not_pruned: Option<CheckpointError>,
}

/// `best.json`
#[derive(Debug, Serialize, Deserialize)]
struct BestFile {
    checkpoint: String,
    #[serde(flatten)]
    best: Best,
}

pub(super) const BEST: &str = "best.json";
const MOST_BEST: u64 = 10_000;
pub(super) const UNFINISHED: &str = ".unfinished";

impl Checkpoints {
    /// Those in this folder, of any run. The newest `keep` of them stay.
    pub fn new(folder: &Path, keep: usize) -> Self {
        Self {
            folder: folder.to_owned(),
            keep: keep.max(1),
            run: None,
            place: None,
            #[cfg(test)]
            delay: Duration::ZERO,
        }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn name(step: u64) -> String {
        format!("step-{step:09}")
    }

    /// All checkpoints from the oldest to the newest, whole or not.
    pub fn list(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let paths = entries.map(|entry| Ok(entry?.path()));
        let mut all = paths.collect::<io::Result<Vec<_>>>()?;
        all.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let step = name.and_then(|name| name.strip_prefix("step-"));
            step.is_some_and(|step| step.parse::<u64>().is_ok())
        });
        all.sort();
        Ok(all)
    }

    /// The newest checkpoint that is whole: a damaged one is skipped for the one before it, and another run's is no
    /// checkpoint of this one.
    pub fn newest(&self) -> Result<FoundCheckpoint, CheckpointError> {
        self.newest_by(CheckpointFolder::open)
    }

    fn newest_by(
        &self,
        open: impl Fn(&Path) -> Result<CheckpointFolder, CheckpointError>,
    ) -> Result<FoundCheckpoint, CheckpointError> {
        let list = self.list().map_err(|source| CheckpointError::Read {
            path: self.folder.clone(),
            source,
        })?;
        let (mut damaged, mut others) = (Vec::new(), None);
        for path in list.iter().rev() {
            if self.is_of_another(path) {
                others = others.or_else(|| Some(path.clone()));
                continue;
            }
            match open(path) {
                Ok(checkpoint) => {
                    return Ok(FoundCheckpoint {
                        checkpoint,
                        damaged,
                    });
                }
                // A newer program's checkpoint is not damaged, and going back behind it would
                // lose its work.
                Err(error @ CheckpointError::Version { .. }) => return Err(error),
                Err(error) => damaged.push(error),
            }
        }
        let first = damaged.into_iter().next();
        let first = first.or_else(|| others.map(CheckpointError::OfAnotherRun));
        Err(first.unwrap_or_else(|| CheckpointError::None(self.folder.clone())))
    }

    /// The voice of the best one by its loss on held-out clips; of the newest where none was validated,
    /// or where the best is damaged.
    pub fn best(&self) -> Result<FoundCheckpoint, CheckpointError> {
        let newest = || self.newest_by(CheckpointFolder::open_voice);
        let of_us = |path: &PathBuf| !self.is_of_another(path);
        let Some(path) = self.best_path().filter(of_us) else {
            return newest();
        };
        match CheckpointFolder::open_voice(&path) {
            Ok(checkpoint) => Ok(FoundCheckpoint {
                checkpoint,
                damaged: Vec::new(),
            }),
            Err(error) => {
                let mut found = newest()?;
                found.damaged.insert(0, error);
                Ok(found)
            }
        }
    }

    /// By its step: a name in the file could lead anywhere.
    pub(super) fn best_path(&self) -> Option<PathBuf> {
        let bytes = untrusted::read(&self.folder.join(BEST), &(1..=MOST_BEST)).ok()?;
        let BestFile { best, .. } = serde_json::from_slice(&bytes).ok()?;
        Some(self.folder.join(Self::name(best.step)))
    }

    /// Why a step's checkpoint could not be written.
    pub(super) fn failed(&self, step: u64, why: impl ToString) -> CheckpointError {
        CheckpointError::Write {
            path: self.folder.join(Self::name(step)),
            source: io::Error::other(why.to_string()),
        }
    }

    /// Writes a checkpoint and deletes the oldest ones.
    pub(crate) fn write(&self, snapshot: Snapshot) -> Result<Written, CheckpointError> {
        let Snapshot {
            begun,
            mut facts,
            voice,
            training,
        } = snapshot;
        #[cfg(test)]
        std::thread::sleep(self.delay);
        let (step, best) = (facts.progress.step, facts.progress.best);
        let name = Self::name(step);
        let alignments = durations::file(&facts.alignments);
        let version = match alignments {
            Some(_) => CHECKPOINT_VERSION,
            None => WITHOUT_ALIGNMENTS,
        };
        facts.alignments = StoredAlignments {
            settling: facts.alignments.settling,
            ..StoredAlignments::default()
        };
        let mut files = vec![
            (VOICE, weights::file(voice)),
            (TRAINING, weights::file(training)),
        ];
        files.extend(alignments.map(|bytes| (ALIGNMENTS, bytes)));
        let hashed = files.iter();
        let hashed = hashed.map(|(name, bytes)| (name.to_string(), StoredFile::of(bytes)));
        let stored = StoredFacts {
            version,
            program: concat!("voxmill ", env!("CARGO_PKG_VERSION")).to_owned(),
            own_blake3: Some(NO_HASH.to_owned()),
            files: hashed.collect(),
            facts,
        };
        let json = stored.to_json();
        let total = json.len() + files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let path = self.folder.join(&name);
        if self.is_of_another(&path) {
            return Err(CheckpointError::OfAnotherRun(path));
        }
        let unfinished = self.folder.join(format!("{UNFINISHED}-{name}"));
        let write = || -> io::Result<()> {
            match &self.place {
                Some(place) => place.check()?,
                None => fs::create_dir_all(&self.folder)?,
            }
            remove(&unfinished)?;
            fs::create_dir(&unfinished)?;
            for (name, bytes) in &files {
                write_synced(&unfinished.join(name), bytes)?;
            }
            write_synced(&unfinished.join(JSON), &json)?;
            sync_folder(&unfinished)?;
            name_it(&unfinished, &path)?;
            sync_folder(&self.folder)?;
            // The one of the same step before it, if there was one. The next start removes it as well.
            let _ = remove(&unfinished);
            Ok(())
        };
        if let Err(source) = write() {
            // What was begun is of no use, and on a full disk its room is.
            let _ = remove(&unfinished);
            return Err(CheckpointError::Write { path, source });
        }
        if let Some(best) = best.filter(|best| best.step == step) {
            self.point_to_best(&name, best)?;
        }
        // The new one is there: whatever keeps the old ones from going is no reason to write it again.
        let not_pruned = self.prune(&path).err();
        Ok(Written {
            step,
            best,
            path,
            bytes: total as u64,
            took: begun.elapsed(),
            not_pruned,
        })
    }

    fn point_to_best(&self, name: &str, best: Best) -> Result<(), CheckpointError> {
        let file = BestFile {
            checkpoint: name.to_owned(),
            best,
        };
        let json = serde_json::to_vec_pretty(&file).expect("plain values always serialise");
        let path = self.folder.join(BEST);
        let unfinished = self.folder.join(format!("{UNFINISHED}-{BEST}"));
        let write = || -> io::Result<()> {
            // It may be a link to somewhere else.
            remove_file(&unfinished)?;
            write_synced(&unfinished, &json)?;
            fs::rename(&unfinished, &path)?;
            sync_folder(&self.folder)
        };
        write().map_err(|source| {
            let _ = remove_file(&unfinished);
            CheckpointError::Write { path, source }
        })
    }

    /// Deletes old ones. Those after the one just written are left over from before the run
    /// went back, because they are damaged or somebody wanted so: they do not count.
    fn prune(&self, written: &Path) -> Result<(), CheckpointError> {
        let failed = |path: &Path, source| CheckpointError::Remove {
            path: path.to_owned(),
            source,
        };
        let list = self.list();
        let mut list = list.map_err(|source| failed(&self.folder, source))?;
        list.retain(|path| **path <= *written);
        list.truncate(list.len().saturating_sub(self.keep));
        let best = self.best_path();
        let old = list.iter().filter(|path| Some(*path) != best.as_ref());
        let old = old.filter(|path| !self.is_of_another(path));
        // One that cannot go keeps no other.
        let removed = old.map(|path| remove(path).map_err(|source| failed(path, source)));
        removed.fold(Ok(()), Result::and)
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a checkpoint its name. One that has it already is there until this one is: whenever this program is ended, the
/// name leads to a whole checkpoint.
pub(super) fn name_it(unfinished: &Path, path: &Path) -> io::Result<()> {
    if !path.exists() {
        return fs::rename(unfinished, path);
    }
    let swapped = renameat_with(CWD, unfinished, CWD, path, RenameFlags::EXCHANGE);
    swapped.or_else(|_| {
        // Some file systems cannot swap.
        remove(path)?;
        fs::rename(unfinished, path)
    })
}

/// Makes the names in a folder last.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
