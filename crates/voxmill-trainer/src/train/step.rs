//! The training loop, top to bottom: wait → forward → align → backward → update → report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, TensorData};
use voxmill_data::batch_plan::Position;

use super::report::{Losses, Pending, StepParts, StepReport, Stopped, Summary};
use super::{Fed, Feed, FeedError, Observer, Split, TrainError, Trainer, caught};
use crate::align::Durations;
use crate::checkpoint::Checkpoints;
use crate::device::{is_cpu, read_one};
use crate::loss::{LossTensors, Pass, pass, pass_with};
use crate::optimizer::{FlatGradients, LossScale};
use crate::prepare::{Counts, ReadyBatch};
use crate::schedule::prior_weight;

/// A batch that came within this was there.
const NOT_LATE: Duration = Duration::from_micros(200);

impl Trainer {
    pub(super) fn run_steps(
        mut self,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let options = self.options.clone();
        let device = self.device.clone();
        let start = Start {
            step: self.progress.step,
            seconds: self.progress.seconds,
            at: Instant::now(),
        };
        let mut pending = Pending::default();
        let mut line_end = start.at;
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
            let batches = match take_batches(feed, options.accumulate) {
                Ok(batches) if batches.is_empty() => break Ok(Stopped::FeedEnded),
                Ok(batches) => batches,
                Err(error) => break Err(TrainError::Feed(error)),
            };
            let began = Instant::now();
            let late = feed.late();

            // Forward, align, backward. Nothing here reads from the device but the alignment search, and
            // the first batch of each shape.
            let task = StepTask {
                step,
                prior_weight: prior_weight(step),
                counts: batches.iter().map(|fed| fed.ready.counts).sum(),
                loss_scale: self.loss_scale.as_ref().map(LossScale::factor),
            };
            let rate = options.rate(step, self.progress.seconds);
            let computed = caught(&device, || {
                self.gradients_of_step(batches, &task, &mut pending)
            });
            let StepGradients {
                sum,
                splits,
                positions,
                done,
            } = match computed {
                Ok(computed) => computed,
                Err(error) => {
                    // No batch of this step counts.
                    self.alignments.back_to(0);
                    break Err(error);
                }
            };
            let BatchGradients {
                losses,
                gradients,
                mut spent,
                ..
            } = sum;

            // Update. Where gradients are not finite, the optimizer leaves the weights as they are.
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
            self.progress.seconds = start.seconds + start.at.elapsed().as_secs_f64();

            // Report: the numbers stay on the device until somebody reads them.
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
            if let Err(error) = between {
                break Err(error);
            }
        };
        self.finish(outcome, start, &mut pending, feed, checkpoints, observer)
    }

    /// Forward and backward over the batches of a step, whose gradients add up.
    fn gradients_of_step(
        &mut self,
        batches: Vec<Fed>,
        task: &StepTask,
        pending: &mut Pending,
    ) -> Result<StepGradients, TrainError> {
        let mut lengths = self.lengths.clone();
        let (mut sum, mut splits) = (None, Vec::new());
        let (mut positions, mut done) = (Vec::new(), Vec::new());
        for batch in batches {
            let ready = batch.ready;
            let (gradients, split) = self.gradients_of_batch(&ready, task)?;
            lengths = self.lengths_after(lengths, &gradients);
            sum = Some(match sum {
                Some(before) => BatchGradients::add(before, gradients),
                None => gradients,
            });
            self.styles.add(&ready);
            pending.add(&ready);
            splits.extend(split);
            positions.push(ready.position);
            done.push(batch.done);
        }
        self.lengths = lengths;
        Ok(StepGradients {
            sum: sum.expect("at least one batch"),
            splits,
            positions,
            done,
        })
    }

    /// Forward, align, backward: over a batch, or a part of one. `known`: the alignment to train it with,
    /// if there is one; else the batch is aligned by the model as it is now.
    pub(super) fn forward_backward(
        &mut self,
        batch: &ReadyBatch,
        known: Option<Durations>,
        task: &StepTask,
    ) -> BatchGradients {
        let begin = Instant::now();
        let due = self.alignments.are_due(batch);
        let made = match known {
            Some(known) => {
                let (made, scores) =
                    pass_with(&self.model, &batch.prepared, known, due, task.counts);
                match scores {
                    Some(scores) => self.alignments.read_later(batch, scores),
                    None => self.alignments.follow(made.losses.mel.clone().inner()),
                }
                made
            }
            None => {
                let made = pass(&self.model, &batch.prepared, task.prior_weight, task.counts);
                self.alignments.found(batch, &made.durations);
                made
            }
        };
        let lengths = self.lengths_of(&made);
        let total = made.losses.total();
        let LossTensors {
            mel,
            mean,
            duration,
        } = made.losses;
        let parts = [total.clone(), mel, mean, duration];
        let losses = Tensor::cat(parts.map(Tensor::inner).to_vec(), 0);
        let forward = begin.elapsed();
        let scaled = match &task.loss_scale {
            Some(scale) => total * scale.clone(),
            None => total,
        };
        let gradients = FlatGradients::collect(&self.model, scaled.backward());
        BatchGradients {
            losses,
            lengths,
            gradients,
            spent: StepParts {
                forward,
                backward: begin.elapsed() - forward,
                optimizer: Duration::ZERO,
            },
        }
    }

    /// True and predicted frames of a batch.
    fn lengths_of(&self, made: &Pass) -> Tensor<1> {
        let (_, mask) = made.durations.logs_and_mask();
        let device = &self.device;
        let shape = made.encoded.log_durations.dims();
        let mask = Tensor::<2>::from_data(TensorData::new(mask, shape), device);
        let predicted = (made.encoded.log_durations.clone().inner().exp() * mask).sum();
        let real: u32 = made.durations.all().iter().sum();
        let real = Tensor::from_floats([real as f32], device);
        Tensor::cat(vec![real, predicted], 0)
    }

    /// The running sums with a batch more. One that is not finite must not spoil them for good.
    fn lengths_after(&self, sums: Tensor<1>, gradients: &BatchGradients) -> Tensor<1> {
        let both = gradients.lengths.clone();
        let fine = both.clone().is_finite().all().expand([2]);
        let next = sums.clone() * LENGTHS_KEEP + both;
        sums.mask_where(fine, next)
    }
}

