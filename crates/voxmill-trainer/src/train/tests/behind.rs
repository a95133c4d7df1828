//! Alignments one visit behind, as on a GPU: their scores are read while the next step is under way, and
//! no longer made once they have settled. The CPU is made to do the same, and then every device must agree.

use super::super::alignments::Stored;
use super::*;
use crate::device::test_devices;
use crate::schedule::PRIOR_STEPS;

fn options_of(rate: f64, steps: u64) -> TrainOptions {
    let mut options = options(PRIOR_STEPS + steps);
    options.schedule.peak = rate;
    options.log_every = 5;
    options
}

fn losses(heard: &Heard) -> Vec<f64> {
    heard.steps.iter().map(|step| step.losses.total).collect()
}

/// A run that begins where the prior is gone.
fn begun(device: &Device, options: TrainOptions) -> Trainer {
    let mut training = Trainer::new(options, small_voice(), json!({}), speakers(), device);
    training.progress.step = PRIOR_STEPS;
    training.alignments = Alignments::new(true, Stored::default());
    training
}

/// Its losses, and whether alignments had settled at its end.
fn trained(device: &Device, rate: f64, steps: u64) -> (Vec<f64>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let training = begun(device, options_of(rate, steps));
    let (_, heard) = run(training, TestFeed::new(batches()).on(device), &folder);
    let saved = checkpoints(&folder).newest().unwrap().checkpoint;
    let settling = json!(saved.facts().settling);
    (losses(&heard), settling["settled"] == json!(true))
}

fn assert_near(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (step, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-2 * a, "step {step}: {a} and {b}");
    }
}

#[test]
fn scores_of_the_last_visit_train_the_same_voice_on_every_device() {
    let (expected, _) = trained(&device(), 3e-3, 15);
    assert_eq!(expected.len(), 15);
    for device in &test_devices()[1..] {
        assert_near(&expected, &trained(device, 3e-3, 15).0);
    }
}

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

#[test]
fn a_run_that_is_stopped_goes_on_with_what_was_being_read_on_every_device() {
    for device in test_devices() {
        let folder = tempfile::tempdir().unwrap();
        let (whole, _) = trained(&device, 3e-3, 12);
        let training = begun(&device, options_of(3e-3, 7));
        let (_, before) = run(training, TestFeed::new(batches()).on(&device), &folder);
        let saved = checkpoints(&folder).newest().unwrap().checkpoint;
        let facts = saved.facts().clone();
        assert!(!facts.pending_durations.is_empty());
        let options = options_of(3e-3, 12);
        let mut training =
            Trainer::resume(options, json!({}), speakers(), &device, &saved).unwrap();
        let stored = Stored {
            known: facts.alignments,
            pending: facts.pending_durations,
            settling: facts.settling,
        };
        // As a GPU does it by itself.
        training.alignments = Alignments::new(true, stored);
        let feed = TestFeed::new(batches()).from(&facts.progress.feed);
        let (_, after) = run(training, feed.on(&device), &folder);
        let all: Vec<f64> = losses(&before).into_iter().chain(losses(&after)).collect();
        assert_near(&whole, &all);
        if is_cpu(&device) {
            // Where sums are made in one order, to the last bit.
            assert_eq!(whole, all);
        }
    }
}
