//! A GPU compared with the CPU: whole runs, batches that do not fit, two devices at once. Each part of the model is
//! compared by the self-test. The software GPU of Mesa will do; a build for GPUs that finds none at all fails.

use std::sync::OnceLock;

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use voxmill_data::batch::Batch;
use voxmill_data::batch_plan::Shape;

use crate::checkpoint::{Checkpoints, VoiceFacts};
use crate::device::{self, Backend, DeviceId, Precision, read, test_gpu};
use crate::loss::pass;
use crate::model::Voice;
use crate::need::{Recompute, StepForm};
use crate::optimizer::{AdamW, FlatGradients, OptimizerState};
use crate::prepare::Counts;
use crate::schedule::{Decay, Schedule};
use crate::selftest::parity::{COUNTS, apart, batch, prepared, voice_on};
use crate::test_data::{TestClip, batch_of, small_voice};
use crate::train::tests::feed::{Recorded, TestFeed};
use crate::train::tests::{options, speakers, try_run};
use crate::train::{TrainError, TrainOptions, Trainer};

/// The smallest limit that the library's pools can live with: 512 frames of the wide voice.
const LARGEST_BUFFER: u64 = 8 << 20;

/// 4,096 channels within a block.
fn wide_voice() -> VoiceFacts {
    let mut facts = small_voice();
    facts.shape.decoder_widen = 256;
    facts
}

/// A logical device that refuses large buffers. One for all tests: every device compiles its kernels anew.
fn small_gpu() -> Device {
    static SMALL: OnceLock<Device> = OnceLock::new();
    let open = || device::wgpu::open_small(LARGEST_BUFFER).expect("another logical device");
    SMALL.get_or_init(open).clone()
}

#[test]
fn what_is_read_does_not_change_afterwards() {
    let device = test_gpu();
    let mut tensor = Tensor::<1>::from_floats([1.0, 2.0, 3.0], &device);
    let values = read(tensor.clone());
    let read_later = tensor.clone().into_data();
    for _ in 0..3 {
        tensor = tensor + 0.5;
    }
    assert_eq!(read(tensor), [2.5, 3.5, 4.5]);
    assert_eq!(values, [1.0, 2.0, 3.0]);
    let values: Vec<f32> = read_later.iter::<f32>().collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
}

/// What one step made of the weights.
struct StepMade {
    gradients: Vec<Vec<f32>>,
    norm: Vec<f32>,
    /// By weight: how far each number of it went, and how far its running mean.
    moved: Vec<Vec<f32>>,
    mean_moved: Vec<Vec<f32>>,
}

const STEP_RATE: f64 = 1e-3;

fn step_on(device: &Device) -> StepMade {
    let model = voice_on(device);
    let weights = |model: &Voice| -> Vec<Vec<f32>> {
        let weights = model.weights().into_iter();
        weights.map(|weight| read(weight.flat)).collect()
    };
    let from = |before: &[Vec<f32>], after: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
        let pairs = before.iter().zip(after);
        let moved = pairs.map(|(a, b)| a.iter().zip(b).map(|(a, b)| b - a).collect());
        moved.collect()
    };
    let before = weights(&model);
    let batch = prepared(device, batch());
    let made = pass(&model, &batch, 1.0, COUNTS);
    let gradients = FlatGradients::collect(&model, made.losses.total().backward());
    let parts = gradients.by_weight().into_iter().flatten();
    let parts: Vec<Vec<f32>> = parts.map(read).collect();
    let state = OptimizerState::new(&model, device);
    let (model, state, taken) = AdamW::default().step(model, state, gradients, STEP_RATE);
    let means = state.by_weight().into_iter().map(|m| read(m.mean_weight));
    StepMade {
        gradients: parts,
        norm: read(taken.norm),
        moved: from(&before, weights(&model)),
        mean_moved: from(&before, means.collect()),
    }
}

