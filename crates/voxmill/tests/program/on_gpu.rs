//! `train` on a GPU, and on two logical devices of one. The software GPU of Mesa will do.

use crate::dataset::Dataset;
use crate::train::{Run, kill_after_two_checkpoints};
use crate::{assert_has, expect_refusal};

/// Two devices. Measuring a software GPU takes its time, so where frames are made is given.
fn with(more: &str) -> String {
    format!("--data-device wgpu:0 --model-device wgpu:0+1 --prepare-on host {more}")
}

pub(crate) fn near(a: &[(u64, u64)], b: &[(u64, u64)]) {
    assert_eq!(a.len(), b.len());
    for ((step, a), (_, b)) in a.iter().zip(b) {
        let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
        assert!((a - b).abs() < 0.02 * a, "step {step}: {a} and {b}");
    }
}

#[test]
fn the_same_voice_is_trained_on_one_device_and_on_two() {
    let cpu = Run::new();
    cpu.trained("--max-steps 4 --device cpu");
    let single = Run::new();
    let text = single.trained("--max-steps 4 --device wgpu:0");
    assert_has(&text, &["single device, buffered: wgpu:0"]);
    let pair = Run::new();
    let phrases = [
        "two devices: wgpu:0 prepares, wgpu:0+1 trains",
        // Each device's pools, as their own threads saw them.
        "at most on wgpu:0, ",
        "at most on wgpu:0+1",
    ];
    assert_has(&pair.trained(with("--max-steps 4")), &phrases);
    near(&cpu.losses(), &single.losses());
    near(&cpu.losses(), &pair.losses());
    // The voice is a voice wherever it was trained.
    assert!(pair.dir().join("samples/final-1.wav").is_file());
}

/// Once for each device, driver and build; the answer is kept.
#[test]
fn a_gpu_is_compared_with_the_cpu_before_its_first_run_alone() {
    let cache = tempfile::tempdir().unwrap();
    let said = [0, 1].map(|_| {
        let run = Run::new();
        let mut command = run.train("--max-steps 1 --device wgpu:0 --no-evaluation");
        let output = command
            .env("XDG_CACHE_HOME", cache.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    });
    let compares = said.map(|text| text.contains("comparing wgpu:0 with the CPU"));
    assert_eq!(compares, [true, false]);
    assert!(cache.path().join("voxmill/selftest/wgpu-0.json").is_file());
}

#[test]
fn frames_that_a_gpu_computes_are_compared_on_the_runs_clips() {
    let run = Run::on(Dataset::noisy(24));
    let args = "--max-steps 1 --device wgpu:0 --prepare-on model --no-evaluation";
    let line = " long, by wgpu:0 and by the workers: at most ";
    assert_has(&run.trained(args), &["compared  frames of 4 clips, ", line]);
    // Pure tones leave bins so empty that rounding shows.
    let said = ["wgpu:0 computes frames that differ from the CPU's by more than 1e-3"];
    expect_refusal(&mut Run::new().train(args), &said);
}

#[test]
fn two_devices_resume_where_they_were_killed() {
    let run = Run::new();
    let often = with("--max-steps 14 --checkpoint-every 2 --keep 2");
    kill_after_two_checkpoints(&run, &often);
    assert_has(&run.resumed(""), &["resumes after step"]);
    let undisturbed = Run::new();
    undisturbed.trained(with("--max-steps 14"));
    near(&undisturbed.losses(), &run.losses());
}

#[test]
fn what_does_not_fit_or_is_not_there_is_refused() {
    for (args, what) in [
        // By calculation the batches fit; the device's pools grow by whole pages, and then they do not.
        (
            with("--enable-memory-isolation --data-gpu-memory 4MB"),
            "wgpu:0 has no room for a batch",
        ),
        (
            with("--enable-memory-isolation --model-gpu-memory 20MB"),
            "does not fit on wgpu:0+1",
        ),
        ("--device wgpu:9".to_owned(), "there is no wgpu:9"),
        ("--device cuda".to_owned(), "no `cuda` backend"),
        // A software GPU does not count as one.
        (
            "--data-gpu 0 --model-gpu 1".to_owned(),
            "Insufficient GPUs for Multi-GPU Mode: found 0",
        ),
    ] {
        expect_refusal(&mut Run::new().train(args), &[what]);
    }
}
