//! Made-up runs: the same, slower, of other shapes, of other lengths, cut, started twice.

use voxmill_telemetry::event::{Event, Nanos, RunStarted, Stamped};

use super::*;

/// A run whose steps take about so long, with noise that is always the same.
struct Made {
    name: &'static str,
    steps: u64,
    ms: u64,
    rows: u64,
    noise: u64,
    ended: bool,
    batch_size: &'static str,
}

const USUAL: Made = Made {
    name: "usual",
    steps: 60,
    ms: 100,
    rows: 8,
    noise: 10,
    ended: true,
    batch_size: "8",
};

impl Made {
    fn events(&self) -> Vec<Stamped> {
        let at = |ms: u64, event| Stamped {
            at: Nanos(ms * 1_000_000),
            event,
        };
        let mut events = vec![at(
            0,
            Event::RunStarted(RunStarted {
                log_version: 1,
                name: "train".to_owned(),
                unix_seconds: 0.0,
                program: "voxmill 0.1.0".to_owned(),
                plan: None,
                facts: [("batch size".to_owned(), self.batch_size.to_owned())].into(),
            }),
        )];
        let mut now = 500;
        for step in 1..=self.steps {
            let first = if step == 1 { 900 } else { 0 };
            let took = self.ms + first + (step * 37 + self.ms) % (self.noise + 1);
            now += took;
            let frames = if step % 2 == 0 { 100 } else { 200 };
            events.push(at(
                now,
                Event::Step(Step {
                    step,
                    service: Nanos(took * 1_000_000),
                    shape: format!("{}x{frames}x20", self.rows).parse().ok(),
                    ended: Some(Nanos(now * 1_000_000)),
                    values: [
                        ("loss".to_owned(), 2.0 / step as f64),
                        ("frames".to_owned(), (self.rows * frames) as f64),
                    ]
                    .into(),
                    ..Step::default()
                }),
            ));
        }
        if self.ended {
            let outcome = Outcome::Finished;
            events.push(at(now + 100, Event::RunEnded { outcome }));
        }
        events
    }

    fn run(&self) -> Candidate {
        Candidate {
            name: self.name.to_owned(),
            run: Run::of(&self.events()),
            in_progress: false,
            settings: Some([("batch_size".to_owned(), self.batch_size.to_owned())].into()),
        }
    }
}

fn told(against: &Against, measure: Measure) -> (Judgement, f64) {
    let found = against
        .differences
        .iter()
        .find(|difference| difference.measure == measure)
        .unwrap();
    (
        found.told,
        found.change.map_or(f64::NAN, |change| change.value),
    )
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let comparison = compare(&[USUAL.run(), USUAL.run()], Some(0.05));
    let against = &comparison.against_first[0];
    assert_eq!(against.verdict, Some(Verdict::Within));
    assert_eq!(against.steps_matched, Matched::ByShape);
    for difference in &against.differences {
        assert_eq!(difference.told, Judgement::NoDifference, "{difference:?}");
    }
    let loss = against.loss.as_ref().unwrap();
    assert!(loss.same_to_the_last_bit && loss.same_amount_of_data);
    assert_eq!(loss.common_steps, 60);
    assert!(comparison.differing.is_empty() && !comparison.failed());
    let side = &comparison.runs[0];
    assert_eq!((side.steps, side.warm_up_steps), (60, 3));
    assert!(
        side.step_ms.max < 200.0,
        "the first step pays for what is done once"
    );
}

#[test]
fn a_slower_run_fails_only_where_the_whole_interval_is_beyond_the_limit() {
    let slower = Made {
        ms: 110,
        name: "slower",
        ..USUAL
    };
    let verdict = |limit| {
        let comparison = compare(&[USUAL.run(), slower.run()], Some(limit));
        (
            comparison.against_first[0].verdict.unwrap(),
            comparison.failed(),
        )
    };
    assert_eq!(verdict(0.05), (Verdict::Worse, true));
    assert_eq!(verdict(0.2), (Verdict::Within, false));
    let comparison = compare(&[USUAL.run(), slower.run()], None);
    let (word, change) = told(&comparison.against_first[0], Measure::StepTime);
    assert_eq!(word, Judgement::Worse);
    assert!((change - 0.095).abs() < 0.02, "{change}");
    let change = comparison.against_first[0].differences[0].change.unwrap();
    let between = (change.low + change.value) / 2.0;
    assert_eq!(verdict(between), (Verdict::Uncertain, false));
    assert_eq!(
        told(&comparison.against_first[0], Measure::Throughput).0,
        Judgement::Worse
    );
    // The other way round it is the better one.
    let comparison = compare(&[slower.run(), USUAL.run()], Some(0.0));
    assert_eq!(
        told(&comparison.against_first[0], Measure::StepTime).0,
        Judgement::Better
    );
    assert!(!comparison.failed());
}

