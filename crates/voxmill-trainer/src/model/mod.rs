//! The voice model: text and a voice in, log-mel frames out.
//!
//! tokens → encoder → (mean frame of each token, log-duration of each token); each token's state
//! is repeated for as many frames as it lasts → decoder → log-mel frames. A reference clip of the
//! speaker becomes a style vector that bends every block.
//!
//! All mel frames in here are normalised: mean 0 and deviation 1 over the training set.

mod block;
mod dense;
mod init;
mod reference;
mod shape;
mod spans;
#[cfg(test)]
mod tests;

#[cfg(feature = "gpu")]
use std::collections::HashMap;

#[cfg(feature = "gpu")]
use burn::module::ParamId;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use voxmill_text::symbols::SymbolTable;

pub use shape::{ModelShape, ModelSize, UnknownSize};
pub(crate) use spans::Spans;

use block::Block;
use dense::{Dense, Norm};
use init::Init;
use reference::ReferenceEncoder;

use crate::align::{Durations, PLACES};
use crate::device::{Precision, tracked_on, widened};
#[cfg(feature = "gpu")]
use crate::{device::is_cpu, gpu};

/// What must be known, apart from the shape, to build the model's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Vocabulary {
    pub tokens: usize,
    pub languages: usize,
    pub mel_channels: usize,
}

/// The model: encoder, alignment, durations, style and decoder.
#[derive(Module, Debug)]
pub struct Voice {
    token_embedding: Param<Tensor<2>>,
    language_embedding: Param<Tensor<2>>,
    encoder: Vec<Block>,
    mean_head: Dense,
    duration_blocks: Vec<Block>,
    duration_head: Dense,
    decoder_input: Dense,
    decoder: Vec<Block>,
    decoder_norm: Norm,
    decoder_output: Dense,
    reference: ReferenceEncoder,
    /// What the style is made in, and after it all that is bent by a style; `None`: what the weights
    /// are.
    #[module(skip)]
    half: Option<Precision>,
}

/// One weight of a voice, on the device, without gradients.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    /// Its place in the model, as `decoder.0.widen.bias`.
    pub(crate) path: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) flat: Tensor<1>,
}

/// What the encoder makes of a text.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// rows × tokens × channels, in the precision that the model computes in.
    pub(crate) states: Tensor<3>,
    /// In at least 32 bits, as the log-durations are: losses and alignments are made of them.
    ///
    /// rows × tokens × mel channels: the mean of the frames that belong to a token.
    pub(crate) means: Tensor<3>,
    /// rows × tokens
    pub(crate) log_durations: Tensor<2>,
}

const ENCODER_WIDTH: usize = 7;
const DURATION_WIDTH: usize = 5;
const DECODER_WIDTH: usize = 9;

impl Voice {
    /// Fresh weights. They depend on the seed and on nothing else: the same on every device.
    pub fn new(shape: &ModelShape, vocabulary: Vocabulary, seed: u64, device: &Device) -> Self {
        let init = Init::new(seed, device);
        let (d, style, mels) = (shape.channels, shape.style, vocabulary.mel_channels);
        let blocks = |name: &str, count: usize, width, widen: usize| -> Vec<Block> {
            let init = init.part(name);
            let block =
                |n: usize| Block::new(&init.part(&n.to_string()), d, width, widen * d, Some(style));
            (0..count).map(block).collect()
        };
        Self {
            token_embedding: init.normal("token_embedding", [vocabulary.tokens, d], 1.0),
            language_embedding: init.normal("language_embedding", [vocabulary.languages, d], 0.1),
            encoder: blocks(
                "encoder",
                shape.encoder_blocks,
                ENCODER_WIDTH,
                shape.encoder_widen,
            ),
            mean_head: Dense::new(&init.part("mean_head"), d, mels, 1.0),
            duration_blocks: blocks("duration_blocks", 2, DURATION_WIDTH, 1),
            duration_head: Dense::new(&init.part("duration_head"), d, 1, 0.1),
            decoder_input: Dense::new(&init.part("decoder_input"), d + PLACES, d, 1.0),
            decoder: blocks(
                "decoder",
                shape.decoder_blocks,
                DECODER_WIDTH,
                shape.decoder_widen,
            ),
            decoder_norm: Norm::new(&init, d),
            decoder_output: Dense::new(&init.part("decoder_output"), d, mels, 0.3),
            reference: ReferenceEncoder::new(&init.part("reference"), shape, mels),
            half: None,
        }
    }

