//! What can happen in a run: one closed enum, shared by the code that does it and the code that shows it.
//!
//! Every event has a time on the run's own clock, [`Nanos`] since its start. What happens to single
//! items (they are handled, waited for, moved through slots) is too much for an event each. Workers
//! record it in their lanes ([`crate::recorder::Lane`]); from there the log gets sums for each second
//! (`StageSecond`, `SlotSecond`), and a trace, where one is asked for, gets every item.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::device::{DeviceIdentity, DeviceLabel};
use crate::facts::{DatasetFacts, RecordedSetting};
use crate::log::LOG_VERSION;
use crate::plan::Plan;
use crate::shape::{self, StepShape};
use crate::stats::Histogram;

/// Nanoseconds since the run began, or a time span in nanoseconds. 64 bits are 584 years.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The span from then to now; none where that is still to come.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// As the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;

    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// An event and when it happened (for spans: when they ended).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    pub at: Nanos,
    #[serde(flatten)]
    pub event: Event,
}

impl Stamped {
    /// As this version records it.
    pub(crate) fn modernised(at: Nanos, event: Event) -> Stamped {
        let event = event.modernised();
        Stamped { at, event }
    }
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    RunStarted(RunStarted),
    RunEnded {
        outcome: Outcome,
    },
    /// How full a buffer is.
    BufferLevel {
        buffer: String,
        items: u64,
        capacity: u64,
    },
    /// How full a budget is.
    BudgetLevel {
        budget: String,
        bytes: u64,
        limit: u64,
        peak: u64,
    },
    /// What the tensor library's own pools hold of a device.
    DeviceMemory(DeviceMemory),
    /// All items of one stage in one second.
    StageSecond(StageSecond),
    /// All slot moves of one second.
    SlotSecond(SlotSecond),
    GateOpened {
        reason: GateReason,
        waited: Nanos,
        ready: u64,
    },
    Step(Step),
    /// What the run is trained on.
    Dataset(DatasetFacts),
    /// From here on something else is measured, such as the model alone in a profile.
    PhaseBegan {
        phase: String,
    },
    DeviceSample(DeviceSample),
    HostSample(HostSample),
    Decision(Decision),
    Fault(Fault),
    /// Faults of a kind that came up too often to write each of them.
    MoreFaults {
        stage: String,
        kind: FaultKind,
        action: FaultAction,
        /// Since the line before.
        count: u64,
    },
    Checkpoint {
        position: u64,
        path: String,
        bytes: u64,
        took: Nanos,
    },
    /// The loss on the held-out clips was measured.
    Validated(Validated),
    /// What the person at the terminal was warned of, unless another event has it.
    Warned {
        text: String,
    },
    /// Events came faster than they could be taken, or lines could not be written for a while (a
    /// full disk). They are not in the sums.
    Lost {
        /// Whose items they were; empty for events that are not of single items, and for lines.
        stage: String,
        events: u64,
    },
}

impl Event {
    /// The kinds that this version knows, as the log names them.
    pub const KINDS: [&str; 20] = [
        "run_started",
        "run_ended",
        "buffer_level",
        "budget_level",
        "device_memory",
        "stage_second",
        "slot_second",
        "gate_opened",
        "step",
        "dataset",
        "phase_began",
        "device_sample",
        "host_sample",
        "decision",
        "fault",
        "more_faults",
        "checkpoint",
        "validated",
        "warned",
        "lost",
    ];

    /// The same as this version records it. Earlier ones had a device's memory as a budget with a
    /// name in words.
    pub(crate) fn modernised(self) -> Event {
        let Event::BudgetLevel {
            budget,
            bytes,
            limit,
            peak,
        } = &self
        else {
            return self;
        };
        let Some(device) = budget.strip_prefix("memory of ") else {
            return self;
        };
        Event::DeviceMemory(DeviceMemory {
            device: device.into(),
            bytes: *bytes,
            limit: Some(*limit).filter(|limit| *limit > 0),
            peak: *peak,
        })
    }
}

/// What the library's pools hold on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// As the run names it, such as `cpu` or `vulkan:0`.
    pub device: DeviceLabel,
    pub bytes: u64,
    /// Where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The most so far.
    pub peak: u64,
}

/// A start of a run: who ran, on what, with which settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    pub log_version: u32,
    pub name: String,
    /// When the run's own clock was at zero, in seconds since 1970: added to an event's time, it is
    /// the event's date.
    pub unix_seconds: f64,
    pub program: String,
    pub plan: Option<Plan>,
    /// Settings and facts of the machine that a report wants to show, by name.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// The devices of the run, by all their names; empty in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceIdentity>,
    /// All settings with their origins; empty in logs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<RecordedSetting>,
}

