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
    type Spoil = fn(&mut voxmill_data::batch::Sound);
    let kinds: [(&str, Spoil); 6] = [
        ("one frame is not a number", |s| s.rows_mut()[3] = f32::NAN),
        ("one frame is infinite", |s| {
            s.rows_mut()[100] = f32::INFINITY
        }),
        ("no frame is a number", |s| s.rows_mut().fill(f32::NAN)),
        ("the reference is not a number", |s| {
            s.reference_mut()[5] = f32::NAN
        }),
        ("the reference is infinite", |s| {
            s.reference_mut()[5] = -f32::INFINITY
        }),
        ("all is too large", |s| s.rows_mut().fill(1e30)),
    ];
    let spoiled = kinds.map(|(what, spoil)| {
        let mut batch = batches().remove(0);
        spoil(&mut batch.sound);
        (what, batch)
    });
    spoiled.into()
}

#[test]
fn a_bad_step_leaves_no_trace_in_what_is_trained() {
    let good = batches();
    let trained = |training, batches| {
        let (summary, recorded, mut tensors) = trained(training, batches);
        // How long clips are is counted for the bad one, too.
        tensors.remove("lengths");
        (summary, recorded, tensors)
    };
    let (_, expected, clean) = trained(late(6), [&good[..], &good[..]].concat());
    for (what, bad) in spoiled() {
        let all = [&good[..2], &[bad], &good[2..], &good[..]].concat();
        let (summary, recorded, tensors) = trained(late(7), all);
        let bad: Vec<&StepReport> = recorded.steps.iter().filter(|step| !step.counted).collect();
        assert_eq!(bad.len(), 1, "{what}");
        assert_eq!(bad[0].step, LATE + 3);
        assert_eq!(bad[0].clips, [200, 201], "its clips are named");
        assert_eq!(summary.progress.bad_steps, 1);
        let counted = recorded.steps.iter().filter(|step| step.counted);
        assert_eq!(all_bits(counted), all_bits(&expected.steps), "{what}");
        assert!(tensors == clean, "{what}");
    }
}

#[test]
fn one_bad_micro_batch_spoils_its_step() {
    let options = TrainOptions {
        accumulate: 2,
        ..options(2)
    };
    let (_, bad) = spoiled().remove(0);
    let good = batches();
    let all = [&good[..1], &[bad], &good[1..]].concat();
    let (_, recorded, _) = trained(fresh(options), all);
    let counted: Vec<bool> = recorded.steps.iter().map(|step| step.counted).collect();
    assert_eq!(counted, [false, true]);
    assert_eq!(recorded.steps[0].clips, [0, 1, 100, 101]);
}

#[test]
fn too_many_end_the_run_with_a_checkpoint() {
    for (what, bad) in spoiled() {
        // Read at each step, or only at the very end.
        for (log_every, bad_in_all) in [(1, 4), (100, 6)] {
            let folder = tempfile::tempdir().unwrap();
            let options = TrainOptions {
                log_every,
                ..options(8)
            };
            let mut all = batches()[..2].to_vec();
            all.extend(std::iter::repeat_n(&bad, 6).cloned());
            let feed = TestFeed::new(all);
            let (ended, recorded) = try_run(fresh(options), feed, &checkpoints(&folder));
            let step = 2 + bad_in_all;
            let Err(TrainError::TooManyBadSteps { bad, saved }) = ended else {
                panic!("{what}: {:?}", ended.map(|summary| summary.stopped));
            };
            assert_eq!((bad, saved), (bad_in_all, step));
            assert_eq!(recorded.steps.len() as u64, step);
            let found = newest(&folder);
            assert_eq!(found.facts().progress.bad_steps, bad_in_all, "{what}");
            let all = tensors(found.path());
            for (name, bytes) in &all {
                let mut values = numbers(bytes).into_iter();
                assert!(values.all(f32::is_finite), "{what}: {name}");
            }
            assert_eq!(numbers(&all["updates"]), [2.0]);
        }
    }
}
