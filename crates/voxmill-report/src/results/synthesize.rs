//! What `synthesize` wrote.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Synthesized {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    pub files: Vec<SpokenFile>,
}

/// One wav file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SpokenFile {
    pub path: PathBuf,
    /// Who speaks in it.
    pub speakers: Vec<String>,
    /// The length of the speech.
    pub seconds: f64,
    pub took_seconds: f64,
    /// Of that, the time of the model itself.
    pub model_seconds: f64,
    /// Time taken over the length of the speech.
    pub real_time_factor: f64,
}
