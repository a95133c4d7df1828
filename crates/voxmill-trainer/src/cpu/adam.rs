//! AdamW's update of one weight in one pass through memory.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use pulp::Arch;
use rayon::prelude::*;

use super::block_op::{contiguous, numbers};
use crate::optimizer::Moments;

/// What is the same for all numbers of a weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamNumbers {
    pub(crate) clip: f32,
    pub(crate) beta_1: f32,
    pub(crate) beta_2: f32,
    /// The learning rate, divided by the first moment's correction.
    pub(crate) rate: f32,
    pub(crate) second_scale: f32,
    pub(crate) epsilon: f32,
    pub(crate) shrink: f32,
    /// How much of its distance from the new weight the mean weight keeps.
    pub(crate) mean_keeps: f32,
}

/// The new weight and its state.
pub(crate) fn adam(
    n: AdamNumbers,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    moments: Moments,
) -> (Tensor<1>, Moments) {
    let old = WeightState {
        weight: weight.into_dispatch(),
        first: moments.first.into_dispatch(),
        second: moments.second.into_dispatch(),
        mean: moments.mean_weight.into_dispatch(),
    };
    let new = <Dispatch as AdamOps>::adam(old, gradient.into_dispatch(), n);
    let moments = Moments {
        path: moments.path,
        first: Tensor::from_dispatch(new.first),
        second: Tensor::from_dispatch(new.second),
        mean_weight: Tensor::from_dispatch(new.mean),
    };
    (Tensor::from_dispatch(new.weight), moments)
}

#[derive(ExtensionType)]
struct WeightState<B: Backend> {
    weight: FloatTensor<B>,
    first: FloatTensor<B>,
    second: FloatTensor<B>,
    mean: FloatTensor<B>,
}

#[backend_extension(Flex)]
trait AdamOps: Backend {
    fn adam(
        #[extension_type] old: WeightState<Self>,
        gradient: FloatTensor<Self>,
        n: AdamNumbers,
    ) -> WeightState<Self>;
}

/// Numbers of a task: small enough to share out, large enough to be worth it.
const TASK: usize = 16_384;

impl AdamOps for Flex {
    fn adam(old: WeightState<Flex>, gradient: FlexTensor, n: AdamNumbers) -> WeightState<Flex> {
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
                        let g = g * n.clip;
                        *m = *m * n.beta_1 + g * (1.0 - n.beta_1);
                        *v = *v * n.beta_2 + g * g * (1.0 - n.beta_2);
                        let step = n.rate * *m / ((*v * n.second_scale).sqrt() + n.epsilon);
                        *w = *w * n.shrink - step;
                        // In this order keeping nothing gives the weight itself, to the bit.
                        *e = *w + (*e - *w) * n.mean_keeps;
                    }
                });
            });
        new
    }
}
