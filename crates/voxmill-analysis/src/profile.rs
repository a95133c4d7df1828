//! All that a profile reports, as one value: it is printed, and it is the JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::device::DeviceLabel;
use voxmill_telemetry::event::{DecidedChange, Nanos, Outcome, Step, Wait, WaitSum};
use voxmill_telemetry::stage::{StageId, is_part};
use voxmill_telemetry::stats::DeviceStats;

use crate::bottleneck::name_settings;
use crate::bottleneck::{Finding, find};
use crate::paired::{paired_ratio, rounds};
use crate::run::{CoreLoad, Run, Slow, fact, phase};
use crate::scorecard::{Score, scorecard};
use crate::setting::SettingNames;
use crate::simulate::model::{Pace, RunModel};
use crate::simulate::what_if::{Prediction, WhatIfError, parse, predict};
use crate::timing::{
    Line, Ratio, Spread, milliseconds, padded_frames, step_time, valid_frames, variation,
};

/// Grows when a reader of the JSON would misread it.
pub const PROFILE_VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    #[schemars(extend("const" = PROFILE_VERSION))]
    pub version: u32,
    pub program: String,
    /// What was measured: settings and the machine, by name.
    pub facts: BTreeMap<String, String>,
    /// `None`: still running, or killed.
    pub outcome: Option<Outcome>,
    pub steps: u64,
    pub warm_up_steps: u64,
    /// The model device's time over these steps.
    pub seconds: f64,
    /// The part of the clock's time that waits, training and gaps add up to.
    pub explained: f64,
    /// Milliseconds from asking for a batch to the end of its step.
    pub step_ms: Spread,
    pub shares: Vec<Share>,
    /// What training was spent on, where the device reports it.
    pub train_parts: BTreeMap<String, Spread>,
    pub stages: Vec<StageTime>,
    pub feeding: Feeding,
    /// The share of the model device's time line that was training.
    pub busy: f64,
    /// As the driver reports it for each device: the share of time in which some kernel ran, in per cent.
    pub driver_utilisation_percent: BTreeMap<DeviceLabel, f64>,
    pub data_device_busy: Option<f64>,
    pub variation: Option<f64>,
    pub frames_per_second: f64,
    pub steps_per_second: f64,
    /// The share of all frames that is padding.
    pub padding_waste: f64,
    pub time_to_first_step_seconds: Option<f64>,
    pub memory: PeakMemory,
    pub power_watts: BTreeMap<DeviceLabel, f64>,
    /// Of this process, all its threads, for each hour of audio that was trained on.
    pub cpu_seconds_per_audio_hour: Option<f64>,
    pub host_cpu_percent: Option<f64>,
    /// The steps that waited longest, and for what.
    pub slowest: Vec<SlowStep>,
    pub findings: Vec<Finding>,
    /// The run's own settings, simulated from the log: how well it is understood. Absent where nothing was predicted.
    #[serde(default)]
    pub replayed: Option<Pace>,
    /// Why no gain could be predicted, where one was wanted.
    #[serde(default)]
    pub not_predicted: Option<String>,
    /// The answer to `--what-if`.
    #[serde(default)]
    pub what_if: Option<Prediction>,
    pub scorecard: Vec<Score>,
    /// Cores that other programs took, and those that this one may use.
    pub other_programs: Option<OtherPrograms>,
    /// Events that were too many to record, and lines of the log that could not be read.
    pub lost: u64,
}

impl Profile {
    /// Fills in how the settings are written that its sentences name.
    pub fn name_settings(&mut self, names: &SettingNames) {
        name_settings(&mut self.findings, names);
        for score in &mut self.scorecard {
            names.in_text(&mut score.goal);
        }
    }
}

/// A share of the model device's line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub name: String,
    pub share: f64,
    pub ms: Spread,
}

/// A stage's own work: it runs alongside the model, so it is not added to the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTime {
    pub name: String,
    pub workers: u64,
    pub ms: Spread,
    /// The share of its workers' time that was work.
    pub busy: f64,
    /// Milliseconds for each item that its workers waited, by what for.
    pub waits_ms: BTreeMap<String, f64>,
    /// Items a second that its workers could do, and that the run took.
    pub capacity: f64,
    pub needed: f64,
}

