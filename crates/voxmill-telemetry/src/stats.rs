//! The statistics of a run: everything a report shows, folded from the lines of its log.
//!
//! Every start of a run has its own clock and its own statistics, also where several share a log.
//! The running program folds the very lines that it writes, so the numbers it shows and the numbers
//! that anybody gets from the log's last start later are the same by construction, unless a disk
//! was full: then the log lacks lines, and [`Stats::lost`] counts them in both.

mod histogram;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::device::DeviceLabel;
use crate::event::{
    Decision, DeviceSample, Event, FaultAction, FaultKind, GateReason, HostSample, Nanos, Outcome,
    RunStarted, SlotState, Stamped, Step, Wait, WaitSum,
};
use crate::shape::StepShape;

pub use histogram::Histogram;

/// How many of the slowest items of a run are remembered.
const SLOWEST: usize = 10;
/// Decisions beyond this are only counted; a controller that makes more is at fault itself.
const MOST_DECISIONS: usize = 10_000;

/// What happened in a run since it was started, summed up. What a run did before it was resumed has
/// statistics of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub started: Option<RunStarted>,
    /// `None`: still running, or killed.
    pub outcome: Option<Outcome>,
    /// In the order of the plan, or else as they came up.
    pub stages: Vec<StageStats>,
    /// Of all stages, slowest first.
    pub slowest: Vec<SlowestItem>,
    /// The time that places spent in each state.
    pub slots: BTreeMap<SlotState, WaitSum>,
    pub gate: Option<GateStats>,
    pub steps: StepStats,
    pub faults: Vec<FaultCount>,
    pub decisions: Vec<(Nanos, Decision)>,
    pub decision_count: u64,
    pub checkpoints: CheckpointStats,
    pub buffers: BTreeMap<String, LevelStats>,
    pub budgets: BTreeMap<String, BudgetStats>,
    /// By device, as far as the tensor library reports what its pools hold.
    pub device_memory: BTreeMap<DeviceLabel, BudgetStats>,
    /// By device, as the probes name it.
    pub devices: BTreeMap<DeviceLabel, DeviceStats>,
    pub host: HostStats,
    /// Events that were too many to record, and lines that could not be written. Above 0, the sums
    /// are too small.
    pub lost: u64,
    latest: Nanos,
}

/// How long a stage worked on its items, and what its workers waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageStats {
    pub stage: String,
    pub service: Histogram,
    pub waits: BTreeMap<Wait, WaitSum>,
}

/// The item that took a stage the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowestItem {
    pub stage: String,
    pub item: u64,
    pub name: String,
    pub service: Nanos,
}

/// The wait before the consumer's first item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateStats {
    pub reason: GateReason,
    pub waited: Nanos,
    pub ready: u64,
}

/// The model device's line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepStats {
    pub service: Histogram,
    pub waited: Histogram,
    pub overhead: Histogram,
    /// `waited + service + overhead` of each step.
    pub wall: Histogram,
    /// By padded shape, where the step has one.
    pub shapes: BTreeMap<Option<StepShape>, ShapeStats>,
    /// Waits by the stage that was late.
    pub late: BTreeMap<String, WaitSum>,
}

/// Steps of one shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeStats {
    /// Its [`Histogram::variation`] is the variation that users are warned of.
    pub service: Histogram,
    pub waited: Histogram,
}

/// Faults of one stage and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultCount {
    pub stage: String,
    pub kind: FaultKind,
    pub action: FaultAction,
    pub count: u64,
    /// The first of them, to show one.
    pub first_item: String,
    pub first_message: String,
}

/// Checkpoints that were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointStats {
    pub took: Histogram,
    pub bytes: u64,
    /// The position and path of the last one.
    pub last: Option<(u64, String)>,
}

/// How full a buffer was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    pub samples: u64,
    pub items: u64,
    pub peak: u64,
    /// The last one known; it may change in a run.
    pub capacity: u64,
    /// Samples that found it empty, and full. Mostly empty: what comes before limits. Mostly full:
    /// what comes behind does.
    pub empty: u64,
    pub full: u64,
}

/// How much of a budget was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// 0: none.
    pub limit: u64,
    pub peak: u64,
}

impl BudgetStats {
    fn add(&mut self, bytes: u64, peak: u64, limit: u64) {
        self.limit = limit;
        self.peak = self.peak.max(peak).max(bytes);
    }
}

/// The mean and the largest of what a probe reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleStats {
    pub samples: u64,
    pub sum: f64,
    pub max: f64,
}

/// What the driver of a card reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceStats {
    pub utilisation_percent: SampleStats,
    pub memory_used: SampleStats,
    pub memory_total: Option<u64>,
    pub power_watts: SampleStats,
    pub temperature_celsius: SampleStats,
    pub clock_mhz: SampleStats,
    pub memory_clock_mhz: SampleStats,
    pub pcie_receive: SampleStats,
    pub pcie_send: SampleStats,
}

