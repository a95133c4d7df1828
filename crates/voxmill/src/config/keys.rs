//! The table of keys: for each, what it accepts and whether it acts or has no meaning here.
//!
//! The names are those of the earlier Python trainer's `config.yaml`, so that a file from there
//! can be pointed at Voxmill; a key that did nothing but steer TensorFlow is taken, named once,
//! and has no effect. Everything that a flag sets can also be set in the file, but for what belongs to
//! one call ([`Section::Call`]).

use super::value::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Data,
    Model,
    Training,
    /// In no file: a flag that belongs to one call.
    Call,
}

impl Section {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::Data => "data",
            Section::Model => "model",
            Section::Training => "training",
            Section::Call => "flags",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Read by at least one command; the others pass over it.
    Acts,
    /// Another name for the key given here.
    Alias(&'static str),
    /// Accepted and without effect, for the reason given.
    NoMeaning(&'static str),
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) section: Section,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
}

impl PartialEq for Key {
    /// Names are unique.
    fn eq(&self, other: &Key) -> bool {
        self.name == other.name
    }
}

const fn whole(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max }
}

const fn number(min: f64, max: f64) -> Kind {
    Kind::Number { min, max }
}

macro_rules! keys {
    ($($constant:ident: $section:ident . $name:literal, $kind:expr, $role:expr;)*) => {
        $(pub(crate) static $constant: Key = Key {
            section: Section::$section,
            name: $name,
            kind: $kind,
            role: $role,
        };)*
        /// Every key that may stand in a file.
        pub(crate) static KEYS: &[&Key] = &[$(&$constant),*];
    };
}

macro_rules! flags {
    ($($constant:ident: $name:literal, $kind:expr;)*) => {
        $(pub(crate) static $constant: Key = Key {
            section: Section::Call,
            name: $name,
            kind: $kind,
            role: Role::Acts,
        };)*
    };
}

const WHOLE_EPOCH: Role = Role::NoMeaning("the batch plan shuffles the whole epoch");
const TENSORFLOW: Role = Role::NoMeaning("it steered TensorFlow");
const ALWAYS: Role = Role::NoMeaning("it is always so here");

/// `normal` is another word for `base`; `nano` is for tests.
const PREPARE_PLACES: &[&str] = &["auto", "host", "data", "model"];
const MODEL_SIZES: &[&str] = &["nano", "tiny", "small", "base", "normal", "big"];
const OPTIMIZATION_LEVELS: &[&str] = &["basic", "enhanced", "experimental", "plateau_breaker"];

use Role::{Acts, Alias};

