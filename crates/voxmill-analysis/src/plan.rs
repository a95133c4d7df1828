//! A run on hardware that is not there: stage times and their spread in; step time, busy, stall, device hours and the first
//! bottleneck out.
//!
//! Each way to run it (one device or two, one after another or overlapped) is simulated by the pipeline's own rules,
//! not computed from a formula: a formula says nothing of what uneven times cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::simulate::engine::simulate;
use crate::simulate::model::Pace;
use crate::simulate::setup::{Consumer, Demand, Load, Setup, SimulationError, Stage, Training};
use crate::simulate::times::{Times, draw};
use crate::simulate::what_if::Prediction;

/// Grows when a reader of the JSON would misread it.
pub const PLAN_VERSION: u32 = 1;

/// What a person states of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRun {
    /// Of the whole run, for its hours.
    pub steps: u64,
    /// Clips to a batch, where a stage's time is that of a clip.
    pub clips: u64,
    /// In the order of the pipeline.
    pub stages: Vec<PlannedStage>,
    pub train: Timed,
    /// Batches ahead on the device.
    pub slots: usize,
    /// What two devices that both train exchange after each step.
    pub exchange: Option<Timed>,
}

/// A stage as a file states it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStage {
    pub name: String,
    pub time: Timed,
    pub each: Each,
    pub workers: usize,
    pub buffer: usize,
    pub with: With,
    /// It runs on the data device. Where there is one device, that is the one that trains.
    pub on_device: bool,
}

/// How long something takes, with its spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timed {
    pub milliseconds: f64,
    /// Standard deviation over mean.
    pub spread: f64,
}

/// What a stage's time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    Batch,
    Clip,
}

/// With how many devices there is such a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    Any,
    OneDevice,
    TwoDevices,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    #[schemars(extend("const" = PLAN_VERSION))]
    pub version: u32,
    pub steps: u64,
    /// The ways to run it, the simplest first.
    pub ways: Vec<Way>,
    /// What each part takes of a batch, the slowest first.
    pub parts: Vec<PartTime>,
    /// The same run with other numbers of batches ahead; none where all times are even.
    pub buffers: Vec<BufferRow>,
    pub placement: Option<Placement>,
    /// Where it was planned from a log: the prediction with all that it rests on.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// What follows, in words.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Way {
    pub name: String,
    pub devices: u64,
    pub overlap: bool,
    pub pace: Pace,
    /// Devices times hours, of the whole run.
    pub device_hours: f64,
    /// What the step is bound by: `train`, a stage, or all of them one after another.
    pub bound_by: String,
}

/// A part of the run, in milliseconds of a batch with all its workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartTime {
    pub name: String,
    pub batch_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BufferRow {
    pub ahead: u64,
    pub step_ms: f64,
    pub stall: f64,
}

/// A second device: to prepare batches, or to train as well?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// Milliseconds for each batch.
    pub one_device_ms: f64,
    pub for_data_ms: f64,
    pub for_training_ms: f64,
    /// `data`, `training`, or `neither` where it gains nothing to speak of.
    pub advice: String,
}

const ONE: u64 = 1;
const TWO: u64 = 2;
/// Steps that are simulated, and steps before them, in which buffers fill.
const STEPS: u64 = 2_000;
const WARM_UP: u64 = 200;
const SEED: u64 = 1;
const NANOS: f64 = 1e6;
/// As many batches ahead as the question about buffers is asked for.
const AHEAD: [usize; 5] = [1, 2, 3, 5, 10];
/// A gain below this is none to buy a device for.
const WORTH: f64 = 0.02;

impl PlannedRun {
    /// The stages of a way to run it.
    fn stages_with(&self, devices: u64) -> Vec<&PlannedStage> {
        let has = |stage: &&PlannedStage| match stage.with {
            With::Any => true,
            With::OneDevice => devices == ONE,
            With::TwoDevices => devices == TWO,
        };
        self.stages.iter().filter(has).collect()
    }

    fn has_two(&self) -> bool {
        let needs = |stage: &PlannedStage| stage.with == With::TwoDevices || stage.on_device;
        self.stages.iter().any(needs) || self.exchange.is_some()
    }

    fn is_uneven(&self) -> bool {
        let stages = self.stages.iter().map(|stage| stage.time);
        let mut all = stages.chain([self.train]).chain(self.exchange);
        all.any(|time| time.spread > 0.0)
    }

