//! Devices that keep what the backward pass needs, or make it again.

use burn::backend::DispatchAutodiffContext;
use burn::tensor::{Device, Tensor};

/// The device with gradients. `recompute`: the library makes the results of cheap operations again in
/// the backward pass instead of keeping them. Kernels of our own have a switch of their own.
pub(crate) fn with_gradients(device: &Device, recompute: bool) -> Device {
    let device = device.clone().inner().autodiff();
    match recompute {
        true => device.gradient_checkpointing(),
        false => device,
    }
}

/// A tensor that takes gradients as those of `device` do: the library's own way to say so always
/// keeps everything, and refuses to mix the two.
pub(crate) fn tracked_on<const D: usize>(plain: Tensor<D>, device: &Device) -> Tensor<D> {
    let mut tracked = plain.autodiff().into_dispatch();
    if let Some(strategy) = device.gradient_checkpointing_strategy() {
        tracked.autodiff = DispatchAutodiffContext::Enabled(strategy);
    }
    Tensor::from_dispatch(tracked).require_grad()
}
