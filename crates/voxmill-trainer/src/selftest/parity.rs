//! What a device computes, compared with the CPU: products, each part of the model, gradients, steps, frames.

use burn::tensor::{Tensor, TensorData};
use voxmill_audio::{AudioSettings, LogMel};
use voxmill_data::batch::Batch;
use voxmill_data::draw::{draw, unit};

use super::{CheckOutcome, FRAMES, MeasuredUnit, PRODUCT_BITS, SAME_FRAMES, SelftestCheck};
use crate::device::{Device, cpu, read};
use crate::loss::pass;
use crate::model::{Voice, expand};
use crate::optimizer::{AdamW, FlatGradients, OptimizerState};
use crate::prepare::{Counts, FramesOnDevice, Prepared};
use crate::test_data::{TestClip, batch_of, preparation, small_voice, speech_like};

/// Sums of a few thousand 32-bit products in another order differ by less; one that misses a term differs by more. Whether
/// a product rounds its operands, as in TF32, it may not show: [`product_bits`] does.
const SAME_SUMS: f64 = 1e-3;
/// Gradients pass through more of them.
const SAME_GRADIENTS: f64 = 5e-3;
/// AdamW divides gradients by their own size, so where one is nearly zero its sign decides. A step that is missing is off
/// by 1, one in the wrong direction by 2.
const SAME_STEP: f64 = 0.1;
/// After some steps of that.
const SAME_LOSSES: f64 = 1e-2;

const STEPS: usize = 5;

/// The largest difference, as a share of the largest value.
pub(crate) fn apart(a: &[f32], b: &[f32]) -> f32 {
    let largest = a.iter().fold(1e-6f32, |most, value| most.max(value.abs()));
    worst(a, b) / largest
}

/// The largest difference; not a number if any is not.
fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "values");
    furthest(a.iter().zip(b).map(|(a, b)| (a - b).abs()))
}

fn furthest(off: impl Iterator<Item = f32>) -> f32 {
    off.fold(0.0, |worst, off| {
        if off > worst || off.is_nan() {
            off
        } else {
            worst
        }
    })
}

/// Two clips and a masked row.
pub(crate) fn batch() -> Batch {
    let (a, b) = (TestClip::new("a", 9, 40), TestClip::new("b", 5, 17));
    batch_of(&[Some(&a), None, Some(&b)], 10, 48, 32)
}

pub(crate) const COUNTS: Counts = Counts {
    frames: 57,
    tokens: 14,
};

pub(crate) fn voice_on(device: &Device) -> Voice {
    let (facts, device) = (small_voice(), device.clone().autodiff());
    Voice::new(&facts.shape, facts.vocabulary, 3, &device)
}

pub(crate) fn prepared(device: &Device, batch: Batch) -> Prepared {
    let ready = preparation(device, device).preparer().prepare(batch);
    ready.prepared
}

/// Rows, inner size and columns of the products that are compared. Kernels are chosen by shape, and those for very few
/// rows are others: a product over three rows was wrong on a driver where all larger ones were right.
const PRODUCTS: [[usize; 3]; 10] = [
    [1, 64, 64],
    [64, 1, 64],
    [64, 64, 1],
    [3, 64, 64],
    [64, 3, 64],
    [64, 64, 3],
    [8, 3, 16],
    [3, 8, 16],
    [17, 130, 17],
    [130, 64, 130],
];

/// In every layout that a backward pass asks for.
pub(super) fn products(device: &Device) -> Vec<SelftestCheck> {
    let name = "matrix products";
    let mut furthest = 0.0;
    for [rows, inner, columns] in PRODUCTS {
        let [here, there] = [&cpu(), device].map(|on| product(on, rows, inner, columns));
        let off = apart(&here, &there);
        let check = SelftestCheck::compared(name, off, SAME_SUMS);
        if check.outcome.is_failure() {
            let shapes = format!("{rows} × {inner} times {inner} × {columns}");
            let why = format!("{shapes} is off by {off:.2} of its largest value");
            return vec![SelftestCheck::failed(name, why)];
        }
        furthest = off.max(furthest);
    }
    vec![SelftestCheck::compared(name, furthest, SAME_SUMS)]
}

fn product(device: &Device, rows: usize, inner: usize, columns: usize) -> Vec<f32> {
    let matrix = |rows: usize, columns: usize, name: &str| {
        let value = |at| unit(draw(0, at as u64, name, "product")) as f32 - 0.5;
        let values: Vec<f32> = (0..rows * columns).map(value).collect();
        Tensor::<2>::from_data(TensorData::new(values, [rows, columns]), device)
    };
    let (a, b) = (matrix(rows, inner, "a"), matrix(inner, columns, "b"));
    let a_turned = matrix(inner, rows, "c").transpose();
    let b_turned = matrix(columns, inner, "d").transpose();
    let products = [
        a.clone().matmul(b.clone()),
        a_turned.clone().matmul(b),
        a.matmul(b_turned.clone()),
        a_turned.matmul(b_turned),
    ];
    products.into_iter().flat_map(read).collect()
}

