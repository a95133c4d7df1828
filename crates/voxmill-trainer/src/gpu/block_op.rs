//! A block as one operation of the tensor library.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
#[cfg(feature = "fused")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, Dispatch, ExtensionType, TensorMetadata as _, backend_extension,
};
use burn::tensor::{DType, Tensor};
use burn_cubecl::cubecl::prelude::{CubeCount, CubeDim};
use burn_cubecl::tensor::CubeTensor;

use super::block_kernels as kernels;
use super::launch::{Cube, UNITS, element, empty, one_for_each, plain, shaped};
use crate::cpu::NORM_EPSILON;

/// The inputs of a block.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fused"))]
pub(crate) struct BlockInputs<B: Backend> {
    /// rows × time × channels; this, the style and the two products' weights and biases are all of one type.
    pub(crate) input: FloatTensor<B>,
    /// rows × time × 1, 32 bits: ones, and zeros beyond a row's end.
    pub(crate) mask: FloatTensor<B>,
    /// width × channels, 32 bits, as the norm's weights are.
    pub(crate) taps: FloatTensor<B>,
    pub(crate) norm_gain: FloatTensor<B>,
    pub(crate) norm_bias: FloatTensor<B>,
    /// rows × (scales, shifts); anything in a block without a style.
    pub(crate) film: FloatTensor<B>,
    pub(crate) widen: FloatTensor<B>,
    pub(crate) widen_bias: FloatTensor<B>,
    pub(crate) narrow: FloatTensor<B>,
    pub(crate) narrow_bias: FloatTensor<B>,
    pub(crate) has_style: bool,
    /// Whether the backward pass makes again what the forward pass made on the way.
    pub(crate) recompute: bool,
}

/// What the forward pass makes.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fused"))]
pub(crate) struct Made<B: Backend> {
    output: FloatTensor<B>,
    /// What goes into the first product, frames × channels.
    bent: FloatTensor<B>,
    /// What goes into the second one, frames × hidden.
    active: FloatTensor<B>,
}

/// What the backward pass makes: a gradient for each input but the mask.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fused"))]
pub(crate) struct BlockGradients<B: Backend> {
    input: FloatTensor<B>,
    taps: FloatTensor<B>,
    norm_gain: FloatTensor<B>,
    norm_bias: FloatTensor<B>,
    film: FloatTensor<B>,
    widen: FloatTensor<B>,
    widen_bias: FloatTensor<B>,
    narrow: FloatTensor<B>,
    narrow_bias: FloatTensor<B>,
}

/// The block's output, with zeros beyond each row's end.
pub(crate) fn block(inputs: BlockInputs<Dispatch>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as BlockOps>::block(inputs))
}