    /// Makes activations and products in 16 bits, or no longer does.
    pub(crate) fn computing_in(self, precision: Precision) -> Self {
        let half = (precision != Precision::Single).then_some(precision);
        Self { half, ..self }
    }

    /// The 16 bits that it computes in, if any.
    #[cfg(feature = "gpu")]
    pub(crate) fn half(&self) -> Option<Precision> {
        self.half
    }

    /// With copies of all weights in 16 bits, flat and in the model's order, for products to take instead of casting
    /// the weights at each use; or without. Whoever changes the weights changes the copies.
    #[cfg(feature = "gpu")]
    pub(crate) fn with_casts(mut self, casts: Option<Vec<Tensor<1>>>) -> Self {
        #[derive(Default)]
        struct Order(Vec<ParamId>);
        impl ModuleVisitor for Order {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push(param.id);
            }
        }
        let mut order = Order::default();
        self.visit(&mut order);
        let casts: HashMap<ParamId, Tensor<1>> = order
            .0
            .into_iter()
            .zip(casts.into_iter().flatten())
            .collect();
        let blocks = (self.encoder.iter_mut())
            .chain(&mut self.duration_blocks)
            .chain(&mut self.decoder);
        let heads = [
            &mut self.mean_head,
            &mut self.duration_head,
            &mut self.decoder_input,
            &mut self.decoder_output,
        ];
        let products = blocks.flat_map(Block::products_mut);
        for dense in products.chain(heads).chain(self.reference.products_mut()) {
            dense.take_casts(&|id| casts.get(&id).cloned());
        }
        self
    }

    /// The path and shape of each weight, in the model's order.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let weights = self.weights().into_iter();
        weights.map(|weight| (weight.path, weight.shape)).collect()
    }

    /// All weights in the model's order.
    pub(crate) fn weights(&self) -> Vec<Weight> {
        #[derive(Default)]
        struct Collect {
            path: Vec<String>,
            all: Vec<Weight>,
        }
        impl ModuleVisitor for Collect {
            fn enter_module(&mut self, name: &str, _: &str) {
                self.path.push(name.to_owned());
            }
            fn exit_module(&mut self, _: &str, _: &str) {
                self.path.pop();
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let weight = param.val().inner();
                self.all.push(Weight {
                    path: self.path.join("."),
                    shape: weight.dims().to_vec(),
                    flat: weight.reshape([-1]),
                });
            }
        }
        let mut collect = Collect::default();
        self.visit(&mut collect);
        collect.all
    }

    /// Of each weight, in the model's order, whether it learns durations and nothing else: these are predicted from
    /// detached states, so no other weight learns them.
    pub(crate) fn learns_durations(&self) -> impl Iterator<Item = bool> {
        let weights = self.weights().into_iter();
        weights.map(|weight| weight.path.starts_with("duration_"))
    }

    /// How many numbers all weights have together.
    pub fn parameters(&self) -> usize {
        self.num_params()
    }

    /// Blocks keep only their inputs and make the rest again in the backward pass.
    pub(crate) fn recomputing(mut self, recompute: bool) -> Self {
        for block in (self.encoder.iter_mut())
            .chain(&mut self.duration_blocks)
            .chain(&mut self.decoder)
            .chain(&mut self.reference.blocks)
        {
            block.recompute = recompute;
        }
        self
    }

    /// These weights where the other voice has none that fit, the other's everywhere else. Symbols
    /// are matched by name, so a table that grew or changed keeps what is known.
    pub(crate) fn taking_over(
        self,
        other: Voice,
        other_symbols: &SymbolTable,
        symbols: &SymbolTable,
    ) -> Voice {
        let device = self.token_embedding.val().device();
        let (fresh, old) = (
            self.token_embedding.val().inner(),
            other.token_embedding.val().inner(),
        );
        let rows = symbols.symbols.iter().enumerate().map(|(id, symbol)| {
            let mut others = other_symbols.symbols.iter();
            match others.position(|other| other == symbol) {
                Some(known) => old.clone().narrow(0, known, 1),
                None => fresh.clone().narrow(0, id, 1),
            }
        });
        let embedding = tracked_on(Tensor::cat(rows.collect(), 0), &device);
        Voice {
            token_embedding: self.token_embedding.map(|_| embedding),
            ..other
        }
    }

    /// The style of each row's reference, rows × style.
    pub(crate) fn style(&self, reference: Tensor<3>, spans: &Spans) -> Tensor<2> {
        let reference = match self.half {
            Some(half) => reference.cast(half.dtype()),
            None => reference,
        };
        self.reference.forward(reference, spans)
    }

    pub(crate) fn encode(
        &self,
        tokens: Tensor<2, Int>,
        languages: Tensor<1, Int>,
        spans: &Spans,
        style: &Tensor<2>,
    ) -> Encoded {
        let [rows, count] = tokens.dims();
        // Looked up in the weights' own precision: a row's gradient is a sum over where it is used.
        let embedded = look_up(&self.token_embedding, tokens.reshape([-1]));
        let d = embedded.dims()[1];
        let language = look_up(&self.language_embedding, languages).reshape([rows, 1, d]);
        let mut states = (embedded.reshape([rows, count, d]) + language).cast(style.dtype());
        for block in &self.encoder {
            states = block.forward(states, spans, Some(style));
        }
        // Durations must not shape the states that the decoder reads: they learn from the
        // alignment, which is a search result and carries no gradient.
        let (mut paced, style) = (states.clone().detach(), style.clone().detach());
        for block in &self.duration_blocks {
            paced = block.forward(paced, spans, Some(&style));
        }
        Encoded {
            means: widened(self.mean_head.forward(states.clone())),
            log_durations: widened(self.duration_head.forward(paced)).reshape([rows, count]),
            states,
        }
    }

    /// rows × frames × mel channels in at least 32 bits; what lies beyond a row's end is not masked.
    pub(crate) fn decode(
        &self,
        states: Tensor<3>,
        durations: &Durations,
        spans: &Spans,
        style: &Tensor<2>,
    ) -> Tensor<3> {
        let frames = spans.time();
        let device = states.device();
        let dtype = states.dtype();
        let [rows, ..] = states.dims();
        let places = TensorData::new(durations.places(frames), [rows, frames, PLACES]);
        let places = Tensor::<3>::from_data(places, &device).cast(dtype);
        let expanded = expand(widened(states), durations, frames).cast(dtype);
        let mut frames = self
            .decoder_input
            .forward(Tensor::cat(vec![expanded, places], 2));
        for block in &self.decoder {
            frames = block.forward(frames, spans, Some(style));
        }
        let normed = self.decoder_norm.forward(frames).cast(dtype);
        widened(self.decoder_output.forward(normed))
    }
}

