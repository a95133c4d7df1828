//! Where a run is written. What is there already is locked before anything of it is read for change; what is
//! new is made when hardly anything can go wrong any more. What could go wrong at step 10,000 is checked
//! before step 1.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use voxmill_data::cache::free_space;
use voxmill_trainer::checkpoint::{Checkpoints, checkpoint_bytes};

use crate::commands::status;
use crate::session::errors::{cannot_write, of_checkpoint};
use crate::session::run_lock::FolderLock;
use crate::session::{Resumed, Session, run_folder};
use voxmill_settings::error::UserError;
use voxmill_settings::{Start, TrainSettings};

/// Where a run will be written. Nothing is written yet but the locks of folders that are there.
pub(super) struct PlannedOutput<'a> {
    settings: &'a TrainSettings,
    resumed: Option<&'a Resumed>,
    locks: Locks,
}

/// For as long as the run lives. A resumed run has the lock of its folder already.
#[derive(Default)]
struct Locks {
    run: Option<FolderLock>,
    checkpoints: Option<FolderLock>,
}

pub(super) struct RunOutput {
    pub(super) folder: PathBuf,
    pub(super) checkpoints: Checkpoints,
    /// What tells this run from all others.
    pub(super) run_id: String,
    _locks: Locks,
}

impl<'a> PlannedOutput<'a> {
    pub(super) fn new(
        settings: &'a TrainSettings,
        resumed: Option<&'a Resumed>,
    ) -> anyhow::Result<PlannedOutput<'a>> {
        let mut planned = PlannedOutput {
            settings,
            resumed,
            locks: Locks::default(),
        };
        let own = settings.run_folder.dir.as_deref();
        if let (None, Some(dir)) = (resumed, own.filter(|dir| dir.is_dir())) {
            planned.locks.run = Some(FolderLock::of_run(dir)?);
        }
        let run = resumed.map(|resumed| &*resumed.run).or(own);
        if let Some(dir) = planned.checkpoints(run).filter(|dir| dir.is_dir()) {
            planned.locks.checkpoints = Some(FolderLock::of_checkpoints(&dir)?);
            planned.examine(run, &dir)?;
        }
        Ok(planned)
    }

    /// `None` where they are in a run's folder that has no name yet.
    fn checkpoints(&self, run: Option<&Path>) -> Option<PathBuf> {
        let moved = self.settings.checkpoints.dir.clone();
        moved.or_else(|| run.map(run_folder::own_checkpoints))
    }

    /// Makes what is missing, and takes away what is to be replaced.
    pub(super) fn create(
        mut self,
        session: &Session,
        parameters: usize,
    ) -> anyhow::Result<RunOutput> {
        // First of all: a run that is refused here leaves no folder.
        if let Some(dir) = &self.settings.checkpoints.dir {
            self.lock_checkpoints(dir)?;
        }
        let folder = match self.resumed {
            Some(resumed) => resumed.run.clone(),
            None => run_folder::create(&self.settings.run_folder)?,
        };
        if self.resumed.is_none() && self.locks.run.is_none() {
            self.locks.run = Some(FolderLock::of_run(&folder)?);
        }
        let dir = self.checkpoints(Some(&folder));
        let dir = dir.context("checkpoints always have a folder")?;
        self.lock_checkpoints(&dir)?;
        // Again: another run may have come and gone before the locks were ours.
        self.examine(Some(&folder), &dir)?;
        let old = run_folder::id_of(&folder);
        let run_id = match self.resumed {
            // A checkpoint from before there were ids belongs to a run that may have one by now.
            Some(resumed) => {
                let stored = resumed.checkpoint.facts().run_id().map(str::to_owned);
                stored.or_else(|| old.clone())
            }
            None => None,
        };
        let run_id = run_id.unwrap_or_else(run_folder::new_id);
        let checkpoints = Checkpoints::new(&dir, self.settings.checkpoints.keep.get());
        check_room(&checkpoints, parameters, self.settings)?;
        if self.resets() {
            set_aside(&folder).map_err(|error| cannot_write(&folder, error))?;
            let of_old = checkpoints.clone().of_run(&old.unwrap_or_default());
            of_old.remove_all().map_err(of_checkpoint)?;
        }
        checkpoints.remove_unfinished().map_err(of_checkpoint)?;
        let list = folder.join(run_folder::QUARANTINE);
        (session.bad.write_csv(&list)).map_err(|error| cannot_write(&folder, error))?;
        Ok(RunOutput {
            folder,
            checkpoints: checkpoints.of_run(&run_id),
            run_id,
            _locks: self.locks,
        })
    }

    fn lock_checkpoints(&mut self, dir: &Path) -> anyhow::Result<()> {
        if self.locks.checkpoints.is_none() {
            fs::create_dir_all(dir).map_err(|error| cannot_save(dir, error))?;
            self.locks.checkpoints = Some(FolderLock::of_checkpoints(dir)?);
        }
        Ok(())
    }

    fn resets(&self) -> bool {
        matches!(self.settings.start, Start::New { reset: true, .. })
    }

    /// Refuses to mix with another run, and to replace checkpoints that nobody wants replaced.
    fn examine(&self, run: Option<&Path>, dir: &Path) -> anyhow::Result<()> {
        let checkpoints = Checkpoints::new(dir, 1);
        let list = checkpoints.list();
        let there = list.context("cannot read the folder of checkpoints")?;
        if there.is_empty() {
            return Ok(());
        }
        let resumed = self.resumed.and_then(|r| r.checkpoint.facts().run_id());
        let id = resumed.map(str::to_owned);
        let id = id.or_else(|| run_folder::id_of(run?)).unwrap_or_default();
        let others = checkpoints.of_run(&id).of_others();
        let others = others.context("cannot read the folder of checkpoints")?;
        if let Some(theirs) = others.first() {
            let what = format!("`{}` is a checkpoint of another run", theirs.display());
            let hint = "give this run a --checkpoint-dir of its own";
            return Err(UserError::new(what, hint).into());
        }
        if self.resumed.is_none() && !self.resets() {
            let what = format!("there are checkpoints in `{}` already", dir.display());
            let hint = "--resume continues from them, --reset-training removes them";
            return Err(UserError::new(what, hint).into());
        }
        Ok(())
    }
}

