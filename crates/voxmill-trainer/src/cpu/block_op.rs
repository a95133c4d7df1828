//! A block as one operation of the tensor library.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, Dispatch, ExtensionType, Flex, TensorMetadata as _, backend_extension,
};
use burn::tensor::{Shape, Tensor, TensorData};
use burn_flex::FlexTensor;
use pulp::Arch;

use super::block::{BlockSlices, Inner};

/// The inputs of a block.
#[derive(ExtensionType)]
pub(crate) struct BlockInputs<B: Backend> {
    /// rows × time × channels; what lies beyond a row's length is not read.
    pub(crate) input: FloatTensor<B>,
    pub(crate) convolution: FloatTensor<B>,
    pub(crate) norm_gain: FloatTensor<B>,
    pub(crate) norm_bias: FloatTensor<B>,
    pub(crate) scale: FloatTensor<B>,
    pub(crate) shift: FloatTensor<B>,
    pub(crate) widen: FloatTensor<B>,
    pub(crate) widen_bias: FloatTensor<B>,
    pub(crate) narrow: FloatTensor<B>,
    pub(crate) narrow_bias: FloatTensor<B>,
    /// Valid frames of each row.
    pub(crate) lengths: Arc<[usize]>,
    /// Whether the backward pass makes again what the forward pass made on the way, instead of
    /// keeping it.
    pub(crate) recompute: bool,
}

/// The block's output, with zeros beyond each row's length.
pub(crate) fn block(inputs: BlockInputs<Dispatch>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as BlockOps>::block(inputs))
}

#[backend_extension(Flex, Autodiff)]
trait BlockOps: Backend {
    fn block(#[extension_type] inputs: BlockInputs<Self>) -> FloatTensor<Self>;
}

impl<B: Backend> BlockInputs<B> {
    /// The tensors in the operation's order.
    fn tensors(self) -> [FloatTensor<B>; 10] {
        [
            self.input,
            self.convolution,
            self.norm_gain,
            self.norm_bias,
            self.scale,
            self.shift,
            self.widen,
            self.widen_bias,
            self.narrow,
            self.narrow_bias,
        ]
    }
}

/// The inputs as the CPU has them, in the order of the operation.
#[derive(Clone, Debug)]
struct FlexInputs {
    tensors: [FlexTensor; 10],
    lengths: Arc<[usize]>,
}

impl FlexInputs {
    fn new(tensors: [FlexTensor; 10], lengths: Arc<[usize]>) -> Self {
        Self {
            tensors: tensors.map(contiguous),
            lengths,
        }
    }

    fn slices(&self) -> BlockSlices<'_> {
        let [_, time, channels] = self.tensors[0].shape().dims();
        let [width, _] = self.tensors[1].shape().dims();
        let [_, hidden] = self.tensors[6].shape().dims();
        let n = self.tensors.each_ref().map(numbers);
        BlockSlices {
            time,
            channels,
            hidden,
            width,
            lengths: &self.lengths,
            input: n[0],
            convolution: n[1],
            norm_gain: n[2],
            norm_bias: n[3],
            scale: n[4],
            shift: n[5],
            widen: n[6],
            widen_bias: n[7],
            narrow: n[8],
            narrow_bias: n[9],
            arch: Arch::new(),
        }
    }

    fn forward(&self) -> (FlexTensor, Inner) {
        let (output, inner) = self.slices().forward();
        (tensor(output, self.tensors[0].shape()), inner)
    }
}

impl BlockOps for Flex {
    fn block(inputs: BlockInputs<Flex>) -> FlexTensor {
        let lengths = Arc::clone(&inputs.lengths);
        FlexInputs::new(inputs.tensors(), lengths).forward().0
    }
}

impl<C: CheckpointStrategy> BlockOps for Autodiff<Flex, C> {
    fn block(inputs: BlockInputs<Self>) -> FloatTensor<Self> {
        let (lengths, recompute) = (Arc::clone(&inputs.lengths), inputs.recompute);
        let parents = inputs.tensors();
        let nodes = parents.each_ref().map(|parent| parent.node());
        let inputs = FlexInputs::new(parents.map(|parent| parent.into_primitive()), lengths);
        let (output, inner) = inputs.forward();
        match BlockOp.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inner = (!recompute).then_some(inner);
                prep.finish(Kept { inputs, inner }, output)
            }
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }
}

#[derive(Debug)]
struct BlockOp;

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Kept {
    inputs: FlexInputs,
    inner: Option<Inner>,
}

impl Backward<Flex, 10> for BlockOp {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 10>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let output = contiguous(grads.consume::<Flex>(&ops.node));
        let Kept { inputs, inner } = ops.state;
        let slices = inputs.slices();
        let inner = inner.unwrap_or_else(|| slices.inner());
        let all = slices.backward(inner, numbers(&output));
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
