//! Logs of simulated runs: what the model of a log predicts is compared with the same change made to what wrote it.

use std::collections::BTreeMap;

use voxmill_telemetry::event::{Event, Nanos, RunStarted, StageSecond, Stamped, Step};
use voxmill_telemetry::plan::{Plan, Setting, SlotsPlan, StagePlan};
use voxmill_telemetry::stats::Histogram;

use super::engine::{Simulated, simulate};
use super::model::{ModelError, Pace, RunModel};
use super::setup::{Demand, Load, Setup, Stage, Training};
use super::times::{Times, draw};
use super::what_if::{Prediction, WhatIfError, parse, predict};
use crate::run::{Run, fact};

const STEPS: u64 = 120;
const WARM_UP: u64 = 3;
const CLIPS: u64 = 8;
/// Of the time of a clip, what is reading.
const READ: f64 = 0.6;
const MS: f64 = 1e6;

/// What really happens.
#[derive(Clone)]
struct World {
    setup: Setup,
    clip: Times,
    read: f64,
    collate_ms: f64,
    prepare_ms: f64,
    train_ms: f64,
    /// Of a model on the CPU.
    threads: f64,
}

impl World {
    fn new() -> World {
        let names = ["rows", "featurize", "keep", "batch", "collate", "prepare"];
        let mut setup = Setup::new(names.map(Stage::new).into());
        for stage in &mut setup.stages[..3] {
            stage.buffer = CLIPS as usize;
        }
        setup.stages[1].workers = 2;
        setup.stages[3].gathers = true;
        setup.stages[4].buffer = 5;
        setup.slots_ahead = Some(2);
        World {
            setup,
            clip: Times::uneven(12.0 * MS, 0.5),
            read: 1.0,
            collate_ms: 2.0,
            prepare_ms: 3.0,
            train_ms: 30.0,
            threads: 0.0,
        }
    }

    fn run(&self) -> Simulated {
        let mut simulated = simulate(&self.setup, self, WARM_UP + STEPS).unwrap();
        simulated.steps.drain(..WARM_UP as usize);
        simulated
    }

    fn step_ms(&self) -> f64 {
        Pace::of_simulated(&self.run().steps).step_ms
    }

    /// As the recorder would have written it.
    fn log(&self) -> Vec<Stamped> {
        let simulated = simulate(&self.setup, self, WARM_UP + STEPS).unwrap();
        let mut plan = Plan::new("batches", "train");
        plan.overlap = self.setup.overlap;
        plan.slots = self.setup.slots_ahead.map(|ahead| SlotsPlan {
            ahead: Setting::fixed(ahead),
            bytes_each: 1_000_000,
            budget: None,
        });
        for stage in &self.setup.stages {
            plan.stages.push(StagePlan {
                workers: Setting::fixed(stage.workers),
                buffer: Setting::fixed(stage.buffer),
                ..StagePlan::new(&stage.name)
            });
        }
        let mut facts = BTreeMap::new();
        if let Some(cores) = self.setup.cores {
            facts.insert(fact::CORES.to_owned(), cores.to_string());
            facts.insert(fact::COMPUTE_THREADS.to_owned(), self.threads.to_string());
        }
        let started = RunStarted {
            plan: Some(plan),
            facts,
            ..RunStarted::default()
        };
        let at = |at: u64, event| Stamped {
            at: Nanos(at),
            event,
        };
        let mut events = vec![at(0, Event::RunStarted(started))];
        for (number, step) in simulated.steps.iter().enumerate() {
            let step = Step {
                step: number as u64 + 1,
                waited: Nanos(step.waited),
                service: Nanos(step.service),
                overhead: Nanos(step.overhead),
                ended: Some(Nanos(step.ended)),
                values: [("clips".to_owned(), CLIPS as f64)].into(),
                ..Step::default()
            };
            events.push(at(step.ended.unwrap().0, Event::Step(step)));
        }
        let end = simulated.steps.last().unwrap().ended;
        for (number, sums) in simulated.stages.iter().enumerate() {
            let mut service = Histogram::default();
            for item in 0..sums.items {
                service.record(Nanos(match self.setup.cores {
                    None => self.demand(number, item).alone(),
                    // With cores that are shared, as long as it took on average.
                    Some(_) => sums.worked / sums.items,
                }));
            }
            let stage = self.setup.stages[number].name.clone();
            if stage == "featurize" {
                let mut read = Histogram::default();
                for item in 0..sums.items {
                    read.record(Nanos((self.demand(1, item).alone() as f64 * READ) as u64));
                }
                if self.setup.cores.is_none() {
                    events.push(at(end, stage_second("featurize.read", read)));
                }
            }
            events.push(at(end, stage_second(&stage, service)));
        }
        events
    }
}

