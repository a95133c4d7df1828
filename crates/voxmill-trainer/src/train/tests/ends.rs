//! Why a run stops, and what is on disk then.

use std::sync::atomic::Ordering;

use super::resuming::resume;
use super::*;

fn tempdir() -> TempDir {
    tempfile::tempdir().unwrap()
}

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

/// A step of 64 batches, of which the tenth is under way: it is the last, the step does not count, and a resumed run
/// gets all 64 again.
#[test]
fn when_it_is_asked_to_stop_within_a_step_of_many_batches() {
    let many = |steps| TrainOptions {
        accumulate: 64,
        ..options(steps)
    };
    let (_, never_stopped) = run(fresh(many(3)), TestFeed::new(batches()), &tempdir());
    let folder = tempdir();
    let mut feed = TestFeed::new(batches()).interrupting(64 + 10);
    let (stop, mut recorded) = (feed.stop(), Recorded::default());
    let saves = checkpoints(&folder);
    let stopped = fresh(many(3)).run(&mut feed, &saves, &mut recorded, &stop);
    let stopped = stopped.unwrap();
    assert_eq!((stopped.stopped, stopped.step), (Stopped::Interrupted, 1));
    assert_eq!(feed.given(), 64 + 10, "none was asked for after the stop");
    assert_eq!(feed.most_alive(), 1, "each is released before the next");
    let saved = newest(&folder);
    assert_eq!(saved.facts().progress.feed, json!(64));
    let (_, resumed) = resume(saved.path(), many(3), &folder);
    let both = recorded.steps.iter().chain(&resumed.steps);
    assert_eq!(all_bits(both), all_bits(&never_stopped.steps));
}

/// Whole steps or none: what is saved already is not saved again.
#[test]
fn a_stop_within_a_step_saves_the_last_whole_one_once() {
    let mut with_three = options(100);
    with_three.accumulate = 3;
    with_three.checkpoint_every = Some(2);
    for (batch, step, expected) in [(8, 2, vec![2]), (9, 3, vec![2, 3]), (10, 3, vec![2, 3])] {
        let feed = TestFeed::new(batches()).interrupting(batch);
        let (summary, _, saved) = ended(with_three.clone(), feed);
        assert_eq!((summary.step, saved), (step, expected), "{batch}");
    }
    let (folder, feed) = (tempdir(), TestFeed::new(batches()).interrupting(2));
    let (summary, recorded) = run(fresh(with_three), feed, &folder);
    assert_eq!((summary.stopped, summary.step), (Stopped::Interrupted, 0));
    assert!(recorded.saved.is_empty(), "there is nothing to resume from");
}

/// Whoever interrupts does not wait for the rest of a validation: the batch under way is the last, what it would have
/// found is not told, and no samples follow.
#[test]
fn when_it_is_asked_to_stop_within_a_validation() {
    let many: Vec<Batch> = [batches(), batches(), batches()].concat();
    let validating = |steps| TrainOptions {
        validate_every: Some(4),
        sample_every: Some(4),
        ..options(steps)
    };
    // One pass shows where the voice began; the second of the next is the last.
    let passes = many.len() as u64;
    for (steps, expected) in [(9, Stopped::Interrupted), (4, Stopped::MaxSteps)] {
        let mut feed = TestFeed::new(batches()).held_out(many.clone());
        feed.stop_validating = Some(passes + 2);
        let given = feed.validated.clone();
        let (summary, recorded, saved) = ended(validating(steps), feed);
        assert_eq!(given.load(Ordering::Relaxed), passes + 2);
        assert_eq!((summary.step, summary.stopped), (4, expected));
        assert_eq!(saved, [4]);
        assert_eq!(recorded.validations.len(), 1);
        assert!(recorded.sampled.is_empty(), "{:?}", recorded.sampled);
        assert!(summary.progress.best.is_none());
    }
    // After the last step, where no validation was due before.
    let mut last = validating(5);
    last.sample_every = None;
    let mut feed = TestFeed::new(batches()).held_out(many);
    feed.stop_validating = Some(2 * passes + 2);
    let (summary, _, saved) = ended(last, feed);
    assert_eq!(
        (summary.stopped, summary.left_out),
        (Stopped::MaxSteps, true)
    );
    assert_eq!(saved, [4, 5]);
}

