//! A block's forward and backward pass on plain slices.
//!
//! The frames of a batch are cut into segments of at most [`SEGMENT`] valid frames of one row.
//! Each segment is a task of its own; what must be summed over all frames is summed in each
//! segment and then in the order of the segments. So a result depends neither on the number of
//! threads nor on which one is faster.

use pulp::Arch;
use rayon::prelude::*;

use super::matrix::{Existing, Operand, Parallelism, product};
use super::rows::{add, add_scaled, dot, sum, sum_of_squared_distances};

/// Frames of a task. With 128 frames and 512 hidden channels a task's numbers fill about
/// 300 kB: they stay in a core's own cache from the convolution to the last product.
const SEGMENT: usize = 128;

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

/// Some valid frames of one row.
#[derive(Clone, Copy, Debug)]
struct Segment {
    row: usize,
    /// First frame within the row.
    begin: usize,
    frames: usize,
    /// Valid frames of the row.
    valid: usize,
}

fn segments(lengths: &[usize]) -> Vec<Segment> {
    let mut all = Vec::new();
    for (row, &valid) in lengths.iter().enumerate() {
        for begin in (0..valid).step_by(SEGMENT) {
            all.push(Segment {
                row,
                begin,
                frames: SEGMENT.min(valid - begin),
                valid,
            });
        }
    }
    all
}

/// Cuts a slice of all valid frames, `width` numbers each, into the segments' parts.
fn parts<'a>(mut all: &'a mut [f32], segments: &[Segment], width: usize) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(segments.len());
    for segment in segments {
        let (part, rest) = all.split_at_mut(segment.frames * width);
        parts.push(part);
        all = rest;
    }
    parts
}

/// Cuts a padded slice into the segments' valid frames; padding is left out.
fn padded_parts<'a>(
    mut all: &'a mut [f32],
    segments: &[Segment],
    time: usize,
    width: usize,
) -> Vec<&'a mut [f32]> {
    let mut parts = Vec::with_capacity(segments.len());
    let mut at = 0;
    for segment in segments {
        let begin = (segment.row * time + segment.begin) * width;
        let (_, rest) = all.split_at_mut(begin - at);
        let (part, rest) = rest.split_at_mut(segment.frames * width);
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
    let mut output = vec![0.0; input.len()];
    let segments = segments(lengths);
    let outputs = padded_parts(&mut output, &segments, sizes.time, sizes.channels);
    let outputs = outputs.into_iter().map(Some).collect();
    let inner = inner_and_output(sizes, &segments, input, film, weights, outputs);
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
    let segments = segments(lengths);
    let outputs = segments.iter().map(|_| None).collect();
    inner_and_output(sizes, &segments, input, film, weights, outputs)
}

