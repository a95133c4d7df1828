//! Precedence, the keys of the file, and what `train` refuses. Tests of one part stand beside it.

use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::train::StopAt;
use super::*;
use crate::args::{PrepareArgs, TrainArgs};
use crate::complaint::describe;
use crate::config::keys::{self, Role};
use voxmill_trainer::device::DeviceId;

fn config(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn shown<'a>(all: &'a [Shown], name: &str) -> &'a Shown {
    all.iter().find(|shown| shown.key.name == name).unwrap()
}

/// `train` with what a test changes, on four cores.
fn train(change: impl FnOnce(&mut TrainArgs)) -> anyhow::Result<TrainSettings> {
    let mut args = TrainArgs::default();
    change(&mut args);
    TrainSettings::resolve_on(args, 4, &Present::default())
}

fn train_with(file: &str) -> anyhow::Result<TrainSettings> {
    let file = config(file);
    train(|args| args.config.config = Some(file.path().to_owned()))
}

fn refused(change: impl FnOnce(&mut TrainArgs)) -> String {
    describe(&train(change).unwrap_err())
}

#[test]
fn flag_beats_file_beats_auto_beats_default() {
    let file =
        config("data:\n  batch_size: 24\n  num_workers: 3\n  n_mels: 100\n  sample_rate: 8000\n");
    let mut args = PrepareArgs::default();
    args.config.config = Some(file.path().to_owned());
    args.batches.batch_size = NonZero::new(32);
    let settings = PrepareSettings::resolve(args).unwrap();
    let origin = |name| &shown(&settings.shown, name).origin;
    assert_eq!(settings.data.batches.batch_size.get(), 32);
    assert_eq!(*origin("batch_size"), Origin::Flag);
    assert_eq!(settings.workers, 3);
    assert!(matches!(origin("num_workers"), Origin::File(place) if place.line == 3));
    assert_eq!(settings.data.audio.f_max, 4000.0);
    assert!(matches!(origin("f_max"), Origin::Auto(_)));
    assert_eq!(*origin("hop_length"), Origin::Default);
}

/// Every key with a value that `train` accepts and that is not its default.
const FULL: &str = "data:\n  train_data: d\n  val_data: v\n  val_fraction: 0.1\n  language: fa\n  max_bad: 2%\n  \
    max_text_length: 99\n  max_mel_frames: 999\n  lexicon: l\n  espeak: true\n  sample_rate: 24000\n  n_fft: 2048\n  \
    hop_length: 300\n  n_mels: 100\n  f_min: 20\n  f_max: 12000\n  trim_db: 40\n  loudness_lufs: -23\n  cache_dir: c\n  \
    cache_budget: 5GB\n  enable_caching: false\n  batch_size: 8\n  buckets: 12\n  pad_to_fixed_length: true\n  \
    enable_static_shapes: true\n  seed: 7\n  num_workers: 2\n  compute_threads: 3\n  ram_budget: 1GB\n  unordered: true\n  \
    no_overlap: true\n  buffer_size: 9\n  prefetch_buffer_size: 5\n  model_start_delay: 1.5\n  auto_tune_performance: false\n  \
    device: cpu\n  prepare_on: model\n  augment_gain_db: 3\n  augment_noise_db: 20\n  augment_masks: 1\n  enable_memory_isolation: false\n  mixed_precision: false\n\
    model:\n  size: normal\n  enable_gradient_checkpointing: true\n\
    training:\n  epochs: 12\n  max_steps: 3000\n  max_minutes: 7.5\n  optimization_level: plateau_breaker\n  \
    learning_rate: 3e-4\n  warmup_steps: 77\n  weight_decay: 0.01\n  gradient_clip_norm: 0.7\n  gradient_accumulation_steps: 4\n  \
    ema_decay: 0.99\n  max_bad_steps: 3\n  init_from: runs/a\n  checkpoint_dir: k\n  checkpoint_every: 11\n  keep: 2\n  \
    enable_evaluation: true\n  evaluation_interval: 13\n  early_stopping_patience: 6\n  sample_every: 0\n  log_every: 5\n  \
    tensorboard_log_dir: t\n  runs_dir: r\n  name: mine\n";

/// Keys that no value is accepted for here, each with one to try.
const REFUSED: [(&str, &str); 6] = [
    ("data_device", "cpu"),
    ("model_device", "cpu"),
    ("data_gpu", "0"),
    ("model_gpu", "1"),
    ("data_gpu_memory", "8GB"),
    ("model_gpu_memory", "8GB"),
];

