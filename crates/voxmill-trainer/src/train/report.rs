//! What a run reports about itself.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use voxmill_data::batch_plan::{Position, Shape};

use super::{FeedError, Split};
use crate::checkpoint::{Progress, VoiceFacts};
use crate::device::read;
use crate::optimizer::LEAST_LOSS_SCALE;
use crate::prepare::ReadyBatch;
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

impl StepReport {
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

impl std::ops::Add for StepParts {
    type Output = StepParts;

    fn add(self, other: StepParts) -> StepParts {
        StepParts {
            forward: self.forward + other.forward,
            backward: self.backward + other.backward,
            optimizer: self.optimizer + other.optimizer,
        }
    }
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
    fn validated(&mut self, validation: &Validation, progress: &Progress) -> Result<(), FeedError>;
    fn saved(&mut self, saved: &Saved) -> Result<(), FeedError>;
    /// Time for samples of the voice.
    fn sample(&mut self, step: u64, voice: &TrainedVoice) -> Result<(), FeedError>;
}

/// Steps whose losses are still on the device.
#[derive(Debug, Default)]
pub(super) struct Pending {
    steps: Vec<(Tensor<1>, StepReport)>,
    shapes: Vec<Shape>,
    clips: Vec<usize>,
}

impl Pending {
    /// A batch of the step that is under way.
    pub(super) fn add(&mut self, batch: &ReadyBatch) {
        self.clips.extend(batch.clips.iter().flatten());
        self.shapes.push(batch.shape);
    }

    /// `numbers`: total, mel, mean, duration, gradient norm, counted; the loss scale, or 0 for none.
    pub(super) fn end(&mut self, numbers: Tensor<1>, mut report: StepReport) {
        report.shapes = std::mem::take(&mut self.shapes);
        report.clips = std::mem::take(&mut self.clips);
        self.steps.push((numbers, report));
    }

    /// Reads all at once.
    pub(super) fn read(&mut self) -> Vec<StepReport> {
        if self.steps.is_empty() {
            return Vec::new();
        }
        let (numbers, reports): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.steps).into_iter().unzip();
        let values = read(Tensor::cat(numbers, 0));
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let (sevens, _) = values.as_chunks::<7>();
        let mut reports = reports;
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
