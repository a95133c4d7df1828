//! What a run reports about itself.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use voxmill_data::batch_plan::{Position, Shape};

use super::reader::{Coming, Reader};
use super::timeline::{DeviceLine, DeviceTimes, HostTimes};
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

/// One step. On the model device's time line `overhead + waited + service` is its wall time.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Counts from 1.
    pub step: u64,
    pub positions: Vec<Position>,
    pub shapes: Vec<Shape>,
    /// Plan numbers of its clips.
    pub clips: Vec<usize>,
    /// The device was idle for want of a batch.
    pub waited: Duration,
    pub late: Option<String>,
    /// The device was at work.
    pub service: Duration,
    /// What the service was spent on, where the device does it while one waits: on a CPU.
    pub parts: Option<StepParts>,
    pub ended: Instant,
    /// The device was idle for another reason: saving, validating, reporting.
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
    /// Of a step whose batches have come; when it was is known when the device is through with it. `late`: the stage
    /// that the host waited for, if any.
    pub(super) fn new(step: u64, rate: f64, batches: &[Fed], late: Option<String>) -> Self {
        let ready = || batches.iter().map(|fed| &fed.ready);
        Self {
            step,
            positions: ready().map(|batch| batch.position).collect(),
            shapes: ready().map(|batch| batch.shape).collect(),
            clips: ready()
                .flat_map(|b| b.clips.iter().flatten().copied())
                .collect(),
            waited: Duration::ZERO,
            late,
            service: Duration::ZERO,
            parts: None,
            ended: Instant::now(),
            overhead: Duration::ZERO,
            frames: ready().map(|batch| batch.counts.frames).sum(),
            rate,
            splits: Vec::new(),
            losses: Losses::default(),
            gradient_norm: 0.0,
            counted: true,
            loss_scale: None,
        }
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

/// Steps that the device may still be at work on, and steps that nobody has asked for yet.
#[derive(Debug)]
pub(super) struct PendingReports {
    reader: Option<Arc<Reader>>,
    line: DeviceLine,
    pending: VecDeque<PendingReport>,
    done: Vec<StepReport>,
}

#[derive(Debug)]
struct PendingReport {
    report: StepReport,
    host: HostTimes,
    numbers: Coming<(Vec<f64>, Instant)>,
}

impl PendingReports {
    pub(super) fn new(reader: Option<Arc<Reader>>) -> Self {
        Self {
            reader,
            line: DeviceLine::new(Instant::now()),
            pending: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// The first step is about to be waited for.
    pub(super) fn begin(&mut self, now: Instant) {
        self.line = DeviceLine::new(now);
    }

    /// A step that the device has been asked for. `losses`: total, mel, mean, duration.
    pub(super) fn push(
        &mut self,
        losses: Tensor<1>,
        taken: Taken,
        loss_scale: Option<Tensor<1>>,
        host: HostTimes,
        report: StepReport,
    ) {
        // 0 is for none.
        let scale = loss_scale.unwrap_or_else(|| taken.norm.zeros_like());
        // Asked for after the weights were changed, so it comes when the whole step is done.
        let numbers = Tensor::cat(vec![losses, taken.norm, taken.counted, scale], 0);
        let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect();
        let numbers = match &self.reader {
            Some(reader) => reader.read(numbers, move |data, came| {
                (wide(data.iter().collect()), came)
            }),
            None => Coming::there((wide(read(numbers)), Instant::now())),
        };
        self.pending.push_back(PendingReport {
            report,
            host,
            numbers,
        });
    }

    /// Waits until the device is at work on the last `behind` steps at most, so that the host stays no further ahead.
    pub(super) fn follow(&mut self, behind: usize) {
        while self.pending.len() > behind {
            let Some(step) = self.pending.pop_front() else {
                return;
            };
            let (numbers, done) = step.numbers.wait();
            let times = self.line.step(step.host, done);
            self.done.push(step.report.completed(times, done, &numbers));
        }
    }

    /// Those of all steps so far, waited for.
    pub(super) fn read(&mut self) -> Vec<StepReport> {
        self.follow(0);
        mem::take(&mut self.done)
    }
}

impl StepReport {
    /// With what is known when the device is through with it.
    fn completed(mut self, times: DeviceTimes, done: Instant, numbers: &[f64]) -> Self {
        (self.overhead, self.waited, self.service) = (times.overhead, times.waited, times.service);
        self.late = self.late.filter(|_| times.waited > NOT_LATE);
        self.ended = done;
        let &[total, mel, mean, duration, norm, counted, scale] = numbers else {
            unreachable!("as many as were read");
        };
        self.losses = Losses {
            total,
            mel,
            mean,
            duration,
        };
        self.gradient_norm = norm;
        self.counted = counted > 0.5;
        self.loss_scale = (scale > 0.0).then_some(scale);
        self
    }
}
