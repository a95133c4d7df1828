//! The loop on a few synthetic clips that are held in memory.

mod bad_steps;
mod behind;
mod ends;
pub(crate) mod feed;
mod half;
mod parts;
mod resuming;
mod synthesis;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::tensor::Tensor;
use serde_json::json;
use tempfile::TempDir;
use voxmill_data::batch::Batch;

use self::feed::{Recorded, TestFeed, prepared};
use super::*;
use crate::checkpoint::{CheckpointFolder, PrepareOn};
use crate::device::Precision;
use crate::device::cpu as device;
use crate::device::test_devices;
use crate::loss::{LossTensors, pass};
use crate::optimizer::{AdamW, FlatGradients};
use crate::schedule::{Decay, Schedule};
use crate::synthesis::TrainedVoice;
use crate::test_data::{TestClip, batch_of, preparation, small_voice};

pub(crate) fn options(steps: u64) -> TrainOptions {
    TrainOptions {
        seed: 7,
        optimizer: AdamW::default(),
        schedule: Schedule {
            peak: 3e-3,
            warmup_steps: 3,
            decay: Decay::Constant,
        },
        limits: RunLimits {
            steps: Some(steps),
            seconds: None,
        },
        accumulate: 1,
        log_every: 1,
        checkpoint_every: None,
        validate_every: None,
        sample_every: None,
        patience: None,
        max_bad_steps: 3,
        max_failed_checkpoints: 1,
        recompute: false,
        precision: Precision::Single,
        prepare_on: PrepareOn::Host,
        as_settled: false,
    }
}

pub(crate) fn speakers() -> Vec<String> {
    vec!["one".to_owned(), "two".to_owned()]
}

fn fresh(options: TrainOptions) -> Trainer {
    let settings = json!({"made": "up"});
    Trainer::new(options, small_voice(), settings, speakers(), &device())
}

fn checkpoints(folder: &TempDir) -> Checkpoints {
    Checkpoints::new(folder.path(), 100)
}

fn newest(folder: &TempDir) -> CheckpointFolder {
    checkpoints(folder).newest().unwrap().checkpoint
}

/// Batches of clips of quite different lengths.
fn batches() -> Vec<Batch> {
    let clip = TestClip::new;
    let (a, b, c) = (clip("a", 9, 40), clip("b", 5, 17), clip("c", 12, 60));
    let (d, e) = (clip("d", 4, 21), clip("e", 7, 30));
    vec![
        batch_of(&[Some(&a), Some(&b)], 10, 48, 32),
        batch_of(&[Some(&c)], 16, 64, 32),
        batch_of(&[Some(&d), None, Some(&e)], 8, 32, 32),
    ]
}

/// Everything that the steps report about losses, to the last bit.
fn all_bits<'a>(steps: impl IntoIterator<Item = &'a StepReport>) -> Vec<[u64; 5]> {
    let bits = |step: &StepReport| {
        let l = step.losses;
        [l.total, l.mel, l.mean, l.duration, step.gradient_norm].map(f64::to_bits)
    };
    steps.into_iter().map(bits).collect()
}

/// All tensors of a checkpoint by name, as bytes.
type Tensors = std::collections::BTreeMap<String, Vec<u8>>;

