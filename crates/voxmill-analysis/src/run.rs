//! A run as its log records it: the steps of each phase, and what happened alongside them.

use std::collections::BTreeMap;
use std::path::Path;

use voxmill_telemetry::device::{DeviceIdentity, DeviceLabel};
use voxmill_telemetry::event::{Event, Nanos, Outcome, Stamped, Step, Validated};
use voxmill_telemetry::facts::DatasetFacts;
use voxmill_telemetry::log::{Flaws, LogError, LogReader};
use voxmill_telemetry::plan::Plan;
use voxmill_telemetry::stats::{HostStats, Stats};

use crate::bottleneck::thresholds::RIVALS;
use crate::timing::WARM_UP_STEPS;

/// The phases of a profile, by the names that steps carry. A step without one is of the run itself.
pub mod phase {
    /// The first steps, which pay for what is done once.
    pub const WARM_UP: &str = "warm-up";
    /// Batches that are on the device already, workers idle.
    pub const FLOOR: &str = "floor";
    /// The same batches while the workers prepare others at the rate of the run, which are dropped.
    pub const INTERFERENCE: &str = "interference";
    /// One thing after another on one thread.
    pub const NO_OVERLAP: &str = "no overlap";
    /// Back to the run itself.
    pub const RUN: &str = "run";
}

/// The fact [`fact::DEVICE`] of a run without a GPU.
pub(crate) const CPU: &str = "cpu";

/// Facts that a run records at its start, by name.
pub mod fact {
    /// Its name.
    pub const MODEL_SIZE: &str = "model size";
    /// How many numbers the model learns.
    pub const WEIGHTS: &str = "weights";
    /// Clips of a full batch.
    pub const BATCH_SIZE: &str = "batch size";
    /// To train on.
    pub const CLIPS: &str = "clips";
    /// The one that trains.
    pub const DEVICE: &str = "device";
    /// The one that prepares.
    pub const DATA_DEVICE: &str = "data device";
    /// `one device` or `two devices`.
    pub const MODE: &str = "mode";
    /// That the process may use, and that the machine has.
    pub const CORES: &str = "cores";
    /// Whether the process may use them or not.
    pub const MACHINE_CORES: &str = "machine cores";
    /// As the processor calls itself.
    pub const PROCESSOR: &str = "processor";
    /// That compute features.
    pub const WORKERS: &str = "workers";
    /// That the model has on the CPU.
    pub const COMPUTE_THREADS: &str = "compute threads";
    /// Batches that may wait in memory.
    pub const BUFFER: &str = "buffer";
    /// Batches that may wait on the model device.
    pub const SLOTS: &str = "slots";
    /// `warm`, `cold`, `partly warm` or `off`, when the run began.
    pub const CACHE: &str = "cache";
    /// Whether all batches have one length.
    pub const PADDING: &str = "padding";
    /// Whether batches are made while the model trains.
    pub const OVERLAP: &str = "overlap";
    /// From the program's start to the log's.
    pub const SECONDS_BEFORE: &str = "seconds before the log";
    /// How long a frame is.
    pub const HOP_SECONDS: &str = "hop seconds";
    /// Where frames are computed.
    pub const PREPARE_ON: &str = "prepare on";
    /// What the model computes in.
    pub const PRECISION: &str = "precision";
    /// Delays that were injected on purpose.
    pub const INJECTED: &str = "injected delays";
    /// The checkpoint whose weights were the first ones, of a run that fine-tunes.
    pub const INIT_FROM: &str = "init from";
    /// Where the run ends by its limits, in steps and in seconds of training.
    pub const LAST_STEP: &str = "last step";
    /// How long the run may train.
    pub const MOST_SECONDS: &str = "most seconds";
}

