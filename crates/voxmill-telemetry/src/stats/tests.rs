//! What the lines of a log add up to.

use super::*;
use crate::event::{Fault, SlowItem, StageSecond};
use crate::examples::started;
use crate::plan::{Plan, StagePlan};

fn fold(events: impl IntoIterator<Item = (u64, Event)>) -> Stats {
    let mut stats = Stats::default();
    for (at, event) in events {
        let at = Nanos(at);
        stats.absorb(&Stamped { at, event });
    }
    stats
}

fn second(stage: &str, services: &[u64]) -> Event {
    let mut service = Histogram::default();
    services.iter().for_each(|&s| service.record(Nanos(s)));
    let slow = |&s| SlowItem::from((s, format!("clip {s}"), Nanos(s)));
    Event::StageSecond(StageSecond {
        stage: stage.to_owned(),
        service,
        waits: BTreeMap::new(),
        slowest: services.iter().map(slow).collect(),
    })
}

fn step(shape: &str, waited: u64, service: u64) -> Event {
    Event::Step(Step {
        waited: Nanos(waited),
        service: Nanos(service),
        overhead: Nanos(1),
        late: (waited > 0).then(|| "transfer".to_owned()),
        shape: shape.parse().ok(),
        ..Step::default()
    })
}

#[test]
fn stages_are_in_the_order_of_the_plan_and_their_seconds_add_up() {
    let plan = Plan {
        stages: ["read", "featurize"].map(StagePlan::new).into(),
        ..Plan::new("demo", "train")
    };
    let stats = fold([
        (0, started(Some(plan))),
        (1, second("featurize", &[50, 40])),
        (1, second("read", &[7])),
        (2, second("featurize", &[60])),
    ]);
    let counts: Vec<(&str, u64)> = (stats.stages.iter())
        .map(|stage| (stage.stage.as_str(), stage.service.count()))
        .collect();
    assert_eq!(counts, [("read", 1), ("featurize", 3)]);
    let slowest: Vec<&str> = stats.slowest.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(slowest, ["clip 60", "clip 50", "clip 40", "clip 7"]);
}

#[test]
fn variation_is_that_of_one_shape() {
    let stats = fold([
        (1, step("8x100x20", 0, 100)),
        (2, step("2x900x180", 30, 900)),
        (3, step("8x100x20", 10, 100)),
    ]);
    let alike = &stats.steps.shapes[&"8x100x20".parse().ok()];
    assert_eq!(alike.service.variation(), 0.0);
    assert!(stats.steps.service.variation() > 0.9);
    assert_eq!(stats.steps.wall.sum(), Nanos(1143));
    let late = stats.steps.late["transfer"];
    assert_eq!((late.count, late.total), (2, Nanos(40)));
}

#[test]
fn a_resumed_run_begins_again_from_nothing() {
    let ended = |outcome| Event::RunEnded { outcome };
    let again = [(0, started(None)), (30, step("8x100x20", 0, 1))];
    let mut all = vec![
        (0, started(None)),
        (60, step("8x100x20", 0, 1)),
        (70, ended(Outcome::Interrupted)),
    ];
    all.extend(again.clone());
    let stats = fold(all);
    assert_eq!(stats, fold(again));
    assert_eq!((stats.run_time(), stats.outcome), (Nanos(30), None));
}

#[test]
fn faults_are_counted_by_kind_with_the_first_to_show() {
    let fault = |item: u64, kind| {
        Event::Fault(Fault {
            stage: "read".to_owned(),
            item,
            name: format!("clip {item}"),
            kind,
            message: "no such file".to_owned(),
            action: FaultAction::Skipped,
        })
    };
    let more = Event::MoreFaults {
        stage: "read".to_owned(),
        kind: FaultKind::Error,
        action: FaultAction::Skipped,
        count: 7,
    };
    let stats = fold([
        (1, fault(3, FaultKind::Error)),
        (2, fault(4, FaultKind::Panic)),
        (3, fault(5, FaultKind::Error)),
        (4, more),
    ]);
    let counts: Vec<(FaultKind, u64, &str)> = (stats.faults.iter())
        .map(|f| (f.kind, f.count, f.first_item.as_str()))
        .collect();
    let expected = [
        (FaultKind::Error, 9, "clip 3"),
        (FaultKind::Panic, 1, "clip 4"),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn peaks_are_kept_and_nonsense_is_not_a_reading() {
    let sample = |power_watts, memory_used| {
        Event::DeviceSample(DeviceSample {
            device: "cuda:0".into(),
            power_watts,
            memory_used,
            ..DeviceSample::default()
        })
    };
    let level = |items| Event::BufferLevel {
        buffer: "read".to_owned(),
        items,
        capacity: 4,
    };
    let stats = fold([
        (1, sample(Some(300.0), Some(5))),
        (2, sample(Some(f64::NAN), Some(9))),
        (3, sample(None, Some(7))),
        (4, level(0)),
        (5, level(4)),
        (6, level(2)),
    ]);
    let device = &stats.devices["cuda:0"];
    assert_eq!(device.power_watts.mean(), Some(300.0));
    assert_eq!(device.memory_used.peak(), Some(9.0));
    assert_eq!(device.temperature_celsius.peak(), None);
    let buffer = stats.buffers["read"];
    assert_eq!((buffer.peak, buffer.empty, buffer.full), (4, 1, 1));
    assert_eq!(buffer.mean(), Some(2.0));
}
