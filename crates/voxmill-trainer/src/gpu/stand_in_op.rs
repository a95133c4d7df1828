//! A weight's copy in 16 bits in place of the weight: what is computed with it is the weight's to learn from.
//!
//! A cast does the same and makes the copy; this one takes a copy that was made before, once a step and of all weights
//! together. No kernel forward, the same cast back as that of a cast.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata as _, backend_extension};
use burn::tensor::{FloatDType, Tensor};

use super::launch::Cube;

/// The copy, whose gradient the weight gets.
pub(crate) fn stand_in<const D: usize>(weight: Tensor<D>, copy: Tensor<D>) -> Tensor<D> {
    let copy = <Dispatch as StandInOps>::stand_in(weight.into_dispatch(), copy.into_dispatch());
    Tensor::from_dispatch(copy)
}

#[backend_extension(Cube, Fusion: cfg(feature = "fused"), Autodiff)]
pub(crate) trait StandInOps: Backend {
    #[fusion(default)]
    fn stand_in(_weight: FloatTensor<Self>, copy: FloatTensor<Self>) -> FloatTensor<Self> {
        copy
    }
}

impl StandInOps for Cube {}

impl<B: StandInOps, C: CheckpointStrategy> StandInOps for Autodiff<B, C> {
    fn stand_in(weight: FloatTensor<Self>, copy: FloatTensor<Self>) -> FloatTensor<Self> {
        let (weight, node) = weight.into_parts();
        let copy = copy.into_primitive();
        match StandIn.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(weight.dtype().into(), copy),
            OpsKind::UnTracked(prep) => prep.finish(copy),
        }
    }
}

#[derive(Debug)]
struct StandIn;

impl<B: Backend> Backward<B, 1> for StandIn {
    /// What the weight is made of.
    type State = FloatDType;

    fn backward(
        self,
        ops: Ops<FloatDType, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let [Some(parent)] = ops.parents else { return };
        grads.register::<B>(parent.id, B::float_cast(gradient, ops.state));
    }
}
