//! What a run reports of itself: each thing that happens reaches the log as an event.

use voxmill_telemetry::event::{DecidedChange, Event, FaultAction, GateReason, SlotState};
use voxmill_telemetry::log::RunLog;
use voxmill_telemetry::recorder::RecorderOptions;

use crate::common::*;

/// Runs something with a recorder and reads its log back.
pub(crate) fn recorded(run: impl FnOnce(Recorder)) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("events.jsonl");
    let options = RecorderOptions {
        log: Some(log.clone()),
        trace: None,
    };
    let recorder = Recorder::start(options).unwrap();
    run(recorder.clone());
    recorder.finish().unwrap();
    let log = RunLog::read(&log).unwrap();
    log.events().map(|stamped| stamped.event.clone()).collect()
}

fn gate_reason(seconds: f64, source: impl FnOnce(Plan) -> Pipeline<u64>) -> GateReason {
    let plan = Plan {
        start_delay_seconds: seconds,
        ..plan("events")
    };
    let events = recorded(|recorder| {
        let pipeline = source(plan).stage("work", pass());
        start_with(pipeline, recorder).next();
    });
    let mut reasons = events.iter().filter_map(|event| match event {
        Event::GateOpened { reason, .. } => Some(*reason),
        _ => None,
    });
    let reason = reasons.next().unwrap();
    assert_eq!(reasons.next(), None, "a gate opens once");
    reason
}

#[test]
fn the_log_names_why_the_gate_opened() {
    let full = gate_reason(1e6, |plan| numbers(plan, 100));
    assert_eq!(full, GateReason::Full);
    let all_ready = gate_reason(1e6, |plan| numbers(plan, 1));
    assert_eq!(all_ready, GateReason::AllReady);
    // The second item never comes while the gate waits.
    let (hold, held) = mpsc::channel::<()>();
    let late = move |number| {
        if number == 1 {
            let _ = held.recv_timeout(Duration::from_secs(1));
        }
    };
    let delay = gate_reason(0.01, |plan| source(plan, "numbers", 2, late));
    assert_eq!(delay, GateReason::Delay);
    drop(hold);
}

#[test]
fn a_fault_is_logged_with_its_item_and_what_became_of_it() {
    let events = recorded(|recorder| {
        let work = Work::new(|number: u64| match number {
            3 => Err("cannot be read"),
            5 => panic!("no such luck"),
            _ => Ok(number),
        });
        let pipeline = numbers(plan("events"), 8)
            .named(|number| format!("clip-{number}"))
            .stage("work", work.retrying())
            .on_error(1, AfterError::Skip);
        let (items, gaps) = start_with(pipeline, recorder).finish().unwrap();
        assert_eq!((items, gaps.len()), (6, 2));
    });
    let faults = events.iter().filter_map(|event| match event {
        Event::Fault(it) => Some((it.name.as_str(), it.kind, it.message.as_str(), it.action)),
        _ => None,
    });
    use FaultAction::{Retried, Skipped};
    let expected = [
        ("clip-3", FaultKind::Error, "cannot be read", Retried),
        ("clip-3", FaultKind::Error, "cannot be read", Skipped),
        ("clip-5", FaultKind::Panic, "no such luck", Skipped),
    ];
    assert_eq!(faults.collect::<Vec<_>>(), expected);
}

#[test]
fn every_item_of_every_stage_and_every_slot_is_counted() {
    let plan = Plan {
        slots: Some(slots(3)),
        ..plan("events")
    };
    let events = recorded(|recorder| {
        let pipeline = numbers(plan, 500).stage("work", pass());
        start_with(pipeline, recorder).finish().unwrap();
    });
    let sum = |count: &dyn Fn(&Event) -> Option<u64>| events.iter().filter_map(count).sum::<u64>();
    for name in ["numbers", "work", "consumer"] {
        let items = sum(&|event| match event {
            Event::StageSecond(second) if second.stage == name => Some(second.service.count()),
            _ => None,
        });
        assert_eq!(items, 500, "{name}");
    }
    for state in [SlotState::Preparing, SlotState::Ready, SlotState::Training] {
        let left = sum(&|event| match event {
            Event::SlotSecond(second) => second.states.get(&state).map(|sum| sum.count),
            _ => None,
        });
        assert_eq!(left, 500, "{state:?}");
    }
}

/// The first worker alone is too slow by far; what the controller does about it is logged with a reason.
#[test]
fn a_decision_is_logged_with_its_reason() {
    let plan = Plan {
        adapt: Some(AdaptPlan {
            most_workers: 9,
            most_buffered: 16,
        }),
        ..plan("events")
    };
    let (enough, has_enough) = mpsc::channel::<()>();
    let events = recorded(|recorder| {
        let source = Pipeline::source(plan, "numbers", move |from| {
            (from..).map_while(move |number: u64| {
                let goes_on = has_enough.try_recv() == Err(mpsc::TryRecvError::Empty);
                goes_on.then_some(Ok::<_, Infallible>(number))
            })
        });
        let slow = each(|_| std::thread::sleep(Duration::from_millis(4)));
        let mut running = start_with(source.stage("work", slow), recorder);
        let control = running.control();
        while control.snapshot().stages[1].workers < 2 {
            running.next().unwrap().unwrap();
        }
        drop(enough);
        running.finish().unwrap();
    });
    let mut decisions = events.iter().filter_map(|event| match event {
        Event::Decision(decision) => Some(decision),
        _ => None,
    });
    let first = decisions.next().unwrap();
    assert_eq!(first.subject, "work");
    let more = matches!(first.change, DecidedChange::Workers { from: 1, to: 2.. });
    assert!(more, "{first:?}");
    assert!(first.reason.contains("`work` limits"), "{}", first.reason);
}
