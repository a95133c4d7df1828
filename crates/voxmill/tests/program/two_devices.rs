//! One device prepares what the other trains on. Here both are the CPU, in two lanes with threads of
//! their own; [`crate::on_gpu`] does the same with GPUs.

use crate::said;
use crate::train::{Run, kill_after_two_checkpoints, ok};

const LANES: [&str; 4] = ["--data-device", "cpu", "--model-device", "cpu"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    LANES.iter().chain(more).copied().collect()
}

#[test]
fn two_lanes_train_on_the_same_batches_with_the_same_losses() {
    let single = Run::new();
    ok(single.train(&["--max-steps", "8"]));
    let pair = Run::new();
    let output = ok(pair.train(&with(&["--max-steps", "8"])));
    assert_eq!(single.losses().len(), 8);
    assert_eq!(single.losses(), pair.losses());
    let told = said(&output);
    for expected in [
        "mode      two devices: cpu (1 thread) prepares, cpu trains",
        "slots, transfers a copy in memory",
        "devices   cpu was preparing",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

#[test]
fn a_run_in_two_lanes_goes_on_where_it_was_killed() {
    let undisturbed = Run::new();
    ok(undisturbed.train(&with(&["--max-steps", "24", "--checkpoint-every", "24"])));
    let killed = Run::new();
    let often = with(&[
        "--max-steps",
        "24",
        "--checkpoint-every",
        "3",
        "--keep",
        "2",
    ]);
    kill_after_two_checkpoints(&killed, &often);
    let dir = killed.dir().to_str().unwrap().to_owned();
    let output = ok(killed.train(&["--resume", &dir]));
    assert!(said(&output).contains("two devices"), "{}", said(&output));
    let (whole, again) = (undisturbed.losses(), killed.losses());
    assert_eq!(whole.last(), again.last());
}

#[test]
fn a_run_that_does_not_fit_is_refused_before_it_begins() {
    let run = Run::new();
    let limited = |model: &'static str, data: &'static str| {
        let args = with(&[
            "--max-steps",
            "2",
            "--enable-memory-isolation",
            "--model-gpu-memory",
            model,
            "--data-gpu-memory",
            data,
        ]);
        run.train(&args).output().unwrap()
    };
    let refused = limited("30MB", "1GB");
    let told = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    for expected in [
        "the run does not fit on cpu: it needs",
        "--model-gpu-memory is 30MB",
        "--grad-accum",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    assert!(!run.dir().exists(), "nothing was begun");
    let told = said(&limited("2GB", "10kB"));
    assert!(told.contains("cannot prepare the largest batch"), "{told}");
    let fits = limited("2GB", "1GB");
    assert!(fits.status.success(), "{}", said(&fits));
}