#[test]
fn noise_is_no_difference() {
    let noisy = Made { noise: 60, ..USUAL };
    let other = Made {
        ms: 101,
        noise: 60,
        ..USUAL
    };
    let comparison = compare(&[noisy.run(), other.run()], Some(0.0));
    let (word, _) = told(&comparison.against_first[0], Measure::StepTime);
    assert_eq!(word, Judgement::NoDifference);
    assert!(!comparison.failed());
}

#[test]
fn other_shapes_are_compared_by_their_frames() {
    // Twice the rows in one and a half times the time.
    let larger = Made {
        rows: 16,
        ms: 150,
        batch_size: "16",
        ..USUAL
    };
    let comparison = compare(&[USUAL.run(), larger.run()], None);
    let against = &comparison.against_first[0];
    assert_eq!(against.steps_matched, Matched::ByFrame);
    let (word, change) = told(against, Measure::StepTime);
    assert_eq!(word, Judgement::Better);
    assert!((change + 0.26).abs() < 0.02, "{change}");
    assert!(!against.loss.as_ref().unwrap().same_amount_of_data);
    let rows: Vec<_> = comparison
        .differing
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(rows, ["batch_size"], "told once, not as a fact again");
    assert_eq!(
        comparison.differing[0].values,
        [Some("8".to_owned()), Some("16".to_owned())]
    );
}

#[test]
fn runs_of_different_lengths_meet_at_their_last_common_step() {
    let longer = Made {
        steps: 200,
        ..USUAL
    };
    let comparison = compare(&[USUAL.run(), longer.run()], None);
    let loss = comparison.against_first[0].loss.as_ref().unwrap();
    let steps: Vec<u64> = loss.at.iter().map(|at| at.step).collect();
    assert_eq!(steps, [15, 30, 45, 60]);
    assert!(loss.at.iter().all(|at| at.averaged == 7));
    // All of the longer run's steps are in its times.
    assert_eq!(comparison.runs[1].step_ms.count, 197);
    let short = Made { steps: 2, ..USUAL };
    let comparison = compare(&[short.run(), longer.run()], None);
    let loss = comparison.against_first[0].loss.as_ref().unwrap();
    assert_eq!(loss.at.last().map(|at| at.step), Some(2));
}

#[test]
fn a_cut_log_and_one_that_grows_are_told_apart() {
    let cut = Made {
        ended: false,
        ..USUAL
    };
    let state = |candidate| compare(&[candidate, USUAL.run()], None).runs[0].state;
    assert_eq!(state(USUAL.run()), RunState::Finished);
    assert_eq!(state(cut.run()), RunState::Killed);
    let growing = Candidate {
        in_progress: true,
        ..cut.run()
    };
    assert_eq!(state(growing), RunState::InProgress);
}

#[test]
fn a_log_with_two_starts_counts_each_step_once_and_both_times() {
    let cut = Made {
        steps: 20,
        ended: false,
        ..USUAL
    };
    let mut events = cut.events();
    let before = events.last().unwrap().at;
    // It goes on after the checkpoint at step 10.
    let again = USUAL
        .events()
        .into_iter()
        .filter(|stamped| match &stamped.event {
            Event::Step(step) => step.step > 10,
            _ => true,
        });
    events.extend(again);
    let resumed = Candidate {
        run: Run::of(&events),
        ..USUAL.run()
    };
    let comparison = compare(&[USUAL.run(), resumed], None);
    let [first, second] = &comparison.runs[..] else {
        panic!("two runs")
    };
    assert_eq!((second.starts, second.steps), (2, 60));
    let both = first.total_seconds + before.seconds();
    assert!((second.total_seconds - both).abs() < 1e-9);
    let loss = comparison.against_first[0].loss.as_ref().unwrap();
    assert!(loss.same_to_the_last_bit);
}

#[test]
fn what_a_run_does_not_say_is_no_difference() {
    let silent = Candidate {
        settings: None,
        ..USUAL.run()
    };
    let comparison = compare(&[USUAL.run(), silent], None);
    assert!(comparison.differing.is_empty());
    assert!(!comparison.runs[1].settings_known);
}

#[test]
fn losses_that_are_not_finite_are_left_out() {
    let mut broken = USUAL.run();
    for step in &mut broken.run.steps[50..] {
        step.values.insert("loss".to_owned(), f64::NAN);
    }
    let comparison = compare(&[USUAL.run(), broken], None);
    let loss = comparison.against_first[0].loss.as_ref().unwrap();
    assert_eq!(loss.at.last().map(|at| at.step), Some(50));
    assert_eq!(loss.common_steps, 60);
    assert!(!loss.same_to_the_last_bit);
}
