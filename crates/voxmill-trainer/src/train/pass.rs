//! Forward and backward over a batch: what it leaves for the step.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, TensorData};
use voxmill_speech::batch_plan::Position;

use super::report::{Pending, StepParts};
use super::{Fed, Split, TrainError, Training};
use crate::align::Durations;
use crate::device::read_one;
use crate::loss::{Losses, Pass, pass, pass_with};
use crate::optimizer::FlatGradients;
use crate::prepare::{Counts, Ready};

/// How fast the running sums of frames forget.
const LENGTHS_KEEP: f32 = 0.98;

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

/// What a pass over a batch leaves for the step.
#[derive(Debug)]
pub(super) struct Passed {
    /// Total, mel, mean, duration.
    pub(super) losses: Tensor<1>,
    /// True and predicted frames.
    pub(super) lengths: Tensor<1>,
    pub(super) gradients: FlatGradients,
    pub(super) spent: StepParts,
}

impl Passed {
    pub(super) fn add(mut self, other: Passed) -> Passed {
        self.gradients.add(other.gradients);
        Passed {
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

/// What all batches of a step leave together.
pub(super) struct OfAll {
    pub(super) passed: Passed,
    pub(super) splits: Vec<Split>,
    pub(super) positions: Vec<Position>,
    pub(super) done: Vec<Box<dyn FnOnce() + Send>>,
}

impl Training {
    /// Forward and backward over the batches of a step, whose gradients add up.
    pub(super) fn pass_over_all(
        &mut self,
        fed: Vec<Fed>,
        task: &StepTask,
        pending: &mut Pending,
    ) -> Result<OfAll, TrainError> {
        let mut lengths = self.lengths.clone();
        let (mut all, mut splits) = (None, Vec::new());
        let (mut positions, mut done) = (Vec::new(), Vec::new());
        for Fed {
            ready,
            done: is_done,
        } in fed
        {
            let (passed, split) = self.pass_over(&ready, task)?;
            lengths = self.lengths_after(lengths, &passed);
            all = Some(match all {
                Some(before) => Passed::add(before, passed),
                None => passed,
            });
            self.styles.hear(&ready);
            pending.add(&ready);
            splits.extend(split);
            positions.push(ready.position);
            done.push(is_done);
        }
        self.lengths = lengths;
        Ok(OfAll {
            passed: all.expect("at least one batch"),
            splits,
            positions,
            done,
        })
    }

    /// Forward and backward over a batch, or a part of one. `known`: the alignment to train it with, if there is one.
    pub(super) fn pass_over_part(
        &mut self,
        batch: &Ready,
        known: Option<Durations>,
        task: &StepTask,
    ) -> Passed {
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
        let Losses {
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
        Passed {
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
    pub(super) fn lengths_after(&self, sums: Tensor<1>, passed: &Passed) -> Tensor<1> {
        let both = passed.lengths.clone();
        let fine = both.clone().is_finite().all().expand([2]);
        let next = sums.clone() * LENGTHS_KEEP + both;
        sums.mask_where(fine, next)
    }
}
