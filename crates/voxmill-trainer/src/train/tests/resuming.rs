//! A run that was stopped and resumes is the run that was never stopped, to the last bit.

use super::*;

/// A cosine, so that a wrong step number shows in the rate.
fn cosine(accumulate: usize, ema_decay: f32) -> TrainOptions {
    let mut options = options(12);
    options.schedule.decay = Decay::Cosine { to: 0.1 };
    options.accumulate = accumulate;
    options.optimizer.ema_decay = ema_decay;
    options
}

/// Resumes in a fresh trainer with nothing but what is on disk.
pub(super) fn resume(from: &Path, options: TrainOptions, folder: &TempDir) -> (Summary, Recorded) {
    let from = CheckpointFolder::open(from).unwrap();
    let feed = TestFeed::new(batches()).from(&from.facts().progress.feed);
    let settings = from.facts().settings.clone();
    let training = Trainer::resume(options, settings, speakers(), &device(), &from).unwrap();
    run(training, feed, folder)
}

#[test]
fn stopped_and_resumed_is_never_stopped() {
    for (accumulate, ema_decay, every) in [(1, 0.0, None), (1, 0.999, Some(1)), (2, 0.9, Some(3))] {
        let options = cosine(accumulate, ema_decay);
        let whole = tempfile::tempdir().unwrap();
        let (summary, never_stopped) =
            run(fresh(options.clone()), TestFeed::new(batches()), &whole);

        let mut options = options;
        options.checkpoint_every = every;
        let parts = tempfile::tempdir().unwrap();
        let feed = TestFeed::new(batches()).interrupting(5 * accumulate as u64);
        let (stopped, first) = run(fresh(options.clone()), feed, &parts);
        assert_eq!((stopped.stopped, stopped.step), (Stopped::Interrupted, 5));
        let saved = newest(&parts);
        let (resumed, second) = resume(saved.path(), options, &parts);
        assert_eq!((resumed.first_step, resumed.step), (5, 12));

        let both = first.steps.iter().chain(&second.steps);
        assert_eq!(all_bits(both), all_bits(&never_stopped.steps));
        let rates = |run: &Recorded| -> Vec<f64> { run.steps.iter().map(|s| s.rate).collect() };
        assert_eq!(
            [rates(&first), rates(&second)].concat(),
            rates(&never_stopped)
        );
        assert_eq!(resumed.progress.position, summary.progress.position);
        assert_eq!(resumed.voice.length_scale, summary.voice.length_scale);
        assert!(tensors(newest(&whole).path()) == tensors(newest(&parts).path()));
    }
}

/// As after a kill: whatever came after the checkpoint is lost.
#[test]
fn every_checkpoint_leads_to_the_same_end() {
    let mut options = cosine(1, 0.999);
    options.checkpoint_every = Some(1);
    options.validate_every = Some(5);
    let folder = tempfile::tempdir().unwrap();
    let (_, whole) = run(fresh(options.clone()), TestFeed::new(batches()), &folder);
    for (done, path) in checkpoints(&folder).list().unwrap().iter().enumerate() {
        let again = tempfile::tempdir().unwrap();
        let (_, recorded) = resume(path, options.clone(), &again);
        let rest = all_bits(&whole.steps[done + 1..]);
        assert_eq!(all_bits(&recorded.steps), rest, "after {}", done + 1);
    }
}

#[test]
fn how_often_it_saves_validates_and_samples_changes_no_loss() {
    let bare = cosine(1, 0.999);
    let (_, expected, _) = trained(fresh(bare.clone()), batches());
    for (checkpoint_every, validate_every, sample_every, log_every) in
        [(Some(1), None, None, 1), (Some(5), Some(2), Some(3), 7)]
    {
        let busy = TrainOptions {
            checkpoint_every,
            validate_every,
            sample_every,
            log_every,
            ..bare.clone()
        };
        let folder = tempfile::tempdir().unwrap();
        let feed = TestFeed::new(batches()).held_out(batches());
        let (_, recorded) = run(fresh(busy), feed, &folder);
        assert_eq!(all_bits(&recorded.steps), all_bits(&expected.steps));
    }
}

/// In 32 bits by the CPU's own blocks, in 16 by the library, which rounds less then.
#[test]
fn making_activations_again_changes_no_loss_and_resumes() {
    for precision in [Precision::Single, Precision::Bf16] {
        let losses = |recompute| {
            let options = TrainOptions {
                recompute,
                precision,
                checkpoint_every: Some(6),
                ..cosine(1, 0.999)
            };
            let folder = tempfile::tempdir().unwrap();
            let (_, recorded) = run(fresh(options.clone()), TestFeed::new(batches()), &folder);
            let half_way = &checkpoints(&folder).list().unwrap()[0];
            let (_, resumed) = resume(half_way, options, &folder);
            assert_eq!(all_bits(&resumed.steps), all_bits(&recorded.steps)[6..]);
            all_bits(&recorded.steps)
        };
        match precision {
            Precision::Single => assert_eq!(losses(true), losses(false)),
            // The library makes the convolution's taps again in 32 bits.
            _ => assert_ne!(losses(true), losses(false)),
        }
    }
}

#[test]
fn a_run_that_is_over_stays_over() {
    let folder = tempfile::tempdir().unwrap();
    run(fresh(options(3)), TestFeed::new(batches()), &folder);
    let newest = newest(&folder);
    let (summary, recorded) = resume(newest.path(), options(3), &folder);
    assert_eq!((summary.stopped, summary.step), (Stopped::MaxSteps, 3));
    assert!(recorded.steps.is_empty() && recorded.saved.is_empty());
}
