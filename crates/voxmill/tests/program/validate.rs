//! `validate` as a person runs it: what it finds, where it points, and what `--fix` writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::dataset::Dataset;
use crate::{assert_fits_page, assert_has, expect, parse_json, regex_escape, transcript, voxmill};

fn validate(home: &Path, args: &str) -> Command {
    let mut command = voxmill(format!("validate {args}"));
    command.env("XDG_CACHE_HOME", home).current_dir(home);
    command
}

/// The report, whether the settings are ready or not.
fn report(home: &Path, args: &str) -> Value {
    let output = validate(home, &format!("{args} --json")).output().unwrap();
    parse_json(&output, "validate")
}

/// A home with `my.yaml`, a dataset, and the flags that name both.
fn with_file(text: &str) -> (tempfile::TempDir, Dataset, String) {
    let (home, dataset) = (tempfile::tempdir().unwrap(), Dataset::new(40));
    fs::write(home.path().join("my.yaml"), text).unwrap();
    let args = format!("--config my.yaml --train-data {}", dataset.path().display());
    (home, dataset, args)
}

/// The findings of one level, by key.
fn keys<'a>(checks: &'a Value, level: &str) -> Vec<&'a str> {
    let all = checks.as_array().unwrap().iter();
    let of_level = all.filter(|check| check["level"] == level);
    of_level
        .map(|check| check["key"].as_str().unwrap_or(""))
        .collect()
}

/// What was printed, without what differs from machine to machine.
macro_rules! assert_findings {
    ($text:expr, $folder:expr) => {{
        let folder = $folder.to_str().unwrap().to_owned();
        let text = $text;
        let begin = text.find("\n\n").map_or(0, |at| at + 2);
        insta::with_settings!({filters => vec![
            (regex_escape(&folder).as_str(), "[folder]"),
        ]}, {
            insta::assert_snapshot!(&text[begin..]);
        });
    }};
}

#[test]
fn the_example_is_ready_on_the_built_in_corpus() {
    let home = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.example.yaml");
    let mut command = validate(home.path(), &format!("--config {example}"));
    let output = command.output().unwrap();
    let text = transcript(&output);
    assert!(output.status.success(), "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let phrases = [
        "the built-in demo corpus",
        "of all frames are padding",
        "the page cache may hold them",
        "no busy share: nothing has been measured here yet; `voxmill profile` measures",
    ];
    assert_has(&joined, &phrases);
    assert_fits_page(&String::from_utf8_lossy(&output.stdout));
}