    fn batch_ms(&self, stage: &PlannedStage) -> f64 {
        let items = match stage.each {
            Each::Batch => 1,
            Each::Clip => self.clips,
        };
        stage.time.milliseconds * items as f64 / stage.workers as f64
    }

    /// What is simulated: `batches` are trained in each step, one on each device that trains.
    fn simulated(
        &self,
        devices: u64,
        overlap: bool,
        batches: u64,
        ahead: usize,
    ) -> Result<Pace, SimulationError> {
        let stages = self.stages_with(devices);
        // With one device, what runs on it and is not training takes its turn with training; without overlap
        // everything takes its turn.
        let shares = |stage: &PlannedStage| devices == ONE && stage.on_device && overlap;
        let mut load = Stated {
            // The source hands out numbers and takes no time.
            stages: vec![(Times::even(0), 1)],
            train: vec![self.train.times()],
            batches,
        };
        let mut setup = Setup::new(vec![Stage {
            buffer: self.clips as usize * 2,
            ..Stage::new("source")
        }]);
        setup.overlap = overlap;
        setup.slots_ahead = Some(ahead);
        setup.consumer = Consumer::default();
        let by_clip = stages
            .iter()
            .take_while(|stage| stage.each == Each::Clip)
            .count();
        let put = |stage: &PlannedStage, load: &mut Stated, setup: &mut Setup| {
            load.stages.push((stage.time.times(), 1));
            setup.stages.push(Stage {
                workers: stage.workers,
                buffer: stage.buffer,
                ..Stage::new(&stage.name)
            });
        };
        for (number, stage) in stages.iter().enumerate() {
            if number == by_clip && by_clip > 0 {
                load.gather(self.clips, &mut setup);
            }
            match shares(stage) {
                true => load.train.push(stage.time.times()),
                false => put(stage, &mut load, &mut setup),
            }
        }
        if by_clip == stages.len() && by_clip > 0 {
            load.gather(self.clips, &mut setup);
        }
        if batches > 1 {
            load.train.extend(self.exchange.map(Timed::times));
            // A step takes a batch for each device, at once.
            load.gather(batches, &mut setup);
        }
        let simulated = simulate(&setup, &load, WARM_UP + STEPS)?;
        let mut pace = Pace::of_simulated(&simulated.steps[WARM_UP as usize..]);
        pace.step_ms /= batches as f64;
        Ok(pace)
    }
}

impl Timed {
    fn times(self) -> Times {
        Times::uneven(self.milliseconds * NANOS, self.spread)
    }
}

/// Times as they were stated, by stage of the simulation.
struct Stated {
    /// With each, how many items it makes one of.
    stages: Vec<(Times, u64)>,
    /// All that the device does for a step.
    train: Vec<Times>,
    batches: u64,
}

impl Stated {
    /// From here on items are so many put together.
    fn gather(&mut self, members: u64, setup: &mut Setup) {
        self.stages.push((Times::even(0), members));
        setup.stages.push(Stage {
            gathers: true,
            ..Stage::new(format!("group {}", setup.stages.len()))
        });
    }
}

impl Load for Stated {
    fn demand(&self, stage: usize, number: u64) -> Demand {
        let nanos = self.stages[stage].0.of(draw(SEED, stage as u64, number));
        Demand::waiting(nanos.round() as u64)
    }

    fn training(&self, batch: u64) -> Training {
        let parts = self.train.iter().enumerate();
        let nanos = parts.map(|(part, times)| {
            // Of devices that train together, the slowest sets the pace.
            let all = (0..if part == 0 { self.batches } else { 1 })
                .map(|rank| times.of(draw(SEED, 100 + part as u64, batch * self.batches + rank)));
            all.fold(0.0, f64::max)
        });
        Training {
            demand: Demand::waiting(nanos.sum::<f64>().round() as u64),
            overhead: 0,
        }
    }

    fn members(&self, stage: usize, _: u64) -> u64 {
        self.stages[stage].1
    }
}