#[backend_extension(Cube, Fusion: cfg(feature = "fused"), Autodiff)]
pub(crate) trait BlockOps: Backend {
    #[fusion(meta = |inputs| inputs.input.clone())]
    fn block(#[extension_type] inputs: BlockInputs<Self>) -> FloatTensor<Self>;
}

/// Both passes, for backends without gradients.
#[backend_extension(Cube, Fusion: cfg(feature = "fused"))]
pub(crate) trait BlockPasses: Backend {
    #[fusion(meta = shapes_made)]
    fn block_forward(#[extension_type] inputs: BlockInputs<Self>) -> Made<Self>;

    #[fusion(meta = shapes_of_gradients)]
    fn block_backward(
        #[extension_type] inputs: BlockInputs<Self>,
        bent: FloatTensor<Self>,
        active: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> BlockGradients<Self>;
}

#[cfg(feature = "fused")]
fn shapes_made(inputs: &BlockInputsMetadata) -> MadeMetadata {
    let (input, widen) = (&inputs.input, &inputs.widen);
    let [rows, time, channels] = input.shape.dims();
    let [_, hidden] = widen.shape.dims();
    let frames = |of: usize| TensorSpec::new([rows * time, of].into(), input.dtype);
    MadeMetadata {
        output: input.clone(),
        bent: frames(channels),
        active: frames(hidden),
    }
}

#[cfg(feature = "fused")]
fn shapes_of_gradients(
    inputs: &BlockInputsMetadata,
    _bent: &TensorSpec,
    _active: &TensorSpec,
    _gradient: &TensorSpec,
) -> BlockGradientsMetadata {
    BlockGradientsMetadata {
        input: inputs.input.clone(),
        taps: inputs.taps.clone(),
        norm_gain: inputs.norm_gain.clone(),
        norm_bias: inputs.norm_bias.clone(),
        film: inputs.film.clone(),
        widen: inputs.widen.clone(),
        widen_bias: inputs.widen_bias.clone(),
        narrow: inputs.narrow.clone(),
        narrow_bias: inputs.narrow_bias.clone(),
    }
}

impl BlockOps for Cube {
    fn block(inputs: BlockInputs<Self>) -> CubeTensor {
        Self::block_forward(inputs).output
    }
}

impl<B: BlockOps + BlockPasses, C: CheckpointStrategy> BlockOps for Autodiff<B, C> {
    fn block(inputs: BlockInputs<Self>) -> FloatTensor<Self> {
        let nodes = [
            inputs.input.node(),
            inputs.taps.node(),
            inputs.norm_gain.node(),
            inputs.norm_bias.node(),
            inputs.film.node(),
            inputs.widen.node(),
            inputs.widen_bias.node(),
            inputs.narrow.node(),
            inputs.narrow_bias.node(),
        ];
        let inputs = BlockInputs::<B> {
            input: inputs.input.into_primitive(),
            mask: inputs.mask.into_primitive(),
            taps: inputs.taps.into_primitive(),
            norm_gain: inputs.norm_gain.into_primitive(),
            norm_bias: inputs.norm_bias.into_primitive(),
            film: inputs.film.into_primitive(),
            widen: inputs.widen.into_primitive(),
            widen_bias: inputs.widen_bias.into_primitive(),
            narrow: inputs.narrow.into_primitive(),
            narrow_bias: inputs.narrow_bias.into_primitive(),
            has_style: inputs.has_style,
            recompute: inputs.recompute,
        };
        match BlockOp.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let made = B::block_forward(inputs.clone());
                let inner = (!inputs.recompute).then_some((made.bent, made.active));
                prep.finish(Kept { inputs, inner }, made.output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::block(inputs)),
        }
    }
}

#[derive(Debug)]
struct BlockOp;

/// What the backward pass needs.
#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    inputs: BlockInputs<B>,
    inner: Option<(FloatTensor<B>, FloatTensor<B>)>,
}

impl<B: BlockPasses> Backward<B, 9> for BlockOp {
    type State = Kept<B>;

    fn backward(
        self,
        ops: Ops<Kept<B>, 9>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let Kept { inputs, inner } = ops.state;
        let (bent, active) = inner.unwrap_or_else(|| {
            let made = B::block_forward(inputs.clone());
            (made.bent, made.active)
        });
        let of = B::block_backward(inputs, bent, active, gradient);
        let all = [
            of.input,
            of.taps,
            of.norm_gain,
            of.norm_bias,
            of.film,
            of.widen,
            of.widen_bias,
            of.narrow,
            of.narrow_bias,
        ];
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Sizes of a block.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    time: usize,
    channels: usize,
    hidden: usize,
    width: usize,
}

impl Sizes {
    fn frames(&self) -> usize {
        self.rows * self.time
    }

    /// One cube for each frame.
    fn by_frame(&self) -> (CubeCount, CubeDim) {
        let count = CubeCount::Static(self.time as u32, self.rows as u32, 1);
        (count, CubeDim::new_1d(UNITS as u32))
    }
}

impl BlockInputs<Cube> {
    fn sizes(&self) -> Sizes {
        let [rows, time, channels] = self.input.shape().dims();
        let [width, _] = self.taps.shape().dims();
        let [_, hidden] = self.widen.shape().dims();
        Sizes {
            rows,
            time,
            channels,
            hidden,
            width,
        }
    }

