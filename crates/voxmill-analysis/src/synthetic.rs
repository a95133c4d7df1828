//! Logs of synthetic runs, for tests here and in the report.

use std::collections::BTreeMap;

use voxmill_telemetry::device::DeviceIdentity;
use voxmill_telemetry::event::{
    DeviceSample, Event, HostSample, Nanos, Outcome, RunStarted, SlowItem, StageSecond, Stamped,
    Step, Wait, WaitSum,
};
use voxmill_telemetry::plan::{Plan, StagePlan};
use voxmill_telemetry::stats::Histogram;

use crate::run::{Run, fact, phase};

const MS: u64 = 1_000_000;
/// In which the phases take turns.
const ROUNDS: u64 = 4;

/// A run of even steps; change what is to be found.
#[derive(Clone, Debug)]
pub struct SyntheticRun {
    pub steps: u64,
    pub step_ms: u64,
    pub waited_ms: u64,
    pub late: Option<&'static str>,
    /// Milliseconds of each item of a stage; clips have 8 items a step, batches one.
    pub stage_ms: Vec<(&'static str, u64)>,
    /// The stage's slowest item, where it is not like the others.
    pub slowest_ms: Option<(&'static str, u64)>,
    /// Share of the workers' time that went into waiting for bytes.
    pub bytes_share: f64,
    pub floor_ms: u64,
    pub interference_ms: u64,
    pub no_overlap_ms: u64,
    /// Of a step's 800 padded frames.
    pub valid_frames: u64,
    pub host_cpu: f64,
    /// Per cent of the cores that the process may use, and how many these are.
    pub allowed_cpu: Option<(f64, u64)>,
    pub process_cpu: f64,
    /// Cards that their drivers report, and how much of their memory is used, in per cent, where they
    /// report that.
    pub cards: Vec<(&'static str, Option<u64>)>,
    /// In per cent, of each card.
    pub utilisation: f64,
    /// Devices of the run, and which card each is; none in a log of an earlier version.
    pub devices: Vec<(&'static str, Option<&'static str>)>,
    pub facts: Vec<(&'static str, &'static str)>,
}

impl Default for SyntheticRun {
    fn default() -> SyntheticRun {
        SyntheticRun {
            steps: 40,
            step_ms: 100,
            waited_ms: 0,
            late: None,
            stage_ms: vec![("featurize", 1), ("collate", 1), ("prepare", 2)],
            slowest_ms: None,
            bytes_share: 0.0,
            floor_ms: 100,
            interference_ms: 101,
            no_overlap_ms: 110,
            valid_frames: 760,
            host_cpu: 95.0,
            allowed_cpu: None,
            process_cpu: 185.0,
            cards: Vec::new(),
            utilisation: 90.0,
            devices: Vec::new(),
            facts: Vec::new(),
        }
    }
}

impl SyntheticRun {
    /// As if its log had been read.
    pub fn run(&self) -> Run {
        Run::of(&self.events())
    }

    /// As the log has them.
    pub fn events(&self) -> Vec<Stamped> {
        let mut events = vec![self.started()];
        let mut clock = 50 * MS;
        let mut number = 0;
        for round in 0..ROUNDS {
            let share = |all: u64| all * (round + 1) / ROUNDS - all * round / ROUNDS;
            let phases = [
                (Some(phase::NO_OVERLAP), 2, self.no_overlap_ms, 0),
                (Some(phase::FLOOR), 3, self.floor_ms, 0),
                (Some(phase::WARM_UP), 1, self.step_ms, self.waited_ms),
                (None, share(self.steps), self.step_ms, self.waited_ms),
                (Some(phase::INTERFERENCE), 3, self.interference_ms, 0),
            ];
            for (name, steps, service_ms, waited_ms) in phases {
                let phase = name.unwrap_or(phase::RUN).to_owned();
                events.push(at(clock, Event::PhaseBegan { phase }));
                for n in 0..steps {
                    number += 1;
                    // Not all alike, or they would have no spread.
                    let service = service_ms * MS + ((n + round) % 4) * MS / 2;
                    clock += waited_ms * MS + service + MS / 5;
                    let step = Step {
                        ended: Some(Nanos(clock)),
                        phase: name.map(str::to_owned),
                        ..self.step(number, waited_ms, service)
                    };
                    events.push(at(clock, Event::Step(step)));
                }
                if name.is_none() && round + 1 == ROUNDS {
                    events.extend(self.meanwhile(clock));
                }
            }
        }
        let outcome = Outcome::Finished;
        events.push(at(clock, Event::RunEnded { outcome }));
        events
    }

    fn started(&self) -> Stamped {
        let mut plan = Plan::new("batches", "train");
        for (stage, _) in &self.stage_ms {
            plan.stages.push(StagePlan::new(*stage));
        }
        let mut facts: BTreeMap<&str, &str> = BTreeMap::from([
            (fact::MODEL_SIZE, "tiny"),
            (fact::BATCH_SIZE, "8"),
            (fact::DEVICE, "cpu"),
            (fact::DATA_DEVICE, "cpu"),
            (fact::MODE, "one device"),
            (fact::CORES, "2"),
            (fact::WORKERS, "1"),
            (fact::COMPUTE_THREADS, "2"),
            (fact::BUFFER, "50"),
            (fact::SLOTS, "8"),
            (fact::CACHE, "warm"),
            (fact::OVERLAP, "on"),
            (fact::HOP_SECONDS, "0.0116"),
        ]);
        facts.extend(self.facts.iter().copied());
        let facts = facts.into_iter();
        let started = RunStarted {
            name: "profile".to_owned(),
            program: "voxmill synthetic".to_owned(),
            plan: Some(plan),
            facts: facts
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            devices: (self.devices.iter())
                .map(|(device, card)| DeviceIdentity {
                    device: (*device).into(),
                    sampled_as: card.map(Into::into),
                    ..DeviceIdentity::default()
                })
                .collect(),
            ..RunStarted::default()
        };
        at(0, Event::RunStarted(started))
    }

    fn step(&self, step: u64, waited_ms: u64, service: u64) -> Step {
        Step {
            step,
            waited: Nanos(waited_ms * MS),
            late: self.late.filter(|_| waited_ms > 0).map(str::to_owned),
            service: Nanos(service),
            overhead: Nanos(MS / 5),
            shape: "8x100x20".parse().ok(),
            parts: BTreeMap::from([
                ("forward".to_owned(), Nanos(service / 3)),
                ("backward".to_owned(), Nanos(service / 2)),
            ]),
            values: BTreeMap::from([("frames".to_owned(), self.valid_frames as f64)]),
            ..Step::default()
        }
    }

    /// What the stages and the machine did meanwhile.
    fn meanwhile(&self, clock: u64) -> Vec<Stamped> {
        let mut events = Vec::new();
        for (stage, each_ms) in &self.stage_ms {
            let items = match stage.starts_with("featurize") {
                true => 8 * self.steps,
                false => self.steps,
            };
            let mut service = Histogram::default();
            for item in 0..items {
                // A tenth more or less.
                service.record(Nanos(each_ms * MS * (90 + item % 21) / 100));
            }
            let mut slowest = Vec::new();
            if let Some((slow, ms)) = self.slowest_ms
                && slow == *stage
            {
                service.record(Nanos(ms * MS));
                slowest.push(SlowItem::from((17, "LJ037-0171".into(), Nanos(ms * MS))));
            }
            let mut waits = BTreeMap::new();
            if *stage == "featurize" && self.bytes_share > 0.0 {
                let wall = self.steps * (self.step_ms + self.waited_ms) * MS;
                let mut sum = WaitSum::default();
                sum.add(Nanos((wall as f64 * self.bytes_share) as u64));
                waits.insert(Wait::Bytes, sum);
            }
            let second = StageSecond {
                stage: (*stage).to_owned(),
                service,
                waits,
                slowest,
            };
            events.push(at(clock, Event::StageSecond(second)));
        }
        let card = |&(device, percent): &(&str, Option<u64>)| DeviceSample {
            device: device.into(),
            utilisation_percent: Some(self.utilisation),
            memory_used: percent.map(|percent| percent * 10_000_000),
            memory_total: percent.map(|_| 1_000_000_000),
            ..DeviceSample::default()
        };
        for _ in 0..4 {
            let cards = self.cards.iter().map(card).map(Event::DeviceSample);
            events.extend(cards.map(|event| at(clock, event)));
        }
        let host = HostSample {
            cpu_percent: Some(self.host_cpu),
            allowed_cpu: self.allowed_cpu.map(Into::into),
            process_cpu_percent: Some(self.process_cpu),
            process_memory: Some(400_000_000),
            memory_total: Some(16_000_000_000),
            ..HostSample::default()
        };
        events.push(at(clock, Event::HostSample(host)));
        events
    }
}

fn at(clock: u64, event: Event) -> Stamped {
    Stamped {
        at: Nanos(clock),
        event,
    }
}
