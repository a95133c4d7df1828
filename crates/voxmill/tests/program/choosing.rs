//! Which clips are read and which are left out: links, layouts, beeps and noise, low rates.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use voxmill_audio::wav_bytes;

use crate::dataset::Dataset;
use crate::{assert_has, expect, expect_refusal, prepare, prepared, voxmill};

/// Bursts of noise with pauses between them: it has a range, and never holds still.
fn bursts(seconds: f32, rate: u32, noise: f32, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let samples = (0..(seconds * rate as f32) as u32).map(|n| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let even = state as f32 / u32::MAX as f32 - 0.5;
        let loud = (n / (rate / 8)).is_multiple_of(2);
        even * if loud { 0.5 } else { noise }
    });
    wav_bytes(&samples.collect::<Vec<_>>(), rate)
}

/// Six clips, of which c002 is a tone and c004 is noisy.
fn with_a_beep_and_noise() -> Dataset {
    let dataset = Dataset::new(6);
    for n in [0, 1, 3, 4, 5] {
        let noise = if n == 4 { 0.1 } else { 0.0005 };
        fs::write(dataset.wav(n), bursts(1.0, 22_050, noise, n as u32 + 1)).unwrap();
    }
    dataset
}

#[test]
fn beeps_are_listed_and_left_out_where_that_is_asked_for() {
    let dataset = with_a_beep_and_noise();
    let all = prepared(dataset.path(), "");
    assert_eq!(all["suspicious"], json!({"beep": 1, "no speech": 1}));
    assert_eq!(all["clips"]["usable"], 6);
    let list = fs::read_to_string(dataset.path().join("voxmill-cache/suspicious.csv")).unwrap();
    assert_has(&list, &["c002,default,beep,", "s without change"]);
    let some = prepared(dataset.path(), "--drop-suspicious --min-snr 20");
    assert_eq!(some["clips"]["usable"], 4);
    assert_eq!(some["filtered"], json!({"noisy or suspicious": 2}));
    assert_eq!(some["suspicious"]["noisy"], 1);
}

#[test]
fn a_cache_without_measures_gets_them() {
    let dataset = with_a_beep_and_noise();
    prepared(dataset.path(), "");
    let list = dataset.path().join("voxmill-cache/quality.csv");
    let before = fs::read_to_string(&list).unwrap();
    fs::remove_file(&list).unwrap();
    let again = prepared(dataset.path(), "");
    assert_eq!(again["cache"]["rebuilt"], 0);
    assert_eq!(again["suspicious"]["beep"], 1);
    assert_eq!(fs::read_to_string(&list).unwrap(), before);
}

#[test]
fn training_leaves_out_what_was_listed_and_keeps_to_it() {
    let dataset = with_a_beep_and_noise();
    let home = tempfile::tempdir().unwrap();
    let train = |more: &str| {
        let data = dataset.path().display();
        let mut command = voxmill(format!(
            "train --train-data {data} --model-size nano --batch-size 2 --val-fraction 0 --compute-threads 1 \
             --sample-every 0 {more}"
        ));
        command.current_dir(home.path());
        command
    };
    let new = "--run-dir run --drop-suspicious --min-snr 20 --max-steps 2";
    let refused = expect_refusal(&mut train(new), &["lacks for 6 clips"]);
    assert_has(&refused, &["voxmill prepare"]);
    prepared(dataset.path(), "");
    let text = expect(&mut train(new), 0, &["2 clips noisy or suspicious"]);
    assert!(!text.contains("quarantine.csv"), "{text}");
    // What was measured at other settings is no measure of these frames, nor is what an older list has.
    let other = new.replace("run-dir run", "run-dir other --hop-length 200");
    expect_refusal(&mut train(&other), &["measured at other audio settings"]);
    // A cache of other settings is not an empty one.
    let stale = "--run-dir stale --sample-rate 16000 --max-steps 1";
    let said = "has nothing for this run (setting sample_rate changed from 22050 to 16000)";
    expect(&mut train(stale), 0, &[said]);
    let lists = dataset.path().join("voxmill-cache");
    let older = "clip,audio_bytes,audio_modified_ns,frames,snr_db,still_seconds\n";
    let quality = fs::read_to_string(lists.join("quality.csv")).unwrap();
    fs::write(lists.join("quality.csv"), older).unwrap();
    let other = new.replace("run-dir run", "run-dir older");
    expect_refusal(&mut train(&other), &["lacks for 6 clips"]);
    fs::write(lists.join("quality.csv"), quality).unwrap();
    // A list that has changed since changes no run that has begun.
    fs::remove_file(dataset.path().join("voxmill-cache/suspicious.csv")).unwrap();
    fs::remove_file(dataset.path().join("voxmill-cache/quality.csv")).unwrap();
    let resumed = expect(
        &mut train("--resume run --max-steps 4"),
        0,
        &["4 clips to train on"],
    );
    assert!(!resumed.contains("another order of batches"), "{resumed}");
}

