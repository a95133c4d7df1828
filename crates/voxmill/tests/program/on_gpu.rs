//! `train` on a GPU, and on two logical devices of one. The software GPU of Mesa will do.

use crate::said;
use crate::train::{Run, kill_after_two_checkpoints, ok};

const PAIR: [&str; 6] = [
    "--data-device",
    "wgpu:0",
    "--model-device",
    "wgpu:0+1",
    // Measuring a software GPU takes its time.
    "--prepare-on",
    "host",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    PAIR.iter().chain(more).copied().collect()
}

fn near(a: &[(u64, u64)], b: &[(u64, u64)]) {
    assert_eq!(a.len(), b.len());
    for ((step, a), (_, b)) in a.iter().zip(b) {
        let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
        assert!((a - b).abs() < 0.02 * a, "step {step}: {a} and {b}");
    }
}

#[test]
fn the_same_voice_is_trained_on_one_device_and_on_two() {
    let cpu = Run::new();
    ok(cpu.train(&["--max-steps", "4", "--device", "cpu"]));
    let single = Run::new();
    let output = ok(single.train(&["--max-steps", "4", "--device", "wgpu:0"]));
    assert!(
        said(&output).contains("single device, buffered: wgpu:0"),
        "{}",
        said(&output)
    );
    let pair = Run::new();
    let output = ok(pair.train(&with(&["--max-steps", "4"])));
    let told = said(&output);
    for expected in [
        "two devices: wgpu:0 prepares, wgpu:0+1 trains",
        // Each device's pools, as their own threads saw them.
        "at most on wgpu:0, ",
        "at most on wgpu:0+1",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    near(&cpu.losses(), &single.losses());
    near(&cpu.losses(), &pair.losses());
    // The voice is a voice wherever it was trained.
    assert!(pair.dir().join("samples/final-1.wav").is_file());
}

#[test]
fn two_devices_go_on_where_they_were_killed() {
    let run = Run::new();
    let often = with(&[
        "--max-steps",
        "14",
        "--checkpoint-every",
        "2",
        "--keep",
        "2",
    ]);
    kill_after_two_checkpoints(&run, &often);
    let dir = run.dir().to_str().unwrap().to_owned();
    let output = ok(run.train(&["--resume", &dir]));
    assert!(
        said(&output).contains("resumes after step"),
        "{}",
        said(&output)
    );
    let undisturbed = Run::new();
    ok(undisturbed.train(&with(&["--max-steps", "14"])));
    near(&undisturbed.losses(), &run.losses());
}

/// By calculation the batches fit; the device's pools grow by whole pages, and then they do not.
#[test]
fn a_data_device_above_its_limit_takes_no_more_batches() {
    let run = Run::new();
    let limit = ["--enable-memory-isolation", "--data-gpu-memory", "4MB"];
    let output = run.train(&with(&limit)).output().unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("wgpu:0 has no room for a batch") && told.contains("hint: "),
        "{told}"
    );
    assert!(!told.contains("panicked"), "{told}");
}

#[test]
fn what_does_not_fit_or_is_not_there_is_refused() {
    let run = Run::new();
    let refused = |args: &[&str], words: &str| {
        let output = run.train(args).output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains(words) && told.contains("hint: "),
            "{words}\n{told}"
        );
        assert!(!told.contains("panicked"), "{told}");
    };
    let limit = ["--enable-memory-isolation", "--model-gpu-memory", "20MB"];
    refused(&with(&limit), "does not fit on wgpu:0+1");
    refused(&["--device", "wgpu:9"], "there is no wgpu:9");
    refused(&["--device", "cuda"], "no `cuda` backend");
    // A software GPU does not count as one.
    refused(
        &["--data-gpu", "0", "--model-gpu", "1"],
        "Insufficient GPUs for Multi-GPU Mode: found 0",
    );
}