/// One run, all its starts. Steps that were done again after a crash count once, as they were done last.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Of the run itself, by number; warm-up and the other phases of a profile are not among them.
    pub steps: Vec<Step>,
    /// Steps of other phases, in their order.
    pub phases: BTreeMap<String, Vec<Step>>,
    /// Losses on the held-out clips, by step; those of earlier versions are in no log.
    pub validations: BTreeMap<u64, Validated>,
    /// Of the last start.
    pub dataset: Option<DatasetFacts>,
    /// Of the last start, outside the other phases.
    pub stats: Stats,
    /// Items that took long, with the end of the second that they were in.
    pub slow: Vec<Slow>,
    /// Of this process, in bytes, over time.
    pub memory: Vec<(Nanos, u64)>,
    /// In per cent, as the driver of each device reports it: once the first steps have paid for what is done once.
    utilisation: BTreeMap<DeviceLabel, Vec<f64>>,
    /// Of the machine in all phases since the first step: other programs disturb each of them.
    host: HostStats,
    /// How long events were counted as the run's own; zero in a run without other phases.
    counted: Nanos,
    /// From the last start to the end of its first step.
    pub first_step_after: Option<Nanos>,
    pub starts: usize,
    /// What the starts before the last one took.
    pub earlier: Nanos,
    /// The first step of the last start.
    first_step: Option<u64>,
    pub flaws: Flaws,
}

/// Of the cores in use by all programs: above it, none was free.
const NONE_FREE: f64 = 0.9;

/// Shares of the time of all these cores together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreLoad {
    pub cores: f64,
    /// By all programs, this one among them.
    pub all: f64,
    pub own: f64,
}

impl CoreLoad {
    /// The cores that other programs took.
    pub fn others(self) -> f64 {
        (self.all - self.own).max(0.0)
    }

    /// Whether other programs took cores that this one would have used: none was free.
    pub(crate) fn is_oversubscribed(self) -> bool {
        self.has_none_free() && self.others() > RIVALS
    }

    pub(crate) fn has_none_free(self) -> bool {
        self.all > NONE_FREE
    }

    /// Of samples of one machine. Without samples of the cores that the process may use, of all `machine_cores`: `cores`
    /// is always the number that `all` is a share of. Where a control group has a quota, whichever is used more.
    pub fn of(host: &HostStats, machine_cores: Option<f64>) -> Option<CoreLoad> {
        let own = host.process_cpu_percent.mean()? / 100.0;
        let allowed = host.allowed_cpu_percent.mean().zip(host.allowed_cores);
        let allowed = allowed.map(|(percent, cores)| (percent, cores as f64));
        let of_cores = allowed.or_else(|| host.cpu_percent.mean().zip(machine_cores));
        let of_cores = of_cores.map(|(percent, cores)| (percent / 100.0, cores.max(1.0)));
        let of_group = host.group_used.mean().zip(host.group_quota);
        let of_group = of_group.filter(|(_, quota)| *quota > 0.0);
        let of_group = of_group.map(|(used, quota)| (used / quota, quota));
        let both = of_cores.into_iter().chain(of_group);
        let (all, cores) = both.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(CoreLoad {
            cores,
            all,
            own: own / cores,
        })
    }
}

/// An item that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub until: Nanos,
    pub stage: String,
    pub item: u64,
    pub name: String,
    pub service: Nanos,
}

impl Run {
    /// Reads a log.
    pub fn read(path: &Path) -> Result<Run, LogError> {
        Run::read_with(path, |_| {})
    }

    /// Shows each event to somebody else as well: a log may be long, and is read once.
    pub(crate) fn read_with(path: &Path, mut other: impl FnMut(&Stamped)) -> Result<Run, LogError> {
        let mut reader = LogReader::open(path)?;
        let mut reading = RunReader::default();
        for stamped in &mut reader {
            let stamped = stamped?;
            reading.add(&stamped);
            other(&stamped);
        }
        let flaws = reader.flaws().clone();
        Ok(Run {
            flaws,
            ..reading.finish()
        })
    }