/// Moves the log, the curves and the samples of the run before a reset into a folder of their own: they would
/// be taken for those of the new run.
fn set_aside(run: &Path) -> std::io::Result<()> {
    let is_old = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == run_folder::EVENTS
            || name == run_folder::SAMPLES
            || name.starts_with("events.out.tfevents.")
    };
    let entries = fs::read_dir(run)?.map(|entry| Ok(entry?.file_name()));
    let mut old = entries.collect::<std::io::Result<Vec<_>>>()?;
    old.retain(|name| is_old(name));
    if old.is_empty() {
        return Ok(());
    }
    let aside = run_folder::create_numbered(run, "before-reset")?;
    for name in old {
        fs::rename(run.join(&name), aside.join(&name))?;
    }
    status!(
        "note: log and samples of the run before are in `{}`; its checkpoints are removed",
        aside.display()
    );
    Ok(())
}

fn cannot_save(folder: &Path, error: std::io::Error) -> UserError {
    let what = format!("checkpoints cannot be written into `{}`", folder.display());
    let hint = "give a folder that can be written with --checkpoint-dir";
    UserError::new(what, hint).because(error)
}

/// A disk that fills up at step 10,000 is a worse way to learn it.
fn check_room(
    checkpoints: &Checkpoints,
    parameters: usize,
    settings: &TrainSettings,
) -> anyhow::Result<()> {
    let folder = checkpoints.folder();
    let probe = folder.join(".can-write");
    fs::write(&probe, b"")
        .and_then(|()| fs::remove_file(&probe))
        .map_err(|error| cannot_save(folder, error))?;
    let each = checkpoint_bytes(parameters);
    // The kept ones, the best, and the one that is being written.
    let needed = each * (settings.checkpoints.keep.get() as u64 + 2);
    let free = free_space(folder).context("cannot find out how much space is free")?;
    if needed > free {
        let what = format!(
            "the checkpoints need {} MB in `{}`, where {} MB are free",
            needed / 1_000_000,
            folder.display(),
            free / 1_000_000
        );
        let hint = "free some space, keep fewer with --keep, or move them with --checkpoint-dir";
        return Err(UserError::new(what, hint).into());
    }
    Ok(())
}
