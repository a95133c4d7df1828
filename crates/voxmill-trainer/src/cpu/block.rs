//! A block's forward and backward pass on plain slices.
//!
//! The frames of a batch are cut into stretches of at most [`STRETCH`] valid frames of one row.
//! Each stretch is a task of its own; what must be summed over all frames is summed in each
//! stretch and then in the order of the stretches. So a result depends neither on the number of
//! threads nor on which one is faster.

use pulp::Arch;
use rayon::prelude::*;

use super::matrix::{Onto, Operand, product, product_by_all};
use super::rows::{add, add_scaled, dot, sum, sum_of_squared_distances};

/// Frames of a task. With 128 frames and 512 hidden channels a task's numbers fill about
/// 300 kB: they stay in a core's own cache from the convolution to the last product.
const STRETCH: usize = 128;

/// Keeps the norm finite where a frame is constant.
pub(crate) const NORM_EPSILON: f32 = 1e-5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Frames (or tokens) of a row, padding included.
    pub(super) time: usize,
    pub(super) channels: usize,
    pub(super) hidden: usize,
    pub(super) width: usize,
}

/// A block's weights, each row after row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a> {
    /// width × channels
    pub(super) convolution: &'a [f32],
    pub(super) norm_gain: &'a [f32],
    pub(super) norm_bias: &'a [f32],
    /// channels × hidden
    pub(super) widen: &'a [f32],
    pub(super) widen_bias: &'a [f32],
    /// hidden × channels
    pub(super) narrow: &'a [f32],
    pub(super) narrow_bias: &'a [f32],
}

/// What the style asks of a block; each batch rows × channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Film<'a> {
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
}

/// What the forward pass made on the way, for valid frames only.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// frames × channels: what goes into the first product.
    pub(super) normed: Vec<f32>,
    /// frames × hidden: what goes into the second.
    pub(super) active: Vec<f32>,
}

/// Gradients, in the order of the operation's inputs.
#[derive(Debug)]
pub(super) struct Gradients {
    pub(super) input: Vec<f32>,
    pub(super) convolution: Vec<f32>,
    pub(super) norm_gain: Vec<f32>,
    pub(super) norm_bias: Vec<f32>,
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<f32>,
    pub(super) widen: Vec<f32>,
    pub(super) widen_bias: Vec<f32>,
    pub(super) narrow: Vec<f32>,
    pub(super) narrow_bias: Vec<f32>,
}

/// Some valid frames of one row.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    row: usize,
    /// First frame within the row.
    begin: usize,
    frames: usize,
    /// Valid frames of the row.
    valid: usize,
}

fn stretches(lengths: &[usize]) -> Vec<Stretch> {
    let mut all = Vec::new();
    for (row, &valid) in lengths.iter().enumerate() {
        for begin in (0..valid).step_by(STRETCH) {
            all.push(Stretch {
                row,
                begin,
                frames: STRETCH.min(valid - begin),
                valid,
            });
        }
    }
    all
}

/// Cuts a slice of all valid frames, `width` numbers each, into the stretches' parts.
fn parts<'a>(mut all: &'a mut [f32], stretches: &[Stretch], width: usize) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let (part, rest) = all.split_at_mut(stretch.frames * width);
        parts.push(part);
        all = rest;
    }
    parts
}

/// Cuts a padded slice into the stretches' valid frames; padding is left out.
fn padded_parts<'a>(
    mut all: &'a mut [f32],
    stretches: &[Stretch],
    time: usize,
    width: usize,
) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(stretches.len());
    let mut at = 0;
    for stretch in stretches {
        let begin = (stretch.row * time + stretch.begin) * width;
        let (_, rest) = all.split_at_mut(begin - at);
        let (part, rest) = rest.split_at_mut(stretch.frames * width);
        at = begin + part.len();
        parts.push(part);
        all = rest;
    }
    parts
}

