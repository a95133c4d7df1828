//! A block as one operation of the tensor library.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata as _, backend_extension};
use burn::tensor::{Shape, Tensor, TensorData};
use burn_flex::FlexTensor;

use super::block::{self, Film, Inner, Sizes, Weights};

/// The inputs of a block.
#[derive(Debug)]
pub(crate) struct FusedBlock {
    /// rows × time × channels; what lies beyond a row's length is not looked at.
    pub(crate) input: Tensor<3>,
    pub(crate) convolution: Tensor<2>,
    pub(crate) norm_gain: Tensor<1>,
    pub(crate) norm_bias: Tensor<1>,
    pub(crate) scale: Tensor<2>,
    pub(crate) shift: Tensor<2>,
    pub(crate) widen: Tensor<2>,
    pub(crate) widen_bias: Tensor<1>,
    pub(crate) narrow: Tensor<2>,
    pub(crate) narrow_bias: Tensor<1>,
    /// Valid frames of each row.
    pub(crate) lengths: Arc<[usize]>,
    /// Whether the backward pass makes again what the forward pass made on the way, instead of
    /// keeping it.
    pub(crate) recompute: bool,
}

/// The block's output, with zeros beyond each row's length.
pub(crate) fn block(b: FusedBlock) -> Tensor<3> {
    let output = <Dispatch as BlockOps>::block(
        b.input.into_dispatch(),
        b.convolution.into_dispatch(),
        b.norm_gain.into_dispatch(),
        b.norm_bias.into_dispatch(),
        b.scale.into_dispatch(),
        b.shift.into_dispatch(),
        b.widen.into_dispatch(),
        b.widen_bias.into_dispatch(),
        b.narrow.into_dispatch(),
        b.narrow_bias.into_dispatch(),
        b.lengths,
        b.recompute,
    );
    Tensor::from_dispatch(output)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the tensor library wants each tensor by itself"
)]
#[backend_extension(Flex, Autodiff)]
trait BlockOps: Backend {
    fn block(
        input: FloatTensor<Self>,
        convolution: FloatTensor<Self>,
        norm_gain: FloatTensor<Self>,
        norm_bias: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        widen: FloatTensor<Self>,
        widen_bias: FloatTensor<Self>,
        narrow: FloatTensor<Self>,
        narrow_bias: FloatTensor<Self>,
        lengths: Arc<[usize]>,
        recompute: bool,
    ) -> FloatTensor<Self>;
}

/// The inputs as the CPU has them, in the order of the operation.
#[derive(Clone, Debug)]
struct Inputs {
    tensors: [FlexTensor; 10],
    lengths: Arc<[usize]>,
}

impl Inputs {
    fn new(tensors: [FlexTensor; 10], lengths: Arc<[usize]>) -> Self {
        Self {
            tensors: tensors.map(contiguous),
            lengths,
        }
    }

    fn sizes(&self) -> Sizes {
        let [_, time, channels] = self.tensors[0].shape().dims();
        let [width, _] = self.tensors[1].shape().dims();
        let [_, hidden] = self.tensors[6].shape().dims();
        Sizes {
            time,
            channels,
            hidden,
            width,
        }
    }

    fn input(&self) -> &[f32] {
        numbers(&self.tensors[0])
    }

    fn film(&self) -> Film<'_> {
        Film {
            scale: numbers(&self.tensors[4]),
            shift: numbers(&self.tensors[5]),
        }
    }

    fn weights(&self) -> Weights<'_> {
        Weights {
            convolution: numbers(&self.tensors[1]),
            norm_gain: numbers(&self.tensors[2]),
            norm_bias: numbers(&self.tensors[3]),
            widen: numbers(&self.tensors[6]),
            widen_bias: numbers(&self.tensors[7]),
            narrow: numbers(&self.tensors[8]),
            narrow_bias: numbers(&self.tensors[9]),
        }
    }

    fn forward(&self) -> (FlexTensor, Inner) {
        let (output, inner) = block::forward(
            self.sizes(),
            &self.lengths,
            self.input(),
            self.film(),
            self.weights(),
        );
        (tensor(output, self.tensors[0].shape()), inner)
    }
}

impl BlockOps for Flex {
    fn block(
        input: FlexTensor,
        convolution: FlexTensor,
        norm_gain: FlexTensor,
        norm_bias: FlexTensor,
        scale: FlexTensor,
        shift: FlexTensor,
        widen: FlexTensor,
        widen_bias: FlexTensor,
        narrow: FlexTensor,
        narrow_bias: FlexTensor,
        lengths: Arc<[usize]>,
        _recompute: bool,
    ) -> FlexTensor {
        let tensors = [
            input,
            convolution,
            norm_gain,
            norm_bias,
            scale,
            shift,
            widen,
            widen_bias,
            narrow,
            narrow_bias,
        ];
        Inputs::new(tensors, lengths).forward().0
    }
}

impl<C: CheckpointStrategy> BlockOps for Autodiff<Flex, C> {
    fn block(
        input: FloatTensor<Self>,
        convolution: FloatTensor<Self>,
        norm_gain: FloatTensor<Self>,
        norm_bias: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        widen: FloatTensor<Self>,
        widen_bias: FloatTensor<Self>,
        narrow: FloatTensor<Self>,
        narrow_bias: FloatTensor<Self>,
        lengths: Arc<[usize]>,
        recompute: bool,
    ) -> FloatTensor<Self> {
        let parents = [
            input,
            convolution,
            norm_gain,
            norm_bias,
            scale,
            shift,
            widen,
            widen_bias,
            narrow,
            narrow_bias,
        ];
        let nodes = parents.each_ref().map(|parent| parent.node());
        let inputs = Inputs::new(parents.map(|parent| parent.into_primitive()), lengths);
        let (output, inner) = inputs.forward();
        match Block.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(
                Kept {
                    inputs,
                    inner: (!recompute).then_some(inner),
                },
                output,
            ),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }
}

#[derive(Debug)]
struct Block;

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Kept {
    inputs: Inputs,
    inner: Option<Inner>,
}

impl Backward<Flex, 10> for Block {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 10>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let output = contiguous(grads.consume::<Flex>(&ops.node));
        let Kept { inputs, inner } = ops.state;
        let inner = inner.unwrap_or_else(|| {
            block::inner(
                inputs.sizes(),
                &inputs.lengths,
                inputs.input(),
                inputs.film(),
                inputs.weights(),
            )
        });
        let all = block::backward(
            inputs.sizes(),
            &inputs.lengths,
            inputs.input(),
            inputs.film(),
            inputs.weights(),
            inner,
            numbers(&output),
        );
        let all = [
            all.input,
            all.convolution,
            all.norm_gain,
            all.norm_bias,
            all.scale,
            all.shift,
            all.widen,
            all.widen_bias,
            all.narrow,
            all.narrow_bias,
        ];
        for ((parent, gradient), like) in ops.parents.into_iter().zip(all).zip(&inputs.tensors) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, tensor(gradient, like.shape()));
            }
        }
    }
}

/// A tensor whose numbers lie one after another from the start of its storage.
pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    tensor.to_contiguous()
}

pub(super) fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.storage()
}

pub(super) fn tensor(numbers: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, shape.into()))
}