#[test]
fn an_old_checkpoint_that_cannot_go_is_a_warning_of_its_own() {
    let folder = tempdir();
    std::fs::write(folder.path().join("step-000000001"), "a file").unwrap();
    let mut every = options(4);
    every.checkpoint_every = Some(2);
    let (mut feed, mut recorded) = (TestFeed::new(batches()), Recorded::default());
    let stop = feed.stop();
    let saves = Checkpoints::new(folder.path(), 1);
    let ended = fresh(every).run(&mut feed, &saves, &mut recorded, &stop);
    assert_eq!(ended.unwrap().step, 4);
    let saved: Vec<u64> = recorded.saved.iter().map(|saved| saved.step).collect();
    assert_eq!((saved, recorded.not_pruned), (vec![2, 4], 2));
}

/// With nothing left to train and no room on the disk it waits for room, and whoever asks to stop does not.
#[test]
fn a_stop_while_it_waits_for_room_is_answered() {
    struct Impatient(std::sync::Arc<AtomicBool>, u32);
    impl Observer for Impatient {
        fn steps(&mut self, _: &[StepReport], _: &Progress) -> Result<(), FeedError> {
            Ok(())
        }
        fn not_saved(&mut self, failed: &NotSaved<'_>) {
            self.1 += 1;
            if self.1 == 1 {
                assert!(failed.again_in.is_some());
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "not a folder").unwrap();
    let saves = Checkpoints::new(&file.join("checkpoints"), 3);
    let mut patient = options(1);
    patient.max_failed_checkpoints = 50;
    let mut feed = TestFeed::new(batches());
    let stop = feed.stop();
    let mut impatient = Impatient(stop.clone(), 0);
    let ended = fresh(patient).run(&mut feed, &saves, &mut impatient, &stop);
    assert!(matches!(ended, Err(TrainError::Checkpoint(_))), "{ended:?}");
    assert!(impatient.1 <= 3, "{} attempts", impatient.1);
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

/// What a resumed run must find in the log is written between the two.
#[test]
fn a_checkpoint_is_announced_before_it_is_there() {
    struct WatchedSaves(Checkpoints, Vec<(bool, usize)>);
    impl WatchedSaves {
        fn look(&mut self, saved: bool) {
            self.1.push((saved, self.0.list().unwrap().len()));
        }
    }
    impl Observer for WatchedSaves {
        fn steps(&mut self, _: &[StepReport], _: &Progress) -> Result<(), FeedError> {
            Ok(())
        }
        fn saving(&mut self) {
            self.look(false);
        }
        fn saved(&mut self, saved: &Saved) -> Result<(), FeedError> {
            assert!(CheckpointFolder::open(&saved.path).is_ok());
            self.look(true);
            Ok(())
        }
    }
    let (folder, mut every) = (tempdir(), options(3));
    every.checkpoint_every = Some(1);
    let (mut feed, saves) = (TestFeed::new(batches()), checkpoints(&folder));
    let mut watching = WatchedSaves(saves.clone(), Vec::new());
    let stop = feed.stop();
    fresh(every)
        .run(&mut feed, &saves, &mut watching, &stop)
        .unwrap();
    let one_by_one = (0..3).flat_map(|before| [(false, before), (true, before + 1)]);
    assert_eq!(watching.1, one_by_one.collect::<Vec<_>>());
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

/// In the way of the checkpoints' folder after one step, and out of it after some more.
struct BadDisk {
    recorded: Recorded,
    folder: std::path::PathBuf,
    blocked: bool,
    failures: Vec<(u64, u32, bool)>,
}

impl Observer for BadDisk {
    fn steps(&mut self, steps: &[StepReport], progress: &Progress) -> Result<(), FeedError> {
        if progress.step == 1 {
            std::fs::write(&self.folder, "in the way").unwrap();
            self.blocked = true;
        }
        self.recorded.steps(steps, progress)
    }

    fn validated(&mut self, found: &Validation, now: &Progress) -> Result<(), FeedError> {
        self.recorded.validated(found, now)
    }

    fn saved(&mut self, saved: &Saved) -> Result<(), FeedError> {
        self.recorded.saved(saved)
    }

    fn not_saved(&mut self, failed: &NotSaved<'_>) {
        let again = failed.again_in.is_some();
        self.failures.push((failed.step, failed.failures, again));
        // The last checkpoint is waited for: by then there is room.
        if failed.step == 6 && self.blocked {
            std::fs::remove_file(&self.folder).unwrap();
            self.blocked = false;
        }
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_costs_no_step() {
    let saving = |most: u32| TrainOptions {
        checkpoint_every: Some(2),
        max_failed_checkpoints: most,
        ..options(6)
    };
    let (_, undisturbed, expected) = trained(fresh(saving(1)), batches());
    let folder = tempfile::tempdir().unwrap();
    let run = |most| {
        let mut disk = BadDisk {
            recorded: Recorded::default(),
            folder: folder.path().join("checkpoints"),
            blocked: false,
            failures: Vec::new(),
        };
        let checkpoints = Checkpoints::new(&disk.folder, 3);
        let mut feed = TestFeed::new(batches());
        let stop = feed.stop();
        let ended = fresh(saving(most)).run(&mut feed, &checkpoints, &mut disk, &stop);
        (ended, disk, checkpoints)
    };
    let (ended, disk, checkpoints) = run(3);
    assert_eq!(ended.unwrap().step, 6);
    assert_eq!(all_bits(&disk.recorded.steps), all_bits(&undisturbed.steps));
    assert_eq!(disk.failures[0], (2, 1, true));
    assert_eq!(disk.failures.last().unwrap().0, 6);
    let saved = checkpoints.newest().unwrap().checkpoint;
    assert!(tensors(saved.path()) == expected);

    std::fs::remove_dir_all(folder.path().join("checkpoints")).unwrap();
    let (ended, disk, _) = run(1);
    assert!(matches!(ended, Err(TrainError::Checkpoint(_))), "{ended:?}");
    assert_eq!(
        disk.failures,
        [(2, 1, false)],
        "the first one is one too many"
    );
}

/// Otherwise no later one could be the best, and none could be found.
#[test]
fn a_best_voice_that_could_not_be_written_is_not_the_best() {
    let mut options = options(6);
    options.validate_every = Some(2);
    options.max_failed_checkpoints = 9;
    let folder = tempfile::tempdir().unwrap();
    let mut disk = BadDisk {
        recorded: Recorded::default(),
        folder: folder.path().join("checkpoints"),
        blocked: false,
        failures: Vec::new(),
    };
    let checkpoints = Checkpoints::new(&disk.folder, 3);
    let mut feed = TestFeed::new(batches()).held_out(batches());
    // The second one is so good that nothing comes near it.
    feed.spoil = Some(|batch, now| {
        if now != 4 {
            let values = batch.sound.rows_mut().iter_mut();
            values.for_each(|value| *value += 30.0 - now as f32);
        }
    });
    let stop = feed.stop();
    let ended = fresh(options).run(&mut feed, &checkpoints, &mut disk, &stop);
    let steps: Vec<u64> = disk.failures.iter().map(|failed| failed.0).collect();
    assert!(steps.starts_with(&[2, 4]), "{steps:?}");
    assert_eq!(ended.unwrap().progress.best.unwrap().step, 6);
    let best = checkpoints.best().unwrap().checkpoint;
    assert_eq!(best.facts().progress.step, 6);
    assert!(checkpoints.folder().join("best.json").is_file());
}

/// The next validation comes while the best one is still being written.
#[test]
fn a_best_voice_that_is_still_being_written_stays_the_best() {
    let mut options = options(4);
    options.validate_every = Some(1);
    let folder = tempfile::tempdir().unwrap();
    let mut checkpoints = checkpoints(&folder);
    checkpoints.delay = std::time::Duration::from_millis(200);
    let mut feed = TestFeed::new(batches()).held_out(batches());
    feed.spoil = Some(|batch, now| {
        if now != 2 {
            let values = batch.sound.rows_mut().iter_mut();
            values.for_each(|value| *value += 30.0 - now as f32);
        }
    });
    let stop = feed.stop();
    let mut recorded = Recorded::default();
    let ended = fresh(options).run(&mut feed, &checkpoints, &mut recorded, &stop);
    assert_eq!(ended.unwrap().progress.best.unwrap().step, 2);
    let best = checkpoints.best().unwrap().checkpoint;
    assert_eq!(best.facts().progress.step, 2);
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
