//! `train` and `synthesize`, as a person runs them: on a small dataset with the smallest model.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dataset::Dataset;
use crate::{assert_has, expect, expect_refusal, json_of, transcript, voxmill};

/// A run of the nano model in a folder of its own.
pub(crate) struct Run {
    pub(crate) home: tempfile::TempDir,
    dataset: Dataset,
}

impl Run {
    pub(crate) fn new() -> Run {
        Run::on(Dataset::new(24))
    }

    pub(crate) fn on(dataset: Dataset) -> Run {
        Run {
            home: tempfile::tempdir().unwrap(),
            dataset,
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.home.path().join("run")
    }

    /// With its own run folder unless it resumes.
    pub(crate) fn train(&self, more: impl AsRef<str>) -> Command {
        let more = more.as_ref();
        match more.contains("--resume") {
            true => self.train_anywhere(more),
            false => self.train_anywhere(format!("--run-dir {} {more}", self.dir().display())),
        }
    }

    pub(crate) fn train_anywhere(&self, more: impl AsRef<str>) -> Command {
        let (more, data) = (more.as_ref(), self.dataset.path().display());
        let mut args = format!(
            "train --train-data {data} --batch-size 4 --val-fraction 0.2 --compute-threads 1 --log-every 1 \
             --sample-every 0"
        );
        if !more.contains("--model-size") {
            args += " --model-size nano";
        }
        let mut command = voxmill(format!("{args} {more}"));
        command.current_dir(self.home.path());
        command
    }

    /// What a run that succeeds prints.
    pub(crate) fn trained(&self, more: impl AsRef<str>) -> String {
        expect(&mut self.train(more), 0, &[])
    }

    pub(crate) fn resumed(&self, more: &str) -> String {
        self.trained(format!("--resume {} {more}", self.dir().display()))
    }

    fn synthesize(&self, text: Option<&str>, more: &str) -> Command {
        let dir = self.dir();
        let mut command = voxmill(format!("synthesize --checkpoint {} {more}", dir.display()));
        command.current_dir(self.home.path()).stdin(Stdio::null());
        if let Some(text) = text {
            command.args(["--text", text]);
        }
        command
    }

    /// The losses of each step, as the log has them, with the bits that they have.
    pub(crate) fn losses(&self) -> Vec<(u64, u64)> {
        let log = fs::read_to_string(self.dir().join("events.jsonl")).unwrap_or_default();
        let events = log.lines().flat_map(serde_json::from_str::<Value>);
        let steps = events.filter(|event| event["event"] == "step");
        let losses = steps.map(|event| {
            let loss = event["values"]["loss"].as_f64().unwrap();
            (event["step"].as_u64().unwrap(), loss.to_bits())
        });
        losses.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    pub(crate) fn checkpoints(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir().join("checkpoints"));
        let entries = entries.into_iter().flatten().flatten();
        let of_a_step =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("step-");
        let all = entries.filter(of_a_step).map(|entry| entry.path());
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    }
}

pub(crate) fn signal(id: u32, name: &str) {
    let mut kill = Command::new("kill");
    kill.args([&format!("-{name}"), &id.to_string()]);
    assert!(kill.status().unwrap().success());
}

#[test]
fn a_run_leaves_a_voice_that_speaks() {
    let run = Run::new();
    let phrases = [
        "mode      single device",
        "cache     empty",
        "done      all steps done: step 6",
        "held out",
    ];
    let mut train = run.train("--max-steps 6 --evaluation-interval 3");
    expect(&mut train, 0, &phrases);
    for file in [
        "settings.yaml",
        "events.jsonl",
        "samples/final-1.wav",
        "samples/final-1.png",
        "samples/final-1.txt",
        "samples/recording-1.wav",
    ] {
        assert!(run.dir().join(file).is_file(), "{file}");
    }
    let mut files = fs::read_dir(run.dir()).unwrap().flatten();
    assert!(files.any(|file| file.file_name().to_string_lossy().contains("tfevents")));
    assert_eq!(run.losses().len(), 6);

    let text = Some("Hello there. How are you?");
    let mut hello = run.synthesize(text, "--output hello.wav");
    let says = [
        "real-time factor",
        "of speech by default",
        "trained for 6 steps only",
    ];
    expect(&mut hello, 0, &says);
    let wav = fs::read(run.home.path().join("hello.wav")).unwrap();
    assert_eq!(&wav[..4], b"RIFF");
    assert!(wav.len() > 10_000);
    let out = run.synthesize(Some("Hello."), "-o -").output().unwrap();
    assert_eq!(&out.stdout[..4], b"RIFF", "{out:?}");
    let mut unread = run.synthesize(Some("One ☃ two"), "--output out/");
    expect(&mut unread, 0, &["not read: `☃`"]);
    assert!(run.home.path().join("out/001.wav").is_file());
    let jammed = "x".repeat(3_000);
    let cut = ["the word `xxxxxxxxxxxxxxxxxxxx…` has 3000 letters"];
    expect(&mut run.synthesize(Some(&jammed), "-o long.wav"), 0, &cut);
    let salam = Some("سلام دنیا");
    let refused = [
        "the text is in fa, and the voice was trained only on en",
        "--force",
    ];
    expect_refusal(&mut run.synthesize(salam, "-o salam.wav"), &refused);
    let mut persian = run.synthesize(salam, "--output salam.wav --json --force");
    let result = json_of(&mut persian, "synthesize");
    assert!(result["files"][0]["seconds"].as_f64().unwrap() > 0.1);
}

/// As hard as it goes.
pub(crate) fn kill_after_two_checkpoints(run: &Run, args: &str) {
    let mut child = run.train(args).stderr(Stdio::null()).spawn().unwrap();
    let patience = Instant::now();
    while run.checkpoints().len() < 2 && child.try_wait().unwrap().is_none() {
        let waited = patience.elapsed();
        assert!(waited < Duration::from_secs(300), "no checkpoint came");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(child.id(), "KILL");
    child.wait().unwrap();
}

#[test]
fn killed_and_resumed_the_losses_are_the_same_to_the_last_bit() {
    let undisturbed = Run::new();
    undisturbed.trained("--max-steps 24 --checkpoint-every 24");
    let expected = undisturbed.losses();
    assert_eq!(expected.len(), 24);

    let killed = Run::new();
    kill_after_two_checkpoints(&killed, "--max-steps 24 --checkpoint-every 3 --keep 2");
    let before = killed.losses().len();
    assert!(
        before < 24,
        "the kill came too late: this test shows nothing"
    );

    // In a fresh process, with the run's own settings and another number of workers.
    let dir = killed.dir();
    let mut command = voxmill(format!("train --resume {} --num-workers 2", dir.display()));
    command.current_dir(killed.home.path());
    let text = expect(&mut command, 0, &["resumes after step"]);
    let losses = killed.losses();
    // A kill loses the log's last second; no step after the checkpoint is missing.
    let after = text.split("resumes after step ").nth(1).unwrap();
    let after: u64 = after.split(')').next().unwrap().parse().unwrap();
    let came_again: Vec<_> = losses.iter().filter(|loss| loss.0 > after).collect();
    let wanted: Vec<_> = expected.iter().filter(|loss| loss.0 > after).collect();
    assert_eq!(came_again, wanted);
    assert!(losses.iter().all(|loss| expected.contains(loss)));
}

#[test]
fn an_interruption_saves_and_says_how_to_resume() {
    let run = Run::new();
    let mut command = run.train("--max-steps 100000 --checkpoint-every 100000");
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    while run.losses().is_empty() {
        let waited = patience.elapsed();
        assert!(waited < Duration::from_secs(120), "no step came");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert_has(&text, &["--resume"]);
    assert_eq!(run.checkpoints().len(), 1, "{text}");
}

/// The step is dropped after the batch under way, and a resumed run takes all of its batches again.
#[test]
fn an_interruption_within_a_step_of_many_batches_loses_nothing() {
    let many = "--max-steps 5 --grad-accum 64 --prefetch-buffer-size 2 --no-evaluation";
    let undisturbed = Run::new();
    undisturbed.trained(many);
    let run = Run::new();
    let child = run.train(many).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    while run.losses().is_empty() {
        let waited = patience.elapsed();
        assert!(waited < Duration::from_secs(300), "no step came");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(child.id(), "TERM");
    let output = child.wait_with_output().unwrap();
    let text = transcript(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let before = run.losses();
    assert!(
        before.len() < 5,
        "it came too late: this test shows nothing"
    );
    run.resumed("");
    assert_eq!(run.losses(), undisturbed.losses());
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_one_before() {
    let run = Run::new();
    run.trained("--max-steps 4 --checkpoint-every 2");
    let newest = run.checkpoints().pop().unwrap();
    let file = newest.join("training.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let text = run.resumed("--max-steps 6");
    assert_has(&text, &["is damaged", "resumes after step 2"]);
}

#[test]
fn what_does_not_fit_is_refused_with_a_hint() {
    let run = Run::new();
    let mut train = run.train("--max-steps 2 --no-evaluation --json");
    json_of(&mut train, "train");
    let dir = run.dir();
    let speak = |text: &str, more: &str| run.synthesize(Some(text), more);
    let mut silent = crate::dataset::tone(1.0, 200.0);
    silent[44..].fill(0);
    fs::write(run.home.path().join("silent.wav"), silent).unwrap();
    for (mut command, what) in [
        (
            run.train(format!("--resume {} --model-size tiny", dir.display())),
            "is of size nano, not tiny",
        ),
        (run.train("--max-steps 2"), "there are checkpoints"),
        (
            run.train("--resume nowhere"),
            "there is no `nowhere`, here or in `runs`",
        ),
        (speak("  ", ""), "text"),
        (run.synthesize(None, ""), "no text to speak"),
        (speak("☃☃", ""), "can be read aloud"),
        (speak("hello", "--speaker nobody"), "no speaker `nobody`"),
        (
            speak("hello", "--reference-audio silent.wav"),
            "cannot take the voice from `silent.wav`",
        ),
        (
            run.train_anywhere("--max-steps 1 --run-dir other --sample-text nothing.txt"),
            "cannot read the sentences",
        ),
        (
            speak("hello", "--reference-audio nothing.wav"),
            "cannot take the voice",
        ),
        (
            run.train("--data-gpu 0 --model-gpu 1"),
            "Insufficient GPUs for Multi-GPU Mode: found 0",
        ),
        (
            voxmill("synthesize --text hello --runs-dir /nonexistent"),
            "no run with a checkpoint",
        ),
    ] {
        expect_refusal(&mut command, &[what]);
    }
}

#[test]
fn a_new_run_can_begin_with_another_voice() {
    let run = Run::new();
    run.trained("--max-steps 3");
    let first = run.losses()[0].1;
    let tuned = Run::new();
    let lines = tuned.trained(format!("--max-steps 1 --init-from {}", run.dir().display()));
    assert_has(
        &lines,
        &["fine-tunes another voice", "peak learning rate 0.0005"],
    );
    for file in ["settings.yaml", "events.jsonl"] {
        let text = fs::read_to_string(tuned.dir().join(file)).unwrap();
        assert!(
            text.contains(&*run.dir().to_string_lossy()),
            "{file}: {text}"
        );
    }
    let (a, b) = (run.dir(), tuned.dir());
    let mut compare = voxmill(format!("compare {} {}", a.display(), b.display()));
    expect(&mut compare, 0, &["init_from"]);
    assert!(f64::from_bits(tuned.losses()[0].1) < f64::from_bits(first));
}

/// Also where the settings are in a file; a size that somebody wrote down and that differs is refused.
#[test]
fn the_size_is_the_other_voices_also_with_a_file() {
    let run = Run::new();
    run.trained("--max-steps 1");
    let other = run.dir();
    let write = |name: &str, text: String| {
        let path = run.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let show = |config: &PathBuf, more: &str| {
        let args = format!("train --show-settings --config {} {more}", config.display());
        expect(voxmill(args).current_dir(run.home.path()), 0, &[])
    };
    let is_nano = |shown: String| {
        let mut lines = shown.lines().filter(|line| line.starts_with("size "));
        lines.any(|line| line.contains("nano"))
    };
    let plain = write("plain.yaml", "training:\n  max_steps: 1\n".to_owned());
    assert!(!is_nano(show(&plain, "")));
    assert!(is_nano(show(
        &plain,
        &format!("--init-from {}", other.display())
    )));
    let begins = format!("training:\n  init_from: {}\n", other.display());
    assert!(is_nano(show(&write("begins.yaml", begins.clone()), "")));

    let sized = write("sized.yaml", format!("model:\n  size: tiny\n{begins}"));
    let tuned = Run::new();
    let args = format!("--max-steps 1 --config {}", sized.display());
    let mut command = tuned.train(format!("{args} --model-size tiny"));
    expect_refusal(&mut command, &["is a voice of size nano, not tiny"]);
}

/// A step that needs more batches than there are slots must not wait for itself.
#[test]
fn many_batches_to_a_step_do_not_hang() {
    let run = Run::new();
    let text = run.trained("--max-steps 2 --grad-accum 9 --prefetch-buffer-size 2");
    assert_eq!(run.losses().len(), 2);
    // Nine batches have the padding of nine.
    let padding = text.split(" % of all frames are padding").next();
    let padding = padding.and_then(|before| before.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(
        padding.is_some_and(|share| (0.0..60.0).contains(&share)),
        "{text}"
    );
}

/// What was given is in the run's file, and nothing else acts.
#[test]
fn the_runs_settings_can_be_read_again() {
    let run = Run::new();
    run.trained("--max-steps 2");
    let settings = run.dir().join("settings.yaml");
    let text = fs::read_to_string(&settings).unwrap();
    assert_has(&text, &["\n  max_steps: 2"]);
    let args = format!("train --config {} --show-settings", settings.display());
    let shown = expect(&mut voxmill(args), 0, &[]);
    let line = shown.lines().find(|line| line.starts_with("max_steps"));
    assert_has(line.unwrap(), &["settings.yaml"]);
    assert!(run.dir().is_dir());
}
