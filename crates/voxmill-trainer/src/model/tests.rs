//! The model compared with itself: padding, the two ways to compute it, and its gradients.

#[cfg(feature = "wgpu")]
mod gpu;
mod half;

use burn::module::{Module as _, ModuleMapper, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use voxmill_data::batch::Batch;
use voxmill_data::draw::draw;

use super::*;
use crate::device::cpu as device;
use crate::device::{test_devices, tracked_on, with_gradients};
use crate::loss::{LossTensors, Pass, pass, pass_with};
use crate::optimizer::FlatGradients;
use crate::prepare::{Counts, LANGUAGES, Prepared, prepare};
use crate::test_data::{STATISTICS, TestClip, batch_of, small_voice};

const VOCABULARY: Vocabulary = Vocabulary {
    tokens: 40,
    languages: LANGUAGES,
    mel_channels: 80,
};

fn nano(seed: u64) -> Voice {
    let shape = ModelSize::Nano.shape();
    Voice::new(&shape, VOCABULARY, seed, &device().autodiff())
}

fn prepared(batch: Batch) -> Prepared {
    prepare(batch, STATISTICS, None, &device())
}

fn gradients(model: &Voice, pass: &Pass) -> Vec<Vec<f64>> {
    gradients_of(model, pass.losses.total())
}

fn gradients_of(model: &Voice, loss: Tensor<1>) -> Vec<Vec<f64>> {
    let all = FlatGradients::collect(model, loss.backward());
    let parts = all.by_weight().into_iter();
    parts.map(|part| part.map_or(Vec::new(), numbers)).collect()
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn furthest(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b).flat_map(|(a, b)| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b)
    });
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn the_sizes_have_as_many_weights_as_the_model_was_designed_with() {
    let millions = |size: ModelSize| {
        // Built lazily it costs no memory; the big one is left to arithmetic.
        let model = Voice::new(&size.shape(), VOCABULARY, 0, &device());
        assert_eq!(
            model.parameters(),
            size.shape().parameters(VOCABULARY),
            "counted without making it"
        );
        model.parameters() as f64 / 1e6
    };
    assert!((0.4..0.55).contains(&millions(ModelSize::Nano)));
    assert!((2.1..2.3).contains(&millions(ModelSize::Tiny)));
    assert!((10.2..10.8).contains(&millions(ModelSize::Small)));
}

#[test]
fn padding_and_masked_rows_change_neither_output_nor_gradients() {
    let clip = TestClip::new("a", 23, 90);
    let alone = prepared(batch_of(&[Some(&clip)], 23, 90, 40));
    let other = TestClip::new("b", 0, 0);
    let padded = prepared(batch_of(&[None, Some(&clip), Some(&other)], 40, 160, 64));
    let model = nano(1);
    let whole = Counts {
        frames: 90,
        tokens: 23,
    };
    let a = pass(&model, &alone, 1.0, whole);
    let b = pass(&model, &padded, 1.0, whole);
    assert_eq!(a.durations.row(0), &b.durations.row(1)[..23]);
    assert_eq!(b.durations.row(0).iter().sum::<u32>(), 0);
    let row = b.mel.clone().slice([1..2, 0..90, 0..80]);
    let distance = (a.mel.clone() - row).abs().max().into_scalar::<f32>();
    assert!(distance < 1e-4, "{distance}");
    let (a, b) = (gradients(&model, &a), gradients(&model, &b));
    let distance = furthest(&a, &b);
    assert!(distance < 1e-4, "{distance}");
    assert!(
        a.iter().flatten().any(|g| g.abs() > 1e-3),
        "there are gradients to compare"
    );
}