    /// As kernels of our own read them; the library's products take any layout.
    fn plain(self) -> Self {
        Self {
            input: plain(self.input),
            mask: plain(self.mask),
            taps: plain(self.taps),
            norm_gain: plain(self.norm_gain),
            norm_bias: plain(self.norm_bias),
            film: plain(self.film),
            widen_bias: plain(self.widen_bias),
            narrow_bias: plain(self.narrow_bias),
            ..self
        }
    }
}

impl BlockPasses for Cube {
    fn block_forward(inputs: BlockInputs<Self>) -> Made<Self> {
        let inputs = inputs.plain();
        let sizes @ Sizes {
            channels, hidden, ..
        } = inputs.sizes();
        let (input, frames) = (&inputs.input, sizes.frames());
        let (client, dtype) = (input.client.clone(), input.dtype);

        let bent = empty(input, [frames, channels], dtype);
        let (count, units) = sizes.by_frame();
        kernels::mix_kernel::launch(
            &client,
            count,
            units,
            input.clone().into_tensor_arg(),
            inputs.mask.clone().into_tensor_arg(),
            inputs.taps.into_tensor_arg(),
            inputs.norm_gain.into_tensor_arg(),
            inputs.norm_bias.into_tensor_arg(),
            inputs.film.into_tensor_arg(),
            bent.clone().into_tensor_arg(),
            NORM_EPSILON,
            channels,
            sizes.width,
            UNITS,
            inputs.has_style,
            element(input),
        );

        let widened = plain(Self::float_matmul(bent.clone(), inputs.widen));
        let active = empty(input, [frames, hidden], dtype);
        let (count, units) = one_for_each(frames * hidden);
        kernels::activate_kernel::launch(
            &client,
            count,
            units,
            widened.into_tensor_arg(),
            inputs.widen_bias.into_tensor_arg(),
            active.clone().into_tensor_arg(),
            frames * hidden,
            hidden,
            element(input),
        );

        let mixed = plain(Self::float_matmul(active.clone(), inputs.narrow));
        let output = empty(input, input.shape(), dtype);
        let (count, units) = one_for_each(frames * channels);
        kernels::close_kernel::launch(
            &client,
            count,
            units,
            input.clone().into_tensor_arg(),
            mixed.into_tensor_arg(),
            inputs.narrow_bias.into_tensor_arg(),
            inputs.mask.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            frames * channels,
            channels,
            element(input),
        );
        Made {
            output,
            bent,
            active,
        }
    }

