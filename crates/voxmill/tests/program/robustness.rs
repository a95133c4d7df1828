//! Kills, interruptions, full disks, damaged files, several at once: nothing is lost, nothing hangs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::dataset::Dataset;
use crate::train::signal;
use crate::{assert_has, expect, parse_json, prepare, prepared, transcript};

const CLIPS: usize = 150;

/// Enough clips and few enough workers that there is a middle to be hit in.
fn slow(dataset: &Dataset) -> Command {
    let mut command = prepare(dataset.path(), "--num-workers 1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn is_writing(dataset: &Dataset) -> bool {
    let files = fs::read_dir(dataset.path().join("voxmill-cache/features"));
    let mut names = files
        .into_iter()
        .flatten()
        .flatten()
        .map(|file| file.file_name());
    names.any(|name| name.to_string_lossy().starts_with(".writing-"))
}

/// Waits for a shard being written, without betting on how long it takes.
fn wait_until_writing(dataset: &Dataset, child: &mut Child) {
    let patience = Instant::now();
    while !is_writing(dataset) && child.try_wait().unwrap().is_none() {
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "writing never began"
        );
        std::thread::yield_now();
    }
}

#[test]
fn killed_anywhere_a_rerun_completes_the_same_cache() {
    let dataset = Dataset::new(CLIPS);
    let undisturbed = prepared(Dataset::new(CLIPS).path(), "");
    let mut caught_writing = 0;
    for round in 0..12u64 {
        let mut child = slow(&dataset).spawn().unwrap();
        // Even rounds are killed in the scan or while starting, odd ones while a shard is written.
        if round % 2 == 1 {
            wait_until_writing(&dataset, &mut child);
        }
        std::thread::sleep(Duration::from_millis(round * 3));
        // No error where it is done already.
        child.kill().unwrap();
        child.wait().unwrap();
        caught_writing += u32::from(is_writing(&dataset));
        // Half of the clips; the next kill finds the other half undone.
        let report = prepared(dataset.path(), "--verify --max-mel-frames 90");
        assert_eq!(report["quarantine"], serde_json::json!({}), "round {round}");
    }
    assert!(
        caught_writing > 0,
        "no kill hit a write: this test shows nothing"
    );
    let report = prepared(dataset.path(), "");
    assert_eq!(report["clips"], undisturbed["clips"]);
    assert_eq!(report["batches"], undisturbed["batches"]);
    assert_eq!(report["cache"]["clips"], CLIPS);
    let again = prepared(dataset.path(), "--verify");
    assert_eq!(again["cache"]["up_to_date"], true);
}

#[test]
fn interrupted_it_keeps_what_is_done_and_exits_130() {
    let dataset = Dataset::new(CLIPS);
    let mut child = slow(&dataset).spawn().unwrap();
    wait_until_writing(&dataset, &mut child);
    // A machine fast enough to be done already is not wrong.
    if child.try_wait().unwrap().is_none() {
        signal(child.id(), "INT");
    }
    let output = child.wait_with_output().unwrap();
    let text = transcript(&output);
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(130), "{text}");
        assert_has(&text, &["what is done is kept"]);
    }
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["clips"], CLIPS);
    let count = |name: &str| report["cache"][name].as_u64().unwrap();
    assert_eq!(count("reused") + count("rebuilt"), CLIPS as u64);
}

#[test]
fn interrupted_while_it_waits_for_another_run_it_exits_130() {
    let dataset = Dataset::new(3);
    let features = dataset.path().join("voxmill-cache/features");
    fs::create_dir_all(&features).unwrap();
    let lock = fs::File::create(features.join("lock")).unwrap();
    lock.lock().unwrap();
    let mut child = slow(&dataset).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for"), "{line}");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn two_at_once_share_the_work() {
    let dataset = Dataset::new(CLIPS);
    let run = |_| slow(&dataset).arg("--json").spawn().unwrap();
    let reports = [(); 3].map(run).map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", transcript(&output));
        parse_json(&output, "prepare")["datasets"][0].take()
    });
    let rebuilt: u64 = reports
        .iter()
        .map(|report| report["cache"]["rebuilt"].as_u64().unwrap())
        .sum();
    assert_eq!(rebuilt, CLIPS as u64, "no clip was made twice");
    for report in &reports {
        assert_eq!(report["cache"]["clips"], CLIPS);
    }
}

#[test]
fn a_full_disk_is_an_error_with_a_hint_and_the_cache_stays_valid() {
    let dataset = Dataset::new(40);
    // The shell's limit on file size makes writing fail in the middle of a shard, as a full disk would.
    let script = "ulimit -f 200; exec \"$0\" prepare --train-data \"$1\"";
    let script = format!("trap '' XFSZ; {script}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &script, env!("CARGO_BIN_EXE_voxmill")]);
    let phrases = ["no room left to write the cache", "hint: free some space"];
    expect(bash.arg(dataset.path()), 1, &phrases);
    let report = prepared(dataset.path(), "");
    assert_eq!(report["cache"]["clips"], 40);
}

/// Flips the middle byte of the newest file of the cache that begins so.
fn damage(dataset: &Dataset, prefix: &str) {
    let features = dataset.path().join("voxmill-cache/features");
    let files = fs::read_dir(features).unwrap().flatten();
    let is_meant = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(prefix);
    let newest = files
        .filter(is_meant)
        .map(|file| file.path())
        .max()
        .unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(newest, bytes).unwrap();
}

#[test]
fn a_damaged_cache_file_is_rebuilt_with_a_warning() {
    let dataset = Dataset::new(10);
    prepared(dataset.path(), "");
    for (prefix, flags, reasons, repaired) in [
        (
            "shard-",
            "--verify",
            json!({"damaged shard": 10}),
            json!({"indexes": 0, "shards": 1}),
        ),
        (
            "shard-",
            "",
            json!({"damaged shard": 10}),
            json!({"indexes": 0, "shards": 1}),
        ),
        ("index-", "", json!({}), json!({"indexes": 1, "shards": 0})),
    ] {
        damage(&dataset, prefix);
        let output = prepare(dataset.path(), format!("--json {flags}"))
            .output()
            .unwrap();
        assert_has(&String::from_utf8_lossy(&output.stderr), &["is damaged"]);
        assert!(output.status.success(), "{}", transcript(&output));
        let report = parse_json(&output, "prepare");
        let cache = &report["datasets"][0]["cache"];
        assert_eq!(
            (&cache["reasons"], &cache["repaired"]),
            (&reasons, &repaired)
        );
        assert_eq!(cache["up_to_date"], false);

        let again = prepare(dataset.path(), "--json").output().unwrap();
        assert!(again.stderr.is_empty(), "{}", transcript(&again));
        let report = parse_json(&again, "prepare");
        assert_eq!(report["datasets"][0]["cache"]["up_to_date"], true);
    }
    damage(&dataset, "index-");
    expect(
        &mut prepare(dataset.path(), ""),
        0,
        &["repaired: 1 × damaged index"],
    );
}
