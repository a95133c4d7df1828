//! Batches that do not fit on the device are trained in parts.
//!
//! A device that has no memory left reports it where results are read, not where they are asked for. So the
//! first batch of every shape is waited for before the weights change, and once more where later steps take
//! more: after the first step of all, which makes the optimizer's moments, and after the last step that is
//! aligned under the prior. Where it fails, what the device keeps for later is released, and the same batch is
//! tried in two parts, then in four, down to single rows. Losses are sums over the whole step, so parts add up
//! to the same step except for rounding. Every start of a run finds its parts anew.

use std::collections::{HashMap, HashSet};

use voxmill_data::batch_plan::Shape;

use super::gradients::{BatchGradients, StepTask};
use super::{TrainError, Trainer};
use crate::device::{is_cpu, without_panic};
use crate::prepare::ReadyBatch;

/// The parts that batches are trained in, by their shape and by whether the prior is gone.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    parts: HashMap<(Shape, bool), usize>,
    /// Those that were reported.
    reported: HashSet<(Shape, usize)>,
}

/// A shape that does not fit as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchParts {
    pub shape: Shape,
    pub parts: usize,
    /// In the device's words.
    pub why: String,
}

impl Trainer {
    /// Forward and backward over a batch, in as many parts as it takes to fit.
    pub(super) fn gradients_of_batch(
        &mut self,
        batch: &ReadyBatch,
        task: &StepTask,
    ) -> Result<(BatchGradients, Option<BatchParts>), TrainError> {
        if is_cpu(&self.device) {
            return Ok((self.gradients_in_parts(batch, 1, task), None));
        }
        let kind = (batch.shape, task.prior_weight == 0.0);
        if let Some(&parts) = self.fitting.parts.get(&kind) {
            return Ok((self.gradients_in_parts(batch, parts, task), None));
        }
        let aligned_before = self.alignments.of_this_step();
        let mut parts = 1;
        let mut first_error = None;
        loop {
            let tried = without_panic(|| {
                let gradients = self.gradients_in_parts(batch, parts, task);
                gradients.wait(&self.device);
                self.alignments.wait();
                gradients
            });
            let error = match tried {
                Ok(gradients) => {
                    if task.step > 0 {
                        self.fitting.parts.insert(kind, parts);
                    }
                    let split = first_error.map(|why| BatchParts {
                        shape: batch.shape,
                        parts: batch.split(parts).len(),
                        why,
                    });
                    let is_new = self.fitting.reported.insert((batch.shape, parts));
                    return Ok((gradients, split.filter(|_| is_new)));
                }
                Err(error) => first_error.get_or_insert(error),
            };
            self.alignments.back_to(aligned_before);
            self.device.memory_cleanup();
            if parts >= batch.clips.len() {
                return Err(TrainError::Device(error.clone()));
            }
            parts *= 2;
        }
    }

    pub(super) fn gradients_in_parts(
        &mut self,
        batch: &ReadyBatch,
        parts: usize,
        task: &StepTask,
    ) -> BatchGradients {
        // Of the whole batch: whether it is aligned anew must not depend on how it is cut.
        let known = self.alignments.of(batch, task.prior_weight);
        if parts == 1 {
            return self.forward_backward(batch, known, task);
        }
        let mut first = 0;
        let gradients = batch.split(parts).into_iter().map(|part| {
            let rows = first..first + part.clips.len();
            first = rows.end;
            let known = known.as_ref().map(|known| known.of_rows(rows));
            self.forward_backward(&part, known, task)
        });
        gradients
            .reduce(BatchGradients::add)
            .expect("a batch has rows")
    }
}
