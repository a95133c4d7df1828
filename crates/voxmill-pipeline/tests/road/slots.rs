//! Places on a device: as many batches as there are places, and bytes that are taken once.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use voxmill_pipeline::group::Groups;
use voxmill_pipeline::item::Failure;
use voxmill_pipeline::road::{Road, StartError};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::plan::{AfterError, Order, Plan, Setting, SlotsPlan, StagePlan};
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers};
use crate::watchdog::watch;

/// A device of 40 bytes with places for batches of 10.
fn device(ahead: usize) -> Plan {
    Plan {
        slots: Some(SlotsPlan {
            ahead: Setting::fixed(ahead),
            bytes_each: 10,
            budget: Some("device".into()),
        }),
        ..Plan::new("slots", "train")
            .stage(StagePlan::new("numbers"))
            .stage(StagePlan::new("transfer").workers(Setting::fixed(3)))
            .budget("device", 40)
    }
}

fn transfer() -> Work<u64, u64> {
    Work::new(Ok::<u64, Infallible>)
}

fn start<T: Send + 'static>(road: Road<T>) -> Running<T> {
    road.start(Recorder::off()).unwrap()
}

#[test]
fn each_item_has_a_place_and_places_are_used_again() {
    let _watched = watch("places");
    for order in [Order::Kept, Order::Free] {
        let plan = Plan { order, ..device(2) };
        let mut running = start(numbers(plan, 100).stage("transfer", transfer()));
        let mut used = BTreeSet::new();
        for delivery in running.by_ref() {
            let Ok(Delivery::Item(item)) = delivery else {
                panic!("{delivery:?}");
            };
            used.insert(item.into_parts().1.place().unwrap());
        }
        assert!(used.iter().all(|place| *place < 3), "{used:?}");
        let budget = &running.snapshot().budgets[0];
        assert_eq!(
            (budget.peak, budget.in_use),
            (30, 30),
            "taken once, and for good"
        );
    }
}

#[test]
fn no_more_items_are_made_than_there_are_places_for() {
    let _watched = watch("as many as places");
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let work = Work::new(move |number: u64| {
        count.fetch_add(1, SeqCst);
        Ok::<_, Infallible>(number)
    });
    let mut done = 0;
    for delivery in start(numbers(device(2), 100).stage("transfer", work)) {
        // Those done, the one in training, and two ahead.
        assert!(made.load(SeqCst) <= done + 3);
        drop(delivery.unwrap());
        done += 1;
    }
    assert_eq!(done, 100);
}

#[test]
fn the_place_is_free_when_the_receipt_is_dropped_not_before() {
    let _watched = watch("receipt");
    let mut running = start(numbers(device(1), 100).stage("transfer", transfer()));
    let Some(Ok(Delivery::Item(first))) = running.next() else {
        panic!("no item");
    };
    let (item, receipt) = first.into_parts();
    assert_eq!(item, 0);
    let Some(Ok(Delivery::Item(second))) = running.next() else {
        panic!("no item");
    };
    assert_ne!(second.into_parts().1.place(), receipt.place());
    drop(receipt);
    assert_eq!(running.count(), 98);
}

#[test]
fn an_item_that_fails_frees_its_place() {
    let _watched = watch("failing in a place");
    for overlap in [true, false] {
        let mut plan = Plan {
            overlap,
            ..device(1)
        };
        plan.stages[1].on_error.then = AfterError::Skip;
        let work = Work::new(|number: u64| match number % 3 {
            0 => Ok(number),
            _ => Err("cannot transfer"),
        });
        let mut running = start(numbers(plan, 90).stage("transfer", work));
        let (items, holes) = running.finish().unwrap();
        assert_eq!((items, holes.len()), (30, 60));
    }
}

#[test]
fn without_overlap_one_place_is_used_at_a_time() {
    let plan = Plan {
        overlap: false,
        ..device(1)
    };
    let road = numbers(plan.clone(), 20).stage("transfer", transfer());
    assert_eq!(items(start(road)), (0..20).collect::<Vec<_>>());
    // Whoever keeps all places gets an error where an overlapped run would wait for him.
    let mut running = start(numbers(plan, 20).stage("transfer", transfer()));
    let kept: Vec<_> = running.by_ref().take(2).collect();
    assert!(kept.iter().all(Result::is_ok));
    assert!(matches!(running.next(), Some(Err(Failure::Item(_)))));
}

#[test]
fn slots_that_do_not_fit_or_that_nothing_can_fill_are_refused() {
    let refused = numbers(device(4), 1).stage("transfer", transfer());
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(matches!(refused, StartError::Plan(_)), "{refused:?}");

    // A batch takes its members as they come; it has no place to put them into beforehand.
    let mut plan = device(1);
    plan.stages[1].workers = Setting::fixed(1);
    let refused = numbers(plan, 1).batch("transfer", Groups::of(2));
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(
        matches!(refused, StartError::NothingFillsSlots { .. }),
        "{refused:?}"
    );
}
