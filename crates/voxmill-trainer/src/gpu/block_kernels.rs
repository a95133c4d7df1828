//! The kernels of a block: everything in it but its matrix products.
//!
//! `F` is what activations are made of. Sums, norms and the gradients of weights are 32 bits wide inside.
//!
//! Frames are rows × time × channels. Sums over time are made in two stages, first over [`SEGMENT`] frames each and then
//! over the segments, always in the same order: results do not depend on which unit is faster.

use burn_cubecl::cubecl;
use burn_cubecl::cubecl::prelude::*;

/// Frames whose gradients one unit sums.
pub(super) const SEGMENT: usize = 32;
/// Sums over time that are no taps: of shift, scale, the norm's bias and its gain.
pub(super) const SUMS: usize = 4;

/// What the convolution makes of one channel at one time; frames beyond a row's end count as zeros.
#[cube]
fn convolved<F: Float>(
    input: &Tensor<F>,
    mask: &Tensor<f32>,
    taps: &Tensor<f32>,
    first: usize,
    at: usize,
    time: usize,
    channel: usize,
    #[comptime] channels: usize,
    #[comptime] width: usize,
) -> f32 {
    let mut sum = f32::new(0.0);
    #[unroll]
    for tap in 0..width {
        // One half of the taps to the left.
        let seen = at + tap;
        if seen >= width / 2 && seen < time + width / 2 {
            let frame = first + seen - width / 2;
            let value = f32::cast_from(input[frame * channels + channel]) * mask[frame];
            sum += value * taps[tap * channels + channel];
        }
    }
    sum
}

/// The sum of one number of each unit of the cube.
#[cube]
fn sum_of_units(shared: &mut Shared<[f32]>, own: f32) -> f32 {
    let unit = UNIT_POS_X as usize;
    // The last sum may still be being read.
    sync_cube();
    shared[unit] = own;
    sync_cube();
    let mut half = CUBE_DIM_X as usize / 2;
    while half > 0 {
        if unit < half {
            let other = shared[unit + half];
            shared[unit] += other;
        }
        sync_cube();
        half /= 2;
    }
    shared[0]
}

/// What the convolution makes of one frame, by one cube: each unit's channels go into `values`, less the mean of all, and
/// the deviation of all is returned.
#[cube]
fn centred<F: Float>(
    input: &Tensor<F>,
    mask: &Tensor<f32>,
    taps: &Tensor<f32>,
    shared: &mut Shared<[f32]>,
    values: &mut Array<f32>,
    epsilon: f32,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[comptime] units: usize,
) -> f32 {
    let unit = UNIT_POS_X as usize;
    let (at, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let time = input.shape(1);
    let first = row * time;
    let each = comptime!(channels.div_ceil(units));
    let count = f32::cast_from(channels as u32);
    let mut sum = f32::new(0.0);
    #[unroll]
    for n in 0..each {
        let channel = n * units + unit;
        if channel < channels {
            let value =
                convolved::<F>(input, mask, taps, first, at, time, channel, channels, width);
            values[n] = value;
            sum += value;
        }
    }
    let mean = sum_of_units(shared, sum) / count;
    let mut squares = f32::new(0.0);
    #[unroll]
    for n in 0..each {
        let channel = n * units + unit;
        if channel < channels {
            let off = values[n] - mean;
            values[n] = off;
            squares += off * off;
        }
    }
    let variance = sum_of_units(shared, squares) / count;
    (variance + epsilon).sqrt()
}

/// Convolution, norm and style of one frame, by one cube: its place is (time, row).
#[cube(launch)]
pub(super) fn mix_kernel<F: Float>(
    input: &Tensor<F>,
    mask: &Tensor<f32>,
    taps: &Tensor<f32>,
    gain: &Tensor<f32>,
    bias: &Tensor<f32>,
    film: &Tensor<F>,
    bent: &mut Tensor<F>,
    epsilon: f32,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_style: bool,
    #[define(F)] _element: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let (at, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let time = input.shape(1);
    let first = row * time;
    let each = comptime!(channels.div_ceil(units));
    let mut shared = Shared::<[f32]>::new_slice(units);
    let mut values = Array::<f32>::new(each);
    let deviation = centred::<F>(
        input,
        mask,
        taps,
        &mut shared,
        &mut values,
        epsilon,
        channels,
        width,
        units,
    );
    #[unroll]
    for n in 0..each {
        let channel = n * units + unit;
        if channel < channels {
            let mut value = values[n] / deviation * gain[channel] + bias[channel];
            if comptime!(has_style) {
                let scale = f32::cast_from(film[row * 2 * channels + channel]);
                let shift = f32::cast_from(film[row * 2 * channels + channels + channel]);
                value = value + value * scale + shift;
            }
            bent[(first + at) * channels + channel] = F::cast_from(value);
        }
    }
}

/// What the first product made, with its bias, where it is above zero.
#[cube(launch)]
pub(super) fn activate_kernel<F: Float>(
    made: &Tensor<F>,
    bias: &Tensor<F>,
    active: &mut Tensor<F>,
    numbers: usize,
    #[comptime] hidden: usize,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let value = f32::cast_from(made[at]) + f32::cast_from(bias[at % hidden]);
        active[at] = F::cast_from(max(value, f32::new(0.0)));
    }
}

