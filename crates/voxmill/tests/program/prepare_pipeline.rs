//! `voxmill prepare` as a pipeline: how its work is spread, bounded and recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use voxmill_telemetry::event::{Event, Outcome};
use voxmill_telemetry::log::RunLog;

use crate::dataset::Dataset;
use crate::{assert_has, assert_printed, prepare, prepared, printed, regex_escape};

/// The files of the cache by name, with their contents.
fn cache(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder.join("voxmill-cache/features")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "arrow"))
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&file).unwrap())
        })
        .collect()
}

#[test]
fn the_cache_is_the_same_however_the_work_is_spread() {
    let dataset = Dataset::new(60);
    let mut first = None;
    for spread in [
        "--num-workers 1",
        "--num-workers 7",
        "--no-overlap",
        "--no-adapt --ram-budget 2MB",
    ] {
        let _ = fs::remove_dir_all(dataset.path().join("voxmill-cache"));
        assert_eq!(prepared(dataset.path(), spread)["cache"]["rebuilt"], 60);
        let made = cache(dataset.path());
        assert!(made.len() >= 2, "a shard and an index: {:?}", made.keys());
        let first = first.get_or_insert_with(|| made.clone());
        assert_eq!(*first, made, "{spread}");
    }
}

#[test]
fn taken_as_they_are_done_all_clips_are_there() {
    let dataset = Dataset::new(60);
    let report = prepared(dataset.path(), "--unordered --num-workers 4");
    assert_eq!(report["cache"]["rebuilt"], 60);
}

/// A clip that is larger than all the memory it may have is named and left out; the rest is made.
#[test]
fn a_clip_that_does_not_fit_into_the_memory_budget() {
    let dataset = Dataset::new(12);
    dataset.tone(5, 12.0);
    let mut command = prepare(dataset.path(), "--ram-budget 2MB --max-bad 20%");
    assert_printed!(printed(&mut command), dataset.path());
    let list = fs::read_to_string(dataset.path().join("voxmill-cache/quarantine.csv")).unwrap();
    assert_has(&list, &["does not fit into memory", "--ram-budget"]);
}

/// The clips are good, so the next move is not to fix them.
#[test]
fn a_memory_budget_that_is_too_small_for_most_clips() {
    let dataset = Dataset::new(6);
    for budget in ["--ram-budget 300kB", "--ram-budget 0"] {
        let mut command = prepare(dataset.path(), budget);
        assert_printed!(printed(&mut command), dataset.path());
    }
}

#[test]
fn a_log_and_a_trace_say_what_happened() {
    let dataset = Dataset::new(30);
    let log = dataset.path().join("events.jsonl");
    let trace = dataset.path().join("trace.json");
    let record = format!("--log {} --trace {}", log.display(), trace.display());
    prepared(dataset.path(), record);

    let read = RunLog::read(&log).unwrap();
    assert_eq!(read.starts.len(), 1);
    let started = read.starts[0].started.as_ref().unwrap();
    assert_eq!(started.plan.as_ref().unwrap().stages[1].name, "featurize");
    let events = || read.events().map(|stamped| &stamped.event);
    let made: u64 = events()
        .map(|event| match event {
            Event::StageSecond(second) if second.stage == "featurize" => second.service.count(),
            _ => 0,
        })
        .sum();
    assert_eq!(made, 30);
    let ended = Event::RunEnded {
        outcome: Outcome::Finished,
    };
    assert!(events().any(|event| *event == ended));

    let trace: serde_json::Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(named("c007") >= 2, "a clip goes through several stages");
    let mut lanes = events.iter().filter(|event| event["name"] == "thread_name");
    assert!(lanes.any(|lane| lane["args"]["name"] == "featurize 0"));
}

#[test]
fn a_log_that_cannot_be_written_is_refused_before_the_work() {
    let dataset = Dataset::new(2);
    let mut command = prepare(dataset.path(), "--log /dev/null/events.jsonl");
    assert_printed!(printed(&mut command), dataset.path());
    assert!(!dataset.path().join("voxmill-cache").exists());
}

/// A record replaces nothing but an older record.
#[test]
fn a_record_leaves_other_files_alone() {
    let dataset = Dataset::new(2);
    let manifest = dataset.path().join("metadata.csv");
    let before = fs::read(&manifest).unwrap();
    let folder = dataset.path().join("wavs");
    let same = dataset.path().join("same");
    for record in [
        format!("--log {}", manifest.display()),
        format!("--trace {}", folder.display()),
        format!("--log {} --trace {}", same.display(), same.display()),
    ] {
        let mut command = prepare(dataset.path(), record);
        assert_printed!(printed(&mut command), dataset.path());
    }
    assert_eq!(fs::read(&manifest).unwrap(), before);
    assert!(folder.is_dir());
    assert!(!dataset.path().join("voxmill-cache").exists());
}
