//! What came of a training run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use voxmill_analysis::bottleneck::Finding;
use voxmill_analysis::timing::Spread;

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 2;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Trained {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The run folder.
    pub run: PathBuf,
    /// Why it stopped.
    pub stopped: String,
    pub step: u64,
    pub steps_of_this_start: u64,
    pub seconds: f64,
    pub frames_per_second: f64,
    pub share_waiting: f64,
    pub share_training: f64,
    pub share_overhead: f64,
    /// The newest mel error of the validation split.
    pub held_out_mel: Option<f64>,
    pub best: Option<BestStep>,
    pub best_checkpoint: Option<PathBuf>,
    /// Steps left out because of NaN or Inf.
    pub bad_steps: u64,
    /// Attempts to write a checkpoint that failed in this session.
    pub failed_checkpoints: u64,
    pub files_decoded: u64,
    pub length_scale: f64,
    pub samples: Vec<PathBuf>,
    pub step_ms: Option<Spread>,
    pub variation: Option<f64>,
    pub padding_waste: Option<f64>,
    pub peak_host_bytes: Option<u64>,
    /// The gravest one.
    pub finding: Option<Finding>,
    pub peak_bytes_by_device: BTreeMap<String, u64>,
    /// Of the data device's thread, with two devices.
    pub share_data_device_busy: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BestStep {
    pub step: u64,
    pub loss: f64,
}
