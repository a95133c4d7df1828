//! Errors of the libraries with the next move: what a person reads when a run fails.

use std::error::Error;
use std::path::Path;

use voxmill_data::cache::CacheError;
use voxmill_data::manifest::ManifestError;
use voxmill_text::{FrontEnd, FrontEndOptions, TextError};
use voxmill_trainer::checkpoint::{CheckpointError, Checkpoints};
use voxmill_trainer::train::TrainError;

use crate::checks::need::StepClips;
use crate::error::UserError;

/// A run's folder that does not take what belongs there.
pub fn cannot_write(run: &Path, error: impl Into<anyhow::Error>) -> UserError {
    let what = format!("cannot write into the run's folder `{}`", run.display());
    let hint = "give a folder that can be written with --run-dir";
    UserError::new(what, hint).because(error)
}

/// An error with what lies behind it, in one line.
pub fn with_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// What to do about a checkpoint that cannot be used.
pub fn of_checkpoint(error: CheckpointError) -> anyhow::Error {
    let hint = match &error {
        CheckpointError::None(_) => {
            "give a run's folder or one of its checkpoints; `voxmill runs` lists the runs"
        }
        CheckpointError::OfAnotherRun(_) => "give each run a --checkpoint-dir of its own",
        CheckpointError::Version { .. } => "a newer voxmill wrote it; take that one",
        CheckpointError::Damaged { .. } => "take another checkpoint of the run",
        CheckpointError::Remove { .. } => "check who may write there",
        CheckpointError::Read { .. } => "check that it exists and is readable",
        CheckpointError::Write { .. } => "free some space, or move them with --checkpoint-dir",
    };
    with_causes(error, hint)
}

/// What to do where no batches can be made.
pub fn of_loader(error: voxmill_data::LoaderError) -> anyhow::Error {
    use voxmill_data::LoaderError;
    let hint = match &error {
        LoaderError::TooLittleMemory { .. } => {
            "give more with --ram-budget, or make batches smaller with --batch-size or --max-mel-frames"
        }
        LoaderError::Plan(_) => "`voxmill prepare` on the same folder says what is in it",
        LoaderError::Start(_) => "try fewer workers with --num-workers",
    };
    let mut refused = UserError::new("the batches cannot be prepared", hint);
    if let LoaderError::TooLittleMemory { needed, budget } = error {
        refused = refused.short_of_memory(needed, budget);
    }
    refused.because(error).into()
}

/// What to do after a run that failed: what is saved, and how to resume from it.
pub fn of_training(
    error: TrainError,
    run: &Path,
    checkpoints: &Checkpoints,
    clips: StepClips,
) -> anyhow::Error {
    let saved = checkpoints.newest().ok();
    let moved = checkpoints.moved_to();
    let resume = match (&moved, &saved) {
        (Some(moved), _) => format!(
            "what was saved is where its folder was moved to: `voxmill train --resume {}`",
            moved.display()
        ),
        (None, Some(found)) => format!(
            "step {} is saved: `voxmill train --resume {}` resumes from there",
            found.checkpoint.facts().progress.step,
            run.display()
        ),
        (None, None) => "nothing is saved; correct the cause and start again".to_owned(),
    };
    match error {
        TrainError::TooManyBadSteps { .. } => UserError::new(
            error.to_string(),
            "look at the clips that were named; where it is not their fault a lower --lr helps, and \
             --max-bad-steps allows more",
        )
        .into(),
        TrainError::Device(_) => {
            let half = clips.in_parts(2);
            let halved = match half == clips {
                true => String::new(),
                false => format!(
                    "--batch-size {} with --grad-accum {} takes about half of it and learns from as many clips a step, and ",
                    half.batch_size, half.accumulate
                ),
            };
            let what = error.to_string();
let hint = format!(
                    "{resume}; where memory ran out, {halved}--enable-gradient-checkpointing, a smaller \
                     --prefetch-buffer-size or a smaller --model-size takes less"
                );
UserError::new(what, hint).into()
}
        TrainError::Observer(why) => UserError::new(why.to_string(), resume).into(),
        TrainError::Feed(why) => UserError::new("the batches failed", resume).because(anyhow::anyhow!(why)).into(),
        TrainError::Checkpoint(why) => {
            UserError::new("a checkpoint could not be written", resume).because(why).into()
        }
        TrainError::NoBatches => UserError::new(error.to_string(), "give a dataset with clips").into(),
    }
}

/// The text front-end, or what is wrong with what it was given.
pub fn front_end(options: FrontEndOptions) -> anyhow::Result<FrontEnd> {
    FrontEnd::new(options).map_err(|error| match error {
        TextError::Lexicon(error) => {
            let hint = "correct it, or leave --lexicon out; a line is `word<TAB>pronunciation`";
            with_causes(error, hint)
        }
        TextError::Espeak(error) => error.into(),
    })
}

/// The next move where the cache's folder is not ours to write.
pub const OWN_FOLDER: &str = "give a folder of your own with --cache-dir";

/// What to do about a folder that is no dataset.
pub fn of_manifest(error: ManifestError) -> anyhow::Error {
    let hint = error.hint();
    with_causes(error, hint)
}

/// What to do about a cache that cannot be used.
pub fn of_cache(error: CacheError) -> anyhow::Error {
    let hint = error.hint().unwrap_or(OWN_FOLDER).to_owned();
    with_causes(error, hint)
}

/// The error's own words as the error, its causes below it.
fn with_causes(
    error: impl Error + Send + Sync + 'static,
    hint: impl Into<String>,
) -> anyhow::Error {
    let shown = UserError::new(error.to_string(), hint);
    match error.source() {
        Some(_) => shown.because(error).into(),
        None => shown.into(),
    }
}
