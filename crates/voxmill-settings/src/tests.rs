//! Precedence, the keys of the file, and what `train` refuses. Tests of one part are next to it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser as _;

use super::train::StopAt;
use super::*;
use crate::args::{Cli, Flags, Verb};
use crate::config::documents::every_key_but;
use crate::config::keys::{self, Role, Verbs};
use crate::error::describe;
use crate::note::Note;
use voxmill_trainer::device::DeviceId;
use voxmill_trainer::schedule::Decay;

fn config(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn resolved<'a>(all: &'a [ResolvedSetting], name: &str) -> &'a ResolvedSetting {
    all.iter().find(|setting| setting.key.name == name).unwrap()
}

fn acting_keys() -> impl Iterator<Item = &'static Key> {
    let keys = keys::KEYS.iter().copied();
    keys.filter(|key| key.role == Role::Acts)
}

fn verb(line: &str) -> Verb {
    let words = ["voxmill"].into_iter().chain(line.split_whitespace());
    Cli::try_parse_from(words).unwrap().verb
}

/// `train` with these flags, on four cores.
fn train(flags: &str) -> anyhow::Result<TrainSettings> {
    let Verb::Train(args) = verb(&format!("train {flags}")) else {
        panic!("another verb")
    };
    TrainSettings::resolve_on(*args, 4, &AvailableDevices::default())
}

/// The same with a file.
fn train_with(file: &str, flags: &str) -> anyhow::Result<TrainSettings> {
    let file = config(file);
    train(&format!("--config {} {flags}", file.path().display()))
}

fn prepare(flags: &str) -> anyhow::Result<PrepareSettings> {
    let Verb::Prepare(args) = verb(&format!("prepare {flags}")) else {
        panic!("another verb")
    };
    PrepareSettings::resolve(*args)
}

fn prepare_with(file: &str, flags: &str) -> anyhow::Result<PrepareSettings> {
    let file = config(file);
    prepare(&format!("--config {} {flags}", file.path().display()))
}

fn refused(flags: &str) -> String {
    describe(&train(flags).unwrap_err())
}

#[test]
fn flag_beats_file_beats_auto_beats_default() {
    let file = "data:\n  batch_size: 24\n  num_workers: 3\n  n_mels: 100\n  sample_rate: 8000\n";
    let settings = prepare_with(file, "--batch-size 32").unwrap();
    let origin = |name| &resolved(&settings.resolved, name).origin;
    assert_eq!(settings.data.batches.batch_size.get(), 32);
    assert_eq!(*origin("batch_size"), Origin::Flag);
    assert_eq!(settings.workers, 3);
    assert!(matches!(origin("num_workers"), Origin::File(place) if place.line == 3));
    assert_eq!(settings.data.audio.f_max, 4000.0);
    assert!(matches!(origin("f_max"), Origin::Auto(_)));
    assert_eq!(*origin("hop_length"), Origin::Default);
}

/// Values that are not the defaults.
const OTHER_VALUES: &str = "data:\n  train_data: d\n  val_data: v\n  val_fraction: 0.1\n  language: fa\n  max_bad: 2%\n  \
    max_text_length: 99\n  max_mel_frames: 999\n  lexicon: l\n  espeak: true\n  sample_rate: 24000\n  n_fft: 2048\n  \
    hop_length: 300\n  n_mels: 100\n  f_min: 20\n  f_max: 12000\n  trim_db: 40\n  loudness_lufs: -23\n  cache_dir: c\n  \
    cache_budget: 5GB\n  enable_caching: false\n  batch_size: 8\n  buckets: 12\n  pad_to_fixed_length: true\n  \
    enable_static_shapes: true\n  seed: 7\n  num_workers: 2\n  compute_threads: 3\n  ram_budget: 1GB\n  unordered: true\n  \
    no_overlap: true\n  buffer_size: 9\n  prefetch_buffer_size: 5\n  model_start_delay: 1.5\n  auto_tune_performance: false\n  \
    device: cpu\n  prepare_on: model\n  augment_gain_db: 3\n  augment_noise_db: 20\n  augment_masks: 1\n  enable_memory_isolation: false\n  mixed_precision: false\n\
    model:\n  size: normal\n  enable_gradient_checkpointing: true\n\
    training:\n  epochs: 12\n  max_steps: 3000\n  max_minutes: 7.5\n  optimization_level: plateau_breaker\n  \
    learning_rate: 3e-4\n  warmup_steps: 77\n  weight_decay: 0.01\n  gradient_clip_norm: 0.7\n  gradient_accumulation_steps: 4\n  \
    ema_decay: 0.99\n  max_bad_steps: 3\n  init_from: runs/a\n  checkpoint_dir: k\n  checkpoint_every: 11\n  keep: 2\n  max_failed_checkpoints: 4\n  \
    enable_evaluation: true\n  evaluation_interval: 13\n  early_stopping_patience: 6\n  sample_every: 0\n  log_every: 5\n  \
    tensorboard_log_dir: t\n  runs_dir: r\n  name: mine\n";

