//! What `validate` found.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

/// Counts, readiness and busy share are those of the corrected copy where there is one.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ValidateResult {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// Whether `train` would start.
    pub ready: bool,
    /// Ready, and without warnings.
    pub passed: bool,
    pub config: Option<String>,
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    pub checks: Vec<CheckResult>,
    pub machine: MachineFacts,
    pub model_device: Option<String>,
    pub data_device: Option<String>,
    /// One device prepares and another one trains.
    #[serde(skip)]
    pub two_devices: bool,
    /// `null` where the settings contradict each other or the dataset cannot be read.
    pub dataset: Option<DatasetFacts>,
    pub disk: Option<DiskSpeed>,
    /// The busy share that was measured in the newest run like this one.
    pub busy: Option<MeasuredBusy>,
    pub fixed: Option<FixedCopy>,
}

/// The smaller, the graver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    /// `train` would refuse it, or could not do it.
    Error,
    /// It costs time, memory or clips.
    Warning,
    Note,
}

impl CheckLevel {
    pub fn name(self) -> &'static str {
        match self {
            CheckLevel::Error => "error",
            CheckLevel::Warning => "warning",
            CheckLevel::Note => "note",
        }
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckResult {
    pub level: CheckLevel,
    pub key: Option<String>,
    pub section: Option<String>,
    /// `null` where it is about no setting.
    pub place: Option<SettingPlace>,
    pub what: String,
    pub costs: Option<String>,
    pub write: Vec<SettingLine>,
    pub hint: Option<String>,
}

/// Where the setting was given.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SettingPlace {
    File {
        file: String,
        line: usize,
        column: usize,
        /// That line of the file.
        #[serde(skip)]
        source: Option<String>,
    },
    Flag {
        flag: Option<String>,
        value: Option<String>,
        /// The flag as it was typed.
        #[serde(skip)]
        typed: String,
    },
    Default {
        default: String,
        why: Option<String>,
        /// Whether there is a file that could have set it.
        #[serde(skip)]
        has_file: bool,
    },
}

/// A setting as it should stand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingLine {
    pub section: String,
    pub key: String,
    /// `null`: leave it out.
    pub value: Option<String>,
    pub line: Option<String>,
    pub flag: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MachineFacts {
    pub cpu: Option<String>,
    pub cores: usize,
    pub memory_bytes: Option<u64>,
    pub memory_available_bytes: Option<u64>,
}

/// The dataset and the plan of an epoch.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DatasetFacts {
    pub folder: String,
    pub demo: bool,
    pub rows: usize,
    pub to_train_on: usize,
    pub held_out: usize,
    pub bad: usize,
    pub left_out_for_length: usize,
    pub audio_seconds: f64,
    /// The longest clips, with their seconds.
    pub longest: Vec<(String, f64)>,
    pub batch_size: u32,
    pub batches_an_epoch: u64,
    pub shapes: usize,
    pub padding_waste: f64,
    pub padding_waste_of_padding_to_the_longest: f64,
    /// Rows, frames, tokens of the batch that needs the most.
    pub largest_batch: [u32; 3],
    pub model_device_bytes: u64,
    pub weights_bytes: u64,
    pub training_bytes: u64,
    pub waiting_bytes: u64,
    pub waiting_batches: usize,
    pub data_device_bytes: u64,
    pub making_bytes: u64,
    /// What of `ram_budget` is for batches.
    pub batch_budget_bytes: u64,
    pub ram_budget_bytes: u64,
    pub cached_clips: usize,
    pub all_clips: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiskSpeed {
    pub read_bytes_per_second: Option<f64>,
    pub read_files: Option<usize>,
    pub read_bytes: Option<u64>,
    pub page_cache_may_hold_them: bool,
    pub checkpoints: FolderRoom,
    pub cache: FolderRoom,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FolderRoom {
    pub folder: String,
    pub needed_bytes: u64,
    pub free_bytes: Option<u64>,
    pub writable: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredBusy {
    pub share: f64,
    pub run: PathBuf,
    pub steps: u64,
    pub seconds_per_step: f64,
}

/// What `--fix` wrote.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FixedCopy {
    /// `null`: there was nothing to write.
    pub file: Option<PathBuf>,
    pub changes: Vec<ChangedLine>,
    /// What is found in the copy.
    pub checks: Option<Vec<CheckResult>>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChangedLine {
    pub line: usize,
    /// `null`: the line is new.
    pub before: Option<String>,
    pub after: String,
}