/// What the operating system reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostStats {
    pub cpu_percent: SampleStats,
    pub allowed_cpu_percent: SampleStats,
    /// The last number known.
    pub allowed_cores: Option<u64>,
    /// Cores that all programs of the control group used, and its quota as last known.
    pub group_used: SampleStats,
    pub group_quota: Option<f64>,
    pub process_cpu_percent: SampleStats,
    pub process_memory: SampleStats,
    pub least_memory_available: Option<u64>,
    pub memory_total: Option<u64>,
    pub swap_used: SampleStats,
    pub swap_traffic: SampleStats,
    pub disk_read: SampleStats,
    pub disk_write: SampleStats,
}

impl SampleStats {
    fn add(&mut self, value: Option<f64>) {
        // A probe's nonsense is no reading; nor could JSON hold it.
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        self.max = self.peak().map_or(value, |max| max.max(value));
        self.samples += 1;
        self.sum += value;
    }

    fn add_whole(&mut self, value: Option<u64>) {
        self.add(value.map(|value| value as f64));
    }

    /// `None` where nothing was reported.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }

    /// `None` where nothing was reported.
    pub fn peak(&self) -> Option<f64> {
        (self.samples > 0).then_some(self.max)
    }
}

impl LevelStats {
    /// Items in it on average; `None` where nobody looked.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.items as f64 / self.samples as f64)
    }
}

impl Stats {
    /// Adds one line of a log, in the log's order. A start begins again from nothing.
    pub fn absorb(&mut self, stamped: &Stamped) {
        if let Event::RunStarted(started) = &stamped.event {
            self.start(started);
        }
        self.latest = self.latest.max(stamped.at);
        match &stamped.event {
            Event::RunStarted(_) => {}
            Event::RunEnded { outcome } => self.outcome = Some(*outcome),
            Event::BufferLevel {
                buffer,
                items,
                capacity,
            } => self.level(buffer, *items, *capacity),
            Event::BudgetLevel {
                budget,
                bytes,
                limit,
                peak,
            } => {
                entry(&mut self.budgets, budget).add(*bytes, *peak, *limit);
            }
            Event::DeviceMemory(memory) => {
                let stats = entry(&mut self.device_memory, memory.device.as_str());
                stats.add(memory.bytes, memory.peak, memory.limit.unwrap_or(0));
            }
            Event::StageSecond(second) => {
                let stage = self.stage_mut(&second.stage);
                stage.service.merge(&second.service);
                for (wait, sum) in &second.waits {
                    stage.waits.entry(*wait).or_default().merge(sum);
                }
                for slow in &second.slowest {
                    self.slow(SlowestItem {
                        stage: second.stage.clone(),
                        item: slow.item,
                        name: slow.name.clone(),
                        service: slow.service,
                    });
                }
            }
            Event::SlotSecond(second) => {
                for (state, sum) in &second.states {
                    self.slots.entry(*state).or_default().merge(sum);
                }
            }
            Event::GateOpened {
                reason,
                waited,
                ready,
            } => {
                self.gate = Some(GateStats {
                    reason: *reason,
                    waited: *waited,
                    ready: *ready,
                });
            }
            Event::Step(step) => self.steps.add(step),
            Event::PhaseBegan { .. }
            | Event::Validated(_)
            | Event::Warned { .. }
            | Event::Dataset(_) => {}
            Event::DeviceSample(sample) => {
                entry(&mut self.devices, sample.device.as_str()).add(sample)
            }
            Event::HostSample(sample) => self.host.add(sample),
            Event::Decision(decision) => {
                self.decision_count += 1;
                if self.decisions.len() < MOST_DECISIONS {
                    self.decisions.push((stamped.at, decision.clone()));
                }
            }
            Event::Fault(fault) => {
                let count = self.fault_count(&fault.stage, fault.kind, fault.action);
                if count.count == 0 {
                    count.first_item = fault.name.clone();
                    count.first_message = fault.message.clone();
                }
                count.count = count.count.saturating_add(1);
            }
            Event::MoreFaults {
                stage,
                kind,
                action,
                count: more,
            } => {
                let count = self.fault_count(stage, *kind, *action);
                count.count = count.count.saturating_add(*more);
            }
            Event::Checkpoint {
                position,
                path,
                bytes,
                took,
            } => {
                self.checkpoints.took.record(*took);
                self.checkpoints.bytes = self.checkpoints.bytes.saturating_add(*bytes);
                self.checkpoints.last = Some((*position, path.clone()));
            }
            Event::Lost { events, .. } => self.lost = self.lost.saturating_add(*events),
        }
    }

