//! Places on a device: as many batches as there are places, and bytes that are taken once.

use std::collections::BTreeSet;

use crate::common::*;

/// A device of 40 bytes with places for batches of 10.
fn device(ahead: usize) -> Plan {
    Plan {
        slots: Some(SlotsPlan {
            bytes_each: 10,
            budget: Some("device".into()),
            ..slots(ahead)
        }),
        budgets: vec![BudgetPlan {
            name: "device".into(),
            bytes: 40,
        }],
        ..plan("slots")
    }
}

fn transferred(plan: Plan, count: u64, work: Work<u64, u64>) -> Pipeline<u64> {
    numbers(plan, count)
        .stage("transfer", work)
        .workers(Setting::fixed(3))
}

#[test]
fn each_item_has_a_place_and_places_are_used_again() {
    for plan in orders(device(2)) {
        let mut running = start(transferred(plan, 100, pass()));
        let deliveries = running.by_ref();
        let used: BTreeSet<u32> = deliveries
            .map(|delivery| item(delivery).into_parts().1.place().unwrap())
            .collect();
        assert!(used.iter().all(|place| *place < 3), "{used:?}");
        let budget = &running.snapshot().budgets[0];
        let bytes = (budget.peak, budget.in_use);
        assert_eq!(bytes, (30, 30), "taken once, and for good");
    }
}

#[test]
fn no_more_items_are_made_than_there_are_places_for() {
    let (made, work) = counting();
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
    let mut running = start(transferred(device(1), 100, pass()));
    let (first, receipt) = next_item(&mut running).into_parts();
    assert_eq!(first, 0);
    let (_, second) = next_item(&mut running).into_parts();
    assert_ne!(second.place(), receipt.place());
    drop((second, receipt));
    assert_eq!(running.count(), 98);
}

#[test]
fn an_item_that_fails_frees_its_place() {
    for plan in both(device(1)) {
        let work = Work::new(|number: u64| match number % 3 {
            0 => Ok(number),
            _ => Err("cannot transfer"),
        });
        let pipeline = transferred(plan, 90, work).on_error(0, AfterError::Skip);
        let (items, gaps) = start(pipeline).finish().unwrap();
        assert_eq!((items, gaps.len()), (30, 60));
    }
}

#[test]
fn without_overlap_one_place_is_used_at_a_time() {
    let pipeline = || transferred(without_overlap(device(1)), 20, pass());
    assert_eq!(items(start(pipeline())), up_to(20));
    // Whoever keeps all places gets an error where an overlapped run would wait for him.
    let mut running = start(pipeline());
    let kept: Vec<_> = running.by_ref().take(2).collect();
    assert!(kept.iter().all(Result::is_ok));
    assert!(matches!(running.next(), Some(Err(RunFailure::Item(_)))));
}

#[test]
fn slots_that_do_not_fit_or_that_nothing_can_fill_are_refused() {
    let error = refused(transferred(device(4), 1, pass()));
    assert!(matches!(error, StartError::Plan(_)), "{error:?}");
    // A batch takes its members as they come; it has no place to put them into beforehand.
    let error = refused(numbers(device(1), 1).batch("transfer", Groups::of(2)));
    assert!(
        matches!(error, StartError::NothingFillsSlots(_)),
        "{error:?}"
    );
}