/// Keys that no value is accepted for here.
const REFUSED: [&str; 4] = ["data_device", "model_device", "data_gpu", "model_gpu"];

/// Every key that acts must be read by some command, with a type that fits its kind.
#[test]
fn every_acting_key_of_a_full_file_reaches_the_settings() {
    for file in [&every_key_but(&REFUSED), OTHER_VALUES] {
        let settings = train_with(file, "").unwrap();
        for key in acting_keys().filter(|key| file.contains(&format!("  {}:", key.name))) {
            let origin = &resolved(&settings.resolved, key.name).origin;
            assert!(matches!(origin, Origin::File(_)), "{}: {origin}", key.name);
        }
    }
    let of_examples = train_with(&every_key_but(&REFUSED), "").unwrap();
    assert_eq!(of_examples.stop_at.epochs, Some(100));
    for key in acting_keys().filter(|key| REFUSED.contains(&key.name)) {
        let (value, _) = key.in_example().unwrap();
        let error = train_with(&format!("data:\n  {}: {value}\n", key.name), "").unwrap_err();
        assert!(error.to_string().contains(key.name), "{error}");
    }
}

#[test]
fn the_values_of_a_full_file_arrive_where_they_belong() {
    let settings = train_with(OTHER_VALUES, "").unwrap();
    assert_eq!(settings.model_size, ModelSize::Base);
    assert!(settings.gradient_checkpointing);
    let (steps, minutes, epochs) = (Some(3_000), Some(7.5), Some(12));
    let expected = StopAt {
        steps,
        minutes,
        epochs,
    };
    assert_eq!(settings.stop_at, expected);
    let o = settings.optimization;
    assert_eq!((o.peak_learning_rate, o.warmup_steps), (3e-4, 77));
    assert_eq!((o.weight_decay, o.gradient_clip_norm), (0.01, 0.7));
    assert_eq!(o.gradient_accumulation_steps.get(), 4);
    assert_eq!(o.ema_decay, Some(0.99));
    assert!(matches!(o.decay, Decay::Restarts { .. }));
    let feeding = &settings.feeding;
    assert_eq!((feeding.buffered_batches, feeding.device_slots), (9, 5));
    assert_eq!(feeding.start_delay, Duration::from_millis(1_500));
    assert!(!feeding.caching && !feeding.overlap && !feeding.adapt);
    assert_eq!(settings.checkpoints.every.get(), 11);
    assert_eq!(settings.checkpoints.keep.get(), 2);
    assert_eq!(settings.checkpoints.max_failed.get(), 4);
    let evaluation = settings.evaluation.unwrap();
    assert_eq!((evaluation.every.get(), evaluation.patience), (13, Some(6)));
    assert_eq!(settings.sample_every, None);
    assert_eq!(settings.log_every.get(), 5);
    assert_eq!(settings.run_folder.name, "mine");
    assert_eq!(settings.tensorboard_log_dir, Some(PathBuf::from("t")));
}

#[test]
fn prepare_ignores_what_is_for_training() {
    let file = "data:\n  data_gpu: 0\n  model_gpu: 1\n  mixed_precision: true\n  enable_caching: false\nmodel:\n  size: big\ntraining:\n  epochs: 3\n";
    let settings = prepare_with(file, "").unwrap();
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}

#[test]
fn the_example_file_says_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.example.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    for key in acting_keys() {
        let has_key = text.contains(&format!(" {}:", key.name));
        assert!(has_key, "{} is missing", key.name);
    }
    let same = |example: &[ResolvedSetting], default: &[ResolvedSetting]| {
        assert_eq!(example.len(), default.len());
        for (written, default) in example.iter().zip(default) {
            assert_eq!(written.value, default.value, "{}", written.key.name);
        }
    };
    let example = format!("--config {}", path.display());
    let shown = |flags: &str| prepare(flags).unwrap().resolved;
    same(&shown(&example), &shown(""));
    let shown = |flags: &str| train(flags).unwrap().resolved;
    same(&shown(&example), &shown(""));
}