/// All that can be said of the run.
pub fn plan(run: &PlannedRun) -> Result<Planned, SimulationError> {
    let ahead = run.slots;
    let mut ways = Vec::new();
    let counts = if run.has_two() {
        vec![ONE, TWO]
    } else {
        vec![ONE]
    };
    for overlap in [false, true] {
        for &devices in &counts {
            let pace = run.simulated(devices, overlap, 1, ahead)?;
            let number = if devices == ONE {
                "one device"
            } else {
                "two devices"
            };
            let manner = if overlap {
                "overlapped"
            } else {
                "one after another"
            };
            ways.push(Way {
                name: format!("{number}, {manner}"),
                devices,
                overlap,
                pace,
                device_hours: hours(run, pace.step_ms) * devices as f64,
                bound_by: bound_by(run, devices, overlap, pace.stall),
            });
        }
    }
    let devices = counts[counts.len() - 1];
    let mut parts: Vec<PartTime> = (run.stages_with(devices).into_iter())
        .map(|stage| PartTime {
            name: stage.name.clone(),
            batch_ms: run.batch_ms(stage),
        })
        .chain([PartTime {
            name: TRAIN.to_owned(),
            batch_ms: run.train.milliseconds,
        }])
        .collect();
    parts.sort_by(|a, b| b.batch_ms.total_cmp(&a.batch_ms));
    let buffers = match run.is_uneven() {
        true => AHEAD
            .map(|ahead| buffer_row(run, devices, ahead))
            .into_iter()
            .collect::<Result<_, _>>()?,
        false => Vec::new(),
    };
    let placement = match run.has_two() && run.exchange.is_some() {
        true => Some(placement(run, ahead)?),
        false => None,
    };
    let notes = notes(run, devices, &ways, &buffers)?;
    Ok(Planned {
        version: PLAN_VERSION,
        steps: run.steps,
        ways,
        parts,
        buffers,
        placement,
        prediction: None,
        notes,
    })
}

/// The measured run and the predicted one, as ways to run it. A log says what it was measured on; how many devices a
/// change stands for it does not say, so hours are those of one.
pub fn plan_of_log(prediction: Prediction, steps: u64) -> Planned {
    let way = |name: &str, pace: Pace, bound_by: String| Way {
        name: name.to_owned(),
        devices: ONE,
        overlap: true,
        pace,
        device_hours: steps as f64 * pace.wall_ms() / 3.6e6,
        bound_by,
    };
    let measured = match prediction.measured.stall < STALLS {
        true => TRAIN.to_owned(),
        false => "waiting for batches".to_owned(),
    };
    Planned {
        version: PLAN_VERSION,
        steps,
        ways: vec![
            way("as measured", prediction.measured, measured),
            way(
                "with the changes",
                prediction.predicted,
                prediction.bound_by.clone(),
            ),
        ],
        parts: Vec::new(),
        buffers: Vec::new(),
        placement: None,
        notes: Vec::new(),
        prediction: Some(prediction),
    }
}

const TRAIN: &str = "train";
/// No part is slower than training on average, but batches come unevenly.
const UNEVEN: &str = "uneven times";
/// From here on a run waits for batches.
const STALLS: f64 = 0.05;

fn hours(run: &PlannedRun, step_ms: f64) -> f64 {
    run.steps as f64 * step_ms / 3.6e6
}

fn buffer_row(run: &PlannedRun, devices: u64, ahead: usize) -> Result<BufferRow, SimulationError> {
    // The buffers on the way are as large as the one on the device: what is asked is how far ahead batches are prepared.
    let mut run = run.clone();
    for stage in run
        .stages
        .iter_mut()
        .filter(|stage| stage.each == Each::Batch)
    {
        stage.buffer = 1;
    }
    let pace = run.simulated(devices, true, 1, ahead)?;
    Ok(BufferRow {
        ahead: ahead as u64,
        step_ms: pace.step_ms,
        stall: pace.stall,
    })
}

fn bound_by(run: &PlannedRun, devices: u64, overlap: bool, stall: f64) -> String {
    if !overlap {
        return "all of it, one after another".to_owned();
    }
    let stages = run.stages_with(devices);
    let (on_device, others): (Vec<_>, Vec<_>) = stages
        .into_iter()
        .partition(|stage| devices == ONE && stage.on_device);
    let extra: f64 = on_device.iter().map(|stage| run.batch_ms(stage)).sum();
    let slowest = others
        .into_iter()
        .max_by(|a, b| run.batch_ms(a).total_cmp(&run.batch_ms(b)));
    match slowest {
        Some(stage) if run.batch_ms(stage) > run.train.milliseconds + extra => stage.name.clone(),
        _ if stall > STALLS => UNEVEN.to_owned(),
        _ => TRAIN.to_owned(),
    }
}

