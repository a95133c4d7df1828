//! A folder that a run writes into may be moved, removed or replaced while the run lives.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder as it was once found. As long as it is held open, no other can be taken for it.
#[derive(Clone, Debug)]
pub struct KnownFolder {
    path: PathBuf,
    open: Arc<File>,
}

impl KnownFolder {
    /// Holds the folder that is there now.
    pub fn find(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            open: Arc::new(File::open(path)?),
        })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its path still leads to it; if not, the error says what became of it.
    pub fn check(&self) -> io::Result<()> {
        let of = |found: &fs::Metadata| (found.dev(), found.ino());
        let ours = of(&self.open.metadata()?);
        let there = match fs::metadata(&self.path) {
            Ok(found) if of(&found) == ours => return Ok(()),
            Ok(_) => "something else is in its place",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "nothing is in its place",
            Err(error) => return Err(error),
        };
        let what = match self.now() {
            Some(now) => format!("it was moved to {}, and {there}", now.display()),
            None => format!("it was removed while the run was writing there, and {there}"),
        };
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// Where it is, if it still is.
    pub fn now(&self) -> Option<PathBuf> {
        if self.open.metadata().ok()?.nlink() == 0 {
            return None;
        }
        let now = fs::read_link(format!("/proc/self/fd/{}", self.open.as_raw_fd())).ok()?;
        now.is_dir().then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_whatever_becomes_of_its_path() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("run")).unwrap();
        let known = KnownFolder::find(&at("run")).unwrap();
        known.check().unwrap();

        fs::rename(at("run"), at("elsewhere")).unwrap();
        let said = known.check().unwrap_err().to_string();
        assert!(said.contains("moved to"), "{said}");
        assert!(said.contains("elsewhere, and nothing is"), "{said}");
        fs::create_dir(at("run")).unwrap();
        let said = known.check().unwrap_err().to_string();
        assert!(said.contains("something else is in its place"), "{said}");
        fs::remove_dir(at("run")).unwrap();
        fs::rename(at("elsewhere"), at("run")).unwrap();
        known.check().unwrap();

        // A system may give the number of what is gone to what comes next.
        fs::remove_dir(at("run")).unwrap();
        for _ in 0..3 {
            let said = known.check().unwrap_err().to_string();
            assert!(said.contains("it was removed"), "{said}");
            fs::create_dir_all(at("run")).unwrap();
        }
    }
}
