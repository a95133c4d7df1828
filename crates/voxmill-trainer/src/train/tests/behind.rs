//! Alignments one visit behind, as on a GPU: their scores are read while the next step is under way, and
//! no longer made once they have settled. The CPU is made to do the same, and then every device must agree.

use super::*;
use crate::device::test_devices;
use crate::schedule::PRIOR_STEPS;

fn options_of(rate: f64, steps: u64) -> TrainOptions {
    let mut options = options(PRIOR_STEPS + steps);
    options.schedule.peak = rate;
    options.log_every = 5;
    options
}

fn losses(recorded: &Recorded) -> Vec<f64> {
    recorded
        .steps
        .iter()
        .map(|step| step.losses.total)
        .collect()
}

/// As on a GPU.
fn reader() -> Option<Arc<Reader>> {
    Some(Arc::new(Reader::start()))
}

/// A run that begins where the prior is gone.
fn begun(device: &Device, options: TrainOptions) -> Trainer {
    let mut training = Trainer::new(options, small_voice(), json!({}), speakers(), device);
    training.progress.step = PRIOR_STEPS;
    training.alignments = Alignments::new(reader(), Default::default());
    training
}

/// Its losses, and whether alignments had settled at its end.
fn trained(device: &Device, rate: f64, steps: u64) -> (Vec<f64>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let training = begun(device, options_of(rate, steps));
    let feed = TestFeed::new(batches()).on(device, device);
    let (_, recorded) = run(training, feed, &folder);
    let settling = json!(newest(&folder).facts().alignments.settling);
    (losses(&recorded), settling["settled"] == json!(true))
}

fn assert_near(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (step, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-2 * a, "step {step}: {a} and {b}");
    }
}

/// What `profile` and `scale` measure: nothing is searched from the first step on, which the prior would ask for.
#[test]
fn a_run_that_is_only_measured_never_searches_on_every_device() {
    for device in test_devices() {
        let folder = tempfile::tempdir().unwrap();
        let options = TrainOptions {
            as_settled: true,
            ..options(4)
        };
        let mut training = Trainer::new(options, small_voice(), json!({}), speakers(), &device);
        training.alignments = Alignments::assumed(reader());
        let feed = TestFeed::new(batches()).on(&device, &device);
        let (_, recorded) = run(training, feed, &folder);
        let losses = losses(&recorded);
        assert!(losses.len() == 4 && losses.iter().all(|loss| loss.is_finite()));
        let alignments = newest(&folder).facts().alignments.clone();
        assert!(alignments.known.is_empty() && alignments.pending.is_empty());
    }
}

/// As [`trained`], but stopped after some steps and resumed.
fn stopped_and_resumed(device: &Device, rate: f64, stop: u64, steps: u64) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let feed = || TestFeed::new(batches()).on(device, device);
    let (_, before) = run(begun(device, options_of(rate, stop)), feed(), &folder);
    let saved = newest(&folder);
    let facts = saved.facts().clone();
    assert!(!facts.alignments.pending.is_empty());
    let options = options_of(rate, steps);
    let mut training = Trainer::resume(options, json!({}), speakers(), device, &saved).unwrap();
    // As a GPU does it by itself.
    training.alignments = Alignments::new(reader(), facts.alignments);
    let (_, after) = run(training, feed().from(&facts.progress.feed), &folder);
    [losses(&before), losses(&after)].concat()
}

#[test]
fn scores_of_the_last_visit_train_the_same_voice_stopped_or_not_on_every_device() {
    let mut expected = Vec::new();
    for device in test_devices() {
        let (whole, _) = trained(&device, 3e-3, 15);
        let resumed = stopped_and_resumed(&device, 3e-3, 7, 15);
        assert_near(&whole, &resumed);
        if is_cpu(&device) {
            // Where sums are made in one order, to the last bit.
            assert_eq!(whole, resumed);
            assert_eq!(whole.len(), 15);
            expected = whole;
        } else {
            assert_near(&expected, &whole);
        }
    }
}

/// Steps of four batches over epochs of three: the one that is dropped had come to a new epoch.
#[test]
fn a_step_that_was_dropped_is_repeated_with_the_same_alignments() {
    let of_four = || {
        let mut options = options_of(3e-3, 6);
        options.accumulate = 4;
        begun(&device(), options)
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, whole) = run(of_four(), TestFeed::new(batches()), &folder);
    let folder = tempfile::tempdir().unwrap();
    let feed = TestFeed::new(batches()).interrupting(2 * 4 + 2);
    let (summary, before) = run(of_four(), feed, &folder);
    assert_eq!(summary.step, PRIOR_STEPS + 2);
    let saved = newest(&folder);
    let (facts, mut training) = (saved.facts().clone(), of_four());
    let options = training.options.clone();
    training = Trainer::resume(options, json!({}), speakers(), &device(), &saved).unwrap();
    training.alignments = Alignments::new(reader(), facts.alignments);
    let feed = TestFeed::new(batches()).from(&facts.progress.feed);
    let (_, after) = run(training, feed, &folder);
    let both = before.steps.iter().chain(&after.steps);
    assert_eq!(all_bits(both), all_bits(&whole.steps));
}

/// In fifteen steps: all clips are aligned in the first three and searched again in the next three, then kept.
#[test]
fn alignments_that_hardly_move_are_kept_on_every_device() {
    let mut of_all = Vec::new();
    for device in test_devices() {
        let (losses, settled) = trained(&device, 1e-6, 15);
        assert!(settled);
        of_all.push(losses);
    }
    for losses in &of_all {
        assert_near(&of_all[0], losses);
    }
}
