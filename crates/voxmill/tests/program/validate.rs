//! `validate` as a person runs it: what it finds, where it points, and what `--fix` writes.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::dataset::Dataset;
use crate::schema::assert_fits;
use crate::{regex_escape, said, voxmill};

fn validate(args: &[&str], home: &Path) -> Output {
    let mut command = voxmill(&["validate"]);
    command.args(args).env("XDG_CACHE_HOME", home);
    command.current_dir(home).output().unwrap()
}

fn json(output: &Output) -> Value {
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}", said(output)));
    assert_fits(&report, "validate");
    report
}

/// The findings of one level, by key.
fn keys<'a>(checks: &'a Value, level: &str) -> Vec<&'a str> {
    let all = checks.as_array().unwrap().iter();
    let of_level = all.filter(|check| check["level"] == level);
    of_level
        .map(|check| check["key"].as_str().unwrap_or(""))
        .collect()
}

/// What was said, without what differs from machine to machine.
macro_rules! assert_findings {
    ($output:expr, $folder:expr) => {{
        let folder = $folder.to_str().unwrap().to_owned();
        let said = said(&$output);
        let begin = said.find("\n\n").map_or(0, |at| at + 2);
        insta::with_settings!({filters => vec![
            (regex_escape(&folder).as_str(), "[folder]"),
        ]}, {
            insta::assert_snapshot!(&said[begin..]);
        });
    }};
}

#[test]
fn the_example_is_ready_on_the_built_in_corpus() {
    let home = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.example.yaml");
    let output = validate(&["--config", example], home.path());
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    for expected in [
        "the built-in demo corpus",
        "of all frames are padding",
        "the page cache may hold them",
        "no busy share: nothing has been measured here yet; `voxmill profile` measures",
    ] {
        let joined = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(expected), "{expected}\n{told}");
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        stdout.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
}

#[test]
fn without_a_file_the_flags_are_checked() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    let folder = dataset.path().to_str().unwrap();
    let more = ["--train-data", folder, "--num-workers", "200", "--json"];
    let report = json(&validate(&more, home.path()));
    assert_eq!(
        (&report["version"], &report["config"]),
        (&Value::from(1), &Value::Null)
    );
    assert_eq!(report["ready"], true);
    assert!(
        keys(&report["checks"], "warning").contains(&"num_workers"),
        "{report:#}"
    );
    assert_eq!(report["dataset"]["rows"], 40);
    assert!(report["dataset"]["model_device_bytes"].as_u64().unwrap() > 10_000_000);
    assert!(report["disk"]["read_bytes_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_file_that_is_no_yaml() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("my.yaml"), "data:\n\tbatch_size: 16\n").unwrap();
    let output = validate(&["--config", "my.yaml"], home.path());
    assert_eq!(output.status.code(), Some(1));
    assert_findings!(output, home.path());
    let report = json(&validate(&["--config", "my.yaml", "--json"], home.path()));
    assert_eq!(
        (&report["ready"], &report["errors"]),
        (&Value::from(false), &Value::from(1))
    );
    assert_eq!(report["checks"][0]["place"]["line"], 2);
    let fixed = validate(&["--config", "my.yaml", "--fix"], home.path());
    assert_eq!(fixed.status.code(), Some(1), "{}", said(&fixed));
    assert!(
        said(&fixed).contains("cannot be fixed without you"),
        "{}",
        said(&fixed)
    );
}

const WRONG: &str = "\
# My voice.
data:
  num_workers: 200        # all of them
  batch_sise: 4
  batch_size: 4           # the right one
  prefetch_buffer_size: 1
  mixed_precision: true   # faster?
  data_gpu: 0
  model_gpu: 1
  n_mels: many
  enable_xla: true

# The model.
model:
  size: nano
training:
  max_steps: 400
  warmup_steps: 400   # long
";

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    fs::write(home.path().join("my.yaml"), WRONG).unwrap();
    let folder = dataset.path().to_str().unwrap();
    let args = ["--config", "my.yaml", "--train-data", folder];
    let output = validate(&[&args[..], &["--json"]].concat(), home.path());
    assert_eq!(output.status.code(), Some(1));
    let report = json(&output);
    let checks = &report["checks"];
    assert_eq!(
        keys(checks, "error"),
        ["", "", "data_gpu", "mixed_precision", "warmup_steps"],
        "{report:#}"
    );
    let warnings = keys(checks, "warning");
    assert!(warnings.contains(&"num_workers") && warnings.contains(&"prefetch_buffer_size"));
    assert!(keys(checks, "note").contains(&"enable_xla"));
    let all = checks.as_array().unwrap();
    let workers = all
        .iter()
        .find(|check| check["key"] == "num_workers")
        .unwrap();
    assert_eq!(
        (&workers["place"]["line"], &workers["place"]["column"]),
        (&Value::from(3), &Value::from(3))
    );
    assert!(
        workers["write"][0]["flag"]
            .as_str()
            .unwrap()
            .starts_with("--num-workers ")
    );
    let unknown = all
        .iter()
        .find(|check| check["place"]["line"] == 4)
        .unwrap();
    assert_eq!(unknown["hint"], "did you mean `batch_size`?");
}

