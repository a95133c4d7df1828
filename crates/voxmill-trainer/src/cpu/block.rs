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

/// A block's sizes and inputs, each row after row.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSlices<'a> {
    /// Frames (or tokens) of a row, padding included.
    pub(super) time: usize,
    pub(super) channels: usize,
    pub(super) hidden: usize,
    pub(super) width: usize,
    /// Valid frames of each row.
    pub(super) lengths: &'a [usize],
    /// rows × time × channels
    pub(super) input: &'a [f32],
    /// width × channels
    pub(super) convolution: &'a [f32],
    pub(super) norm_gain: &'a [f32],
    pub(super) norm_bias: &'a [f32],
    /// What the style asks for; each rows × channels.
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
    /// channels × hidden
    pub(super) widen: &'a [f32],
    pub(super) widen_bias: &'a [f32],
    /// hidden × channels
    pub(super) narrow: &'a [f32],
    pub(super) narrow_bias: &'a [f32],
    pub(super) arch: Arch,
}

/// What the forward pass made on the way, for valid frames only.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// frames × channels: what goes into the first product.
    normed: Vec<f32>,
    /// frames × hidden: what goes into the second.
    active: Vec<f32>,
}

/// Some valid frames of one row.
#[derive(Clone, Copy, Debug)]
struct Segment {
    row: usize,
    /// First frame within the row.
    begin: usize,
    /// The same where padding is left out between the rows.
    packed: usize,
    frames: usize,
    /// Valid frames of the row.
    valid: usize,
}

fn segments(lengths: &[usize]) -> Vec<Segment> {
    let mut all = Vec::new();
    let mut packed = 0;
    for (row, &valid) in lengths.iter().enumerate() {
        for begin in (0..valid).step_by(SEGMENT) {
            let frames = SEGMENT.min(valid - begin);
            all.push(Segment {
                row,
                begin,
                packed,
                frames,
                valid,
            });
            packed += frames;
        }
    }
    all
}

/// Cuts a slice of frames, `width` numbers each, into the segments' parts. `begin` gives the place of a
/// segment's first frame; what lies between segments is left out.
fn parts<'a>(
    mut all: &'a mut [f32],
    segments: &[Segment],
    width: usize,
    begin: impl Fn(&Segment) -> usize,
) -> Vec<&'a mut [f32]> {
    let mut at = 0;
    let part = |segment: &Segment| {
        let (_, rest) = std::mem::take(&mut all).split_at_mut((begin(segment) - at) * width);
        let (part, rest) = rest.split_at_mut(segment.frames * width);
        at = begin(segment) + segment.frames;
        all = rest;
        part
    };
    segments.iter().map(part).collect()
}

/// The frames around a frame that its convolution sees, each with its place in the kernel.
#[inline(always)]
fn seen(frame: usize, valid: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    let half = width / 2;
    let first_tap = half.saturating_sub(frame);
    let end_tap = width.min(valid + half - frame);
    (first_tap..end_tap).map(move |tap| (tap, frame + tap - half))
}

/// Sums over the frames of one segment, or of all rows.
struct GradientSums {
    convolution: Vec<f32>,
    norm_gain: Vec<f32>,
    norm_bias: Vec<f32>,
    scale: Vec<f32>,
    shift: Vec<f32>,
    widen_bias: Vec<f32>,
    narrow_bias: Vec<f32>,
}

impl GradientSums {
    /// `rows`: those that a style belongs to.
    fn new(block: &BlockSlices<'_>, rows: usize) -> Self {
        let channels = |times: usize| vec![0.0; times * block.channels];
        Self {
            convolution: channels(block.width),
            norm_gain: channels(1),
            norm_bias: channels(1),
            scale: channels(rows),
            shift: channels(rows),
            widen_bias: vec![0.0; block.hidden],
            narrow_bias: channels(1),
        }
    }
}

