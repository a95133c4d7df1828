//! However a run ends, its threads are joined; and while it waits it uses no CPU.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::*;
use crate::threads;

/// Endless numbers through two stages; the names of all stages begin with `prefix`.
fn endless(prefix: &str, plan: Plan) -> Pipeline<u64> {
    let name = |stage: &str| format!("{prefix}{stage}");
    source(plan, &name("s"), u64::MAX, |_| ())
        .stage(&name("a"), pass())
        .workers(Setting::fixed(3))
        .stage(&name("b"), pass())
        .workers(Setting::fixed(2))
}

/// Endless numbers that four workers load within a budget of one.
fn short_of_bytes(prefix: &str, plan: Plan) -> Pipeline<u64> {
    source(plan, &format!("{prefix}s"), u64::MAX, |_| ())
        .budget("host", 1)
        .stage(&format!("{prefix}a"), pass().reserving(|_| 1))
        .workers(Setting::fixed(4))
        .in_budget("host")
}

fn ending() -> Plan {
    plan("ending")
}

#[test]
fn dropping_a_run_joins_all_its_threads() {
    for plan in orders(ending()) {
        let mut running = start(endless("drop-", plan));
        threads::wait_for("drop-", 6);
        running.next().unwrap().unwrap();
        drop(running);
        threads::wait_for("drop-", 0);
    }
}

#[test]
fn threads_are_joined_when_the_last_item_was_taken_even_if_the_run_is_kept() {
    let pipeline = source(ending(), "end-s", 50, |_| ()).stage("end-a", pass());
    let mut running = start(pipeline.workers(Setting::fixed(4)));
    assert_eq!(running.finish().unwrap().0, 50);
    threads::wait_for("end-", 0);
    assert_eq!(running.resume_point().next, 50);
    assert!(!running.was_cancelled());
}

#[test]
fn a_pipeline_that_was_not_started_has_no_threads() {
    drop(endless("idle-pipeline-", ending()));
    assert!(threads::named("idle-pipeline-").is_empty());
}

#[test]
fn items_in_hand_are_finished_before_a_drop_returns() {
    let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let work = each(move |_| {
        begins.fetch_add(1, SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        ends.fetch_add(1, SeqCst);
    });
    let slow = numbers(ending(), 1000).stage("slow", work);
    let mut running = start(slow.workers(Setting::fixed(4)));
    running.next().unwrap().unwrap();
    drop(running);
    assert_eq!(begun.load(SeqCst), ended.load(SeqCst));
}

#[test]
fn whoever_waits_for_bytes_or_slots_is_released() {
    let plan = Plan {
        slots: Some(slots(1)),
        ..ending()
    };
    for takes in [0, 1, 5] {
        let pipeline = short_of_bytes("room-", plan.clone()).stage("room-b", pass());
        let mut running = start(pipeline.workers(Setting::fixed(4)));
        assert_eq!(running.by_ref().take(takes).count(), takes);
        drop(running);
        threads::wait_for("room-", 0);
    }
}

#[test]
fn another_thread_can_cancel_while_the_consumer_waits() {
    let (never, blocks) = mpsc::channel::<()>();
    let source = source(ending(), "cancel-s", u64::MAX, move |number| {
        if number == 3 {
            // Until the other end is dropped.
            let _ = blocks.recv();
        }
    });
    let mut running = start(source);
    let control = running.control();
    let canceller = std::thread::spawn(move || {
        control.cancel();
        drop(never);
    });
    assert!(running.by_ref().count() <= 3);
    assert!(running.next().is_none());
    canceller.join().unwrap();
    threads::wait_for("cancel-", 0);
}

#[test]
fn without_overlap_cancelling_ends_the_run_as_well() {
    let mut running = start(endless("", without_overlap(ending())));
    running.next().unwrap().unwrap();
    running.control().cancel();
    assert!(running.next().is_none());
    assert!(running.was_cancelled());
}

#[test]
fn a_cancelled_run_never_delivers_half_a_batch_as_a_whole_one() {
    for round in 0..300 {
        let pipeline = numbers(ending(), 10_000)
            .stage("work", pass())
            .workers(Setting::fixed(2))
            .batch("batch", Groups::of(5))
            .buffer(Setting::fixed(1));
        let running = start(pipeline);
        let control = running.control();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(5 * round));
            control.cancel();
        });
        for batch in running {
            assert_eq!(item(batch).members.len(), 5);
        }
        canceller.join().unwrap();
    }
}

#[test]
fn a_sink_that_stops_early_ends_the_run_with_its_error() {
    for plan in both(ending()) {
        let written = AtomicU64::new(0);
        let write = Work::new(move |_: u64| match written.fetch_add(1, SeqCst) {
            7 => Err("the disk is full"),
            _ => Ok(()),
        });
        let mut running = start(numbers(plan, 1000).stage("write", write));
        let failure = running.finish().unwrap_err();
        assert_eq!(failure.to_string(), "stage `write` failed at item 7");
        assert_eq!(running.resume_point().next, 7);
    }
}

#[test]
fn a_consumer_that_panics_leaves_no_threads_and_did_not_do_its_item() {
    let mut running = start(endless("panics-", ending()));
    next_item(&mut running).done();
    let consumer = catch_unwind(AssertUnwindSafe(|| {
        let _second = running.next();
        panic!("{ON_PURPOSE}");
    }));
    assert!(consumer.is_err());
    assert_eq!(running.resume_point().next, 1);
    let unwinds = catch_unwind(AssertUnwindSafe(move || {
        let _running = running;
        panic!("{ON_PURPOSE}");
    }));
    assert!(unwinds.is_err());
    threads::wait_for("panics-", 0);
}

/// Panics when it is dropped where nobody has marked it as fine.
struct PanicsOnDrop(bool);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        assert!(self.0, "{ON_PURPOSE}: dropped");
    }
}

#[test]
fn items_that_panic_when_they_are_dropped_do_not_keep_threads_from_being_joined() {
    let source = Pipeline::source(ending(), "grumpy-s", |_| {
        std::iter::repeat_with(|| Ok::<_, Infallible>(PanicsOnDrop(false)))
    });
    let pipeline = source
        .buffer(Setting::fixed(4))
        .stage("grumpy-a", Work::new(Ok::<PanicsOnDrop, Infallible>))
        .workers(Setting::fixed(3));
    let mut running = start(pipeline);
    for delivery in running.by_ref().take(10) {
        item(delivery).0 = true;
    }
    wait_until(|| running.snapshot().stages[0].buffered >= 4);
    drop(running);
    threads::wait_for("grumpy-", 0);
}

#[test]
fn a_run_that_waits_uses_no_cpu() {
    // All three kinds of waiting: an empty buffer in front, a full one behind, and no bytes left.
    let (never, blocks) = mpsc::channel();
    let starved = silent(ending(), "idle1-s", blocks).stage("idle1-a", pass());
    let starved = start(starved.workers(Setting::fixed(4)));
    let blocked = start(endless("idle2-", ending()));
    let short = start(short_of_bytes("idle3-", ending()));
    threads::wait_for("idle", 16);
    let used = || {
        let threads = threads::named("idle");
        threads.iter().map(|(_, ticks)| ticks).sum::<u64>()
    };
    // They come to rest, and then the kernel's account of them stands still. One tick is 10 ms of
    // CPU: a single thread that polled would use 50 of them.
    std::thread::sleep(Duration::from_millis(200));
    let before = used();
    std::thread::sleep(Duration::from_millis(500));
    assert!(used() - before <= 1, "{} ticks", used() - before);
    drop((never, starved, blocked, short));
    threads::wait_for("idle", 0);
}
