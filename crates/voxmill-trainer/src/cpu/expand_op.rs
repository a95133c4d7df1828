//! Each token's channels, repeated for as many frames as it lasts.

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata as _, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::block_op::{contiguous, numbers, tensor};
use super::rows::add;
use crate::align::Durations;

/// rows × tokens × channels → rows × `frames` × channels, on the CPU.
pub(crate) fn expand(tokens: Tensor<3>, durations: &Durations, frames: usize) -> Tensor<3> {
    let expanded =
        <Dispatch as ExpandOps>::expand(tokens.into_dispatch(), durations.clone(), frames);
    Tensor::from_dispatch(expanded)
}

#[backend_extension(Flex, Autodiff)]
trait ExpandOps: Backend {
    fn expand(tokens: FloatTensor<Self>, durations: Durations, frames: usize) -> FloatTensor<Self>;
}

impl ExpandOps for Flex {
    fn expand(tokens: FlexTensor, durations: Durations, frames: usize) -> FlexTensor {
        let [rows, count, channels] = tokens.shape().dims();
        let tokens = contiguous(tokens);
        let source = numbers(&tokens);
        let mut expanded = vec![0.0; rows * frames * channels];
        for (row, to) in expanded.chunks_exact_mut(frames * channels).enumerate() {
            let from = &source[row * count * channels..][..count * channels];
            let frames = to.chunks_exact_mut(channels);
            for (frame, token) in frames.zip(durations.tokens_of_frames(row)) {
                frame.copy_from_slice(&from[token * channels..][..channels]);
            }
        }
        tensor(expanded, [rows, frames, channels])
    }
}

impl<C: CheckpointStrategy> ExpandOps for Autodiff<Flex, C> {
    fn expand(tokens: FloatTensor<Self>, durations: Durations, frames: usize) -> FloatTensor<Self> {
        let (tokens, node) = tokens.into_parts();
        let [_, count, channels] = tokens.shape().dims();
        match Expand.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let expanded = Flex::expand(tokens, durations.clone(), frames);
                prep.finish((durations, count, channels), expanded)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::expand(tokens, durations, frames)),
        }
    }
}

#[derive(Debug)]
struct Expand;

impl Backward<Flex, 1> for Expand {
    /// Durations, tokens of a row, channels.
    type State = (Durations, usize, usize);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = contiguous(grads.consume::<Flex>(&ops.node));
        let [Some(parent)] = ops.parents else { return };
        let (durations, count, channels) = ops.state;
        let [rows, frames, _] = gradient.shape().dims();
        let from = numbers(&gradient);
        let mut tokens = vec![0.0; rows * count * channels];
        tokens
            .par_chunks_exact_mut(count * channels)
            .enumerate()
            .for_each(|(row, to)| {
                let from = &from[row * frames * channels..][..frames * channels];
                let frames = from.chunks_exact(channels);
                for (frame, token) in frames.zip(durations.tokens_of_frames(row)) {
                    add(&mut to[token * channels..][..channels], frame);
                }
            });
        grads.register::<Flex>(parent.id, tensor(tokens, [rows, count, channels]));
    }
}
