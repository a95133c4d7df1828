//! A GPU compared with the CPU: every part of the model, whole steps, and two devices at once. The software
//! GPU of Mesa will do; a build for GPUs that finds none at all fails.

mod kernels;

use std::sync::OnceLock;

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use voxmill_data::batch::Batch;

use crate::checkpoint::{Checkpoints, VoiceFacts};
use crate::device::{self, Backend, DeviceId, Precision, read, test_gpu};
use crate::loss::pass;
use crate::model::{Voice, expand};
use crate::optimizer::{AdamW, FlatGradients, OptimizerState};
use crate::prepare::{Counts, Prepared};
use crate::schedule::{Decay, Schedule};
use crate::test_data::{TestClip, batch_of, small_voice};
use crate::train::tests::feed::{Recorded, TestFeed, prepared_on};
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

fn batch() -> Batch {
    let clip = TestClip::new;
    let (a, b) = (clip("a", 9, 40), clip("b", 5, 17));
    batch_of(&[Some(&a), None, Some(&b)], 10, 48, 32)
}

const COUNTS: Counts = Counts {
    frames: 57,
    tokens: 14,
};

fn voice_on(device: &Device) -> Voice {
    let (facts, device) = (small_voice(), device.clone().autodiff());
    Voice::new(&facts.shape, facts.vocabulary, 3, &device)
}

fn prepared(device: &Device, batch: Batch) -> Prepared {
    prepared_on(batch, &[device.clone(), device.clone()]).prepared
}

/// The largest difference, as a share of the largest value.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = a.iter().fold(1e-6f32, |most, value| most.max(value.abs()));
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, f32::max) / largest
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

#[test]
fn every_part_of_the_model_agrees() {
    let made: Vec<Vec<(&str, Vec<f32>)>> = [device::cpu(), test_gpu()]
        .iter()
        .map(|device| {
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
                ("states", read(encoded.states)),
                ("means", read(encoded.means)),
                ("log durations", read(encoded.log_durations)),
                ("alignment", durations),
                ("expanded", read(expanded)),
                ("decoded", read(decoded)),
                ("mel loss", read(made.losses.mel)),
                ("mean loss", read(made.losses.mean)),
                ("duration loss", read(made.losses.duration)),
            ]
        })
        .collect();
    for ((name, on_cpu), (_, on_gpu)) in made[0].iter().zip(&made[1]) {
        let apart = apart(on_cpu, on_gpu);
        assert!(apart < 1e-3, "{name}: {apart}");
    }
}

#[test]
fn gradients_and_the_step_that_is_taken_agree() {
    let made: Vec<_> = [device::cpu(), test_gpu()]
        .iter()
        .map(|device| {
            let model = voice_on(device);
            let batch = prepared(device, batch());
            let made = pass(&model, &batch, 1.0, COUNTS);
            let gradients = FlatGradients::collect(&model, made.losses.total().backward());
            let parts = gradients.by_weight().into_iter().flatten();
            let parts: Vec<Vec<f32>> = parts.map(read).collect();
            let state = OptimizerState::new(&model, device);
            let (_, state, taken) = AdamW::default().step(model, state, gradients, 1e-3);
            let moved = state.by_weight().into_iter().map(|m| read(m.mean_weight));
            let moved: Vec<Vec<f32>> = moved.collect();
            (parts, moved, read(taken.norm))
        })
        .collect();
    let [
        (gradients, moved, norm),
        (gradients_gpu, moved_gpu, norm_gpu),
    ] = &made[..]
    else {
        unreachable!("two devices");
    };
    assert_eq!(gradients.len(), gradients_gpu.len());
    // A gradient that is all but zero has no digits to compare.
    let scale = norm[0] * 1e-3;
    for (n, (a, b)) in gradients.iter().zip(gradients_gpu).enumerate() {
        let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max);
        let largest = a.iter().fold(scale, |most, value| most.max(value.abs()));
        assert!(off / largest < 5e-3, "gradient {n}: {off} of {largest}");
    }
    assert!(apart(norm, norm_gpu) < 1e-3);
    for (a, b) in moved.iter().zip(moved_gpu) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 3e-3));
    }
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
