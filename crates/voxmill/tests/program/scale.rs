//! `scale`, with the smallest model and as few steps as it takes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::dataset::Dataset;
use crate::schema::assert_fits;
use crate::train::signal;
use crate::{said, voxmill};

fn scale(dataset: &Dataset, more: &[&str]) -> Command {
    let data = dataset.path().to_str().unwrap().to_owned();
    let mut command = voxmill(&["scale", "--train-data", &data, "--model-size", "nano"]);
    command.args(["--compute-threads", "1"]).args(more);
    command
}

#[test]
fn sizes_are_rows_whether_they_run_or_die() {
    let dataset = Dataset::new(24);
    // In lanes there are limits; the larger batch is above it.
    let limited = [
        "--prepare-on",
        "host",
        "--data-device",
        "cpu",
        "--model-device",
        "cpu",
        "--enable-memory-isolation",
        "--model-gpu-memory",
        "60MB",
    ];
    let output = scale(
        &dataset,
        &["--batch-sizes", "512,2", "--num-steps", "5", "--json"],
    )
    .args(limited)
    .output()
    .unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_fits(&result, "scale");
    assert_eq!(result["version"], 1);
    let [small, large] = &result["sizes"].as_array().unwrap()[..] else {
        panic!("{told}")
    };
    assert_eq!((&small["size"], &large["size"]), (&2.into(), &512.into()));
    assert_eq!(small["measured"]["steps"], 5);
    for measure in [
        "frames_per_second",
        "clips_per_second",
        "host_memory",
        "busy",
    ] {
        assert!(
            small["measured"][measure].as_f64().unwrap() > 0.0,
            "{measure}: {told}"
        );
    }
    assert!(
        large["died"].as_str().unwrap().contains("does not fit"),
        "{told}"
    );
    assert_eq!(large["refused"]["limit"], 60_000_000);
    assert!(large["refused"]["needs"].as_u64().unwrap() > 60_000_000);
    assert_eq!(result["memory"]["first_that_died"], 512);
    for line in ["1/2  batch size 2: ", "2/2  batch size 512: died: the run"] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(!dataset.path().join("runs").exists());
}

#[test]
fn workers_are_swept_too_and_where_all_die_the_exit_says_so() {
    let dataset = Dataset::new(24);
    let output = scale(
        &dataset,
        &["--workers=1,2", "--num-steps", "5", "--batch-size", "4"],
    )
    .output()
    .unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for expected in [
        "5 steps of each size",
        "workers",
        "Frames a second",
        "What follows",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    let output = scale(&dataset, &["--batch-sizes", "4", "--ram-budget", "1kB"])
        .output()
        .unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for expected in [
        "batch size 4 died",
        "kB more",
        "error: no size ran",
        "hint: smaller sizes take less memory",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    let output = scale(&dataset, &["--batch-size", "4"]).output().unwrap();
    let told = said(&output);
    assert!(
        told.contains("hint: leave it out, and give the sizes with --batch-sizes"),
        "{told}"
    );
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
    let mut command = scale(&dataset, &["--batch-sizes", "4,8", "--num-steps", "100000"]);
    let scale = command.stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    let child = loop {
        if let Some(child) = children(scale.id()).pop() {
            break child;
        }
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "no child came"
        );
        std::thread::sleep(Duration::from_millis(10));
    };
    signal(scale.id(), "TERM");
    let output = scale.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("interrupted before a size was measured"));
    let gone = !std::path::Path::new(&format!("/proc/{child}")).exists();
    assert!(gone, "the child {child} lives on");
}
