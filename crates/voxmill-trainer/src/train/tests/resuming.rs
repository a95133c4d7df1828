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

/// Goes on in a fresh training with nothing but what is on disk.
pub(super) fn go_on(from: &Path, options: TrainOptions, folder: &TempDir) -> (Summary, Heard) {
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
        let newest = checkpoints(&parts).newest().unwrap().checkpoint;
        let (resumed, second) = go_on(newest.path(), options, &parts);
        assert_eq!((resumed.first_step, resumed.step), (5, 12));

        let mut both = all_bits(&first);
        both.extend(all_bits(&second));
        assert_eq!(both, all_bits(&never_stopped));
        let rates = |heard: &Heard| -> Vec<f64> { heard.steps.iter().map(|s| s.rate).collect() };
        assert_eq!(
            [rates(&first), rates(&second)].concat(),
            rates(&never_stopped)
        );
        assert_eq!(resumed.progress.position, summary.progress.position);
        assert_eq!(resumed.voice.length_scale, summary.voice.length_scale);
        let last = |folder: &TempDir| checkpoints(folder).newest().unwrap().checkpoint;
        assert!(tensors(last(&whole).path()) == tensors(last(&parts).path()));
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
        let (_, heard) = go_on(path, options.clone(), &again);
        assert_eq!(
            all_bits(&heard),
            all_bits(&whole)[done + 1..],
            "after {}",
            done + 1
        );
    }
}

#[test]
fn how_often_it_saves_validates_and_samples_changes_no_loss() {
    let bare = cosine(1, 0.999);
    let folder = tempfile::tempdir().unwrap();
    let (_, expected) = run(fresh(bare.clone()), TestFeed::new(batches()), &folder);
    for (save, validate, sample, log) in [(Some(1), None, None, 1), (Some(5), Some(2), Some(3), 7)]
    {
        let mut busy = bare.clone();
        busy.checkpoint_every = save;
        busy.validate_every = validate;
        busy.sample_every = sample;
        busy.log_every = log;
        let folder = tempfile::tempdir().unwrap();
        let feed = TestFeed::new(batches()).held_out(batches());
        let (_, heard) = run(fresh(busy), feed, &folder);
        assert_eq!(all_bits(&heard), all_bits(&expected));
    }
}

/// In 32 bits by the CPU's own blocks, in 16 by the library, which rounds less then.
#[test]
fn making_activations_again_changes_no_loss_and_resumes() {
    for precision in [Precision::Single, Precision::Bf16] {
        let losses = |recompute| {
            let mut options = cosine(1, 0.999);
            options.recompute = recompute;
            options.precision = precision;
            options.checkpoint_every = Some(6);
            let folder = tempfile::tempdir().unwrap();
            let (_, heard) = run(fresh(options.clone()), TestFeed::new(batches()), &folder);
            let half_way = &checkpoints(&folder).list().unwrap()[0];
            let (_, resumed) = go_on(half_way, options, &folder);
            assert_eq!(all_bits(&resumed), all_bits(&heard)[6..]);
            all_bits(&heard)
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
    let newest = checkpoints(&folder).newest().unwrap().checkpoint;
    let (summary, heard) = go_on(newest.path(), options(3), &folder);
    assert_eq!((summary.stopped, summary.step), (Stopped::MaxSteps, 3));
    assert!(heard.steps.is_empty() && heard.saved.is_empty());
}
