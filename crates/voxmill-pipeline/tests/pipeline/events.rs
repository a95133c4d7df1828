//! What a run tells of itself: each thing that happens reaches the log as an event.

use std::convert::Infallible;
use std::sync::mpsc;

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::plan::{AdaptPlan, AfterError, Plan};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::event::{
    DecidedChange, Event, FaultAction, FaultKind, GateReason, SlotState,
};
use voxmill_telemetry::log::RunLog;
use voxmill_telemetry::recorder::{Recorder, RecorderOptions};

use crate::basics::{numbers, pass, slots};
use crate::watchdog::watch;

/// Runs something with a recorder and reads its log back.
pub(crate) fn recorded(run: impl FnOnce(Recorder)) -> Vec<Event> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("events.jsonl");
    let recorder = Recorder::start(RecorderOptions {
        log: Some(log.clone()),
        trace: None,
    });
    let recorder = recorder.unwrap();
    run(recorder.clone());
    recorder.finish().unwrap();
    let log = RunLog::read(&log).unwrap();
    log.events().map(|stamped| stamped.event.clone()).collect()
}

fn working() -> Plan {
    Plan::new("events", "train")
}

fn gate_reason(plan: Plan, source: impl FnOnce(Plan) -> Pipeline<u64>) -> GateReason {
    let events = recorded(|recorder| {
        let pipeline = source(plan).stage("work", pass());
        pipeline.start(recorder).unwrap().next();
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
fn the_gate_says_why_it_opened() {
    let _watched = watch("events: gate");
    let gated = |seconds| Plan {
        start_delay_seconds: seconds,
        ..working()
    };
    let full = gate_reason(gated(1e6), |plan| numbers(plan, 100));
    assert_eq!(full, GateReason::Full);
    let all_ready = gate_reason(gated(1e6), |plan| numbers(plan, 1));
    assert_eq!(all_ready, GateReason::AllReady);
    // The second item never comes while the gate waits.
    let (hold, held) = mpsc::channel::<()>();
    let delay = gate_reason(gated(0.01), |plan| {
        Pipeline::source(plan, "numbers", move |from| {
            (from..2).map(move |number: u64| {
                if number == 1 {
                    let _ = held.recv_timeout(std::time::Duration::from_secs(1));
                }
                Ok::<_, Infallible>(number)
            })
        })
    });
    assert_eq!(delay, GateReason::Delay);
    drop(hold);
}

#[test]
fn a_fault_is_told_with_its_item_and_what_became_of_it() {
    let _watched = watch("events: faults");
    let events = recorded(|recorder| {
        let work = Work::new(|number: u64| match number {
            3 => Err("cannot be read"),
            5 => panic!("no such luck"),
            _ => Ok(number),
        });
        let pipeline = numbers(working(), 8).named(|number| format!("clip-{number}"));
        let pipeline = pipeline.stage("work", work.retrying());
        let pipeline = pipeline.on_error(1, AfterError::Skip);
        let (items, gaps) = pipeline.start(recorder).unwrap().finish().unwrap();
        assert_eq!((items, gaps.len()), (6, 2));
    });
    let faults: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Fault(fault) => Some((
                fault.name.as_str(),
                fault.kind,
                fault.message.as_str(),
                fault.action,
            )),
            _ => None,
        })
        .collect();
    use FaultAction::{Retried, Skipped};
    assert_eq!(
        faults,
        [
            ("clip-3", FaultKind::Error, "cannot be read", Retried),
            ("clip-3", FaultKind::Error, "cannot be read", Skipped),
            ("clip-5", FaultKind::Panic, "no such luck", Skipped),
        ]
    );
}

#[test]
fn every_item_of_every_stage_and_every_slot_is_counted() {
    let _watched = watch("events: counts");
    let plan = Plan {
        slots: Some(slots(3)),
        ..working()
    };
    let events = recorded(|recorder| {
        let pipeline = numbers(plan, 500).stage("work", pass());
        pipeline.start(recorder).unwrap().finish().unwrap();
    });
    let count = |name: &str| -> u64 {
        let seconds = events.iter().filter_map(|event| match event {
            Event::StageSecond(second) if second.stage == name => Some(second.service.count()),
            _ => None,
        });
        seconds.sum()
    };
    assert_eq!([count("numbers"), count("work"), count("train")], [500; 3]);
    let left = |state: SlotState| -> u64 {
        let seconds = events.iter().filter_map(|event| match event {
            Event::SlotSecond(second) => second.states.get(&state).map(|sum| sum.count),
            _ => None,
        });
        seconds.sum()
    };
    assert_eq!(left(SlotState::Preparing), 500);
    assert_eq!(left(SlotState::Ready), 500);
    assert_eq!(left(SlotState::Training), 500);
}

/// The first worker alone is too slow by far; what the controller does about it is logged with a reason.
#[test]
fn a_decision_is_told_with_its_reason() {
    let _watched = watch("events: decisions");
    let mut plan = working();
    plan.adapt = Some(AdaptPlan {
        most_workers: 9,
        most_buffered: 16,
    });
    let (enough, has_enough) = mpsc::channel::<()>();
    let events = recorded(|recorder| {
        let source = Pipeline::source(plan, "numbers", move |from| {
            (from..).map_while(move |number: u64| {
                let goes_on = has_enough.try_recv() == Err(mpsc::TryRecvError::Empty);
                goes_on.then_some(Ok::<_, Infallible>(number))
            })
        });
        let slow = Work::new(|number: u64| {
            std::thread::sleep(std::time::Duration::from_millis(4));
            Ok::<_, Infallible>(number)
        });
        let mut running = source.stage("work", slow).start(recorder).unwrap();
        let control = running.control();
        while control.snapshot().stages[1].workers < 2 {
            running.next().unwrap().unwrap();
        }
        drop(enough);
        running.finish().unwrap();
    });
    let first = events.iter().find_map(|event| match event {
        Event::Decision(decision) => Some(decision),
        _ => None,
    });
    let first = first.unwrap();
    assert_eq!(first.subject, "work");
    assert!(matches!(
        first.change,
        DecidedChange::Workers { from: 1, to: 2.. }
    ));
    assert!(first.reason.contains("`work` limits"), "{}", first.reason);
}