    /// The time that the run took so far, since this start.
    pub fn run_time(&self) -> Nanos {
        self.latest
    }

    /// By its name.
    pub fn stage(&self, name: &str) -> Option<&StageStats> {
        self.stages.iter().find(|stage| stage.stage == name)
    }

    fn start(&mut self, started: &RunStarted) {
        *self = Stats::default();
        if let Some(plan) = &started.plan {
            for stage in &plan.stages {
                self.stage_mut(&stage.name);
            }
        }
        self.started = Some(started.clone());
    }

    fn stage_mut(&mut self, name: &str) -> &mut StageStats {
        let stages = &mut self.stages;
        let known = stages.iter().position(|stage| stage.stage == name);
        found_or_new(stages, known, || StageStats {
            stage: name.to_owned(),
            ..StageStats::default()
        })
    }

    fn slow(&mut self, item: SlowestItem) {
        let slowest = &mut self.slowest;
        let place = slowest.partition_point(|known| known.service >= item.service);
        slowest.insert(place, item);
        slowest.truncate(SLOWEST);
    }

    fn level(&mut self, buffer: &str, items: u64, capacity: u64) {
        let level = entry(&mut self.buffers, buffer);
        level.samples += 1;
        level.items = level.items.saturating_add(items);
        level.peak = level.peak.max(items);
        level.capacity = capacity;
        level.empty += u64::from(items == 0);
        level.full += u64::from(items >= capacity);
    }

    fn fault_count(
        &mut self,
        stage: &str,
        kind: FaultKind,
        action: FaultAction,
    ) -> &mut FaultCount {
        let same = |known: &FaultCount| {
            known.stage == stage && (known.kind, known.action) == (kind, action)
        };
        let known = self.faults.iter().position(same);
        found_or_new(&mut self.faults, known, || FaultCount {
            stage: stage.to_owned(),
            kind,
            action,
            count: 0,
            first_item: String::new(),
            first_message: String::new(),
        })
    }
}

fn found_or_new<T>(all: &mut Vec<T>, found: Option<usize>, new: impl FnOnce() -> T) -> &mut T {
    let index = found.unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[index]
}

/// The map's value of that name; names are copied only once.
fn entry<'a, K, V>(map: &'a mut BTreeMap<K, V>, name: &str) -> &'a mut V
where
    K: Ord + Borrow<str> + From<String>,
    V: Default,
{
    if !map.contains_key(name) {
        map.insert(K::from(name.to_owned()), V::default());
    }
    map.get_mut(name).expect("it was put there just now")
}

impl StepStats {
    fn add(&mut self, step: &Step) {
        self.service.record(step.service);
        self.waited.record(step.waited);
        self.overhead.record(step.overhead);
        self.wall.record(step.waited + step.service + step.overhead);
        let shape = self.shapes.entry(step.shape).or_default();
        shape.service.record(step.service);
        shape.waited.record(step.waited);
        if let Some(late) = &step.late {
            entry(&mut self.late, late).add(step.waited);
        }
    }
}

impl DeviceStats {
    fn add(&mut self, sample: &DeviceSample) {
        self.utilisation_percent.add(sample.utilisation_percent);
        self.memory_used.add_whole(sample.memory_used);
        self.memory_total = sample.memory_total.or(self.memory_total);
        self.power_watts.add(sample.power_watts);
        self.temperature_celsius.add(sample.temperature_celsius);
        self.clock_mhz.add(sample.clock_mhz);
        self.memory_clock_mhz.add(sample.memory_clock_mhz);
        self.pcie_receive.add_whole(sample.pcie_receive);
        self.pcie_send.add_whole(sample.pcie_send);
    }
}

impl HostStats {
    /// Takes in what a probe found.
    pub fn add(&mut self, sample: &HostSample) {
        self.cpu_percent.add(sample.cpu_percent);
        if let Some(allowed) = sample.allowed_cpu {
            self.allowed_cpu_percent.add(Some(allowed.percent));
            self.allowed_cores = Some(allowed.cores);
        }
        if let Some(group) = sample.group_cpu {
            self.group_used.add(Some(group.used));
            self.group_quota = Some(group.quota);
        }
        self.process_cpu_percent.add(sample.process_cpu_percent);
        self.process_memory.add_whole(sample.process_memory);
        let least = self.least_memory_available.into_iter();
        self.least_memory_available = least.chain(sample.memory_available).min();
        self.memory_total = sample.memory_total.or(self.memory_total);
        self.swap_used.add_whole(sample.swap_used);
        self.swap_traffic.add_whole(sample.swap_traffic);
        self.disk_read.add_whole(sample.disk_read);
        self.disk_write.add_whole(sample.disk_write);
    }
}

#[cfg(test)]
mod tests;
