//! The recorder as a whole, with its thread and its files.

use std::sync::mpsc;

use proptest::prelude::*;

use super::*;
use crate::event::{Fault, FaultAction, FaultKind, GateReason, Outcome, SlotState, Step, Wait};
use crate::examples;
use crate::log::{RunLog, replay};

fn start(log: Option<PathBuf>, trace: Option<PathBuf>) -> Result<Recorder, RecordError> {
    let trace = trace.map(TraceOptions::new);
    Recorder::start(RecorderOptions { log, trace })
}

/// A recorder that logs into a folder of its own.
fn logging() -> (Recorder, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    (start(Some(path.clone()), None).unwrap(), path, folder)
}

fn gate(ready: u64) -> Event {
    Event::GateOpened {
        reason: GateReason::Full,
        waited: Nanos(1),
        ready,
    }
}

/// The statistics of the last start in a log that has no flaws.
fn replayed(path: &PathBuf) -> Stats {
    let (mut starts, flaws) = replay(path).unwrap();
    assert_eq!(flaws, Default::default());
    starts.pop().unwrap_or_default()
}

fn items(stats: &Stats, stage: &str) -> u64 {
    stats.stage(stage).map_or(0, |stage| stage.service.count())
}

#[test]
fn switched_off_it_is_only_a_clock() {
    let recorder = Recorder::off();
    recorder.record(gate(1));
    recorder.lane("read", 0).item(1, Nanos(0), Nanos(1));
    assert!(recorder.flush().is_ok() && recorder.finish().is_ok());
    assert_eq!(recorder.stats(), Stats::default());
    assert!(!recorder.is_detailed());
    let earlier = recorder.now();
    assert!(recorder.now() >= earlier);
}

#[test]
fn after_a_flush_everything_is_in_the_log() {
    let (recorder, path, _folder) = logging();
    let lane = recorder.lane("read", 0);
    for round in 1..=3 {
        lane.item(round, recorder.now(), Nanos(1000));
        lane.wait(Wait::Input, Some(round), recorder.now(), Nanos(500));
        recorder.record(gate(round));
        recorder.flush().unwrap();
        let stats = replayed(&path);
        assert_eq!(items(&stats, "read"), round);
        assert_eq!(
            stats.stage("read").unwrap().waits[&Wait::Input].count,
            round
        );
        assert_eq!(stats.gate.unwrap().ready, round);
        assert_eq!(stats, recorder.stats());
    }
}

#[test]
fn nobody_needs_to_ask_for_the_log_to_be_written() {
    let (recorder, path, _folder) = logging();
    recorder.record(gate(1));
    let lane = recorder.lane("read", 0);
    lane.item(1, Nanos(0), Nanos(1000));
    // Hangs if it is never written; how soon it is written is not tested.
    loop {
        // It may be read in the middle of a line.
        let (starts, _) = replay(&path).unwrap();
        let stats = starts.last().cloned().unwrap_or_default();
        if stats.gate.is_some() && items(&stats, "read") == 1 {
            break;
        }
        std::thread::yield_now();
    }
}

#[test]
fn where_nothing_happens_nothing_is_written() {
    let (recorder, path, _folder) = logging();
    let _lane = recorder.lane("read", 0);
    recorder.flush().unwrap();
    recorder.finish().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"");
}

#[test]
fn dropping_the_last_clone_writes_the_rest() {
    let (recorder, path, _folder) = logging();
    let lane = recorder.lane("read", 0);
    let clone = recorder.clone();
    drop(recorder);
    lane.item(1, clone.now(), Nanos(1000));
    drop(clone);
    // Nobody collects it any more; that does no harm.
    lane.item(2, Nanos(0), Nanos(1000));
    assert_eq!(items(&replayed(&path), "read"), 1);
}

#[test]
fn what_comes_after_the_end_is_ignored() {
    let (recorder, path, _folder) = logging();
    recorder.record(gate(1));
    recorder.finish().unwrap();
    recorder.record(gate(2));
    recorder.lane("read", 0).item(1, Nanos(0), Nanos(1));
    assert!(recorder.flush().is_ok() && recorder.finish().is_ok());
    assert_eq!(RunLog::read(path).unwrap().events().count(), 1);
}

#[test]
fn a_lane_that_was_dropped_is_emptied_and_forgotten() {
    let (recorder, _, _folder) = logging();
    let lane = recorder.lane("read", 0);
    let shared = Arc::downgrade(lane.shared.as_ref().unwrap());
    lane.item(1, recorder.now(), Nanos(1000));
    drop(lane);
    recorder.flush().unwrap();
    assert_eq!(items(&recorder.stats(), "read"), 1);
    assert!(shared.upgrade().is_none());
}

