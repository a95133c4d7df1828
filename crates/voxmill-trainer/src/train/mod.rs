//! The training loop.
//!
//! It reads top to bottom in `Training::run_steps`. What it costs is marked: the host reads from the
//! device only every `log_every` steps, when it saves or validates, and at the first batch of a shape.

mod alignments;
mod begin;
mod between;
mod fitting;
mod options;
mod pass;
mod report;
mod settling;
mod styles;
#[cfg(test)]
mod tests;
mod validate;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use voxmill_speech::batch::Batch;
use voxmill_speech::batch_plan::Position;

pub use fitting::Split;
pub use options::{Limits, TrainOptions};
pub use report::{
    Losses, Observer, Saved, Shown, StepParts, StepReport, Stopped, Summary, Validation,
};
pub use settling::Settling;

use crate::checkpoint::{CheckpointError, Checkpoints, Progress, VoiceFacts};
use crate::device::{is_cpu, panic_words};
use crate::model::{ModelShape, Voice};
use crate::optimizer::{LossScale, OptimizerState};
use crate::prepare::{Augment, Preparing, Ready};
use crate::schedule::prior_weight;
use alignments::Alignments;
use fitting::Fitting;
use pass::{OfAll, Passed, StepTask};
use report::Pending;
use styles::Styles;
pub(crate) use styles::{stretches_of_one, style_of};

/// A batch and what to call when it has been trained on.
pub struct Fed {
    pub ready: Ready,
    /// Moves the feed's position past the batch and frees its slot; dropping it only frees.
    pub done: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Fed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fed")
            .field("batch", &self.ready.position)
            .finish_non_exhaustive()
    }
}

pub type FeedError = Box<dyn Error + Send + Sync>;

/// Where batches come from.
pub trait Feed {
    /// The next batch to train on; `None` after the last epoch.
    fn next(&mut self) -> Option<Result<Fed, FeedError>>;
    /// The position after a batch.
    fn after(&self, position: Position) -> Position;
    /// What a checkpoint must store to go on after the batches that are done.
    fn position(&self) -> Value;
    /// The stage that was late, if the last batch had to be waited for.
    fn late(&self) -> Option<String>;
    /// The held-out clips, always the same batches.
    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch, FeedError>> + '_>, FeedError>;
    /// Clips that are left out of this epoch, by id.
    fn quarantine(&self) -> Vec<String>;
}

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
pub struct Training {
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
    /// Running sums of true and of predicted frames, on the device.
    lengths: Tensor<1>,
    styles: Styles,
    alignments: Alignments,
    fitting: Fitting,
    /// The last step of this start that was saved, and the last that was validated.
    saved_at: Option<u64>,
    validated_at: Option<u64>,
}

impl Training {
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn shape(&self) -> &ModelShape {
        &self.voice.shape
    }

    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// How batches come to this run's device, by way of another one or not.
    pub fn preparing(&self, data: &Device, augment: Augment) -> Preparing {
        Preparing {
            data: data.clone().inner(),
            model: self.device.clone().inner(),
            statistics: self.voice.mel_statistics,
            audio: self.voice.audio.clone(),
            augment,
            seed: self.options.seed,
        }
    }

    /// Trains until a limit is reached, the feed ends, or `stop` is set. A GPU that fails makes the library panic,
    /// which ends the run like any other trouble: the last checkpoint is there.
    pub fn run(
        self,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let device = self.device.clone();
        caught(&device, || {
            self.run_steps(feed, checkpoints, observer, stop)
        })
    }