keys! {
    // The dataset.
    TRAIN_DATA: Data."train_data", Kind::Path, Acts;
    VAL_DATA: Data."val_data", Kind::Path, Acts;
    VAL_FRACTION: Data."val_fraction", Kind::Share, Acts;
    LANGUAGE: Data."language", Kind::Language, Acts;
    MAX_BAD: Data."max_bad", Kind::Share, Acts;
    MAX_TEXT_LENGTH: Data."max_text_length", whole(1, 1_000_000), Acts;
    MAX_MEL_FRAMES: Data."max_mel_frames", whole(1, 1_000_000), Acts;
    // Text.
    LEXICON: Data."lexicon", Kind::Path, Acts;
    ESPEAK: Data."espeak", Kind::Switch, Acts;
    // Audio.
    SAMPLE_RATE: Data."sample_rate", whole(8_000, 96_000), Acts;
    N_FFT: Data."n_fft", whole(64, 16_384), Acts;
    HOP_LENGTH: Data."hop_length", whole(16, 8_192), Acts;
    N_MELS: Data."n_mels", whole(8, 512), Acts;
    F_MIN: Data."f_min", number(0.0, 48_000.0), Acts;
    F_MAX: Data."f_max", number(1.0, 48_000.0), Acts;
    TRIM_DB: Data."trim_db", number(10.0, 120.0), Acts;
    LOUDNESS_LUFS: Data."loudness_lufs", number(-60.0, -5.0), Acts;
    // The cache.
    CACHE_DIR: Data."cache_dir", Kind::Path, Acts;
    CACHE_BUDGET: Data."cache_budget", Kind::Bytes, Acts;
    ENABLE_CACHING: Data."enable_caching", Kind::Switch, Acts;
    // Batches.
    BATCH_SIZE: Data."batch_size", whole(1, 4_096), Acts;
    BUCKETS: Data."buckets", whole(1, 64), Acts;
    PAD_TO_FIXED_LENGTH: Data."pad_to_fixed_length", Kind::Switch, Acts;
    ENABLE_STATIC_SHAPES: Data."enable_static_shapes", Kind::Switch, Acts;
    SEED: Data."seed", whole(0, u64::MAX), Acts;
    // The pipeline.
    NUM_WORKERS: Data."num_workers", whole(1, 256), Acts;
    COMPUTE_THREADS: Data."compute_threads", whole(1, 256), Acts;
    RAM_BUDGET: Data."ram_budget", Kind::Bytes, Acts;
    UNORDERED: Data."unordered", Kind::Switch, Acts;
    NO_OVERLAP: Data."no_overlap", Kind::Switch, Acts;
    BUFFER_SIZE: Data."buffer_size", whole(1, 100_000), Acts;
    PIPELINE_BUFFER_SIZE: Data."pipeline_buffer_size", whole(1, 100_000), Alias("buffer_size");
    PREFETCH_BUFFER_SIZE: Data."prefetch_buffer_size", whole(1, 64), Acts;
    MODEL_START_DELAY: Data."model_start_delay", number(0.0, 3_600.0), Acts;
    AUTO_TUNE_PERFORMANCE: Data."auto_tune_performance", Kind::Switch, Acts;
    // Devices.
    DEVICE: Data."device", Kind::Device, Acts;
    DATA_DEVICE: Data."data_device", Kind::Device, Acts;
    MODEL_DEVICE: Data."model_device", Kind::Device, Acts;
    DATA_GPU: Data."data_gpu", Kind::DeviceIndex, Acts;
    MODEL_GPU: Data."model_gpu", Kind::DeviceIndex, Acts;
    PREPARE_ON: Data."prepare_on", Kind::OneOf(PREPARE_PLACES), Acts;
    AUGMENT_GAIN_DB: Data."augment_gain_db", number(0.0, 40.0), Acts;
    AUGMENT_NOISE_DB: Data."augment_noise_db", number(0.0, 100.0), Acts;
    AUGMENT_MASKS: Data."augment_masks", whole(0, 10), Acts;
    DATA_GPU_MEMORY: Data."data_gpu_memory", Kind::Bytes, Acts;
    MODEL_GPU_MEMORY: Data."model_gpu_memory", Kind::Bytes, Acts;
    ENABLE_MEMORY_ISOLATION: Data."enable_memory_isolation", Kind::Switch, Acts;
    MIXED_PRECISION: Data."mixed_precision", Kind::Switch, Acts;
    // What only the earlier trainer needed.
    SHUFFLE_BUFFER_MULTIPLIER: Data."shuffle_buffer_multiplier", number(0.0, 1e9), WHOLE_EPOCH;
    PIN_MEMORY: Data."pin_memory", Kind::Switch, Role::NoMeaning("the device library stages its own transfers");
    PERSISTENT_WORKERS: Data."persistent_workers", Kind::Switch, ALWAYS;
    PREFETCH_TO_GPU: Data."prefetch_to_gpu", Kind::Switch, ALWAYS;
    ENHANCED_GPU_PREFETCH: Data."enhanced_gpu_prefetch", Kind::Switch, ALWAYS;
    OPTIMIZE_CPU_GPU_OVERLAP: Data."optimize_cpu_gpu_overlap", Kind::Switch, ALWAYS;
    ENABLE_PARALLEL_BATCH: Data."enable_parallel_batch", Kind::Switch, ALWAYS;
    ENABLE_MAP_FUSION: Data."enable_map_fusion", Kind::Switch, TENSORFLOW;
    USE_TF_NATIVE_LOADING: Data."use_tf_native_loading", Kind::Switch, TENSORFLOW;
    ENABLE_XLA: Data."enable_xla", Kind::Switch, TENSORFLOW;
    // The model and its training.
    SIZE: Model."size", Kind::OneOf(MODEL_SIZES), Acts;
    ENABLE_GRADIENT_CHECKPOINTING: Model."enable_gradient_checkpointing", Kind::Switch, Acts;
    EPOCHS: Training."epochs", whole(1, 1_000_000), Acts;
    MAX_STEPS: Training."max_steps", whole(1, 1_000_000_000), Acts;
    MAX_MINUTES: Training."max_minutes", number(0.01, 1_000_000.0), Acts;
    OPTIMIZATION_LEVEL: Training."optimization_level", Kind::OneOf(OPTIMIZATION_LEVELS), Acts;
    LEARNING_RATE: Training."learning_rate", number(1e-9, 1.0), Acts;
    WARMUP_STEPS: Training."warmup_steps", whole(0, 10_000_000), Acts;
    WEIGHT_DECAY: Training."weight_decay", number(0.0, 1.0), Acts;
    GRADIENT_CLIP_NORM: Training."gradient_clip_norm", number(1e-6, 1e6), Acts;
    GRADIENT_ACCUMULATION_STEPS: Training."gradient_accumulation_steps", whole(1, 4_096), Acts;
    EMA_DECAY: Training."ema_decay", number(0.0, 0.999_999), Acts;
    MAX_BAD_STEPS: Training."max_bad_steps", whole(0, 1_000_000), Acts;
    INIT_FROM: Training."init_from", Kind::Path, Acts;
    CHECKPOINT_DIR: Training."checkpoint_dir", Kind::Path, Acts;
    CHECKPOINT_EVERY: Training."checkpoint_every", whole(1, 1_000_000_000), Acts;
    KEEP: Training."keep", whole(1, 10_000), Acts;
    ENABLE_EVALUATION: Training."enable_evaluation", Kind::Switch, Acts;
    EVALUATION_INTERVAL: Training."evaluation_interval", whole(1, 1_000_000_000), Acts;
    EARLY_STOPPING_PATIENCE: Training."early_stopping_patience", whole(1, 1_000_000), Acts;
    SAMPLE_EVERY: Training."sample_every", whole(0, 1_000_000_000), Acts;
    LOG_EVERY: Training."log_every", whole(1, 1_000_000), Acts;
    TENSORBOARD_LOG_DIR: Training."tensorboard_log_dir", Kind::Path, Acts;
    RUNS_DIR: Training."runs_dir", Kind::Path, Acts;
    NAME: Training."name", Kind::Name, Acts;
}

