//! `voxmill prepare` on datasets that are as they should be, and on their second day.

use std::fs;

use serde_json::{Value, json};

use crate::dataset::{Dataset, listing, tone};
use crate::{assert_has, assert_printed, json_of, parse_json, prepare, prepared, printed};
use crate::{regex_escape, voxmill};

#[test]
fn the_table_of_a_new_dataset_and_of_the_same_one_again() {
    let dataset = Dataset::new(40);
    dataset.hardly_audible_tone(8);
    let mut command = prepare(dataset.path(), "--num-workers 2");
    assert_printed!(printed(&mut command), dataset.path());
    let before = listing(dataset.path());
    assert_printed!(printed(&mut command), dataset.path());
    let after = listing(dataset.path());
    assert_eq!(after, before, "a second run writes nothing");
}

#[test]
fn one_changed_clip_rebuilds_one_clip_and_the_reason_is_named() {
    let dataset = Dataset::new(12);
    prepared(dataset.path(), "");

    dataset.tone(3, 2.0);
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["reasons"], json!({"audio changed": 1}));

    let manifest = fs::read_to_string(dataset.path().join("metadata.csv")).unwrap();
    dataset.manifest(&manifest.replacen("We leave at noon.", "We leave at dawn.", 1));
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["reasons"], json!({"text changed": 1}));
    assert_eq!(report["cache"]["frames_kept"], 1);

    dataset.append("c012|A new one.");
    dataset.tone(12, 1.0);
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["reasons"], json!({"new": 1}));

    let report = prepared(dataset.path(), "--n-mels 40");
    assert_eq!(
        report["cache"]["reasons"],
        json!({"setting n_mels changed from 80 to 40": 13})
    );
}

#[test]
fn verify_sees_through_a_kept_time_and_forgives_a_touched_one() {
    let dataset = Dataset::new(6);
    prepared(dataset.path(), "");

    let time = fs::metadata(dataset.wav(2)).unwrap().modified().unwrap();
    fs::write(dataset.wav(2), tone(0.9, 999.0)).unwrap();
    let file = fs::File::options().write(true).open(dataset.wav(2));
    file.unwrap().set_modified(time).unwrap();
    let blind = prepared(dataset.path(), "");
    assert_eq!(blind["cache"]["up_to_date"], true);
    let report = prepared(dataset.path(), "--verify");
    assert_eq!(report["cache"]["reasons"], json!({"audio changed": 1}));

    let same = fs::read(dataset.wav(4)).unwrap();
    fs::write(dataset.wav(4), same).unwrap();
    let report = prepared(dataset.path(), "--verify");
    assert_eq!(report["cache"]["up_to_date"], true);
    let report = prepared(dataset.path(), "");
    assert_eq!(
        report["cache"]["up_to_date"], true,
        "the new time was noted"
    );
}

#[test]
fn deleted_clips_are_collected_on_gc() {
    let dataset = Dataset::new(10);
    let full = prepared(dataset.path(), "");
    dataset.manifest("c000|The river.\nc001|The mill.\n");
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["clips"], 10, "kept until asked");
    let report = prepared(dataset.path(), "--gc");
    assert_eq!(report["cache"]["clips"], 2);
    assert_eq!(report["cache"]["collected"]["clips"], 8);
    assert!(report["cache"]["bytes"].as_u64().unwrap() < full["cache"]["bytes"].as_u64().unwrap());
}

#[test]
fn the_cache_stays_below_its_budget() {
    let dataset = Dataset::new(20);
    let report = prepared(dataset.path(), "--cache-budget 400kB");
    let beyond = report["cache"]["not_cached_for_budget"].as_u64().unwrap();
    assert!(beyond > 0 && beyond < 20, "{beyond}");
    assert!(report["cache"]["bytes"].as_u64().unwrap() <= 400_000);
    assert_eq!(
        report["clips"]["usable"], 20,
        "what does not fit is not lost"
    );
}

#[test]
fn a_full_budget_is_freed_when_a_setting_changes() {
    let dataset = Dataset::new(20);
    let before = prepared(dataset.path(), "--cache-budget 3MB");
    assert_eq!(before["cache"]["not_cached_for_budget"], 0);
    let after = prepared(dataset.path(), "--cache-budget 3MB --f-max 7000");
    assert_eq!(after["cache"]["not_cached_for_budget"], 0, "{after:#}");
    assert!(after["cache"]["bytes"].as_u64().unwrap() <= 3_000_000);
}

