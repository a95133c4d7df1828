//! Workers, buffers and budgets that change while items are under way.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::control::ChangeError;
use voxmill_pipeline::group::Groups;
use voxmill_pipeline::plan::{Order, Plan, Setting};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers, pass, slots, start};
use crate::threads;
use crate::watchdog::watch;

fn plan() -> Plan {
    Plan::new("live", "consumer")
}

/// `workers` of its first stage.
fn pipeline(plan: Plan, prefix: &str, workers: usize, count: u64) -> Pipeline<u64> {
    let name = |stage: &str| format!("{prefix}{stage}");
    let slow = |number: u64| {
        if number.is_multiple_of(5) {
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok::<_, Infallible>(number)
    };
    numbers(plan, count)
        .budget("host", 20)
        .stage(
            &name("a"),
            Work::new(slow).reserving(|number| 1 + number % 4),
        )
        .workers(Setting::from(workers))
        .in_budget("host")
        .stage(&name("b"), pass())
        .in_budget("host")
}

#[test]
fn changes_in_mid_run_lose_repeat_and_reorder_nothing() {
    let _watched = watch("live changes");
    for order in [Order::Kept, Order::Free] {
        let running = pipeline(Plan { order, ..plan() }, "lc-", 1, 5000);
        let running = start(running);
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
        assert_eq!(out, (0..5000).collect::<Vec<_>>());
        threads::wait_for("lc-", 0);
    }
}

#[test]
fn more_workers_really_work_side_by_side() {
    let _watched = watch("more workers");
    // Four items have to be in hand at once, or none gets on.
    let all_four = Arc::new(Barrier::new(4));
    let work = Work::new(move |number: u64| {
        all_four.wait();
        Ok::<_, Infallible>(number)
    });
    let running = numbers(plan(), 40)
        .stage("more", work)
        .buffer(Setting::fixed(4))
        .start(Recorder::off())
        .unwrap();
    running.control().set_workers("more", 4).unwrap();
    assert_eq!(running.snapshot().stages[1].workers, 4);
    assert_eq!(items(running), (0..40).collect::<Vec<_>>());
}

#[test]
fn surplus_workers_go_and_their_threads_end() {
    let _watched = watch("fewer workers");
    let mut running = pipeline(plan(), "few-", 6, u64::MAX)
        .start(Recorder::off())
        .unwrap();
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
    let mut names: Vec<_> = threads::named("few-a")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 3);
    drop(running);
    threads::wait_for("few-", 0);
}

#[test]
fn a_larger_buffer_is_filled_and_a_smaller_one_drains() {
    let _watched = watch("capacity");
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let work = Work::new(move |number: u64| {
        count.fetch_add(1, SeqCst);
        Ok::<_, Infallible>(number)
    });
    let mut running = numbers(plan(), 100)
        .stage("work", work)
        .buffer(Setting::fixed(2))
        .start(Recorder::off())
        .unwrap();
    let buffered =
        |running: &voxmill_pipeline::run::Running<u64>| running.snapshot().stages[1].buffered;
    while buffered(&running) < 2 {
        std::thread::yield_now();
    }
    running.control().set_capacity("work", 30).unwrap();
    while buffered(&running) < 30 {
        std::thread::yield_now();
    }
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
    let _watched = watch("refused changes");
    let mut plan = plan();
    plan.slots = Some(slots(2));
    let running = pipeline(plan.clone(), "no-", 1, 10)
        .start(Recorder::off())
        .unwrap();
    let control = running.control();
    let refused = control.set_workers("no-c", 1).unwrap_err();
    assert!(matches!(refused, ChangeError::NoStage(name) if name == "no-c"));
    let refused = control.set_workers("no-a", 0).unwrap_err();
    assert!(matches!(refused, ChangeError::Zero));
    let refused = control.set_capacity("no-a", 0).unwrap_err();
    assert!(matches!(refused, ChangeError::Zero));
    let refused = control.set_budget("host", 0).unwrap_err();
    assert!(matches!(refused, ChangeError::Zero));
    let refused = control.set_budget("device", 1).unwrap_err();
    assert!(matches!(refused, ChangeError::NoBudget(_)));
    let refused = control.set_workers("numbers", 2).unwrap_err();
    assert!(matches!(refused, ChangeError::OneWorkerOnly(_)));
    let refused = control.set_capacity("no-b", 9).unwrap_err();
    assert!(matches!(refused, ChangeError::Slots(_)));
    assert_eq!(items(running).len(), 10);

    plan.overlap = false;
    let running = pipeline(plan, "no-", 1, 10).start(Recorder::off()).unwrap();
    let refused = running.control().set_workers("no-a", 2).unwrap_err();
    assert!(matches!(refused, ChangeError::NoOverlap));
    assert_eq!(items(running).len(), 10);
}

#[test]
fn changes_after_the_end_do_nothing() {
    let _watched = watch("late changes");
    let pipeline = numbers(plan(), 10)
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
    let _watched = watch("changes when a stage is through");
    let pipeline = numbers(plan(), 10)
        .buffer(Setting::fixed(20))
        .stage("thru-a", pass())
        .buffer(Setting::fixed(20));
    let running = start(pipeline);
    // All ten are made and the workers are gone; nobody has taken one yet.
    while running.snapshot().stages[1].workers > 0 {
        std::thread::yield_now();
    }
    running.control().set_workers("thru-a", 3).unwrap();
    assert_eq!(items(running), (0..10).collect::<Vec<_>>());
    threads::wait_for("thru-", 0);
}