fn placement(run: &PlannedRun, ahead: usize) -> Result<Placement, SimulationError> {
    let one_device_ms = run.simulated(ONE, true, 1, ahead)?.step_ms;
    let for_data_ms = run.simulated(TWO, true, 1, ahead)?.step_ms;
    let for_training_ms = run.simulated(ONE, true, 2, ahead)?.step_ms;
    let best = for_data_ms.min(for_training_ms);
    let advice = match () {
        () if best > one_device_ms * (1.0 - WORTH) => "neither",
        () if for_training_ms < for_data_ms => "training",
        () => "data",
    };
    Ok(Placement {
        one_device_ms,
        for_data_ms,
        for_training_ms,
        advice: advice.to_owned(),
    })
}

fn notes(
    run: &PlannedRun,
    devices: u64,
    ways: &[Way],
    buffers: &[BufferRow],
) -> Result<Vec<String>, SimulationError> {
    let mut notes = Vec::new();
    let Some(last) = ways
        .iter()
        .rfind(|way| way.overlap && way.devices == devices)
    else {
        return Ok(notes);
    };
    let stages = run.stages_with(devices);
    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    let before: f64 = stages.iter().map(|stage| run.batch_ms(stage)).sum();
    let before = format!(
        "{} ms for each batch go before training ({})",
        shown(before),
        listed(&names)
    );
    if last.bound_by == TRAIN || last.bound_by == UNEVEN {
        let mut nothing = run.clone();
        for stage in &mut nothing.stages {
            stage.time = Timed::default();
        }
        let without = nothing.simulated(devices, true, 1, run.slots)?.step_ms;
        let [without, with] = [without, last.pace.step_ms].map(shown);
        notes.push(match last.bound_by == TRAIN {
            true => format!(
                "the step is bound by training: {before}, but while another batch trains. If they were nothing at all, a step would take {without} ms instead of {with}: what is taken off them cannot be taken off the step"
            ),
            false => format!(
                "training is the slowest part on average, and waits for uneven batches all the same: {before}. If all were there in time, a step would take {without} ms instead of {with}"
            ),
        });
    } else {
        notes.push(format!(
            "the first bottleneck is `{}`: until it is faster than training ({} ms a batch), the model waits for it",
            last.bound_by,
            shown(run.train.milliseconds)
        ));
    }
    if let (Some(one), Some(ten)) = (buffers.first(), buffers.last()) {
        let saved = 1.0 - ten.step_ms / one.step_ms.max(1e-9);
        notes.push(match saved > WORTH {
            true => format!("uneven times need room: ten batches ahead instead of one save {:.1} % of a step", 100.0 * saved),
            false => "more batches ahead hardly help: times are even enough, or one part is slower on average, which no buffer mends".to_owned(),
        });
    }
    Ok(notes)
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "no stages".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn shown(milliseconds: f64) -> String {
    let text = format!("{milliseconds:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, milliseconds: f64, with: With) -> PlannedStage {
        PlannedStage {
            name: name.to_owned(),
            time: Timed {
                milliseconds,
                spread: 0.0,
            },
            each: Each::Batch,
            workers: 1,
            buffer: 2,
            with,
            on_device: false,
        }
    }

    /// The worked example: load 20, preprocess 10, transfer 15, train 150 ms; only a second device needs the two in the
    /// middle.
    fn example() -> PlannedRun {
        PlannedRun {
            steps: 100_000,
            clips: 16,
            stages: vec![
                stage("load", 20.0, With::Any),
                stage("preprocess", 10.0, With::TwoDevices),
                stage("transfer", 15.0, With::TwoDevices),
            ],
            train: Timed {
                milliseconds: 150.0,
                spread: 0.0,
            },
            slots: 2,
            exchange: None,
        }
    }

    fn steps(run: &PlannedRun) -> Vec<(String, f64)> {
        let planned = plan(run).unwrap();
        let of = |way: Way| (way.name, way.pace.step_ms);
        planned.ways.into_iter().map(of).collect()
    }

    #[test]
    fn the_worked_example_comes_out_exactly() {
        let expected = [
            ("one device, one after another", 170.0),
            ("two devices, one after another", 195.0),
            ("one device, overlapped", 150.0),
            ("two devices, overlapped", 150.0),
        ];
        assert_eq!(
            steps(&example()),
            expected.map(|(name, ms)| (name.to_owned(), ms))
        );
        let planned = plan(&example()).unwrap();
        let last = &planned.ways[3];
        assert_eq!((last.pace.busy, last.pace.stall), (1.0, 0.0));
        assert_eq!(last.bound_by, "train");
        // 100,000 steps of 150 ms on two devices.
        assert!((last.device_hours - 2.0 * 15e6 / 3.6e6).abs() < 1e-9);
        let first: Vec<&str> = planned
            .parts
            .iter()
            .map(|part| part.name.as_str())
            .collect();
        assert_eq!(first, ["train", "load", "transfer", "preprocess"]);
    }

    /// An earlier document takes 35 ms that are saved before training off a step of 150 ms that is bound by training.
    #[test]
    fn what_is_saved_before_training_cannot_be_taken_off_a_step_that_is_bound_by_it() {
        let mut faster = example();
        for (stage, ms) in faster.stages.iter_mut().zip([4.0, 3.0, 3.0]) {
            stage.time.milliseconds = ms;
        }
        assert_eq!(steps(&faster)[3].1, 150.0, "35 ms less before training");
        assert_eq!(steps(&faster)[1].1, 160.0, "it counts one after another");
        let note = &plan(&example()).unwrap().notes[0];
        let why = "If they were nothing at all, a step would take 150 ms instead of 150";
        assert!(note.contains(why), "{note}");
    }

    #[test]
    fn the_slowest_part_is_the_first_bottleneck() {
        let mut run = example();
        run.stages[0].time.milliseconds = 400.0;
        let planned = plan(&run).unwrap();
        assert_eq!(
            (
                planned.ways[3].pace.step_ms,
                planned.ways[3].bound_by.as_str()
            ),
            (400.0, "load")
        );
        assert_eq!(planned.ways[3].pace.stall, 0.625);
        run.stages[0].workers = 4;
        assert_eq!(steps(&run)[3].1, 150.0);
        // The time of a clip, sixteen to a batch.
        run.stages[0] = PlannedStage {
            each: Each::Clip,
            ..stage("load", 20.0, With::Any)
        };
        assert_eq!(steps(&run)[3].1, 320.0);
        assert_eq!(steps(&run)[1].1, 320.0 + 10.0 + 15.0 + 150.0);
    }

    #[test]
    fn more_batches_ahead_help_where_times_are_uneven() {
        let mut run = example();
        run.stages[0].time = Timed {
            milliseconds: 135.0,
            spread: 1.0,
        };
        let planned = plan(&run).unwrap();
        let ahead: Vec<u64> = planned.buffers.iter().map(|row| row.ahead).collect();
        assert_eq!(ahead, [1, 2, 3, 5, 10]);
        let falls = planned
            .buffers
            .windows(2)
            .all(|two| two[1].step_ms <= two[0].step_ms);
        assert!(falls, "{:?}", planned.buffers);
        let (one, ten) = (planned.buffers[0].step_ms, planned.buffers[4].step_ms);
        assert!(one > 1.03 * ten && ten >= 150.0, "{one} {ten}");
        assert!(
            plan(&example()).unwrap().buffers.is_empty(),
            "even times need one"
        );
    }

    #[test]
    fn a_second_device_goes_where_it_gains_more() {
        let mut run = example();
        run.exchange = Some(Timed {
            milliseconds: 12.0,
            spread: 0.0,
        });
        // Training is all the work: two that train make two batches in 162 ms, fed by one loader of 20 ms.
        let placed = plan(&run).unwrap().placement.unwrap();
        assert_eq!(
            (
                placed.one_device_ms,
                placed.for_data_ms,
                placed.for_training_ms
            ),
            (150.0, 150.0, 81.0)
        );
        assert_eq!(placed.advice, "training");
        // Preparing on the device takes as long as training: a device of its own for it halves the step, and two that
        // train would both have to prepare.
        run.stages[1] = PlannedStage {
            on_device: true,
            ..stage("frames", 150.0, With::Any)
        };
        run.exchange = Some(Timed {
            milliseconds: 60.0,
            spread: 0.0,
        });
        let placed = plan(&run).unwrap().placement.unwrap();
        assert_eq!((placed.one_device_ms, placed.for_data_ms), (300.0, 150.0));
        assert_eq!(placed.for_training_ms, 180.0);
        assert_eq!(placed.advice, "data");
        // Loading limits: neither helps.
        run.stages[0].time.milliseconds = 500.0;
        assert_eq!(plan(&run).unwrap().placement.unwrap().advice, "neither");
        run.exchange = None;
        assert_eq!(plan(&run).unwrap().placement, None);
    }
}
