//! Workers, buffers and budgets that change while items are under way.

use std::sync::Barrier;

use voxmill_pipeline::control::ChangeError;

use crate::common::*;
use crate::threads;

/// `workers` of its first stage.
fn pipeline(plan: Plan, prefix: &str, workers: usize, count: u64) -> Pipeline<u64> {
    let name = |stage: &str| format!("{prefix}{stage}");
    let slow = each(|number| {
        if number.is_multiple_of(5) {
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    numbers(plan, count)
        .budget("host", 20)
        .stage(&name("a"), slow.reserving(|number| 1 + number % 4))
        .workers(Setting::from(workers))
        .in_budget("host")
        .stage(&name("b"), pass())
        .in_budget("host")
}

#[test]
fn changes_in_mid_run_lose_repeat_and_reorder_nothing() {
    for plan in orders(plan("live")) {
        let order = plan.order;
        let running = start(pipeline(plan, "lc-", 1, 5000));
        let control = running.control();
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let changer = std::thread::spawn(move || {
            for round in (0..).take_while(|_| !seen.load(SeqCst)) {
                control.set_workers("lc-a", 1 + round % 6).unwrap();
                control.set_workers("lc-b", 1 + (round / 2) % 3).unwrap();
                control.set_capacity("numbers", 1 + round % 7).unwrap();
                control.set_capacity("lc-a", 1 + (round / 3) % 9).unwrap();
                control.set_capacity("lc-b", 1 + round % 2).unwrap();
                control.set_budget("host", 4 + round as u64 % 16).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let mut out = items(running);
        over.store(true, SeqCst);
        changer.join().unwrap();
        if order == Order::Free {
            out.sort_unstable();
        }
        assert_eq!(out, up_to(5000));
        threads::wait_for("lc-", 0);
    }
}

#[test]
fn more_workers_really_work_side_by_side() {
    // Four items have to be in hand at once, or none gets on.
    let all_four = Barrier::new(4);
    let work = each(move |_| {
        all_four.wait();
    });
    let pipeline = numbers(plan("live"), 40).stage("more", work);
    let running = start(pipeline.buffer(Setting::fixed(4)));
    running.control().set_workers("more", 4).unwrap();
    assert_eq!(running.snapshot().stages[1].workers, 4);
    assert_eq!(items(running), up_to(40));
}

#[test]
fn surplus_workers_go_and_their_threads_end() {
    let mut running = start(pipeline(plan("live"), "few-", 6, u64::MAX));
    threads::wait_for("few-a", 6);
    let control = running.control();
    control.set_workers("few-a", 2).unwrap();
    while threads::named("few-a").len() > 2 {
        running.next().unwrap().unwrap();
    }
    assert_eq!(running.snapshot().stages[1].workers, 2);
    // They are used again, and so are their numbers.
    control.set_workers("few-a", 3).unwrap();
    threads::wait_for("few-a", 3);
    let names = threads::named("few-a").into_iter().map(|(name, _)| name);
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), 3);
    drop(running);
    threads::wait_for("few-", 0);
}

#[test]
fn a_larger_buffer_is_filled_and_a_smaller_one_drains() {
    let (made, work) = counting();
    let pipeline = numbers(plan("live"), 100).stage("work", work);
    let mut running = start(pipeline.buffer(Setting::fixed(2)));
    let buffered = |running: &Running<u64>| running.snapshot().stages[1].buffered;
    wait_until(|| buffered(&running) >= 2);
    running.control().set_capacity("work", 30).unwrap();
    wait_until(|| buffered(&running) >= 30);
    running.control().set_capacity("work", 1).unwrap();
    for _ in 0..29 {
        running.next().unwrap().unwrap();
    }
    // Nothing was let in: one more than the 30 was in the worker's hands.
    assert!(made.load(SeqCst) <= 31);
    assert_eq!(buffered(&running), 1);
    assert_eq!(items(running), (29..100).collect::<Vec<_>>());
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let plan = Plan {
        slots: Some(slots(2)),
        ..plan("live")
    };
    let running = start(pipeline(plan.clone(), "no-", 1, 10));
    let control = running.control();
    let error = control.set_workers("no-c", 1).unwrap_err();
    assert!(matches!(error, ChangeError::NoStage(name) if name == "no-c"));
    for zero in [
        control.set_workers("no-a", 0),
        control.set_capacity("no-a", 0),
        control.set_budget("host", 0),
    ] {
        assert!(matches!(zero, Err(ChangeError::Zero)), "{zero:?}");
    }
    let error = control.set_budget("device", 1).unwrap_err();
    assert!(matches!(error, ChangeError::NoBudget(_)));
    let error = control.set_workers("numbers", 2).unwrap_err();
    assert!(matches!(error, ChangeError::OneWorkerOnly(_)));
    let error = control.set_capacity("no-b", 9).unwrap_err();
    assert!(matches!(error, ChangeError::Slots(_)));
    assert_eq!(items(running).len(), 10);

    let running = start(pipeline(without_overlap(plan), "no-", 1, 10));
    let error = running.control().set_workers("no-a", 2).unwrap_err();
    assert!(matches!(error, ChangeError::NoOverlap));
    assert_eq!(items(running).len(), 10);
}

#[test]
fn changes_after_the_end_do_nothing() {
    let pipeline = numbers(plan("live"), 10)
        .stage("late-a", pass())
        .batch("batch", Groups::of(3));
    let mut running = start(pipeline);
    let control = running.control();
    assert_eq!(running.by_ref().count(), 4);
    control.set_workers("late-a", 5).unwrap();
    control.set_capacity("late-a", 5).unwrap();
    control.cancel();
    threads::wait_for("late-", 0);
    drop(running);
    control.set_workers("late-a", 5).unwrap();
    threads::wait_for("late-", 0);
}

#[test]
fn a_stage_that_is_through_can_still_be_changed() {
    let pipeline = numbers(plan("live"), 10)
        .buffer(Setting::fixed(20))
        .stage("thru-a", pass())
        .buffer(Setting::fixed(20));
    let running = start(pipeline);
    // All ten are made and the workers are gone; nobody has taken one yet.
    wait_until(|| running.snapshot().stages[1].workers == 0);
    running.control().set_workers("thru-a", 3).unwrap();
    assert_eq!(items(running), up_to(10));
    threads::wait_for("thru-", 0);
}
