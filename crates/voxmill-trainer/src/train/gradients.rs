//! What the passes over the batches of a step take and leave.

use burn::tensor::{Device, Tensor};

use super::lengths::LengthSums;
use super::{StepParts, StepReport};
use crate::device::read_one;
use crate::loss::total_of_parts;
use crate::model::Voice;
use crate::optimizer::FlatGradients;
use crate::prepare::{Counts, ReadyBatch};

/// What all batches of a step have in common.
#[derive(Debug)]
pub(super) struct StepTask {
    /// Counts from 0.
    pub(super) step: u64,
    pub(super) prior_weight: f32,
    /// What losses are divided by: about what the whole effective batch holds.
    pub(super) divisors: Counts,
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
            spent: StepParts {
                forward: self.spent.forward + other.spent.forward,
                backward: self.spent.backward + other.spent.backward,
                ..self.spent
            },
        }
    }

    /// Waits for all of it; panics where the device could not make it.
    pub(super) fn wait(&self, device: &Device) {
        let sums = [&self.losses, &self.lengths].map(|numbers| numbers.clone().sum());
        read_one(Tensor::cat(sums.to_vec(), 0).sum() + self.gradients.norm(device));
    }
}

/// A step under way: what its batches have left so far. No batch is kept, so a step may have any number of them.
///
/// What the step's losses are to be divided by is known when its last batch has come. Until then every batch is taken
/// for as large as the first, and [`StepSum::finished`] puts that right: mel frames and durations train different
/// weights, so each weight's gradient has one divisor.
#[derive(Debug)]
pub(super) struct StepSum {
    pub(super) task: StepTask,
    pub(super) report: StepReport,
    /// With the batches of this step.
    pub(super) lengths: LengthSums,
    /// Batches of a step.
    accumulate: usize,
    counts: Counts,
    sum: Option<BatchGradients>,
}

impl StepSum {
    pub(super) fn new(
        task: StepTask,
        report: StepReport,
        lengths: LengthSums,
        accumulate: usize,
    ) -> Self {
        Self {
            task,
            report,
            lengths,
            accumulate,
            counts: Counts::default(),
            sum: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sum.is_none()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.report.positions.len() >= self.accumulate
    }

    /// The next batch, before its passes.
    pub(super) fn expect(&mut self, batch: &ReadyBatch) {
        // One without a valid row has no losses to divide.
        if self.counts.frames == 0 {
            self.task.divisors = batch.counts * self.accumulate as u64;
        }
        self.counts = self.counts + batch.counts;
        self.report.add(batch);
    }

    /// What its passes left.
    pub(super) fn add(&mut self, batch: BatchGradients) {
        self.lengths.add(batch.lengths.clone());
        self.sum = Some(match self.sum.take() {
            Some(sum) => sum.add(batch),
            None => batch,
        });
    }

    /// A few numbers that are there when the device is through with the passes so far.
    pub(super) fn mark(&self) -> Option<Tensor<1>> {
        self.sum.as_ref()?.gradients.first_numbers()
    }

    /// Losses and gradients divided by what the step's batches hold, all of which have come.
    pub(super) fn finished(&mut self, model: &Voice) -> Option<BatchGradients> {
        let sum = self.sum.take()?;
        let (divided_by, whole) = (self.task.divisors, self.counts);
        if divided_by == whole {
            return Some(sum);
        }
        let factor = |by: u64, whole: u64| (by.max(1) as f64 / whole.max(1) as f64) as f32;
        let frames = factor(divided_by.frames, whole.frames);
        let tokens = factor(divided_by.tokens, whole.tokens);
        let of_part = Tensor::from_floats([frames, frames, tokens], &sum.losses.device());
        let parts = sum.losses.narrow(0, 1, 3) * of_part;
        let of_weight = model.learns_durations();
        let of_weight = of_weight.map(|durations| if durations { tokens } else { frames });
        Some(BatchGradients {
            losses: Tensor::cat(vec![total_of_parts(&parts), parts], 0),
            gradients: sum.gradients.times(&of_weight.collect::<Vec<_>>()),
            ..sum
        })
    }
}