#[test]
fn without_a_file_the_flags_are_checked() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    let args = format!(
        "--train-data {} --num-workers 200",
        dataset.path().display()
    );
    let report = report(home.path(), &args);
    assert_eq!(
        (&report["version"], &report["config"]),
        (&1.into(), &Value::Null)
    );
    assert_eq!(report["ready"], true);
    let warnings = keys(&report["checks"], "warning");
    assert!(warnings.contains(&"num_workers"), "{report:#}");
    assert_eq!(report["dataset"]["rows"], 40);
    assert!(report["dataset"]["model_device_bytes"].as_u64().unwrap() > 10_000_000);
    assert!(report["disk"]["read_bytes_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_file_that_is_no_yaml() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("my.yaml"), "data:\n\tbatch_size: 16\n").unwrap();
    let text = expect(&mut validate(home.path(), "--config my.yaml"), 1, &[]);
    assert_findings!(text, home.path());
    let report = report(home.path(), "--config my.yaml");
    assert_eq!(
        (&report["ready"], &report["errors"]),
        (&false.into(), &1.into())
    );
    assert_eq!(report["checks"][0]["place"]["line"], 2);
    let mut fix = validate(home.path(), "--config my.yaml --fix");
    expect(&mut fix, 1, &["cannot be fixed without you"]);
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
fn everything_wrong_is_reported_at_once_with_its_place() {
    let (home, _dataset, args) = with_file(WRONG);
    let mut command = validate(home.path(), &format!("{args} --json"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = parse_json(&output, "validate");
    let checks = &report["checks"];
    assert_eq!(
        keys(checks, "error"),
        ["", "", "data_gpu", "mixed_precision", "warmup_steps"],
        "{report:#}"
    );
    let warnings = keys(checks, "warning");
    assert!(warnings.contains(&"num_workers") && warnings.contains(&"prefetch_buffer_size"));
    assert!(keys(checks, "note").contains(&"enable_xla"));
    let find = |is: fn(&Value) -> bool| checks.as_array().unwrap().iter().find(|&check| is(check));
    let workers = find(|check| check["key"] == "num_workers").unwrap();
    let place = &workers["place"];
    assert_eq!((&place["line"], &place["column"]), (&3.into(), &3.into()));
    let flag = workers["write"][0]["flag"].as_str().unwrap();
    assert!(flag.starts_with("--num-workers "), "{flag}");
    let unknown = find(|check| check["place"]["line"] == 4).unwrap();
    assert_eq!(unknown["hint"], "did you mean `batch_size`?");
}

#[test]
fn a_corrected_copy_keeps_comments_and_order_and_is_ready() {
    let (home, _dataset, args) = with_file(WRONG);
    let fix = format!("{args} --fix");
    let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
    expect(&mut validate(home.path(), &fix), 0, &[]);
    assert_eq!(read("my.yaml"), WRONG);
    insta::with_settings!({filters => vec![
        (r"num_workers: \d+ +#", "num_workers: [workers] #"),
    ]}, {
        insta::assert_snapshot!(read("my.fixed.yaml"));
    });
    // It is its own: it may be written again; and `train` takes it.
    let again = report(home.path(), &fix);
    assert_eq!(
        (&again["ready"], &again["fixed"]["file"]),
        (&true.into(), &"my.fixed.yaml".into())
    );
    let mut show = voxmill("train --config my.fixed.yaml --show-settings");
    expect(show.current_dir(home.path()), 0, &[]);
    fs::write(home.path().join("my.fixed.yaml"), "data:\n").unwrap();
    let mut refused = validate(home.path(), &fix);
    expect(&mut refused, 1, &["--fix did not write it"]);
    let mut asked = validate(home.path(), &format!("{fix} --output my.fixed.yaml"));
    expect(&mut asked, 0, &[]);
}

#[test]
fn a_limit_that_the_file_sets_is_left_alone() {
    // Seven of nine clips are longer.
    let (home, _dataset, args) = with_file("data:\n  batch_size: 4\n  max_mel_frames: 70\n");
    let before = report(home.path(), &args);
    let notes = keys(&before["checks"], "note");
    assert!(notes.contains(&"max_mel_frames"), "{before:#}");
    let text = expect(&mut validate(home.path(), &format!("{args} --fix")), 0, &[]);
    assert_has(&text, &["99 % of the clips have at most"]);
    // Whatever else was written, the limit was not.
    let copy = home.path().join("my.fixed.yaml");
    let copy = fs::read_to_string(copy).unwrap_or_else(|_| "max_mel_frames: 70\n".to_owned());
    assert_has(&copy, &["max_mel_frames: 70\n"]);
}

#[test]
fn a_dataset_that_is_not_there_is_an_error_at_its_line() {
    let (home, ..) = with_file("data:\n  train_data: nowhere\n");
    let text = expect(&mut validate(home.path(), "--config my.yaml"), 1, &[]);
    assert_findings!(text, home.path());
}

#[test]
fn a_refusal_about_a_setting_points_at_it() {
    let (home, ..) = with_file("data:\n  n_fft: 1000\n  hop_length: 2000\n");
    let mut command = validate(home.path(), "--config my.yaml --json");
    let output = command.output().unwrap();
    let report = parse_json(&output, "validate");
    assert_eq!(report["checks"][0]["key"], "hop_length", "{report:#}");
    assert_eq!(report["checks"][0]["place"]["line"], 3);
    assert_eq!(output.status.code(), Some(1));
    // The same by flags alone, and a limit that lacks the switch it needs.
    let by_flag = self::report(home.path(), "--n-fft 1000 --hop-length 2000");
    let check = &by_flag["checks"][0];
    assert_eq!(check["place"]["flag"], "--hop-length", "{by_flag:#}");
    let lanes = "--data-device cpu --model-device cpu --model-gpu-memory 9GB";
    let limit = self::report(home.path(), lanes);
    assert_eq!(limit["checks"][0]["key"], "enable_memory_isolation");
}

#[test]
fn the_busy_share_is_that_of_the_newest_run_like_it() {
    let home = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(40);
    let alike = format!(
        "--train-data {} --model-size nano",
        dataset.path().display()
    );
    let mut train = voxmill(format!(
        "train {alike} --batch-size 4 --run-dir runs/20260101-000000-a --max-steps 24 --sample-every 0"
    ));
    expect(train.current_dir(home.path()), 0, &[]);
    let same = report(home.path(), &format!("{alike} --batch-size 4"));
    assert_eq!(same["busy"]["steps"], 24, "{same:#}");
    let share = same["busy"]["share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share), "{share}");
    let other = report(home.path(), &format!("{alike} --batch-size 5"));
    assert_eq!(other["busy"], Value::Null);
}
