//! AdamW, on each device in its own way, compared with the same rule written out in double precision.

use super::*;
use crate::device::{cpu, test_devices};
use crate::test_data::small_voice;
use voxmill_data::draw::draw;

const ADAM: AdamW = AdamW {
    beta_1: 0.9,
    beta_2: 0.98,
    weight_decay: 0.05,
    clip_norm: 1.0,
    ema_decay: 0.6,
};
const RATE: f64 = 0.01;

fn voice(device: &Device) -> Voice {
    let facts = small_voice();
    Voice::new(
        &facts.shape,
        facts.vocabulary,
        3,
        &device.clone().autodiff(),
    )
}

fn floats(tensor: &Tensor<1>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}

fn bits(tensor: &Tensor<1>) -> Vec<u32> {
    tensor.to_data().iter::<f32>().map(f32::to_bits).collect()
}

fn weight_bits(model: &Voice) -> Vec<Vec<u32>> {
    model
        .weights()
        .iter()
        .map(|weight| bits(&weight.flat))
        .collect()
}

/// Gradients between −size and size, the same for the same step.
fn synthetic(model: &Voice, step: u64, size: f64) -> Vec<Vec<f32>> {
    let all = model.weights().into_iter().enumerate();
    let parts = all.map(|(part, weight)| {
        let name = part.to_string();
        let gradient = |at: usize| {
            let even = draw(step, at as u64, &name, "gradient") as f64 / u64::MAX as f64;
            (size * (2.0 * even - 1.0)) as f32
        };
        (0..weight.flat.dims()[0]).map(gradient).collect()
    });
    parts.collect()
}

fn flat(gradients: &[Vec<f32>], device: &Device) -> FlatGradients {
    let tensor = |part: &Vec<f32>| Some(Tensor::from_floats(part.as_slice(), device));
    of_parts(gradients.iter().map(tensor).collect())
}

fn of_parts(parts: Vec<Option<Tensor<1>>>) -> FlatGradients {
    FlatGradients {
        parts,
        packing: None,
        scaled_by: None,
    }
}

/// One weight in double precision.
#[derive(Clone, Debug)]
struct Plain {
    decay: f64,
    weight: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    mean: Vec<f64>,
}

fn norm_of(gradients: &[Vec<f32>]) -> f64 {
    let squares = gradients.iter().flatten().map(|&g| f64::from(g).powi(2));
    squares.sum::<f64>().sqrt()
}

/// The rule as the paper has it: decay apart from the step, moments corrected for their beginning.
fn plain_step(all: &mut [Plain], gradients: &[Vec<f32>], t: i32) {
    let clip = (f64::from(ADAM.clip_norm) / norm_of(gradients)).min(1.0);
    let (beta_1, beta_2) = (f64::from(ADAM.beta_1), f64::from(ADAM.beta_2));
    let t_float = f64::from(t);
    let keep = f64::from(ADAM.ema_decay).min((1.0 + t_float) / (10.0 + t_float));
    for (part, gradient) in all.iter_mut().zip(gradients) {
        for (at, &g) in gradient.iter().enumerate() {
            let g = f64::from(g) * clip;
            part.first[at] = beta_1 * part.first[at] + (1.0 - beta_1) * g;
            part.second[at] = beta_2 * part.second[at] + (1.0 - beta_2) * g * g;
            let first = part.first[at] / (1.0 - beta_1.powi(t));
            let second = part.second[at] / (1.0 - beta_2.powi(t));
            part.weight[at] -= RATE * part.decay * part.weight[at];
            part.weight[at] -= RATE * first / (second.sqrt() + 1e-8);
            part.mean[at] = keep * part.mean[at] + (1.0 - keep) * part.weight[at];
        }
    }
}

fn assert_near(what: &str, found: &Tensor<1>, expected: &[f64], share: f64) {
    let found = floats(found);
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    for (found, expected) in found.iter().zip(expected) {
        let off = (found - expected).abs();
        assert!(off <= share * largest, "{what}: {found}, not {expected}");
    }
}

#[test]
fn each_way_is_adamw_on_every_device() {
    for device in &test_devices() {
        // A GPU's exponential, of which the moments' correction is made, is good for some 20 bits.
        let near = if device::is_cpu(device) { 3e-6 } else { 1e-5 };
        let mut model = voice(device);
        let mut state = OptimizerState::new(&model, device);
        let plain = model.weights().into_iter().map(|weight| {
            // Gains and biases are not pulled to zero.
            let is_matrix = weight.shape.len() > 1;
            let weight = floats(&weight.flat);
            Plain {
                decay: f64::from(u8::from(is_matrix)) * f64::from(ADAM.weight_decay),
                first: vec![0.0; weight.len()],
                second: vec![0.0; weight.len()],
                mean: weight.clone(),
                weight,
            }
        });
        let mut plain: Vec<Plain> = plain.collect();
        // The fourth is small enough to pass unclipped.
        for (t, size) in [3.0, 0.5, 40.0, 0.001, 3.0].into_iter().enumerate() {
            let gradients = synthetic(&model, t as u64, size);
            let norm = norm_of(&gradients);
            assert_eq!(norm > 1.0, size > 0.1, "clipping: {norm}");
            let taken;
            (model, state, taken) = ADAM.step(model, state, flat(&gradients, device), RATE);
            plain_step(&mut plain, &gradients, t as i32 + 1);
            assert_near("norm", &taken.norm, &[norm], 1e-5);
            assert_eq!(floats(&taken.counted), [1.0]);
            assert_eq!(floats(&state.updates), [t as f64 + 1.0]);
            let all = model
                .weights()
                .into_iter()
                .zip(state.by_weight())
                .zip(&plain);
            for ((weight, moments), plain) in all {
                let what = |part: &str| format!("{device:?}, step {t}, {part} of {}", moments.path);
                assert_near(&what("weight"), &weight.flat, &plain.weight, near);
                assert_near(&what("first"), &moments.first, &plain.first, 1e-5);
                assert_near(&what("second"), &moments.second, &plain.second, 2e-5);
                assert_near(&what("mean"), &moments.mean_weight, &plain.mean, near);
            }
        }
    }
}

