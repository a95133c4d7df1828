//! Encodes who speaks: an excerpt of speech becomes a style vector.

use burn::module::Module;
use burn::tensor::Tensor;

use super::block::Block;
use super::dense::{Dense, Norm};
use super::init::Init;
use super::shape::ModelShape;
use super::spans::Spans;

pub(super) const WIDTH: usize = 5;
pub(super) const WIDEN: usize = 4;

#[derive(Module, Debug)]
pub(super) struct ReferenceEncoder {
    input: Dense,
    pub(super) blocks: Vec<Block>,
    /// Without it the blocks' sums grow until every style is ±1 and all voices are the same.
    norm: Norm,
    output: Dense,
}

impl ReferenceEncoder {
    pub(super) fn new(init: &Init<'_>, shape: &ModelShape, mel_channels: usize) -> Self {
        let channels = shape.reference_channels;
        let blocks = (0..shape.reference_blocks).map(|n| {
            let init = init.part("blocks").part(&n.to_string());
            Block::new(&init, channels, WIDTH, WIDEN * channels, None)
        });
        Self {
            input: Dense::new(&init.part("input"), mel_channels, channels, 1.0),
            blocks: blocks.collect(),
            norm: Norm::new(init, channels),
            output: Dense::new(&init.part("output"), 2 * channels, shape.style, 1.0),
        }
    }

    #[cfg(feature = "gpu")]
    pub(super) fn products_mut(&mut self) -> impl Iterator<Item = &mut Dense> {
        let in_blocks = self.blocks.iter_mut().flat_map(Block::products_mut);
        in_blocks.chain([&mut self.input, &mut self.output])
    }

    pub(super) fn forward(&self, reference: Tensor<3>, spans: &Spans) -> Tensor<2> {
        let dtype = reference.dtype();
        let mut frames = self.input.forward(reference);
        for block in &self.blocks {
            frames = block.forward(frames, spans, None);
        }
        let frames = self.norm.forward(frames);
        let mask = spans.mask().cast(frames.dtype());
        // A masked row has no frames; it gets the style of silence and is ignored later.
        let count = mask.clone().sum_dim(1).clamp_min(1.0);
        let mean = (frames.clone() * mask.clone()).sum_dim(1) / count.clone();
        let distance = (frames - mean.clone()) * mask;
        let deviation = (distance.square().sum_dim(1) / count + 1e-5).sqrt();
        let both = Tensor::cat(vec![mean, deviation], 2).squeeze_dim::<2>(1);
        self.output.forward_rows(both.cast(dtype)).tanh()
    }
}
