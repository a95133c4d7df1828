//! AdamW's update of one weight in one pass through memory.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use pulp::Arch;
use rayon::prelude::*;

use super::block_op::{contiguous, numbers};
use crate::optimizer::{AdamNumbers, Moments, WeightState, updated};

/// What is known of a step that counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepNumbers {
    pub(crate) clip: f32,
    pub(crate) second_scale: f32,
    /// How much of its distance from the new weight the mean weight keeps.
    pub(crate) mean_keeps: f32,
}

/// The new weight and its state. The rate is divided by the first moment's correction.
pub(crate) fn adam(
    n: AdamNumbers,
    of_step: StepNumbers,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    moments: Moments,
) -> (Tensor<1>, Moments) {
    let gradient = gradient.into_dispatch();
    updated(weight, moments, |old| {
        <Dispatch as AdamOps>::adam(old, gradient, n, of_step)
    })
}

#[backend_extension(Flex)]
trait AdamOps: Backend {
    fn adam(
        #[extension_type] old: WeightState<Self>,
        gradient: FloatTensor<Self>,
        n: AdamNumbers,
        of_step: StepNumbers,
    ) -> WeightState<Self>;
}

/// Numbers of a task: small enough to share out, large enough to be worth it.
const TASK: usize = 16_384;

impl AdamOps for Flex {
    fn adam(
        old: WeightState<Flex>,
        gradient: FlexTensor,
        n: AdamNumbers,
        of_step: StepNumbers,
    ) -> WeightState<Flex> {
        let gradient = contiguous(gradient);
        // In place where nobody else holds them, which is the rule.
        let mut new = WeightState::<Flex> {
            weight: contiguous(old.weight),
            first: contiguous(old.first),
            second: contiguous(old.second),
            mean: contiguous(old.mean),
        };
        let arch = Arch::new();
        (new.weight.storage_mut::<f32>().par_chunks_mut(TASK))
            .zip(numbers(&gradient).par_chunks(TASK))
            .zip(new.first.storage_mut::<f32>().par_chunks_mut(TASK))
            .zip(new.second.storage_mut::<f32>().par_chunks_mut(TASK))
            .zip(new.mean.storage_mut::<f32>().par_chunks_mut(TASK))
            .for_each(|((((weight, gradient), first), second), mean)| {
                arch.dispatch(|| {
                    for ((((w, g), m), v), e) in (weight.iter_mut().zip(gradient))
                        .zip(first)
                        .zip(second)
                        .zip(mean)
                    {
                        let g = g * of_step.clip;
                        *m = *m * n.beta_1 + g * (1.0 - n.beta_1);
                        *v = *v * n.beta_2 + g * g * (1.0 - n.beta_2);
                        let step = n.rate * *m / ((*v * of_step.second_scale).sqrt() + n.epsilon);
                        *w = *w * n.shrink - step;
                        // In this order keeping nothing gives the weight itself, to the bit.
                        *e = *w + (*e - *w) * of_step.mean_keeps;
                    }
                });
            });
        new
    }
}