/// Every key that is said to act must be read by some command, with a type that fits its kind.
#[test]
fn every_acting_key_of_a_full_file_reaches_the_settings() {
    let settings = train_with(FULL).unwrap();
    for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
        if let Some((name, value)) = REFUSED.iter().find(|(name, _)| *name == key.name) {
            let error = train_with(&format!("data:\n  {name}: {value}\n")).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            continue;
        }
        assert!(
            FULL.contains(&format!("  {}:", key.name)),
            "{} is missing from this test",
            key.name
        );
        let origin = &shown(&settings.shown, key.name).origin;
        assert!(matches!(origin, Origin::File(_)), "{}: {origin}", key.name);
    }
}

#[test]
fn the_values_of_a_full_file_arrive_where_they_belong() {
    let settings = train_with(FULL).unwrap();
    assert_eq!(settings.model_size, ModelSize::Base);
    assert!(settings.gradient_checkpointing);
    assert_eq!(
        settings.stop_at,
        StopAt {
            steps: Some(3_000),
            minutes: Some(7.5),
            epochs: Some(12)
        }
    );
    let o = settings.optimization;
    assert_eq!((o.peak_learning_rate, o.warmup_steps), (3e-4, 77));
    assert_eq!((o.weight_decay, o.gradient_clip_norm), (0.01, 0.7));
    assert_eq!(o.gradient_accumulation_steps.get(), 4);
    assert_eq!(o.ema_decay, Some(0.99));
    assert!(matches!(o.schedule, Schedule::CosineRestarts { .. }));
    let feeding = &settings.feeding;
    assert_eq!((feeding.buffered_batches, feeding.device_slots), (9, 5));
    assert_eq!(feeding.start_delay, Duration::from_millis(1_500));
    assert!(!feeding.caching && !feeding.overlap && !feeding.adapt);
    assert_eq!(settings.checkpoints.every.get(), 11);
    assert_eq!(settings.checkpoints.keep.get(), 2);
    let evaluation = settings.evaluation.unwrap();
    assert_eq!((evaluation.every.get(), evaluation.patience), (13, Some(6)));
    assert_eq!(settings.sample_every, None);
    assert_eq!(settings.log_every.get(), 5);
    assert_eq!(settings.run_folder.name, "mine");
    assert_eq!(settings.tensorboard_log_dir, Some(PathBuf::from("t")));
}

#[test]
fn prepare_passes_over_what_is_for_training() {
    let file = config(
        "data:\n  data_gpu: 0\n  model_gpu: 1\n  mixed_precision: true\n  enable_caching: false\nmodel:\n  size: big\ntraining:\n  epochs: 3\n",
    );
    let mut args = PrepareArgs::default();
    args.config.config = Some(file.path().to_owned());
    let settings = PrepareSettings::resolve(args).unwrap();
    assert!(settings.notes.is_empty(), "{:?}", settings.notes);
}

#[test]
fn the_example_file_says_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.example.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
        assert!(
            text.contains(&format!(" {}:", key.name)),
            "{} is missing",
            key.name
        );
    }
    let same = |example: &[Shown], default: &[Shown]| {
        assert_eq!(example.len(), default.len());
        for (written, default) in example.iter().zip(default) {
            assert_eq!(written.value, default.value, "{}", written.key.name);
        }
    };
    let mut args = PrepareArgs::default();
    args.config.config = Some(path.clone());
    let default = PrepareSettings::resolve(PrepareArgs::default()).unwrap();
    same(
        &PrepareSettings::resolve(args).unwrap().shown,
        &default.shown,
    );
    let example = train(|args| args.config.config = Some(path)).unwrap();
    same(&example.shown, &train(|_| ()).unwrap().shown);
}

/// The same file with every key that is commented out taken in.
#[test]
fn what_the_example_file_leaves_out_is_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.example.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let taken_in = |line: &str| {
        let key = line
            .strip_prefix("  # ")
            .and_then(|rest| rest.split_once(": "));
        match key {
            Some((name, _)) if REFUSED.iter().any(|(refused, _)| *refused == name) => None,
            Some((name, value)) if !name.contains(' ') => Some(format!("  {name}: {value}")),
            _ => Some(line.to_owned()),
        }
    };
    let all: Vec<_> = text.lines().filter_map(taken_in).collect();
    let settings = train_with(&all.join("\n")).unwrap();
    assert_eq!(settings.stop_at.epochs, Some(100));
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let mut args = PrepareArgs::default();
    args.audio.f_max = Some(20_000.0);
    let error = PrepareSettings::resolve(args).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the audio settings do not go together"),
        "{error}"
    );
}