    /// From events that are in memory.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Stamped>) -> Run {
        let mut reading = RunReader::default();
        events.into_iter().for_each(|stamped| reading.add(stamped));
        reading.finish()
    }

    /// The run since it was last started: what the statistics are of.
    pub fn last_start(&self) -> Run {
        let first = self.first_step.unwrap_or(0);
        let steps = self.steps.iter().filter(|step| step.step >= first);
        Run {
            steps: steps.cloned().collect(),
            // Field by field: of a long run, its steps would be copied twice.
            phases: self.phases.clone(),
            validations: self.validations.clone(),
            dataset: self.dataset.clone(),
            stats: self.stats.clone(),
            slow: self.slow.clone(),
            memory: self.memory.clone(),
            utilisation: self.utilisation.clone(),
            host: self.host.clone(),
            counted: self.counted,
            first_step_after: self.first_step_after,
            starts: self.starts,
            earlier: self.earlier,
            first_step: self.first_step,
            flaws: self.flaws.clone(),
        }
    }

    /// The held-out mel error where it was lowest, and its step: of those that training took for the best, since only
    /// these have a checkpoint; of all where it took none.
    pub fn best_validation(&self) -> Option<(u64, f64)> {
        let mel = |found: &Validated| Some((found.step, *found.losses.get("mel")?));
        let some_better = self.validations.values().any(|found| found.better);
        let all = self.validations.values();
        let all = all.filter(|found| found.better || !some_better);
        let all = all.filter_map(mel);
        all.filter(|(_, mel)| mel.is_finite())
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The verb that wrote it.
    pub fn name(&self) -> &str {
        (self.stats.started.as_ref()).map_or("", |started| &started.name)
    }

    /// The pipeline, where the log has it.
    pub fn plan(&self) -> Option<&Plan> {
        self.stats.started.as_ref()?.plan.as_ref()
    }

    /// How it ended; `None` where the log does not say.
    pub fn outcome(&self) -> Option<Outcome> {
        self.stats.outcome
    }

    /// All starts together, from each one's beginning to its end or to its last sign of life.
    pub fn run_time(&self) -> Nanos {
        self.earlier + self.stats.run_time()
    }

    /// A setting or a fact of the machine that was recorded at the start.
    pub fn fact(&self, name: &str) -> Option<&str> {
        let facts = &self.stats.started.as_ref()?.facts;
        facts.get(name).map(String::as_str)
    }

    /// A fact that is a number.
    pub fn number(&self, fact: &str) -> Option<f64> {
        self.fact(fact)?.parse().ok()
    }

    /// A device of the run by all its names. `None` also where the log is of a version that did not record them.
    pub fn identity(&self, device: &str) -> Option<&DeviceIdentity> {
        let mut devices = self.stats.started.as_ref()?.devices.iter();
        devices.find(|known| known.device.as_str() == device)
    }

    /// Whether the log says which of the driver's devices are the run's.
    pub fn knows_its_devices(&self) -> bool {
        let started = self.stats.started.as_ref();
        started.is_some_and(|started| !started.devices.is_empty())
    }

    /// The driver's samples of a device's utilisation while the run trained, in per cent; none where it is not known
    /// which of the driver's devices it is.
    pub fn utilisation(&self, device: &str) -> &[f64] {
        let card = self.identity(device);
        let card = card.and_then(|known| known.sampled_as.as_ref());
        let samples = card.and_then(|card| self.utilisation.get(card));
        samples.map_or(&[], Vec::as_slice)
    }

    /// How busy the cores were that this process may use, in all phases.
    pub(crate) fn core_load(&self) -> Option<CoreLoad> {
        let cores = self.number(fact::MACHINE_CORES);
        let cores = cores.or_else(|| self.number(fact::CORES));
        // Less than a second of steps has no sample.
        CoreLoad::of(&self.host, cores).or_else(|| CoreLoad::of(&self.stats.host, cores))
    }

    /// What was counted by the clock, as a multiple of these seconds of steps: around each block of a profile's run, the
    /// stages are counted a little longer than the steps.
    pub(crate) fn counted_over(&self, seconds: f64) -> f64 {
        let counted = self.counted.seconds();
        match counted > 0.0 && seconds > 0.0 {
            true => counted / seconds,
            false => 1.0,
        }
    }

    /// The share of the cores that other programs took: next to busy programs, times are not a run's own.
    /// `None` where the number of cores is not known.
    pub fn others(&self) -> Option<f64> {
        self.core_load().map(CoreLoad::others)
    }

    /// The steps of a phase of a profile.
    pub fn phase(&self, name: &str) -> &[Step] {
        self.phases.get(name).map_or(&[], Vec::as_slice)
    }
}