/// The block's output, padded with zeros, and what was made on the way.
pub(super) fn forward(
    sizes: Sizes,
    lengths: &[usize],
    input: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
) -> (Vec<f32>, Inner) {
    let stretches = stretches(lengths);
    let frames: usize = lengths.iter().sum();
    let mut output = vec![0.0; input.len()];
    let mut inner = Inner {
        normed: vec![0.0; frames * sizes.channels],
        active: vec![0.0; frames * sizes.hidden],
    };
    let outputs = padded_parts(&mut output, &stretches, sizes.time, sizes.channels);
    let normed = parts(&mut inner.normed, &stretches, sizes.channels);
    let active = parts(&mut inner.active, &stretches, sizes.hidden);
    let arch = Arch::new();
    stretches
        .par_iter()
        .zip(outputs)
        .zip(normed)
        .zip(active)
        .for_each(|(((stretch, output), normed), active)| {
            let row = &input[stretch.row * sizes.time * sizes.channels..];
            arch.dispatch(|| norm_and_film(sizes, stretch, row, film, weights, normed));
            activate(sizes, stretch.frames, normed, weights, active, arch);
            let frames = row[stretch.begin * sizes.channels..].chunks_exact(sizes.channels);
            arch.dispatch(|| {
                for (output, input) in output.chunks_exact_mut(sizes.channels).zip(frames) {
                    for ((output, input), bias) in
                        output.iter_mut().zip(input).zip(weights.narrow_bias)
                    {
                        *output = input + bias;
                    }
                }
            });
            product(
                output,
                Onto::WhatIsThere,
                (stretch.frames, sizes.hidden, sizes.channels),
                Operand::new(active),
                Operand::new(weights.narrow),
            );
        });
    (output, inner)
}

/// What the forward pass made on the way, made again from the input.
pub(super) fn inner(
    sizes: Sizes,
    lengths: &[usize],
    input: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
) -> Inner {
    let stretches = stretches(lengths);
    let frames: usize = lengths.iter().sum();
    let mut inner = Inner {
        normed: vec![0.0; frames * sizes.channels],
        active: vec![0.0; frames * sizes.hidden],
    };
    let normed = parts(&mut inner.normed, &stretches, sizes.channels);
    let active = parts(&mut inner.active, &stretches, sizes.hidden);
    let arch = Arch::new();
    stretches
        .par_iter()
        .zip(normed)
        .zip(active)
        .for_each(|((stretch, normed), active)| {
            let row = &input[stretch.row * sizes.time * sizes.channels..];
            arch.dispatch(|| norm_and_film(sizes, stretch, row, film, weights, normed));
            activate(sizes, stretch.frames, normed, weights, active, arch);
        });
    inner
}

/// `active = max(0, normed · widen + bias)`
fn activate(
    sizes: Sizes,
    frames: usize,
    normed: &[f32],
    weights: Weights<'_>,
    active: &mut [f32],
    arch: Arch,
) {
    for frame in active.chunks_exact_mut(sizes.hidden) {
        frame.copy_from_slice(weights.widen_bias);
    }
    product(
        active,
        Onto::WhatIsThere,
        (frames, sizes.channels, sizes.hidden),
        Operand::new(normed),
        Operand::new(weights.widen),
    );
    arch.dispatch(|| {
        for x in active.iter_mut() {
            *x = x.max(0.0);
        }
    });
}

/// The frames around a frame that its convolution sees, each with its place in the kernel.
#[inline(always)]
fn seen(frame: usize, valid: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    let half = width / 2;
    let first_tap = half.saturating_sub(frame);
    let end_tap = width.min(valid + half - frame);
    (first_tap..end_tap).map(move |tap| (tap, frame + tap - half))
}

/// One frame's convolution, its mean and one over its deviation.
#[inline(always)]
fn convolve(
    sizes: Sizes,
    row: &[f32],
    frame: usize,
    valid: usize,
    convolution: &[f32],
    result: &mut [f32],
) -> (f32, f32) {
    let channels = sizes.channels;
    result.fill(0.0);
    for (tap, from) in seen(frame, valid, sizes.width) {
        add_scaled(
            result,
            &row[from * channels..][..channels],
            &convolution[tap * channels..][..channels],
        );
    }
    let mean = sum(result) / channels as f32;
    let variance = sum_of_squared_distances(result, mean) / channels as f32;
    (mean, 1.0 / (variance + NORM_EPSILON).sqrt())
}

/// Convolution, norm and what the style makes of it.
#[inline(always)]
fn norm_and_film(
    sizes: Sizes,
    stretch: &Stretch,
    row: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    normed: &mut [f32],
) {
    let channels = sizes.channels;
    let scale = &film.scale[stretch.row * channels..][..channels];
    let shift = &film.shift[stretch.row * channels..][..channels];
    let (gain, bias) = (
        &weights.norm_gain[..channels],
        &weights.norm_bias[..channels],
    );
    for (place, normed) in normed.chunks_exact_mut(channels).enumerate() {
        let frame = stretch.begin + place;
        let (mean, steepness) = convolve(
            sizes,
            row,
            frame,
            stretch.valid,
            weights.convolution,
            normed,
        );
        for channel in 0..channels {
            let unit = (normed[channel] - mean) * steepness;
            let norm = unit * gain[channel] + bias[channel];
            normed[channel] = norm * (1.0 + scale[channel]) + shift[channel];
        }
    }
}

