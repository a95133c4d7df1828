//! A process that is killed leaves a log with everything up to its last flush, whether it asked for
//! that flush or not.
//!
//! The test starts its own program again as the process to be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use voxmill_telemetry::event::{Event, Nanos, RunStarted, Stamped, Step};
use voxmill_telemetry::log::{LoggedStart, RunLog, replay};
use voxmill_telemetry::recorder::{Recorder, RecorderOptions};

const LOG: &str = "VOXMILL_KILL_TEST_LOG";
/// Set: it never asks for a flush.
const NEVER_FLUSHES: &str = "VOXMILL_KILL_TEST_NEVER_FLUSHES";
/// What takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

/// The process to be killed: prints what it knows to be on disk, and continues to record.
#[test]
fn records_until_killed() {
    let Some(path) = std::env::var_os(LOG) else {
        return;
    };
    let options = RecorderOptions {
        log: Some(path.into()),
        trace: None,
    };
    let recorder = Recorder::start(options).unwrap();
    recorder.record(Event::RunStarted(RunStarted {
        name: "to be killed".to_owned(),
        program: "test".to_owned(),
        ..RunStarted::default()
    }));
    let lane = recorder.lane("read", 0);
    let flushes = std::env::var_os(NEVER_FLUSHES).is_none();
    for number in 1u64.. {
        lane.item(number, recorder.now(), Nanos(1000));
        recorder.record(Event::Step(Step {
            step: number,
            ..Step::default()
        }));
        if !flushes {
            // Unhurried, so that the log stays small; how long it takes proves nothing.
            std::thread::sleep(Duration::from_millis(1));
        } else if number % 1000 == 0 {
            recorder.flush().unwrap();
            let mut out = std::io::stdout();
            writeln!(out, "flushed {number}").unwrap();
            out.flush().unwrap();
        }
    }
}

fn program(log: &Path) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program
        .args(["--exact", "records_until_killed", "--nocapture"])
        .env(LOG, log)
        .stdout(Stdio::piped());
    program
}

fn kill(mut child: Child) {
    child.kill().expect("it still runs");
    child.wait().expect("it was ours");
}

/// Kills it after that many flushes; the last number that it reported to be on disk.
fn kill_after(flushes: usize, log: &Path) -> u64 {
    let mut child = program(log).spawn().expect("this program runs again");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let number = |line: String| line.rsplit_once("flushed ")?.1.parse().ok();
    let flushed = lines.map_while(Result::ok).filter_map(number);
    let last = flushed.take(flushes).last();
    kill(child);
    last.expect("the process flushed before it was killed")
}

fn steps_of(start: &LoggedStart) -> Vec<u64> {
    let step = |stamped: &Stamped| match &stamped.event {
        Event::Step(step) => Some(step.step),
        _ => None,
    };
    start.events.iter().filter_map(step).collect()
}

#[test]
fn a_killed_run_loses_at_most_what_was_not_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let first = kill_after(3, &path);
    let (starts, flaws) = replay(&path).unwrap();
    let [stats] = &starts[..] else {
        panic!("one start: {starts:?}");
    };
    assert!(stats.steps.service.count() >= first);
    assert!(stats.stage("read").unwrap().service.count() >= first);
    assert_eq!((stats.outcome, stats.lost), (None, 0));
    assert_eq!(flaws.damaged, 0);

    // A second run continues the same log, and is killed as well.
    let second = kill_after(5, &path);
    let log = RunLog::read(&path).unwrap();
    assert_eq!((log.starts.len(), log.flaws.damaged), (2, 0));
    for (start, flushed) in log.starts.iter().zip([first, second]) {
        let steps = steps_of(start);
        assert!(steps.len() as u64 >= flushed);
        let all = 1..=steps.len() as u64;
        assert!(steps.into_iter().eq(all), "none is missing");
    }
    let (starts, _) = replay(&path).unwrap();
    let steps = starts.iter().map(|stats| stats.steps.service.count());
    let logged = log.starts.iter();
    assert!(steps.eq(logged.map(|start| steps_of(start).len() as u64)));
}

#[test]
fn a_killed_run_that_never_asked_for_a_flush_leaves_its_last_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let never = program(&path).env(NEVER_FLUSHES, "1").spawn();
    let child = never.expect("this program runs again");
    let has_a_second = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.contains("\"event\":\"stage_second\"")
    };
    let begin = Instant::now();
    while !has_a_second() && begin.elapsed() < WATCHDOG {
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(child);
    let log = RunLog::read(&path).unwrap();
    assert_eq!((log.starts.len(), log.flaws.damaged), (1, 0));
    let (starts, _) = replay(&path).unwrap();
    let read = starts[0].stage("read").expect("a second of it");
    let items = read.service.count();
    assert!(items > 0);
    // Every item of that second was followed by its step, which was written with it.
    assert!(starts[0].steps.service.count() + 1 >= items);
    let started = log.starts[0].started.as_ref().expect("its first line");
    assert_eq!(started.name, "to be killed");
}