impl Default for RunStarted {
    fn default() -> RunStarted {
        RunStarted {
            log_version: LOG_VERSION,
            name: String::new(),
            unix_seconds: 0.0,
            program: String::new(),
            plan: None,
            facts: BTreeMap::new(),
            devices: Vec::new(),
            settings: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Finished,
    Interrupted,
    Failed,
}

/// Why a run was refused or ended early, for a program that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One line for a person: the error and its causes.
    pub reason: String,
    /// Where memory was too small for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// Memory was too small, whether its bytes are known or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_memory: bool,
}

/// Bytes that a run needs compared with those that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Shortage {
    pub needs: u64,
    pub limit: u64,
}

/// What a worker waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The buffer before it was empty: an earlier stage is late.
    Input,
    /// The budget had no bytes left: what is behind it holds them.
    Bytes,
    /// All slots were taken: the consumer is slower.
    Slot,
    /// The buffer behind it was full: a later stage is slower.
    Output,
}

impl Wait {
    /// As it stands in the log.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Input => "input",
            Wait::Bytes => "bytes",
            Wait::Slot => "slot",
            Wait::Output => "output",
        }
    }
}

/// What a place on a device is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotState {
    Preparing,
    Ready,
    Training,
    Free,
}

/// What one stage did in one second, all workers together. Its time is the end of that second, or
/// the moment at which the sums were asked for earlier; the rest of the second then has its own line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageSecond {
    pub stage: String,
    /// How long workers took for items.
    pub service: Histogram,
    /// Waits by what was waited for; their count and sum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<Wait, WaitSum>,
    /// The slowest few items, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowItem>,
}

/// Conversions for a struct that the log has as a list of its fields.
macro_rules! listed {
    ($name:ident { $($field:ident: $type:ty),+ }) => {
        impl From<($($type),+)> for $name {
            fn from(($($field),+): ($($type),+)) -> $name {
                $name { $($field),+ }
            }
        }

        impl From<$name> for ($($type),+) {
            fn from(listed: $name) -> ($($type),+) {
                ($(listed.$field),+)
            }
        }
    };
}

listed!(WaitSum {
    count: u64,
    total: Nanos,
    longest: Nanos
});
listed!(SlowItem {
    item: u64,
    name: String,
    service: Nanos
});
listed!(AllowedCpu {
    percent: f64,
    cores: u64
});
listed!(GroupCpu {
    used: f64,
    quota: f64
});

/// In the log: `[count, total, longest]`, as there are many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, Nanos, Nanos)", into = "(u64, Nanos, Nanos)")]
pub struct WaitSum {
    pub count: u64,
    pub total: Nanos,
    pub longest: Nanos,
}

impl WaitSum {
    /// One wait more.
    pub fn add(&mut self, waited: Nanos) {
        self.merge(&WaitSum {
            count: 1,
            total: waited,
            longest: waited,
        });
    }

    /// All waits of the other, too.
    pub fn merge(&mut self, other: &WaitSum) {
        self.count = self.count.saturating_add(other.count);
        self.total = self.total + other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// In the log: `[item, name, service]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, String, Nanos)", into = "(u64, String, Nanos)")]
pub struct SlowItem {
    pub item: u64,
    pub name: String,
    pub service: Nanos,
}

/// Time that places spent in each state, as far as they left it in this second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotSecond {
    pub states: BTreeMap<SlotState, WaitSum>,
}

/// Why the consumer began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateReason {
    /// Everything that may be ready ahead is ready.
    Full,
    /// The longest wait was over.
    Delay,
    /// There is no more to come.
    AllReady,
}

/// One step on the model device's line: `overhead + waited + service`, in this order, is its wall time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub step: u64,
    pub waited: Nanos,
    /// The stage that was late, where the step waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    pub service: Nanos,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overhead: Nanos,
    /// The padded shape; variation is only meaningful within one.
    #[serde(
        default,
        deserialize_with = "shape::known",
        skip_serializing_if = "Option::is_none"
    )]
    pub shape: Option<StepShape>,
    /// When it ended, where it was recorded only later: losses are read from a device after several steps.
    /// The log has it in whole milliseconds: there are many steps, and nobody needs it closer.
    #[serde(
        default,
        rename = "end_ms",
        with = "whole_milliseconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended: Option<Nanos>,
    /// What was measured with it, where that is not the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What `service` was spent on, as far as it can be measured apart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, Nanos>,
    /// Losses and the like, where they were read from the device.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(with = "any_float")]
    pub values: BTreeMap<String, f64>,
}

