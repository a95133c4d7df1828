//! `compare`, on runs that were made for it and on logs that are not as they should be.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::schema::assert_fits;
use crate::train::{Run, ok};
use crate::{said, voxmill};

/// Run in `folder`, so that runs can be named as a person names them.
fn compare(folder: &Path, args: &[&str]) -> Output {
    let mut command = voxmill(&["compare"]);
    command.args(args).current_dir(folder);
    command.output().unwrap()
}

/// Two runs of one dataset, `run` and `longer`.
fn two_runs() -> Run {
    let run = Run::new();
    ok(run.train(&["--max-steps", "8", "--no-evaluation"]));
    fs::rename(run.dir(), run.home.path().join("longer")).unwrap();
    ok(run.train(&["--max-steps", "6", "--no-evaluation"]));
    run
}

#[test]
fn two_runs_are_held_against_each_other() {
    let run = two_runs();
    let home = run.home.path();
    let output = compare(home, &["run", "longer"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for expected in [
        "1  ✓ run, 6 steps; finished",
        "2  ✓ longer, 8 steps; finished",
        "total time",
        "step time",
        "throughput",
        "variation",
        "host memory",
        "2 longer against 1 run",
        "max_steps",
        "--- stderr\n",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
    assert!(!told.contains('\u{1b}'), "no terminal, no colours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );

    // The same logs give the same bytes, also from another place.
    let json = compare(home, &["run", "longer", "--json"]);
    let again = compare(home, &["run", "longer", "--json"]);
    assert_eq!(json.stdout, again.stdout);
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["run", "longer"] {
        let to = elsewhere.path().join(name);
        fs::create_dir(&to).unwrap();
        for file in ["events.jsonl", "settings.yaml"] {
            fs::copy(home.join(name).join(file), to.join(file)).unwrap();
        }
    }
    let moved = compare(elsewhere.path(), &["run", "longer", "--json"]);
    assert_eq!(json.stdout, moved.stdout);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_fits(&value, "compare");
    assert_eq!(value["version"], 1);
    assert_eq!(value["runs"][1]["last_step"], 8);
    assert_eq!(value["against_first"][0]["loss"]["common_steps"], 6);
    let differing = value["differing"].as_array().unwrap();
    assert!(differing.iter().any(|row| row["name"] == "max_steps"));

    // A run against itself: its log alone, without settings.
    fs::copy(home.join("run/events.jsonl"), home.join("copy.jsonl")).unwrap();
    let told = said(&compare(home, &["run", "copy.jsonl", "--fail-above", "0%"]));
    assert!(told.starts_with("exit: 0"), "{told}");
    for expected in [
        "no difference can be told",
        "all 6 steps in common are the same to the last bit",
        "copy.jsonl has no settings.yaml",
        "✓ copy.jsonl is not slower than run by more than 0 %",
    ] {
        assert!(told.contains(expected), "{expected}\n{told}");
    }
}

/// Each step of a log as if it had taken so many times as long.
fn slowed(log: &str, times: u64) -> String {
    let line = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "step" {
            for part in ["waited", "service"] {
                event[part] = (event[part].as_u64().unwrap() * times).into();
            }
        }
        event.to_string() + "\n"
    };
    log.lines().map(line).collect()
}

#[test]
fn a_run_that_is_slower_fails_where_a_limit_is_given() {
    let run = Run::new();
    ok(run.train(&["--max-steps", "12", "--no-evaluation"]));
    let home = run.home.path();
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    fs::write(home.join("slow.jsonl"), slowed(&log, 3)).unwrap();
    let output = compare(home, &["run", "slow.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "no limit, no failure");
    let output = compare(home, &["run", "slow.jsonl", "--fail-above", "5%"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("✗ too slow: slow.jsonl takes +200.0 %"),
        "{told}"
    );
    let output = compare(home, &["slow.jsonl", "run", "--fail-above", "5%"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    // Killed in the middle of a line: what is there is used.
    let half = log.len() - 40;
    let cut = log[..half].rfind("\"event\":\"run_ended\"").unwrap_or(half);
    fs::write(home.join("cut.jsonl"), &log[..cut]).unwrap();
    let told = said(&compare(home, &["run", "cut.jsonl"]));
    assert!(told.contains("! cut.jsonl, 12 steps; was killed"), "{told}");
}

#[test]
fn what_cannot_be_compared_is_told_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let start = |version: u32, name: &str| {
        format!(
            "{{\"at\":0,\"event\":\"run_started\",\"log_version\":{version},\"name\":\"{name}\",\"unix_seconds\":0.0,\
             \"program\":\"voxmill 0.1.0\",\"plan\":null}}\n"
        )
    };
    let step = "{\"at\":9,\"event\":\"step\",\"step\":1,\"waited\":1,\"service\":2}\n";
    fs::write(path.join("good.jsonl"), start(1, "train") + step).unwrap();
    fs::write(path.join("empty.jsonl"), "").unwrap();
    fs::write(path.join("words.txt"), "these are\nonly words\n").unwrap();
    fs::write(path.join("newer.jsonl"), start(2, "train")).unwrap();
    fs::write(path.join("prepared.jsonl"), start(1, "prepare")).unwrap();
    fs::create_dir(path.join("folder")).unwrap();
    for (other, what, hint) in [
        ("empty.jsonl", "is empty", "ended before it began"),
        ("words.txt", "is not the log of a run", "events.jsonl"),
        ("newer.jsonl", "is of version 2", "newer program"),
        (
            "prepared.jsonl",
            "has no step in it",
            "compare runs of `train`",
        ),
        ("folder", "has no events.jsonl", "the folder of a run"),
        ("nowhere", "there is no `nowhere`", "the folder of a run"),
        (".", "has no events.jsonl", "the folder of a run"),
    ] {
        let output = compare(path, &["good.jsonl", other]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(output.stdout.is_empty(), "{told}");
        let (error, advice) = told.split_once("hint: ").unwrap();
        assert!(error.contains("error: ") && error.contains(what), "{told}");
        assert!(advice.contains(hint), "{told}");
    }
    let told = said(&compare(path, &["good.jsonl"]));
    assert!(told.contains("there is one run"), "{told}");
    let told = said(&compare(
        path,
        &["good.jsonl", "good.jsonl", "--fail-above", "much"],
    ));
    assert!(told.contains("a share such as 0.05 or 5%"), "{told}");
    // One step is little, but it is something.
    let output = compare(path, &["good.jsonl", "good.jsonl"]);
    assert!(output.status.success(), "{}", said(&output));
}
