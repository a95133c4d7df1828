//! `train` and `synthesize`, as a person runs them: on a small dataset with the smallest model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::dataset::Dataset;
use crate::{said, voxmill};

/// A run of the nano model in a folder of its own.
pub(crate) struct Run {
    pub(crate) home: tempfile::TempDir,
    dataset: Dataset,
}

impl Run {
    pub(crate) fn new() -> Run {
        Run {
            home: tempfile::tempdir().unwrap(),
            dataset: Dataset::new(24),
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join("run")
    }

    /// With its own run folder unless it resumes.
    pub(crate) fn train(&self, more: &[&str]) -> Command {
        let data = self.dataset.path().to_str().unwrap().to_owned();
        let dir = self.dir().to_str().unwrap().to_owned();
        let mut args = vec!["train", "--train-data", &data];
        if !more.contains(&"--model-size") {
            args.extend(["--model-size", "nano"]);
        }
        args.extend([
            "--batch-size",
            "4",
            "--val-fraction",
            "0.2",
            "--compute-threads",
            "1",
        ]);
        args.extend(["--log-every", "1", "--sample-every", "0"]);
        if !more.contains(&"--resume") {
            args.extend(["--run-dir", &dir]);
        }
        args.extend(more);
        let mut command = voxmill(&args);
        command.current_dir(self.home.path());
        command
    }

    fn synthesize(&self, more: &[&str]) -> Command {
        let dir = self.dir().to_str().unwrap().to_owned();
        let mut args = vec!["synthesize", "--checkpoint", &dir];
        args.extend(more);
        let mut command = voxmill(&args);
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// The losses of each step, as the log has them, with the bits that they have.
    pub(crate) fn losses(&self) -> Vec<(u64, u64)> {
        let log = fs::read_to_string(self.dir().join("events.jsonl")).unwrap_or_default();
        let mut losses = std::collections::BTreeMap::new();
        for line in log.lines() {
            let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
                continue;
            };
            if event["event"] == "step" {
                let loss = event["values"]["loss"].as_f64().unwrap();
                losses.insert(event["step"].as_u64().unwrap(), loss.to_bits());
            }
        }
        losses.into_iter().collect()
    }

    pub(crate) fn checkpoints(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir().join("checkpoints"))
            .into_iter()
            .flatten()
            .flatten();
        let mut all: Vec<_> = entries
            .map(|entry| entry.path())
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("step-")
            })
            .collect();
        all.sort();
        all
    }
}

