//! Traces are read back as a viewer reads them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::event::{DecidedChange, Decision, DeviceSample, Step, Wait};
use crate::examples::started;
use crate::plan::{Plan, StagePlan};
use crate::recorder::{Recorder, RecorderOptions};

/// A recorder that traces into a folder of its own.
fn tracing(most_events: usize) -> (Recorder, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let options = RecorderOptions {
        log: None,
        trace: Some(TraceOptions {
            path: path.clone(),
            most_events,
        }),
    };
    (Recorder::start(options).unwrap(), path, folder)
}

/// A slice as a viewer sees it: times in nanoseconds.
#[derive(Debug, PartialEq)]
struct Seen {
    name: String,
    start: u64,
    end: u64,
    item: Option<u64>,
}

#[derive(Debug, Default)]
struct Read {
    /// By process and thread, in the order of their start, outer ones first.
    slices: BTreeMap<(u64, u64), Vec<Seen>>,
    names: BTreeMap<(u64, u64), String>,
    counters: BTreeMap<String, Vec<(u64, f64)>>,
    marks: Vec<Value>,
    facts: Value,
}

fn nanos(micros: &Value) -> u64 {
    (micros.as_f64().unwrap() * 1000.0).round() as u64
}

fn read(path: &PathBuf) -> Read {
    let text = std::fs::read_to_string(path).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let mut read = Read {
        facts: trace["otherData"].clone(),
        ..Read::default()
    };
    for event in trace["traceEvents"].as_array().unwrap() {
        let process = event["pid"].as_u64().unwrap();
        let thread = (process, event["tid"].as_u64().unwrap_or(0));
        let name = event["name"].as_str().unwrap().to_owned();
        match event["ph"].as_str().unwrap() {
            "X" => {
                let start = nanos(&event["ts"]);
                read.slices.entry(thread).or_default().push(Seen {
                    name,
                    start,
                    end: start + nanos(&event["dur"]),
                    item: event["args"]["item"].as_u64(),
                });
            }
            "C" => {
                for (series, value) in event["args"].as_object().unwrap() {
                    let counter = read.counters.entry(format!("{name}: {series}"));
                    let value = value.as_f64().unwrap();
                    counter.or_default().push((nanos(&event["ts"]), value));
                }
            }
            "M" if name == "thread_name" => {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                assert!(read.names.insert(thread, name).is_none(), "named once");
            }
            "M" => {}
            "i" => read.marks.push(event.clone()),
            other => panic!("an entry of kind {other}"),
        }
    }
    read
}

impl Read {
    fn of(&self, thread: &str) -> &[Seen] {
        let found = self.names.iter().find(|(_, name)| *name == thread);
        let (thread, _) = found.unwrap_or_else(|| panic!("no thread {thread}: {:?}", self.names));
        self.slices.get(thread).map_or(&[], Vec::as_slice)
    }
}

fn seen(name: &str, start: u64, end: u64, item: u64) -> Seen {
    Seen {
        name: name.to_owned(),
        start,
        end,
        item: Some(item),
    }
}

#[test]
fn a_run_is_shown_with_a_lane_for_everyone() {
    let (recorder, path, _folder) = tracing(1000);
    assert!(recorder.is_detailed());
    // Lanes come up in another order than the plan's.
    let train = recorder.lane("train", 0);
    let featurize = [1, 0].map(|worker| recorder.lane("featurize", worker));
    let reader = recorder.lane("read", 0);
    recorder.name_items("read", std::sync::Arc::new(|item| format!("clip {item}")));
    let plan = Plan {
        stages: ["read", "featurize"].map(StagePlan::new).into(),
        ..Plan::new("demo", "train")
    };
    recorder.record(started(Some(plan)));
    reader.item(7, Nanos(1_001), Nanos(2_000));
    reader.wait(Wait::Output, Some(7), Nanos(3_001), Nanos(500));
    reader.level("read", Nanos(3_501), 4, 8);
    featurize[0].wait(Wait::Input, None, Nanos(0), Nanos(3_600));
    use SlotState::*;
    featurize[1].slot(1, 7, Nanos(4_000), Preparing);
    featurize[1].slot(1, 7, Nanos(5_000), Ready);
    train.slot(1, 7, Nanos(7_000), Training);
    train.slot(1, 7, Nanos(9_000), Free);
    train.slot(2, 3, Nanos(9_000), Free);
    recorder.record(Event::Decision(Decision {
        subject: "read".to_owned(),
        change: DecidedChange::Workers { from: 1, to: 2 },
        reason: "it limits".to_owned(),
    }));
    recorder.record(Event::DeviceSample(DeviceSample {
        device: "cuda:0".into(),
        utilisation_percent: Some(97.0),
        power_watts: Some(f64::NAN),
        ..DeviceSample::default()
    }));
    recorder.finish().unwrap();

    let trace = read(&path);
    assert_eq!(
        trace.of("read 0"),
        [
            seen("clip 7", 1_001, 3_001, 7),
            seen("waits for output", 3_001, 3_501, 7)
        ]
    );
    let no_item = Seen {
        item: None,
        ..seen("waits for input", 0, 3_600, 0)
    };
    assert_eq!(trace.of("featurize 1"), [no_item]);
    assert_eq!(
        trace.of("slot 1"),
        [
            seen("Preparing", 4_000, 5_000, 7),
            seen("Ready", 5_000, 7_000, 7),
            seen("Training", 7_000, 9_000, 7),
        ]
    );
    let workers: Vec<&str> = (trace.names.range((1, 0)..(2, 0)))
        .map(|(_, name)| name.as_str())
        .collect();
    let planned = "read 0, featurize 0, featurize 1, train 0, steps, events";
    assert_eq!(workers.join(", "), planned);
    assert_eq!(trace.counters["buffer read: items"], [(3_501, 4.0)]);
    assert_eq!(trace.counters["buffer read: capacity"], [(3_501, 8.0)]);
    assert_eq!(trace.counters["cuda:0 utilisation: percent"][0].1, 97.0);
    assert!(!trace.counters.contains_key("cuda:0 power: watts"));
    let marks: Vec<&Value> = trace.marks.iter().map(|mark| &mark["name"]).collect();
    assert_eq!(marks, ["run started", "decision: read"]);
    assert_eq!(trace.marks[1]["args"]["reason"], "it limits");
    assert!(trace.marks.iter().all(|mark| mark["s"] == "t"));
    assert!(trace.names.values().all(|name| name != "slot 2"));
    assert!(!partial_of(&path).exists());
}