/// What one stretch adds to the sums over all frames.
struct Sums {
    convolution: Vec<f32>,
    norm_gain: Vec<f32>,
    norm_bias: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    widen_bias: Vec<f32>,
    narrow_bias: Vec<f32>,
}

impl Sums {
    fn new(sizes: Sizes) -> Self {
        let channels = || vec![0.0; sizes.channels];
        Self {
            convolution: vec![0.0; sizes.width * sizes.channels],
            norm_gain: channels(),
            norm_bias: channels(),
            scale: channels(),
            shift: channels(),
            widen_bias: vec![0.0; sizes.hidden],
            narrow_bias: channels(),
        }
    }
}

/// The gradients of all inputs from that of the output.
pub(super) fn backward(
    sizes: Sizes,
    lengths: &[usize],
    input: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    inner: Inner,
    output_gradient: &[f32],
) -> Gradients {
    let Sizes {
        time,
        channels,
        hidden,
        width,
    } = sizes;
    let stretches = stretches(lengths);
    let frames: usize = lengths.iter().sum();
    let Inner { normed, mut active } = inner;
    let arch = Arch::new();

    // The output's gradient without its padding, as the products want it.
    let mut output_valid = Vec::with_capacity(frames * channels);
    for (row, &valid) in lengths.iter().enumerate() {
        output_valid
            .extend_from_slice(&output_gradient[row * time * channels..][..valid * channels]);
    }
    let mut narrow = vec![0.0; hidden * channels];
    product_by_all(
        &mut narrow,
        Onto::Nothing,
        (hidden, frames, channels),
        Operand::transposed(&active),
        Operand::new(&output_valid),
    );

    // From here on `active` holds its own gradient, and `convolved` that of the convolution's output.
    let mut convolved = vec![0.0; frames * channels];
    let actives = parts(&mut active, &stretches, hidden);
    let convolveds = parts(&mut convolved, &stretches, channels);
    let outputs = slices(&output_valid, &stretches, channels);
    let sums: Vec<Sums> = stretches
        .par_iter()
        .zip(actives)
        .zip(convolveds)
        .zip(outputs)
        .map(|(((stretch, active), convolved), output)| {
            let mut sums = Sums::new(sizes);
            through_activation(
                sizes, stretch, weights, active, output, convolved, &mut sums, arch,
            );
            let row = &input[stretch.row * time * channels..];
            arch.dispatch(|| {
                through_norm(sizes, stretch, row, film, weights, convolved, &mut sums);
            });
            sums
        })
        .collect();

    let mut widen = vec![0.0; channels * hidden];
    product_by_all(
        &mut widen,
        Onto::Nothing,
        (channels, frames, hidden),
        Operand::transposed(&normed),
        Operand::new(&active),
    );

    // The convolution looks into the neighbours' frames, so it comes when all are done.
    let mut input_gradient = vec![0.0; input.len()];
    let firsts = first_frames(lengths);
    let inputs = padded_parts(&mut input_gradient, &stretches, time, channels);
    stretches
        .par_iter()
        .zip(inputs)
        .for_each(|(stretch, input_gradient)| {
            let row = &convolved[firsts[stretch.row] * channels..];
            let output = &output_gradient[stretch.row * time * channels..];
            arch.dispatch(|| {
                for (place, gradient) in input_gradient.chunks_exact_mut(channels).enumerate() {
                    let frame = stretch.begin + place;
                    gradient.copy_from_slice(&output[frame * channels..][..channels]);
                    for (tap, from) in seen(frame, stretch.valid, width) {
                        // A frame is seen from the other side by the frames that see it.
                        let tap = width - 1 - tap;
                        add_scaled(
                            gradient,
                            &row[from * channels..][..channels],
                            &weights.convolution[tap * channels..][..channels],
                        );
                    }
                }
            });
        });

    let mut all = Gradients {
        input: input_gradient,
        convolution: vec![0.0; width * channels],
        norm_gain: vec![0.0; channels],
        norm_bias: vec![0.0; channels],
        scale: vec![0.0; lengths.len() * channels],
        shift: vec![0.0; lengths.len() * channels],
        widen,
        widen_bias: vec![0.0; hidden],
        narrow,
        narrow_bias: vec![0.0; channels],
    };
    for (stretch, sums) in stretches.iter().zip(&sums) {
        let of_row = stretch.row * channels..(stretch.row + 1) * channels;
        add(&mut all.convolution, &sums.convolution);
        add(&mut all.norm_gain, &sums.norm_gain);
        add(&mut all.norm_bias, &sums.norm_bias);
        add(&mut all.scale[of_row.clone()], &sums.scale);
        add(&mut all.shift[of_row], &sums.shift);
        add(&mut all.widen_bias, &sums.widen_bias);
        add(&mut all.narrow_bias, &sums.narrow_bias);
    }
    all
}