#[test]
fn with_no_arguments_the_tiny_voice_is_trained_for_eight_minutes() {
    let settings = train(|_| ()).unwrap();
    assert_eq!(settings.model_size, ModelSize::Tiny);
    assert_eq!(settings.devices.devices, Devices::Single(DeviceId::CPU));
    assert_eq!(settings.stop_at.minutes, Some(9.0));
    assert_eq!(
        (settings.stop_at.steps, settings.stop_at.epochs),
        (None, None)
    );
    assert_eq!((settings.feeding.workers, settings.compute_threads), (1, 3));
    assert_eq!(settings.data.batches.batch_size.get(), 8);
    assert_eq!(settings.feeding.device_slots, 8);
    assert_eq!(settings.optimization.ema_decay, Some(0.999));
    assert_eq!(settings.run_folder.name, "demo-tiny");
    assert_eq!(settings.max_bad_steps, 20);
    assert_eq!(
        settings.start,
        Start::New {
            init_from: None,
            reset: false
        }
    );
    assert!(settings.notes.is_empty());
}

#[test]
fn a_dataset_of_ones_own_is_trained_for_the_steps_of_the_size() {
    let own = |size, steps| {
        let settings = train(|args| {
            args.dataset.train_data = Some("/data/LJSpeech-1.1".into());
            args.model.model_size = Some(size);
            args.length.max_steps = steps;
        });
        settings.unwrap()
    };
    let small = own(ModelSize::Small, None);
    assert_eq!(small.stop_at.steps, Some(100_000));
    assert_eq!(small.stop_at.minutes, None);
    assert_eq!(small.run_folder.name, "LJSpeech-1-1-small");
    assert!(!is_given(&small.shown, &keys::MAX_STEPS));
    let short = own(ModelSize::Small, Some(200));
    assert!(is_given(&short.shown, &keys::MAX_STEPS));
    assert_eq!(short.optimization.warmup_steps, 20);
    let one_epoch = train(|args| args.length.epochs = Some(1)).unwrap();
    assert_eq!(one_epoch.stop_at.minutes, None);
}

#[test]
fn a_level_gives_defaults_that_flags_and_keys_beat() {
    let file = config("training:\n  gradient_clip_norm: 2.0\n");
    let settings = train(|args| {
        args.config.config = Some(file.path().to_owned());
        args.optimization.optimization_level = Some(OptimizationLevel::Experimental);
        args.optimization.lr = Some(1e-5);
    });
    let settings = settings.unwrap();
    let o = settings.optimization;
    assert_eq!((o.peak_learning_rate, o.gradient_clip_norm), (1e-5, 2.0));
    assert_eq!(o.weight_decay, 1e-4);
    let origin = &shown(&settings.shown, "weight_decay").origin;
    assert!(matches!(origin, Origin::Auto("by optimization_level")));
    let off = train(|args| args.optimization.ema_decay = Some(0.0)).unwrap();
    assert_eq!(off.optimization.ema_decay, None);
}

#[test]
fn gpus_are_refused_and_the_way_out_is_told() {
    let both = refused(|args| {
        args.devices.data_gpu = Some("0".into());
        args.devices.model_gpu = Some("1".into());
    });
    let one = refused(|args| args.devices.model_gpu = Some("auto".into()));
    let backend = refused(|args| args.devices.device = "vulkan:1".parse().ok());
    let limit = refused(|args| args.devices.model_gpu_memory = Some(1 << 30));
    let half = refused(|args| args.devices.mixed_precision = Some(true));
    insta::assert_snapshot!([both, one, backend, limit, half].join("\n\n"));
}

#[test]
fn two_lanes_take_half_of_the_cores_each_and_three_slots_at_least() {
    let settings = train(|args| {
        args.devices.data_device = "cpu".parse().ok();
        args.devices.model_device = "cpu".parse().ok();
        args.feed.prefetch_buffer_size = Some(1);
    });
    let settings = settings.unwrap();
    assert!(settings.devices.devices.are_lanes());
    assert_eq!(settings.feeding.device_slots, 3);
    let threads = (settings.compute_threads, settings.feeding.lane_threads);
    assert_eq!(threads, (2, 2));
    let note = settings
        .notes
        .iter()
        .find(|note| note.contains("too few for two devices"));
    assert!(note.is_some(), "{:?}", settings.notes);
}