fn stage_second(stage: &str, service: Histogram) -> Event {
    Event::StageSecond(StageSecond {
        stage: stage.to_owned(),
        service,
        waits: BTreeMap::new(),
        slowest: Vec::new(),
    })
}

impl Load for World {
    fn demand(&self, stage: usize, number: u64) -> Demand {
        let nanos = match stage {
            1 => self.clip.of(draw(5, 1, number)) * (READ * self.read + 1.0 - READ),
            4 => self.collate_ms * MS,
            5 => self.prepare_ms * MS,
            _ => 0.0,
        };
        match self.setup.cores {
            None => Demand::waiting(nanos as u64),
            Some(_) => Demand::computing(nanos as u64),
        }
    }

    fn training(&self, _: u64) -> Training {
        let nanos = (self.train_ms * MS) as u64;
        Training {
            demand: Demand::on_threads(nanos, self.threads),
            overhead: 100_000,
        }
    }

    fn members(&self, _: usize, _: u64) -> u64 {
        CLIPS
    }
}

fn asked(model: &RunModel, question: &str) -> Result<Prediction, WhatIfError> {
    predict(model, &parse(question)?)
}

#[track_caller]
fn close(predicted: f64, measured: f64, within: f64) {
    let error = predicted / measured - 1.0;
    assert!(
        error.abs() < within,
        "{predicted} instead of {measured}: {error:+.3}"
    );
}

#[test]
fn a_replay_takes_as_long_as_its_log() {
    let model = RunModel::of(&Run::of(&World::new().log())).unwrap();
    let replayed = Pace::of_simulated(&model.simulate().unwrap().steps);
    close(replayed.step_ms, model.measured.step_ms, 0.01);
    close(replayed.stall, model.measured.stall, 0.02);
    // Eight clips of 12 ms, two workers: the model waits for `featurize`.
    assert!(model.measured.stall > 0.3);
}

#[test]
fn a_change_is_predicted_as_it_would_have_been() {
    let world = World::new();
    let model = RunModel::of(&Run::of(&world.log())).unwrap();
    let changed = |change: fn(&mut World)| {
        let mut world = world.clone();
        change(&mut world);
        world.step_ms()
    };
    for (question, really, bound_by) in [
        (
            "num_workers=3",
            changed(|w| w.setup.stages[1].workers = 3),
            "featurize",
        ),
        (
            "num_workers=1",
            changed(|w| w.setup.stages[1].workers = 1),
            "featurize",
        ),
        ("disk=3x", changed(|w| w.read = 1.0 / 3.0), "train"),
        ("model=2x", changed(|w| w.train_ms /= 2.0), "featurize"),
        ("model = 0.25x", changed(|w| w.train_ms *= 4.0), "train"),
        (
            "no_overlap=true",
            changed(|w| w.setup.overlap = false),
            "featurize",
        ),
        (
            "transfer=0.02x",
            changed(|w| w.prepare_ms *= 50.0),
            "prepare",
        ),
        (
            "--num-workers=4, --buffer-size=1, --prefetch-buffer-size=1",
            changed(|w| {
                w.setup.stages[1].workers = 4;
                w.setup.stages[4].buffer = 1;
                w.setup.slots_ahead = Some(1);
            }),
            "train",
        ),
    ] {
        let prediction = asked(&model, question).unwrap();
        close(prediction.step_ms.value, really, 0.02);
        let likely = prediction.step_ms;
        assert!(
            likely.low <= really && really <= likely.high,
            "{question}: {likely:?} {really}"
        );
        let gain = 1.0 - really / world.step_ms();
        assert_eq!(prediction.gain.value > 0.0, gain > 0.0, "{question}");
        assert_eq!(prediction.bound_by, bound_by, "{question}");
    }
    let nothing = asked(&model, "num_workers=2").unwrap();
    assert_eq!(
        (nothing.gain.value, nothing.gain.low, nothing.gain.high),
        (0.0, 0.0, 0.0)
    );
}

