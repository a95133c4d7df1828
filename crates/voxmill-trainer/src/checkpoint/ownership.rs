//! Whose checkpoints lie in a folder. A run touches none but its own, and leaves none half written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::files::{BEST, UNFINISHED, remove};
use super::place::KnownFolder;
use super::{CheckpointError, CheckpointFacts, Checkpoints, JSON, untrusted};

/// The name in [`CheckpointFacts::settings`] of what distinguishes a run from all others. Checkpoints from before there was one
/// have none, and are anybody's.
pub const RUN_ID: &str = "run_id";

impl CheckpointFacts {
    /// What distinguishes its run from all others; `None` in old checkpoints.
    pub fn run_id(&self) -> Option<&str> {
        self.settings.get(RUN_ID)?.as_str()
    }
}

impl Checkpoints {
    /// Only those of this run are ever deleted or replaced.
    pub fn of_run(mut self, id: &str) -> Self {
        self.run = Some(id.to_owned());
        self
    }

    /// From now on nothing is written but into the very folder that is there now. It is not made again where it is
    /// gone: what gets its name may be somebody else's.
    pub fn in_place(mut self) -> io::Result<Self> {
        self.place = Some(KnownFolder::find(self.folder())?);
        Ok(self)
    }

    /// Where the folder is now, if its path no longer leads to it.
    pub fn moved_to(&self) -> Option<PathBuf> {
        let place = self.place.as_ref()?;
        place.check().err().and_then(|_| place.now())
    }

    /// All but those that are surely another run's, from the oldest to the newest.
    pub fn own(&self) -> io::Result<Vec<PathBuf>> {
        let mut list = self.list()?;
        list.retain(|path| !self.is_of_another(path));
        Ok(list)
    }

    /// Checkpoints in the folder that are another run's.
    pub fn of_others(&self) -> io::Result<Vec<PathBuf>> {
        let mut list = self.list()?;
        list.retain(|path| self.is_of_another(path));
        Ok(list)
    }

    /// Whether any checkpoint in the folder is surely this run's.
    pub fn has_own(&self) -> bool {
        let list = self.list().unwrap_or_default();
        self.run.is_some() && list.iter().any(|path| run_id(path) == self.run)
    }

    /// What cannot be read says nothing about its run.
    pub(super) fn is_of_another(&self, checkpoint: &Path) -> bool {
        let theirs = run_id(checkpoint);
        let (Some(ours), Some(theirs)) = (&self.run, theirs) else {
            return false;
        };
        *ours != theirs
    }

    /// Removes the checkpoints of this run and `best.json`, where it names one of them.
    pub fn remove_all(&self) -> Result<(), CheckpointError> {
        let removed = || -> io::Result<()> {
            // It goes first: whatever ends this program, it never names what is not there.
            if !self
                .best_path()
                .is_some_and(|path| self.is_of_another(&path))
            {
                remove_file(&self.folder().join(BEST))?;
            }
            self.own()?.iter().try_for_each(|path| remove(path))
        };
        removed().map_err(|source| self.cannot_write(source))
    }

    /// Removes what a program that was ended left half written. Nobody else may be writing.
    pub fn remove_unfinished(&self) -> Result<(), CheckpointError> {
        let removed = || -> io::Result<()> {
            let entries = match fs::read_dir(self.folder()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                    continue;
                }
                match entry.file_type()?.is_dir() {
                    true => remove(&entry.path())?,
                    false => remove_file(&entry.path())?,
                }
            }
            Ok(())
        };
        removed().map_err(|source| self.cannot_write(source))
    }

    fn cannot_write(&self, source: io::Error) -> CheckpointError {
        CheckpointError::Write {
            path: self.folder().to_owned(),
            source,
        }
    }
}

fn run_id(checkpoint: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct OnlySettings {
        settings: Value,
    }
    let bytes = untrusted::read(&checkpoint.join(JSON), &(1..=untrusted::MOST_JSON)).ok()?;
    let OnlySettings { settings } = serde_json::from_slice(&bytes).ok()?;
    Some(settings.get(RUN_ID)?.as_str()?.to_owned())
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