/// Of how many bits after the leading one a factor may have without being rounded: 23 in 32 bits, 10 in TF32, which a
/// library may choose for tensors of 32 bits.
pub(super) fn product_bits(device: &Device) -> Vec<SelftestCheck> {
    const BITS: usize = 23;
    // As large as the model's own products: those have kernels of their own.
    const ROWS: usize = 2_048;
    const INNER: usize = 128;
    const COLUMNS: usize = 128;
    let bits = |row: usize| 1 + row % BITS;
    // One number in each row, so that no sum rounds what the product kept.
    let last = |row: usize| 0.5f32.powi(bits(row) as i32);
    let mut values = vec![0.0; ROWS * INNER];
    for (row, values) in values.chunks_exact_mut(INNER).enumerate() {
        values[row % INNER] = 1.0 + last(row);
    }
    let factor = Tensor::<2>::from_data(TensorData::new(values, [ROWS, INNER]), device);
    let sums = factor.matmul(Tensor::ones([INNER, COLUMNS], device));
    let sums = read(sums.narrow(1, 0, 1));
    let kept = |row: usize| sums[row] == 1.0 + last(row);
    let lost = (0..BITS).find(|&row| !kept(row));
    let outcome = CheckOutcome::Measured {
        value: lost.unwrap_or(BITS) as f64,
        unit: MeasuredUnit::Bits,
    };
    vec![SelftestCheck {
        name: PRODUCT_BITS,
        outcome,
    }]
}

pub(super) fn parts(device: &Device) -> Vec<SelftestCheck> {
    let compute = |device: &Device| -> Vec<(&'static str, Vec<f32>)> {
        let model = voice_on(device);
        let batch = prepared(device, batch());
        let style = model.style(batch.reference.clone(), &batch.reference_spans);
        let (ids, languages) = (batch.tokens.clone(), batch.languages.clone());
        let encoded = model.encode(ids, languages, &batch.token_spans, &style);
        let made = pass(&model, &batch, 1.0, COUNTS);
        let durations: Vec<f32> = made.durations.all().iter().map(|&n| n as f32).collect();
        let expanded = expand(encoded.states.clone(), &made.durations, 48);
        let (states, spans) = (encoded.states.clone(), &batch.frame_spans);
        let decoded = model.decode(states, &made.durations, spans, &style);
        vec![
            ("style", read(style)),
            ("encoder states", read(encoded.states)),
            ("predicted means", read(encoded.means)),
            ("log durations", read(encoded.log_durations)),
            ("alignment", durations),
            ("expanded states", read(expanded)),
            ("decoder output", read(decoded)),
            ("mel loss", read(made.losses.mel)),
            ("mean loss", read(made.losses.mean)),
            ("duration loss", read(made.losses.duration)),
        ]
    };
    let (here, there) = (compute(&cpu()), compute(device));
    let parts = here.into_iter().zip(there);
    parts
        .map(|((name, here), (_, there))| {
            SelftestCheck::compared(name, apart(&here, &there), SAME_SUMS)
        })
        .collect()
}

/// Of one step: the gradient of each weight, their norm, and what AdamW makes of them.
pub(super) fn gradients(device: &Device) -> Vec<SelftestCheck> {
    struct Step {
        gradients: Vec<Vec<f32>>,
        norm: Vec<f32>,
        /// By how much each averaged weight moved.
        moved: Vec<f32>,
    }
    let step = |device: &Device| -> Step {
        let model = voice_on(device);
        let batch = prepared(device, batch());
        let made = pass(&model, &batch, 1.0, COUNTS);
        let gradients = FlatGradients::collect(&model, made.losses.total().backward());
        let by_weight = gradients.by_weight().into_iter().flatten();
        let by_weight = by_weight.map(read).collect();
        let state = OptimizerState::new(&model, device);
        let before = mean_weights(&state);
        let (_, state, taken) = AdamW::default().step(model, state, gradients, 1e-3);
        let after = mean_weights(&state).into_iter();
        Step {
            gradients: by_weight,
            norm: read(taken.norm),
            moved: after
                .zip(before)
                .map(|(after, before)| after - before)
                .collect(),
        }
    };
    let (here, there) = (step(&cpu()), step(device));
    assert_eq!(here.gradients.len(), there.gradients.len(), "gradients");
    // A gradient that is all but zero has no digits to compare.
    let scale = here.norm[0] * 1e-3;
    let furthest = here.gradients.iter().zip(&there.gradients).map(|(a, b)| {
        let largest = a.iter().fold(scale, |most, value| most.max(value.abs()));
        worst(a, b) / largest
    });
    let furthest = furthest.fold(0.0, |most, off| {
        if off > most || off.is_nan() {
            off
        } else {
            most
        }
    });
    vec![
        SelftestCheck::compared("gradients", furthest, SAME_GRADIENTS),
        SelftestCheck::compared("gradient norm", apart(&here.norm, &there.norm), SAME_SUMS),
        SelftestCheck::compared(
            "optimizer step",
            turned(&here.moved, &there.moved),
            SAME_STEP,
        ),
    ]
}

