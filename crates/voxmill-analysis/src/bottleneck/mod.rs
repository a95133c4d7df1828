//! What limits a run, by which evidence, and what to change.
//!
//! The thresholds that users know are [`thresholds`]. Which *cause* lies behind a wait is decided in
//! `waiting`, from the stage that was late back to what held it up.

mod beside;
#[cfg(test)]
mod tests;
mod waiting;

use serde::{Deserialize, Serialize};

use crate::profile::{Profile, StageTime};
use crate::run::{Run, fact};
use crate::timing::Line;

pub mod thresholds {
    /// Shares of the model thread's time.
    pub const LOAD: f64 = 0.20;
    pub const TRANSFER: f64 = 0.15;
    pub const TRAIN: f64 = 0.50;
    pub const MODEL_BUSY: f64 = 0.70;
    pub const DATA_BUSY: f64 = 0.80;
    pub const VARIATION: f64 = 0.30;
    /// From here on waiting is worth a line.
    pub const STALL: f64 = 0.05;
    pub const GAP: f64 = 0.15;
    pub const INTERFERENCE: f64 = 0.10;
    pub const PADDING: f64 = 0.25;
    /// Of the machine's cores, taken by others.
    pub const RIVALS: f64 = 0.25;
    /// Of the workers' time, spent waiting for bytes of the budget.
    pub const BYTES: f64 = 0.25;
    /// One item beside the usual ones.
    pub const HUGE: f64 = 8.0;
    /// Of a device's memory.
    pub const MEMORY_HARDLY_USED: f64 = 0.30;
    /// Of the memory, from the second quarter of a long run to its last.
    pub const MEMORY_GROWTH: f64 = 0.10;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    SlowDisk,
    FewWorkers,
    SlowWorkers,
    SmallBuffer,
    SlowResampling,
    HugeClip,
    SlowCollating,
    SlowTransfer,
    MemoryBudget,
    ColdCache,
    ModelTooSmall,
    Oversubscribed,
    Interference,
    Padding,
    NoOverlap,
    Variation,
    Gaps,
    DataDeviceFull,
    BatchTooSmall,
    SwapInUse,
    MemoryGrowing,
    CpuPinned,
    StepBound,
}

impl Cause {
    /// In one word, what a run with this cause is bound by.
    pub fn bound_by(self) -> &'static str {
        match self {
            Cause::SlowDisk => "fetch-bound",
            Cause::FewWorkers
            | Cause::SlowWorkers
            | Cause::SlowResampling
            | Cause::HugeClip
            | Cause::ColdCache
            | Cause::ModelTooSmall
            | Cause::Oversubscribed
            | Cause::CpuPinned => "CPU-bound",
            Cause::SlowCollating => "collate-bound",
            Cause::SlowTransfer | Cause::DataDeviceFull => "transfer-bound",
            Cause::MemoryBudget | Cause::SwapInUse | Cause::MemoryGrowing => "memory-bound",
            Cause::SmallBuffer | Cause::Variation => "jitter",
            Cause::Interference => "interference",
            Cause::NoOverlap | Cause::Gaps => "gaps",
            Cause::Padding | Cause::BatchTooSmall | Cause::StepBound => "step-bound",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Bottleneck,
    Warning,
    Note,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub cause: Cause,
    pub bound_by: String,
    pub level: Level,
    /// The share of the time that it costs; what a change can gain at the most.
    pub costs: f64,
    pub what: String,
    pub evidence: Vec<Evidence>,
    pub changes: Vec<Change>,
}

/// A measure and what it is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub measure: String,
    pub value: f64,
    pub threshold: f64,
}

/// What to do about it: words, and where there is one, the flag and the line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub what: String,
    pub flag: Option<String>,
    pub config: Option<String>,
}

impl Change {
    fn words(what: impl Into<String>) -> Change {
        Change {
            what: what.into(),
            flag: None,
            config: None,
        }
    }

    /// A setting that is `--some-name` on the command line and `some_name` in the file.
    fn set(name: &str, value: impl ToString, what: impl Into<String>) -> Change {
        let value = value.to_string();
        let key = name.replace('-', "_");
        Change {
            what: what.into(),
            flag: Some(format!("--{name} {value}")),
            config: Some(format!("data: {{ {key}: {value} }}")),
        }
    }
}

fn evidence(measure: impl Into<String>, value: f64, threshold: f64) -> Evidence {
    Evidence {
        measure: measure.into(),
        value,
        threshold,
    }
}

/// What there is to say, the most expensive first. Where nothing limits but the model, that is said.
pub fn find(profile: &Profile, run: &Run) -> Vec<Finding> {
    if profile.steps == 0 {
        return Vec::new();
    }
    let sight = Sight::new(profile, run);
    let mut findings: Vec<Finding> = [
        sight.waiting(),
        sight.rivals(),
        sight.interference(),
        sight.padding(),
        sight.gaps(),
        sight.variation(),
        sight.data_device(),
        sight.memory_hardly_used(),
        sight.swap(),
        sight.growth(),
        sight.pinned(),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by(|a, b| a.level.cmp(&b.level).then(b.costs.total_cmp(&a.costs)));
    if findings.iter().all(|finding| finding.level == Level::Note) {
        findings.insert(0, sight.step_bound());
    }
    findings
}

struct Sight<'a> {
    profile: &'a Profile,
    run: &'a Run,
    line: Line,
    cores: f64,
}

impl<'a> Sight<'a> {
    fn new(profile: &'a Profile, run: &'a Run) -> Sight<'a> {
        Sight {
            profile,
            run,
            line: Line::of(&run.steps),
            cores: run.number(fact::CORES).unwrap_or(1.0).max(1.0),
        }
    }

    fn stage(&self, name: &str) -> Option<&StageTime> {
        self.profile.stages.iter().find(|stage| stage.name == name)
    }

    fn finding(
        &self,
        cause: Cause,
        level: Level,
        costs: f64,
        what: String,
        evidence: Vec<Evidence>,
        changes: Vec<Change>,
    ) -> Option<Finding> {
        Some(Finding {
            bound_by: cause.bound_by().to_owned(),
            cause,
            level,
            costs,
            what,
            evidence,
            changes,
        })
    }
}
