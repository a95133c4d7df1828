//! How a run is to go.

use serde::{Deserialize, Serialize};

use super::Stopped;
use crate::checkpoint::PrepareOn;
use crate::device::{Device, Precision, is_cpu, with_gradients};
use crate::optimizer::AdamW;
use crate::schedule::{Schedule, prior_weight};

/// When to stop; whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    pub steps: Option<u64>,
    pub seconds: Option<f64>,
}

impl RunLimits {
    pub(super) fn reached(&self, step: u64, seconds: f64) -> Option<Stopped> {
        if self.steps.is_some_and(|most| step >= most) {
            return Some(Stopped::MaxSteps);
        }
        if self.seconds.is_some_and(|most| seconds >= most) {
            return Some(Stopped::MaxTime);
        }
        None
    }

    /// The share of the run that is done.
    fn progress(&self, step: u64, seconds: f64) -> f64 {
        let steps = self
            .steps
            .map_or(0.0, |most| step as f64 / most.max(1) as f64);
        let time = self.seconds.map_or(0.0, |most| seconds / most.max(1e-9));
        steps.max(time)
    }
}

/// The numbers of a run, by which the loop works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainOptions {
    pub seed: u64,
    pub optimizer: AdamW,
    pub schedule: Schedule,
    pub limits: RunLimits,
    /// Batches whose gradients add up to one step.
    pub accumulate: usize,
    /// Steps between readings of the losses.
    pub log_every: u64,
    pub checkpoint_every: Option<u64>,
    pub validate_every: Option<u64>,
    pub sample_every: Option<u64>,
    /// Validations without a better one before the run stops.
    pub patience: Option<u32>,
    /// Steps with gradients that are not finite before the run stops.
    pub max_bad_steps: u64,
    /// Failures in a row to write a checkpoint before the run stops.
    pub max_failed_checkpoints: u32,
    /// Makes again in the backward pass what the forward pass made, to save memory.
    pub recompute: bool,
    /// What products and activations are computed in.
    pub precision: Precision,
    /// Where waveforms become frames, for the checkpoint.
    pub prepare_on: PrepareOn,
    /// Trains from the first step as it does after the beginning: without the prior, with alignments that are known and
    /// have settled. For measuring; what it learns is of no use.
    #[serde(default)]
    pub as_settled: bool,
}

impl TrainOptions {
    /// How strongly the prior pulls at the alignments of a step.
    pub(super) fn prior_weight(&self, step: u64) -> f32 {
        match self.as_settled {
            true => 0.0,
            false => prior_weight(step),
        }
    }

    /// Where the weights lie. Blocks that are one operation on the CPU make their insides again by
    /// themselves; all others leave it to the library.
    pub(super) fn device_with_gradients(&self, device: &Device) -> Device {
        let by_hand = is_cpu(device) && self.precision == Precision::Single;
        with_gradients(device, self.recompute && !by_hand)
    }

    /// The learning rate of a step. With a limit in steps it depends on the step alone, so a
    /// resumed run repeats it; with a limit in time it depends on how fast the machine was.
    pub(super) fn rate(&self, step: u64, seconds: f64) -> f64 {
        self.schedule
            .rate(step, self.limits.progress(step, seconds))
    }
}
