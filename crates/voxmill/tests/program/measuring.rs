//! `profile` and `analyze`, as a person runs them: the real road, the real (smallest) model.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::dataset::Dataset;
use crate::schema::assert_fits;
use crate::{prepare, said, voxmill};

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

    fn run(&self, verb: &str, more: &[&str]) -> Output {
        let data = self.dataset.path().to_str().unwrap().to_owned();
        let mut args = vec![verb, "--train-data", &data, "--model-size", "nano"];
        args.extend(["--batch-size", "4"]);
        args.extend(more);
        let mut command = voxmill(&args);
        command.current_dir(self.home.path()).output().unwrap()
    }

    /// The folder of the only run.
    fn folder(&self) -> PathBuf {
        let runs = fs::read_dir(self.home.path().join("runs")).unwrap();
        runs.flatten().next().unwrap().path()
    }
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_profile_explains_the_time_and_its_log_says_the_same_again() {
    let bench = Bench::new();
    let mut args = vec!["--num-steps", "16", "--warmup", "2", "--json"];
    // Workers that run far ahead would be through with the files before the steps that count.
    args.extend(["--buffer-size", "2", "--prefetch-buffer-size", "2"]);
    let output = bench.run("profile", &args);
    let profile = json(&output);
    assert_eq!(
        (&profile["version"], &profile["steps"]),
        (&1.into(), &16.into())
    );
    assert_fits(&profile, "profile");
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
    ] {
        assert!(!profile["feeding"][measured].is_null(), "{measured}");
    }
    assert_eq!(profile["facts"]["cache"], "cold");
    let stages = profile["stages"].as_array().unwrap();
    let named = |name: &str| stages.iter().any(|stage| stage["name"] == name);
    assert!(named("featurize") && named("featurize.mel") && named("prepare"));

    let folder = bench.folder();
    let folder = folder.to_str().unwrap();
    let again = voxmill(&["profile", "--replay", folder, "--json"])
        .output()
        .unwrap();
    assert!(again.stdout == output.stdout, "{}", said(&again));
    assert!(
        !folder.contains("thrown-away") && !bench.folder().join("thrown-away").exists(),
        "the model is not kept"
    );
}

#[test]
fn what_cannot_be_replayed_is_told_with_a_way_out() {
    let bench = Bench::new();
    let home = bench.home.path();
    let refused = |name: &str, text: &str| {
        let path = home.join(name);
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let output = voxmill(&["profile", "--replay", &path]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let newer = r#"{"at":0,"event":"run_started","log_version":99,"name":"a","unix_seconds":0.0,"program":"x","plan":null}"#;
    assert!(refused("newer.jsonl", newer).contains("version 99"));
    assert!(refused("empty.jsonl", "").contains("no step in the log"));
    let output = voxmill(&["profile", "--replay", "nowhere"])
        .current_dir(home)
        .output()
        .unwrap();
    let text = said(&output);
    assert!(
        text.contains("exit: 1") && text.contains("hint: give the folder of a run"),
        "{text}"
    );
}

#[test]
fn a_run_of_train_can_be_profiled_afterwards() {
    let bench = Bench::new();
    let dir = bench.home.path().join("run");
    let dir = dir.to_str().unwrap();
    let output = bench.run(
        "train",
        &[
            "--max-steps",
            "12",
            "--no-evaluation",
            "--sample-every",
            "0",
            "--run-dir",
            dir,
            "--json",
        ],
    );
    let summary = json(&output);
    assert!(summary["step_ms"]["mean"].as_f64().unwrap() > 0.0);
    assert!(!summary["finding"]["what"].is_null());
    let replayed = json(
        &voxmill(&["profile", "--replay", dir, "--json"])
            .output()
            .unwrap(),
    );
    assert_eq!(replayed["steps"], 12);
    assert!(replayed["feeding"]["floor_ms"].is_null(), "never measured");
}

/// Strong enough that no machine that runs tests can hide them. `benches/diagnoses.py` has the mild ones.
#[test]
fn what_is_planted_is_found() {
    let cases: &[(&str, bool, &[&str])] = &[
        ("slow_disk", false, &["--plant", "read=150ms"]),
        ("slow_resampling", false, &["--plant", "resample=150ms"]),
        (
            "slow_collating",
            true,
            &["--plant", "collate=800ms", "--num-steps", "6"],
        ),
        (
            "slow_transfer",
            true,
            &["--plant", "transfer=800ms", "--num-steps", "6"],
        ),
        ("cold_cache", false, &["--plant", "mel=150ms"]),
        (
            "model_too_small",
            false,
            &["--plant", "mel=150ms", "--no-cache"],
        ),
        ("padding", true, &["--pad-to-fixed-length"]),
    ];
    for (cause, warm, flags) in cases {
        let bench = Bench::new();
        if *warm {
            let output = prepare(bench.dataset.path(), &[]).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
        }
        let mut all = vec!["--buffer-size", "2", "--prefetch-buffer-size", "2"];
        all.extend(*flags);
        let mut args = vec!["--num-steps", "12", "--warmup", "1", "--json"];
        if flags.contains(&"--num-steps") {
            args.drain(..2);
        }
        args.extend(all);
        let profile = json(&bench.run("profile", &args));
        let findings = profile["findings"].as_array().unwrap();
        // Other programs on the machine that runs the tests are not what was planted.
        let first = findings.iter().find(|f| f["cause"] != "oversubscribed");
        assert_eq!(first.unwrap()["cause"], *cause, "{findings:#?}");
    }
}

#[test]
fn the_data_side_is_measured_without_a_model() {
    let bench = Bench::new();
    let data = json(&bench.run("analyze", &["--step-ms", "30", "--json"]));
    assert_eq!(
        (&data["version"], &data["feeding"]["step_ms"]),
        (&1.into(), &30.0.into())
    );
    assert_fits(&data, "analyze");
    assert!(data["warm"].as_array().unwrap().is_empty(), "no cache yet");
    assert!(data["cold"][0]["clips_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(data["verdicts"].as_array().unwrap().len(), 3);
    let refused = said(&bench.run("analyze", &["--compute-threads", "2"]));
    assert!(refused.contains("hint: leave it out"), "{refused}");
    let without = bench.run("analyze", &[]);
    let text = said(&without);
    assert!(
        text.contains("no step time is known: give --step-ms"),
        "{text}"
    );
}