/// The table's row for each id.
fn look_up(table: &Param<Tensor<2>>, ids: Tensor<1, Int>) -> Tensor<2> {
    #[cfg(feature = "gpu")]
    if !is_cpu(&ids.device()) {
        return gpu::look_up(table.val(), ids, None);
    }
    table.val().select(0, ids)
}

/// Each token's channels for as many frames as it lasts. A token's gradient is the sum over its frames,
/// so this is done in at least 32 bits.
pub(crate) fn expand(tokens: Tensor<3>, durations: &Durations, frames: usize) -> Tensor<3> {
    if spans::by_hand(&tokens) {
        return crate::cpu::expand(tokens, durations, frames);
    }
    #[cfg(feature = "gpu")]
    if !is_cpu(&tokens.device()) {
        return expand_on_gpu(tokens, durations, frames);
    }
    let [rows, _, channels] = tokens.dims();
    let device = tokens.device();
    let owners = TensorData::new(durations.token_of_frame(frames), [rows, frames, 1]);
    let owners = Tensor::<3, Int>::from_data(owners, &device).repeat_dim(2, channels);
    let valid: Vec<u32> = (0..rows)
        .map(|row| durations.row(row).iter().sum())
        .collect();
    let mask = Spans::new(&valid, frames, &device)
        .mask()
        .cast(tokens.dtype());
    tokens.gather(1, owners) * mask
}

#[cfg(feature = "gpu")]
fn expand_on_gpu(tokens: Tensor<3>, durations: &Durations, frames: usize) -> Tensor<3> {
    let [rows, count, channels] = tokens.dims();
    let device = tokens.device().inner();
    let (ids, places) = durations.rows_of_frames(frames);
    let table = tokens.reshape([rows * count, channels]);
    let ids = Tensor::from_ints(ids.as_slice(), &device);
    let places = Tensor::from_ints(places.as_slice(), &device);
    let expanded = gpu::look_up(table, ids, Some(places));
    expanded.reshape([rows, frames, channels])
}
