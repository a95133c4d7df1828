//! What happened when: a run on one axis of time, for charts.
//!
//! [`Run`](crate::run::Run) has what a run was on the whole. Here are its levels, samples, decisions and steps
//! with their moments. The starts of a run follow one another on the axis; the time between them, in which
//! nothing ran, is left out.

use std::collections::BTreeMap;
use std::path::Path;

use voxmill_telemetry::device::DeviceLabel;
use voxmill_telemetry::event::{
    Decision, DeviceSample, Event, HostSample, Outcome, SlotState, Stamped, Step, Validated,
};
use voxmill_telemetry::facts::{DatasetFacts, RecordedSetting};
use voxmill_telemetry::log::LogError;

use crate::run::{Run, phase};
use crate::timing::{milliseconds, padded_frames, step_time, valid_frames};

/// Seconds since the run began.
pub type Seconds = f64;

/// What a page shows of a run over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub starts: Vec<Start>,
    /// Of the run itself, in the order of their ends; steps that were done again after a crash are here twice.
    pub steps: Vec<PlacedStep>,
    /// What else was measured, such as the model alone in a profile.
    pub phases: Vec<Span>,
    /// By stage: work that ended at a moment, in seconds of all workers together.
    pub work: BTreeMap<String, Vec<(Seconds, f64)>>,
    pub buffers: BTreeMap<String, Vec<Level>>,
    pub budgets: BTreeMap<String, Vec<Level>>,
    pub device_memory: BTreeMap<DeviceLabel, Vec<Level>>,
    pub devices: BTreeMap<DeviceLabel, Vec<(Seconds, DeviceSample)>>,
    pub host: Vec<(Seconds, HostSample)>,
    /// Batches that were ready, on average over the waits that ended in a second. A wait is known when it ends, and may
    /// have been longer than that second.
    pub ready: Vec<(Seconds, f64)>,
    pub decisions: Vec<(Seconds, Decision)>,
    pub checkpoints: Vec<(Seconds, u64)>,
    pub validations: Vec<Validated>,
    /// Of the last start.
    pub dataset: Option<DatasetFacts>,
    pub settings: Vec<RecordedSetting>,
    /// The end of the axis.
    pub end: Seconds,
}

/// A start of a run within its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub at: Seconds,
    pub end: Seconds,
    pub unix_seconds: f64,
    /// `None`: killed, or still running.
    pub outcome: Option<Outcome>,
}

/// From when to when something was so.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub name: String,
    pub from: Seconds,
    pub to: Seconds,
}

/// How full something was at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    pub at: Seconds,
    pub value: u64,
    /// Places, or bytes. `None`: no limit.
    pub limit: Option<u64>,
}

/// A step and when it ended. It took `overhead`, `waited` and `service`, in this order.
#[derive(Clone, Debug)]
pub struct PlacedStep {
    pub end: Seconds,
    pub step: Step,
}

impl PlacedStep {
    /// When it began.
    pub fn begin(&self) -> Seconds {
        let step = &self.step;
        self.end - (step.overhead + step.waited + step.service).seconds()
    }

    /// What a batch cost.
    pub fn milliseconds(&self) -> f64 {
        step_time(&self.step)
    }

    /// How long the model waited for its batch.
    pub fn waited_ms(&self) -> f64 {
        milliseconds(self.step.waited)
    }
}

/// The model device's time in a part of the axis, in shares of that part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    pub from: Seconds,
    pub to: Seconds,
    pub train: f64,
    pub waited: f64,
    pub gap: f64,
    pub valid_frames: f64,
    pub padded_frames: f64,
    /// The longest wait of a step that ended here, in milliseconds.
    pub longest_wait_ms: f64,
}

impl Bin {
    /// Valid frames, by the whole time of the bin.
    pub fn frames_per_second(&self) -> f64 {
        self.valid_frames / (self.to - self.from).max(1e-9)
    }

    /// `None` where no step was computed.
    pub fn padding(&self) -> Option<f64> {
        (self.padded_frames > 0.0).then(|| 1.0 - self.valid_frames / self.padded_frames)
    }
}

impl History {
    /// A run and its history, from one reading of its log.
    pub fn read(path: &Path) -> Result<(Run, History), LogError> {
        let mut reading = Reading::default();
        let run = Run::read_with(path, |stamped| reading.add(stamped))?;
        Ok((run, reading.history))
    }

