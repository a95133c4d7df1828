//! One device prepares what the other trains on. Here both are the CPU, in two lanes with threads of
//! their own; [`crate::on_gpu`] does the same with GPUs.

use crate::said;
use crate::train::{Run, kill_after_two_checkpoints, ok};

const LANES: [&str; 4] = ["--data-device", "cpu", "--model-device", "cpu"];
/// What is measured may come out differently each time; losses are to be the same to the bit.
const BY_THE_WORKERS: [&str; 2] = ["--prepare-on", "host"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let lanes = LANES.iter().chain(&BY_THE_WORKERS);
    lanes.chain(more).copied().collect()
}

#[test]
fn where_frames_are_made_is_measured_once_and_stays_so() {
    let run = Run::new();
    let mut args = LANES.to_vec();
    args.extend(["--max-steps", "3"]);
    let told = said(&ok(run.train(&args)));
    let line = told.lines().find(|line| line.starts_with("frames    by "));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(" ms a batch"), "{line}");
    let dir = run.dir().to_str().unwrap().to_owned();
    let told = said(&ok(run.train(&["--resume", &dir, "--max-steps", "5"])));
    assert!(told.contains("as before the stop"), "{told}");
}

#[test]
fn a_resumed_run_makes_frames_where_it_made_them() {
    let run = Run::new();
    let mut args = LANES.to_vec();
    args.extend(["--max-steps", "2", "--prepare-on", "data"]);
    ok(run.train(&args));
    let dir = run.dir().to_str().unwrap().to_owned();
    let told = said(&ok(run.train(&[
        "--resume",
        &dir,
        "--max-steps",
        "4",
        "--prepare-on",
        "auto",
    ])));
    assert!(
        told.contains("frames    by cpu, as before the stop"),
        "{told}"
    );
    assert!(!told.contains("is not what it was before"), "{told}");
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
        "devices   the thread of cpu was preparing",
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
