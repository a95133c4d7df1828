//! The training loop.
//!
//! It reads top to bottom in [`step`]. What it costs is marked: the host waits for the device only where it would get
//! more than a step ahead, when it reports, saves or validates, and at the first batch of a shape.

mod alignments;
mod begin;
mod between;
mod fitting;
mod gradients;
mod lengths;
mod options;
mod report;
mod settling;
mod step;
mod styles;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod unsaved;
mod validate;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Device;
use serde_json::Value;
use voxmill_data::batch_plan::Position;

pub use fitting::BatchParts;
pub use options::{RunLimits, TrainOptions};
pub use report::{
    Losses, NotSaved, Observer, Saved, Shown, StepParts, StepReport, Stopped, Summary, Validation,
};
pub use settling::Settling;

use crate::checkpoint::{CheckpointError, CheckpointWriter, Checkpoints, Progress, VoiceFacts};
use crate::device::{Reader, is_cpu, panic_message};
use crate::model::{ModelShape, Voice};
use crate::optimizer::{LossScale, OptimizerState};
use crate::prepare::{Augment, Preparation, ReadyBatch};
use alignments::Alignments;
use fitting::Fitting;
use lengths::LengthSums;
use report::PendingReports;
use styles::Styles;
pub(crate) use styles::excerpts_per_speaker;
use unsaved::Unsaved;

/// Moves the feed's position past a batch.
pub type Done = Box<dyn FnOnce() + Send>;

/// A batch and what to call when it has been trained on.
pub struct Fed {
    pub ready: ReadyBatch,
    /// Frees the batch's slot. What it returns is called once the whole step is done: the batches of a step that is
    /// not come again.
    pub trained: Box<dyn FnOnce() -> Done + Send>,
}

impl std::fmt::Debug for Fed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fed")
            .field("batch", &self.ready.position)
            .finish_non_exhaustive()
    }
}

/// Why a feed or an observer ended the run, in its own words.
pub type FeedError = Box<dyn Error + Send + Sync>;

/// Where batches come from.
pub trait Feed {
    /// The next batch to train on; `None` after the last epoch.
    fn next(&mut self) -> Option<Result<Fed, FeedError>>;
    /// The position after a batch.
    fn after(&self, position: Position) -> Position;
    /// What a checkpoint must store to resume after the batches that are done.
    fn position(&self) -> Value;
    /// The stage that was late, if the last batch had to be waited for.
    fn late(&self) -> Option<String> {
        None
    }
    /// The held-out clips, always the same batches; prepared as those of training are, except for augmentation.
    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<ReadyBatch, FeedError>> + '_>, FeedError> {
        Ok(Box::new(std::iter::empty()))
    }
    /// Clips that are left out of this epoch, by id.
    fn quarantine(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a run ended before it was done.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("the feed of batches failed")]
    Feed(#[source] FeedError),
    #[error("the feed has no batch to train on")]
    NoBatches,
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(
        "{bad} steps had losses or gradients that are not finite; they changed nothing, and the \
         rest is saved after step {saved}"
    )]
    TooManyBadSteps { bad: u64, saved: u64 },
    #[error("the device failed while training: {0}")]
    Device(String),
    #[error("the run was ended")]
    Observer(#[source] FeedError),
}

/// A run between two steps.
#[derive(Debug)]
pub struct Trainer {
    options: TrainOptions,
    device: Device,
    voice: VoiceFacts,
    settings: Value,
    speaker_names: Vec<String>,
    model: Voice,
    optimizer: OptimizerState,
    /// With f16 alone.
    loss_scale: Option<LossScale>,
    progress: Progress,
    lengths: LengthSums,
    styles: Styles,
    alignments: Alignments,
    fitting: Fitting,
    reports: PendingReports,
    /// On a GPU.
    reader: Option<Arc<Reader>>,
    /// The last step of this start whose checkpoint is there, and the last that was validated.
    saved_at: Option<u64>,
    validated_at: Option<u64>,
    /// Whether the first sample is there, of this start or one before.
    has_sampled: bool,
    unsaved: Unsaved,
}

/// What a run takes batches from, saves to and reports to.
struct RunContext<'a, F> {
    feed: &'a mut F,
    checkpoints: CheckpointWriter,
    observer: &'a mut dyn Observer,
    /// Set when somebody wants the run to end.
    stop: &'a AtomicBool,
}

impl<F> RunContext<'_, F> {
    fn is_asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Where this start of the run began.
#[derive(Clone, Copy, Debug)]
struct Began {
    step: u64,
    /// Of training before it.
    seconds: f64,
    at: Instant,
}

impl Began {
    fn new(progress: &Progress) -> Self {
        Self {
            step: progress.step,
            seconds: progress.seconds,
            at: Instant::now(),
        }
    }
}

impl Trainer {
    /// How far the run is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What the model is built of.
    pub fn shape(&self) -> &ModelShape {
        &self.voice.shape
    }

    /// How many numbers the model learns.
    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// How batches come to this run's device, by way of another one or not.
    pub fn preparing(&self, data: &Device, augment: Augment) -> Preparation {
        Preparation {
            data: data.clone().inner(),
            model: self.device.clone().inner(),
            statistics: self.voice.mel_statistics,
            audio: self.voice.audio.clone(),
            augment,
            seed: self.options.seed,
        }
    }

    /// Trains until a limit is reached, the feed ends, or `stop` is set. A GPU that fails makes the library panic,
    /// which ends the run like any other error: the last checkpoint is there.
    pub fn run(
        self,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let device = self.device.clone();
        let run = RunContext {
            feed,
            checkpoints: CheckpointWriter::start(checkpoints),
            observer,
            stop,
        };
        caught(&device, || self.run_steps(run))
    }

    /// The limit that ends the run here, if any.
    pub fn limit_reached(&self) -> Option<Stopped> {
        let (progress, options) = (&self.progress, &self.options);
        let patience = options.patience;
        if patience.is_some_and(|most| progress.since_best >= most) {
            return Some(Stopped::NoLongerBetter);
        }
        options.limits.reached(progress.step, progress.seconds)
    }
}

/// What a GPU that fails makes of the work: an error in place of the library's panic.
fn caught<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    if is_cpu(device) {
        return work();
    }
    let caught = catch_unwind(AssertUnwindSafe(work));
    caught.unwrap_or_else(|panic| Err(TrainError::Device(panic_message(&*panic))))
}
