//! Checkpoints that cannot be written for a while, and what a kill right after one leaves.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::at_once::Started;
use crate::train::{Run, signal};
use crate::{assert_has, expect, expect_refusal};

fn events(run: &Run) -> Vec<Value> {
    let log = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    log.lines().flat_map(serde_json::from_str).collect()
}

/// The steps of each start, in the order of the log.
fn starts(run: &Run) -> Vec<Vec<u64>> {
    let mut starts: Vec<Vec<u64>> = Vec::new();
    for event in events(run) {
        match event["event"].as_str() {
            Some("run_started") => starts.push(Vec::new()),
            Some("step") => starts
                .last_mut()
                .unwrap()
                .push(event["step"].as_u64().unwrap()),
            _ => {}
        }
    }
    starts
}

/// Killed as soon as a checkpoint is there: who resumes from it does not repeat the steps before it.
#[test]
fn killed_right_after_a_checkpoint_no_step_is_missing_in_the_log() {
    let run = Run::new();
    for killed_at in [1, 3, 4, 6, 9] {
        let _ = fs::remove_dir_all(run.dir());
        let mut command = run.train("--max-steps 12 --checkpoint-every 1 --no-evaluation");
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let checkpoint = format!("checkpoints/step-{killed_at:09}/checkpoint.json");
        let checkpoint = run.dir().join(checkpoint);
        while !checkpoint.exists() {
            assert!(child.try_wait().unwrap().is_none(), "ended before a kill");
            std::thread::yield_now();
        }
        signal(child.id(), "KILL");
        child.wait().unwrap();
        run.resumed("--checkpoint-every 12");
        let starts = starts(&run);
        let [first, second] = &starts[..] else {
            panic!("{starts:?}");
        };
        // What the first did after the checkpoint, the second did again.
        let resumed_at = second[0];
        assert!(resumed_at > killed_at, "{starts:?}");
        let kept = first.iter().filter(|step| **step < resumed_at);
        let history: Vec<u64> = kept.chain(second).copied().collect();
        assert_eq!(
            history,
            Vec::from_iter(1..=12),
            "killed at {killed_at}: {starts:?}"
        );
    }
}

/// Ways to be without room, one of which works for every user of every machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disk {
    /// A small file system, in a name space of the run's own.
    Small,
    /// A limit on the size of files, changed while the run lives.
    FileSize,
}

const SMALL: &str = "mount -t tmpfs -o size=40m none \"$0\" && exec \"$@\"";

impl Disk {
    fn can_be_had(self) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let mut unshare = Command::new("unshare");
        unshare
            .args(["-rm", "sh", "-c", SMALL])
            .arg(folder.path())
            .arg("true");
        self == Disk::FileSize || unshare.output().is_ok_and(|done| done.status.success())
    }

    fn start(self, folder: &Path, train: &Command) -> Command {
        let mut command = match self {
            Disk::Small => {
                let mut unshare = Command::new("unshare");
                unshare.args(["-rm", "sh", "-c", SMALL]).arg(folder);
                unshare
            }
            Disk::FileSize => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
                shell
            }
        };
        command.arg(train.get_program()).args(train.get_args());
        command.current_dir(train.get_current_dir().unwrap());
        command.env("NO_COLOR", "1").env_remove("HOME");
        command
    }

    /// The folder as the run sees it.
    fn folder(self, process: u32, folder: &Path) -> PathBuf {
        match self {
            Disk::Small => format!("/proc/{process}/root{}", folder.display()).into(),
            Disk::FileSize => folder.to_owned(),
        }
    }

    /// Asked again and again: what an attempt leaves free is taken too.
    fn fill(self, process: u32, folder: &Path) {
        match self {
            Disk::Small => {
                let path = self.folder(process, folder).join("filler");
                let mut file = File::options()
                    .append(true)
                    .create(true)
                    .open(path)
                    .unwrap();
                while file.write(&[0; 1 << 16]).is_ok_and(|written| written > 0) {}
            }
            Disk::FileSize => limit(process, "1000000:"),
        }
    }

    fn free(self, process: u32, folder: &Path) {
        match self {
            Disk::Small => fs::remove_file(self.folder(process, folder).join("filler")).unwrap(),
            Disk::FileSize => limit(process, "unlimited:"),
        }
    }
}