/// The CPU's own block compared with the one made of the library's operations.
#[test]
fn both_ways_to_compute_a_block_agree() {
    let device = device().autodiff();
    let init = Init::new(7, &device);
    let block = Block::new(&init, 40, 9, 100, Some(16));
    let spans = Spans::new(&[150, 0, 37], 170, &device.clone().without_autodiff());
    let random = |name: &str, shape: [usize; 3]| {
        let even = |i| draw(3, i, name, "test") as f32 / u64::MAX as f32 - 0.5;
        let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64)
            .map(even)
            .collect();
        Tensor::<3>::from_data(TensorData::new(values, shape), &device)
    };
    let input = random("input", [3, 170, 40]).require_grad();
    let style = random("style", [1, 3, 16])
        .squeeze_dim::<2>(0)
        .require_grad();
    let target = random("target", [3, 170, 40]);

    let by_hand = block.forward(input.clone(), &spans, Some(&style));
    let [scale, shift] = block.scale_and_shift(&input, Some(&style));
    let by_operations = block.forward_by_operations(input.clone(), &spans, scale, shift);
    let distance = (by_hand.clone() - by_operations.clone()).abs().max();
    let distance = distance.into_scalar::<f32>();
    assert!(distance < 1e-5, "{distance}");

    let of = |output: Tensor<3>| {
        let grads = (output * target.clone()).sum().backward();
        let of_input = input.grad(&grads).unwrap().reshape([-1]);
        let of_style = style.grad(&grads).unwrap().reshape([-1]);
        let weights = FlatGradients::collect(&block, grads);
        let weights = weights.by_weight().into_iter().map(Option::unwrap);
        let all = [of_input, of_style].into_iter().chain(weights);
        all.map(numbers).collect::<Vec<_>>()
    };
    let (a, b) = (of(by_hand), of(by_operations));
    for (part, (a, b)) in a.iter().zip(&b).enumerate() {
        let largest = a.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        let distance = furthest(std::slice::from_ref(a), std::slice::from_ref(b));
        assert!(
            largest > 0.0 && distance < 1e-4 * largest.max(1.0),
            "{part}: {distance} of {largest}"
        );
    }
}

#[test]
fn expanding_agrees_with_gathering() {
    let device = device();
    let durations = Durations::new(vec![2, 3, 0, 1, 0, 0], 3);
    let tokens = Tensor::<3>::from_floats(
        [
            [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            [[7.0, 8.0], [0.0, 0.0], [0.0, 0.0]],
        ],
        &device,
    );
    let single = expand(tokens.clone(), &durations, 6);
    let double = expand(tokens.cast(DType::F64), &durations, 6);
    let distance = (single.cast(DType::F64) - double).abs().max();
    assert_eq!(distance.into_scalar::<f64>(), 0.0);
}

struct Moved<'a> {
    by: f64,
    along: std::slice::Iter<'a, Vec<f64>>,
}

impl ModuleMapper for Moved<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let along = self.along.next().unwrap();
        param.map(|weight| {
            let (shape, dtype) = (weight.shape(), weight.dtype());
            let along = TensorData::new(along.clone(), shape);
            let along = Tensor::<D>::from_data(along, (&weight.device(), DType::F64));
            let moved = weight.inner().cast(DType::F64) + along.inner() * self.by;
            moved.cast(dtype).autodiff().require_grad()
        })
    }
}

struct Cast;

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|weight| {
            let device = weight.device();
            tracked_on(weight.inner().cast(DType::F64), &device)
        })
    }
}

fn batch_of_two() -> Batch {
    let (a, b) = (TestClip::new("a", 12, 40), TestClip::new("b", 7, 33));
    batch_of(&[Some(&a), Some(&b)], 16, 48, 32)
}

fn two_clips() -> Prepared {
    prepared(batch_of_two())
}

fn counts(batch: &Prepared) -> Counts {
    Counts {
        frames: batch.lengths.iter().map(|row| row.frames as u64).sum(),
        tokens: batch.lengths.iter().map(|row| row.tokens as u64).sum(),
    }
}

fn loss_along(model: &Voice, batch: &Prepared, durations: &Durations) -> Pass {
    pass_with(model, batch, durations.clone(), false, counts(batch)).0
}