impl BlockSlices<'_> {
    /// The block's output, padded with zeros, and what was made on the way.
    pub(super) fn forward(&self) -> (Vec<f32>, Inner) {
        let mut output = vec![0.0; self.input.len()];
        let segments = segments(self.lengths);
        let outputs = self.padded_parts(&mut output, &segments);
        let inner = self.inner_and_output(&segments, outputs.into_iter().map(Some).collect());
        (output, inner)
    }

    /// What the forward pass made on the way, made again from the input.
    pub(super) fn inner(&self) -> Inner {
        let segments = segments(self.lengths);
        self.inner_and_output(&segments, segments.iter().map(|_| None).collect())
    }

    /// The segments' frames of a slice that has the input's layout.
    fn padded_parts<'a>(&self, all: &'a mut [f32], segments: &[Segment]) -> Vec<&'a mut [f32]> {
        let begin = |segment: &Segment| segment.row * self.time + segment.begin;
        parts(all, segments, self.channels, begin)
    }

    /// `outputs`: of each segment, where it is wanted.
    fn inner_and_output(&self, segments: &[Segment], outputs: Vec<Option<&mut [f32]>>) -> Inner {
        let frames: usize = self.lengths.iter().sum();
        let mut inner = Inner {
            normed: vec![0.0; frames * self.channels],
            active: vec![0.0; frames * self.hidden],
        };
        let normed = parts(&mut inner.normed, segments, self.channels, |s| s.packed);
        let active = parts(&mut inner.active, segments, self.hidden, |s| s.packed);
        segments
            .par_iter()
            .zip(outputs)
            .zip(normed)
            .zip(active)
            .for_each(|(((segment, output), normed), active)| {
                let row = &self.input[segment.row * self.time * self.channels..];
                self.arch
                    .dispatch(|| self.norm_and_film(segment, row, normed));
                self.activate(segment.frames, normed, active);
                let Some(output) = output else { return };
                let frames = row[segment.begin * self.channels..].chunks_exact(self.channels);
                self.arch.dispatch(|| {
                    for (output, input) in output.chunks_exact_mut(self.channels).zip(frames) {
                        for ((output, input), bias) in
                            output.iter_mut().zip(input).zip(self.narrow_bias)
                        {
                            *output = input + bias;
                        }
                    }
                });
                product(
                    Parallelism::None,
                    output,
                    Existing::Add,
                    (segment.frames, self.hidden, self.channels),
                    Operand::new(active),
                    Operand::new(self.narrow),
                );
            });
        inner
    }

    /// `active = max(0, normed · widen + bias)`
    fn activate(&self, frames: usize, normed: &[f32], active: &mut [f32]) {
        for frame in active.chunks_exact_mut(self.hidden) {
            frame.copy_from_slice(self.widen_bias);
        }
        product(
            Parallelism::None,
            active,
            Existing::Add,
            (frames, self.channels, self.hidden),
            Operand::new(normed),
            Operand::new(self.widen),
        );
        self.arch.dispatch(|| {
            for x in active.iter_mut() {
                *x = x.max(0.0);
            }
        });
    }

    /// One frame's convolution, its mean and one over its deviation.
    #[inline(always)]
    fn convolve(&self, row: &[f32], frame: usize, valid: usize, result: &mut [f32]) -> (f32, f32) {
        let channels = self.channels;
        result.fill(0.0);
        for (tap, from) in seen(frame, valid, self.width) {
            add_scaled(
                result,
                &row[from * channels..][..channels],
                &self.convolution[tap * channels..][..channels],
            );
        }
        let mean = sum(result) / channels as f32;
        let variance = sum_of_squared_distances(result, mean) / channels as f32;
        (mean, 1.0 / (variance + NORM_EPSILON).sqrt())
    }

    /// Convolution, norm and what the style makes of it.
    #[inline(always)]
    fn norm_and_film(&self, segment: &Segment, row: &[f32], normed: &mut [f32]) {
        let channels = self.channels;
        let scale = &self.scale[segment.row * channels..][..channels];
        let shift = &self.shift[segment.row * channels..][..channels];
        let (gain, bias) = (&self.norm_gain[..channels], &self.norm_bias[..channels]);
        for (place, normed) in normed.chunks_exact_mut(channels).enumerate() {
            let frame = segment.begin + place;
            let (mean, steepness) = self.convolve(row, frame, segment.valid, normed);
            for channel in 0..channels {
                let unit = (normed[channel] - mean) * steepness;
                let norm = unit * gain[channel] + bias[channel];
                normed[channel] = norm * (1.0 + scale[channel]) + shift[channel];
            }
        }
    }

    /// The gradients of all inputs, in the operation's order, from that of the output.
    pub(super) fn backward(&self, inner: Inner, output_gradient: &[f32]) -> [Vec<f32>; 10] {
        let BlockSlices {
            time,
            channels,
            hidden,
            width,
            lengths,
            ..
        } = *self;
        let segments = segments(lengths);
        let frames: usize = lengths.iter().sum();
        let Inner { normed, mut active } = inner;

        // The output's gradient without its padding, as the products want it.
        let mut output_valid = Vec::with_capacity(frames * channels);
        for (row, &valid) in lengths.iter().enumerate() {
            let row = &output_gradient[row * time * channels..];
            output_valid.extend_from_slice(&row[..valid * channels]);
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
        let actives = parts(&mut active, &segments, hidden, |s| s.packed);
        let convolveds = parts(&mut convolved, &segments, channels, |s| s.packed);
        let sums: Vec<GradientSums> = segments
            .par_iter()
            .zip(actives)
            .zip(convolveds)
            .map(|((segment, active), convolved)| {
                let mut sums = GradientSums::new(self, 1);
                let output = &output_valid[segment.packed * channels..];
                let output = &output[..segment.frames * channels];
                self.through_activation(segment.frames, active, output, convolved, &mut sums);
                let row = &self.input[segment.row * time * channels..];
                (self.arch).dispatch(|| self.through_norm(segment, row, convolved, &mut sums));
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

        // The convolution reads the neighbours' frames, so it comes when all are done.
        let mut input_gradient = vec![0.0; self.input.len()];
        let inputs = self.padded_parts(&mut input_gradient, &segments);
        segments
            .par_iter()
            .zip(inputs)
            .for_each(|(segment, input_gradient)| {
                let row = &convolved[(segment.packed - segment.begin) * channels..];
                let output = &output_gradient[segment.row * time * channels..];
                self.arch.dispatch(|| {
                    for (place, gradient) in input_gradient.chunks_exact_mut(channels).enumerate() {
                        let frame = segment.begin + place;
                        gradient.copy_from_slice(&output[frame * channels..][..channels]);
                        for (tap, from) in seen(frame, segment.valid, width) {
                            // A frame is seen from the other side by the frames that see it.
                            let tap = width - 1 - tap;
                            add_scaled(
                                gradient,
                                &row[from * channels..][..channels],
                                &self.convolution[tap * channels..][..channels],
                            );
                        }
                    }
                });
            });

        let mut all = GradientSums::new(self, lengths.len());
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
    fn through_activation(
        &self,
        frames: usize,
        active: &mut [f32],
        output: &[f32],
        normed: &mut [f32],
        sums: &mut GradientSums,
    ) {
        let (channels, hidden) = (self.channels, self.hidden);
        let mut gradient = vec![0.0; active.len()];
        product(
            Parallelism::None,
            &mut gradient,
            Existing::Overwrite,
            (frames, channels, hidden),
            Operand::new(output),
            Operand::transposed(self.narrow),
        );
        self.arch.dispatch(|| {
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
            (frames, hidden, channels),
            Operand::new(active),
            Operand::transposed(self.widen),
        );
    }

    /// Back through the style and the norm: `gradient` comes in as that of the first product's input
    /// and goes out as that of the convolution's output. The convolution itself is done again: that
    /// costs less than to keep its result.
    #[inline(always)]
    fn through_norm(
        &self,
        segment: &Segment,
        row: &[f32],
        gradient: &mut [f32],
        sums: &mut GradientSums,
    ) {
        let channels = self.channels;
        let scale = &self.scale[segment.row * channels..][..channels];
        let (gain, bias) = (&self.norm_gain[..channels], &self.norm_bias[..channels]);
        let mut unit = vec![0.0; channels];
        for (place, gradient) in gradient.chunks_exact_mut(channels).enumerate() {
            let frame = segment.begin + place;
            let (mean, steepness) = self.convolve(row, frame, segment.valid, &mut unit);
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
            for (tap, from) in seen(frame, segment.valid, self.width) {
                add_scaled(
                    &mut sums.convolution[tap * channels..][..channels],
                    &row[from * channels..][..channels],
                    gradient,
                );
            }
        }
    }
}