flags! {
    RESUME: "resume", Kind::Path;
    RESET_TRAINING: "reset_training", Kind::Switch;
    RUN_DIR: "run_dir", Kind::Path;
    DASHBOARD: "dashboard", Kind::Switch;
    SHUFFLE_TEXTS: "shuffle_texts", Kind::Switch;
    REPLAY: "replay", Kind::Switch;
    // `synthesize`.
    TEXT_FILE: "text_file", Kind::Path;
    CHECKPOINT: "checkpoint", Kind::Path;
    REFERENCE_AUDIO: "reference_audio", Kind::Path;
    SPEAKER: "speaker", Kind::Name;
    SPEAKING_RATE: "speaking_rate", number(0.25, 4.0);
    OUTPUT: "output", Kind::Path;
    GRIFFIN_LIM_ITERATIONS: "griffin_lim_iterations", whole(1, 1_000);
}

pub(crate) fn find(section: Section, name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .copied()
        .find(|key| key.section == section && key.name == name)
}

/// The key whose name is most like `name`, if any is like it at all; the same section wins a tie.
pub(crate) fn nearest(section: Section, name: &str) -> Option<&'static Key> {
    let likeness = |key: &Key| {
        let same = if key.section == section { 0.01 } else { 0.0 };
        strsim::jaro_winkler(key.name, &name.to_ascii_lowercase()) + same
    };
    KEYS.iter()
        .copied()
        .map(|key| (likeness(key), key))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_aliases_point_at_keys() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS[..i].iter().all(|other| other.name != key.name),
                "{} stands twice",
                key.name
            );
            if let Alias(target) = key.role {
                let target = find(key.section, target).unwrap();
                assert_eq!(target.kind, key.kind);
            }
        }
    }

    #[test]
    fn every_key_of_the_earlier_trainer_is_known() {
        let earlier = "batch_size num_workers prefetch_buffer_size pipeline_buffer_size model_start_delay data_gpu \
            model_gpu pad_to_fixed_length max_text_length max_mel_frames mixed_precision enable_caching \
            auto_tune_performance shuffle_buffer_multiplier pin_memory persistent_workers prefetch_to_gpu \
            enhanced_gpu_prefetch optimize_cpu_gpu_overlap enable_parallel_batch enable_map_fusion \
            use_tf_native_loading enable_xla sample_rate n_mels n_fft hop_length language";
        for name in earlier.split_whitespace() {
            assert!(find(Section::Data, name).is_some(), "{name}");
        }
        for name in ["size", "enable_gradient_checkpointing"] {
            assert!(find(Section::Model, name).is_some(), "{name}");
        }
        for name in "epochs learning_rate gradient_accumulation_steps warmup_steps weight_decay gradient_clip_norm early_stopping_patience".split(' ') {
            assert!(find(Section::Training, name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        assert_eq!(
            nearest(Section::Data, "batch_sise").unwrap().name,
            "batch_size"
        );
        assert_eq!(
            nearest(Section::Data, "lerning_rate").unwrap().name,
            "learning_rate"
        );
        assert!(nearest(Section::Data, "zzz").is_none());
    }
}
