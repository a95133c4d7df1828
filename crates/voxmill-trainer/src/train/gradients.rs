//! What the passes over the batches of a step take and leave.

use burn::tensor::{Device, Tensor};

use super::StepParts;
use crate::device::read_one;
use crate::optimizer::FlatGradients;
use crate::prepare::Counts;

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