#[test]
fn slow_items_have_the_names_that_held_when_their_lane_was_made() {
    let (recorder, path, _folder) = logging();
    let unnamed = recorder.lane("write", 0);
    recorder.name_items("read", Arc::new(|item| format!("first {item}")));
    let first = recorder.lane("read", 0);
    recorder.name_items("read", Arc::new(|item| format!("second {item}")));
    let second = recorder.lane("read", 0);
    recorder.name_items("panics", Arc::new(|_| panic!("no such item")));
    let panics = recorder.lane("panics", 0);
    for (number, lane) in [&unnamed, &first, &second, &panics].into_iter().enumerate() {
        lane.item(number as u64, recorder.now(), Nanos(1000 - number as u64));
    }
    recorder.finish().unwrap();
    let stats = replayed(&path);
    let names: Vec<&str> = stats.slowest.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["0", "first 1", "second 2", "3"]);
}

#[test]
fn many_threads_lose_nothing() {
    let (recorder, path, _folder) = logging();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let recorder = &recorder;
            scope.spawn(move || {
                let lane = recorder.lane("read", worker);
                for item in 0..20_000 {
                    lane.item(item, recorder.now(), Nanos(item));
                    if item % 5_000 == 0 {
                        recorder.record(gate(item));
                        recorder.flush().unwrap();
                    }
                }
            });
        }
    });
    recorder.finish().unwrap();
    let stats = replayed(&path);
    assert_eq!((items(&stats, "read"), stats.lost), (80_000, 0));
    assert_eq!(stats, recorder.stats());
}

#[test]
fn a_stuck_collector_costs_bounded_memory_and_what_is_lost_is_counted() {
    let (recorder, path, _folder) = logging();
    let (stuck, is_stuck) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    recorder.name_items(
        "slow",
        Arc::new(move |item| {
            stuck.send(()).unwrap();
            let _ = lock(&released).recv();
            item.to_string()
        }),
    );
    recorder.lane("slow", 0).item(0, Nanos(0), Nanos(1));
    let lane = recorder.lane("read", 0);
    let beyond = 1000;
    std::thread::scope(|scope| {
        scope.spawn(|| recorder.flush().unwrap());
        is_stuck.recv().unwrap();
        for item in 0..(lane::LANE_CAPACITY as u64 + beyond) {
            lane.item(item, Nanos(0), Nanos(1));
        }
        for _ in 0..(MOST_OF_A_FLOOD as u64 + beyond) {
            recorder.record(Event::BufferLevel {
                buffer: "read".to_owned(),
                items: 0,
                capacity: 1,
            });
        }
        // What a report cannot do without survives the flood.
        for step in 0..beyond {
            recorder.record(Event::Step(Step {
                step,
                ..Step::default()
            }));
        }
        recorder.record(Event::RunEnded {
            outcome: Outcome::Failed,
        });
        drop(release);
    });
    recorder.finish().unwrap();
    let stats = replayed(&path);
    assert_eq!(items(&stats, "read"), lane::LANE_CAPACITY as u64);
    assert_eq!(stats.lost, 2 * beyond);
    assert_eq!(stats.buffers["read"].samples, MOST_OF_A_FLOOD as u64);
    assert_eq!(stats.steps.service.count(), beyond);
    assert_eq!(stats.outcome, Some(Outcome::Failed));
}

#[test]
fn a_path_that_cannot_be_written_is_known_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no such folder").join("events.jsonl");
    let log = start(Some(nowhere.clone()), None);
    assert!(matches!(log, Err(RecordError::Log(_))));
    let trace = start(None, Some(nowhere));
    assert!(matches!(trace, Err(RecordError::Trace(_))));
}

