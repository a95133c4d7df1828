//! One device prepares what the other trains on. Here both are the CPU, in two lanes with threads of
//! their own; [`crate::on_gpu`] does the same with GPUs.

use crate::dataset::Dataset;
use crate::train::{Run, kill_after_two_checkpoints};
use crate::{assert_has, expect};

const LANES: &str = "--data-device cpu --model-device cpu";

/// What is measured may come out differently each time; losses are to be the same to the bit.
fn with(more: &str) -> String {
    format!("{LANES} --prepare-on host {more}")
}

#[test]
fn where_frames_are_made_is_measured_once_and_stays_so() {
    let run = Run::on(Dataset::noisy(24));
    let text = run.trained(format!("{LANES} --max-steps 3"));
    let line = text.lines().find(|line| line.starts_with("frames    by "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert_has(line, &[" ms a batch"]);
    assert_has(&run.resumed("--max-steps 5"), &["as before the stop"]);
}

#[test]
fn a_resumed_run_makes_frames_where_it_made_them() {
    let run = Run::on(Dataset::noisy(24));
    let text = run.trained(format!("{LANES} --max-steps 2 --prepare-on data"));
    let compared = " long, by cpu and by the workers: at most ";
    assert_has(&text, &["compared  frames of 4 clips, ", compared]);
    let text = run.resumed("--max-steps 4 --prepare-on auto");
    assert_has(&text, &["frames    by cpu, as before the stop"]);
    assert!(!text.contains("is not what it was before"), "{text}");
}

#[test]
fn two_lanes_train_on_the_same_batches_with_the_same_losses() {
    let single = Run::new();
    single.trained("--max-steps 8");
    let pair = Run::new();
    let text = pair.trained(with("--max-steps 8"));
    assert_eq!(single.losses().len(), 8);
    assert_eq!(single.losses(), pair.losses());
    let phrases = [
        "mode      two devices: cpu (1 thread) prepares, cpu trains",
        "slots, transfers a copy in memory",
        "devices   the thread of cpu was preparing",
    ];
    assert_has(&text, &phrases);
}

#[test]
fn a_run_in_two_lanes_resumes_where_it_was_killed() {
    let undisturbed = Run::new();
    undisturbed.trained(with("--max-steps 24 --checkpoint-every 24"));
    let killed = Run::new();
    let often = with("--max-steps 24 --checkpoint-every 3 --keep 2");
    kill_after_two_checkpoints(&killed, &often);
    assert_has(&killed.resumed(""), &["two devices"]);
    let (whole, again) = (undisturbed.losses(), killed.losses());
    assert_eq!(whole.last(), again.last());
}

#[test]
fn a_run_that_does_not_fit_is_refused_before_it_begins() {
    let run = Run::new();
    let limited = |model: &str, data: &str| {
        run.train(with(&format!(
            "--max-steps 2 --enable-memory-isolation --model-gpu-memory {model} --data-gpu-memory {data}"
        )))
    };
    let phrases = [
        "the run does not fit on cpu: it needs",
        "--model-gpu-memory is 20MB",
        "--grad-accum",
    ];
    expect(&mut limited("20MB", "1GB"), 1, &phrases);
    assert!(!run.dir().exists(), "nothing was started");
    let phrases = ["cannot prepare the largest batch"];
    expect(&mut limited("2GB", "10kB"), 1, &phrases);
    expect(&mut limited("2GB", "1GB"), 0, &[]);
}
