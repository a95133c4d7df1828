//! `compare`, on runs that were made for it and on logs that are not as they should be.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::train::Run;
use crate::{assert_fits_page, assert_has, expect, json_of, transcript, voxmill};

/// Run in `folder`, so that runs can be named as a person names them.
fn compare(folder: &Path, args: &str) -> Command {
    let mut command = voxmill(format!("compare {args}"));
    command.current_dir(folder);
    command
}

/// Two runs of one dataset, `run` and `longer`.
fn two_runs() -> Run {
    let run = Run::new();
    run.trained("--max-steps 8 --no-evaluation");
    fs::rename(run.dir(), run.home.path().join("longer")).unwrap();
    run.trained("--max-steps 6 --no-evaluation");
    run
}

#[test]
fn two_runs_are_compared_with_each_other() {
    let run = two_runs();
    let home = run.home.path();
    let output = compare(home, "run longer").output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_has(
        &text,
        &[
            "1  ✓ run, 6 steps; finished",
            "2  ✓ longer, 8 steps; finished",
            "total time",
            "step time",
            "throughput",
            "variation",
            "host memory",
            "2 longer compared with 1 run",
            "max_steps",
            "--- stderr\n",
        ],
    );
    assert!(!text.contains('\u{1b}'), "no terminal, no colours");
    assert_fits_page(&String::from_utf8_lossy(&output.stdout));

    // The same logs give the same bytes, also from another place.
    let bytes = |home: &Path| compare(home, "run longer --json").output().unwrap().stdout;
    assert_eq!(bytes(home), bytes(home));
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["run", "longer"] {
        let to = elsewhere.path().join(name);
        fs::create_dir(&to).unwrap();
        for file in ["events.jsonl", "settings.yaml"] {
            fs::copy(home.join(name).join(file), to.join(file)).unwrap();
        }
    }
    assert_eq!(bytes(home), bytes(elsewhere.path()));
    let value = json_of(&mut compare(home, "run longer --json"), "compare");
    assert_eq!(value["version"], 1);
    assert_eq!(value["runs"][1]["last_step"], 8);
    assert_eq!(value["against_first"][0]["loss"]["common_steps"], 6);
    let differing = value["differing"].as_array().unwrap();
    assert!(differing.iter().any(|row| row["name"] == "max_steps"));

    // A run compared with itself: its log alone, without settings.
    fs::copy(home.join("run/events.jsonl"), home.join("copy.jsonl")).unwrap();
    let phrases = [
        "no significant difference",
        "all 6 steps in common are the same to the last bit",
        "copy.jsonl has no settings.yaml",
        "✓ copy.jsonl is not slower than run by more than 0 %",
    ];
    let mut command = compare(home, "run copy.jsonl --fail-above 0%");
    expect(&mut command, 0, &phrases);
}

/// Each step of a log as if it had taken this many times as long.
fn slowed(log: &str, times: u64) -> String {
    let line = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
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
    run.trained("--max-steps 12 --no-evaluation");
    let home = run.home.path();
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    fs::write(home.join("slow.jsonl"), slowed(&log, 3)).unwrap();
    // Killed in the middle of a line: what is there is used.
    let half = log.len() - 40;
    let cut = log[..half].rfind("\"event\":\"run_ended\"").unwrap_or(half);
    fs::write(home.join("cut.jsonl"), &log[..cut]).unwrap();
    for (args, code, phrase) in [
        // No limit, no failure.
        ("run slow.jsonl", 0, ""),
        (
            "run slow.jsonl --fail-above 5%",
            1,
            "✗ too slow: slow.jsonl takes +200.0 %",
        ),
        ("slow.jsonl run --fail-above 5%", 0, ""),
        ("run cut.jsonl", 0, "! cut.jsonl, 12 steps; was killed"),
    ] {
        expect(&mut compare(home, args), code, &[phrase]);
    }
}

#[test]
fn what_cannot_be_compared_is_an_error_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let start = |version: u32, name: &str| {
        format!(
            "{{\"at\":0,\"event\":\"run_started\",\"log_version\":{version},\"name\":\"{name}\",\"unix_seconds\":0.0,\
             \"program\":\"voxmill 0.1.0\",\"plan\":null}}\n"
        )
    };
    let step = "{\"at\":9,\"event\":\"step\",\"step\":1,\"waited\":1,\"service\":2}\n";
    for (name, text) in [
        ("good.jsonl", start(1, "train") + step),
        ("empty.jsonl", String::new()),
        ("words.txt", "these are\nonly words\n".to_owned()),
        ("newer.jsonl", start(2, "train")),
        ("prepared.jsonl", start(1, "prepare")),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    fs::create_dir(path.join("folder")).unwrap();
    for (other, what, hint) in [
        ("empty.jsonl", "is empty", "ended before it began"),
        ("words.txt", "is not the log of a run", "events.jsonl"),
        ("newer.jsonl", "is of version 2", "newer program"),
        ("prepared.jsonl", "has no step in it", "runs of `train`"),
        ("folder", "has no events.jsonl", "the folder of a run"),
        ("nowhere", "there is no `nowhere`", "the folder of a run"),
        (".", "has no events.jsonl", "the folder of a run"),
    ] {
        let mut command = compare(path, &format!("good.jsonl {other}"));
        let text = expect(&mut command, 1, &["--- stdout\n--- stderr\n"]);
        let (error, advice) = text.split_once("hint: ").unwrap();
        assert_has(error, &["error: ", what]);
        assert_has(advice, &[hint]);
    }
    expect(&mut compare(path, "good.jsonl"), 1, &["there is one run"]);
    let mut unreadable = compare(path, "good.jsonl good.jsonl --fail-above much");
    expect(&mut unreadable, 2, &["a share such as 0.05 or 5%"]);
    // One step is little, but it is something.
    expect(&mut compare(path, "good.jsonl good.jsonl"), 0, &[]);
}