    /// From events that are in memory.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Stamped>) -> History {
        let mut reading = Reading::default();
        events.into_iter().for_each(|stamped| reading.add(stamped));
        reading.history
    }

    /// The model device's time line in this many parts of equal length.
    pub fn bins(&self, count: usize) -> Vec<Bin> {
        let width = self.end / count.max(1) as f64;
        let edge = |n: usize| n as f64 * width;
        let mut bins: Vec<Bin> = (0..count)
            .map(|n| Bin {
                from: edge(n),
                to: edge(n + 1),
                ..Bin::default()
            })
            .collect();
        for placed in &self.steps {
            let (step, end) = (&placed.step, placed.end);
            let trained = end - step.service.seconds();
            let asked = trained - step.waited.seconds();
            let wall = (end - placed.begin()).max(1e-9);
            let frames = [valid_frames(step), padded_frames(step)];
            spread(&mut bins, (placed.begin(), asked), |bin, time, share| {
                bin.gap += time * share
            });
            spread(&mut bins, (asked, trained), |bin, time, share| {
                bin.waited += time * share
            });
            spread(&mut bins, (trained, end), |bin, time, share| {
                bin.train += time * share
            });
            spread(&mut bins, (placed.begin(), end), |bin, time, _| {
                bin.valid_frames += frames[0] * time / wall;
                bin.padded_frames += frames[1] * time / wall;
            });
            if let Some(bin) = place(end, width, count).and_then(|n| bins.get_mut(n)) {
                bin.longest_wait_ms = bin.longest_wait_ms.max(placed.waited_ms());
            }
        }
        bins
    }

    /// How busy a stage's workers were in this many parts of the axis, in shares.
    pub fn busy(&self, stage: &str, workers: f64, count: usize) -> Vec<f64> {
        let width = self.end / count.max(1) as f64;
        let mut bins = vec![0.0; count];
        for (end, work) in self.work.get(stage).into_iter().flatten() {
            // Recorded by the second; longer work began before it.
            let from = end - (work / workers.max(1.0)).max(1.0);
            let from = from.max(self.start_of(*end));
            let per_second = work / (end - from).max(1e-9);
            overlaps(from, *end, width, count, |n, time| {
                bins[n] += time * per_second / workers.max(1.0) / width;
            });
        }
        bins
    }

    fn start_of(&self, at: Seconds) -> Seconds {
        let began = self.starts.iter().map(|start| start.at);
        began.filter(|start| *start < at).fold(0.0, f64::max)
    }

    /// Whether a start before the last one has no end in the log.
    pub fn was_killed(&self) -> bool {
        let earlier = self.starts.len().saturating_sub(1);
        let mut earlier = self.starts.iter().take(earlier);
        earlier.any(|start| start.outcome.is_none())
    }
}

/// Adds `add(bin, seconds in it, share of the bin per second)`.
fn spread(bins: &mut [Bin], (from, to): (f64, f64), mut add: impl FnMut(&mut Bin, f64, f64)) {
    let Some(width) = bins.first().map(|bin| bin.to - bin.from) else {
        return;
    };
    let count = bins.len();
    overlaps(from, to, width, count, |n, time| {
        add(&mut bins[n], time, 1.0 / width.max(1e-12));
    });
}

/// The parts of the axis that a span of time lies in, with the seconds in each.
fn overlaps(from: f64, to: f64, width: f64, count: usize, mut add: impl FnMut(usize, f64)) {
    let (from, to) = (from.max(0.0), to.min(width * count as f64));
    let Some(first) = place(from, width, count).filter(|_| to > from) else {
        return;
    };
    for n in first..count {
        let (begin, end) = (n as f64 * width, (n + 1) as f64 * width);
        if begin >= to {
            break;
        }
        let time = to.min(end) - from.max(begin);
        if time > 0.0 {
            add(n, time);
        }
    }
}

fn place(at: f64, width: f64, count: usize) -> Option<usize> {
    let known = width > 0.0 && count > 0;
    known.then(|| ((at.max(0.0) / width) as usize).min(count - 1))
}

#[derive(Default)]
struct Reading {
    history: History,
    /// Where the clock of this start began on the axis.
    offset: Seconds,
}