#[test]
fn a_corrected_copy_keeps_comments_and_order_and_is_ready() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    fs::write(home.path().join("my.yaml"), WRONG).unwrap();
    let folder = dataset.path().to_str().unwrap();
    let args = ["--config", "my.yaml", "--train-data", folder];
    let output = validate(&[&args[..], &["--fix"]].concat(), home.path());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        fs::read_to_string(home.path().join("my.yaml")).unwrap(),
        WRONG
    );
    let copy = fs::read_to_string(home.path().join("my.fixed.yaml")).unwrap();
    insta::with_settings!({filters => vec![
        (r"num_workers: \d+ +#", "num_workers: [workers] #"),
    ]}, {
        insta::assert_snapshot!(copy);
    });
    // It is its own: it may be written again; and `train` takes it.
    let again = validate(&[&args[..], &["--fix", "--json"]].concat(), home.path());
    let report = json(&again);
    assert_eq!(
        (&report["ready"], &report["fixed"]["file"]),
        (&Value::from(true), &Value::from("my.fixed.yaml"))
    );
    let show = ["train", "--config", "my.fixed.yaml", "--show-settings"];
    let shown = voxmill(&show).current_dir(home.path()).output().unwrap();
    assert!(shown.status.success(), "{}", said(&shown));
    fs::write(home.path().join("my.fixed.yaml"), "data:\n").unwrap();
    let refused = validate(&[&args[..], &["--fix"]].concat(), home.path());
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("--fix did not write it"),
        "{}",
        said(&refused)
    );
    let asked = validate(
        &[&args[..], &["--fix", "--output", "my.fixed.yaml"]].concat(),
        home.path(),
    );
    assert!(asked.status.success(), "{}", said(&asked));
}

#[test]
fn a_limit_is_mended_before_what_it_decides() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    // Seven of nine clips are longer: with so few left a batch of 4 would look too large.
    let text = "data:\n  batch_size: 4\n  max_mel_frames: 70\n";
    fs::write(home.path().join("my.yaml"), text).unwrap();
    let folder = dataset.path().to_str().unwrap();
    let args = ["--config", "my.yaml", "--train-data", folder];
    let before = json(&validate(&[&args[..], &["--json"]].concat(), home.path()));
    assert!(
        keys(&before["checks"], "warning").contains(&"batch_size"),
        "{before:#}"
    );
    let output = validate(&[&args[..], &["--fix"]].concat(), home.path());
    assert!(output.status.success(), "{}", said(&output));
    let copy = fs::read_to_string(home.path().join("my.fixed.yaml")).unwrap();
    assert!(copy.contains("\n  batch_size: 4\n"), "{copy}");
    assert!(!copy.contains("max_mel_frames: 70\n"), "{copy}");
}

#[test]
fn a_dataset_that_is_not_there_is_an_error_at_its_line() {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join("my.yaml"),
        "data:\n  train_data: nowhere\n",
    )
    .unwrap();
    let output = validate(&["--config", "my.yaml"], home.path());
    assert_eq!(output.status.code(), Some(1));
    assert_findings!(output, home.path());
}

#[test]
fn a_refusal_that_names_a_setting_points_at_it() {
    let home = tempfile::tempdir().unwrap();
    let text = "data:\n  n_fft: 1000\n  hop_length: 2000\n";
    fs::write(home.path().join("my.yaml"), text).unwrap();
    let output = validate(&["--config", "my.yaml", "--json"], home.path());
    let report = json(&output);
    assert_eq!(report["checks"][0]["key"], "hop_length", "{report:#}");
    assert_eq!(report["checks"][0]["place"]["line"], 3);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_busy_share_is_that_of_the_newest_run_like_it() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    let folder = dataset.path().to_str().unwrap();
    let dir = "runs/20260101-000000-a";
    let alike = [
        "--train-data",
        folder,
        "--model-size",
        "nano",
        "--batch-size",
        "4",
    ];
    let mut train = voxmill(&["train"]);
    train.current_dir(home.path()).args(alike).args([
        "--run-dir",
        dir,
        "--max-steps",
        "24",
        "--sample-every",
        "0",
    ]);
    crate::train::ok(train);
    let output = validate(&[&alike[..], &["--json"]].concat(), home.path());
    let report = json(&output);
    assert_eq!(report["busy"]["steps"], 24, "{report:#}");
    let share = report["busy"]["share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
    let other = [
        "--train-data",
        folder,
        "--model-size",
        "nano",
        "--batch-size",
        "5",
        "--json",
    ];
    assert_eq!(json(&validate(&other, home.path()))["busy"], Value::Null);
}