fn tensors(checkpoint: &Path) -> Tensors {
    let mut all = Tensors::new();
    for file in ["voice.safetensors", "training.safetensors"] {
        let bytes = std::fs::read(checkpoint.join(file)).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let named = file
            .iter()
            .map(|(name, view)| (name.to_owned(), view.data().to_vec()));
        all.extend(named);
    }
    all
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    let (four, _) = bytes.as_chunks::<4>();
    four.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

pub(crate) fn try_run(
    training: Trainer,
    mut feed: TestFeed,
    checkpoints: &Checkpoints,
) -> (Result<Summary, TrainError>, Recorded) {
    let mut recorded = Recorded::default();
    let stop = feed.stop();
    let ended = training.run(&mut feed, checkpoints, &mut recorded, &stop);
    (ended, recorded)
}

fn run(training: Trainer, feed: TestFeed, folder: &TempDir) -> (Summary, Recorded) {
    let (ended, recorded) = try_run(training, feed, &checkpoints(folder));
    (ended.unwrap(), recorded)
}

/// A run on batches, and the tensors of its last checkpoint.
fn trained(training: Trainer, batches: Vec<Batch>) -> (Summary, Recorded, Tensors) {
    let folder = tempfile::tempdir().unwrap();
    let (summary, recorded) = run(training, TestFeed::new(batches), &folder);
    (summary, recorded, tensors(newest(&folder).path()))
}

#[test]
fn the_loss_of_a_few_clips_falls() {
    let (summary, recorded, _) = trained(fresh(options(90)), batches());
    assert_eq!(summary.step, 90);
    let mean = |steps: &[StepReport], part: fn(&Losses) -> f64| {
        steps.iter().map(|step| part(&step.losses)).sum::<f64>() / steps.len() as f64
    };
    let (first, last) = (&recorded.steps[..3], &recorded.steps[87..]);
    for (part, share) in [
        ((|l: &Losses| l.mel) as fn(&Losses) -> f64, 0.7),
        (|l| l.mean, 0.8),
        (|l| l.duration, 0.5),
    ] {
        let (begin, end) = (mean(first, part), mean(last, part));
        assert!(end < share * begin, "{begin} to {end}");
    }
    let counts = |step: &StepReport| step.counted && step.gradient_norm > 0.0;
    assert!(recorded.steps.iter().all(counts));
}

#[test]
fn reports_name_what_was_trained_on() {
    let with_two = TrainOptions {
        accumulate: 2,
        log_every: 100,
        ..options(2)
    };
    let (summary, recorded, _) = trained(fresh(with_two), batches());
    let position = |epoch, batch| Position { epoch, batch };
    let [first, second] = &recorded.steps[..] else {
        panic!("{} steps", recorded.steps.len());
    };
    assert_eq!((first.step, second.step), (1, 2));
    assert_eq!(first.positions, [position(0, 0), position(0, 1)]);
    assert_eq!(second.positions, [position(0, 2), position(1, 0)]);
    assert_eq!(second.clips, [200, 202, 0, 1]);
    assert_eq!(second.shapes.len(), 2);
    assert_eq!(first.frames, 40 + 17 + 60);
    assert_eq!(summary.progress.position, position(1, 1));
    assert_eq!(summary.progress.feed, json!(4));
}

/// Two micro-batches of unlike lengths: a mean of their means would weigh their clips wrongly.
#[test]
fn micro_batches_equal_one_large_batch() {
    let (long, short) = (TestClip::new("long", 12, 60), TestClip::new("short", 3, 9));
    let apart = vec![
        batch_of(&[Some(&long)], 12, 60, 32),
        batch_of(&[Some(&short)], 4, 16, 32),
    ];
    let together = vec![batch_of(&[Some(&long), Some(&short)], 12, 60, 32)];
    let trained = |batches, accumulate| {
        let mut options = options(1);
        options.accumulate = accumulate;
        options.optimizer.clip_norm = 1e6;
        let (_, mut recorded, tensors) = trained(fresh(options), batches);
        (recorded.steps.remove(0), tensors)
    };
    let (step_apart, apart) = trained(apart, 2);
    let (step_together, together) = trained(together, 1);
    let parts = |step: &StepReport| [step.losses.total, step.losses.duration, step.gradient_norm];
    for (a, b) in parts(&step_apart).into_iter().zip(parts(&step_together)) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} and {b}");
    }
    assert_eq!(step_apart.frames, step_together.frames);
    let norm = step_together.gradient_norm as f32;
    for ((name, a), (also, b)) in apart.iter().zip(&together) {
        assert_eq!(name, also);
        let (a, b) = (numbers(a), numbers(b));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
        let furthest = apart.fold(0.0, f32::max);
        // The first moment of a first step is a tenth of the gradient.
        let is_near = furthest <= 0.1 * 1e-5 * norm || !name.starts_with("first/");
        assert!(is_near, "{name}: {furthest} of {norm}");
        // A first step of AdamW divides each gradient by its own size, so rounding decides the
        // way of a gradient that is nothing but rounding. All others must agree.
        let gradient = name.strip_prefix("weight/");
        let gradient = gradient.map(|path| numbers(&together[&format!("first/{path}")]));
        for ((a, b), g) in a.iter().zip(&b).zip(gradient.unwrap_or_default()) {
            let is_near = g.abs() < 1e-6 * norm || (a - b).abs() < 1e-5;
            assert!(is_near, "{name}: {a} and {b}");
        }
    }
}

/// Three micro-batches with another share of tokens each; on a GPU gradients lie in few buffers, and every batch has
/// its time.
#[test]
fn micro_batches_add_up_on_every_device() {
    let mut expected = Vec::new();
    for device in test_devices() {
        let mut options = options(3);
        options.accumulate = 3;
        let training = Trainer::new(options, small_voice(), json!({}), speakers(), &device);
        let feed = TestFeed::new(batches()).on(&device, &device);
        let (_, recorded) = run(training, feed, &tempfile::tempdir().unwrap());
        let found = recorded.steps.iter().map(|step| {
            let losses = step.losses;
            [
                losses.total,
                losses.mel,
                losses.duration,
                step.gradient_norm,
            ]
        });
        let found: Vec<f64> = found.flatten().collect();
        if is_cpu(&device) {
            expected = found.clone();
        }
        for (a, b) in expected.iter().zip(&found) {
            assert!((a - b).abs() < 2e-3 * a, "{expected:?} {found:?}");
        }
        for pair in recorded.steps.windows(2) {
            let parts = pair[1].overhead + pair[1].waited + pair[1].service;
            assert_eq!(pair[1].ended - pair[0].ended, parts);
        }
    }
}

