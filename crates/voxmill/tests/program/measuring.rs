//! `profile` and `analyze`, as a person runs them: the real pipeline, the real (smallest) model.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::dataset::Dataset;
use crate::{expect, json_of, parse_json, prepare, transcript, voxmill};

struct Bench {
    home: tempfile::TempDir,
    dataset: Dataset,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            home: tempfile::tempdir().unwrap(),
            // More than are looked at before the first step, so that files are left to be decoded.
            dataset: Dataset::new(300),
        }
    }

    fn command(&self, verb: &str, more: &str) -> Command {
        let data = self.dataset.path().display();
        let mut command = voxmill(format!(
            "{verb} --train-data {data} --model-size nano --batch-size 4 {more}"
        ));
        command.current_dir(self.home.path());
        command
    }

    /// The folder of the only run.
    fn folder(&self) -> PathBuf {
        let runs = fs::read_dir(self.home.path().join("runs")).unwrap();
        let mut runs = runs.flatten().map(|entry| entry.path());
        runs.find(|path| path.is_dir()).unwrap()
    }
}

fn replay(path: &str) -> Command {
    voxmill(format!("profile --replay {path}"))
}

/// Workers that run far ahead would be through with the files before the steps that count.
const NOT_FAR_AHEAD: &str = "--buffer-size 2 --prefetch-buffer-size 2 --json";

