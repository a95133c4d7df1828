//! `voxmill prepare` on datasets that are as they should be, and on their second day.

use std::fs;

use crate::dataset::{Dataset, listing, tone};
use crate::{assert_said, json, prepare, regex_escape, voxmill};

#[test]
fn the_table_of_a_new_dataset_and_of_the_same_one_again() {
    let dataset = Dataset::new(40);
    assert_said!(
        prepare(dataset.path(), &["--num-workers", "2"])
            .output()
            .unwrap(),
        dataset.path()
    );
    let before = listing(dataset.path());
    assert_said!(
        prepare(dataset.path(), &["--num-workers", "2"])
            .output()
            .unwrap(),
        dataset.path()
    );
    assert_eq!(
        listing(dataset.path()),
        before,
        "a second run writes nothing"
    );
}

#[test]
fn one_changed_clip_rebuilds_one_clip_and_the_reason_is_named() {
    let dataset = Dataset::new(12);
    json(&prepare(dataset.path(), &["--json"]).output().unwrap());

    dataset.tone(3, 2.0);
    let report = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(
        report["cache"]["reasons"],
        serde_json::json!({"audio changed": 1})
    );

    let manifest = fs::read_to_string(dataset.path().join("metadata.csv")).unwrap();
    dataset.manifest(&manifest.replacen("We leave at noon.", "We leave at dawn.", 1));
    let report = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(
        report["cache"]["reasons"],
        serde_json::json!({"text changed": 1})
    );
    assert_eq!(report["cache"]["frames_kept"], 1);

    dataset.append("c012|A new one.");
    dataset.tone(12, 1.0);
    let report = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(report["cache"]["reasons"], serde_json::json!({"new": 1}));

    let report = json(
        &prepare(dataset.path(), &["--json", "--n-mels", "40"])
            .output()
            .unwrap(),
    );
    assert_eq!(
        report["cache"]["reasons"],
        serde_json::json!({"setting n_mels changed from 80 to 40": 13})
    );
}

#[test]
fn verify_sees_through_a_kept_time_and_forgives_a_touched_one() {
    let dataset = Dataset::new(6);
    json(&prepare(dataset.path(), &["--json"]).output().unwrap());

    let time = fs::metadata(dataset.wav(2)).unwrap().modified().unwrap();
    fs::write(dataset.wav(2), tone(0.9, 999.0)).unwrap();
    fs::File::options()
        .write(true)
        .open(dataset.wav(2))
        .unwrap()
        .set_modified(time)
        .unwrap();
    let blind = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(blind["cache"]["up_to_date"], true);
    let report = json(
        &prepare(dataset.path(), &["--json", "--verify"])
            .output()
            .unwrap(),
    );
    assert_eq!(
        report["cache"]["reasons"],
        serde_json::json!({"audio changed": 1})
    );

    let same = fs::read(dataset.wav(4)).unwrap();
    fs::write(dataset.wav(4), same).unwrap();
    let report = json(
        &prepare(dataset.path(), &["--json", "--verify"])
            .output()
            .unwrap(),
    );
    assert_eq!(report["cache"]["up_to_date"], true);
    let report = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(
        report["cache"]["up_to_date"], true,
        "the new time was noted"
    );
}

#[test]
fn deleted_clips_are_collected_on_gc() {
    let dataset = Dataset::new(10);
    let full = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    dataset.manifest("c000|The river.\nc001|The mill.\n");
    let report = json(&prepare(dataset.path(), &["--json"]).output().unwrap());
    assert_eq!(report["cache"]["clips"], 10, "kept until asked");
    let report = json(
        &prepare(dataset.path(), &["--json", "--gc"])
            .output()
            .unwrap(),
    );
    assert_eq!(report["cache"]["clips"], 2);
    assert_eq!(report["cache"]["collected"]["clips"], 8);
    assert!(report["cache"]["bytes"].as_u64().unwrap() < full["cache"]["bytes"].as_u64().unwrap());
}

#[test]
fn the_cache_stays_below_its_budget() {
    let dataset = Dataset::new(20);
    let report = json(
        &prepare(dataset.path(), &["--json", "--cache-budget", "400kB"])
            .output()
            .unwrap(),
    );
    let beyond = report["cache"]["not_cached_for_budget"].as_u64().unwrap();
    assert!(beyond > 0 && beyond < 20, "{beyond}");
    assert!(report["cache"]["bytes"].as_u64().unwrap() <= 400_000);
    assert_eq!(
        report["clips"]["usable"], 20,
        "what does not fit is not lost"
    );
}

#[test]
fn the_split_is_stable_when_clips_are_added() {
    let share = ["--json", "--val-fraction", "30%"];
    let dataset = Dataset::new(30);
    let before = json(&prepare(dataset.path(), &share).output().unwrap());
    dataset.append("c030|One more.");
    dataset.tone(30, 1.0);
    let after = json(&prepare(dataset.path(), &share).output().unwrap());
    let count = |report: &serde_json::Value, split: &str| report["clips"][split].as_u64().unwrap();
    let moved = count(&after, "validation") - count(&before, "validation")
        + count(&after, "training")
        - count(&before, "training");
    assert_eq!(moved, 1);
    assert!(count(&before, "validation") > 2 && count(&before, "training") > 10);
}

#[test]
fn a_second_folder_is_all_validation_with_a_cache_of_its_own() {
    let (train, val) = (Dataset::new(8), Dataset::new(3));
    let output = prepare(
        train.path(),
        &["--json", "--val-data", val.path().to_str().unwrap()],
    )
    .output()
    .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["datasets"][0]["clips"]["training"], 8);
    assert_eq!(report["datasets"][1]["clips"]["validation"], 3);
    assert!(val.path().join("voxmill-cache/features").is_dir());
}

#[test]
fn without_arguments_the_built_in_corpus_is_prepared() {
    let home = tempfile::tempdir().unwrap();
    let mut command = voxmill(&["prepare", "--json"]);
    let report = json(&command.env("XDG_CACHE_HOME", home.path()).output().unwrap());
    assert_eq!(report["demo"], true);
    assert_eq!(report["clips"]["bad"], 0);
    assert!(report["clips"]["validation"].as_u64().unwrap() > 10);
    assert_eq!(report["suspicious"], serde_json::json!({}));
}