/// What the second product made, with its bias, added to the input; zeros beyond a row's end.
#[cube(launch)]
pub(super) fn close_kernel<F: Float>(
    input: &Tensor<F>,
    made: &Tensor<F>,
    bias: &Tensor<F>,
    mask: &Tensor<f32>,
    output: &mut Tensor<F>,
    numbers: usize,
    #[comptime] channels: usize,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let valid = mask[at / channels];
        let mixed = f32::cast_from(made[at]) + f32::cast_from(bias[at % channels]);
        let sum = f32::cast_from(input[at]) * valid + mixed;
        output[at] = F::cast_from(sum * valid);
    }
}

/// The output's gradient, without what lies beyond a row's end.
#[cube(launch)]
pub(super) fn masked_kernel<F: Float>(
    gradient: &Tensor<F>,
    mask: &Tensor<f32>,
    masked: &mut Tensor<F>,
    numbers: usize,
    #[comptime] channels: usize,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        masked[at] = F::cast_from(f32::cast_from(gradient[at]) * mask[at / channels]);
    }
}

/// Back through the activation.
#[cube(launch)]
pub(super) fn deactivate_kernel<F: Float>(
    active: &Tensor<F>,
    gradient: &Tensor<F>,
    passed: &mut Tensor<F>,
    numbers: usize,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < numbers {
        let mut value = F::new(0.0);
        if active[at] > F::new(0.0) {
            value = gradient[at];
        }
        passed[at] = value;
    }
}

