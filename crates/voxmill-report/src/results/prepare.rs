//! What `prepare` found and did.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrepareResult {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    pub datasets: Vec<PreparedDataset>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PreparedDataset {
    pub folder: String,
    /// The built-in demo corpus.
    pub demo: bool,
    pub clips: ClipCounts,
    pub hours: f64,
    /// What the files are before they are resampled to one rate and mixed to one channel, the most frequent first.
    pub sources: Vec<SourceGroup>,
    pub languages: Vec<ClipGroup>,
    pub speakers: Vec<ClipGroup>,
    pub seconds: Percentiles,
    pub tokens: Percentiles,
    /// `null` where the folder holds no training clip.
    pub batches: Option<PlannedBatches>,
    /// Hz that clips are resampled to.
    pub sample_rate: u32,
    /// Lengths and shapes are those before trimming.
    pub trimmed: bool,
    /// Bad rows by reason.
    pub quarantine: BTreeMap<String, usize>,
    pub quarantine_file: String,
    pub filtered: BTreeMap<String, usize>,
    /// Names those that are left out for their length, each with the limit. `null` where there are none.
    pub filtered_file: Option<String>,
    pub suspicious: BTreeMap<String, usize>,
    pub suspicious_file: String,
    pub cache: CacheFacts,
    pub time: TimeFacts,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClipCounts {
    pub rows: usize,
    pub usable: usize,
    pub training: usize,
    pub validation: usize,
    pub bad: usize,
    pub filtered: usize,
    pub not_reached: usize,
}

/// The clips whose files are alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SourceGroup {
    pub sample_rate: u32,
    pub channels: u16,
    /// By the name of the file: `wav`, `flac`, `ogg` or `mp3`.
    pub codec: String,
    pub clips: usize,
    pub hours: f64,
}

/// The clips of one language or speaker.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ClipGroup {
    pub name: String,
    pub clips: usize,
    pub hours: f64,
}

/// Nearest-rank percentiles: every figure is the length of a clip that exists.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Percentiles {
    pub min: f64,
    pub p5: f64,
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlannedBatches {
    pub batch_size: u32,
    pub per_epoch: u64,
    pub shapes: Vec<PaddedShape>,
    /// 1 − valid frames / padded frames, masked rows and last batches included.
    pub padding_waste: f64,
    pub padding_waste_of_random_batches: f64,
    pub padding_waste_of_padding_to_the_longest: f64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PaddedShape {
    pub frames: u32,
    pub tokens: u32,
    pub rows: u32,
    pub clips: usize,
    pub batches: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CacheFacts {
    pub folder: String,
    pub clips: usize,
    pub bytes: u64,
    pub budget: Option<u64>,
    pub reused: usize,
    pub rebuilt: usize,
    pub reasons: BTreeMap<String, usize>,
    /// Of the rebuilt: only the text was new, the frames were kept.
    pub frames_kept: usize,
    pub not_cached_for_budget: usize,
    pub up_to_date: bool,
    pub collected: Option<CollectedFacts>,
    /// `null` where nothing was damaged.
    pub repaired: Option<RepairedFacts>,
}

/// Files of the cache that were damaged and have been replaced; clips of a shard are made again.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RepairedFacts {
    pub indexes: usize,
    pub shards: usize,
}

/// What `--gc` deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CollectedFacts {
    pub clips: usize,
    pub bytes_freed: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimeFacts {
    pub scan_seconds: f64,
    pub features_seconds: f64,
    pub total_seconds: f64,
    /// `null` when no features were computed.
    pub clips_per_second: Option<f64>,
    pub audio_hours_per_hour: Option<f64>,
}