#[test]
fn a_profile_explains_the_time_and_its_log_says_the_same_again() {
    let bench = Bench::new();
    let args = format!("--num-steps 16 --warmup 2 {NOT_FAR_AHEAD}");
    let output = bench.command("profile", &args).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    let profile = parse_json(&output, "profile");
    assert_eq!(
        (&profile["version"], &profile["steps"]),
        (&1.into(), &16.into())
    );
    let explained = profile["explained"].as_f64().unwrap();
    assert!((explained - 1.0).abs() < 0.02, "{explained}");
    let shares = profile["shares"].as_array().unwrap();
    let sum: f64 = shares.iter().map(|s| s["share"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let parts = profile["train_parts"].as_object().unwrap();
    assert!(parts.contains_key("forward") && parts.contains_key("backward"));
    for measured in [
        "floor_ms",
        "interference",
        "run_over_floor",
        "no_overlap_over_run",
        "most_overlap_can_gain",
    ] {
        assert!(!profile["feeding"][measured].is_null(), "{measured}");
    }
    assert_eq!(profile["feeding"]["rounds"], 4, "all phases took turns");
    assert_eq!(profile["facts"]["cache"], "cold");
    let stages = profile["stages"].as_array().unwrap();
    let named = |name: &str| stages.iter().any(|stage| stage["name"] == name);
    assert!(named("featurize") && named("featurize.mel") && named("prepare"));

    let folder = bench.folder();
    let folder = folder.to_str().unwrap();
    let again = replay(folder).arg("--json").output().unwrap();
    assert!(again.stdout == output.stdout, "{}", transcript(&again));
    assert!(
        !folder.contains("discarded") && !bench.folder().join("thrown-away").exists(),
        "the model is not kept"
    );
}

#[test]
fn what_cannot_be_replayed_is_an_error_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str, phrase: &str| {
        fs::write(home.path().join(name), text).unwrap();
        expect(replay(name).current_dir(&home), 1, &[phrase]);
    };
    let newer = r#"{"at":0,"event":"run_started","log_version":99,"name":"a","unix_seconds":0.0,"program":"x","plan":null}"#;
    refused("newer.jsonl", newer, "version 99");
    refused("empty.jsonl", "", "no step in the log");
    let hint = "hint: give the folder of a run";
    expect(replay("nowhere").current_dir(&home), 1, &[hint]);
}

#[test]
fn a_run_of_train_can_be_profiled_afterwards() {
    let bench = Bench::new();
    let dir = bench.home.path().join("run");
    let dir = dir.to_str().unwrap();
    let args = "--max-steps 12 --no-evaluation --sample-every 0 --json --run-dir";
    let summary = json_of(bench.command("train", args).arg(dir), "train");
    assert!(summary["step_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(!summary["finding"]["what"].is_null());
    let replayed = json_of(replay(dir).arg("--json"), "profile");
    assert_eq!(replayed["steps"], 12);
    assert!(replayed["feeding"]["floor_ms"].is_null(), "never measured");
}

/// Strong enough that no machine that runs tests can hide them. `benches/diagnoses.py` has the mild ones.
#[test]
fn what_is_injected_is_found() {
    for (cause, warm, steps, flags) in [
        ("slow_disk", false, 12, "--inject read=150ms"),
        // The flag's earlier name.
        ("slow_resampling", false, 12, "--plant resample=150ms"),
        ("slow_collating", true, 6, "--inject collate=800ms"),
        ("slow_transfer", true, 6, "--inject transfer=800ms"),
        ("cold_cache", false, 12, "--inject mel=300ms"),
        (
            "model_too_small",
            false,
            12,
            "--inject mel=500ms --no-cache",
        ),
        ("padding", true, 12, "--pad-to-fixed-length"),
    ] {
        let bench = Bench::new();
        if warm {
            expect(&mut prepare(bench.dataset.path(), ""), 0, &[]);
        }
        let args = format!("--num-steps {steps} --warmup 1 {NOT_FAR_AHEAD} {flags}");
        // Other programs on the machine that runs the tests are not what was injected. Where they take so much that nothing
        // else can be seen, it is looked at again.
        let looks = (0..3).map(|_| {
            let profile = json_of(&mut bench.command("profile", &args), "profile");
            let findings = profile["findings"].as_array().unwrap();
            let first = findings.iter().find(|f| f["cause"] != "oversubscribed");
            first.map(|found| found["cause"].clone())
        });
        let found = looks.flatten().next();
        assert_eq!(found, Some(cause.into()));
    }
}

#[test]
fn the_data_side_is_measured_without_a_model() {
    let bench = Bench::new();
    let mut analyze = bench.command("analyze", "--step-ms 30 --json");
    let data = json_of(&mut analyze, "analyze");
    assert_eq!(
        (&data["version"], &data["feeding"]["step_ms"]),
        (&1.into(), &30.0.into())
    );
    assert!(data["warm"].as_array().unwrap().is_empty(), "no cache yet");
    assert!(data["cold"][0]["clips_per_second"].as_f64().unwrap() > 0.0);
    // A fourth where other programs took the cores of the machine that runs the tests.
    let crowded = data["other_programs"]["oversubscribed"] == true;
    let verdicts = data["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 3 + usize::from(crowded));
    let slowest = data["audio"]["slowest"].as_array().unwrap();
    let times: Vec<f64> = slowest.iter().map(|s| s["ms"].as_f64().unwrap()).collect();
    assert_eq!(times.len(), 5);
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert_eq!(
        (&data["cached"], &data["all_clips"]),
        (&0.into(), &300.into())
    );
    let mut refused = bench.command("analyze", "--compute-threads 2");
    expect(&mut refused, 1, &["hint: leave it out"]);
    let mut without = bench.command("analyze", "");
    let text = "no step time is known: give --step-ms";
    expect(&mut without, 0, &[text]);
}

#[test]
fn a_bad_clip_is_not_missing_from_the_cache() {
    let dataset = Dataset::new(30);
    let mut silent = crate::dataset::tone(1.0, 200.0);
    silent[44..].fill(0);
    fs::write(dataset.wav(3), silent).unwrap();
    expect(&mut prepare(dataset.path(), ""), 0, &["1 bad"]);
    let data = dataset.path().display();
    let found = json_of(
        &mut voxmill(format!("analyze --train-data {data} --json")),
        "analyze",
    );
    assert_eq!(
        (&found["cached"], &found["all_clips"]),
        (&29.into(), &29.into())
    );
    assert!(!found["warm"].as_array().unwrap().is_empty());
}