impl Reading {
    fn add(&mut self, stamped: &Stamped) {
        let history = &mut self.history;
        if let Event::RunStarted(started) = &stamped.event {
            self.offset = history.end;
            history.starts.push(Start {
                at: self.offset,
                end: self.offset,
                unix_seconds: started.unix_seconds,
                outcome: None,
            });
            history.settings = started.settings.clone();
        }
        let at = self.offset + stamped.at.seconds();
        history.end = history.end.max(at);
        if let Some(start) = history.starts.last_mut() {
            start.end = start.end.max(at);
        }
        let level = |value: u64, limit: u64| Level {
            at,
            value,
            limit: Some(limit).filter(|limit| *limit > 0),
        };
        match &stamped.event {
            Event::RunEnded { outcome } => {
                if let Some(start) = history.starts.last_mut() {
                    start.outcome = Some(*outcome);
                }
            }
            Event::Step(step) => {
                let end = step.ended.map_or(at, |ended| self.offset + ended.seconds());
                self.step(step, end);
            }
            Event::StageSecond(second) => {
                let work = second.service.sum().seconds();
                let stage = entry(&mut history.work, &second.stage);
                stage.push((at, work));
            }
            Event::BufferLevel {
                buffer,
                items,
                capacity,
            } => entry(&mut history.buffers, buffer).push(level(*items, *capacity)),
            Event::BudgetLevel {
                budget,
                bytes,
                limit,
                ..
            } => entry(&mut history.budgets, budget).push(level(*bytes, *limit)),
            Event::DeviceMemory(memory) => {
                let levels = history.device_memory.entry(memory.device.clone());
                let limit = memory.limit.unwrap_or(0);
                levels.or_default().push(level(memory.bytes, limit));
            }
            Event::DeviceSample(sample) => {
                let samples = history.devices.entry(sample.device.clone());
                samples.or_default().push((at, sample.clone()));
            }
            Event::HostSample(sample) => history.host.push((at, sample.clone())),
            Event::SlotSecond(second) => {
                let ready = second.states.get(&SlotState::Ready);
                let ready = ready.map(|sum| sum.total.seconds() / sum.longest.seconds().max(1.0));
                history.ready.extend(ready.map(|ready| (at, ready)));
            }
            Event::Decision(decision) => history.decisions.push((at, decision.clone())),
            Event::Checkpoint { position, .. } => history.checkpoints.push((at, *position)),
            Event::Validated(found) => history.validations.push(found.clone()),
            Event::Dataset(dataset) => history.dataset = Some(dataset.clone()),
            _ => {}
        }
    }

    fn step(&mut self, step: &Step, end: Seconds) {
        let history = &mut self.history;
        let Some(name) = step.phase.as_ref().filter(|name| *name != phase::RUN) else {
            history.steps.push(PlacedStep {
                end,
                step: step.clone(),
            });
            return;
        };
        let wall = (step.overhead + step.waited + step.service).seconds();
        match history.phases.last_mut() {
            // One after the other, except for what a lost step leaves open.
            Some(last) if last.name == *name && end - wall - last.to < wall.max(0.5) => {
                last.to = end;
            }
            _ => history.phases.push(Span {
                name: name.clone(),
                from: end - wall,
                to: end,
            }),
        }
    }
}

fn entry<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.entry(name.to_owned()).or_default()
}

/// The smallest and the largest value of each part of the axis that has any, in the order in which they came.
/// Of at most twice as many points as there are parts, nothing that stands out is lost.
pub fn extremes(points: &[(f64, f64)], (from, to): (f64, f64), parts: usize) -> Vec<(f64, f64)> {
    if points.len() <= 2 * parts.max(1) {
        return points.to_vec();
    }
    let width = (to - from).max(1e-12) / parts.max(1) as f64;
    let part = |point: &(f64, f64)| ((point.0 - from) / width) as i64;
    let mut kept = Vec::with_capacity(2 * parts);
    for group in points.chunk_by(|a, b| part(a) == part(b)) {
        let finite = || {
            group
                .iter()
                .enumerate()
                .filter(|(_, point)| point.1.is_finite())
        };
        let least = finite().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let most = finite().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let mut both: Vec<usize> = least.into_iter().chain(most).map(|(n, _)| n).collect();
        both.sort_unstable();
        both.dedup();
        kept.extend(both.into_iter().map(|n| group[n]));
    }
    kept
}

#[cfg(test)]
mod tests;
