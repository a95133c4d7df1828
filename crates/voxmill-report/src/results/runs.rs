//! The runs below a folder.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunList {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// Where they were looked for.
    pub runs_dir: PathBuf,
    /// The newest last.
    pub runs: Vec<ListedRun>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ListedRun {
    pub name: String,
    pub path: PathBuf,
    /// `train` or `profile`; absent where the log does not say.
    pub verb: Option<String>,
    pub state: ListedState,
    /// It ended without an end in its log.
    pub killed: bool,
    /// The last one.
    pub step: u64,
    /// The step of the lowest mel error on held-out clips, and the error.
    pub best_held_out: Option<BestHeldOut>,
    /// When it was last started, in seconds since 1970.
    pub started_unix_seconds: Option<f64>,
    /// Of its last start.
    pub seconds: f64,
    /// Of all files in its folder.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedState {
    Running,
    /// By a person, a signal or a kill.
    Stopped,
    Finished,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BestHeldOut {
    pub step: u64,
    pub mel: f64,
}
