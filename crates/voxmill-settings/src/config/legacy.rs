//! Names of the earlier Python trainer's `config.yaml` that are no settings here.
//!
//! A file from there can be pointed at Voxmill: most names are the same, one is another name of ours,
//! and a key that did nothing but steer TensorFlow is taken, named once, and has no effect.

use super::keys::{Key, Role, Verbs, legacy_key, settings};
use super::value::Kind;

const TENSORFLOW: &str = "TensorFlow only";
const ALWAYS: &str = "it is always so here";

/// Accepted and without effect.
const fn nothing(name: &'static str, why: &'static str) -> Key {
    legacy_key(name, Kind::Switch, Role::NoMeaning(why))
}

settings! { LEGACY: Data, "", Verbs::NONE;
    PIPELINE_BUFFER_SIZE = legacy_key("pipeline_buffer_size", Kind::Whole { min: 1, max: 100_000 }, Role::Alias("buffer_size"));
    SHUFFLE_BUFFER_MULTIPLIER = legacy_key("shuffle_buffer_multiplier", Kind::Number { min: 0.0, max: 1e9 }, Role::NoMeaning("the batch plan shuffles the whole epoch"));
    PIN_MEMORY = nothing("pin_memory", "the device library stages its own transfers");
    PERSISTENT_WORKERS = nothing("persistent_workers", ALWAYS);
    PREFETCH_TO_GPU = nothing("prefetch_to_gpu", ALWAYS);
    ENHANCED_GPU_PREFETCH = nothing("enhanced_gpu_prefetch", ALWAYS);
    OPTIMIZE_CPU_GPU_OVERLAP = nothing("optimize_cpu_gpu_overlap", ALWAYS);
    ENABLE_PARALLEL_BATCH = nothing("enable_parallel_batch", ALWAYS);
    ENABLE_MAP_FUSION = nothing("enable_map_fusion", TENSORFLOW);
    USE_TF_NATIVE_LOADING = nothing("use_tf_native_loading", TENSORFLOW);
    ENABLE_XLA = nothing("enable_xla", TENSORFLOW);
}

#[cfg(test)]
mod tests {
    use super::super::keys::{Section, find};
    use super::*;

    #[test]
    fn another_name_accepts_what_the_key_itself_does() {
        for key in LEGACY {
            if let Role::Alias(target) = key.role {
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
}
