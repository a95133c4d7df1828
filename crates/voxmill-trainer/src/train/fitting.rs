//! Batches that do not fit on the device are trained in parts.
//!
//! A device that has no memory left says so where results are read, not where they are asked for. So the
//! first batch of every shape is waited for before the weights change, and once more where later steps take
//! more: after the first step of all, which makes the optimizer's moments, and after the last step that is
//! aligned under the prior. Where it fails, what the device keeps for later is given back, and the same batch is
//! tried in two parts, then in four, down to single rows. Losses are sums over the whole step, so parts add up
//! to the same step but for rounding. Every start of a run finds its parts anew.

use std::collections::{HashMap, HashSet};

use burn::tensor::{Device, Tensor};
use voxmill_speech::batch_plan::Shape;

use super::report::StepParts;
use super::{TrainError, Training};
use crate::device::{is_cpu, read_one, without_panic};
use crate::optimizer::FlatGradients;
use crate::prepare::{Counts, Ready};

/// The parts that batches are trained in, by their shape and by whether the prior is gone.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    parts: HashMap<(Shape, bool), usize>,
    /// Those that were told of.
    told: HashSet<(Shape, usize)>,
}

/// A shape that does not fit as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    pub shape: Shape,
    pub parts: usize,
    /// In the device's words.
    pub why: String,
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
    fn wait(&self, device: &Device) {
        let sums = [&self.losses, &self.lengths].map(|numbers| numbers.clone().sum());
        read_one(Tensor::cat(sums.to_vec(), 0).sum() + self.gradients.norm(device));
    }
}

impl Training {
    /// Forward and backward over a batch, in as many parts as it takes to fit.
    pub(super) fn pass_over(
        &mut self,
        batch: &Ready,
        task: &StepTask,
    ) -> Result<(Passed, Option<Split>), TrainError> {
        if is_cpu(&self.device) {
            return Ok((self.pass_over_part(batch, task), None));
        }
        let kind = (batch.shape, task.prior_weight == 0.0);
        if let Some(&parts) = self.fitting.parts.get(&kind) {
            return Ok((self.pass_over_parts(batch, parts, task), None));
        }
        let aligned_before = self.alignments.of_this_step();
        let mut parts = 1;
        let mut first_trouble = None;
        loop {
            let tried = without_panic(|| {
                let passed = self.pass_over_parts(batch, parts, task);
                passed.wait(&self.device);
                passed
            });
            let trouble = match tried {
                Ok(passed) => {
                    if task.step > 0 {
                        self.fitting.parts.insert(kind, parts);
                    }
                    let split = first_trouble.map(|why| Split {
                        shape: batch.shape,
                        parts: batch.split(parts).len(),
                        why,
                    });
                    let is_new = self.fitting.told.insert((batch.shape, parts));
                    return Ok((passed, split.filter(|_| is_new)));
                }
                Err(trouble) => first_trouble.get_or_insert(trouble),
            };
            self.alignments.back_to(aligned_before);
            self.device.memory_cleanup();
            if parts >= batch.clips.len() {
                return Err(TrainError::Device(trouble.clone()));
            }
            parts *= 2;
        }
    }

    pub(super) fn pass_over_parts(
        &mut self,
        batch: &Ready,
        parts: usize,
        task: &StepTask,
    ) -> Passed {
        if parts == 1 {
            return self.pass_over_part(batch, task);
        }
        let parts = batch.split(parts).into_iter();
        let passed = parts.map(|part| self.pass_over_part(&part, task));
        passed.reduce(Passed::add).expect("a batch has rows")
    }
}