#[test]
fn cores_that_were_shared_are_told_from_slow_work() {
    // A model of two threads and two workers that compute, on two cores.
    let mut world = World::new();
    world.setup.cores = Some(2.0);
    world.threads = 2.0;
    world.clip = Times::even(6_000_000);
    let model = RunModel::of(&Run::of(&world.log())).unwrap();
    let replayed = Pace::of_simulated(&model.simulate().unwrap().steps);
    close(replayed.step_ms, model.measured.step_ms, 0.02);
    assert!(
        model.measured.step_ms > 1.3 * world.train_ms,
        "it was slowed down"
    );
    let mut more = world.clone();
    more.setup.cores = Some(8.0);
    close(
        asked(&model, "cores=8").unwrap().step_ms.value,
        more.step_ms(),
        0.03,
    );
    let mut faster = world.clone();
    faster.train_ms /= 2.0;
    close(
        asked(&model, "model=2x").unwrap().step_ms.value,
        faster.step_ms(),
        0.05,
    );
}

#[test]
fn what_a_log_cannot_tell_is_refused_by_name() {
    let model = RunModel::of(&Run::of(&World::new().log())).unwrap();
    for (question, what) in [
        ("batch_size=32", "`batch_size` cannot be predicted"),
        ("gpus=2", "`gpus` cannot be predicted"),
        ("prepare_on=host", "`prepare_on` cannot be predicted"),
        ("cache=cold", "`cache=cold` cannot be predicted"),
        (
            "cores=8",
            "`cores` cannot be predicted: the log does not say how many there were",
        ),
        ("workers=4", "there is no change `workers`"),
        ("num_workers", "`num_workers` is not a change"),
        ("num_workers=0", "`0` is not a number from 1 on"),
        ("disk=2", "`2` is not a factor from 0.001x to 1000x"),
        ("disk=0x", "`0x` is not a factor from 0.001x to 1000x"),
        ("unordered=maybe", "`maybe` is neither true nor false"),
        ("disk=2x, disk=3x", "`disk` is changed twice"),
        ("ram_budget=much", "`much` is not a size"),
        ("cache=lukewarm", "the cache is warm or cold"),
        ("", "`` is not a change"),
    ] {
        let error = asked(&model, question).unwrap_err();
        assert!(error.to_string().contains(what), "{question}: {error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_log_without_what_a_model_needs_is_refused() {
    let log = World::new().log();
    let of = |keep: &dyn Fn(&Event) -> bool| {
        let events: Vec<Stamped> = log.iter().filter(|it| keep(&it.event)).cloned().collect();
        RunModel::of(&Run::of(&events)).unwrap_err()
    };
    let no_prepare =
        |event: &Event| !matches!(event, Event::StageSecond(second) if second.stage == "prepare");
    assert_eq!(of(&no_prepare), ModelError::NoTimes("prepare".to_owned()));
    let few = |event: &Event| !matches!(event, Event::Step(step) if step.step > 15);
    assert_eq!(of(&few), ModelError::TooShort { steps: 12 });
    let no_start = |event: &Event| !matches!(event, Event::RunStarted(_));
    assert_eq!(of(&no_start), ModelError::NoPlan);
    // The times of another run: nothing is predicted from what is not understood.
    let mut other = log.clone();
    for stamped in &mut other {
        if let Event::Step(step) = &mut stamped.event {
            step.waited = Nanos(step.waited.0 * 2);
        }
    }
    let model = RunModel::of(&Run::of(&other)).unwrap();
    let error = asked(&model, "num_workers=4").unwrap_err();
    assert!(
        matches!(error, WhatIfError::NotUnderstood { .. }),
        "{error}"
    );
}
