//! Training in 16 bits, and the loss scale that f16 needs.

use super::*;

fn in_precision(precision: Precision, steps: u64) -> TrainOptions {
    TrainOptions {
        precision,
        ..options(steps)
    }
}

/// A fresh run in f16 whose loss scale begins here.
fn scaled(factor: f32, options: TrainOptions) -> Trainer {
    assert_eq!(options.precision, Precision::F16);
    let mut training = fresh(options);
    training.loss_scale = Some(LossScale::from_stored([factor, 0.0], &device()));
    training
}

/// Gradients of the first steps overflow with this one and bear that one.
const TOO_LARGE: f32 = 16_777_216.0;
const MODEST: f32 = 4_096.0;

#[test]
fn the_loss_falls_as_it_does_in_32_bits() {
    let losses = |training| {
        let (summary, recorded, _) = trained(training, batches());
        assert_eq!(summary.progress.bad_steps, 0);
        assert!(recorded.steps.iter().all(|step| step.counted));
        let totals = recorded.steps.iter().map(|step| step.losses.total);
        totals.collect::<Vec<f64>>()
    };
    let single = losses(fresh(in_precision(Precision::Single, 45)));
    assert!(single[44] < 0.5 * single[2], "{single:?}");
    for half in [
        losses(fresh(in_precision(Precision::Bf16, 45))),
        losses(scaled(MODEST, in_precision(Precision::F16, 45))),
    ] {
        assert_ne!(single, half);
        // A few thousandths a step by rounding, and they must not add up.
        let off = single.iter().zip(&half).map(|(a, b)| (a - b).abs() / a);
        assert!(off.fold(0.0, f64::max) < 1e-2, "{single:?}\n{half:?}");
    }
}

#[test]
fn an_overflow_halves_the_scale_and_changes_nothing_else() {
    let begun = scaled(TOO_LARGE, in_precision(Precision::F16, 1));
    let before = OptimizerState::new(&begun.model, &device()).moments;
    let (summary, recorded, tensors) = trained(begun, batches());
    let step = &recorded.steps[0];
    assert!(step.overflowed() && !step.counted);
    assert!(step.losses.total.is_finite());
    assert_eq!(step.loss_scale, Some(f64::from(TOO_LARGE)));
    assert_eq!(summary.progress.bad_steps, 0, "it is no fault of the clips");
    assert_eq!(numbers(&tensors["loss_scale"]), [TOO_LARGE / 2.0, 0.0]);
    assert_eq!(numbers(&tensors["updates"]), [0.0]);
    for moments in before {
        let weight: Vec<f32> = moments.mean_weight.into_data().iter::<f32>().collect();
        let path = moments.path;
        let tensor = |name: &str| numbers(&tensors[name]);
        assert_eq!(tensor(&format!("weight/{path}")), weight);
        assert_eq!(tensor(&path), weight, "the running mean");
        for moment in ["first", "second"] {
            let values = tensor(&format!("{moment}/{path}"));
            assert!(values.iter().all(|value| *value == 0.0), "{moment} {path}");
        }
    }
}

#[test]
fn after_some_overflows_the_scale_is_found_and_the_run_continues() {
    let mut options = in_precision(Precision::F16, 30);
    // More than this many steps are going to overflow.
    options.max_bad_steps = 0;
    let (_, recorded, _) = trained(scaled(TOO_LARGE, options), batches());
    let overflows = recorded
        .steps
        .iter()
        .filter(|step| step.overflowed())
        .count();
    assert!((2..15).contains(&overflows), "{overflows}");
    for pair in recorded.steps.windows(2) {
        let (was, is) = (pair[0].loss_scale.unwrap(), pair[1].loss_scale.unwrap());
        assert_eq!(is, if pair[0].counted { was } else { was / 2.0 });
    }
    let fine = |step: &StepReport| step.counted && step.losses.total < 1.9;
    assert!(recorded.steps[27..].iter().all(fine));
}

#[test]
fn a_bad_clip_is_bad_in_f16_too_and_leaves_the_scale_alone() {
    let mut spoiled = batches();
    spoiled[1].sound.rows_mut()[3] = f32::NAN;
    let options = in_precision(Precision::F16, 3);
    let (summary, recorded, tensors) = trained(scaled(MODEST, options), spoiled);
    let counted: Vec<bool> = recorded.steps.iter().map(|step| step.counted).collect();
    assert_eq!(counted, [true, false, true]);
    assert!(!recorded.steps[1].overflowed());
    assert_eq!(summary.progress.bad_steps, 1);
    assert_eq!(numbers(&tensors["loss_scale"]), [MODEST, 2.0]);
}

/// Stopped while the scale is still being found, and reported rarely: neither changes a bit.
#[test]
fn stopped_and_resumed_is_never_stopped_with_its_scale() {
    let options = in_precision(Precision::F16, 16);
    let (_, whole, at_the_end) = trained(scaled(TOO_LARGE, options.clone()), batches());
    let mut rarely = options.clone();
    rarely.log_every = 7;
    let (_, recorded, _) = trained(scaled(TOO_LARGE, rarely), batches());
    assert_eq!(all_bits(&recorded.steps), all_bits(&whole.steps));

    let parts = tempfile::tempdir().unwrap();
    let feed = TestFeed::new(batches()).interrupting(5);
    let (_, first) = run(scaled(TOO_LARGE, options.clone()), feed, &parts);
    let stopped = newest(&parts);
    assert_eq!(stopped.facts().precision, Precision::F16);
    assert_eq!(stopped.facts().progress.step, 5);
    let [factor, _] = numbers(&tensors(stopped.path())["loss_scale"])[..] else {
        panic!("two numbers");
    };
    assert!(factor < TOO_LARGE, "it was being found");
    let (_, second) = super::resuming::resume(stopped.path(), options, &parts);
    let both = [all_bits(&first.steps), all_bits(&second.steps)].concat();
    assert_eq!(both, all_bits(&whole.steps));
    let scales = |run: &Recorded| run.steps.iter().map(|s| s.loss_scale).collect::<Vec<_>>();
    assert_eq!([scales(&first), scales(&second)].concat(), scales(&whole));
    let last = newest(&parts);
    assert!(tensors(last.path()) == at_the_end);
}
