//! What `train` says when something went wrong, and the next move.

use std::path::Path;

use voxmill_trainer::checkpoint::{CheckpointError, Checkpoints};
use voxmill_trainer::train::TrainError;

use crate::checks::need::ClipsOfAStep;
use crate::complaint::Complaint;

pub(super) fn cannot_write(run: &Path, error: impl Into<anyhow::Error>) -> Complaint {
    Complaint::new(
        format!("cannot write into the run's folder `{}`", run.display()),
        "give a folder that can be written with --run-dir",
    )
    .because(error)
}

pub(super) fn describe(error: &CheckpointError) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

pub(crate) fn of_checkpoint(error: CheckpointError) -> anyhow::Error {
    let hint = match &error {
        CheckpointError::None(_) => "give a run's folder or one of its checkpoints",
        CheckpointError::Version { .. } => "a newer voxmill wrote it; take that one",
        CheckpointError::Damaged { .. } => "take another checkpoint of the run",
        CheckpointError::Read { .. } => "look whether it is there and can be read",
        CheckpointError::Write { .. } => "free some space, or move them with --checkpoint-dir",
    };
    let what = error.to_string();
    match std::error::Error::source(&error) {
        Some(_) => Complaint::new(what, hint).because(error).into(),
        None => Complaint::new(what, hint).into(),
    }
}

pub(in crate::commands) fn of_feed(error: crate::feed::train::FeedError) -> anyhow::Error {
    use crate::feed::train::FeedError;
    let hint = match &error {
        FeedError::TooLittleMemory { .. } => {
            "give more with --ram-budget, or make batches smaller with --batch-size or --max-mel-frames"
        }
        FeedError::Plan(_) => "`voxmill prepare` on the same folder says what is in it",
        FeedError::Start(_) => "try fewer workers with --num-workers",
    };
    Complaint::new("the batches cannot be made", hint)
        .because(error)
        .into()
}

pub(in crate::commands) fn of_training(
    error: TrainError,
    run: &Path,
    checkpoints: &Checkpoints,
    clips: ClipsOfAStep,
) -> anyhow::Error {
    let saved = checkpoints.newest().ok();
    let go_on = match &saved {
        Some(found) => format!(
            "step {} is saved: `voxmill train --resume {}` goes on from there",
            found.checkpoint.facts().progress.step,
            run.display()
        ),
        None => "nothing was saved yet; mend it and start again".to_owned(),
    };
    match error {
        TrainError::TooManyBadSteps { .. } => Complaint::new(
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
            Complaint::new(
                error.to_string(),
                format!(
                    "{go_on}; where memory ran out, {halved}--enable-gradient-checkpointing, a smaller \
                     --prefetch-buffer-size or a smaller --model-size takes less"
                ),
            )
            .into()
        }
        TrainError::Observer(why) => Complaint::new(why.to_string(), go_on).into(),
        TrainError::Feed(why) => Complaint::new("the batches failed", go_on).because(anyhow::anyhow!(why)).into(),
        TrainError::Checkpoint(why) => {
            Complaint::new("a checkpoint could not be written", go_on).because(why).into()
        }
        TrainError::NoBatches => Complaint::new(error.to_string(), "give a dataset with clips").into(),
    }
}
