//! Steps whose numbers are not finite.

use super::*;

/// Past the warm-up and past the alignment's prior, where a step's number changes nothing.
const LATE: u64 = 1_000;

fn late(steps: u64) -> Trainer {
    let mut training = fresh(options(LATE + steps));
    training.progress.step = LATE;
    training
}

/// What can be wrong with a batch.
fn spoiled() -> Vec<(&'static str, Batch)> {
    let (nan, infinite) = (f32::NAN, f32::INFINITY);
    let spoil = |name, spoil: &dyn Fn(&mut Batch)| {
        let mut batch = batches().remove(0);
        spoil(&mut batch);
        (name, batch)
    };
    vec![
        spoil("one frame is not a number", &|batch| {
            batch.sound.rows_mut()[3] = nan
        }),
        spoil("one frame is infinite", &|batch| {
            batch.sound.rows_mut()[100] = infinite
        }),
        spoil("no frame is a number", &|batch| {
            batch.sound.rows_mut().fill(nan)
        }),
        spoil("the reference is not a number", &|batch| {
            batch.sound.reference_mut()[5] = nan
        }),
        spoil("the reference is infinite", &|batch| {
            batch.sound.reference_mut()[5] = -infinite
        }),
        spoil("all is too large", &|batch| {
            batch.sound.rows_mut().fill(1e30)
        }),
    ]
}

#[test]
fn a_bad_step_leaves_no_trace_in_what_is_trained() {
    let good = batches();
    let folder = tempfile::tempdir().unwrap();
    let (_, expected) = run(
        late(6),
        TestFeed::new([&good[..], &good[..]].concat()),
        &folder,
    );
    let trained = |folder: &TempDir| {
        let mut all = tensors(checkpoints(folder).newest().unwrap().checkpoint.path());
        // How long clips are is counted for the bad one, too.
        all.retain(|(name, _)| name != "lengths");
        all
    };
    let clean = trained(&folder);
    for (what, bad) in spoiled() {
        let folder = tempfile::tempdir().unwrap();
        let all = [&good[..2], &[bad], &good[2..], &good[..]].concat();
        let (summary, heard) = run(late(7), TestFeed::new(all), &folder);
        let bad: Vec<&StepReport> = heard.steps.iter().filter(|step| !step.counted).collect();
        assert_eq!(bad.len(), 1, "{what}");
        assert_eq!(bad[0].step, LATE + 3);
        assert_eq!(bad[0].clips, [200, 201], "its clips are named");
        assert_eq!(summary.progress.bad_steps, 1);
        let counted = heard.steps.iter().filter(|step| step.counted).map(bits);
        assert_eq!(counted.collect::<Vec<_>>(), all_bits(&expected), "{what}");
        assert!(trained(&folder) == clean, "{what}");
    }
}

#[test]
fn one_bad_micro_batch_spoils_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(2);
    options.accumulate = 2;
    let (_, bad) = spoiled().remove(0);
    let good = batches();
    let all = vec![good[0].clone(), bad, good[1].clone(), good[2].clone()];
    let (_, heard) = run(fresh(options), TestFeed::new(all), &folder);
    let counted: Vec<bool> = heard.steps.iter().map(|step| step.counted).collect();
    assert_eq!(counted, [false, true]);
    assert_eq!(heard.steps[0].clips, [0, 1, 100, 101]);
}

#[test]
fn too_many_end_the_run_with_a_checkpoint() {
    for (what, bad) in spoiled() {
        // Told at each step, or only at the very end.
        for (log_every, bad_in_all) in [(1, 4), (100, 6)] {
            let folder = tempfile::tempdir().unwrap();
            let mut options = options(8);
            options.log_every = log_every;
            let good = batches();
            let mut all = vec![good[0].clone(), good[1].clone()];
            all.extend(std::iter::repeat_n(&bad, 6).cloned());
            let mut heard = Heard::default();
            let ended = fresh(options).run(
                &mut TestFeed::new(all),
                &checkpoints(&folder),
                &mut heard,
                &AtomicBool::new(false),
            );
            let step = 2 + bad_in_all;
            let Err(TrainError::TooManyBadSteps { bad, saved }) = ended else {
                panic!("{what}: {:?}", ended.map(|summary| summary.stopped));
            };
            assert_eq!((bad, saved), (bad_in_all, step));
            assert_eq!(heard.steps.len() as u64, step);
            let found = checkpoints(&folder).newest().unwrap();
            assert_eq!(
                found.checkpoint.facts().progress.bad_steps,
                bad_in_all,
                "{what}"
            );
            let all = tensors(found.checkpoint.path());
            for (name, bytes) in &all {
                assert!(
                    numbers(bytes).iter().all(|n| n.is_finite()),
                    "{what}: {name}"
                );
            }
            let updates = &all.iter().find(|(name, _)| name == "updates").unwrap().1;
            assert_eq!(numbers(updates), [2.0]);
        }
    }
}