#[test]
fn filters_that_see_nothing_are_refused_with_the_values_that_work() {
    let found = refused("--f-min 7999");
    for part in [
        "80 of 80 mel filters (n_mels)",
        "(f_min)",
        "(f_max)",
        "n_fft",
        "hint: write --f-min 7100:",
    ] {
        assert!(found.contains(part), "{found}");
    }
    assert!(train("--f-min 7100").is_ok());
    let found = refused("--n-mels 512");
    let hint = "hint: write --n-mels 279, or --n-fft 2048:";
    assert!(found.contains(hint), "{found}");
    // A voice that exists may have some, but not only such.
    assert!(train("--n-mels 512 --resume a").is_ok());
    assert!(train("--f-min 7999 --resume a").is_err());
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let error = prepare("--f-max 20000").unwrap_err().to_string();
    let words = "the audio settings do not go together";
    assert!(error.contains(words), "{error}");
}

#[test]
fn with_no_arguments_the_tiny_voice_is_trained_for_eight_minutes() {
    let settings = train("").unwrap();
    assert_eq!(settings.model_size, ModelSize::Tiny);
    assert_eq!(settings.devices.devices, Devices::Single(DeviceId::CPU));
    assert_eq!(settings.stop_at.minutes, Some(9.0));
    let length = (settings.stop_at.steps, settings.stop_at.epochs);
    assert_eq!(length, (None, None));
    assert_eq!((settings.feeding.workers, settings.compute_threads), (1, 3));
    assert_eq!(settings.data.batches.batch_size.get(), 8);
    assert_eq!(settings.feeding.device_slots, 8);
    assert_eq!(settings.optimization.ema_decay, Some(0.999));
    assert_eq!(settings.run_folder.name, "demo-tiny");
    assert_eq!(settings.max_bad_steps, 20);
    let (init_from, reset) = (None, false);
    assert_eq!(settings.start, Start::New { init_from, reset });
    assert!(settings.notes.is_empty());
}

#[test]
fn a_dataset_of_ones_own_is_trained_for_the_steps_of_the_size() {
    let own = |flags: &str| train(&format!("--train-data /data/LJSpeech-1.1 {flags}")).unwrap();
    let small = own("--model-size small");
    assert_eq!(small.stop_at.steps, Some(100_000));
    assert_eq!(small.stop_at.minutes, None);
    assert_eq!(small.run_folder.name, "LJSpeech-1-1-small");
    assert!(!is_given(&small.resolved, &keys::MAX_STEPS));
    let short = own("--model-size small --max-steps 200");
    assert!(is_given(&short.resolved, &keys::MAX_STEPS));
    assert_eq!(short.optimization.warmup_steps, 20);
    let one_epoch = train("--epochs 1").unwrap();
    assert_eq!(one_epoch.stop_at.minutes, None);
}

#[test]
fn a_level_gives_defaults_that_flags_and_keys_beat() {
    let file = "training:\n  gradient_clip_norm: 2.0\n";
    let settings = train_with(file, "--optimization-level experimental --lr 1e-5").unwrap();
    let o = settings.optimization;
    assert_eq!((o.peak_learning_rate, o.gradient_clip_norm), (1e-5, 2.0));
    assert_eq!(o.weight_decay, 1e-4);
    let origin = &resolved(&settings.resolved, "weight_decay").origin;
    assert!(matches!(origin, Origin::Auto("by optimization_level")));
    let off = train("--ema-decay 0").unwrap();
    assert_eq!(off.optimization.ema_decay, None);
}

#[test]
fn gpus_are_refused_with_a_hint() {
    let both = refused("--data-gpu 0 --model-gpu 1");
    let one = refused("--model-gpu auto");
    let backend = refused("--device vulkan:1");
    let half = refused("--mixed-precision");
    insta::assert_snapshot!([both, one, backend, half].join("\n\n"));
}

#[test]
fn two_lanes_take_half_of_the_cores_each_and_three_slots_at_least() {
    let flags = "--data-device cpu --model-device cpu --prefetch-buffer-size 1";
    let settings = train(flags).unwrap();
    assert!(settings.devices.devices.are_lanes());
    assert_eq!(settings.feeding.device_slots, 3);
    let threads = (settings.compute_threads, settings.feeding.lane_threads);
    assert_eq!(threads, (2, 2));
    let is_note = |note: &Note| note.text.contains("too few for two devices");
    assert!(settings.notes.iter().any(is_note), "{:?}", settings.notes);
}