/// The losses on the held-out clips after a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    pub step: u64,
    /// By the names that a step's values have.
    #[serde(with = "any_float")]
    pub losses: BTreeMap<String, f64>,
    /// No earlier one was as low.
    pub better: bool,
    pub took: Nanos,
}

mod whole_milliseconds {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Nanos;

    const MILLISECOND: u64 = 1_000_000;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Nanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0 / MILLISECOND).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Nanos>, D::Error> {
        let time = Option::<u64>::deserialize(deserializer)?;
        Ok(time.map(|time| Nanos(time.saturating_mul(MILLISECOND))))
    }
}

/// JSON cannot write a loss that is not a number, and that is the loss one looks for in a log.
mod any_float {
    use std::collections::BTreeMap;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum WrittenValue {
        Number(f64),
        /// `nan`, `inf`, `-inf`.
        Word(String),
    }

    pub(super) fn serialize<S: Serializer>(
        values: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(name, &value)| {
            let written = match value.is_finite() {
                true => WrittenValue::Number(value),
                false => WrittenValue::Word(value.to_string().to_lowercase()),
            };
            (name, written)
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let values = BTreeMap::<String, WrittenValue>::deserialize(deserializer)?;
        let float = |value| match value {
            WrittenValue::Number(number) => Ok(number),
            WrittenValue::Word(word) => match word.as_str() {
                "nan" | "inf" | "-inf" => word.parse().map_err(D::Error::custom),
                _ => Err(D::Error::custom(format!("`{word}` is not a number"))),
            },
        };
        let floats = values.into_iter();
        let floats = floats.map(|(name, value)| Ok((name, float(value)?)));
        floats.collect()
    }
}

fn is_zero(span: &Nanos) -> bool {
    span.0 == 0
}

/// What a device's driver reports. What it does not report is absent, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceSample {
    pub device: DeviceLabel,
    /// As the driver reports it: the share of time in which some kernel ran. Not the same as busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<f64>,
    /// Bytes a second towards the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_receive: Option<u64>,
    /// Bytes a second from the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie_send: Option<u64>,
}

/// What the operating system reports of the machine and of this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSample {
    /// Of all cores together, since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Of the cores that this process may use, by all programs together. In a container or under
    /// `taskset` these are not all of the machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_cpu: Option<AllowedCpu>,
    /// Of the control group whose quota limits this process; absent without a quota.
    #[serde(rename = "quota", skip_serializing_if = "Option::is_none")]
    pub group_cpu: Option<GroupCpu>,
    /// Of this process, in per cent of one core: two busy threads are 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_available: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_used: Option<u64>,
    /// Bytes a second to and from swap: above zero, the machine is short of memory now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_traffic: Option<u64>,
    /// Bytes a second, all disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_write: Option<u64>,
}

/// In the log: `[percent, cores]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, u64)", into = "(f64, u64)")]
pub struct AllowedCpu {
    /// To a tenth; nobody needs it closer.
    pub percent: f64,
    pub cores: u64,
}

/// In the log: `[used, quota]`, both in cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct GroupCpu {
    /// By all programs in the group, since the sample before.
    pub used: f64,
    pub quota: f64,
}

/// A change that the adaptive controller made, or the reason why it makes none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The stage, buffer or budget that it is about; empty when it is about the whole.
    pub subject: String,
    pub change: DecidedChange,
    /// In plain words, with the measure that led to it.
    pub reason: String,
}

/// What the controller changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedChange {
    Workers {
        from: u64,
        to: u64,
    },
    Capacity {
        from: u64,
        to: u64,
    },
    /// An earlier change made things no better and was taken back.
    WorkersBack {
        from: u64,
        to: u64,
    },
    CapacityBack {
        from: u64,
        to: u64,
    },
    /// Nothing more to gain here.
    Settled,
    /// The load changed; the controller tries changes again.
    Reopened,
}

/// An item that a stage failed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub stage: String,
    pub item: u64,
    pub name: String,
    pub kind: FaultKind,
    pub message: String,
    pub action: FaultAction,
}

/// How it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The stage's function returned an error.
    Error,
    /// The stage's function panicked.
    Panic,
    /// The item alone is larger than the whole budget, or than what can ever come free of it.
    TooLarge,
    /// The result is larger than what was reserved for it.
    Outgrown,
    /// A worker could not be set up.
    Setup,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    Retried,
    Skipped,
    Stopped,
    /// A worker was left out; the others continue.
    WentOnWithout,
}
