//! Bytes in flight: admitted before they are allocated, in item order, never more than there may be.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use voxmill_pipeline::group::{Group, Groups};
use voxmill_pipeline::item::Failure;
use voxmill_pipeline::plan::{AfterError, Plan, Setting};
use voxmill_pipeline::run::Delivery;
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::event::FaultKind;
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers, pass, start};
use crate::watchdog::{ON_PURPOSE, watch};

/// Numbers that are loaded by some workers within a budget.
fn loading(
    plan: Plan,
    count: u64,
    load: Work<u64, u64>,
    workers: usize,
    budget: u64,
) -> Pipeline<u64> {
    loaded(numbers(plan, count), load, workers, budget)
}

fn loaded(
    source: Pipeline<u64>,
    load: Work<u64, u64>,
    workers: usize,
    budget: u64,
) -> Pipeline<u64> {
    source
        .buffer(Setting::fixed(8))
        .budget("host", budget)
        .stage("load", load)
        .workers(Setting::fixed(workers))
        .buffer(Setting::fixed(8))
        .in_budget("host")
}

fn plan() -> Plan {
    Plan::new("budgets", "consumer")
}

fn both() -> [Plan; 2] {
    [true, false].map(|overlap| Plan { overlap, ..plan() })
}

#[test]
fn in_use_never_exceeds_the_budget_and_comes_back_to_nothing() {
    let _watched = watch("peak");
    for plan in both() {
        let load = pass().reserving(|number| 1 + number % 5);
        let pipeline = loading(plan, 200, load, 4, 10);
        let mut running = start(pipeline);
        for delivery in running.by_ref() {
            let Ok(Delivery::Item(item)) = delivery else {
                panic!("{delivery:?}");
            };
            let (number, receipt) = item.into_parts();
            assert_eq!(receipt.bytes(), 1 + number % 5);
        }
        let budget = &running.snapshot().budgets[0];
        assert!(budget.peak <= 10 && budget.peak >= 5, "{budget:?}");
        assert_eq!(budget.in_use, 0);
    }
}

#[test]
fn bytes_are_granted_in_item_order_however_late_an_early_item_is() {
    let _watched = watch("admission in order");
    // There is room for two. The first item is not done before four others had every chance to
    // take its bytes; were they granted to whoever comes, all would wait for item 0 for ever.
    for round in 0..20 {
        let started = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&started);
        let work = Work::new(move |number: u64| {
            count.fetch_add(1, SeqCst);
            if number.is_multiple_of(5) {
                std::thread::sleep(Duration::from_micros(200 * round));
            }
            Ok::<_, Infallible>(number)
        });
        let pipeline = loading(plan(), 25, work.reserving(|_| 1), 5, 2);
        assert_eq!(items(start(pipeline)), (0..25).collect::<Vec<_>>());
        assert_eq!(started.load(SeqCst), 25);
    }
}

#[test]
fn an_item_larger_than_the_whole_budget_is_an_error_of_its_own() {
    let _watched = watch("too large");
    let size = |number: &u64| if *number == 3 { 11 } else { 4 };
    for plan in both() {
        let mut running = start(loading(plan, 9, pass().reserving(size), 2, 10));
        assert_eq!(running.by_ref().take(3).filter(Result::is_ok).count(), 3);
        let Some(Err(Failure::Item(fault))) = running.next() else {
            panic!("no failure");
        };
        assert_eq!((fault.kind, fault.item), (FaultKind::TooLarge, 3));
        let said = fault.error.to_string();
        assert_eq!(
            said,
            "needs 11 bytes, and the whole budget `host` is 10 bytes"
        );
    }
    for plan in both() {
        let skipping = loading(plan, 9, pass().reserving(size), 2, 10);
        let mut running = start(skipping.on_error(0, AfterError::Skip));
        let (items, gaps) = running.finish().unwrap();
        assert_eq!((items, gaps.len(), gaps[0].number), (8, 1, 3));
    }
}

#[test]
fn an_item_that_outgrows_what_it_reserved_is_an_error() {
    let _watched = watch("outgrown");
    for plan in both() {
        let work = pass().reserving(|_| 4).keeping(|number| *number);
        let mut running = start(loading(plan, 9, work, 2, 10));
        let failure = running.finish().unwrap_err();
        assert!(matches!(failure, Failure::Item(fault)
            if fault.kind == FaultKind::Outgrown && fault.item == 5));
    }
}

#[test]
fn what_an_item_does_not_need_is_given_back_while_it_still_waits() {
    let _watched = watch("keeping");
    // Each reserves all there is and keeps a tenth of it: the buffer can fill all the same.
    let pipeline = loading(plan(), 8, pass().reserving(|_| 10).keeping(|_| 0), 2, 10);
    let mut running = start(pipeline);
    while running.snapshot().stages[1].buffered < 8 {
        std::thread::yield_now();
    }
    assert_eq!(running.finish().unwrap().0, 8);
}

#[test]
fn a_size_that_panics_is_an_error_of_its_item() {
    let _watched = watch("size panics");
    for plan in both() {
        let size = |number: &u64| {
            assert!(*number != 2, "{ON_PURPOSE}");
            1
        };
        let work = pass().reserving(size).keeping(|number| {
            assert!(*number != 4, "{ON_PURPOSE}");
            1
        });
        let skipping = loading(plan, 9, work, 2, 10).on_error(0, AfterError::Skip);
        let mut running = start(skipping);
        let (items, gaps) = running.finish().unwrap();
        assert_eq!(items, 7);
        let gaps: Vec<_> = gaps
            .iter()
            .map(|gap| (gap.number, gap.fault.kind))
            .collect();
        assert_eq!(gaps, [(2, FaultKind::Panic), (4, FaultKind::Panic)]);
    }
}

