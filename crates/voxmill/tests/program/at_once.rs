//! Several runs at once: whoever comes second is refused, and touches nothing of the first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::train::{Run, signal};
use crate::{assert_has, expect, expect_refusal, transcript};

/// A process that does not outlive a test that fails.
pub(crate) struct Started(Option<Child>);

impl Started {
    pub(crate) fn new(command: &mut Command) -> Started {
        Started(Some(command.spawn().unwrap()))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Waits until it is so, without betting on how long it takes.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let patience = Instant::now();
        while !is_so() {
            let ended = self.0.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "ended before {what}");
            let waited = patience.elapsed();
            assert!(waited < Duration::from_secs(300), "waited for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// Lets it run to its end after it stood still.
    fn finish(self) -> Output {
        signal(self.id(), "CONT");
        self.output()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A run that stands still after its first checkpoint, so that nothing changes but by others.
fn stopped(run: &Run, args: &str) -> Started {
    let mut command = run.train(args);
    let mut live = Started::new(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    live.until("a checkpoint", || !run.checkpoints().is_empty());
    signal(live.id(), "STOP");
    live
}

/// Every file below a folder with its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let listed = crate::dataset::listing(folder).into_iter();
    listed
        .map(|(path, ..)| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_second_start_is_refused_and_touches_nothing() {
    let run = Run::new();
    let live = stopped(&run, "--max-steps 12 --checkpoint-every 2 --seed 5");
    let before = contents(&run.dir());
    let dir = run.dir().display().to_string();
    let process = format!("({})", live.id());
    for args in [
        "--max-steps 3 --reset-training --seed 6".to_owned(),
        "--max-steps 3 --seed 6".to_owned(),
        format!("--resume {dir} --max-steps 3 --seed 6"),
        format!("--resume {dir}/checkpoints --max-steps 3"),
    ] {
        let phrases = ["another process", &process, &dir];
        expect_refusal(&mut run.train(&args), &phrases);
        assert!(contents(&run.dir()) == before, "{args} changed something");
    }
    // Only reading is no harm.
    let shown = run
        .train(format!("--resume {dir} --show-settings"))
        .output();
    assert!(shown.unwrap().status.success());
    assert!(contents(&run.dir()) == before);

    let output = live.finish();
    assert!(output.status.success(), "{}", transcript(&output));
    assert_eq!(run.losses().len(), 12);
    run.resumed("--max-steps 14");
    assert_eq!(run.losses().len(), 14);
}

#[test]
fn two_runs_do_not_share_a_folder_of_checkpoints() {
    let shared = tempfile::tempdir().unwrap();
    let into = format!("--checkpoint-dir {}", shared.path().display());
    let (first, second) = (Run::new(), Run::new());
    let own = second.trained("--max-steps 2 --no-evaluation");
    assert_has(&own, &["step 2"]);
    let mut command = first.train(format!(
        "--max-steps 9 --checkpoint-every 1 --keep 1 {into}"
    ));
    let mut live = Started::new(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let is_step = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("step-");
    live.until("a checkpoint", || {
        fs::read_dir(shared.path()).unwrap().flatten().any(is_step)
    });
    signal(live.id(), "STOP");
    let before = contents(shared.path());
    let name = shared.path().display().to_string();
    let process = format!("({})", live.id());
    let resume = format!("--resume {} --max-steps 9 {into}", second.dir().display());
    let another = Run::new();
    for mut command in [
        another.train(format!("--max-steps 2 {into}")),
        another.train(format!("--max-steps 2 --reset-training {into}")),
        second.train(&resume),
    ] {
        expect_refusal(&mut command, &["another process", &process, &name]);
        assert!(contents(shared.path()) == before);
    }
    assert!(!another.dir().exists(), "a refused start leaves no folder");
    let output = live.finish();
    assert!(output.status.success(), "{}", transcript(&output));

    // Nobody writes there any more, and still they are the first run's. Only the lock changes hands.
    let contents = |folder| {
        let mut all = contents(folder);
        all.retain(|path, _| path.extension().is_none_or(|end| end != "lock"));
        all
    };
    let before = contents(shared.path());
    for mut command in [
        another.train(format!("--max-steps 2 {into}")),
        another.train(format!("--max-steps 2 --reset-training {into}")),
        second.train(&resume),
    ] {
        let phrases = [
            "step-000000009",
            "is a checkpoint of another run",
            "hint: give",
        ];
        expect_refusal(&mut command, &phrases);
        assert!(contents(shared.path()) == before);
    }
    first.resumed("--max-steps 10");
    // By the folder alone the run is found, because it says so itself.
    let text = expect(
        &mut first.train(format!("--resume {name} --max-steps 11")),
        0,
        &[],
    );
    assert_has(&text, &["resumes after step 10"]);
    let mut reset = first.train(format!("--max-steps 2 --reset-training {into}"));
    expect(&mut reset, 0, &["step 2"]);
}

/// A stranger's checkpoint may name any folder.
#[test]
fn a_checkpoint_does_not_decide_where_a_run_is_written() {
    let (run, stranger) = (Run::new(), Run::new());
    run.trained("--max-steps 2 --no-evaluation");
    stranger.trained("--max-steps 3 --no-evaluation");
    let theirs = stranger.checkpoints().pop().unwrap();
    let json = fs::read_to_string(theirs.join("checkpoint.json")).unwrap();
    let mut facts: Value = serde_json::from_str(&json).unwrap();
    facts["settings"]["run"] = run.dir().to_str().unwrap().into();
    // Without one, it is not compared.
    facts.as_object_mut().unwrap().remove("own_blake3");
    let moved = run.home.path().join("from-elsewhere");
    fs::rename(&theirs, &moved).unwrap();
    for id in [true, false] {
        if !id {
            facts["settings"].as_object_mut().unwrap().remove("run_id");
        }
        fs::write(moved.join("checkpoint.json"), facts.to_string()).unwrap();
        let before = contents(&run.dir());
        let args = format!("--resume {} --max-steps 4", moved.display());
        let phrases = ["does not show which run it belongs to", "--init-from"];
        expect_refusal(&mut run.train(args), &phrases);
        assert!(contents(&run.dir()) == before);
    }
    // One of its own is known wherever it lies.
    let own = run.checkpoints().pop().unwrap();
    let copy = run.home.path().join("backup");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&own).unwrap().flatten() {
        fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let args = format!("--resume {} --max-steps 3", copy.display());
    let text = expect(&mut run.train(args), 0, &["resumes after step 2"]);
    let own = format!("is of the run `{}`", run.dir().display());
    assert_has(&text, &[&own]);
}

fn seed_in(settings: &Path) -> Option<u64> {
    let text = fs::read_to_string(settings).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("seed: "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// As many as start at the same moment; those that went well, with their seeds.
fn at_once(run: &Run, args: &str) -> Vec<(u64, Output)> {
    let start = |seed: u64| {
        let mut command = run.train(format!(
            "--max-steps 2 --no-evaluation --seed {seed} {args}"
        ));
        let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
        (seed, child.unwrap())
    };
    let children: Vec<(u64, Child)> = [11, 12, 13].map(start).into();
    let done = children
        .into_iter()
        .map(|(seed, child)| (seed, child.wait_with_output().unwrap()));
    done.collect()
}

#[test]
fn runs_that_start_at_the_same_moment_have_folders_of_their_own() {
    let run = Run::new();
    // All in one second, as far as the machine can.
    let runs = run.home.path().join("many");
    let named = format!("--runs-dir {} --name same", runs.display());
    let mut seeds = Vec::new();
    let start = |seed: u64| -> Child {
        let args = format!("--max-steps 2 --no-evaluation --seed {seed} {named}");
        let mut command = run.train_anywhere(args);
        command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    for child in [21, 22, 23].map(start) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", transcript(&output));
    }
    for folder in fs::read_dir(&runs).unwrap().flatten() {
        seeds.extend(seed_in(&folder.path().join("settings.yaml")));
        let log = fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert_eq!(log.matches("\"run_started\"").count(), 1);
    }
    seeds.sort_unstable();
    assert_eq!(seeds, [21, 22, 23], "each with its own seed");

    // The same folder by name: one has it, and its seed; the others are refused.
    let done = at_once(&run, "");
    let (won, lost): (Vec<_>, Vec<_>) = done.iter().partition(|(_, o)| o.status.success());
    let [(seed, _)] = won[..] else {
        panic!("{} had the folder", won.len());
    };
    assert_eq!(seed_in(&run.dir().join("settings.yaml")), Some(*seed));
    for (_, output) in lost {
        let text = transcript(output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let is_refused = ["another process", "there are checkpoints"];
        assert!(is_refused.iter().any(|why| text.contains(why)), "{text}");
    }
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    assert_eq!(log.matches("\"run_started\"").count(), 1);
}

#[test]
fn a_lock_ends_with_its_process() {
    let run = Run::new();
    let live = stopped(&run, "--max-steps 30 --checkpoint-every 2");
    signal(live.id(), "KILL");
    live.output();
    run.resumed("--max-steps 30");
    assert_eq!(run.losses().len(), 30);
}

#[test]
fn a_reset_takes_away_the_run_before_and_nothing_else() {
    let run = Run::new();
    run.trained("--max-steps 4 --evaluation-interval 2 --checkpoint-every 2");
    let best = run.dir().join("checkpoints/best.json");
    assert!(best.is_file());
    fs::create_dir(run.dir().join("checkpoints/.unfinished-step-000000009")).unwrap();
    fs::write(run.dir().join("notes.txt"), "mine").unwrap();
    run.trained("--max-steps 1 --reset-training --no-evaluation");
    assert!(!best.exists(), "it would name a voice that is not there");
    let steps: Vec<_> = run.checkpoints();
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(run.losses().len(), 1, "the log begins anew");
    let old = fs::read_to_string(run.dir().join("before-reset/events.jsonl")).unwrap();
    assert_eq!(old.matches("\"event\":\"step\"").count(), 4);
    assert!(run.dir().join("before-reset/samples/final-1.wav").is_file());
    assert!(
        !run.dir()
            .join("checkpoints/.unfinished-step-000000009")
            .exists()
    );
    assert_eq!(
        fs::read_to_string(run.dir().join("notes.txt")).unwrap(),
        "mine"
    );

    // What a kill left half written goes when the run is resumed.
    let unfinished = run.dir().join("checkpoints/.unfinished-step-000000002");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("voice.safetensors"), "half").unwrap();
    run.resumed("--max-steps 3 --checkpoint-every 100");
    assert!(!unfinished.exists());
    run.trained("--max-steps 1 --reset-training --no-evaluation");
    let again = run.dir().join("before-reset-2/events.jsonl");
    assert!(again.is_file());
}

#[test]
fn the_newest_run_is_the_one_that_was_saved_last() {
    let run = Run::new();
    let runs = run.home.path().join("kept");
    let named = |name: &str| format!("--run-dir {}", runs.join(name).display());
    let train = |args: String| expect(&mut run.train_anywhere(args), 0, &[]);
    train(format!("--max-steps 1 --no-evaluation {}", named("z")));
    train(format!("--max-steps 2 --no-evaluation {}", named("a")));
    let config = run.home.path().join("config.yaml");
    let file = format!(
        "training:\n  runs_dir: {}\n  max_steps: 4\n",
        runs.display()
    );
    fs::write(&config, file).unwrap();
    let args = format!("--config {} --resume", config.display());
    let text = train(args.clone());
    assert_has(&text, &["kept/a (resumes after step 2)", "step 4"]);

    let mut speak = crate::voxmill("synthesize --text hello");
    speak.current_dir(run.home.path()).stdin(Stdio::null());
    speak.arg("--runs-dir").arg(&runs);
    expect(&mut speak, 0, &["kept/a\n"]);

    // The other one was worked on since.
    let z = runs.join("z");
    train(format!("--resume {} --max-steps 2", z.display()));
    expect(&mut speak, 0, &["kept/z\n"]);
    assert_has(&train(args), &["kept/z (resumes after step 2)"]);
}