#[derive(Default)]
struct RunReader {
    run: Run,
    steps: BTreeMap<u64, Step>,
    /// Of what is not a step: steps carry their own.
    phase: Option<String>,
    /// Since when events are the run's own, where it has phases.
    own_since: Option<Nanos>,
    /// Of the last start, in whatever phase.
    steps_seen: usize,
}

impl RunReader {
    fn finish(self) -> Run {
        Run {
            steps: self.steps.into_values().collect(),
            ..self.run
        }
    }

    fn add(&mut self, stamped: &Stamped) {
        let run = &mut self.run;
        if let (Event::HostSample(sample), true) = (&stamped.event, self.steps_seen > 0) {
            run.host.add(sample);
        }
        match &stamped.event {
            Event::RunStarted(_) => {
                self.phase = None;
                run.starts += 1;
                run.earlier = run.earlier + run.stats.run_time();
                run.dataset = None;
                run.first_step_after = None;
                run.first_step = None;
                run.slow.clear();
                run.memory.clear();
                run.utilisation.clear();
                run.phases.clear();
                run.host = HostStats::default();
                run.counted = Nanos(0);
                self.own_since = None;
                self.steps_seen = 0;
            }
            Event::PhaseBegan { phase } => {
                if let Some(since) = self.own_since.take() {
                    run.counted = run.counted + stamped.at.since(since);
                }
                self.own_since = (phase == phase::RUN).then_some(stamped.at);
                self.phase = (phase != phase::RUN).then(|| phase.clone());
                return;
            }
            Event::Step(step) => {
                self.steps_seen += 1;
                let ended = step.ended.unwrap_or(stamped.at);
                run.first_step_after.get_or_insert(ended);
                run.first_step.get_or_insert(step.step);
                if let Some(phase) = &step.phase {
                    let steps = run.phases.entry(phase.clone()).or_default();
                    steps.push(step.clone());
                    return;
                }
                self.steps.insert(step.step, step.clone());
            }
            Event::Dataset(facts) => run.dataset = Some(facts.clone()),
            Event::Validated(found) => {
                run.validations.insert(found.step, found.clone());
            }
            Event::RunEnded { .. } => {
                if let Some(since) = self.own_since.take() {
                    run.counted = run.counted + stamped.at.since(since);
                }
            }
            _ if self.phase.is_some() => return,
            Event::HostSample(sample) => {
                let memory = sample.process_memory;
                run.memory.extend(memory.map(|bytes| (stamped.at, bytes)));
            }
            Event::DeviceSample(sample) if self.steps_seen > WARM_UP_STEPS => {
                if let Some(percent) = sample.utilisation_percent {
                    let samples = run.utilisation.entry(sample.device.clone()).or_default();
                    samples.push(percent);
                }
            }
            Event::StageSecond(second) => {
                run.slow.extend(second.slowest.iter().map(|slow| Slow {
                    until: stamped.at,
                    stage: second.stage.clone(),
                    item: slow.item,
                    name: slow.name.clone(),
                    service: slow.service,
                }));
            }
            _ => {}
        }
        run.stats.absorb(stamped);
    }
}