fn limit(process: u32, most: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit
        .arg(format!("--pid={process}"))
        .arg(format!("--fsize={most}"));
    assert!(prlimit.status().unwrap().success());
}

/// The names in a folder that begin so.
fn named(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

/// Stops when as many steps are in the log.
fn undisturbed(args: &str, steps: usize) -> Vec<(u64, u64)> {
    let run = Run::new();
    let mut live = Started::new(run.train(args).stderr(Stdio::null()));
    live.until("as many steps", || run.losses().len() >= steps);
    signal(live.id(), "TERM");
    live.output();
    run.losses()
}

#[test]
fn a_full_disk_costs_no_step_and_the_next_checkpoint_lands() {
    let args = "--max-steps 100000 --checkpoint-every 2 --keep 1 --no-evaluation";
    let mut most = 0;
    let mut disturbed = Vec::new();
    for disk in [Disk::FileSize, Disk::Small] {
        if !disk.can_be_had() {
            eprintln!("no {disk:?} disk here; {:?} shows the same", Disk::FileSize);
            continue;
        }
        let run = Run::new();
        let folder = run.home.path().join("kept");
        fs::create_dir(&folder).unwrap();
        let train = run.train(format!("{args} --checkpoint-dir {}", folder.display()));
        let said = run.home.path().join("said");
        let mut command = disk.start(&folder, &train);
        command.stderr(File::create(&said).unwrap());
        let mut live = Started::new(&mut command);
        let (process, says) = (live.id(), || fs::read_to_string(&said).unwrap());
        let inside = disk.folder(process, &folder);
        let steps = || named(&inside, "step-");
        live.until("a checkpoint", || !steps().is_empty());
        live.until("a failure", || {
            disk.fill(process, &folder);
            let text = says();
            let foreseen = disk != Disk::Small || text.contains("it will not fit");
            foreseen && text.contains("is not saved")
        });
        let text = says();
        assert_has(
            &text,
            &[
                " are free); ",
                "failure 1 of 20 in a row",
                "attempt is in 1.0 s",
            ],
        );
        live.until("nothing half written", || {
            named(&inside, ".unfinished").is_empty()
        });
        let before = steps();
        assert!(
            !before.is_empty(),
            "the old one is there until there is a new one"
        );
        disk.free(process, &folder);
        live.until("a checkpoint again", || steps() > before);
        signal(process, "TERM");
        let code = live.output().status.code();
        let text = says();
        assert_eq!(code, Some(130), "{text}");
        assert_has(&text, &["unsaved   ", "to write a checkpoint failed"]);
        let faults: Vec<_> = events(&run)
            .into_iter()
            .filter(|event| event["event"] == "fault" && event["stage"] == "checkpoint")
            .collect();
        assert!(!faults.is_empty());
        assert!(
            faults.iter().all(|fault| fault["action"] == "retried"),
            "{faults:?}"
        );
        most = most.max(run.losses().len());
        disturbed.push(run.losses());
    }
    let expected = undisturbed(args, most);
    for losses in disturbed {
        assert!(losses.len() > 4, "this shows nothing");
        assert_eq!(losses[..], expected[..losses.len()]);
    }
}

#[test]
fn too_many_failures_end_the_run_and_what_is_saved_stays() {
    let run = Run::new();
    let folder = run.home.path().join("kept");
    let into = format!(
        "--checkpoint-dir {} --max-failed-checkpoints 2",
        folder.display()
    );
    let mut command = run.train(format!(
        "--max-steps 100000 --checkpoint-every 2 --no-evaluation {into}"
    ));
    let mut live = Started::new(command.stderr(Stdio::piped()));
    live.until("a checkpoint", || !named(&folder, "step-").is_empty());
    // As if the disk had gone, and something else were in its place.
    let aside = run.home.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let output = live.output();
    let text = crate::transcript(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let phrases = [
        "failure 1 of 2 in a row",
        "failure 2 of 2 in a row, the run ends",
    ];
    assert_has(&text, &phrases);
    assert_has(
        &text,
        &["error: a checkpoint could not be written", "hint: "],
    );
    let ended = events(&run)
        .into_iter()
        .find(|event| event["event"] == "run_ended");
    assert_eq!(ended.unwrap()["outcome"], "failed");
    let mut refused = run.train(format!("--resume {} --max-steps 9", run.dir().display()));
    expect_refusal(&mut refused, &["kept"]);
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    let more = events(&run).len();
    let steps = named(&folder, "step-").pop().unwrap();
    let steps: u64 = steps.trim_start_matches("step-").parse().unwrap();
    let again = format!("--resume {} --max-steps {}", run.dir().display(), steps + 2);
    expect(&mut run.train(again), 0, &["resumes after step"]);
    assert!(events(&run).len() > more);
}

/// Somebody moves the folder of a live run and makes another in its place.
#[test]
fn a_folder_that_is_replaced_under_a_run_is_left_alone_and_said() {
    let run = Run::new();
    let args = "--max-steps 100000 --checkpoint-every 1 --keep 2 --evaluation-interval 3 \
                --max-failed-checkpoints 3";
    let said = run.home.path().join("said");
    let mut command = run.train(args);
    let mut live = Started::new(command.stderr(File::create(&said).unwrap()));
    live.until("a checkpoint", || !run.checkpoints().is_empty());
    signal(live.id(), "STOP");
    let aside = run.home.path().join("aside");
    fs::rename(run.dir(), &aside).unwrap();
    fs::create_dir_all(run.dir().join("checkpoints")).unwrap();
    fs::create_dir(run.dir().join("samples")).unwrap();
    fs::write(run.dir().join("events.jsonl"), "somebody's own").unwrap();
    signal(live.id(), "CONT");
    let code = live.output().status.code();
    let text = fs::read_to_string(&said).unwrap();
    assert_eq!(code, Some(1), "{text}");
    let gone = "is not there any more: it was moved to";
    assert_eq!(text.matches(gone).count(), 1, "{text}");
    let failures = text.matches("is not saved").count();
    // Each best voice is tried as well, so how many there are is a matter of pace.
    assert!(failures >= 3, "{text}");
    let hint = format!("--resume {}", aside.join("checkpoints").display());
    assert_has(&text, &["failure 3 of 3 in a row, the run ends", &hint]);
    assert!(named(&run.dir().join("checkpoints"), "").is_empty());
    assert!(named(&run.dir().join("samples"), "").is_empty());
    assert_eq!(
        named(&run.dir(), ""),
        ["checkpoints", "events.jsonl", "samples"]
    );
    let theirs = fs::read_to_string(run.dir().join("events.jsonl")).unwrap();
    assert_eq!(theirs, "somebody's own");

    // All that was saved is where the folder is now.
    fs::remove_dir_all(run.dir()).unwrap();
    let resume = format!("--resume {} --max-steps 3", aside.display());
    let ended = run.train(resume).output().unwrap();
    let text = crate::transcript(&ended);
    let is_over = text.contains("the run is over at step");
    assert!(is_over || text.contains("resumes after step"), "{text}");
}

/// Nothing is lost by not waiting: the run is saved before its last samples are spoken.
#[test]
fn a_stop_is_answered_while_the_last_samples_are_spoken() {
    let run = Run::new();
    let sentences = run.home.path().join("sentences.txt");
    let long = "The river runs past the old mill and on to the sea. ".repeat(4);
    fs::write(&sentences, format!("{long}\n").repeat(20)).unwrap();
    let mut command = run.train(format!(
        "--max-steps 2 --no-evaluation --sample-text {}",
        sentences.display()
    ));
    let mut live = Started::new(command.stderr(Stdio::piped()));
    let samples = run.dir().join("samples");
    live.until("a sample", || !named(&samples, "final-").is_empty());
    signal(live.id(), "TERM");
    let output = live.output();
    let text = crate::transcript(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert_has(&text, &["interrupted: the run is over and saved"]);
    let spoken = named(&samples, "final-").len();
    assert!(spoken < 3 * 20, "it spoke them all");
    assert_eq!(run.checkpoints().len(), 1);
}
