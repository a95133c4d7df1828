//! What a run reports about itself.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use voxmill_data::batch_plan::{Position, Shape};

use super::{Fed, FeedError, Split};
use crate::checkpoint::{Progress, VoiceFacts};
use crate::device::read;
use crate::optimizer::{LEAST_LOSS_SCALE, Taken};
use crate::synthesis::TrainedVoice;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// What is minimised.
    pub total: f64,
    /// Mean absolute error of normalised mel frames.
    pub mel: f64,
    /// Mean squared error of each token's mean frame.
    pub mean: f64,
    /// Mean squared error of log-durations.
    pub duration: f64,
}

/// One step. On the model thread `overhead + waited + service` is its wall time.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Counts from 1.
    pub step: u64,
    pub positions: Vec<Position>,
    pub shapes: Vec<Shape>,
    /// Plan numbers of its clips.
    pub clips: Vec<usize>,
    pub waited: Duration,
    pub late: Option<String>,
    pub service: Duration,
    /// What the service was spent on, where the device does it while one waits: on a CPU.
    pub parts: Option<StepParts>,
    pub ended: Instant,
    /// Time since the step before: saving, validating, reporting.
    pub overhead: Duration,
    pub frames: u64,
    pub rate: f64,
    /// Shapes that were found in this step not to fit as a whole.
    pub splits: Vec<Split>,
    pub losses: Losses,
    pub gradient_norm: f64,
    /// Whether the step changed the weights: it does not if its gradients are not finite.
    pub counted: bool,
    /// What the loss was multiplied by for f16.
    pub loss_scale: Option<f64>,
}

/// A batch that came within this was there.
const NOT_LATE: Duration = Duration::from_micros(200);

impl StepReport {
    /// Of a step whose batches have come. `times`: the end of the step before, when batches were asked for,
    /// and when they were there; `late`: the stage that was waited for, if any.
    pub(super) fn new(
        step: u64,
        rate: f64,
        batches: &[Fed],
        [last_end, asked, began]: [Instant; 3],
        late: Option<String>,
    ) -> Self {
        let ready = || batches.iter().map(|fed| &fed.ready);
        let waited = began - asked;
        Self {
            step,
            positions: ready().map(|batch| batch.position).collect(),
            shapes: ready().map(|batch| batch.shape).collect(),
            clips: ready()
                .flat_map(|b| b.clips.iter().flatten().copied())
                .collect(),
            waited,
            late: late.filter(|_| waited > NOT_LATE),
            service: Duration::ZERO,
            parts: None,
            ended: began,
            overhead: asked - last_end,
            frames: ready().map(|batch| batch.counts.frames).sum(),
            rate,
            splits: Vec::new(),
            losses: Losses::default(),
            gradient_norm: 0.0,
            counted: true,
            loss_scale: None,
        }
    }

    /// Ends the step now, and returns that time.
    pub(super) fn end(&mut self, began: Instant, parts: Option<StepParts>) -> Instant {
        self.ended = Instant::now();
        self.service = self.ended - began;
        self.parts = parts;
        self.ended
    }

    /// Whether the step did not count for the loss scale's sake alone: the loss is fine and the next
    /// step's scale is smaller. That belongs to finding the scale.
    pub fn overflowed(&self) -> bool {
        let can_halve = self.loss_scale > Some(f64::from(LEAST_LOSS_SCALE));
        !self.counted && can_halve && self.losses.total.is_finite()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepParts {
    /// The alignment search is in it.
    pub forward: Duration,
    pub backward: Duration,
    pub optimizer: Duration,
}

#[derive(Clone, Debug)]
pub struct Validation {
    pub step: u64,
    pub losses: Losses,
    pub better: bool,
    pub took: Duration,
    /// One clip to look at.
    pub shown: Option<Shown>,
}

/// A held-out clip next to what the model makes of it with the clip's own timing.
#[derive(Clone, Debug)]
pub struct Shown {
    pub clip: usize,
    pub frames: usize,
    pub channels: usize,
    /// Log-mel, frame after frame.
    pub real: Vec<f32>,
    pub made: Vec<f32>,
    /// Frames of each token.
    pub durations: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Saved {
    pub step: u64,
    pub path: PathBuf,
    pub bytes: u64,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    MaxSteps,
    MaxTime,
    FeedEnded,
    NoLongerBetter,
    Interrupted,
}

/// How a run, or its part since the last start, ended.
#[derive(Clone, Debug)]
pub struct Summary {
    pub stopped: Stopped,
    pub first_step: u64,
    pub step: u64,
    pub seconds: Duration,
    pub progress: Progress,
    pub voice: VoiceFacts,
}

/// Receives what happens. An error ends the run.
pub trait Observer {
    /// Steps whose losses have been read, in order.
    fn steps(&mut self, steps: &[StepReport], progress: &Progress) -> Result<(), FeedError>;
    fn validated(&mut self, _: &Validation, _: &Progress) -> Result<(), FeedError> {
        Ok(())
    }
    /// A checkpoint is about to appear: who resumes from it must find what came before it.
    fn saving(&mut self) {}
    fn saved(&mut self, _: &Saved) -> Result<(), FeedError> {
        Ok(())
    }
    /// Time for samples of the voice.
    fn sample(&mut self, _step: u64, _: &TrainedVoice) -> Result<(), FeedError> {
        Ok(())
    }
}

/// Steps whose losses are still on the device.
#[derive(Debug, Default)]
pub(super) struct PendingReports(Vec<(Tensor<1>, StepReport)>);

impl PendingReports {
    /// `losses`: total, mel, mean, duration.
    pub(super) fn push(
        &mut self,
        losses: Tensor<1>,
        taken: Taken,
        loss_scale: Option<Tensor<1>>,
        report: StepReport,
    ) {
        // 0 is for none.
        let scale = loss_scale.unwrap_or_else(|| taken.norm.zeros_like());
        let numbers = Tensor::cat(vec![losses, taken.norm, taken.counted, scale], 0);
        self.0.push((numbers, report));
    }

    /// Reads all at once.
    pub(super) fn read(&mut self) -> Vec<StepReport> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let (numbers, mut reports): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().unzip();
        let values = read(Tensor::cat(numbers, 0));
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let (sevens, _) = values.as_chunks::<7>();
        for (report, &[total, mel, mean, duration, norm, counted, scale]) in
            reports.iter_mut().zip(sevens)
        {
            report.losses = Losses {
                total,
                mel,
                mean,
                duration,
            };
            report.gradient_norm = norm;
            report.counted = counted > 0.5;
            report.loss_scale = (scale > 0.0).then_some(scale);
        }
        reports
    }
}
