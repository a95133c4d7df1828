//! Where a run is written. What is there already is locked before anything of it is read for change, and stays as it is
//! until nothing refuses the run any more ([`RunOutput::take_over`]). What could go wrong at step 10,000 is checked before
//! step 1.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use voxmill_data::cache::free_space;
use voxmill_trainer::checkpoint::{Checkpoints, KnownFolder, checkpoint_bytes};

use super::aside::Aside;
use crate::session::run_lock::FolderLock;
use crate::session::{Resumed, Session};
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{cannot_write, of_checkpoint};
use voxmill_settings::{Start, TrainSettings, run_folder};

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
    /// On the checkpoints of the run that is replaced, where they are in a folder of their own.
    _replaced: Option<FolderLock>,
}

pub(super) struct RunOutput {
    pub(super) folder: PathBuf,
    pub(super) checkpoints: Checkpoints,
    /// What tells this run from all others.
    pub(super) run_id: String,
    /// Whether it is still where it was.
    pub(super) place: KnownFolder,
    /// The checkpoints of the run that a reset replaces.
    replaced: Vec<Checkpoints>,
    aside: Option<Aside>,
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
        let dir = planned.checkpoints(run);
        if let Some(dir) = dir.as_deref().filter(|dir| dir.is_dir()) {
            planned.locks.checkpoints = Some(FolderLock::of_checkpoints(dir)?);
            planned.examine(run, dir)?;
        }
        if let (None, Some(own)) = (resumed, own) {
            planned.examine_run(own)?;
            let theirs = run_folder::checkpoints_of(own);
            if planned.resets() && Some(&theirs) != dir.as_ref() && theirs.is_dir() {
                planned.locks._replaced = Some(FolderLock::of_checkpoints(&theirs)?);
            }
        }
        Ok(planned)
    }

    /// `None` where they are in a run's folder that has no name yet.
    fn checkpoints(&self, run: Option<&Path>) -> Option<PathBuf> {
        let moved = self.settings.checkpoints.dir.clone();
        moved.or_else(|| run.map(run_folder::own_checkpoints))
    }

    /// Makes what is missing. What is there stays.
    pub(super) fn create(mut self, parameters: usize) -> anyhow::Result<RunOutput> {
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
        if self.resumed.is_none() {
            self.examine_run(&folder)?;
        }
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
        let mut replaced = Vec::new();
        if self.resets() {
            let old = old.unwrap_or_default();
            replaced.push(checkpoints.clone().of_run(&old));
            let theirs = run_folder::checkpoints_of(&folder);
            if theirs != dir {
                replaced.push(Checkpoints::new(&theirs, 1).of_run(&old));
            }
        }
        let checkpoints = checkpoints
            .in_place()
            .map_err(|error| cannot_save(&dir, error))?;
        let place = KnownFolder::find(&folder).map_err(|error| cannot_write(&folder, error))?;
        Ok(RunOutput {
            folder,
            checkpoints: checkpoints.of_run(&run_id),
            run_id,
            place,
            replaced,
            aside: None,
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

    /// Refuses to take a run's folder away from it, wherever its checkpoints are.
    fn examine_run(&self, folder: &Path) -> anyhow::Result<()> {
        if self.resets() {
            return Ok(());
        }
        let kept = run_folder::checkpoints_to_lose(folder);
        let Some(kept) = kept.context("cannot read the folder of checkpoints")? else {
            return Ok(());
        };
        let what = format!(
            "`{}` is the folder of a run with checkpoints in `{}`{}",
            folder.display(),
            kept.display(),
            match kept.exists() {
                true => "",
                false => ", which is not there now",
            }
        );
        let hint = format!(
            "--resume {} continues it, another --run-dir leaves it alone, --reset-training replaces it",
            folder.display()
        );
        Err(UserError::new(what, hint).into())
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

impl RunOutput {
    /// Makes way for the log and the curves of a run that replaces another. Until [`RunOutput::take_over`] they come back
    /// where this start is refused.
    pub(super) fn make_way(&mut self) -> anyhow::Result<()> {
        if !self.replaced.is_empty() {
            let aside = Aside::move_from(&self.folder);
            self.aside = aside.map_err(|error| cannot_write(&self.folder, error))?;
        }
        Ok(())
    }

    /// From here on the folder is this run's: nothing has refused it. What could still fail for want of room or rights is
    /// written before anything is removed.
    pub(super) fn take_over(&mut self, session: &Session) -> anyhow::Result<()> {
        let folder = &self.folder;
        let settings = session.stage_settings(folder, Some(&self.run_id))?;
        let list = folder.join(run_folder::QUARANTINE);
        (session.bad.write_csv(&list)).map_err(|error| cannot_write(folder, error))?;
        for replaced in self.replaced.drain(..) {
            replaced.remove_all().map_err(of_checkpoint)?;
        }
        self.checkpoints
            .remove_unfinished()
            .map_err(of_checkpoint)?;
        settings
            .put()
            .map_err(|error| cannot_write(folder, error))?;
        if let Some(aside) = self.aside.take() {
            aside.stay();
        }
        Ok(())
    }
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
