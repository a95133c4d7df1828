//! The model in 16 bits compared with itself in 32, on every device that has them.

use super::*;
use crate::align::Lengths;
use crate::loss::{encode, pass_aligned};

/// The parts of what a model makes of a batch, with an alignment that is given, and its gradients.
struct Made {
    parts: Vec<(&'static str, Vec<f64>)>,
    gradients: Vec<f64>,
}

/// `scale`: what the loss is multiplied by on its way back.
fn made(device: &Device, precision: Precision, scale: f32, recompute: bool) -> Made {
    let batch = {
        let (a, b) = (TestClip::new("a", 23, 90), TestClip::new("b", 7, 33));
        let batch = batch_of(&[Some(&a), None, Some(&b)], 24, 96, 32);
        prepare(batch, STATISTICS, None, device)
    };
    let shape = ModelSize::Nano.shape();
    let model = Voice::new(&shape, VOCABULARY, 5, &with_gradients(device, recompute));
    let model = model.computing_in(precision).recomputing(recompute);
    let (style, encoded) = encode(&model, &batch);
    assert_eq!(style.dtype(), precision.dtype().into());
    assert_eq!(encoded.states.dtype(), precision.dtype().into());
    let durations = even_durations(&batch.lengths);
    let counts = counts(&batch);
    let made = pass_aligned(&model, &batch, encoded.clone(), &style, durations, counts);
    for tensor in [&made.mel, &encoded.means] {
        assert_eq!(tensor.dtype(), DType::F32);
    }
    let total = made.losses.total();
    let loss = numbers(total.clone());
    let gradients = FlatGradients::collect(&model, (total * scale).backward());
    let gradients = gradients
        .by_weight()
        .into_iter()
        .flatten()
        .flat_map(|part| {
            assert_eq!(part.dtype(), DType::F32, "gradients come back in 32 bits");
            let values = numbers(part).into_iter();
            values.map(|value| value / f64::from(scale))
        });
    Made {
        gradients: gradients.collect(),
        parts: vec![
            ("style", numbers(style)),
            ("means", numbers(encoded.means)),
            ("log-durations", numbers(encoded.log_durations)),
            ("mel", numbers(made.mel)),
            ("loss", loss),
        ],
    }
}

fn even_durations(lengths: &[Lengths]) -> Durations {
    let longest = 24;
    let rows = lengths.iter().flat_map(|row| {
        (0..longest).map(|at| match at < row.tokens {
            true => ((at + 1) * row.frames / row.tokens - at * row.frames / row.tokens) as u32,
            false => 0,
        })
    });
    Durations::new(rows.collect(), longest)
}

/// How far off all values together are, as a share of all of them.
fn off(exact: &[f64], near: &[f64]) -> f64 {
    assert_eq!(exact.len(), near.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let apart = squares(&mut exact.iter().zip(near).map(|(a, b)| a - b));
    (apart / squares(&mut exact.iter().copied())).sqrt()
}

/// Half of what lies between 1 and the next number: the most that rounding once changes a value by.
fn rounding(half: Precision) -> f64 {
    match half {
        Precision::Single => f64::from(f32::EPSILON) / 2.0,
        Precision::Bf16 => 2.0f64.powi(-8),
        Precision::F16 => 2.0f64.powi(-11),
    }
}

/// A value is rounded some ten times on its way, each time by less than `rounding` and up as often as
/// down: together by a few times as much. In gradients it also counts where a frame is now above the
/// target and now below, or a unit now on and now off; there a small change is a whole one.
#[test]
fn sixteen_bits_are_near_thirty_two_on_every_device() {
    let exact = made(&device(), Precision::Single, 1.0, false);
    for device in test_devices() {
        let there = [Precision::Bf16, Precision::F16].into_iter();
        let there = there.filter(|half| half.works_on(&device));
        for (half, recompute) in there.flat_map(|half| [(half, false), (half, true)]) {
            let near = made(&device, half, 1024.0, recompute);
            let what = format!("{half:?} on {device:?}, made again: {recompute}");
            for ((name, exact), (_, near)) in exact.parts.iter().zip(&near.parts) {
                let off = off(exact, near);
                assert!(off < 4.0 * rounding(half), "{what}, {name}: {off}");
                // Or it would not be 16 bits that were computed in.
                assert!(off > 0.0, "{what}, {name}");
            }
            let off = off(&exact.gradients, &near.gradients);
            assert!(off < 16.0 * rounding(half), "{what}, gradients: {off}");
        }
    }
}

#[test]
fn the_cpu_can_compute_in_both_kinds_of_sixteen_bits() {
    assert_eq!(Precision::half_of(&device()), Some(Precision::Bf16));
    assert!(Precision::F16.works_on(&device()));
}
