//! Places on a device: as many batches as there are places, and bytes that are taken once.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use voxmill_pipeline::group::Groups;
use voxmill_pipeline::item::Failure;
use voxmill_pipeline::plan::{AfterError, BudgetPlan, Order, Plan, Setting, SlotsPlan};
use voxmill_pipeline::run::Delivery;
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers, pass, start};
use crate::watchdog::watch;

/// A device of 40 bytes with places for batches of 10.
fn device(ahead: usize) -> Plan {
    Plan {
        slots: Some(SlotsPlan {
            ahead: Setting::fixed(ahead),
            bytes_each: 10,
            budget: Some("device".into()),
        }),
        budgets: vec![BudgetPlan {
            name: "device".into(),
            bytes: 40,
        }],
        ..Plan::new("slots", "train")
    }
}

fn transferred(plan: Plan, count: u64, work: Work<u64, u64>) -> Pipeline<u64> {
    numbers(plan, count)
        .stage("transfer", work)
        .workers(Setting::fixed(3))
}

#[test]
fn each_item_has_a_place_and_places_are_used_again() {
    let _watched = watch("places");
    for order in [Order::Kept, Order::Free] {
        let plan = Plan { order, ..device(2) };
        let mut running = start(transferred(plan, 100, pass()));
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
    for delivery in start(transferred(device(2), 100, work)) {
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
    let mut running = start(transferred(device(1), 100, pass()));
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
        let plan = Plan {
            overlap,
            ..device(1)
        };
        let work = Work::new(|number: u64| match number % 3 {
            0 => Ok(number),
            _ => Err("cannot transfer"),
        });
        let pipeline = transferred(plan, 90, work).on_error(0, AfterError::Skip);
        let mut running = start(pipeline);
        let (items, gaps) = running.finish().unwrap();
        assert_eq!((items, gaps.len()), (30, 60));
    }
}

#[test]
fn without_overlap_one_place_is_used_at_a_time() {
    let plan = Plan {
        overlap: false,
        ..device(1)
    };
    let pipeline = transferred(plan.clone(), 20, pass());
    assert_eq!(items(start(pipeline)), (0..20).collect::<Vec<_>>());
    // Whoever keeps all places gets an error where an overlapped run would wait for him.
    let mut running = start(transferred(plan, 20, pass()));
    let kept: Vec<_> = running.by_ref().take(2).collect();
    assert!(kept.iter().all(Result::is_ok));
    assert!(matches!(running.next(), Some(Err(Failure::Item(_)))));
}

#[test]
fn slots_that_do_not_fit_or_that_nothing_can_fill_are_refused() {
    let refused = transferred(device(4), 1, pass());
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(matches!(refused, StartError::Plan(_)), "{refused:?}");

    // A batch takes its members as they come; it has no place to put them into beforehand.
    let refused = numbers(device(1), 1).batch("transfer", Groups::of(2));
    let refused = refused.start(Recorder::off()).unwrap_err();
    assert!(
        matches!(refused, StartError::NothingFillsSlots(_)),
        "{refused:?}"
    );
}
