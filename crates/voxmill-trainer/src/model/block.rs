//! The block that the model is made of: a depthwise convolution mixes over time, two products mix
//! over channels, the style bends what is between.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, activation::relu};

use super::dense::{Dense, Norm};
use super::init::Init;
use super::spans::{Spans, by_hand};
use crate::cpu::{self, BlockInputs};
use crate::device::widened;
#[cfg(feature = "gpu")]
use crate::{device::is_cpu, gpu};

#[derive(Module, Debug)]
pub(super) struct Block {
    /// width × channels
    convolution: Param<Tensor<2>>,
    norm: Norm,
    /// style → a scale and a shift for each channel.
    film: Option<Dense>,
    widen: Dense,
    narrow: Dense,
    /// Whether the backward pass makes again what the forward pass made on the way.
    #[module(skip)]
    pub(super) recompute: bool,
}

impl Block {
    pub(super) fn new(
        init: &Init<'_>,
        channels: usize,
        width: usize,
        hidden: usize,
        style: Option<usize>,
    ) -> Self {
        let deviation = 1.0 / (width as f32).sqrt();
        Self {
            convolution: init.normal("convolution", [width, channels], deviation),
            norm: Norm::new(init, channels),
            film: style.map(|style| Dense::new(&init.part("film"), style, 2 * channels, 0.1)),
            widen: Dense::new(&init.part("widen"), channels, hidden, 1.0),
            narrow: Dense::new(&init.part("narrow"), hidden, channels, 0.5),
            recompute: false,
        }
    }

    #[cfg(feature = "gpu")]
    pub(super) fn products_mut(&mut self) -> impl Iterator<Item = &mut Dense> {
        (self.film.iter_mut()).chain([&mut self.widen, &mut self.narrow])
    }

    /// rows × time × channels in and out; zeros beyond a row's end come out.
    pub(super) fn forward(
        &self,
        input: Tensor<3>,
        spans: &Spans,
        style: Option<&Tensor<2>>,
    ) -> Tensor<3> {
        #[cfg(feature = "gpu")]
        if !is_cpu(&input.device()) {
            return self.forward_on_gpu(input, spans, style);
        }
        let [scale, shift] = self.scale_and_shift(&input, style);
        if !by_hand(&input) {
            return self.forward_by_operations(input, spans, scale, shift);
        }
        cpu::block(BlockInputs {
            input: input.into_dispatch(),
            convolution: self.convolution.val().into_dispatch(),
            norm_gain: self.norm.gain.val().into_dispatch(),
            norm_bias: self.norm.bias.val().into_dispatch(),
            scale: scale.into_dispatch(),
            shift: shift.into_dispatch(),
            widen: self.widen.weight.val().into_dispatch(),
            widen_bias: self.widen.bias.val().into_dispatch(),
            narrow: self.narrow.weight.val().into_dispatch(),
            narrow_bias: self.narrow.bias.val().into_dispatch(),
            lengths: spans.lengths().clone(),
            recompute: self.recompute,
        })
    }

    #[cfg(feature = "gpu")]
    fn forward_on_gpu(
        &self,
        input: Tensor<3>,
        spans: &Spans,
        style: Option<&Tensor<2>>,
    ) -> Tensor<3> {
        let dtype = input.dtype();
        let film =
            (self.film.as_ref().zip(style)).map(|(film, style)| film.forward_rows(style.clone()));
        let has_style = film.is_some();
        let film = film.unwrap_or_else(|| Tensor::zeros([1, 1], (&input.device().inner(), dtype)));
        let (widen, widen_bias) = self.widen.weights_in(dtype);
        let (narrow, narrow_bias) = self.narrow.weights_in(dtype);
        gpu::block(gpu::BlockInputs {
            input: input.into_dispatch(),
            mask: spans.mask().into_dispatch(),
            taps: self.convolution.val().into_dispatch(),
            norm_gain: self.norm.gain.val().into_dispatch(),
            norm_bias: self.norm.bias.val().into_dispatch(),
            film: film.into_dispatch(),
            widen: widen.into_dispatch(),
            widen_bias: widen_bias.into_dispatch(),
            narrow: narrow.into_dispatch(),
            narrow_bias: narrow_bias.into_dispatch(),
            has_style,
            recompute: self.recompute,
        })
    }

    /// What a style asks for, each rows × channels; zeros in a block without one.
    pub(super) fn scale_and_shift(
        &self,
        input: &Tensor<3>,
        style: Option<&Tensor<2>>,
    ) -> [Tensor<2>; 2] {
        let [rows, _, channels] = input.dims();
        let (Some(film), Some(style)) = (&self.film, style) else {
            let none = Tensor::zeros([rows, channels], (&input.device(), input.dtype()));
            return [none.clone(), none];
        };
        let both = film.forward_rows(style.clone());
        [0, channels].map(|from| both.clone().narrow(1, from, channels))
    }

    /// The same with the library's operations, for every device and precision.
    pub(super) fn forward_by_operations(
        &self,
        input: Tensor<3>,
        spans: &Spans,
        scale: Tensor<2>,
        shift: Tensor<2>,
    ) -> Tensor<3> {
        let [rows, time, channels] = input.dims();
        let [width, _] = self.convolution.val().dims();
        let dtype = input.dtype();
        let mask = spans.mask().cast(dtype);
        let input = input * mask.clone();
        let edge = Tensor::zeros([rows, width / 2, channels], (&input.device(), dtype));
        let padded = Tensor::cat(vec![edge.clone(), input.clone(), edge], 1);
        // The norm wants the sum of the taps in 32 bits. Those that are kept for the backward pass are kept
        // in 16 and only their sum is wide; those that are made again are made wide at once, because
        // the library keeps what casts give.
        let padded = match self.recompute {
            true => widened(padded),
            false => padded,
        };
        let convolution = self.convolution.val().cast(padded.dtype());
        let tap = |at: usize| {
            let seen = padded.clone().slice([0..rows, at..at + time, 0..channels]);
            widened(seen * convolution.clone().narrow(0, at, 1).unsqueeze())
        };
        let convolved = (1..width).fold(tap(0), |sum, at| sum + tap(at));
        let normed = self.norm.forward(convolved).cast(dtype);
        // Not times (scale + 1): in 16 bits that sum would round a small scale away.
        let bent = normed.clone() + normed * scale.unsqueeze_dim::<3>(1) + shift.unsqueeze_dim(1);
        let mixed = self.narrow.forward(relu(self.widen.forward(bent)));
        (input + mixed) * mask
    }
}
