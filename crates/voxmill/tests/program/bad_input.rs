//! What is printed when the input is wrong: the thing, the place and the next move.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::dataset::{Dataset, tone};
use crate::{
    assert_has, assert_printed, expect, expect_refusal, prepare, prepared, printed, regex_escape,
    voxmill,
};

#[test]
fn a_folder_that_is_not_there() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("nowhere");
    assert_printed!(printed(&mut prepare(&nowhere, "")), home.path());
}

#[test]
fn a_folder_without_a_manifest() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("notes.txt"), "x").unwrap();
    assert_printed!(printed(&mut prepare(home.path(), "")), home.path());
}

#[test]
fn an_empty_manifest_and_one_with_commas() {
    let dataset = Dataset::new(1);
    for manifest in ["", "c000,The river.\n"] {
        dataset.manifest(manifest);
        assert_printed!(printed(&mut prepare(dataset.path(), "")), dataset.path());
    }
}

#[test]
fn bad_rows_and_files_go_to_quarantine_and_the_rest_goes_on() {
    let dataset = Dataset::new(20);
    let mut manifest = fs::read(dataset.path().join("metadata.csv")).unwrap();
    manifest.extend(b"c000|Said twice.\n");
    manifest.extend(b"../../etc/passwd|Outside.\n");
    manifest.extend(b"/etc/hostname|Outside too.\n");
    manifest.extend(b"c020|\n");
    manifest.extend(b"c021|not utf-8 \xff\xfe\n");
    manifest.extend(b"c022|No such file.\n");
    manifest.extend(b"c023|A folder.\nc024|A pipe.\nc025|Cut short.\nc026|Not a number.\nc027|\"Quotes are text.\nc028|Three hours.\nc029|No samples.\nc030|All zero.\n");
    let at = |name: &str| dataset.path().join("wavs").join(name);
    fs::create_dir(at("c023.wav")).unwrap();
    let mut mkfifo = Command::new("mkfifo");
    assert!(mkfifo.arg(at("c024.wav")).status().unwrap().success());
    let whole = tone(1.0, 440.0);
    fs::write(at("c025.wav"), &whole[..whole.len() / 2]).unwrap();
    fs::write(at("c026.wav"), b"this is no audio").unwrap();
    fs::write(at("c027.wav"), &whole).unwrap();
    // A header that promises three hours, and a file that has them (as a hole).
    let mut long = whole.clone();
    let bytes = 3 * 3600 * 44_100u32;
    long[4..8].copy_from_slice(&(36 + bytes).to_le_bytes());
    long[40..44].copy_from_slice(&bytes.to_le_bytes());
    fs::write(at("c028.wav"), &long[..44]).unwrap();
    let file = fs::File::options().write(true).open(at("c028.wav"));
    file.unwrap().set_len(44 + u64::from(bytes)).unwrap();
    fs::write(at("c029.wav"), tone(0.0, 440.0)).unwrap();
    fs::write(at("c030.wav"), tone(1.0, 0.0)).unwrap();
    let very_long = format!("c031|{}\n", "a".repeat(100_000));
    manifest.extend(very_long.as_bytes());
    fs::write(at("c031.wav"), &whole).unwrap();
    fs::write(dataset.path().join("metadata.csv"), manifest).unwrap();

    let mut lenient = prepare(dataset.path(), "--max-bad 60% --num-workers 2");
    assert_printed!(printed(&mut lenient), dataset.path());
    let list = fs::read_to_string(dataset.path().join("voxmill-cache/quarantine.csv")).unwrap();
    insta::assert_snapshot!(list.replace(dataset.path().to_str().unwrap(), "[folder]"));

    let strict = expect(&mut prepare(dataset.path(), ""), 1, &[]);
    assert_printed!(strict, dataset.path());
}

#[test]
fn a_clip_through_a_link_that_leaves_the_folder_is_refused() {
    let dataset = Dataset::new(3);
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("secret.wav");
    fs::write(&target, tone(1.0, 440.0)).unwrap();
    std::os::unix::fs::symlink(&target, dataset.path().join("wavs/c003.wav")).unwrap();
    dataset.append("c003|Through a link.");
    let report = prepared(dataset.path(), "--max-bad 50%");
    let expected = json!({"link to outside the dataset folder": 1});
    assert_eq!(report["quarantine"], expected);
}

#[test]
fn line_ends_and_byte_order_mark_of_other_systems() {
    let dataset = Dataset::new(2);
    dataset.manifest("\u{feff}c000|The river.\r\nc001|The mill.\r\n");
    assert_eq!(prepared(dataset.path(), "")["clips"]["usable"], 2);
}