#[test]
fn gradients_and_the_step_that_is_taken_agree() {
    let (on_cpu, on_gpu) = (step_on(&device::cpu()), step_on(&test_gpu()));
    assert_eq!(on_cpu.gradients.len(), on_gpu.gradients.len());
    assert_eq!(on_cpu.gradients.len(), on_cpu.moved.len());
    assert!(apart(&on_cpu.norm, &on_gpu.norm) < 1e-3);
    // A gradient that is all but zero has no digits to compare.
    let scale = on_cpu.norm[0] * 1e-3;
    let (mut compared, mut all) = (0, 0);
    for (n, gradient) in on_cpu.gradients.iter().enumerate() {
        let off = gradient.iter().zip(&on_gpu.gradients[n]);
        let off = off.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let largest = gradient.iter().fold(scale, |most, g| most.max(g.abs()));
        assert!(off / largest < 5e-3, "gradient {n}: {off} of {largest}");
        // The first step of Adam goes as far for a small gradient as for a large one. So numbers are compared
        // whose gradient has the same sign on both devices, and each must have gone its way.
        let rate = STEP_RATE as f32;
        for (at, g) in gradient.iter().enumerate() {
            all += 1;
            if g.abs() < 2e-2 * largest {
                continue;
            }
            compared += 1;
            for (what, [a, b]) in [
                ("weight", [&on_cpu, &on_gpu].map(|made| made.moved[n][at])),
                (
                    "mean",
                    [&on_cpu, &on_gpu].map(|made| made.mean_moved[n][at]),
                ),
            ] {
                assert!((a - b).abs() < 0.05 * rate, "{what} {n}, {at}: {a}, {b}");
                assert!(a * g.signum() < -0.5 * rate, "{what} {n}, {at}: {a}, {g}");
            }
        }
    }
    assert!(4 * compared > all, "{compared} of {all}");
}

/// Some steps on two batches, one after the other.
fn losses(data: &Device, model: &Device, precision: Precision, steps: u64) -> Vec<f32> {
    let clip = TestClip::new("c", 12, 60);
    let batches = vec![batch(), batch_of(&[Some(&clip)], 16, 64, 32)];
    let recorded = trained(data, model, small_voice(), batches, steps, precision);
    let losses = totals(&recorded.expect("all steps"));
    assert_eq!(losses.len() as u64, steps);
    losses
}

fn totals(recorded: &Recorded) -> Vec<f32> {
    let steps = recorded.steps.iter();
    steps.map(|step| step.losses.total as f32).collect()
}

