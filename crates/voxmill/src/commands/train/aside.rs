//! The log, the curves and the samples of a run that `--reset-training` replaces: they would be taken for those of the new
//! one, so they get a folder of their own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::commands::{note, warning};
use voxmill_settings::run_folder;

/// They come back when it is dropped, unless they are to stay there.
#[derive(Debug)]
pub(super) struct Aside {
    run: PathBuf,
    folder: PathBuf,
    names: Vec<OsString>,
    stays: bool,
}

impl Aside {
    /// `None` where there is nothing to move.
    pub(super) fn move_from(run: &Path) -> io::Result<Option<Aside>> {
        let names = of_a_run(run)?;
        if names.is_empty() {
            return Ok(None);
        }
        let aside = Aside {
            run: run.to_owned(),
            folder: run_folder::create_numbered(run, "before-reset")?,
            names,
            stays: false,
        };
        for name in &aside.names {
            fs::rename(run.join(name), aside.folder.join(name))?;
        }
        Ok(Some(aside))
    }

    pub(super) fn stay(mut self) {
        self.stays = true;
        note!(
            "log and samples of the run before are in `{}`; its checkpoints are removed",
            self.folder.display()
        );
    }

    fn bring_back(&self) -> io::Result<()> {
        for name in of_a_run(&self.run)? {
            // What a start left that was refused.
            if !self.names.contains(&name) {
                fs::remove_file(self.run.join(&name))?;
            }
        }
        for name in &self.names {
            let from = self.folder.join(name);
            if from.exists() {
                fs::rename(from, self.run.join(name))?;
            }
        }
        fs::remove_dir(&self.folder)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        if let Err(error) = self.bring_back() {
            warning!(
                "log and samples of the run before are still in `{}`: {error}",
                self.folder.display()
            );
        }
    }
}

/// What a run leaves in its folder, apart from its checkpoints and settings.
fn of_a_run(run: &Path) -> io::Result<Vec<OsString>> {
    let is_of_a_run = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == run_folder::EVENTS
            || name == run_folder::SAMPLES
            || name.starts_with("events.out.tfevents.")
    };
    let entries = fs::read_dir(run)?.map(|entry| Ok(entry?.file_name()));
    let mut names = entries.collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| is_of_a_run(name));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_aside_comes_back_unless_it_stays() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let names = || {
            let entries = fs::read_dir(home.path()).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        assert!(Aside::move_from(home.path()).unwrap().is_none());
        fs::write(at("events.jsonl"), "old").unwrap();
        fs::write(at("events.out.tfevents.1"), "old").unwrap();
        fs::write(at("notes.txt"), "mine").unwrap();
        fs::create_dir(at("samples")).unwrap();
        let before = names();
        let aside = Aside::move_from(home.path()).unwrap().unwrap();
        assert_eq!(names(), ["before-reset", "notes.txt"]);
        fs::write(at("events.jsonl"), "new").unwrap();
        fs::write(at("events.out.tfevents.2"), "new").unwrap();
        drop(aside);
        assert_eq!(names(), before);
        assert_eq!(fs::read_to_string(at("events.jsonl")).unwrap(), "old");

        Aside::move_from(home.path()).unwrap().unwrap().stay();
        assert_eq!(names(), ["before-reset", "notes.txt"]);
    }
}