#[test]
fn settings_that_are_wrong_point_at_their_place() {
    let dataset = Dataset::new(1);
    let config = dataset.path().join("config.yaml");
    fs::write(&config, "data:\n  batch_sise: 16\n  n_mels: 9000\n").unwrap();
    let mut command = prepare(dataset.path(), format!("--config {}", config.display()));
    assert_printed!(printed(&mut command), dataset.path());
}

#[test]
fn settings_are_shown_with_their_origin() {
    let dataset = Dataset::new(1);
    let config = dataset.path().join("config.yaml");
    fs::write(&config, "data:\n  batch_size: 24\n  enable_xla: true\n  num_workers: 3\ntraining:\n  learning_rate: 1e-4\n").unwrap();
    let config = format!("--config {}", config.display());
    let shown = format!("{config} --n-mels 100 --ram-budget 1GB --show-settings");
    assert_printed!(printed(&mut prepare(dataset.path(), shown)), dataset.path());
    let mut command = prepare(dataset.path(), format!("{config} --json"));
    let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
    let note = "`enable_xla` is ignored: TensorFlow only";
    assert_has(&stderr, &[note]);
    assert!(!stderr.contains("learning_rate"), "{stderr}");
}

/// Rust pads no text to more than 65,535 columns.
#[test]
fn a_long_value_is_shown() {
    let dataset = Dataset::new(1);
    let long = "x".repeat(70_000);
    let mut command = prepare(
        dataset.path(),
        format!("--cache-dir {long} --show-settings"),
    );
    assert!(expect(&mut command, 0, &["cache_dir"]).contains(&long));
}

#[test]
fn a_cache_folder_that_cannot_be_made() {
    let dataset = Dataset::new(2);
    let mut command = prepare(dataset.path(), "--cache-dir /dev/null/cache");
    assert_printed!(printed(&mut command), dataset.path());
}

#[test]
fn a_cache_of_a_newer_version_is_left_alone() {
    let dataset = Dataset::new(2);
    prepared(dataset.path(), "");
    let features = dataset.path().join("voxmill-cache/features");
    let newer = features.join("index-v2-000001-00000000000000000000000000000000.arrow");
    fs::write(&newer, "from the future").unwrap();
    assert_printed!(printed(&mut prepare(dataset.path(), "")), dataset.path());
    assert_eq!(fs::read_to_string(&newer).unwrap(), "from the future");
}

#[test]
fn a_flag_with_no_effect_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut command = voxmill("prepare --val-fraction 10%");
    command.env("XDG_CACHE_HOME", home.path());
    assert_printed!(printed(&mut command), home.path());
}

/// A device without end and a pipe that nobody writes to, wherever a file may be given; and files too large.
#[test]
fn files_without_end_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let large = home.path().join("large");
    let file = fs::File::create(&large).unwrap();
    let (pipe, large) = (pipe.to_str().unwrap(), large.to_str().unwrap());
    let endless = "it is not a regular file";
    // Logs are read line by line, and may be long.
    for (verb, bytes) in [
        ("train --config", 100_000_000),
        ("validate --config", 100_000_000),
        ("text hello --lexicon", 100_000_000),
        ("synthesize --text-file", 100_000_000),
        ("profile --replay", 20_000_000_000),
        ("compare", 20_000_000_000),
    ] {
        for path in ["/dev/zero", pipe] {
            let mut command = voxmill(format!("{verb} {path}"));
            if verb == "compare" {
                command.arg(path);
            }
            expect_refusal(&mut command, &[path, endless]);
        }
        file.set_len(bytes).unwrap();
        let mut command = voxmill(format!("{verb} {large}"));
        if verb == "compare" {
            command.arg(large);
        }
        let limit = format!("it has {bytes} bytes, and at most");
        expect_refusal(&mut command, &[large, &limit]);
    }
    let endless_value = "x".repeat(100_000);
    let refused = printed(&mut voxmill(format!("train --config {endless_value}")));
    assert!(refused.len() < 10_000, "{} bytes", refused.len());
    let mut text = voxmill("text");
    text.stdin(fs::File::open("/dev/zero").unwrap());
    expect_refusal(&mut text, &["has over 4000000 bytes"]);
    let mut speech = voxmill("synthesize");
    speech.stdin(fs::File::open("/dev/zero").unwrap());
    expect_refusal(&mut speech, &["at most 16000000 are read"]);
}

#[test]
fn a_text_of_which_nothing_can_be_read_is_bad() {
    let dataset = Dataset::new(4);
    dataset.append("c004|你好世界");
    dataset.tone(4, 1.0);
    let report = prepared(dataset.path(), "--max-bad 50%");
    assert_eq!(report["quarantine"], json!({"nothing to say": 1}));
}
