//! What the update of a weight is given and gives back, on every device.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::Tensor;

use super::Moments;

/// What is the same for all numbers of a weight, and known on the host whether the step counts or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamNumbers {
    pub(crate) beta_1: f32,
    pub(crate) beta_2: f32,
    pub(crate) rate: f32,
    pub(crate) shrink: f32,
    pub(crate) epsilon: f32,
}

/// A weight and its state, as a backend has them.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fused"))]
pub(crate) struct WeightState<B: Backend> {
    pub(crate) weight: FloatTensor<B>,
    pub(crate) first: FloatTensor<B>,
    pub(crate) second: FloatTensor<B>,
    pub(crate) mean: FloatTensor<B>,
}

/// The new weight and its state, by a device's own update.
pub(crate) fn updated(
    weight: Tensor<1>,
    moments: Moments,
    update: impl FnOnce(WeightState<Dispatch>) -> WeightState<Dispatch>,
) -> (Tensor<1>, Moments) {
    let new = update(WeightState {
        weight: weight.into_dispatch(),
        first: moments.first.into_dispatch(),
        second: moments.second.into_dispatch(),
        mean: moments.mean_weight.into_dispatch(),
    });
    let moments = Moments {
        path: moments.path,
        first: Tensor::from_dispatch(new.first),
        second: Tensor::from_dispatch(new.second),
        mean_weight: Tensor::from_dispatch(new.mean),
    };
    (Tensor::from_dispatch(new.weight), moments)
}
