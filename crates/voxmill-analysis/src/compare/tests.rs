//! Synthetic runs: the same, slower, of other shapes, of other lengths, cut, started twice.

use voxmill_telemetry::event::{Event, Nanos, RunStarted, Stamped, Validated};

use super::*;

/// A run whose steps take about so long, with noise that is always the same.
struct Steady {
    name: &'static str,
    steps: u64,
    ms: u64,
    rows: u64,
    noise: u64,
    ended: bool,
    batch_size: &'static str,
}

const USUAL: Steady = Steady {
    name: "usual",
    steps: 60,
    ms: 100,
    rows: 8,
    noise: 10,
    ended: true,
    batch_size: "8",
};

impl Steady {
    fn events(&self) -> Vec<Stamped> {
        let at = |ms: u64, event| Stamped {
            at: Nanos(ms * 1_000_000),
            event,
        };
        let started = RunStarted {
            log_version: 1,
            name: "train".to_owned(),
            program: "voxmill 0.1.0".to_owned(),
            facts: [("batch size".to_owned(), self.batch_size.to_owned())].into(),
            ..RunStarted::default()
        };
        let mut events = vec![at(0, Event::RunStarted(started))];
        let mut now = 500;
        for step in 1..=self.steps {
            let first = if step == 1 { 900 } else { 0 };
            let took = self.ms + first + (step * 37 + self.ms) % (self.noise + 1);
            now += took;
            let frames = if step % 2 == 0 { 100 } else { 200 };
            let values = [
                ("loss".to_owned(), 2.0 / step as f64),
                ("frames".to_owned(), (self.rows * frames) as f64),
            ];
            let step = Step {
                step,
                service: Nanos(took * 1_000_000),
                shape: format!("{}x{frames}x20", self.rows).parse().ok(),
                ended: Some(Nanos(now * 1_000_000)),
                values: values.into(),
                ..Step::default()
            };
            events.push(at(now, Event::Step(step)));
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

/// The later of two runs.
fn later(first: Candidate, second: Candidate) -> Against {
    compare(&[first, second], None).against_first.remove(0)
}

fn judged(against: &Against, measure: Measure) -> (Judgement, f64) {
    let mut all = against.differences.iter();
    let found = all.find(|found| found.measure == measure).unwrap();
    let change = found.change.map_or(f64::NAN, |change| change.value);
    (found.judgement, change)
}

#[test]
fn a_run_does_not_differ_from_itself() {
    let comparison = compare(&[USUAL.run(), USUAL.run()], Some(0.05));
    let against = &comparison.against_first[0];
    assert_eq!(against.verdict, Some(Verdict::Within));
    assert_eq!(against.steps_matched, Matched::ByShape);
    for difference in &against.differences {
        assert_eq!(
            difference.judgement,
            Judgement::NoDifference,
            "{difference:?}"
        );
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
    let slower = Steady {
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
    let against = later(USUAL.run(), slower.run());
    let (judgement, change) = judged(&against, Measure::StepTime);
    assert_eq!(judgement, Judgement::Worse);
    assert!((change - 0.095).abs() < 0.02, "{change}");
    let change = against.differences[0].change.unwrap();
    let between = (change.low + change.value) / 2.0;
    assert_eq!(verdict(between), (Verdict::Uncertain, false));
    assert_eq!(judged(&against, Measure::Throughput).0, Judgement::Worse);
    // The other way round it is the better one.
    let comparison = compare(&[slower.run(), USUAL.run()], Some(0.0));
    let (judgement, _) = judged(&comparison.against_first[0], Measure::StepTime);
    assert_eq!(judgement, Judgement::Better);
    assert!(!comparison.failed());
}

#[test]
fn noise_is_no_difference() {
    let noisy = Steady { noise: 60, ..USUAL };
    let other = Steady {
        ms: 101,
        noise: 60,
        ..USUAL
    };
    let comparison = compare(&[noisy.run(), other.run()], Some(0.0));
    let (judgement, _) = judged(&comparison.against_first[0], Measure::StepTime);
    assert_eq!(judgement, Judgement::NoDifference);
    assert!(!comparison.failed());
}

#[test]
fn other_shapes_are_compared_by_their_frames() {
    // Twice the rows in one and a half times the time.
    let larger = Steady {
        rows: 16,
        ms: 150,
        batch_size: "16",
        ..USUAL
    };
    let comparison = compare(&[USUAL.run(), larger.run()], None);
    let against = &comparison.against_first[0];
    assert_eq!(against.steps_matched, Matched::ByFrame);
    let (judgement, change) = judged(against, Measure::StepTime);
    assert_eq!(judgement, Judgement::Better);
    assert!((change + 0.26).abs() < 0.02, "{change}");
    assert!(!against.loss.as_ref().unwrap().same_amount_of_data);
    let [row] = &comparison.differing[..] else {
        panic!("once, not as a fact again: {:?}", comparison.differing)
    };
    assert_eq!(row.name, "batch_size");
    assert_eq!(row.values, [Some("8".to_owned()), Some("16".to_owned())]);
}

#[test]
fn runs_of_different_lengths_meet_at_their_last_common_step() {
    let longer = Steady {
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
    let short = Steady { steps: 2, ..USUAL };
    let loss = later(short.run(), longer.run()).loss.unwrap();
    assert_eq!(loss.at.last().map(|at| at.step), Some(2));
}

#[test]
fn losses_of_too_few_steps_are_not_judged() {
    let judged = |steps| {
        let ours = Steady { steps, ..USUAL };
        let mut theirs = ours.run();
        for step in &mut theirs.run.steps {
            *step.values.get_mut("loss").unwrap() *= 0.5;
        }
        let loss = later(ours.run(), theirs).loss.unwrap();
        loss.at.last().unwrap().judgement
    };
    for steps in [1, 2, 4] {
        assert_eq!(judged(steps), Judgement::NotMeasured, "{steps} steps");
    }
    assert_eq!(judged(40), Judgement::Better);
}

#[test]
fn a_cut_log_and_one_that_grows_have_different_states() {
    let cut = Steady {
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
    let cut = Steady {
        steps: 20,
        ended: false,
        ..USUAL
    };
    let mut events = cut.events();
    let before = events.last().unwrap().at;
    // It resumes after the checkpoint at step 10.
    let mut again = USUAL.events();
    again.retain(|stamped| !matches!(&stamped.event, Event::Step(step) if step.step <= 10));
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
fn what_a_run_did_not_record_is_no_difference() {
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
    let loss = later(USUAL.run(), broken).loss.unwrap();
    assert_eq!(loss.at.last().map(|at| at.step), Some(50));
    assert_eq!(loss.common_steps, 60);
    assert!(!loss.same_to_the_last_bit);
}

/// Steps that take equally long for each frame, with noise of up to a fifth; the shapes take turns.
fn of_equal_pace(seed: u64, steps: u64, shapes: u64) -> Candidate {
    let mut run = Steady { steps, ..USUAL }.run();
    let mut state = seed;
    for (number, step) in (0_u64..).zip(&mut run.run.steps) {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let noise = (state >> 33) % 2_000;
        let frames = 100 + number % shapes;
        step.shape = format!("8x{frames}x20").parse().ok();
        step.service = Nanos(frames * (10_000 + noise) * 100);
    }
    run
}

#[test]
fn shapes_that_came_once_are_no_certainty() {
    for (steps, shapes) in [(1, 1), (5, 1), (5, 5), (12, 12), (20, 20)] {
        let mut failed = 0;
        for seed in 0..100 {
            let (first, second) = (2 * seed, 2 * seed + 1);
            let runs = [first, second].map(|seed| of_equal_pace(seed * 7_919 + 13, steps, shapes));
            failed += u32::from(compare(&runs, Some(0.0)).failed());
        }
        // The interval leaves out one in twenty on this side, and the limit here is none at all.
        let case = format!("{steps} steps of {shapes} shapes: {failed} of 100");
        assert!(failed <= 10, "{case} failed by chance");
    }
    let slow = |times: u64, steps| {
        let mut run = of_equal_pace(5, steps, steps);
        for step in &mut run.run.steps {
            step.service = Nanos(step.service.0 * times);
        }
        run
    };
    let twice = |steps| {
        compare(
            &[of_equal_pace(8, steps, steps), slow(2, steps)],
            Some(0.05),
        )
    };
    assert!(twice(60).failed(), "what is twice as slow is no chance");
    let against = &twice(4).against_first[0];
    assert_eq!(against.verdict, None);
    assert_eq!(judged(against, Measure::StepTime).0, Judgement::NotMeasured);
}

#[test]
fn a_shape_that_one_run_did_once_is_left_out() {
    let (first, mut second) = (USUAL.run(), USUAL.run());
    for step in &mut second.run.steps[10..30] {
        step.shape = "8x700x20".parse().ok();
        step.service = Nanos(300_000_000);
    }
    let mut once = first;
    once.run.steps[40].shape = "8x700x20".parse().ok();
    once.run.steps[40].service = Nanos(100_000_000);
    let against = later(once, second);
    assert_eq!(against.steps_matched, Matched::ByShape);
    let (judgement, change) = judged(&against, Measure::StepTime);
    assert_eq!(judgement, Judgement::NoDifference, "{change}");
}

#[test]
fn a_loss_on_another_dataset_is_neither_better_nor_worse() {
    let on = |data: &str| {
        let mut run = USUAL.run();
        run.settings = Some([("train_data".to_owned(), data.to_owned())].into());
        run
    };
    let mut lower = on("b");
    for step in &mut lower.run.steps {
        if let Some(loss) = step.values.get_mut("loss") {
            *loss *= 0.5;
        }
    }
    let told = |lower: &Candidate| {
        let comparison = compare(&[on("a"), lower.clone()], None);
        let loss = comparison.against_first[0].loss.clone().unwrap();
        (loss.same_dataset, loss.at.last().unwrap().judgement)
    };
    assert_eq!(told(&lower), (Some(false), Judgement::NotMeasured));
    lower.settings = on("a").settings;
    assert_eq!(told(&lower), (Some(true), Judgement::Better));
}

#[test]
fn held_out_losses_are_compared_at_a_common_step_and_on_the_same_clips() {
    let validated = |step, mel: f64| {
        let found = Validated {
            step,
            losses: [("mel".to_owned(), mel)].into(),
            ..Validated::default()
        };
        (step, found)
    };
    let with = |validations: &[(u64, Validated)], seed: &str| {
        let mut run = USUAL.run();
        run.run.validations = validations.iter().cloned().collect();
        let settings = [("train_data", "d"), ("seed", seed)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        run.settings = Some(settings.into());
        run
    };
    let first = with(&[validated(20, 0.5), validated(40, 0.4)], "1");
    let second = with(
        &[
            validated(20, 0.45),
            validated(40, f64::NAN),
            validated(60, 0.3),
        ],
        "1",
    );
    let found = later(first.clone(), second).held_out.unwrap();
    assert_eq!((found.step, found.first, found.this), (20, 0.5, 0.45));
    assert_eq!(found.same_clips, Some(true));
    let other = with(&[validated(20, 0.45)], "2");
    let found = later(first.clone(), other).held_out.unwrap();
    assert_eq!(
        found.same_clips,
        Some(false),
        "another seed holds others out"
    );
    assert_eq!(first.run.best_validation(), Some((40, 0.4)));
    // What training did not take for the best is not the best, however low: it has no checkpoint.
    let mut taken = first.clone();
    taken.run.validations.get_mut(&20).unwrap().better = true;
    assert_eq!(taken.run.best_validation(), Some((20, 0.5)));
    assert!(later(first, USUAL.run()).held_out.is_none());
}