#[test]
fn memory_limits_need_a_device_and_the_word() {
    let with = |limit: Option<u64>, isolation: Option<bool>| {
        train(|args| {
            args.devices.data_device = "cpu".parse().ok();
            args.devices.model_device = "cpu".parse().ok();
            args.devices.model_gpu_memory = limit;
            args.devices.enable_memory_isolation = isolation;
        })
    };
    let says = |result: anyhow::Result<TrainSettings>, words: &str| {
        let error = crate::complaint::describe(&result.unwrap_err());
        assert!(error.contains(words), "{error}");
    };
    says(
        with(Some(1 << 30), None),
        "only with --enable-memory-isolation",
    );
    says(with(None, Some(true)), "no limit to hold");
    let both = with(Some(1 << 30), Some(true)).unwrap();
    assert_eq!(both.devices.limits.model, Some(1 << 30));
}

#[test]
fn a_file_for_two_gpus_serves_when_the_flag_says_cpu() {
    let file = config("data:\n  data_gpu: 0\n  model_gpu: 1\n");
    let settings = train(|args| {
        args.config.config = Some(file.path().to_owned());
        args.devices.device = "cpu".parse().ok();
    });
    let notes = settings.unwrap().notes;
    assert_eq!(notes.len(), 2);
    assert!(notes[0].contains("--device beats it"), "{notes:?}");
}

#[test]
fn a_file_with_mixed_precision_serves_when_the_flag_says_cpu() {
    let file = config("data:\n  mixed_precision: true\n");
    let on = |device: Option<&str>| {
        train(|args| {
            args.config.config = Some(file.path().to_owned());
            args.devices.device = device.and_then(|name| name.parse().ok());
        })
    };
    let error = crate::complaint::describe(&on(None).unwrap_err());
    assert!(error.contains("`mixed_precision`"), "{error}");
    let settings = on(Some("cpu")).unwrap();
    assert!(!settings.devices.mixed_precision);
    assert!(settings.notes[0].contains("--device beats it"));
    let shown = |name: &str| settings.shown.iter().find(|line| line.key.name == name);
    assert_eq!(shown("mixed_precision").unwrap().value, "false");
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let says = |text: &str, words: &str| assert!(text.contains(words), "{text}");
    says(
        &refused(|args| args.feed.disable_static_shapes = true),
        "--buckets",
    );
    says(
        &refused(|args| {
            args.feed.no_cache = Some(true);
            args.cache.cache_dir = Some("c".into());
        }),
        "--cache-dir has no effect",
    );
    says(
        &refused(|args| {
            args.evaluation.no_evaluation = true;
            args.evaluation.early_stopping_patience = Some(3);
        }),
        "--early-stopping-patience has no effect",
    );
    says(
        &refused(|args| {
            args.evaluation.no_evaluation = true;
            args.evaluation.enable_evaluation = Some(true);
        }),
        "contradict",
    );
    says(
        &refused(|args| {
            args.run.dashboard = true;
            args.run.no_dashboard = true;
        }),
        "contradict",
    );
    says(
        &refused(|args| {
            args.checkpoints.resume = Some(None);
            args.checkpoints.reset_training = true;
        }),
        "--reset-training begins a new one",
    );
    says(
        &refused(|args| {
            args.checkpoints.resume = Some(Some("runs/a".into()));
            args.checkpoints.init_from = Some("runs/b".into());
        }),
        "--init-from begins a new one",
    );
    says(
        &refused(|args| {
            args.checkpoints.resume = Some(None);
            args.run.name = Some("mine".into());
        }),
        "--name has no effect",
    );
    says(
        &refused(|args| {
            args.run.run_dir = Some("here".into());
            args.run.runs_dir = Some("there".into());
        }),
        "leave one of the two out",
    );
    says(
        &refused(|args| {
            args.length.max_steps = Some(100);
            args.optimization.warmup_steps = Some(100);
        }),
        "never reach its highest",
    );
}

#[test]
fn a_run_is_resumed_with_the_file_it_began_with() {
    let file = config("training:\n  init_from: runs/a\n  name: mine\n");
    let settings = train(|args| {
        args.config.config = Some(file.path().to_owned());
        args.checkpoints.resume = Some(None);
    });
    assert_eq!(settings.unwrap().start, Start::Resume { from: None });
}

#[test]
fn more_threads_than_cores_are_taken_and_left_to_the_checks() {
    let settings = train(|args| {
        args.work.num_workers = Some(4);
        args.feed.compute_threads = Some(4);
    });
    let settings = settings.unwrap();
    assert_eq!((settings.feeding.workers, settings.compute_threads), (4, 4));
    assert_eq!(settings.feeding.usual_threads, (1, 3));
}
