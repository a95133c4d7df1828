//! Why a run stops, and what is on disk then.

use std::sync::atomic::Ordering;

use super::*;

fn ended(options: TrainOptions, feed: TestFeed) -> (Summary, Recorded, Vec<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let (summary, recorded) = run(fresh(options), feed, &folder);
    let newest = checkpoints(&folder).newest().unwrap();
    assert!(newest.damaged.is_empty());
    assert_eq!(newest.checkpoint.facts().progress, summary.progress);
    assert_eq!(newest.checkpoint.facts().voice, summary.voice);
    let saved = recorded.saved.iter().map(|saved| saved.step).collect();
    (summary, recorded, saved)
}

#[test]
fn after_as_many_steps_as_it_may_take() {
    let every_two = TrainOptions {
        checkpoint_every: Some(2),
        sample_every: Some(3),
        log_every: 4,
        ..options(5)
    };
    let (summary, recorded, saved) = ended(every_two, TestFeed::new(batches()));
    assert_eq!(summary.stopped, Stopped::MaxSteps);
    assert_eq!(saved, [2, 4, 5]);
    assert_eq!(recorded.sampled, [3]);
    let steps: Vec<u64> = recorded.steps.iter().map(|step| step.step).collect();
    assert_eq!(steps, [1, 2, 3, 4, 5], "every step once, in order");
}

#[test]
fn after_as_much_time_as_it_may_take() {
    let mut short = options(100);
    short.limits.seconds = Some(1e-9);
    let (summary, _, saved) = ended(short, TestFeed::new(batches()));
    assert_eq!((summary.stopped, summary.step), (Stopped::MaxTime, 1));
    assert_eq!(saved, [1]);
}

#[test]
fn when_the_feed_ends_even_within_an_effective_batch() {
    let mut with_two = options(100);
    with_two.accumulate = 2;
    let (summary, recorded, saved) = ended(with_two, TestFeed::new(batches()).ending(5));
    assert_eq!((summary.stopped, summary.step), (Stopped::FeedEnded, 3));
    let positions = recorded.steps[2].positions.len();
    assert_eq!(positions, 1, "the last batch counts by itself");
    assert_eq!(saved, [3]);
}

#[test]
fn when_it_is_asked_to_stop() {
    let mut validating = options(100);
    validating.validate_every = Some(50);
    let feed = TestFeed::new(batches()).interrupting(4).held_out(batches());
    let (summary, recorded, saved) = ended(validating, feed);
    assert_eq!((summary.stopped, summary.step), (Stopped::Interrupted, 4));
    assert_eq!(saved, [4]);
    let validated: Vec<u64> = recorded
        .validations
        .iter()
        .map(|found| found.step)
        .collect();
    assert_eq!(validated, [1], "whoever interrupts does not want to wait");
}

#[test]
fn when_it_is_asked_to_stop_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let feed = TestFeed::new(batches());
    feed.stop().store(true, Ordering::Relaxed);
    let (summary, recorded) = run(fresh(options(5)), feed, &folder);
    assert_eq!((summary.stopped, summary.step), (Stopped::Interrupted, 0));
    assert!(recorded.saved.is_empty(), "there is nothing to resume from");
}

#[test]
fn when_held_out_clips_get_no_better() {
    let mut patient = options(100);
    patient.validate_every = Some(2);
    patient.patience = Some(2);
    let mut feed = TestFeed::new(batches()).held_out(batches());
    // From batch 5 on they sound ever less like anything.
    feed.spoil = Some(|batch, now| {
        if now > 5 {
            let values = batch.sound.rows_mut().iter_mut();
            values.for_each(|value| *value += 3.0 * now as f32);
        }
    });
    let (summary, recorded, saved) = ended(patient, feed);
    assert_eq!(summary.stopped, Stopped::NoLongerBetter);
    assert_eq!(summary.step, 8);
    let better: Vec<bool> = recorded
        .validations
        .iter()
        .map(|found| found.better)
        .collect();
    // The first shows where the voice began; there is no checkpoint of it.
    assert_eq!(better, [false, true, true, false, false]);
    assert_eq!(summary.progress.best.unwrap().step, 4);
    assert_eq!(summary.progress.since_best, 2);
    assert_eq!(saved, [2, 4, 6, 8]);
}

#[test]
fn a_feed_without_a_batch_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let feed = TestFeed::new(batches()).ending(0);
    let (ended, _) = try_run(fresh(options(5)), feed, &checkpoints(&folder));
    assert!(matches!(ended, Err(TrainError::NoBatches)), "{ended:?}");
}

#[test]
fn a_folder_that_cannot_be_written_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "not a folder").unwrap();
    let checkpoints = Checkpoints::new(&file.join("checkpoints"), 3);
    let (ended, _) = try_run(fresh(options(1)), TestFeed::new(batches()), &checkpoints);
    let Err(TrainError::Checkpoint(CheckpointError::Write { path, .. })) = ended else {
        panic!("{ended:?}");
    };
    assert!(path.ends_with("checkpoints/step-000000001"), "{path:?}");
}

#[test]
fn validation_does_not_depend_on_how_clips_are_batched() {
    let (long, short) = (TestClip::new("long", 12, 60), TestClip::new("short", 3, 9));
    let validated = |held_out| {
        let mut options = options(1);
        options.validate_every = Some(1);
        let (_, mut recorded, _) = ended(options, TestFeed::new(batches()).held_out(held_out));
        recorded.validations.remove(0)
    };
    let apart = validated(vec![
        batch_of(&[Some(&long)], 12, 60, 32),
        batch_of(&[None], 4, 16, 32),
        batch_of(&[None, Some(&short)], 4, 16, 32),
    ]);
    let together = validated(vec![batch_of(&[Some(&long), Some(&short)], 16, 64, 32)]);
    let parts = |l: Losses| [l.mel, l.mean, l.duration, l.total];
    for (a, b) in parts(apart.losses).into_iter().zip(parts(together.losses)) {
        assert!((a - b).abs() < 1e-5 * b, "{a} and {b}");
    }
    let shown = apart.shown.unwrap();
    assert_eq!(shown.frames, 60);
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
    assert_eq!(shown.real.len(), long.mel.len());
    assert!(shown.real.iter().zip(&long.mel).all(near));
    assert_eq!(shown.made.len(), shown.real.len());
    assert_eq!(shown.durations.iter().sum::<u32>(), 60);
}

#[test]
fn a_validation_that_is_not_finite_is_never_the_best() {
    let mut options = options(3);
    options.validate_every = Some(1);
    let mut feed = TestFeed::new(batches()).held_out(batches());
    feed.spoil = Some(|batch, now| {
        if now < 3 {
            batch.sound.rows_mut()[0] = f32::NAN;
        }
    });
    let (summary, _, _) = ended(options, feed);
    assert_eq!(summary.progress.best.unwrap().step, 3);
}