/// So that each weight's gradient has one divisor, which may be put right when the step is whole.
#[test]
fn durations_have_weights_of_their_own() {
    let batch = prepared(batches().remove(0));
    let model = fresh(options(1)).model;
    let reached = |loss: fn(LossTensors) -> Tensor<1>| -> Vec<bool> {
        let made = pass(&model, &batch.prepared, 1.0, batch.counts);
        let gradients = FlatGradients::collect(&model, loss(made.losses).backward());
        let parts = gradients.by_weight().into_iter();
        parts.map(|part| part.is_some()).collect()
    };
    let durations: Vec<bool> = model.learns_durations().collect();
    assert_eq!(reached(|losses| losses.duration), durations);
    let others: Vec<bool> = durations.iter().map(|durations| !durations).collect();
    assert_eq!(reached(|losses| losses.mel + losses.mean), others);
}

/// What the losses are divided by is found out from the batches that hold something.
#[test]
fn a_batch_of_masked_rows_changes_nothing_in_its_step() {
    let clip = TestClip::new("a", 12, 60);
    let (full, masked) = (
        batch_of(&[Some(&clip)], 12, 60, 32),
        batch_of(&[None, None], 12, 60, 32),
    );
    let trained = |batches: Vec<Batch>| {
        let mut options = options(1);
        options.accumulate = batches.len();
        let (_, recorded, mut tensors) = trained(fresh(options), batches);
        // They forget with every batch.
        tensors.remove("lengths");
        (all_bits(&recorded.steps), tensors)
    };
    let alone = trained(vec![full.clone()]);
    assert!(trained(vec![masked.clone(), full.clone()]) == alone);
    assert!(trained(vec![full, masked]) == alone);
}

/// On the device's time line the parts of a step fill the time since the step before, however many batches it has.
#[test]
fn the_times_of_a_steps_batches_add_up() {
    for accumulate in [1, 3] {
        let mut options = options(4);
        options.accumulate = accumulate;
        let (_, recorded, _) = trained(fresh(options), batches());
        for pair in recorded.steps.windows(2) {
            let [before, step] = pair else { unreachable!() };
            let parts = step.overhead + step.waited + step.service;
            assert_eq!(step.ended - before.ended, parts);
        }
    }
}

/// A table that was reordered and grew: known symbols keep their rows, whatever their ids.
#[test]
fn another_voice_is_taken_over_symbol_by_symbol() {
    let folder = tempfile::tempdir().unwrap();
    run(fresh(options(2)), TestFeed::new(batches()), &folder);
    let from = newest(&folder);
    let mut voice = small_voice();
    let old_symbols = voice.symbols.symbols.clone();
    voice.symbols.symbols.insert(5, "new-one".to_owned());
    voice.symbols.symbols.remove(20);
    voice.symbols.symbols.push("new-two".to_owned());
    voice.vocabulary.tokens = voice.symbols.symbols.len();
    let symbols = voice.symbols.symbols.clone();
    let other_seed = TrainOptions {
        seed: 8,
        ..options(3)
    };
    let names = vec!["three".to_owned()];
    let started = Trainer::from_voice(other_seed, voice, json!({}), names, &device(), &from);
    let started = started.unwrap();
    assert_eq!(started.progress().step, 0);
    let is_known = started.voice.speakers.contains_key("one");
    assert!(is_known, "known speakers stay known");

    let rows_of = |bytes: &[u8]| -> Vec<Vec<u32>> {
        let bits: Vec<u32> = numbers(bytes).into_iter().map(f32::to_bits).collect();
        bits.chunks_exact(16).map(<[u32]>::to_vec).collect()
    };
    let weights = OptimizerState::new(&started.model, &device()).moments;
    let old = tensors(from.path());
    let bytes = |moments: &crate::optimizer::Moments| -> Vec<u8> {
        let data = moments.mean_weight.to_data();
        data.iter::<f32>().flat_map(f32::to_le_bytes).collect()
    };
    for moments in &weights {
        if moments.path != "token_embedding" {
            // The voice that speaks: the running mean.
            assert!(bytes(moments) == old[&moments.path], "{}", moments.path);
            continue;
        }
        let (rows, old_rows) = (rows_of(&bytes(moments)), rows_of(&old["token_embedding"]));
        assert_eq!(rows.len(), symbols.len());
        for (symbol, row) in symbols.iter().zip(&rows) {
            match old_symbols.iter().position(|old| old == symbol) {
                Some(at) => assert_eq!(*row, old_rows[at], "{symbol}"),
                None => assert!(!old_rows.contains(row), "{symbol}"),
            }
        }
    }

    // And it learns: a row that a clip uses moves.
    let before = bytes(&weights[0]);
    let (_, _, after) = trained(started, batches());
    let after = rows_of(&after["weight/token_embedding"]);
    let used = usize::from(batches()[0].tokens[0]);
    assert_eq!(weights[0].path, "token_embedding");
    assert_ne!(rows_of(&before)[used], after[used]);
}