#[test]
fn a_log_and_a_trace_in_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("sub")).unwrap();
    for (log, trace) in [
        ("same", "same"),
        ("same", "sub/../same"),
        ("same.partial", "same"),
    ] {
        let refused = start(Some(at(log)), Some(at(trace))).unwrap_err();
        assert!(matches!(refused, RecordError::SamePath { .. }), "{refused}");
    }
    let left: Vec<_> = folder.path().read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn one_file_that_cannot_be_opened_leaves_nothing_of_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (log, trace) in [("log", "nowhere/trace"), ("nowhere/log", "trace")] {
        assert!(start(Some(at(log)), Some(at(trace))).is_err());
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_stops_the_log_but_not_the_run() {
    let recorder = start(Some("/dev/full".into()), None).unwrap();
    let lane = recorder.lane("read", 0);
    assert!(recorder.problem().is_none());
    lane.item(1, recorder.now(), Nanos(1000));
    let error = recorder.flush().unwrap_err();
    assert_eq!(error.to_string(), "cannot write the log /dev/full");
    assert!(matches!(recorder.problem(), Some(RecordError::Log(_))));
    // The run continues and so do its live statistics.
    for item in 0..200_000 {
        lane.item(item, recorder.now(), Nanos(1000));
        if item % 10_000 == 0 {
            let _ = recorder.flush();
        }
    }
    recorder.record(gate(1));
    assert!(matches!(recorder.finish(), Err(RecordError::Log(_))));
    assert!(matches!(recorder.finish(), Err(RecordError::Log(_))));
    assert_eq!(items(&recorder.stats(), "read"), 200_001);
}

#[test]
#[cfg(target_os = "linux")]
fn all_that_went_wrong_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let recorder = start(Some("/dev/full".into()), Some(trace.clone())).unwrap();
    std::fs::create_dir(&trace).unwrap();
    recorder.record(gate(1));
    let error = recorder.finish().unwrap_err();
    assert!(matches!(
        error.each(),
        [RecordError::Log(_), RecordError::Trace(_)]
    ));
    let text = error.to_string();
    assert!(text.starts_with("cannot write the log /dev/full; cannot write the trace"));
}

#[test]
fn a_flood_of_faults_is_counted_in_full_and_written_in_part() {
    let (recorder, path, _folder) = logging();
    for item in 0..20_000 {
        recorder.record(Event::Fault(Fault {
            stage: "read".to_owned(),
            item,
            name: item.to_string(),
            kind: FaultKind::Error,
            message: "no such file".to_owned(),
            action: FaultAction::Skipped,
        }));
    }
    recorder.finish().unwrap();
    let stats = replayed(&path);
    assert_eq!((stats.faults[0].count, stats.lost), (20_000, 0));
    assert_eq!(stats, recorder.stats());
    let log = RunLog::read(&path).unwrap();
    let one_by_one = |line: &&Stamped| matches!(line.event, Event::Fault(_));
    let written = log.events().filter(one_by_one).count();
    assert_eq!(written as u64, faults::WRITTEN_IN_FULL);
}

#[test]
fn a_continued_log_has_the_statistics_of_each_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mut live = Vec::new();
    for count in 1..=3 {
        let recorder = start(Some(path.clone()), None).unwrap();
        recorder.record(examples::started(None));
        let lane = recorder.lane("read", 0);
        (0..count).for_each(|item| lane.item(item, recorder.now(), Nanos(1000)));
        recorder.finish().unwrap();
        live.push(recorder.stats());
    }
    assert_eq!(replay(path).unwrap().0, live);
}

/// What a thread may record, at any time of the run and about anything.
#[derive(Clone, Debug)]
enum Recorded {
    Event(Box<Event>),
    Item(usize, u64, u64),
    Wait(usize, u64),
    Slot(u32, u64, SlotState),
    Flush,
}

fn recorded() -> impl Strategy<Value = Recorded> {
    let time = 0u64..4_000_000_000;
    prop_oneof![
        3 => examples::event().prop_map(|event| Recorded::Event(Box::new(event))),
        5 => (0usize..3, time.clone(), 0u64..100_000_000)
            .prop_map(|(lane, start, service)| Recorded::Item(lane, start, service)),
        2 => (0usize..3, time.clone()).prop_map(|(lane, start)| Recorded::Wait(lane, start)),
        2 => (0u32..3, time, examples::state())
            .prop_map(|(place, at, to)| Recorded::Slot(place, at, to)),
        1 => Just(Recorded::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn replay_gives_the_statistics_of_the_run(all in prop::collection::vec(recorded(), 0..60)) {
        let (recorder, path, _folder) = logging();
        let lanes = ["read", "featurize", "train"].map(|stage| recorder.lane(stage, 0));
        for (item, recorded) in (0..).zip(all) {
            match recorded {
                Recorded::Event(event) => recorder.record(*event),
                Recorded::Item(lane, start, service) => {
                    lanes[lane].item(item, Nanos(start), Nanos(service));
                }
                Recorded::Wait(lane, start) => {
                    lanes[lane].wait(Wait::Output, Some(item), Nanos(start), Nanos(77));
                }
                Recorded::Slot(place, at, to) => lanes[2].slot(place, item, Nanos(at), to),
                Recorded::Flush => recorder.flush().unwrap(),
            }
        }
        recorder.finish().unwrap();
        prop_assert_eq!(replayed(&path), recorder.stats());
        let log = RunLog::read(&path).unwrap();
        let times: Vec<Nanos> = log.events().map(|stamped| stamped.at).collect();
        prop_assert!(times.is_sorted(), "out of order: {:?}", times);
    }
}