fn mean_weights(state: &OptimizerState) -> Vec<f32> {
    let moments = state.by_weight().into_iter();
    moments
        .flat_map(|moments| read(moments.mean_weight))
        .collect()
}

/// The length of the difference over the length of the first: 1 where the second did not move, 2 where it moved the
/// other way.
pub(crate) fn turned(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "values");
    let length = |values: &mut dyn Iterator<Item = f32>| values.map(|v| v * v).sum::<f32>().sqrt();
    let off = length(&mut a.iter().zip(b).map(|(a, b)| a - b));
    off / length(&mut a.iter().copied())
}

pub(super) fn steps(device: &Device) -> Vec<SelftestCheck> {
    let losses = |device: &Device| -> Vec<f32> {
        let mut model = voice_on(device);
        let mut state = OptimizerState::new(&model, device);
        let batch = prepared(device, batch());
        let step = |_| {
            let made = pass(&model, &batch, 0.0, COUNTS);
            let total = made.losses.total();
            let gradients = FlatGradients::collect(&model, total.clone().backward());
            let (next, after, _) =
                AdamW::default().step(model.clone(), state.clone(), gradients, 1e-3);
            (model, state) = (next, after);
            read(total)[0]
        };
        (0..STEPS).map(step).collect()
    };
    let (here, there) = (losses(&cpu()), losses(device));
    vec![SelftestCheck::compared(
        "losses of five steps",
        apart(&here, &there),
        SAME_LOSSES,
    )]
}

/// Frames as matrix products are where products in TF32 would show.
pub(super) fn frames(device: &Device) -> Vec<SelftestCheck> {
    let clip = speech_like(22_050);
    vec![
        match frames_apart(&AudioSettings::default(), device, &[clip]) {
            Ok(off) => SelftestCheck::compared(FRAMES, off, SAME_FRAMES),
            Err(why) => SelftestCheck::failed(FRAMES, why),
        },
    ]
}

/// By how much log-mel frames that the device computes of some clips differ at most from the CPU's own transform.
pub(super) fn frames_apart(
    settings: &AudioSettings,
    device: &Device,
    clips: &[Vec<f32>],
) -> Result<f32, String> {
    let mut log_mel = LogMel::new(settings).map_err(|why| why.to_string())?;
    let (framing, on_device) = (settings.framing(), FramesOnDevice::new(settings, device));
    let of_clip = |clip: &Vec<f32>| {
        let mut real = Vec::new();
        log_mel.log_mel(clip, &mut real);
        let frames = framing.frames_of_clip(clip.len());
        let mut row = framing.lay_out(clip, 0..frames);
        row.resize(framing.row_width(frames), 0.0);
        worst(&real, &read(on_device.of_samples(row, 1, frames)))
    };
    Ok(furthest(clips.iter().map(of_clip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::test_devices;

    #[test]
    fn a_step_that_is_missing_or_reversed_is_far_off() {
        let step = [1e-3, -2e-3, 5e-4];
        let reversed = step.map(|moved| -moved);
        assert_eq!(turned(&step, &step), 0.0);
        assert_eq!(turned(&step, &[0.0; 3]), 1.0);
        assert_eq!(turned(&step, &reversed), 2.0);
    }

    /// Neither the CPU nor a software GPU rounds factors; that sums are rounded must not look like it.
    #[test]
    fn products_keep_all_bits_of_their_factors_on_every_device() {
        for device in test_devices() {
            let bits = CheckOutcome::Measured {
                value: 23.0,
                unit: MeasuredUnit::Bits,
            };
            assert_eq!(product_bits(&device)[0].outcome, bits, "{device:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_close() {
        assert!(apart(&[1.0, 2.0], &[1.0, f32::NAN]).is_nan());
        assert!(worst(&[1.0, f32::NAN, 1.0], &[1.0, 1.0, 1.0]).is_nan());
    }
}