/// The step time of the run compared with that of batches that were ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Feeding {
    /// a: batches on the device already, workers idle.
    pub floor_ms: Option<f64>,
    /// b / a: the same while the workers work.
    pub interference: Option<Ratio>,
    /// c / a: the run.
    pub run_over_floor: Option<Ratio>,
    /// Milliseconds a step that the model waited, in the run.
    pub stall_ms: f64,
    /// How much longer the same takes one thing after another.
    pub no_overlap_over_run: Option<Ratio>,
    /// The most that overlap could gain, by the work of the data side: near 1, there is nothing to overlap.
    pub most_overlap_can_gain: Option<f64>,
    /// How often all phases took turns; intervals come from what changed between rounds.
    #[serde(default)]
    pub rounds: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeakMemory {
    pub process_peak: Option<u64>,
    pub host_total: Option<u64>,
    pub swap_peak: Option<u64>,
    /// Bytes at most on each device, as its driver reports them.
    pub devices: BTreeMap<DeviceLabel, DriverMemory>,
    /// Bytes at most in each budget, and its limit.
    pub budgets: BTreeMap<String, (u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DriverMemory {
    pub peak: Option<u64>,
    pub total: Option<u64>,
}

/// What other programs took of the cores that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherPrograms {
    pub cores_taken: f64,
    pub cores: f64,
    /// No core was free: times are not the program's own, and nothing is graded.
    pub oversubscribed: bool,
}

impl From<CoreLoad> for OtherPrograms {
    fn from(load: CoreLoad) -> OtherPrograms {
        OtherPrograms {
            cores_taken: load.others() * load.cores,
            cores: load.cores,
            oversubscribed: load.is_oversubscribed(),
        }
    }
}

impl OtherPrograms {
    /// Why nothing is graded, if so.
    pub fn why_ungraded(self) -> Option<String> {
        let OtherPrograms {
            cores_taken, cores, ..
        } = self;
        let why = || format!("other programs took {cores_taken:.1} of {cores:.1} cores");
        self.oversubscribed.then(why)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowStep {
    pub step: u64,
    pub waited_ms: f64,
    pub stage: String,
    /// What the stage was doing just before: the part of it, the item, and how long that took.
    pub doing: Option<SlowPart>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowPart {
    pub part: String,
    pub item: String,
    pub ms: f64,
}

/// How many of the steps that waited longest are listed.
const SLOWEST: usize = 5;
/// A shorter wait is not worth a name.
const WORTH_A_NAME_MS: f64 = 5.0;

/// Of the last start.
pub fn profile(run: &Run) -> Profile {
    let run = &run.last_start();
    let steps = &run.steps;
    let line = Line::of(steps);
    let stages = stages(run, line.seconds * run.counted_over(line.seconds));
    let feeding = feeding(run, &line, &stages);
    let stats = &run.stats;
    let frames: f64 = steps.iter().map(valid_frames).sum();
    let padded: f64 = steps.iter().map(padded_frames).sum();
    let host = &stats.host;
    let seconds_of = |frames: f64| Some(frames * run.number(fact::HOP_SECONDS)?);
    let audio_hours = seconds_of(frames).map(|seconds| seconds / 3_600.0);
    let cpu_seconds = (host.process_cpu_percent.mean()).map(|cpu| cpu / 100.0 * line.seconds);
    let of_devices = |value: fn(&DeviceStats) -> Option<f64>| -> BTreeMap<DeviceLabel, f64> {
        let devices = stats.devices.iter();
        let known = devices.filter_map(|(id, device)| Some((id.clone(), value(device)?)));
        known.collect()
    };
    let driver_memory = |(id, device): (&DeviceLabel, &DeviceStats)| {
        let peak = device.memory_used.peak().map(|bytes| bytes as u64);
        let total = device.memory_total;
        (id.clone(), DriverMemory { peak, total })
    };
    let started = stats.started.clone().unwrap_or_default();
    let pools = stats.device_memory.iter();
    let pools = pools.map(|(device, memory)| (format!("memory of {device}"), memory));
    let mut profile = Profile {
        version: PROFILE_VERSION,
        program: started.program,
        facts: started.facts,
        outcome: run.outcome(),
        steps: steps.len() as u64,
        warm_up_steps: run.phase(phase::WARM_UP).len() as u64,
        seconds: line.seconds,
        explained: explained(steps, &line),
        step_ms: Spread::of(steps.iter().map(step_time)),
        shares: shares(run, &line),
        train_parts: train_parts(steps),
        data_device_busy: data_device_busy(run, &stages),
        stages,
        feeding,
        busy: line.busy(),
        driver_utilisation_percent: of_devices(|device| device.utilisation_percent.mean()),
        variation: variation(steps),
        frames_per_second: frames / line.seconds.max(1e-9),
        steps_per_second: steps.len() as f64 / line.seconds.max(1e-9),
        padding_waste: match padded > 0.0 {
            true => 1.0 - frames / padded,
            false => 0.0,
        },
        time_to_first_step_seconds: run
            .first_step_after
            .map(|after| after.seconds() + run.number(fact::SECONDS_BEFORE).unwrap_or(0.0)),
        memory: PeakMemory {
            process_peak: host.process_memory.peak().map(|bytes| bytes as u64),
            host_total: host.memory_total,
            swap_peak: host.swap_used.peak().map(|bytes| bytes as u64),
            devices: stats.devices.iter().map(driver_memory).collect(),
            budgets: (stats.budgets.iter())
                .map(|(name, budget)| (name.clone(), budget))
                .chain(pools)
                .map(|(name, budget)| (name, (budget.peak, budget.limit)))
                .collect(),
        },
        power_watts: of_devices(|device| device.power_watts.mean()),
        cpu_seconds_per_audio_hour: cpu_seconds
            .zip(audio_hours)
            .filter(|(_, hours)| *hours > 0.0)
            .map(|(cpu, hours)| cpu / hours),
        host_cpu_percent: host.cpu_percent.mean(),
        slowest: slow_steps(run, SLOWEST),
        findings: Vec::new(),
        replayed: None,
        not_predicted: None,
        what_if: None,
        scorecard: Vec::new(),
        other_programs: run.core_load().map(OtherPrograms::from),
        lost: stats.lost + run.flaws.damaged,
    };
    profile.findings = find(&profile, run);
    profile.scorecard = scorecard(&profile);
    profile
}

/// Adds what following each advice would gain, where the model of the run can say it, and returns these predictions. That
/// takes a second at times, so it is not done for a run that trains.
pub fn predict_gains(profile: &mut Profile, run: &Run) -> Vec<Prediction> {
    let all = profile.findings.iter_mut();
    let asked = all.flat_map(|finding| &mut finding.changes);
    let mut asked: Vec<_> = asked.filter(|advice| advice.what_if.is_some()).collect();
    let mut predictions = Vec::new();
    if asked.is_empty() {
        return predictions;
    }
    let model = match RunModel::of(run) {
        Ok(model) => model,
        Err(error) => {
            profile.not_predicted = Some(error.to_string());
            return predictions;
        }
    };
    for advice in &mut asked {
        let question = advice.what_if.as_deref().unwrap_or_default();
        let changes = parse(question).map_err(WhatIfError::from);
        match changes.and_then(|changes| predict(&model, &changes)) {
            Ok(predicted) => {
                profile.replayed = Some(predicted.replayed);
                advice.gain = Some(predicted.gain);
                predictions.push(predicted);
            }
            Err(error) => profile.not_predicted = Some(error.to_string()),
        }
    }
    predictions
}

/// What the steps add up to, as a share of the clock's time over them. Other phases may lie between them.
fn explained(steps: &[Step], line: &Line) -> f64 {
    let clock = |steps: &[Step]| {
        let (first, last) = (steps.first()?, steps.last()?);
        let after_first = last.ended?.since(first.ended?);
        Some((after_first + first.service + first.waited + first.overhead).seconds())
    };
    let unbroken = steps.chunk_by(|a, b| b.step == a.step + 1);
    let clock: Option<f64> = unbroken.map(clock).sum();
    let clock = clock.filter(|clock| *clock > 0.0);
    clock.map_or(1.0, |clock| line.seconds / clock)
}

impl StageTime {
    /// Of all its workers together.
    pub(crate) fn work_seconds(&self) -> f64 {
        self.ms.mean / 1e3 * self.ms.count as f64
    }
}

/// Seconds of all stages together, counted once: parts belong to their stage.
pub(crate) fn data_work(stages: &[StageTime]) -> f64 {
    let whole = stages.iter().filter(|stage| !is_part(&stage.name));
    whole.map(StageTime::work_seconds).sum()
}

/// The share of computing features that was this part of it.
pub(crate) fn part_of_featurize(run: &Run, part: StageId) -> f64 {
    let sum = |stage: StageId| {
        let stage = run.stats.stage(stage.name());
        stage.map_or(0.0, |stage| stage.service.sum().seconds())
    };
    let whole = sum(StageId::Featurize);
    match whole > 0.0 {
        true => sum(part) / whole,
        false => 0.0,
    }
}

/// Waits are charged to the stage that was late. Reading and computing are one stage: its waits are split as
/// its work is.
fn shares(run: &Run, line: &Line) -> Vec<Share> {
    let read = part_of_featurize(run, StageId::Read).min(1.0);
    let of_wait = |step: &Step| -> [f64; 3] {
        let waited = milliseconds(step.waited);
        match step.late.as_deref() {
            Some("rows") => [waited, 0.0, 0.0],
            Some(late) if *late == StageId::Featurize => {
                [waited * read, waited * (1.0 - read), 0.0]
            }
            Some(late) if *late == StageId::Prepare => [0.0, 0.0, waited],
            Some(_) => [0.0, waited, 0.0],
            // Too short to ask: it is the hand-over itself.
            None => [0.0, 0.0, waited],
        }
    };
    let share = |name: &str, values: Vec<f64>| Share {
        name: name.to_owned(),
        share: line.share(values.iter().sum::<f64>() / 1e3),
        ms: Spread::of(values),
    };
    let waits: Vec<[f64; 3]> = run.steps.iter().map(of_wait).collect();
    let column = |n: usize| waits.iter().map(|wait| wait[n]).collect();
    let of = |value: fn(&Step) -> Nanos| run.steps.iter().map(|s| milliseconds(value(s))).collect();
    vec![
        share("data load", column(0)),
        share("preprocess", column(1)),
        share("transfer", column(2)),
        share("train", of(|step| step.service)),
        share("gap", of(|step| step.overhead)),
    ]
}

fn train_parts(steps: &[Step]) -> BTreeMap<String, Spread> {
    let mut parts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for step in steps {
        for (name, took) in &step.parts {
            let times = parts.entry(name.clone()).or_default();
            times.push(milliseconds(*took));
        }
    }
    let spread = |(name, values)| (name, Spread::of(values));
    parts.into_iter().map(spread).collect()
}

fn stages(run: &Run, seconds: f64) -> Vec<StageTime> {
    let workers = |name: &str| {
        let mut planned = run.plan().into_iter().flat_map(|plan| &plan.stages);
        let planned = planned.find(|stage| stage.name == name);
        let planned = planned.map(|stage| stage.workers.value as u64);
        // The controller may have added some.
        let decisions = run.stats.decisions.iter();
        let decided = decisions.filter(|(_, decision)| decision.subject == name);
        let decided = decided.filter_map(|(_, decision)| match decision.change {
            DecidedChange::Workers { to, .. } => Some(to),
            _ => None,
        });
        planned.max(decided.max())
    };
    // The consumer's time is the line itself.
    let consumer = run.plan().map_or("train", |plan| &plan.consumer);
    let stages = run.stats.stages.iter();
    let stages = stages.filter(|s| !s.service.is_empty() && s.stage != consumer);
    stages
        .map(|stage| {
            let owner = stage.stage.split('.').next().unwrap_or(&stage.stage);
            let workers = workers(owner).unwrap_or(1);
            let ms = Spread::of_histogram(&stage.service);
            let items = ms.count as f64;
            let wait = |(wait, sum): (&Wait, &WaitSum)| {
                (wait.name().to_owned(), milliseconds(sum.total) / items)
            };
            StageTime {
                name: stage.stage.clone(),
                workers,
                busy: stage.service.sum().seconds() / (workers as f64 * seconds.max(1e-9)),
                waits_ms: stage.waits.iter().map(wait).collect(),
                capacity: workers as f64 * 1e3 / ms.mean.max(1e-9),
                needed: items / seconds.max(1e-9),
                ms,
            }
        })
        .collect()
}

/// Two devices: the thread of the one that prepares. It has one worker.
fn data_device_busy(run: &Run, stages: &[StageTime]) -> Option<f64> {
    let (data, model) = (run.fact(fact::DATA_DEVICE)?, run.fact(fact::DEVICE)?);
    let two = run.fact(fact::MODE) == Some("two devices") || data != model;
    let mut stages = stages.iter();
    let prepare = stages.find(|stage| *stage.name == StageId::Prepare)?;
    two.then(|| prepare.busy.min(1.0))
}

fn feeding(run: &Run, line: &Line, stages: &[StageTime]) -> Feeding {
    let (floor, busy) = (run.phase(phase::FLOOR), run.phase(phase::INTERFERENCE));
    let one_by_one = run.phase(phase::NO_OVERLAP);
    let steps = run.steps.len().max(1) as f64;
    let run_over_floor = paired_ratio(&run.steps, floor);
    let step_ms = Spread::of(run.steps.iter().map(step_time)).mean;
    Feeding {
        // At the shapes of the run: what its steps would have taken.
        floor_ms: run_over_floor.map(|ratio| step_ms / ratio.value),
        interference: paired_ratio(busy, floor),
        run_over_floor,
        stall_ms: line.waited.values().sum::<f64>() * 1e3 / steps,
        no_overlap_over_run: paired_ratio(one_by_one, &run.steps),
        most_overlap_can_gain: (!one_by_one.is_empty()).then(|| {
            let work = data_work(stages) / run.counted_over(line.seconds);
            1.0 + work / line.seconds.max(1e-9)
        }),
        rounds: rounds(&run.steps, floor) as u64,
    }
}

/// The steps that waited longest, at most so many, and for what.
pub fn slow_steps(run: &Run, most: usize) -> Vec<SlowStep> {
    let worth_a_name = |step: &&Step| milliseconds(step.waited) >= WORTH_A_NAME_MS;
    let late = run.steps.iter().filter(|step| step.late.is_some());
    let mut waited: Vec<&Step> = late.filter(worth_a_name).collect();
    waited.sort_by_key(|step| (std::cmp::Reverse(step.waited), step.step));
    let slow_step = |step: &Step| SlowStep {
        step: step.step,
        waited_ms: milliseconds(step.waited),
        stage: step.late.clone().unwrap_or_default(),
        doing: doing(run, step),
    };
    waited.into_iter().take(most).map(slow_step).collect()
}

/// The slowest item of the late stage in the seconds before the batch came, and which part of it was slow.
fn doing(run: &Run, step: &Step) -> Option<SlowPart> {
    let stage = step.late.as_deref()?;
    let came = step.ended?.since(step.service);
    let near = |slow: &&Slow| {
        let second = Nanos(1_000_000_000);
        slow.until >= came.since(step.waited) && slow.until <= came + second
    };
    let slow = |stage: &str, item: Option<u64>| {
        let of_stage = run.slow.iter().filter(|slow| slow.stage == stage);
        let fitting = of_stage
            .filter(near)
            .filter(|slow| item.is_none_or(|item| slow.item == item));
        fitting.max_by_key(|slow| slow.service).cloned()
    };
    let item = slow(stage, None)?;
    let parts = ["read", "decode", "resample", "mel"];
    let part = parts
        .iter()
        .filter_map(|part| {
            let found = slow(&format!("{stage}.{part}"), Some(item.item))?;
            Some((*part, found.service))
        })
        .max_by_key(|(_, service)| *service)
        .map(|(part, _)| part);
    Some(SlowPart {
        part: part.unwrap_or(stage).to_owned(),
        item: item.name,
        ms: milliseconds(item.service),
    })
}
