//! Where a run is written. It is created when hardly anything can go wrong any more, and what could go wrong
//! at step 10,000 is checked before step 1.

use std::path::PathBuf;

use anyhow::Context as _;
use voxmill_data::cache::free_space;
use voxmill_trainer::checkpoint::{Checkpoints, checkpoint_bytes};

use crate::commands::status;
use crate::session::errors::cannot_write;
use crate::session::{Resumed, Session, run_folder};
use voxmill_settings::error::UserError;
use voxmill_settings::{Start, TrainSettings};

pub(super) struct RunOutput {
    pub(super) folder: PathBuf,
    pub(super) checkpoints: Checkpoints,
    is_new: bool,
    /// Checkpoints of an earlier run, to be removed.
    abandoned: Vec<PathBuf>,
}

impl RunOutput {
    /// Nothing is written yet.
    pub(super) fn plan(
        settings: &TrainSettings,
        resumed: Option<&Resumed>,
    ) -> anyhow::Result<RunOutput> {
        let folder = match resumed {
            Some(resumed) => resumed.run.clone(),
            None => run_folder::planned(&settings.run_folder),
        };
        let moved = settings.checkpoints.dir.clone();
        let dir = moved.unwrap_or_else(|| run_folder::own_checkpoints(&folder));
        let checkpoints = Checkpoints::new(&dir, settings.checkpoints.keep.get());
        Ok(RunOutput {
            abandoned: refuse_to_overwrite(settings, &checkpoints)?,
            folder,
            checkpoints,
            is_new: resumed.is_none(),
        })
    }

    pub(super) fn create(&self, session: &Session, parameters: usize) -> anyhow::Result<()> {
        if self.is_new {
            run_folder::create(&self.folder)?;
        }
        check_room(&self.checkpoints, parameters, &session.settings)?;
        for path in &self.abandoned {
            std::fs::remove_dir_all(path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
        let list = self.folder.join(run_folder::QUARANTINE);
        (session.bad.write_csv(&list)).map_err(|error| cannot_write(&self.folder, error))?;
        Ok(())
    }
}

/// The checkpoints of an earlier run that are to be removed; without --reset-training, an error.
fn refuse_to_overwrite(
    settings: &TrainSettings,
    checkpoints: &Checkpoints,
) -> anyhow::Result<Vec<PathBuf>> {
    let Start::New { reset, .. } = settings.start else {
        return Ok(Vec::new());
    };
    let list = checkpoints.list();
    let there = list.context("cannot read the folder of checkpoints")?;
    if there.is_empty() {
        return Ok(there);
    }
    if !reset {
        let what = format!(
            "there are checkpoints in `{}` already",
            checkpoints.folder().display()
        );
        let hint = "--resume continues from them, --reset-training removes them";
        return Err(UserError::new(what, hint).into());
    }
    status!("note: removing {} checkpoints", there.len());
    Ok(there)
}

/// A disk that fills up at step 10,000 is a worse way to learn it.
fn check_room(
    checkpoints: &Checkpoints,
    parameters: usize,
    settings: &TrainSettings,
) -> anyhow::Result<()> {
    let folder = checkpoints.folder();
    let probe = folder.join(".can-write");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| {
            let what = format!("checkpoints cannot be written into `{}`", folder.display());
            let hint = "give a folder that can be written with --checkpoint-dir";
            UserError::new(what, hint).because(error)
        })?;
    let each = checkpoint_bytes(parameters);
    // The kept ones, the best, and the one that is being written.
    let needed = each * (settings.checkpoints.keep.get() as u64 + 2);
    let free =
        free_space(checkpoints.folder()).context("cannot find out how much space is free")?;
    if needed > free {
        let what = format!(
            "the checkpoints need {} MB in `{}`, where {} MB are free",
            needed / 1_000_000,
            checkpoints.folder().display(),
            free / 1_000_000
        );
        let hint = "free some space, keep fewer with --keep, or move them with --checkpoint-dir";
        return Err(UserError::new(what, hint).into());
    }
    Ok(())
}