/// How far the gradient is from the slope that is measured by going a little to both sides, as a
/// share of the slope.
///
/// `part` picks the loss. Durations are learnt apart: what they are learnt from carries no gradient
/// by design, so their slope is only that of their own weights.
fn gradient_error(
    model: &Voice,
    batch: &Prepared,
    step: f64,
    part: fn(&LossTensors) -> Tensor<1>,
) -> f64 {
    let durations = pass(&nano(5), &two_clips(), 1.0, counts(batch)).durations;
    let here = loss_along(model, batch, &durations);
    let gradients = gradients_of(model, part(&here.losses));
    // Along the gradient itself, of length 1: the slope is then the gradient's norm.
    let squares = gradients.iter().flatten().map(|g| g * g);
    let norm = squares.sum::<f64>().sqrt();
    let along = gradients.iter().zip(model.weights());
    let along = along.map(|(part, weight)| match &part[..] {
        // A weight without a gradient stays where it is.
        [] => vec![0.0; weight.flat.dims()[0]],
        part => part.iter().map(|g| g / norm).collect(),
    });
    let along: Vec<Vec<f64>> = along.collect();
    let at = |by: f64| {
        let moved = model.clone().map(&mut Moved {
            by,
            along: along.iter(),
        });
        let loss = part(&loss_along(&moved, batch, &durations).losses);
        loss.into_data().iter::<f64>().next().unwrap()
    };
    let slope = (at(step) - at(-step)) / (2.0 * step);
    (slope - norm).abs() / norm
}

fn frames_part(losses: &LossTensors) -> Tensor<1> {
    losses.mel.clone() + losses.mean.clone()
}

fn duration_part(losses: &LossTensors) -> Tensor<1> {
    losses.duration.clone()
}

#[test]
fn gradients_are_the_slopes_of_the_loss_in_double_precision() {
    let mut batch = two_clips();
    batch.reference = batch.reference.cast(DType::F64);
    batch.mel = batch.mel.cast(DType::F64);
    let model = nano(5).map(&mut Cast);
    for part in [frames_part, duration_part] {
        let error = gradient_error(&model, &batch, 1e-6, part);
        assert!(error < 1e-5, "{error}");
    }
}

#[test]
fn gradients_are_the_slopes_of_the_loss_in_single_precision() {
    for part in [frames_part, duration_part] {
        let error = gradient_error(&nano(5), &two_clips(), 1e-3, part);
        assert!(error < 1e-2, "{error}");
    }
}

#[test]
fn recomputing_changes_no_gradient() {
    let batch = two_clips();
    let of = |recompute| {
        let model = nano(5).recomputing(recompute);
        let pass = pass(&model, &batch, 1.0, counts(&batch));
        gradients(&model, &pass)
    };
    assert_eq!(of(false), of(true));
}

/// On the CPU by the library's operations, which are for 64 bits too; on a GPU as they are used there.
#[test]
fn what_the_library_makes_again_changes_no_gradient_on_every_device() {
    for device in test_devices() {
        let exact = crate::device::is_cpu(&device);
        let of = |recompute| {
            let mut batch = prepare(batch_of_two(), STATISTICS, None, &device);
            let durations = pass(&nano(5), &two_clips(), 1.0, counts(&batch)).durations;
            // The shape of the other tests: a GPU compiles kernels for each.
            let shape = small_voice().shape;
            let model = Voice::new(&shape, VOCABULARY, 5, &with_gradients(&device, recompute));
            let mut model = model.recomputing(recompute);
            if exact {
                batch.reference = batch.reference.cast(DType::F64);
                batch.mel = batch.mel.cast(DType::F64);
                model = model.map(&mut Cast);
            }
            gradients(&model, &loss_along(&model, &batch, &durations))
        };
        let (kept, again) = (of(false), of(true));
        // A GPU may choose another order for a sum.
        let most = if exact { 0.0 } else { 1e-5 };
        let distance = furthest(&kept, &again);
        assert!(distance <= most, "{device:?}: {distance}");
    }
}

#[test]
fn the_same_seed_gives_the_same_voice() {
    let weights = |seed| nano(seed).mean_head.weight.val().into_data();
    assert_eq!(weights(1), weights(1));
    assert_ne!(weights(1), weights(2));
}
