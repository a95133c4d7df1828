//! What a run records of itself at its start, for a report that is made from the log alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shape::Shape;

/// What a run is trained on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetFacts {
    /// Rows of the manifests, usable or not.
    pub rows: u64,
    /// To train on.
    pub clips: u64,
    /// Held out.
    pub validation: u64,
    /// How many of the clips to train on have which length: `count` of them are longer than the entry before
    /// and at most `seconds` long.
    pub lengths: Vec<LengthCount>,
    pub buckets: Vec<BucketFacts>,
    /// Bad rows by reason.
    pub quarantine: BTreeMap<String, u64>,
    /// Rows that the settings leave out, by reason.
    pub filtered: BTreeMap<String, u64>,
}

/// Clips up to a length, and above that of the group before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthCount {
    pub seconds: f64,
    pub count: u64,
}

/// A shape of batches, and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFacts {
    #[serde(flatten)]
    pub shape: Shape,
    pub clips: u64,
    /// In an epoch.
    pub batches: u64,
}

/// A setting as the run had it, whether anybody gave it or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSetting {
    /// Of the configuration file.
    pub section: String,
    pub name: String,
    pub value: String,
    /// `default`, `flag`, a place in a file, or why the program chose it.
    pub origin: String,
    /// As it stands in a file, where somebody gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
}