#[test]
fn memory_limits_need_a_device_and_isolation() {
    let with = |flags: &str| train(&format!("--data-device cpu --model-device cpu {flags}"));
    for (flags, words) in [
        (
            "--model-gpu-memory 1GiB",
            "only with --enable-memory-isolation",
        ),
        ("--enable-memory-isolation", "no limit to hold"),
    ] {
        let error = describe(&with(flags).unwrap_err());
        assert!(error.contains(words), "{flags}: {error}");
    }
    let both = with("--model-gpu-memory 1GiB --enable-memory-isolation").unwrap();
    assert_eq!(both.devices.limits.model, Some(1 << 30));
}

/// A file or a script of a machine with GPUs serves on one without.
#[test]
fn memory_limits_without_a_gpu_are_ignored_with_a_note_from_flag_and_file_alike() {
    let file = "data:\n  model_gpu_memory: 1GB\n  enable_memory_isolation: true\n";
    let flags = "--model-gpu-memory 1GB --enable-memory-isolation";
    for settings in [
        train_with(file, ""),
        train_with(file, "--device cpu"),
        train(flags),
        train(&format!("{flags} --device cpu")),
    ] {
        let settings = settings.unwrap();
        assert_eq!(settings.devices.limits.model, None);
        let is_note = |note: &Note| note.text.contains("no GPU whose memory could be limited");
        assert!(settings.notes.iter().any(is_note), "{:?}", settings.notes);
    }
}

#[test]
fn a_file_for_two_gpus_serves_when_the_flag_says_cpu() {
    let file = "data:\n  data_gpu: 0\n  model_gpu: 1\n";
    let notes = train_with(file, "--device cpu").unwrap().notes;
    assert_eq!(notes.len(), 2);
    assert!(notes[0].text.contains("--device overrides it"), "{notes:?}");
}

#[test]
fn a_file_with_mixed_precision_serves_when_the_flag_says_cpu() {
    let on = |flags: &str| train_with("data:\n  mixed_precision: true\n", flags);
    let error = describe(&on("").unwrap_err());
    assert!(error.contains("`mixed_precision`"), "{error}");
    let settings = on("--device cpu").unwrap();
    assert!(!settings.devices.mixed_precision);
    assert!(settings.notes[0].text.contains("--device overrides it"));
    let shown = resolved(&settings.resolved, "mixed_precision");
    assert_eq!(shown.value, "false");
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    for (flags, words) in [
        ("--disable-static-shapes", "--buckets"),
        ("--no-cache --cache-dir c", "--cache-dir has no effect"),
        (
            "--no-evaluation --early-stopping-patience 3",
            "--early-stopping-patience has no effect",
        ),
        ("--no-evaluation --enable-evaluation", "contradict"),
        ("--dashboard --no-dashboard", "contradict"),
        (
            "--resume --reset-training",
            "--reset-training begins a new one",
        ),
        (
            "--resume runs/a --init-from runs/b",
            "--init-from begins a new one",
        ),
        ("--resume --name mine", "--name has no effect"),
        (
            "--run-dir here --runs-dir there",
            "leave one of the two out",
        ),
        (
            "--max-steps 100 --warmup-steps 100",
            "never reach its highest",
        ),
    ] {
        let text = refused(flags);
        assert!(text.contains(words), "{flags}: {text}");
    }
}

/// An error names a setting as it was typed, also where the flag has another name than the key.
#[test]
fn a_setting_is_called_by_its_flag() {
    let resolver = resolver::Resolver::new(Flags::default(), Verbs::TRAIN).unwrap();
    assert_eq!(resolver.label(&keys::SIZE), "--model-size");
    assert_eq!(resolver.label(&keys::LEARNING_RATE), "--lr");
    assert_eq!(resolver.label(&keys::NUM_WORKERS), "--num-workers");
}

#[test]
fn a_run_is_resumed_with_the_file_it_began_with() {
    let file = "training:\n  init_from: runs/a\n  name: mine\n";
    let settings = train_with(file, "--resume").unwrap();
    assert_eq!(settings.start, Start::Resume { from: None });
}

#[test]
fn more_threads_than_cores_are_taken_and_left_to_the_checks() {
    let settings = train("--num-workers 4 --compute-threads 4").unwrap();
    assert_eq!((settings.feeding.workers, settings.compute_threads), (4, 4));
    assert_eq!(settings.feeding.usual_threads, (1, 3));
}
