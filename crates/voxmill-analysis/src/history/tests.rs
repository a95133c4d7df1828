use voxmill_telemetry::event::{Nanos, RunStarted, StageSecond};
use voxmill_telemetry::stats::Histogram;

use super::*;
use crate::synthetic::SyntheticRun;

const MS: u64 = 1_000_000;

fn at(ms: u64, event: Event) -> Stamped {
    Stamped {
        at: Nanos(ms * MS),
        event,
    }
}

fn started() -> Stamped {
    at(0, Event::RunStarted(RunStarted::default()))
}

fn step(number: u64, end_ms: u64, [gap, waited, train]: [u64; 3]) -> Stamped {
    let step = Step {
        step: number,
        ended: Some(Nanos(end_ms * MS)),
        overhead: Nanos(gap * MS),
        waited: Nanos(waited * MS),
        service: Nanos(train * MS),
        shape: "4x100x9".parse().ok(),
        values: BTreeMap::from([("frames".to_owned(), 300.0)]),
        ..Step::default()
    };
    at(end_ms, Event::Step(step))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn starts_follow_one_another_and_one_that_was_killed_is_known() {
    let ended = Event::RunEnded {
        outcome: Outcome::Finished,
    };
    let events = [
        started(),
        step(1, 1_000, [0, 0, 1_000]),
        step(2, 2_000, [0, 0, 1_000]),
        started(),
        step(2, 1_500, [0, 0, 1_000]),
        at(2_000, ended),
    ];
    let history = History::of(&events);
    assert_eq!(history.end, 4.0);
    let starts: Vec<_> = history
        .starts
        .iter()
        .map(|s| (s.at, s.end, s.outcome))
        .collect();
    let finished = Some(Outcome::Finished);
    assert_eq!(starts, [(0.0, 2.0, None), (2.0, 4.0, finished)]);
    assert!(history.was_killed());
    // What was done again took its time again.
    let steps: Vec<_> = history.steps.iter().map(|s| (s.step.step, s.end)).collect();
    assert_eq!(steps, [(1, 1.0), (2, 2.0), (2, 3.5)]);
    assert!(!History::of(&events[3..]).was_killed());
}

#[test]
fn parts_of_the_time_line_add_up_to_the_steps() {
    // 100 ms of gap, 300 of waiting, 600 of training, in each second.
    let steps = (1..=4).map(|n| step(n, n * 1_000, [100, 300, 600]));
    let events: Vec<_> = [started()].into_iter().chain(steps).collect();
    let history = History::of(&events);
    for count in [1, 3, 4, 7, 1_000] {
        let bins = history.bins(count);
        let sum = |of: fn(&Bin) -> f64| -> f64 {
            bins.iter().map(|bin| of(bin) * (bin.to - bin.from)).sum()
        };
        assert!(close(sum(|bin| bin.train), 2.4), "{count}");
        assert!(close(sum(|bin| bin.waited), 1.2), "{count}");
        assert!(close(sum(|bin| bin.gap), 0.4), "{count}");
        assert!(close(sum(Bin::frames_per_second), 1_200.0), "{count}");
        let most = bins
            .iter()
            .map(|bin| bin.longest_wait_ms)
            .fold(0.0, f64::max);
        assert_eq!(most, 300.0);
    }
    let bins = history.bins(40);
    // The first tenth of a second is the gap of the first step; then it waits.
    assert!(close(bins[0].gap, 1.0) && close(bins[1].waited, 1.0) && close(bins[5].train, 1.0));
    assert!(close(bins[0].padding().unwrap(), 0.25));
}

#[test]
fn work_that_took_longer_than_its_second_is_spread_over_the_time_before() {
    let mut service = Histogram::default();
    service.record(Nanos(3_000 * MS));
    let second = StageSecond {
        stage: "featurize".to_owned(),
        service,
        waits: BTreeMap::new(),
        slowest: Vec::new(),
    };
    let history = History::of(&[started(), at(4_000, Event::StageSecond(second))]);
    let busy = history.busy("featurize", 1.0, 4);
    assert!(
        busy.iter()
            .zip([0.0, 1.0, 1.0, 1.0])
            .all(|(a, b)| close(*a, b)),
        "{busy:?}"
    );
    let of_two = history.busy("featurize", 2.0, 4);
    assert!(close(of_two.iter().sum(), 1.5));
}

#[test]
fn steps_of_other_phases_are_spans_and_no_steps_of_the_run() {
    let made_up = SyntheticRun::default();
    let history = History::of(&made_up.events());
    assert_eq!(history.steps.len(), made_up.run().steps.len());
    let names: std::collections::BTreeSet<_> = history
        .phases
        .iter()
        .map(|span| span.name.as_str())
        .collect();
    let expected = [
        phase::FLOOR,
        phase::INTERFERENCE,
        phase::NO_OVERLAP,
        phase::WARM_UP,
    ];
    assert_eq!(names, expected.into());
    assert!(history.phases.iter().all(|span| span.from < span.to));
}

#[test]
fn what_stands_out_survives_fewer_points() {
    let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
    points[54_321].1 = 99.0;
    points[67_890].1 = -5.0;
    points[70_000].1 = f64::NAN;
    let kept = extremes(&points, (0.0, 100_000.0), 500);
    assert!(kept.len() <= 1_000);
    assert!(kept.contains(&(54_321.0, 99.0)) && kept.contains(&(67_890.0, -5.0)));
    assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
    assert!(kept.iter().all(|point| point.1.is_finite()));
    assert_eq!(extremes(&points[..900], (0.0, 900.0), 500), points[..900]);
}