fn trained(
    data: &Device,
    model: &Device,
    voice: VoiceFacts,
    batches: Vec<Batch>,
    steps: u64,
    precision: Precision,
) -> Result<Recorded, TrainError> {
    let options = TrainOptions {
        seed: 5,
        schedule: Schedule {
            peak: 1e-3,
            warmup_steps: 5,
            decay: Decay::Constant,
        },
        log_every: 20,
        max_bad_steps: 0,
        max_failed_checkpoints: 1,
        precision,
        ..options(steps)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let training = Trainer::new(options, voice, Value::Null, speakers(), model);
    let feed = TestFeed::new(batches).on(data, model);
    let (ended, recorded) = try_run(training, feed, &Checkpoints::new(folder.path(), 1));
    ended.map(|_| recorded)
}

#[test]
fn steps_agree_wherever_batches_are_prepared() {
    let (cpu, gpu) = (device::cpu(), test_gpu());
    let second = DeviceId {
        logical: 1,
        ..DeviceId::new(Backend::Wgpu, 0)
    };
    let second = device::open(second).expect("a second logical device");
    assert_ne!(gpu, second);
    let on_cpu = losses(&cpu, &cpu, Precision::Single, 20);
    assert!(on_cpu[19] < on_cpu[0], "{on_cpu:?}");
    for (data, model) in [(&gpu, &gpu), (&cpu, &gpu), (&gpu, &second)] {
        let there = losses(data, model, Precision::Single, 20);
        let off = on_cpu.iter().zip(&there).map(|(a, b)| (a - b).abs() / a);
        let furthest = off.fold(0.0, f32::max);
        assert!(furthest < 1e-2, "{data:?} {model:?}\n{on_cpu:?}\n{there:?}");
    }
}

/// A device that refuses large buffers: four rows of 160 frames do not fit, half of them do.
#[test]
fn a_batch_that_does_not_fit_is_trained_in_parts_to_the_same_result() {
    let clip = TestClip::new;
    let (long, short) = (clip("long", 30, 150), clip("short", 12, 60));
    let batches = || {
        vec![
            batch_of(&[Some(&long); 4], 32, 160, 32),
            batch_of(&[Some(&short); 4], 16, 64, 32),
        ]
    };
    let on = |device: &Device| {
        let (voice, precision) = (wide_voice(), Precision::Single);
        let recorded = trained(device, device, voice, batches(), 3, precision);
        let recorded = recorded.expect("the CPU has memory, and parts fit on the GPU");
        let splits = recorded.steps.iter().flat_map(|step| step.splits.clone());
        (totals(&recorded), splits.collect::<Vec<_>>())
    };
    let (whole, splits) = on(&device::cpu());
    assert_eq!(splits, []);
    let (parts, splits) = on(&small_gpu());
    println!("{splits:?}");
    let [split] = &splits[..] else {
        panic!("one shape does not fit: {splits:?}");
    };
    assert_eq!((split.shape.frames, split.parts), (160, 2));
    assert!(apart(&whole, &parts) < 1e-2, "{whole:?} {parts:?}");
}

/// Not even one row fits: the run ends with the device's reason, and no panic.
#[test]
fn a_clip_that_does_not_fit_ends_the_run_with_the_reason() {
    let clip = TestClip::new("long", 60, 570);
    let batches = vec![batch_of(&[Some(&clip); 2], 64, 576, 32); 2];
    let (small, single) = (small_gpu(), Precision::Single);
    let ended = trained(&small, &small, wide_voice(), batches, 2, single);
    let Err(TrainError::Device(why)) = ended else {
        panic!("it cannot fit");
    };
    println!("{why}");
    assert!(why.contains("alloc"), "{why}");
}

/// What lies on the device between the two passes. On a logical device of its own, whose pools no other
/// test uses.
#[test]
fn what_is_made_again_is_not_kept() {
    let gpu = device::open("wgpu:0+2".parse().expect("a name")).expect("a third logical device");
    let mut facts = small_voice();
    // Enough blocks that what they keep is most of what lies there.
    (facts.shape.channels, facts.shape.decoder_blocks) = (64, 4);
    let between = |recompute| {
        let device = device::with_gradients(&gpu, recompute);
        let model = Voice::new(&facts.shape, facts.vocabulary, 3, &device).recomputing(recompute);
        let clip = TestClip::new("long", 60, 700);
        let batch = prepared(&gpu, batch_of(&[Some(&clip); 8], 64, 704, 32));
        let whole = Counts {
            frames: 5_600,
            tokens: 480,
        };
        let in_use = || {
            gpu.sync().expect("the device works");
            device::memory_in_use(&gpu)
                .expect("its pools report")
                .in_use
        };
        let before = in_use();
        let made = pass(&model, &batch, 1.0, whole);
        let after = in_use();
        drop(made);
        after - before
    };
    let (kept, again) = (between(false), between(true));
    assert!(again < kept * 3 / 4, "{again} of {kept}");
    // And neither is more than was computed for it before the run.
    let computed = |recompute| {
        let form = StepForm {
            shape: facts.shape.clone(),
            parameters: 0,
            mel_channels: facts.vocabulary.mel_channels,
            reference_frames: 32,
            speakers: 1,
            recompute,
            precision: Precision::Single,
        };
        let batch = Shape {
            rows: 8,
            frames: 704,
            tokens: 64,
        };
        form.need(batch).activations
    };
    let (whole, blocks) = (computed(Recompute::Nothing), computed(Recompute::Blocks));
    println!("kept {kept} of {whole}, made again {again} of {blocks}");
    assert!(
        kept <= whole && again <= blocks,
        "{kept} {whole} {again} {blocks}"
    );
}

/// Where the GPU has 16 bits; the loss scale of f16 may first leave out some steps.
#[test]
fn the_loss_falls_in_16_bits() {
    let gpu = test_gpu();
    let there: Vec<Precision> = [Precision::Bf16, Precision::F16]
        .into_iter()
        .filter(|half| half.works_on(&gpu))
        .collect();
    // Where there is neither, a run that asks for one is refused.
    assert_eq!(Precision::half_of(&gpu), there.first().copied());
    println!("16 bits on this GPU: {there:?}");
    for half in there {
        let losses = losses(&gpu, &gpu, half, 20);
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        assert!(losses[18] < 0.97 * losses[0], "{half:?} {losses:?}");
    }
}

#[test]
fn tensors_move_between_two_logical_devices_of_one_gpu() {
    let first = test_gpu();
    let second = device::open("wgpu:0+1".parse().expect("a name"));
    let second = second.expect("a second logical device");
    let values: Vec<f32> = (0..10_000).map(|n| n as f32 * 0.37).collect();
    let here = Tensor::<1>::from_floats(values.as_slice(), &first) * 2.0;
    let there = here.clone().to_device(&second) + 1.0;
    assert_eq!(there.device(), second);
    let expected: Vec<f32> = values.iter().map(|value| value * 2.0 + 1.0).collect();
    assert!(apart(&expected, &read(there)) < 1e-6);
}

#[test]
fn a_gpu_that_is_not_there_is_an_error() {
    let refused = device::open(DeviceId::new(Backend::Wgpu, 99)).expect_err("no such GPU");
    assert!(refused.to_string().contains("wgpu:99"), "{refused}");
}