#[test]
fn a_linked_audio_folder_is_read_and_links_in_it_by_a_flag() {
    let dataset = Dataset::new(6);
    let disk = tempfile::tempdir().unwrap();
    let wavs = disk.path().join("audio");
    fs::rename(dataset.path().join("wavs"), &wavs).unwrap_or_else(|_| {
        fs::create_dir(&wavs).unwrap();
        for n in 0..6 {
            fs::copy(dataset.wav(n), wavs.join(format!("c{n:03}.wav"))).unwrap();
        }
        fs::remove_dir_all(dataset.path().join("wavs")).unwrap();
    });
    symlink(&wavs, dataset.path().join("wavs")).unwrap();
    assert_eq!(prepared(dataset.path(), "")["clips"]["usable"], 6);

    let elsewhere = disk.path().join("c000.wav");
    fs::rename(wavs.join("c000.wav"), &elsewhere).unwrap();
    symlink(&elsewhere, wavs.join("c000.wav")).unwrap();
    let refused = prepared(dataset.path(), "--max-bad 50%");
    assert_eq!(
        refused["quarantine"],
        json!({"link to outside the dataset folder": 1})
    );
    for verb in ["prepare", "validate", "train --max-steps 1 --run-dir"] {
        let data = dataset.path().display();
        let run = match verb.ends_with("dir") {
            true => disk.path().join("run").display().to_string(),
            false => String::new(),
        };
        let args = format!("{verb} {run} --train-data {data}");
        expect(&mut voxmill(args), 1, &["--follow-links reads them"]);
    }
    assert_eq!(
        prepared(dataset.path(), "--follow-links")["clips"]["usable"],
        6
    );
}

#[test]
fn a_foreign_layout_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("clips")).unwrap();
    fs::write(
        folder.path().join("validated.tsv"),
        "client_id\tpath\tsentence\n",
    )
    .unwrap();
    expect_refusal(&mut prepare(folder.path(), ""), &["Common Voice"]);
}

#[test]
fn recordings_of_a_low_rate_are_shown_and_warned_of() {
    let dataset = Dataset::new(6);
    for n in 0..6 {
        fs::write(dataset.wav(n), bursts(1.0, 8_000, 0.0005, n as u32 + 1)).unwrap();
    }
    let shown = "Sources     6 wav 8,000 Hz mono; resampled to 22,050 Hz";
    expect(&mut prepare(dataset.path(), ""), 0, &[shown]);
    let data = dataset.path().display();
    let mut validate = voxmill(format!("validate --train-data {data}"));
    let text = expect(&mut validate, 0, &["sample_rate"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_has(
        &text,
        &[
            "6 of 6 clips were recorded at less than 22,050 Hz",
            "from 4,000 Hz to 8,000 Hz",
            "--sample-rate 8000 --n-fft 256 --hop-length 64 --f-max 4000",
        ],
    );
}
