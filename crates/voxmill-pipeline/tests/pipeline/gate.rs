//! The consumer's first item: when everything that may be ready is ready, or the longest wait is over.

use crate::common::*;

/// Longer than the watchdog waits.
const FOREVER: f64 = 1e6;

fn gated(delay: f64, ahead: Option<usize>) -> Plan {
    Plan {
        start_delay_seconds: delay,
        slots: ahead.map(slots),
        ..plan("gate")
    }
}

fn worked(source: Pipeline<u64>, work: Work<u64, u64>) -> Pipeline<u64> {
    source
        .stage("work", work)
        .workers(Setting::fixed(2))
        .buffer(Setting::fixed(5))
}

#[test]
fn it_opens_when_all_slots_ahead_or_the_whole_buffer_are_full() {
    for (slots, ready) in [(Some(3), 3), (None, 5)] {
        let (made, work) = counting();
        let mut running = start(worked(numbers(gated(FOREVER, slots), 100), work));
        running.next().unwrap().unwrap();
        assert!(made.load(SeqCst) >= ready);
        assert_eq!(items(running).len(), 99);
    }
}

#[test]
fn it_opens_when_the_longest_wait_is_over() {
    // The second item comes only after the first was taken, so nothing is ever full.
    let (taken, was_taken) = mpsc::channel();
    let source = source(gated(0.01, Some(3)), "numbers", 2, move |number| {
        if number == 1 {
            was_taken.recv().unwrap();
        }
    });
    let mut running = start(worked(source, pass()));
    running.next().unwrap().unwrap();
    taken.send(()).unwrap();
    assert_eq!(items(running), [1]);
}

#[test]
fn it_opens_when_there_is_no_more_to_come() {
    for count in [0, 1, 2] {
        let pipeline = numbers(gated(FOREVER, Some(3)), count);
        assert_eq!(items(start(worked(pipeline, pass()))), up_to(count));
    }
}

#[test]
fn it_does_not_hold_back_a_failure_or_a_cancel() {
    let pipeline = Pipeline::source(gated(FOREVER, Some(3)), "numbers", |_| {
        std::iter::once(Err::<u64, _>("nothing to read"))
    });
    assert!(start(worked(pipeline, pass())).finish().is_err());

    let (never, blocks) = mpsc::channel();
    let source = silent(gated(FOREVER, None), "numbers", blocks);
    let mut running = start(worked(source, pass()));
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
    let work = Work::new(|_: u64| Err::<u64, _>("bad"));
    let pipeline = worked(numbers(gated(FOREVER, Some(3)), 100), work);
    let mut running = start(pipeline.on_error(0, AfterError::Skip));
    assert_eq!(running.finish().unwrap().1.len(), 100);
}

#[test]
fn more_room_while_it_waits_is_waited_for_and_less_room_is_enough() {
    let (go, wait) = mpsc::channel::<()>();
    let source = source(gated(FOREVER, None), "numbers", u64::MAX, move |number| {
        if number == 2 {
            let _ = wait.recv();
        }
    });
    let mut running = start(worked(source, pass()));
    let control = running.control();
    // Two of five are there, and no more come until the gate has opened.
    let changer = std::thread::spawn(move || control.set_capacity("work", 2).unwrap());
    running.next().unwrap().unwrap();
    changer.join().unwrap();
    drop(go);
    running.next().unwrap().unwrap();
}
