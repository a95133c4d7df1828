//! `scale`, with the smallest model and as few steps as it takes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::dataset::Dataset;
use crate::train::signal;
use crate::{assert_has, expect, parse_json, transcript, voxmill};

fn scale(dataset: &Dataset, more: &str) -> Command {
    let data = dataset.path().display();
    voxmill(format!(
        "scale --train-data {data} --model-size nano --compute-threads 1 {more}"
    ))
}

#[test]
fn sizes_are_rows_whether_they_run_or_die() {
    let dataset = Dataset::new(24);
    // In lanes there are limits; the larger batch is above it.
    let limited = "--prepare-on host --data-device cpu --model-device cpu --enable-memory-isolation \
                   --model-gpu-memory 60MB --batch-sizes 512,2 --num-steps 5 --json";
    let output = scale(&dataset, limited).output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let result = parse_json(&output, "scale");
    assert_eq!(result["version"], 1);
    let [small, large] = &result["sizes"].as_array().unwrap()[..] else {
        panic!("{text}")
    };
    assert_eq!((&small["size"], &large["size"]), (&2.into(), &512.into()));
    assert_eq!(small["measured"]["steps"], 5);
    for measure in [
        "frames_per_second",
        "clips_per_second",
        "host_memory",
        "busy",
    ] {
        let measured = small["measured"][measure].as_f64().unwrap();
        assert!(measured > 0.0, "{measure}: {text}");
    }
    assert_has(large["died"].as_str().unwrap(), &["does not fit"]);
    assert_eq!(large["refused"]["limit"], 60_000_000);
    assert!(large["refused"]["needs"].as_u64().unwrap() > 60_000_000);
    assert_eq!(result["memory"]["first_that_died"], 512);
    let lines = ["1/2  batch size 2: ", "2/2  batch size 512: died: the run"];
    assert_has(&text, &lines);
    assert!(!dataset.path().join("runs").exists());
}

#[test]
fn workers_are_swept_too_and_where_all_die_the_exit_says_so() {
    let dataset = Dataset::new(24);
    for (args, code, phrases) in [
        (
            "--workers=1,2 --num-steps 5 --batch-size 4",
            0,
            "5 steps of each size|workers|Frames a second|What follows",
        ),
        (
            "--batch-sizes 4 --ram-budget 1kB",
            1,
            "batch size 4 died|671 kB while it is prepared|that is 671 kB more|error: no size ran|hint: smaller sizes take less memory",
        ),
        (
            "--batch-size 4",
            1,
            "hint: leave it out, and give the sizes with --batch-sizes",
        ),
    ] {
        let phrases: Vec<&str> = phrases.split('|').collect();
        expect(&mut scale(&dataset, args), code, &phrases);
    }
}

/// The processes that this one started and that are still there.
fn children(id: u32) -> Vec<String> {
    let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let listed = listed.unwrap_or_default();
    listed.split_whitespace().map(ToOwned::to_owned).collect()
}

#[test]
fn an_interruption_ends_the_child_too() {
    let dataset = Dataset::new(24);
    let mut command = scale(&dataset, "--batch-sizes 4,8 --num-steps 100000");
    let scale = command.stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    let child = loop {
        if let Some(child) = children(scale.id()).pop() {
            break child;
        }
        let waited = patience.elapsed();
        assert!(waited < Duration::from_secs(60), "no child came");
        std::thread::sleep(Duration::from_millis(10));
    };
    signal(scale.id(), "TERM");
    let output = scale.wait_with_output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert_has(&text, &["interrupted before a size was measured"]);
    let gone = !std::path::Path::new(&format!("/proc/{child}")).exists();
    assert!(gone, "the child {child} lives on");
}