fn batching(loaded: Pipeline<u64>, size: usize) -> Pipeline<Group<u64>> {
    loaded.batch("batch", Groups::of(size)).in_budget("host")
}

#[test]
fn a_batch_holds_the_bytes_of_its_members_until_it_is_done() {
    let _watched = watch("group bytes");
    for plan in both() {
        let load = pass().reserving(|number| 1 + number % 3);
        let mut running = start(batching(loading(plan, 12, load, 3, 12), 3));
        for batch in running.by_ref() {
            let Ok(Delivery::Item(batch)) = batch else {
                panic!("{batch:?}");
            };
            assert_eq!(batch.into_parts().1.bytes(), 1 + 2 + 3);
        }
        let budget = &running.snapshot().budgets[0];
        assert!(budget.peak <= 12 && budget.in_use == 0, "{budget:?}");
    }
}

#[test]
fn a_batch_that_does_not_fit_is_an_error_and_not_a_hang() {
    let _watched = watch("stuck");
    for plan in both() {
        let pipeline = batching(loading(plan, 12, pass().reserving(|_| 1), 3, 3), 4);
        let Err(Failure::Item(fault)) = start(pipeline).finish() else {
            panic!("no failure");
        };
        assert_eq!((fault.kind, fault.item), (FaultKind::TooLarge, 3));
        let said = fault.error.to_string();
        assert!(said.contains("cannot continue without it"), "{said}");
    }
}

#[test]
fn members_without_bytes_that_are_still_on_their_way_are_waited_for() {
    let _watched = watch("not stuck: no bytes");
    // The batch of 0 and 1 holds a byte and waits for item 1, which holds none. Item 2 needs both
    // bytes: it must wait for that batch, not give up because all bytes wait.
    let (asks, asked) = mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
    let load = pass().reserving(move |number| {
        if *number == 2 {
            asks.send(()).unwrap();
        }
        [1, 0, 2, 0][*number as usize]
    });
    let linger = Work::new(move |number: u64| {
        if number == 1 {
            asked.lock().unwrap().recv().unwrap();
            // Time to give up in, for those who would.
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok::<_, Infallible>(number)
    });
    let lingering = loading(plan(), 4, load, 2, 2)
        .stage("linger", linger)
        .in_budget("host");
    assert_eq!(start(batching(lingering, 2)).finish().unwrap().0, 2);
}

#[test]
fn gaps_that_are_still_on_their_way_are_waited_for() {
    // As above, but item 1 is skipped: before it enters the budget, or within it.
    for source_fails in [true, false] {
        let _watched = watch("not stuck: gaps");
        let (asks, asked) = mpsc::channel();
        let asked = std::sync::Mutex::new(asked);
        let source = Pipeline::source(plan(), "numbers", move |from| {
            (from..4).map(move |number| match number {
                1 if source_fails => Err("bad"),
                number => Ok(number),
            })
        });
        let load = Work::new(|number: u64| if number == 1 { Err("bad") } else { Ok(number) });
        let load = load.reserving(move |number| {
            if *number == 2 {
                asks.send(()).unwrap();
            }
            [1, 1, 2, 0][*number as usize]
        });
        // A batch of one gap is something to work on again.
        let linger = Work::new(move |group: Group<u64>| {
            if group.members[0].is_err() {
                asked.lock().unwrap().recv().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok::<_, Infallible>(group)
        });
        let skips = AfterError::Skip;
        let pipeline = loaded(source.on_error(0, skips), load, 2, 2)
            .on_error(0, skips)
            .batch("single", Groups::of(1))
            .in_budget("host")
            .stage("linger", linger)
            .in_budget("host")
            .batch("batch", Groups::of(2))
            .in_budget("host");
        assert_eq!(start(pipeline).finish().unwrap().0, 2);
    }
}

#[test]
fn bytes_are_free_when_the_item_leaves_the_budget() {
    let _watched = watch("leaving");
    // The whole budget is one item; behind it stands a stage that is not within it.
    for plan in both() {
        let held = Arc::new(AtomicBool::new(false));
        let (takes, leaves) = (Arc::clone(&held), Arc::clone(&held));
        let load = Work::new(move |number: u64| {
            assert!(!takes.swap(true, SeqCst), "two items at once");
            Ok::<_, Infallible>(number)
        });
        let write = Work::new(move |number: u64| {
            leaves.store(false, SeqCst);
            Ok::<_, Infallible>(number)
        });
        let pipeline = loading(plan, 20, load.reserving(|_| 1), 2, 1).stage("write", write);
        // All are kept by the consumer: none of them holds a byte.
        let kept: Vec<_> = start(pipeline).map(Result::unwrap).collect();
        assert_eq!(kept.len(), 20);
    }
}

#[test]
fn a_pipeline_that_cannot_say_its_sizes_is_refused() {
    let refused = loading(plan(), 1, pass(), 1, 10);
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(matches!(refused, StartError::ReservesNothing { .. }));
    let source = numbers(plan(), 1).in_budget("host");
    let refused = loaded(source, pass().reserving(|_| 1), 1, 10);
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(matches!(refused, StartError::SourceInBudget(_)));
}