#[test]
fn a_step_is_the_rest_its_wait_and_its_work() {
    let mut out = ChromeWriter::begin(Vec::new()).unwrap();
    let step = Event::Step(Step {
        step: 12,
        waited: Nanos(30),
        late: Some("transfer".to_owned()),
        service: Nanos(150),
        overhead: Nanos(20),
        ..Step::default()
    });
    let at = Nanos(1_000);
    write_rare(&mut out, &Stamped { at, event: step }, 1, 2).unwrap();
    let bytes = out.end(&BTreeMap::new()).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let times = |slice: &Value| (nanos(&slice["ts"]), nanos(&slice["dur"]));
    let slices: Vec<(&str, (u64, u64))> = (trace["traceEvents"].as_array().unwrap().iter())
        .map(|slice| (slice["name"].as_str().unwrap(), times(slice)))
        .collect();
    let parts = [
        ("overhead", (800, 20)),
        ("waits for transfer", (820, 30)),
        ("step 12", (850, 150)),
    ];
    assert_eq!(slices, parts);
}

#[test]
fn the_newest_events_are_kept_and_the_rest_is_counted() {
    let (recorder, path, _folder) = tracing(100);
    let lane = recorder.lane("read", 0);
    for item in 0..250 {
        lane.item(item, Nanos(item * 10), Nanos(10));
    }
    recorder.finish().unwrap();
    let trace = read(&path);
    let items: Vec<u64> = trace.of("read 0").iter().filter_map(|s| s.item).collect();
    assert_eq!(items, (150..250).collect::<Vec<u64>>());
    assert_eq!(trace.facts["dropped_events"], "150");
    assert_eq!(
        recorder.notes(),
        ["the trace holds the newest 100 events; 150 older ones are not in it"]
    );
    assert_eq!(grouped(2_000_000), "2,000,000");
    assert_eq!((&*grouped(999), &*grouped(1_000)), ("999", "1,000"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_trace_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let (recorder, path, _folder) = tracing(100);
    // The name is taken by a folder in the meantime.
    std::fs::create_dir(&path).unwrap();
    let error = recorder.finish().unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("cannot write the trace"), "{error}");
    assert!(!partial_of(&path).exists());
}

/// Pauses and spans that a worker has one after another, as (pause, span, is a wait).
fn worker() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    prop::collection::vec((0u64..3, 0u64..5_000, any::<bool>()), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn slices_of_a_lane_never_overlap(workers in prop::collection::vec(worker(), 1..5)) {
        let (recorder, path, _folder) = tracing(10_000);
        for (number, events) in workers.iter().enumerate() {
            let lane = recorder.lane("read", number);
            let mut at = 0;
            for (item, &(pause, span, is_wait)) in events.iter().enumerate() {
                at += pause;
                if is_wait {
                    lane.wait(Wait::Input, Some(item as u64), Nanos(at), Nanos(span));
                } else {
                    lane.item(item as u64, Nanos(at), Nanos(span));
                }
                at += span;
            }
        }
        recorder.finish().unwrap();
        let trace = read(&path);
        for (number, events) in workers.iter().enumerate() {
            let slices = trace.of(&format!("read {number}"));
            prop_assert_eq!(slices.len(), events.len());
            prop_assert!(slices.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let spans: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
            prop_assert_eq!(spans, events.iter().map(|event| event.1).sum::<u64>());
        }
    }

    #[test]
    fn whatever_is_recorded_slices_lie_next_to_or_within_each_other(
        events in prop::collection::vec((0u64..1_000, 0u64..1_000), 0..40),
    ) {
        let (recorder, path, _folder) = tracing(10_000);
        let lane = recorder.lane("read", 0);
        for &(start, span) in &events {
            lane.item(0, Nanos(start), Nanos(span));
        }
        recorder.finish().unwrap();
        let trace = read(&path);
        let slices = trace.of("read 0");
        for (index, a) in slices.iter().enumerate() {
            for b in &slices[index + 1..] {
                let apart = a.end <= b.start || b.end <= a.start;
                let within = (a.start <= b.start && b.end <= a.end)
                    || (b.start <= a.start && a.end <= b.end);
                prop_assert!(apart || within, "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn places_are_in_one_state_at_a_time(
        moves in prop::collection::vec((0u32..3, 0u64..10_000, 0u64..5, 0usize..4), 0..40),
    ) {
        use SlotState::*;
        let (recorder, path, _folder) = tracing(10_000);
        let lanes = [0, 1].map(|worker| recorder.lane("transfer", worker));
        for &(place, at, item, to) in &moves {
            let to = [Preparing, Ready, Training, Free][to];
            lanes[item as usize % 2].slot(place, item, Nanos(at), to);
        }
        recorder.finish().unwrap();
        let trace = read(&path);
        for (thread, slices) in &trace.slices {
            prop_assert!(slices.windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert!(trace.names.contains_key(thread));
        }
    }
}