/// Where each row's frames begin when padding is left out.
fn first_frames(lengths: &[usize]) -> Vec<usize> {
    let mut at = 0;
    lengths
        .iter()
        .map(|valid| {
            let first = at;
            at += valid;
            first
        })
        .collect()
}

fn slices<'a>(mut all: &'a [f32], stretches: &[Stretch], width: usize) -> Vec<&'a [f32]> {
    let mut parts = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let (part, rest) = all.split_at(stretch.frames * width);
        parts.push(part);
        all = rest;
    }
    parts
}

/// Back through the two products: `active` becomes its own gradient, `normed` the gradient of
/// what went into the first product.
#[expect(
    clippy::too_many_arguments,
    reason = "one step of the backward pass, cut out to be read"
)]
fn through_activation(
    sizes: Sizes,
    stretch: &Stretch,
    weights: Weights<'_>,
    active: &mut [f32],
    output: &[f32],
    normed: &mut [f32],
    sums: &mut Sums,
    arch: Arch,
) {
    let Sizes {
        channels, hidden, ..
    } = sizes;
    let mut gradient = vec![0.0; active.len()];
    product(
        &mut gradient,
        Onto::Nothing,
        (stretch.frames, channels, hidden),
        Operand::new(output),
        Operand::transposed(weights.narrow),
    );
    arch.dispatch(|| {
        for (active, gradient) in active.iter_mut().zip(&gradient) {
            *active = if *active > 0.0 { *gradient } else { 0.0 };
        }
        for frame in active.chunks_exact(hidden) {
            add(&mut sums.widen_bias, frame);
        }
        for frame in output.chunks_exact(channels) {
            add(&mut sums.narrow_bias, frame);
        }
    });
    product(
        normed,
        Onto::Nothing,
        (stretch.frames, hidden, channels),
        Operand::new(active),
        Operand::transposed(weights.widen),
    );
}

/// Back through the style and the norm: `gradient` comes in as that of the first product's input
/// and goes out as that of the convolution's output. The convolution itself is done again: that
/// costs less than to keep its result.
#[inline(always)]
fn through_norm(
    sizes: Sizes,
    stretch: &Stretch,
    row: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    gradient: &mut [f32],
    sums: &mut Sums,
) {
    let channels = sizes.channels;
    let scale = &film.scale[stretch.row * channels..][..channels];
    let (gain, bias) = (
        &weights.norm_gain[..channels],
        &weights.norm_bias[..channels],
    );
    let mut unit = vec![0.0; channels];
    for (place, gradient) in gradient.chunks_exact_mut(channels).enumerate() {
        let frame = stretch.begin + place;
        let (mean, steepness) = convolve(
            sizes,
            row,
            frame,
            stretch.valid,
            weights.convolution,
            &mut unit,
        );
        let unit = &mut unit[..channels];
        for channel in 0..channels {
            unit[channel] = (unit[channel] - mean) * steepness;
            let of_film = gradient[channel];
            sums.shift[channel] += of_film;
            sums.scale[channel] += of_film * (unit[channel] * gain[channel] + bias[channel]);
            let of_norm = of_film * (1.0 + scale[channel]);
            sums.norm_bias[channel] += of_norm;
            sums.norm_gain[channel] += of_norm * unit[channel];
            gradient[channel] = of_norm * gain[channel];
        }
        let mean_gradient = sum(gradient) / channels as f32;
        let along = dot(gradient, unit) / channels as f32;
        for channel in 0..channels {
            gradient[channel] =
                steepness * (gradient[channel] - mean_gradient - unit[channel] * along);
        }
        for (tap, from) in seen(frame, stretch.valid, sizes.width) {
            add_scaled(
                &mut sums.convolution[tap * channels..][..channels],
                &row[from * channels..][..channels],
                gradient,
            );
        }
    }
}