    fn block_backward(
        inputs: BlockInputs<Self>,
        bent: CubeTensor,
        active: CubeTensor,
        gradient: CubeTensor,
    ) -> BlockGradients<Self> {
        let inputs = inputs.plain();
        let sizes @ Sizes {
            rows,
            time,
            channels,
            hidden,
            width,
        } = inputs.sizes();
        let (input, frames) = (&inputs.input, sizes.frames());
        let (client, dtype) = (input.client.clone(), input.dtype);
        let turned = |matrix: &CubeTensor| Self::float_swap_dims(matrix.clone(), 0, 1);
        let sum = |matrix: &CubeTensor, columns: usize| {
            shaped(Self::float_sum_dim(matrix.clone(), 0), [columns])
        };

        // Back through the second product.
        let output = empty(input, [frames, channels], dtype);
        let (count, units) = one_for_each(frames * channels);
        kernels::masked_kernel::launch(
            &client,
            count,
            units,
            plain(gradient).into_tensor_arg(),
            inputs.mask.clone().into_tensor_arg(),
            output.clone().into_tensor_arg(),
            frames * channels,
            channels,
            element(input),
        );
        let narrow_bias = sum(&output, channels);
        let narrow = Self::float_matmul(turned(&active), output.clone());
        let of_active = plain(Self::float_matmul(output.clone(), turned(&inputs.narrow)));

        // Through activation and first product.
        let of_widened = empty(input, [frames, hidden], dtype);
        let (count, units) = one_for_each(frames * hidden);
        kernels::deactivate_kernel::launch(
            &client,
            count,
            units,
            plain(active).into_tensor_arg(),
            of_active.into_tensor_arg(),
            of_widened.clone().into_tensor_arg(),
            frames * hidden,
            element(input),
        );
        let widen_bias = sum(&of_widened, hidden);
        let widen = Self::float_matmul(turned(&bent), of_widened.clone());
        let of_bent = plain(Self::float_matmul(of_widened, turned(&inputs.widen)));

        // Through style and norm.
        let of_convolved = empty(input, [frames, channels], DType::F32);
        let normed = empty(input, [frames, channels], DType::F32);
        let (count, units) = sizes.by_frame();
        kernels::norm_back_kernel::launch(
            &client,
            count,
            units,
            input.clone().into_tensor_arg(),
            inputs.mask.clone().into_tensor_arg(),
            inputs.taps.clone().into_tensor_arg(),
            inputs.norm_gain.clone().into_tensor_arg(),
            inputs.film.clone().into_tensor_arg(),
            of_bent.clone().into_tensor_arg(),
            of_convolved.clone().into_tensor_arg(),
            normed.clone().into_tensor_arg(),
            NORM_EPSILON,
            channels,
            width,
            UNITS,
            inputs.has_style,
            element(input),
        );

        // What is summed over frames.
        let segments = time.div_ceil(kernels::SEGMENT);
        let kinds = kernels::SUMS + width;
        let sums = empty(input, [rows, segments, kinds, channels], DType::F32);
        let parts = channels.div_ceil(UNITS) as u32;
        kernels::segment_sums_kernel::launch(
            &client,
            CubeCount::Static(segments as u32, rows as u32, parts),
            CubeDim::new_1d(UNITS as u32),
            input.clone().into_tensor_arg(),
            inputs.mask.clone().into_tensor_arg(),
            inputs.norm_gain.clone().into_tensor_arg(),
            inputs.norm_bias.clone().into_tensor_arg(),
            inputs.film.clone().into_tensor_arg(),
            of_bent.into_tensor_arg(),
            of_convolved.clone().into_tensor_arg(),
            normed.into_tensor_arg(),
            sums.clone().into_tensor_arg(),
            channels,
            width,
            UNITS,
            inputs.has_style,
            element(input),
        );
        let film = empty(input, inputs.film.shape(), dtype);
        let norm_bias = empty(input, [channels], DType::F32);
        let norm_gain = empty(input, [channels], DType::F32);
        let taps = empty(input, [width, channels], DType::F32);
        let (count, units) = one_for_each((2 * rows + 2 + width) * channels);
        kernels::whole_sums_kernel::launch(
            &client,
            count,
            units,
            sums.into_tensor_arg(),
            film.clone().into_tensor_arg(),
            norm_bias.clone().into_tensor_arg(),
            norm_gain.clone().into_tensor_arg(),
            taps.clone().into_tensor_arg(),
            rows,
            segments,
            channels,
            width,
            inputs.has_style,
            element(input),
        );

        // The convolution reads the neighbours' frames, so it comes when all are done.
        let of_input = empty(input, input.shape(), dtype);
        let (count, units) = one_for_each(frames * channels);
        kernels::input_back_kernel::launch(
            &client,
            count,
            units,
            output.into_tensor_arg(),
            inputs.mask.into_tensor_arg(),
            inputs.taps.into_tensor_arg(),
            of_convolved.into_tensor_arg(),
            of_input.clone().into_tensor_arg(),
            frames * channels,
            time,
            channels,
            width,
            element(input),
        );
        BlockGradients {
            input: of_input,
            taps,
            norm_gain,
            norm_bias,
            film,
            widen,
            widen_bias,
            narrow,
            narrow_bias,
        }
    }
}