pub(crate) fn ok(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &id.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn a_run_leaves_a_voice_that_speaks() {
    let run = Run::new();
    let output = ok(run.train(&["--max-steps", "6", "--evaluation-interval", "3"]));
    let told = said(&output);
    for expected in [
        "mode      single device",
        "cache     empty",
        "done      all steps done: step 6",
        "held out",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    for file in [
        "settings.yaml",
        "events.jsonl",
        "samples/final-1.wav",
        "samples/final-1.png",
    ] {
        assert!(run.dir().join(file).is_file(), "{file}");
    }
    let tensorboard = fs::read_dir(run.dir()).unwrap().flatten();
    assert!(
        tensorboard
            .into_iter()
            .any(|file| file.file_name().to_string_lossy().contains("tfevents"))
    );
    assert_eq!(run.losses().len(), 6);

    let output = ok(run.synthesize(&[
        "--text",
        "Hello there. How are you?",
        "--output",
        "hello.wav",
    ]));
    assert!(
        said(&output).contains("real-time factor"),
        "{}",
        said(&output)
    );
    let wav = fs::read(run.home.path().join("hello.wav")).unwrap();
    assert_eq!(&wav[..4], b"RIFF");
    assert!(wav.len() > 10_000);
    let output = ok(run.synthesize(&["--text", "One ☃ two", "--output", "out/"]));
    assert!(said(&output).contains("not read: `☃`"), "{}", said(&output));
    assert!(run.home.path().join("out/001.wav").is_file());
    let output = ok(run.synthesize(&["--text", "سلام دنیا", "--output", "salam.wav", "--json"]));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result["files"][0]["seconds"].as_f64().unwrap() > 0.1);
    crate::schema::assert_fits(&result, "synthesize");
}

/// As hard as it goes.
pub(crate) fn kill_after_two_checkpoints(run: &Run, args: &[&str]) {
    let mut child = run.train(args).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now();
    while run.checkpoints().len() < 2 && child.try_wait().unwrap().is_none() {
        assert!(
            patience.elapsed() < Duration::from_secs(300),
            "no checkpoint came"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), "KILL");
    child.wait().unwrap();
}

#[test]
fn killed_and_resumed_the_losses_are_the_same_to_the_last_bit() {
    let undisturbed = Run::new();
    let steps = ["--max-steps", "24", "--checkpoint-every", "24"];
    ok(undisturbed.train(&steps));
    let expected = undisturbed.losses();
    assert_eq!(expected.len(), 24);

    let killed = Run::new();
    let often = [
        "--max-steps",
        "24",
        "--checkpoint-every",
        "3",
        "--keep",
        "2",
    ];
    kill_after_two_checkpoints(&killed, &often);
    let before = killed.losses().len();
    assert!(
        before < 24,
        "the kill came too late: this test shows nothing"
    );

    // In a fresh process, with the run's own settings and another number of workers.
    let dir = killed.dir().to_str().unwrap().to_owned();
    let mut command = voxmill(&["train", "--resume", &dir, "--num-workers", "2"]);
    let output = ok({
        command.current_dir(killed.home.path());
        command
    });
    assert!(
        said(&output).contains("resumes after step"),
        "{}",
        said(&output)
    );
    let losses = killed.losses();
    // A kill loses the log's last second; no step after the checkpoint is missing.
    let told = said(&output);
    let after = told.split("resumes after step ").nth(1).unwrap();
    let after: u64 = after.split(')').next().unwrap().parse().unwrap();
    let came_again: Vec<_> = losses.iter().filter(|loss| loss.0 > after).collect();
    let wanted: Vec<_> = expected.iter().filter(|loss| loss.0 > after).collect();
    assert_eq!(came_again, wanted);
    assert!(losses.iter().all(|loss| expected.contains(loss)));
}

#[test]
fn an_interruption_saves_and_says_how_to_go_on() {
    let run = Run::new();
    let mut command = run.train(&["--max-steps", "100000", "--checkpoint-every", "100000"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    while run.losses().is_empty() {
        assert!(
            patience.elapsed() < Duration::from_secs(120),
            "no step came"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.contains("--resume"), "{told}");
    assert_eq!(run.checkpoints().len(), 1, "{told}");
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let run = Run::new();
    ok(run.train(&["--max-steps", "4", "--checkpoint-every", "2"]));
    let newest = run.checkpoints().pop().unwrap();
    let file = newest.join("training.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let dir = run.dir().to_str().unwrap().to_owned();
    let output = ok(run.train(&["--resume", &dir, "--max-steps", "6"]));
    let told = said(&output);
    assert!(
        told.contains("is damaged") && told.contains("resumes after step 2"),
        "{told}"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_a_hint() {
    let run = Run::new();
    let output = ok(run.train(&["--max-steps", "2", "--no-evaluation", "--json"]));
    let summary = serde_json::from_slice(&output.stdout).unwrap();
    crate::schema::assert_fits(&summary, "train");
    let dir = run.dir().to_str().unwrap().to_owned();
    let refused = |mut command: Command, what: &str| {
        let output = command.output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(
            told.contains(what) && told.contains("hint:"),
            "{what}: {told}"
        );
    };
    refused(
        run.train(&["--resume", &dir, "--model-size", "tiny"]),
        "is of size nano, not tiny",
    );
    refused(run.train(&["--max-steps", "2"]), "there are checkpoints");
    refused(
        run.train(&["--resume", "nowhere"]),
        "there is no checkpoint",
    );
    refused(run.synthesize(&["--text", "  "]), "text");
    refused(run.synthesize(&[]), "no text to speak");
    refused(run.synthesize(&["--text", "☃☃"]), "can be read aloud");
    refused(
        run.synthesize(&["--text", "hello", "--speaker", "nobody"]),
        "no speaker `nobody`",
    );
    refused(
        run.synthesize(&["--text", "hello", "--reference-audio", "nothing.wav"]),
        "cannot take the voice",
    );
    refused(
        run.train(&["--data-gpu", "0", "--model-gpu", "1"]),
        "Insufficient GPUs for Multi-GPU Mode: found 0",
    );
    let other = voxmill(&[
        "synthesize",
        "--text",
        "hello",
        "--runs-dir",
        "/nonexistent",
    ]);
    refused(other, "no run with a checkpoint");
}

#[test]
fn a_new_run_can_begin_with_another_voice() {
    let run = Run::new();
    ok(run.train(&["--max-steps", "3"]));
    let first = run.losses()[0].1;
    let dir = run.dir().to_str().unwrap().to_owned();
    let tuned = Run::new();
    ok(tuned.train(&["--max-steps", "1", "--init-from", &dir]));
    assert!(f64::from_bits(tuned.losses()[0].1) < f64::from_bits(first));
}

/// A step that needs more batches than there are slots must not wait for itself.
#[test]
fn many_batches_to_a_step_do_not_hang() {
    let run = Run::new();
    let more = [
        "--max-steps",
        "2",
        "--grad-accum",
        "9",
        "--prefetch-buffer-size",
        "2",
    ];
    let told = said(&ok(run.train(&more)));
    assert_eq!(run.losses().len(), 2);
    // Nine batches have the padding of nine.
    let padding = told.split(" % of all frames are padding").next();
    let padding = padding.and_then(|before| before.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(
        padding.is_some_and(|share| (0.0..60.0).contains(&share)),
        "{told}"
    );
}

/// What was given is in the run's file, and nothing else acts.
#[test]
fn the_runs_settings_can_be_read_again() {
    let run = Run::new();
    ok(run.train(&["--max-steps", "2"]));
    let settings = run.dir().join("settings.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains("\n  max_steps: 2"), "{text}");
    let output = ok(voxmill(&[
        "train",
        "--config",
        settings.to_str().unwrap(),
        "--show-settings",
    ]));
    let shown = said(&output);
    let line = shown
        .lines()
        .find(|line| line.starts_with("max_steps"))
        .unwrap();
    assert!(line.contains("settings.yaml"), "{line}");
    assert!(Path::new(&run.dir()).is_dir());
}
