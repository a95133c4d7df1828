//! Settings that advice is about. Here they have the names of their keys; how one is typed, and how it stands in the file,
//! only the program knows that has the table of settings: it fills that in with [`SettingNames`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! settings {
    ($($name:ident = $key:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum AdvisedSetting {
            $(#[serde(rename = $key)] $name,)*
        }

        impl AdvisedSetting {
            pub const ALL: &[AdvisedSetting] = &[$(AdvisedSetting::$name,)*];

            pub fn key(self) -> &'static str {
                match self {
                    $(AdvisedSetting::$name => $key,)*
                }
            }
        }
    };
}

settings! {
    BatchSize = "batch_size",
    Buckets = "buckets",
    BufferSize = "buffer_size",
    CacheDir = "cache_dir",
    CheckpointEvery = "checkpoint_every",
    ComputeThreads = "compute_threads",
    EnableCaching = "enable_caching",
    EnableGradientCheckpointing = "enable_gradient_checkpointing",
    EvaluationInterval = "evaluation_interval",
    GradientAccumulationSteps = "gradient_accumulation_steps",
    LogEvery = "log_every",
    MaxMelFrames = "max_mel_frames",
    ModelSize = "size",
    NoOverlap = "no_overlap",
    NumWorkers = "num_workers",
    PadToFixedLength = "pad_to_fixed_length",
    PrefetchBufferSize = "prefetch_buffer_size",
    PrepareOn = "prepare_on",
    RamBudget = "ram_budget",
    Unordered = "unordered",
}

/// As it stands in a sentence: its key in backticks, until [`SettingNames::in_text`] puts the flag there.
impl fmt::Display for AdvisedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.key())
    }
}

/// How a program writes settings.
#[derive(Clone, Copy, Debug)]
pub struct SettingNames {
    /// `--num-workers`
    pub flag: fn(AdvisedSetting) -> String,
    /// With a value, as flag and as a line of the file: `--num-workers 4`, `data: { num_workers: 4 }`.
    pub written: fn(AdvisedSetting, &str) -> (String, String),
}

impl SettingNames {
    /// Puts flags in place of settings.
    pub fn in_text(&self, text: &mut String) {
        for &setting in AdvisedSetting::ALL {
            let written = setting.to_string();
            if text.contains(&written) {
                *text = text.replace(&written, &(self.flag)(setting));
            }
        }
    }
}