/// `outputs`: of each segment, where it is wanted.
fn inner_and_output(
    sizes: Sizes,
    segments: &[Segment],
    input: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    outputs: Vec<Option<&mut [f32]>>,
) -> Inner {
    let frames: usize = segments.iter().map(|segment| segment.frames).sum();
    let mut inner = Inner {
        normed: vec![0.0; frames * sizes.channels],
        active: vec![0.0; frames * sizes.hidden],
    };
    let normed = parts(&mut inner.normed, segments, sizes.channels);
    let active = parts(&mut inner.active, segments, sizes.hidden);
    let arch = Arch::new();
    segments
        .par_iter()
        .zip(outputs)
        .zip(normed)
        .zip(active)
        .for_each(|(((segment, output), normed), active)| {
            let row = &input[segment.row * sizes.time * sizes.channels..];
            arch.dispatch(|| norm_and_film(sizes, segment, row, film, weights, normed));
            activate(sizes, segment.frames, normed, weights, active, arch);
            let Some(output) = output else { return };
            let frames = row[segment.begin * sizes.channels..].chunks_exact(sizes.channels);
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
                Parallelism::None,
                output,
                Existing::Add,
                (segment.frames, sizes.hidden, sizes.channels),
                Operand::new(active),
                Operand::new(weights.narrow),
            );
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
        Parallelism::None,
        active,
        Existing::Add,
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
    segment: &Segment,
    row: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    normed: &mut [f32],
) {
    let channels = sizes.channels;
    let scale = &film.scale[segment.row * channels..][..channels];
    let shift = &film.shift[segment.row * channels..][..channels];
    let (gain, bias) = (
        &weights.norm_gain[..channels],
        &weights.norm_bias[..channels],
    );
    for (place, normed) in normed.chunks_exact_mut(channels).enumerate() {
        let frame = segment.begin + place;
        let (mean, steepness) = convolve(
            sizes,
            row,
            frame,
            segment.valid,
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

/// Sums over the frames of one segment, or of all rows.
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
    /// `rows`: those that a style belongs to.
    fn new(sizes: Sizes, rows: usize) -> Self {
        let channels = || vec![0.0; sizes.channels];
        Self {
            convolution: vec![0.0; sizes.width * sizes.channels],
            norm_gain: channels(),
            norm_bias: channels(),
            scale: vec![0.0; rows * sizes.channels],
            shift: vec![0.0; rows * sizes.channels],
            widen_bias: vec![0.0; sizes.hidden],
            narrow_bias: channels(),
        }
    }
}

/// The gradients of all inputs, in the operation's order, from that of the output.
pub(super) fn backward(
    sizes: Sizes,
    lengths: &[usize],
    input: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    inner: Inner,
    output_gradient: &[f32],
) -> [Vec<f32>; 10] {
    let Sizes {
        time,
        channels,
        hidden,
        width,
    } = sizes;
    let segments = segments(lengths);
    let frames: usize = lengths.iter().sum();
    let Inner { normed, mut active } = inner;
    let arch = Arch::new();

    // Where each row's frames begin when padding is left out.
    let firsts: Vec<usize> = (lengths.iter())
        .scan(0, |end, valid| {
            *end += valid;
            Some(*end - valid)
        })
        .collect();

    // The output's gradient without its padding, as the products want it.
    let mut output_valid = Vec::with_capacity(frames * channels);
    for (row, &valid) in lengths.iter().enumerate() {
        output_valid
            .extend_from_slice(&output_gradient[row * time * channels..][..valid * channels]);
    }
    let mut narrow = vec![0.0; hidden * channels];
    product(
        Parallelism::Rayon(0),
        &mut narrow,
        Existing::Overwrite,
        (hidden, frames, channels),
        Operand::transposed(&active),
        Operand::new(&output_valid),
    );

    // From here on `active` holds its own gradient, and `convolved` that of the convolution's output.
    let mut convolved = vec![0.0; frames * channels];
    let actives = parts(&mut active, &segments, hidden);
    let convolveds = parts(&mut convolved, &segments, channels);
    let sums: Vec<Sums> = segments
        .par_iter()
        .zip(actives)
        .zip(convolveds)
        .map(|((segment, active), convolved)| {
            let begin = (firsts[segment.row] + segment.begin) * channels;
            let output = &output_valid[begin..][..segment.frames * channels];
            let mut sums = Sums::new(sizes, 1);
            through_activation(
                sizes, segment, weights, active, output, convolved, &mut sums, arch,
            );
            let row = &input[segment.row * time * channels..];
            arch.dispatch(|| {
                through_norm(sizes, segment, row, film, weights, convolved, &mut sums);
            });
            sums
        })
        .collect();

    let mut widen = vec![0.0; channels * hidden];
    product(
        Parallelism::Rayon(0),
        &mut widen,
        Existing::Overwrite,
        (channels, frames, hidden),
        Operand::transposed(&normed),
        Operand::new(&active),
    );

    // The convolution looks into the neighbours' frames, so it comes when all are done.
    let mut input_gradient = vec![0.0; input.len()];
    let inputs = padded_parts(&mut input_gradient, &segments, time, channels);
    segments
        .par_iter()
        .zip(inputs)
        .for_each(|(segment, input_gradient)| {
            let row = &convolved[firsts[segment.row] * channels..];
            let output = &output_gradient[segment.row * time * channels..];
            arch.dispatch(|| {
                for (place, gradient) in input_gradient.chunks_exact_mut(channels).enumerate() {
                    let frame = segment.begin + place;
                    gradient.copy_from_slice(&output[frame * channels..][..channels]);
                    for (tap, from) in seen(frame, segment.valid, width) {
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

    let mut all = Sums::new(sizes, lengths.len());
    for (segment, sums) in segments.iter().zip(&sums) {
        let of_row = segment.row * channels..(segment.row + 1) * channels;
        add(&mut all.convolution, &sums.convolution);
        add(&mut all.norm_gain, &sums.norm_gain);
        add(&mut all.norm_bias, &sums.norm_bias);
        add(&mut all.scale[of_row.clone()], &sums.scale);
        add(&mut all.shift[of_row], &sums.shift);
        add(&mut all.widen_bias, &sums.widen_bias);
        add(&mut all.narrow_bias, &sums.narrow_bias);
    }
    [
        input_gradient,
        all.convolution,
        all.norm_gain,
        all.norm_bias,
        all.scale,
        all.shift,
        widen,
        all.widen_bias,
        narrow,
        all.narrow_bias,
    ]
}

/// Back through the two products: `active` becomes its own gradient, `normed` the gradient of
/// what went into the first product.
#[expect(
    clippy::too_many_arguments,
    reason = "one step of the backward pass, cut out to be read"
)]
fn through_activation(
    sizes: Sizes,
    segment: &Segment,
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
        Parallelism::None,
        &mut gradient,
        Existing::Overwrite,
        (segment.frames, channels, hidden),
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
        Parallelism::None,
        normed,
        Existing::Overwrite,
        (segment.frames, hidden, channels),
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
    segment: &Segment,
    row: &[f32],
    film: Film<'_>,
    weights: Weights<'_>,
    gradient: &mut [f32],
    sums: &mut Sums,
) {
    let channels = sizes.channels;
    let scale = &film.scale[segment.row * channels..][..channels];
    let (gain, bias) = (
        &weights.norm_gain[..channels],
        &weights.norm_bias[..channels],
    );
    let mut unit = vec![0.0; channels];
    for (place, gradient) in gradient.chunks_exact_mut(channels).enumerate() {
        let frame = segment.begin + place;
        let (mean, steepness) = convolve(
            sizes,
            row,
            frame,
            segment.valid,
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
        for (tap, from) in seen(frame, segment.valid, sizes.width) {
            add_scaled(
                &mut sums.convolution[tap * channels..][..channels],
                &row[from * channels..][..channels],
                gradient,
            );
        }
    }
}
