//! The consumer's first item: when everything that may be ready is ready, or the longest wait is over.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::plan::{AfterError, Plan, Setting};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers, pass, slots, start};
use crate::watchdog::watch;

/// Longer than the watchdog waits.
const FOR_EVER: f64 = 1e6;

fn gated(delay: f64, ahead: Option<usize>) -> Plan {
    Plan {
        start_delay_seconds: delay,
        slots: ahead.map(slots),
        ..Plan::new("gate", "train")
    }
}

fn worked(source: Pipeline<u64>, work: Work<u64, u64>) -> Pipeline<u64> {
    source
        .stage("work", work)
        .workers(Setting::fixed(2))
        .buffer(Setting::fixed(5))
}

/// Counts what was made.
fn counting(made: &Arc<AtomicU64>) -> Work<u64, u64> {
    let made = Arc::clone(made);
    Work::new(move |number: u64| {
        made.fetch_add(1, SeqCst);
        Ok::<_, Infallible>(number)
    })
}

#[test]
fn it_opens_when_all_slots_ahead_or_the_whole_buffer_are_full() {
    let _watched = watch("gate: full");
    for (slots, ready) in [(Some(3), 3), (None, 5)] {
        let made = Arc::new(AtomicU64::new(0));
        let pipeline = worked(numbers(gated(FOR_EVER, slots), 100), counting(&made));
        let mut running = start(pipeline);
        running.next().unwrap().unwrap();
        assert!(made.load(SeqCst) >= ready);
        assert_eq!(items(running).len(), 99);
    }
}

#[test]
fn it_opens_when_the_longest_wait_is_over() {
    let _watched = watch("gate: delay");
    // The second item comes only after the first was taken, so nothing is ever full.
    let (taken, was_taken) = mpsc::channel();
    let source = Pipeline::source(gated(0.01, Some(3)), "numbers", move |from| {
        (from..2).map(move |number: u64| {
            if number == 1 {
                was_taken.recv().unwrap();
            }
            Ok::<_, Infallible>(number)
        })
    });
    let running = worked(source, pass());
    let mut running = start(running);
    running.next().unwrap().unwrap();
    taken.send(()).unwrap();
    assert_eq!(items(running), [1]);
}

#[test]
fn it_opens_when_there_is_no_more_to_come() {
    let _watched = watch("gate: all ready");
    for count in [0, 1, 2] {
        let pipeline = numbers(gated(FOR_EVER, Some(3)), count);
        let pipeline = worked(pipeline, pass());
        let running = start(pipeline);
        assert_eq!(items(running), (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn it_does_not_keep_a_failure_or_a_cancel_back() {
    let _watched = watch("gate: failure");
    let pipeline = Pipeline::source(gated(FOR_EVER, Some(3)), "numbers", |_| {
        std::iter::once(Err::<u64, _>("nothing to read"))
    });
    let pipeline = worked(pipeline, pass());
    assert!(start(pipeline).finish().is_err());

    // A source that never ends and never gives anything.
    let (never, blocks) = mpsc::channel::<()>();
    let pipeline = Pipeline::source(gated(FOR_EVER, None), "numbers", move |_| {
        std::iter::from_fn(move || {
            let _ = blocks.recv();
            None::<Result<u64, Infallible>>
        })
    });
    let pipeline = worked(pipeline, pass());
    let mut running = start(pipeline);
    let control = running.control();
    let canceller = std::thread::spawn(move || {
        control.cancel();
        drop(never);
    });
    assert!(running.next().is_none());
    canceller.join().unwrap();
}

#[test]
fn gaps_count_as_ready() {
    let _watched = watch("gate: gaps");
    let work = Work::new(|_: u64| Err::<u64, _>("bad"));
    let mut running = worked(numbers(gated(FOR_EVER, Some(3)), 100), work)
        .on_error(0, AfterError::Skip)
        .start(Recorder::off())
        .unwrap();
    assert_eq!(running.finish().unwrap().1.len(), 100);
}

#[test]
fn more_room_while_it_waits_is_waited_for_and_less_room_is_enough() {
    let _watched = watch("gate: live change");
    let (go, wait) = mpsc::channel::<()>();
    let source = Pipeline::source(gated(FOR_EVER, None), "numbers", move |from| {
        (from..).map(move |number: u64| {
            if number == 2 {
                let _ = wait.recv();
            }
            Ok::<_, Infallible>(number)
        })
    });
    let pipeline = worked(source, pass());
    let mut running = start(pipeline);
    let control = running.control();
    // Two of five are there, and no more come until the gate has opened.
    let changer = std::thread::spawn(move || control.set_capacity("work", 2).unwrap());
    running.next().unwrap().unwrap();
    changer.join().unwrap();
    drop(go);
    running.next().unwrap().unwrap();
}