#[test]
fn the_plan_is_the_same_for_any_number_of_workers_and_a_cold_or_warm_cache() {
    let dataset = Dataset::new(30);
    let plan = |args: &str| prepared(dataset.path(), args)["batches"].clone();
    let cold = plan("--num-workers 1");
    assert!(cold["per_epoch"].as_u64().unwrap() > 0);
    assert_eq!(plan("--num-workers 3"), cold, "warm");
    fs::remove_dir_all(dataset.path().join("voxmill-cache")).unwrap();
    assert_eq!(plan("--num-workers 4"), cold, "cold, four workers");
}

#[test]
fn held_out_clips_of_a_training_folder_are_not_trained_on_next_to_a_validation_folder() {
    let (train, val) = (Dataset::new(6), Dataset::new(3));
    let rows = fs::read_to_string(train.path().join("metadata.csv")).unwrap();
    let (kept, held_out) = rows.split_at(rows.len() / 2);
    fs::write(train.path().join("metadata_train.csv"), kept).unwrap();
    fs::write(train.path().join("metadata_eval.csv"), held_out).unwrap();
    fs::remove_file(train.path().join("metadata.csv")).unwrap();
    let args = format!("--json --max-bad 90% --val-data {}", val.path().display());
    let output = prepare(train.path(), args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_has(&stderr, &["metadata_eval.csv is not read"]);
    let report = parse_json(&output, "prepare");
    let clips = &report["datasets"][0]["clips"];
    assert!(output.status.success() && clips["rows"].as_u64().unwrap() <= 4);
}

#[test]
fn a_changed_lexicon_keeps_the_frames_and_what_verify_knows() {
    let dataset = Dataset::new(5);
    prepared(dataset.path(), "");
    let lexicon = dataset.path().join("words.tsv");
    fs::write(&lexicon, "river\tR IH1 V ER0\n").unwrap();
    let lexicon = format!("--lexicon {}", lexicon.display());
    let report = prepared(dataset.path(), &lexicon);
    assert_eq!(report["cache"]["frames_kept"], 5);
    let report = prepared(dataset.path(), lexicon + " --verify");
    assert_eq!(report["cache"]["up_to_date"], true);
}

#[test]
fn the_split_is_stable_when_clips_are_added() {
    let dataset = Dataset::new(30);
    let before = prepared(dataset.path(), "--val-fraction 30%");
    dataset.append("c030|One more.");
    dataset.tone(30, 1.0);
    let after = prepared(dataset.path(), "--val-fraction 30%");
    let count = |report: &Value, split: &str| report["clips"][split].as_u64().unwrap();
    let moved = count(&after, "validation") - count(&before, "validation")
        + count(&after, "training")
        - count(&before, "training");
    assert_eq!(moved, 1);
    assert!(count(&before, "validation") > 2 && count(&before, "training") > 10);
}

#[test]
fn a_second_folder_is_all_validation_with_a_cache_of_its_own() {
    let (train, val) = (Dataset::new(8), Dataset::new(3));
    let args = format!("--json --val-data {}", val.path().display());
    let report = json_of(&mut prepare(train.path(), args), "prepare");
    assert_eq!(report["datasets"][0]["clips"]["training"], 8);
    assert_eq!(report["datasets"][1]["clips"]["validation"], 3);
    assert!(val.path().join("voxmill-cache/features").is_dir());
}

#[test]
fn without_arguments_the_built_in_corpus_is_prepared() {
    let home = tempfile::tempdir().unwrap();
    let mut command = voxmill("prepare --json");
    let report = json_of(command.env("XDG_CACHE_HOME", home.path()), "prepare");
    let report = &report["datasets"][0];
    assert_eq!(report["demo"], true);
    assert_eq!(report["clips"]["bad"], 0);
    assert!(report["clips"]["validation"].as_u64().unwrap() > 10);
    assert_eq!(report["suspicious"], json!({}));
}

#[test]
fn a_text_that_is_not_read_in_full_is_listed_on_every_run() {
    let dataset = Dataset::new(4);
    dataset.append("c004|The river ☃ runs.");
    dataset.tone(4, 1.0);
    for _ in 0..2 {
        let report = prepared(dataset.path(), "");
        assert_eq!(report["suspicious"]["text not read in full"], 1);
    }
}