    fn run_steps(
        mut self,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let options = self.options.clone();
        let device = self.device.clone();
        let first_step = self.progress.step;
        let seconds_before = self.progress.seconds;
        let begin = Instant::now();
        let mut pending = Pending::default();
        let mut line_end = begin;
        let outcome = loop {
            let step = self.progress.step;
            if stop.load(Ordering::Relaxed) {
                break Ok(Stopped::Interrupted);
            }
            if let Some(reached) = self.limit_reached() {
                break Ok(reached);
            }

            // Wait for the effective batch: one batch, or several whose gradients add up.
            let asked = Instant::now();
            let mut fed = Vec::with_capacity(options.accumulate);
            let mut trouble = None;
            while fed.len() < options.accumulate && trouble.is_none() {
                match feed.next() {
                    Some(Ok(batch)) => fed.push(batch),
                    Some(Err(error)) => trouble = Some(TrainError::Feed(error)),
                    None => break,
                }
            }
            if let Some(trouble) = trouble {
                break Err(trouble);
            }
            if fed.is_empty() {
                break Ok(Stopped::FeedEnded);
            }
            let began = Instant::now();
            let late = feed.late();

            // Forward and backward. Nothing here reads from the device but the alignment search, and the
            // first batch of each shape.
            let task = StepTask {
                step,
                prior_weight: prior_weight(step),
                counts: fed.iter().map(|fed| fed.ready.counts).sum(),
                loss_scale: self.loss_scale.as_ref().map(LossScale::factor),
            };
            let rate = options.rate(step, self.progress.seconds);
            let OfAll {
                passed,
                splits,
                positions,
                done,
            } = match caught(&device, || self.pass_over_all(fed, &task, &mut pending)) {
                Ok(of_all) => of_all,
                Err(trouble) => {
                    // No batch of this step counts.
                    self.alignments.back_to(0);
                    break Err(trouble);
                }
            };
            let Passed {
                losses,
                gradients,
                mut spent,
                ..
            } = passed;
            let optimizing = Instant::now();
            let gradients = gradients.scaled_by(task.loss_scale.clone());
            let (model, optimizer, taken) =
                options
                    .optimizer
                    .step(self.model, self.optimizer, gradients, rate);
            (self.model, self.optimizer) = (model, optimizer);
            let total = losses.clone().narrow(0, 0, 1);
            self.loss_scale = self
                .loss_scale
                .map(|scale| scale.after(&taken.counted, total));
            spent.optimizer = optimizing.elapsed();
            // By now the device is at work on this step; what the step before found is ready.
            self.alignments.take_over(task.prior_weight);

            // The step is done: the feed may forget its batches.
            let last = *positions.last().expect("at least one batch");
            self.progress.position = feed.after(last);
            done.into_iter().for_each(|done| done());
            self.progress.step += 1;
            let ended = Instant::now();
            self.progress.seconds = seconds_before + begin.elapsed().as_secs_f64();
            let scale = task.loss_scale;
            let scale = scale.unwrap_or_else(|| Tensor::zeros([1], &self.device));
            pending.end(
                Tensor::cat(vec![losses, taken.norm, taken.counted, scale], 0),
                StepReport {
                    step: self.progress.step,
                    positions,
                    shapes: Vec::new(),
                    clips: Vec::new(),
                    waited: began - asked,
                    late: late.filter(|_| began - asked > NOT_LATE),
                    service: ended - began,
                    parts: is_cpu(&self.device).then_some(spent),
                    ended,
                    overhead: asked - line_end,
                    frames: task.counts.frames,
                    splits,
                    rate,
                    losses: Losses::default(),
                    gradient_norm: 0.0,
                    counted: true,
                    loss_scale: None,
                },
            );
            line_end = ended;

            let between = caught(&device, || {
                self.between_steps(&mut pending, feed, checkpoints, observer)
            });
            if let Err(trouble) = between {
                break Err(trouble);
            }
        };
        let outcome = outcome.and_then(|stopped| {
            let end = || {
                self.end(
                    stopped,
                    first_step,
                    &mut pending,
                    feed,
                    checkpoints,
                    observer,
                )
            };
            caught(&device, end).map(|()| stopped)
        });
        let unsaved = self.progress.step > self.saved_at.unwrap_or(first_step);
        match outcome {
            Ok(stopped) => Ok(Summary {
                stopped,
                first_step,
                step: self.progress.step,
                seconds: begin.elapsed(),
                progress: self.progress,
                voice: self.voice,
            }),
            Err(trouble) => {
                // The steps since the last checkpoint are good. If they cannot be saved either, the
                // first trouble is still the one to tell.
                if unsaved && !matches!(trouble, TrainError::Checkpoint(_)) {
                    let _ = caught(&device, || self.tell(&mut pending, observer));
                    let _ = caught(&device, || self.save(feed, checkpoints, observer));
                }
                Err(trouble)
            }
        }
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
    caught.unwrap_or_else(|panic| Err(TrainError::Device(panic_words(&*panic))))
}

/// A batch that came within this was there.
const NOT_LATE: Duration = Duration::from_micros(200);