fn take_batches(feed: &mut impl Feed, count: usize) -> Result<Vec<Fed>, FeedError> {
    std::iter::from_fn(|| feed.next()).take(count).collect()
}

/// How fast the running sums of frames forget.
const LENGTHS_KEEP: f32 = 0.98;

/// Where this start of the run began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) step: u64,
    /// Of training before it.
    pub(super) seconds: f64,
    pub(super) at: Instant,
}

/// What all batches of a step have in common.
#[derive(Debug)]
pub(super) struct StepTask {
    /// Counts from 0.
    pub(super) step: u64,
    pub(super) prior_weight: f32,
    /// Of the whole effective batch.
    pub(super) counts: Counts,
    /// With f16 alone.
    pub(super) loss_scale: Option<Tensor<1>>,
}

/// What forward and backward over a batch leave for the step.
#[derive(Debug)]
pub(super) struct BatchGradients {
    /// Total, mel, mean, duration.
    pub(super) losses: Tensor<1>,
    /// True and predicted frames.
    pub(super) lengths: Tensor<1>,
    pub(super) gradients: FlatGradients,
    pub(super) spent: StepParts,
}

impl BatchGradients {
    pub(super) fn add(mut self, other: BatchGradients) -> BatchGradients {
        self.gradients.add(other.gradients);
        BatchGradients {
            losses: self.losses + other.losses,
            lengths: self.lengths + other.lengths,
            gradients: self.gradients,
            spent: self.spent + other.spent,
        }
    }

    /// Waits for all of it; panics where the device could not make it.
    pub(super) fn wait(&self, device: &Device) {
        let sums = [&self.losses, &self.lengths].map(|numbers| numbers.clone().sum());
        read_one(Tensor::cat(sums.to_vec(), 0).sum() + self.gradients.norm(device));
    }
}

/// All batches of a step together.
struct StepGradients {
    sum: BatchGradients,
    splits: Vec<Split>,
    positions: Vec<Position>,
    done: Vec<Box<dyn FnOnce() + Send>>,
}
