//! A run with everything on its page, killed once and resumed, some of whose texts would like to be more than texts.

use std::collections::BTreeMap;

use voxmill_analysis::history::History;
use voxmill_analysis::profile::profile;
use voxmill_analysis::run::Run;
use voxmill_report::page::{Reported, Sample, Samples};
use voxmill_telemetry::event::{
    DecidedChange, Decision, Event, HostSample, Nanos, Outcome, RunStarted, SlotSecond, SlotState,
    SlowItem, StageSecond, Stamped, Step, Validated, WaitSum,
};
use voxmill_telemetry::facts::{BucketFacts, DatasetFacts, LengthCount};
use voxmill_telemetry::plan::{Plan, StagePlan};
use voxmill_telemetry::shape::Shape;
use voxmill_telemetry::stats::Histogram;

pub(crate) const EVIL: &str =
    "<script>window.owned = 1; document.title = 'owned'</script></script>\u{1b}]52;c;QQ==\u{7}";
/// Of both starts, on the time line.
pub(crate) const STEPS: u64 = 6_000;

const MS: u64 = 1_000_000;

fn at(ms: u64, event: Event) -> Stamped {
    Stamped {
        at: Nanos(ms * MS),
        event,
    }
}

pub(crate) fn run() -> Reported {
    let mut events = start(0);
    events.extend(start(STEPS / 2));
    events.push(at(
        STEPS / 2 * 100,
        Event::RunEnded {
            outcome: Outcome::Finished,
        },
    ));
    let run = Run::of(&events);
    let wav = wav();
    Reported {
        name: "made up".to_owned(),
        profile: profile(&run),
        history: History::of(&events),
        run,
        in_progress: false,
        samples: Samples {
            spoken: vec![Sample {
                name: "final-1".to_owned(),
                text: Some(EVIL.to_owned()),
                wav: wav.clone(),
                mel: None,
                recording: Some(wav),
            }],
            ..Samples::default()
        },
    }
}

/// A start that is killed after half of the steps.
fn start(before: u64) -> Vec<Stamped> {
    let mut plan = Plan::new("batches", "train");
    plan.stages = ["featurize", "prepare"].map(StagePlan::new).into();
    let started = RunStarted {
        name: "train".to_owned(),
        unix_seconds: 1.79e9,
        plan: Some(plan),
        facts: BTreeMap::from([("device".to_owned(), EVIL.to_owned())]),
        ..RunStarted::default()
    };
    let mut events = vec![
        at(0, Event::RunStarted(started)),
        at(0, Event::Dataset(dataset())),
    ];
    for n in 1..=STEPS / 2 {
        let number = before + n;
        let end = n * 100;
        let waited = if n % 500 == 0 { 60 } else { 0 };
        let value = |name: &str, value: f64| (name.to_owned(), value);
        let step = Step {
            step: number,
            ended: Some(Nanos(end * MS)),
            waited: Nanos(waited * MS),
            late: (waited > 0).then(|| "featurize".to_owned()),
            service: Nanos((99 - waited) * MS - n % 7 * MS),
            overhead: Nanos(MS),
            shape: format!("8x{}x20", 100 + 100 * (n % 3)).parse().ok(),
            values: BTreeMap::from([
                value("loss", 2.0 / (number as f64).sqrt()),
                value("frames", 700.0),
                value("learning_rate", 1e-3),
                value("gradient_norm", 1.0 + (n % 5) as f64),
            ]),
            ..Step::default()
        };
        events.push(at(end, Event::Step(step)));
        if n % 10 == 0 {
            events.extend(second(n / 10));
        }
    }
    events.push(at(
        60_000,
        Event::Validated(Validated {
            step: before + 600,
            losses: BTreeMap::from([("loss".to_owned(), 0.4)]),
            ..Validated::default()
        }),
    ));
    events
}

fn dataset() -> DatasetFacts {
    let length = |seconds: f64, count: u64| LengthCount { seconds, count };
    DatasetFacts {
        rows: 100,
        clips: 90,
        validation: 8,
        lengths: vec![length(1.0, 20), length(2.0, 70)],
        buckets: vec![BucketFacts {
            shape: Shape::default(),
            clips: 90,
            batches: 12,
        }],
        quarantine: BTreeMap::from([(EVIL.to_owned(), 2)]),
        filtered: BTreeMap::new(),
    }
}

/// What is recorded by the second.
fn second(n: u64) -> Vec<Stamped> {
    let end = n * 1_000;
    let mut events = Vec::new();
    for stage in ["featurize", "prepare"] {
        let mut service = Histogram::default();
        (0..20).for_each(|item| service.record(Nanos((5 + item % 3) * MS)));
        let slow = SlowItem::from((n, EVIL.to_owned(), Nanos(60 * MS)));
        let of_second = StageSecond {
            stage: stage.to_owned(),
            service,
            waits: BTreeMap::new(),
            slowest: vec![slow],
        };
        events.push(at(end, Event::StageSecond(of_second)));
        let level = Event::BufferLevel {
            buffer: stage.to_owned(),
            items: n % 10,
            capacity: 10,
        };
        events.push(at(end, level));
    }
    let mut ready = WaitSum::default();
    ready.add(Nanos(3_000 * MS));
    let states = BTreeMap::from([(SlotState::Ready, ready)]);
    events.push(at(end, Event::SlotSecond(SlotSecond { states })));
    let sample = HostSample {
        process_memory: Some(400_000_000 + n * 1_000_000),
        memory_total: Some(16_000_000_000),
        ..HostSample::default()
    };
    events.push(at(end, Event::HostSample(sample)));
    if n == 100 {
        let decision = Decision {
            subject: "featurize".to_owned(),
            change: DecidedChange::Capacity { from: 10, to: 20 },
            reason: EVIL.to_owned(),
        };
        events.push(at(end, Event::Decision(decision)));
    }
    events
}

/// A tenth of a second of silence.
fn wav() -> Vec<u8> {
    let samples = 2_205_u32;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + 2 * samples).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend([16, 0, 0, 0, 1, 0, 1, 0]);
    wav.extend(22_050_u32.to_le_bytes());
    wav.extend(44_100_u32.to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend((2 * samples).to_le_bytes());
    wav.resize(wav.len() + 2 * samples as usize, 0);
    wav
}
