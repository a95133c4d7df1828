//! Where inputs are put: a folder in memory, with what a target expects to find next to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;
use voxmill_audio::Featurizer;
use voxmill_text::{FrontEnd, FrontEndOptions};

use crate::audio;

/// One for each process; targets use its files one after another.
#[derive(Debug)]
pub struct FuzzFolder {
    folder: TempDir,
    front_end: OnceLock<FrontEnd>,
}

impl FuzzFolder {
    pub fn new() -> std::io::Result<FuzzFolder> {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory)?,
            false => tempfile::tempdir()?,
        };
        Ok(FuzzFolder {
            folder,
            front_end: OnceLock::new(),
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the folder and returns its path.
    #[track_caller]
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).expect("the folder can be written");
        path
    }

    /// A folder of the folder, empty.
    #[track_caller]
    pub(crate) fn empty(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the folder can be written");
        path
    }

    pub(crate) fn front_end(&self) -> &FrontEnd {
        self.front_end.get_or_init(|| {
            FrontEnd::new(FrontEndOptions::default()).expect("there is no lexicon to be wrong")
        })
    }

    /// Fresh each time: what a clip leaves behind must not decide what the next one gives.
    pub(crate) fn featurizer(&self) -> Featurizer {
        Featurizer::new(&audio::settings()).expect("the settings are valid")
    }
}
