//! What a run reports about itself.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use voxmill_data::batch_plan::{Position, Shape};

use super::timeline::{DeviceLine, DeviceTimes, HostTimes};
use super::{BatchParts, FeedError};
use crate::checkpoint::{CheckpointError, Progress, VoiceFacts};
use crate::device::read;
use crate::device::{Coming, Reader};
use crate::optimizer::{LEAST_LOSS_SCALE, Taken};
use crate::prepare::ReadyBatch;
use crate::synthesis::TrainedVoice;

/// The parts of the loss, each a mean over valid frames or tokens.
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
    /// The stage that it had to wait for longest.
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
    pub splits: Vec<BatchParts>,
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
    /// Of a step whose batches are about to come; when it was is known when the device is through with it.
    pub(super) fn new(step: u64, rate: f64) -> Self {
        Self {
            step,
            positions: Vec::new(),
            shapes: Vec::new(),
            clips: Vec::new(),
            waited: Duration::ZERO,
            late: None,
            service: Duration::ZERO,
            parts: None,
            ended: Instant::now(),
            overhead: Duration::ZERO,
            frames: 0,
            rate,
            splits: Vec::new(),
            losses: Losses::default(),
            gradient_norm: 0.0,
            counted: true,
            loss_scale: None,
        }
    }

    /// One of its batches.
    pub(super) fn add(&mut self, batch: &ReadyBatch) {
        self.positions.push(batch.position);
        self.shapes.push(batch.shape);
        self.clips.extend(batch.clips.iter().flatten());
        self.frames += batch.counts.frames;
    }

    /// Whether the step did not count for the loss scale's sake alone: the loss is fine and the next
    /// step's scale is smaller. That belongs to finding the scale.
    pub fn overflowed(&self) -> bool {
        let can_halve = self.loss_scale > Some(f64::from(LEAST_LOSS_SCALE));
        !self.counted && can_halve && self.losses.total.is_finite()
    }
}

/// How long the parts of a step took, where they were timed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepParts {
    /// The alignment search is in it.
    pub forward: Duration,
    pub backward: Duration,
    pub optimizer: Duration,
}

/// What the held-out clips said.
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

/// A checkpoint that was written.
#[derive(Clone, Debug)]
pub struct Saved {
    pub step: u64,
    pub path: PathBuf,
    pub bytes: u64,
    /// Until it was there; the model was held up only while its weights were copied.
    pub took: Duration,
}

/// A checkpoint that could not be written.
#[derive(Debug)]
pub struct NotSaved<'a> {
    pub step: u64,
    pub why: &'a CheckpointError,
    /// In a row, and how many end the run.
    pub failures: u32,
    pub most: u32,
    /// When it is tried again; `None`: it ends the run.
    pub again_in: Option<Duration>,
}

/// Why a run that did not fail has ended.
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
    /// The run was over, and somebody did not want to wait for its last validation.
    pub left_out: bool,
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
    /// One has appeared, some steps later at times.
    fn saved(&mut self, _: &Saved) -> Result<(), FeedError> {
        Ok(())
    }
    /// A checkpoint has appeared, and older ones that should have gone could not be removed.
    fn not_pruned(&mut self, _: &CheckpointError) {}
    /// The run continues without it for now, or ends.
    fn not_saved(&mut self, _: &NotSaved<'_>) {}
    /// Time for samples of the voice.
    fn sample(&mut self, _step: u64, _: &TrainedVoice) -> Result<(), FeedError> {
        Ok(())
    }
}

/// Batches that the device may still be at work on, and steps that nobody has asked for yet.
#[derive(Debug)]
pub(super) struct PendingReports {
    reader: Option<Arc<Reader>>,
    line: DeviceLine,
    pending: VecDeque<PendingBatch>,
    /// Of the step whose first batches the device is through with.
    begun: BegunStep,
    done: Vec<StepReport>,
}

/// What is known of a batch before the device is through with it.
#[derive(Debug)]
pub(super) struct SubmittedBatch {
    pub(super) host: HostTimes,
    /// The stage that the host waited for, if any.
    pub(super) late: Option<String>,
}

impl SubmittedBatch {
    /// Nothing more was to come.
    pub(super) fn for_nothing(now: Instant) -> Self {
        let host = HostTimes {
            asked: now,
            began: now,
        };
        Self { host, late: None }
    }
}

#[derive(Debug)]
struct PendingBatch {
    asked: SubmittedBatch,
    numbers: Coming<(Vec<f64>, Instant)>,
    /// With the last batch of a step.
    report: Option<StepReport>,
}

#[derive(Debug, Default)]
struct BegunStep {
    times: DeviceTimes,
    /// The stage that was waited for longest, and for how long.
    late: Option<(Duration, String)>,
}

impl BegunStep {
    fn add(&mut self, times: DeviceTimes, late: Option<String>) {
        self.times += times;
        let longest = self.late.as_ref().map_or(NOT_LATE, |(longest, _)| *longest);
        if times.waited > longest {
            self.late = late.map(|late| (times.waited, late)).or(self.late.take());
        }
    }
}

impl PendingReports {
    pub(super) fn new(reader: Option<Arc<Reader>>) -> Self {
        Self {
            reader,
            line: DeviceLine::new(Instant::now()),
            pending: VecDeque::new(),
            begun: BegunStep::default(),
            done: Vec::new(),
        }
    }

    /// The first step is about to be waited for.
    pub(super) fn begin(&mut self, now: Instant) {
        self.line = DeviceLine::new(now);
    }

    /// A batch of a step that has more: the device has been asked for its passes, and is through with them when the
    /// numbers of `mark` are there.
    pub(super) fn push_batch(
        &mut self,
        mark: impl FnOnce() -> Option<Tensor<1>>,
        asked: SubmittedBatch,
    ) {
        let read = self.reader.as_ref().and_then(|reader| {
            let mark = mark()?;
            Some(reader.read(mark, |_, came| (Vec::new(), came)))
        });
        let numbers = read.unwrap_or_else(|| Coming::there((Vec::new(), Instant::now())));
        self.pending.push_back(PendingBatch {
            asked,
            numbers,
            report: None,
        });
    }

    /// A step that the device has been asked for, by its last batch. `losses`: total, mel, mean, duration.
    pub(super) fn push_step(
        &mut self,
        losses: Tensor<1>,
        taken: Taken,
        loss_scale: Option<Tensor<1>>,
        asked: SubmittedBatch,
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
        self.pending.push_back(PendingBatch {
            asked,
            numbers,
            report: Some(report),
        });
    }

    /// Waits until the device is at work on the last `behind` batches at most, so that the host stays no further ahead.
    pub(super) fn follow(&mut self, behind: usize) {
        while self.pending.len() > behind {
            let Some(batch) = self.pending.pop_front() else {
                return;
            };
            let (numbers, done) = batch.numbers.wait();
            let times = self.line.batch(batch.asked.host, done);
            self.begun.add(times, batch.asked.late);
            if let Some(report) = batch.report {
                let begun = mem::take(&mut self.begun);
                self.done.push(report.completed(begun, done, &numbers));
            }
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
    fn completed(mut self, step: BegunStep, done: Instant, numbers: &[f64]) -> Self {
        let DeviceTimes {
            overhead,
            waited,
            service,
        } = step.times;
        (self.overhead, self.waited, self.service) = (overhead, waited, service);
        self.late = step.late.map(|(_, late)| late);
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