#[test]
fn a_step_with_one_number_that_is_not_finite_changes_no_bit_on_every_device() {
    for device in &test_devices() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let model = voice(device);
            let state = OptimizerState::new(&model, device);
            let gradients = synthetic(&model, 0, 1.0);
            let (model, state, _) = ADAM.step(model, state, flat(&gradients, device), RATE);
            let all_bits = |model: &Voice, state: &OptimizerState| -> Vec<Vec<u32>> {
                let moments = state.by_weight().into_iter();
                let moments =
                    moments.flat_map(|m| [m.first, m.second, m.mean_weight].map(|t| bits(&t)));
                let updates = [bits(&state.updates)];
                moments.chain(weight_bits(model)).chain(updates).collect()
            };
            let before = all_bits(&model, &state);
            let mut gradients = synthetic(&model, 1, 1.0);
            gradients.last_mut().unwrap()[0] = bad;
            let (model, state, taken) = ADAM.step(model, state, flat(&gradients, device), RATE);
            assert_eq!(floats(&taken.counted), [0.0]);
            assert!(before == all_bits(&model, &state), "{device:?} {bad}");
        }
    }
}

#[test]
fn the_first_step_may_be_the_one_that_is_not_finite_on_every_device() {
    // The moments' correction divides by zero then.
    for device in &test_devices() {
        let model = voice(device);
        let state = OptimizerState::new(&model, device);
        let mut gradients = synthetic(&model, 1, 1.0);
        gradients[0][0] = f32::NAN;
        let (model, _, _) = ADAM.step(model, state, flat(&gradients, device), RATE);
        assert_eq!(
            weight_bits(&model),
            weight_bits(&voice(device)),
            "{device:?}"
        );
    }
}

#[test]
fn without_a_running_mean_the_weights_themselves_are_used_on_every_device() {
    for device in &test_devices() {
        let adam = AdamW {
            ema_decay: 0.0,
            ..ADAM
        };
        let mut model = voice(device);
        let mut state = OptimizerState::new(&model, device);
        for t in 0..3 {
            let gradients = synthetic(&model, t, 3.0);
            (model, state, _) = adam.step(model, state, flat(&gradients, device), RATE);
        }
        let mean = with_mean_weights(&model, &state);
        assert!(weight_bits(&model) == weight_bits(&mean), "{device:?}");
    }
}

#[test]
fn gradients_of_micro_batches_add_up() {
    let model = voice(&cpu());
    let (a, b) = (synthetic(&model, 0, 1.0), synthetic(&model, 1, 1.0));
    let mut sum = flat(&a, &cpu());
    sum.add(flat(&b, &cpu()));
    for (sum, (a, b)) in sum.parts.iter().zip(a.iter().zip(&b)) {
        let expected: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a + b)).collect();
        assert_eq!(floats(sum.as_ref().unwrap()), expected);
    }
    // A weight that takes no part in one of them keeps what the other gave it.
    let one = || Some(Tensor::<1>::from_floats([2.0], &cpu()));
    for (a, b) in [(one(), None), (None, one())] {
        let mut sum = of_parts(vec![a]);
        sum.add(of_parts(vec![b]));
        assert_eq!(floats(sum.parts[0].as_ref().unwrap()), [2.0]);
    }
}

/// A loss scale is a power of two: what it is divided out of loses no digit.
#[test]
fn a_scaled_loss_makes_the_same_step_on_every_device() {
    let factor = 4096.0f32;
    for device in &test_devices() {
        // Gradients below the limit of the norm and above it.
        for size in [1e-5, 3.0] {
            let stepped = |by: f32| {
                let model = voice(device);
                let mut gradients = synthetic(&model, 0, size);
                gradients
                    .iter_mut()
                    .flatten()
                    .for_each(|value| *value *= by);
                let factor = (by != 1.0).then(|| Tensor::from_floats([by], device));
                let state = OptimizerState::new(&model, device);
                let gradients = flat(&gradients, device).scaled_by(factor);
                let (model, _, taken) = ADAM.step(model, state, gradients, RATE);
                (floats(&taken.norm), weight_bits(&model))
            };
            assert!(stepped(1.0) == stepped(factor), "{device:?} {size}");
        }
    }
}
