//! What limits a run, by which evidence, and what to change.
//!
//! The thresholds that users know are [`thresholds`]. Which *cause* lies behind a wait is decided in
//! `waiting`, from the stage that was late back to what held it up.

mod resources;
#[cfg(test)]
mod tests;
mod waiting;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::stage::StageId;

use crate::profile::{Profile, StageTime};
use crate::run::{Run, fact};
use crate::setting::{AdvisedSetting, SettingNames};
use crate::simulate::what_if::{Likely, is_known};
use crate::timing::Line;

pub mod thresholds {
    /// Shares of the model device's time.
    pub const LOAD: f64 = 0.20;
    /// Share of the time in moving batches.
    pub const TRANSFER: f64 = 0.15;
    /// Share of the time in training.
    pub const TRAIN: f64 = 0.50;
    /// Share of the time that the data device's thread is at work.
    pub const DATA_BUSY: f64 = 0.80;
    /// How far steps of one shape vary.
    pub const VARIATION: f64 = 0.30;
    /// From here on waiting is worth a finding.
    pub const STALL: f64 = 0.05;
    /// Share of the time between steps.
    pub const GAP: f64 = 0.15;
    /// How much slower steps are while workers work.
    pub const INTERFERENCE: f64 = 0.10;
    /// Share of all frames.
    pub const PADDING: f64 = 0.25;
    /// Of the machine's cores, taken by others.
    pub const RIVALS: f64 = 0.25;
    /// Of the workers' time, spent waiting for bytes of the budget.
    pub const BYTES: f64 = 0.25;
    /// One item, as a multiple of the slow ones (p95).
    pub const HUGE: f64 = 8.0;
    /// The least that a device must be busy before its kernels are looked at.
    pub const LAUNCH_BUSY: f64 = 0.70;
    /// Of the time that a device is busy, the part in which its driver sees no kernel run.
    pub const LAUNCH_IDLE: f64 = 0.30;
    /// Of a device's memory.
    pub const MEMORY_HARDLY_USED: f64 = 0.30;
    /// Of the memory, from the second quarter of a long run to its last.
    pub const MEMORY_GROWTH: f64 = 0.10;
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
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
    LaunchBound,
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
            Cause::LaunchBound => "launch-bound",
            Cause::Padding | Cause::BatchTooSmall | Cause::StepBound => "step-bound",
        }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Bottleneck,
    Warning,
    Note,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub cause: Cause,
    pub bound_by: String,
    pub level: Level,
    /// The share of the time that it costs; what a change can gain at the most.
    pub costs: f64,
    pub what: String,
    pub evidence: Vec<Evidence>,
    pub changes: Vec<Advice>,
}

/// A measure and the threshold that it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub measure: String,
    pub value: f64,
    pub threshold: f64,
}

/// What to do about it, in words; where one setting does it, that setting and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    pub what: String,
    pub setting: Option<AdvisedSetting>,
    pub value: Option<String>,
    /// How it is typed, and how it stands in the file: filled in by [`name_settings`].
    pub flag: Option<String>,
    pub config: Option<String>,
    /// The same as a question to the model of the run, where that can answer it: `num_workers=4`.
    #[serde(default)]
    pub what_if: Option<String>,
    /// The share of a step's time that following it would save, as predicted; absent where that is not known.
    #[serde(default)]
    pub gain: Option<Likely>,
}

/// Advice that no single setting follows.
impl<T: Into<String>> From<T> for Advice {
    fn from(what: T) -> Advice {
        Advice {
            what: what.into(),
            setting: None,
            value: None,
            flag: None,
            config: None,
            what_if: None,
            gain: None,
        }
    }
}

impl Advice {
    fn set(setting: AdvisedSetting, value: impl ToString, what: impl Into<String>) -> Advice {
        Advice {
            setting: Some(setting),
            value: Some(value.to_string()),
            what_if: is_known(setting.key())
                .then(|| format!("{}={}", setting.key(), value.to_string())),
            ..Advice::from(what)
        }
    }

    /// What no single setting does, as a question that the model of the run can answer.
    fn asking(what_if: &str, what: impl Into<String>) -> Advice {
        Advice {
            what_if: Some(what_if.to_owned()),
            ..Advice::from(what)
        }
    }
}

impl Finding {
    fn new(cause: Cause, level: Level, costs: f64, what: impl Into<String>) -> Finding {
        Finding {
            cause,
            bound_by: cause.bound_by().to_owned(),
            level,
            costs,
            what: what.into(),
            evidence: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn because(mut self, measure: &str, value: f64, threshold: f64) -> Finding {
        self.evidence.push(Evidence {
            measure: measure.to_owned(),
            value,
            threshold,
        });
        self
    }

    fn advise(mut self, advice: impl Into<Advice>) -> Finding {
        self.changes.push(advice.into());
        self
    }
}

/// Fills in how each setting that is advised, or named in a sentence, is written.
pub(crate) fn name_settings(findings: &mut [Finding], names: &SettingNames) {
    for finding in findings {
        names.in_text(&mut finding.what);
        for advice in &mut finding.changes {
            names.in_text(&mut advice.what);
            if let (Some(setting), Some(value)) = (advice.setting, &advice.value) {
                (advice.flag, advice.config) = Some((names.written)(setting, value)).unzip();
            }
        }
    }
}

/// All findings, the most expensive first. Where nothing but the model limits, that is the finding.
pub fn find(profile: &Profile, run: &Run) -> Vec<Finding> {
    if profile.steps == 0 {
        return Vec::new();
    }
    let diagnosis = Diagnosis::new(profile, run);
    let mut findings: Vec<Finding> = [
        diagnosis.waiting(),
        diagnosis.rivals(),
        diagnosis.interference(),
        diagnosis.padding(),
        diagnosis.gaps(),
        diagnosis.variation(),
        diagnosis.data_device(),
        diagnosis.launches(),
        diagnosis.memory_hardly_used(),
        diagnosis.swap(),
        diagnosis.growth(),
        diagnosis.pinned(),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by(|a, b| a.level.cmp(&b.level).then(b.costs.total_cmp(&a.costs)));
    if findings.iter().all(|finding| finding.level == Level::Note) {
        findings.insert(0, diagnosis.step_bound());
    }
    findings
}

struct Diagnosis<'a> {
    profile: &'a Profile,
    run: &'a Run,
    line: Line,
    cores: f64,
}

impl<'a> Diagnosis<'a> {
    fn new(profile: &'a Profile, run: &'a Run) -> Diagnosis<'a> {
        Diagnosis {
            profile,
            run,
            line: Line::of(&run.steps),
            cores: run.number(fact::CORES).unwrap_or(1.0).max(1.0),
        }
    }

    fn stage(&self, id: StageId) -> Option<&StageTime> {
        self.profile.stages.iter().find(|stage| *stage.name == id)
    }

    /// The share of the time that a stage's workers worked.
    fn stage_busy(&self, id: StageId) -> f64 {
        self.stage(id).map_or(0.0, |stage| stage.busy)
    }
}