/// Back through style and norm of one frame: `gradient` is that of what went into the first product, `of_convolved`
/// becomes that of what came out of the convolution, which is done again; `normed` is that, normed without gain and bias.
#[cube(launch)]
pub(super) fn norm_back_kernel<F: Float>(
    input: &Tensor<F>,
    mask: &Tensor<f32>,
    taps: &Tensor<f32>,
    gain: &Tensor<f32>,
    film: &Tensor<F>,
    gradient: &Tensor<F>,
    of_convolved: &mut Tensor<f32>,
    normed: &mut Tensor<f32>,
    epsilon: f32,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_style: bool,
    #[define(F)] _element: ElemType,
) {
    let unit = UNIT_POS_X as usize;
    let (at, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let time = input.shape(1);
    let first = row * time;
    let each = comptime!(channels.div_ceil(units));
    let mut shared = Shared::<[f32]>::new_slice(units);
    let mut values = Array::<f32>::new(each);
    let mut gradients = Array::<f32>::new(each);
    let count = f32::cast_from(channels as u32);

    let deviation = centred::<F>(
        input,
        mask,
        taps,
        &mut shared,
        &mut values,
        epsilon,
        channels,
        width,
        units,
    );

    let mut sum = f32::new(0.0);
    let mut along = f32::new(0.0);
    #[unroll]
    for n in 0..each {
        let channel = n * units + unit;
        if channel < channels {
            let value = values[n] / deviation;
            let mut own = f32::cast_from(gradient[(first + at) * channels + channel]);
            if comptime!(has_style) {
                own += own * f32::cast_from(film[row * 2 * channels + channel]);
            }
            own *= gain[channel];
            values[n] = value;
            gradients[n] = own;
            sum += own;
            along += own * value;
        }
    }
    let mean_gradient = sum_of_units(&mut shared, sum) / count;
    let mean_along = sum_of_units(&mut shared, along) / count;
    #[unroll]
    for n in 0..each {
        let channel = n * units + unit;
        if channel < channels {
            let place = (first + at) * channels + channel;
            let own = gradients[n] - mean_gradient - values[n] * mean_along;
            of_convolved[place] = own / deviation;
            normed[place] = values[n];
        }
    }
}

/// Sums over one segment of a row, for one channel a unit: those of [`SUMS`], then one for each tap. A cube's place is
/// (segment, row, part of the channels).
#[cube(launch)]
pub(super) fn segment_sums_kernel<F: Float>(
    input: &Tensor<F>,
    mask: &Tensor<f32>,
    gain: &Tensor<f32>,
    bias: &Tensor<f32>,
    film: &Tensor<F>,
    gradient: &Tensor<F>,
    of_convolved: &Tensor<f32>,
    normed: &Tensor<f32>,
    sums: &mut Tensor<f32>,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[comptime] units: usize,
    #[comptime] has_style: bool,
    #[define(F)] _element: ElemType,
) {
    let channel = CUBE_POS_Z as usize * units + UNIT_POS_X as usize;
    let (segment, row) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let time = input.shape(1);
    let first = row * time;
    if channel < channels {
        let mut scale = f32::new(1.0);
        if comptime!(has_style) {
            scale += f32::cast_from(film[row * 2 * channels + channel]);
        }
        let (own_gain, own_bias) = (gain[channel], bias[channel]);
        let mut of_shift = f32::new(0.0);
        let mut of_scale = f32::new(0.0);
        let mut of_bias = f32::new(0.0);
        let mut of_gain = f32::new(0.0);
        let mut of_taps = Array::<f32>::new(width);
        #[unroll]
        for tap in 0..width {
            of_taps[tap] = f32::new(0.0);
        }
        let begin = segment * comptime!(SEGMENT);
        let end = min(begin + comptime!(SEGMENT), time);
        for at in begin..end {
            let place = (first + at) * channels + channel;
            let (own, value) = (f32::cast_from(gradient[place]), normed[place]);
            of_shift += own;
            of_scale += own * (value * own_gain + own_bias);
            of_bias += own * scale;
            of_gain += own * scale * value;
            let through = of_convolved[place];
            #[unroll]
            for tap in 0..width {
                let seen = at + tap;
                if seen >= width / 2 && seen < time + width / 2 {
                    let frame = first + seen - width / 2;
                    let value = f32::cast_from(input[frame * channels + channel]) * mask[frame];
                    of_taps[tap] += through * value;
                }
            }
        }
        let segments = CUBE_COUNT_X as usize;
        let kinds = comptime!(SUMS + width);
        let to = (row * segments + segment) * kinds * channels + channel;
        sums[to] = of_shift;
        sums[to + channels] = of_scale;
        sums[to + 2 * channels] = of_bias;
        sums[to + 3 * channels] = of_gain;
        #[unroll]
        for tap in 0..width {
            sums[to + (SUMS + tap) * channels] = of_taps[tap];
        }
    }
}

/// The segments' sums together: by row for the style, over all rows for norm and taps. One unit for each number of
/// `of_film`, `of_bias`, `of_gain` and `of_taps`, in this order.
#[cube(launch)]
pub(super) fn whole_sums_kernel<F: Float>(
    sums: &Tensor<f32>,
    of_film: &mut Tensor<F>,
    of_bias: &mut Tensor<f32>,
    of_gain: &mut Tensor<f32>,
    of_taps: &mut Tensor<f32>,
    rows: usize,
    segments: usize,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[comptime] has_style: bool,
    #[define(F)] _element: ElemType,
) {
    let at = ABSOLUTE_POS;
    let kinds = comptime!(SUMS + width);
    let styles = rows * 2 * channels;
    if at < styles {
        if comptime!(has_style) {
            let row = at / (2 * channels);
            let column = at % (2 * channels);
            // Scales come first in a style, shifts in the sums.
            let kind = 1 - column / channels;
            let mut sum = f32::new(0.0);
            for segment in 0..segments {
                let of_segment = (row * segments + segment) * kinds + kind;
                sum += sums[of_segment * channels + column % channels];
            }
            of_film[at] = F::cast_from(sum);
        }
    } else if at < styles + (2 + width) * channels {
        let column = at - styles;
        let (kind, channel) = (2 + column / channels, column % channels);
        let mut sum = f32::new(0.0);
        for segment in 0..rows * segments {
            sum += sums[(segment * kinds + kind) * channels + channel];
        }
        if kind == 2 {
            of_bias[channel] = sum;
        } else if kind == 3 {
            of_gain[channel] = sum;
        } else {
            of_taps[(kind - SUMS) * channels + channel] = sum;
        }
    }
}

/// The input's gradient: past the block, and back through the convolution. A frame is seen from the other side by the
/// frames that see it.
#[cube(launch)]
pub(super) fn input_back_kernel<F: Float>(
    gradient: &Tensor<F>,
    mask: &Tensor<f32>,
    taps: &Tensor<f32>,
    of_convolved: &Tensor<f32>,
    of_input: &mut Tensor<F>,
    numbers: usize,
    time: usize,
    #[comptime] channels: usize,
    #[comptime] width: usize,
    #[define(F)] _element: ElemType,
) {
    let place = ABSOLUTE_POS;
    if place < numbers {
        let (frame, channel) = (place / channels, place % channels);
        let at = frame % time;
        let first = frame - at;
        let mut sum = f32::cast_from(gradient[place]);
        #[unroll]
        for tap in 0..width {
            let seen = at + tap;
            if seen >= width / 2 && seen < time + width / 2 {
                let from = first + seen - width / 2;
                let tap = width - 1 - tap;
                sum += of_convolved[from * channels + channel] * taps[tap * channels + channel];
            }
        }
        of_input[place] = F::cast_from(sum * mask[frame]);
    }
}
