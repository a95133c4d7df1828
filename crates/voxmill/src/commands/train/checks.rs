//! What is looked at before the first step, so that it does not go wrong at step 10,000.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::Value;
use voxmill_speech::cache::free_space;
use voxmill_speech::draw::draw;
use voxmill_speech::text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::{Checkpoints, checkpoint_bytes};

use super::{Resumed, start};
use crate::commands::tell;
use crate::complaint::Complaint;
use crate::feed::train::BatchFeed;
use crate::settings::{Start, TrainSettings};

/// A checkpoint can only go on as the voice that it is.
pub(super) fn check_fits(
    resumed: &Resumed,
    settings: &TrainSettings,
    plan: &str,
) -> anyhow::Result<()> {
    let facts = resumed.checkpoint.facts();
    let (voice, path) = (&facts.voice, resumed.checkpoint.path());
    let refuse = |what: String, hint: String| Err(Complaint::new(what, hint).into());
    if voice.size != start::size(settings.model_size) {
        return refuse(
            format!(
                "`{}` is of size {}, not {}",
                path.display(),
                voice.size,
                settings.model_size.name()
            ),
            format!(
                "give --model-size {}, or begin anew without --resume (--init-from takes its weights)",
                voice.size
            ),
        );
    }
    let symbols = SymbolTable::built_in();
    if voice.symbols != symbols {
        return refuse(
            format!(
                "`{}` knows {} symbols, this program {}",
                path.display(),
                voice.symbols.symbols.len(),
                symbols.symbols.len()
            ),
            "--init-from takes its weights into a new run and adds what is new".to_owned(),
        );
    }
    if voice.audio != settings.data.audio {
        return refuse(
            format!("`{}` was trained with other audio settings", path.display()),
            "leave the audio flags out: the run's own settings are then used".to_owned(),
        );
    }
    let same = facts.settings.get("plan").and_then(Value::as_str) == Some(plan);
    if !same {
        tell(
            "warning: the dataset or the batch settings have changed since the checkpoint: the run goes on at the \
             same place of another order of batches",
        );
    }
    Ok(())
}

/// Which clips are in which batch, in a few letters.
pub(super) fn plan_hash(batches: &BatchFeed) -> String {
    let plan = batches.plan();
    let mut hash = 0u64;
    for clip in plan.clips() {
        hash = draw(
            hash,
            u64::from(clip.frames) << 32 | u64::from(clip.tokens),
            &clip.id,
            "plan",
        );
    }
    let settings = format!("{:?}", plan.settings());
    format!("{:016x}", draw(hash, 0, &settings, "plan"))
}

/// The checkpoints of an earlier run that are to be thrown away; where nobody said so, an error.
pub(super) fn refuse_to_overwrite(
    settings: &TrainSettings,
    checkpoints: &Checkpoints,
) -> anyhow::Result<Vec<PathBuf>> {
    let Start::New { reset, .. } = settings.start else {
        return Ok(Vec::new());
    };
    let mut there = checkpoints
        .list()
        .context("cannot look into the folder of checkpoints")?;
    if there.is_empty() {
        return Ok(there);
    }
    if !reset {
        return Err(Complaint::new(
            format!(
                "there are checkpoints in `{}` already",
                checkpoints.folder().display()
            ),
            "--resume goes on from them, --reset-training throws them away",
        )
        .into());
    }
    tell(&format!("note: throwing away {} checkpoints", there.len()));
    Ok(std::mem::take(&mut there))
}

/// A disk that fills up at step 10,000 is a worse way to learn it.
pub(super) fn check_room(
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
            Complaint::new(
                format!("checkpoints cannot be written into `{}`", folder.display()),
                "give a folder that can be written with --checkpoint-dir",
            )
            .because(error)
        })?;
    let each = checkpoint_bytes(parameters);
    // The kept ones, the best, and the one that is being written.
    let needed = each * (settings.checkpoints.keep.get() as u64 + 2);
    let free = free_space(checkpoints.folder()).context("cannot tell how much space is free")?;
    if needed > free {
        return Err(Complaint::new(
            format!(
                "the checkpoints need {} MB in `{}`, where {} MB are free",
                needed / 1_000_000,
                checkpoints.folder().display(),
                free / 1_000_000
            ),
            "free some space, keep fewer with --keep, or move them with --checkpoint-dir",
        )
        .into());
    }
    Ok(())
}
