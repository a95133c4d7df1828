//! Buffer, budget, slots and turnstile under a model checker: every way in which a few threads can be
//! interleaved, up to a bound of forced switches, is tried. A lost wake-up shows as a deadlock.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p voxmill-sync --test loom`

#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

use std::sync::Arc;

use loom::thread::{self, JoinHandle};
use voxmill_sync::budget::{Budget, Refused};
use voxmill_sync::buffer::{Buffer, Tap};
use voxmill_sync::slots::{NoSlot, Slots};
use voxmill_sync::turn::Turnstile;
use voxmill_telemetry::plan::Order;
use voxmill_telemetry::recorder::Recorder;

/// Most bugs need one or two forced switches to show. Four keep all of it within seconds.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(check);
}

/// The model with a buffer that keeps order, and with one that does not.
fn model_orders(capacity: usize, check: impl Fn(Arc<Buffer<u64>>) + Send + Sync + Clone + 'static) {
    for order in [Order::Kept, Order::Free] {
        let check = check.clone();
        model(move || check(shared(order, capacity)));
    }
}

fn shared(order: Order, capacity: usize) -> Arc<Buffer<u64>> {
    Arc::new(Buffer::new("under test", order, capacity, 0))
}

/// A thread that has its share of what is tested.
fn spawn<S: 'static, R: 'static>(
    shared: &Arc<S>,
    run: impl FnOnce(Arc<S>) -> R + 'static,
) -> JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(shared))
}

fn push(buffer: &Arc<Buffer<u64>>, numbers: &'static [u64]) -> JoinHandle<()> {
    spawn(buffer, move |buffer| {
        for &number in numbers {
            buffer.push(number, number, || ()).unwrap();
        }
    })
}

/// One item. From so small a buffer a tap takes no more at a time.
fn pop(buffer: &Arc<Buffer<u64>>) -> Option<u64> {
    Tap::new(Arc::clone(buffer)).next(|| ())
}

fn pop_in_thread(buffer: &Arc<Buffer<u64>>) -> JoinHandle<Option<u64>> {
    spawn(buffer, |buffer| pop(&buffer))
}

fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn assert_sorted<const N: usize>(mut out: [Option<u64>; N], expected: [Option<u64>; N]) {
    out.sort_unstable();
    assert_eq!(out, expected);
}

#[test]
fn kept_order_two_producers_out_of_order_one_place() {
    model(|| {
        let buffer = shared(Order::Kept, 1);
        let producers = [push(&buffer, &[1]), push(&buffer, &[0, 2])];
        for expected in 0..3 {
            assert_eq!(pop(&buffer), Some(expected));
        }
        join_all(producers);
        assert_eq!(buffer.level().items, 0);
    });
}

#[test]
fn kept_order_two_producers_and_two_places() {
    model(|| {
        let buffer = shared(Order::Kept, 2);
        let producers = [push(&buffer, &[1, 2]), push(&buffer, &[0, 3])];
        for expected in 0..4 {
            assert_eq!(pop(&buffer), Some(expected));
        }
        join_all(producers);
    });
}

/// A tap on a large buffer has several items in hand, and their places are free only when it comes
/// back: whoever waits for one must be woken then.
#[test]
fn what_a_tap_has_in_hand_counts_until_it_comes_back() {
    model_orders(16, |buffer| {
        for number in 0..16 {
            buffer.push(number, number, || ()).unwrap();
        }
        let producer = push(&buffer, &[16, 17, 18]);
        let mut tap = Tap::new(Arc::clone(&buffer));
        for expected in 0..19 {
            assert_eq!(tap.next(|| ()), Some(expected));
            assert!(buffer.level().items <= 16);
        }
        join_all([producer]);
    });
}

#[test]
fn free_order_loses_and_repeats_nothing() {
    model(|| {
        let buffer = shared(Order::Free, 1);
        let producers = [push(&buffer, &[0, 1]), push(&buffer, &[2])];
        assert_sorted([0; 3].map(|_| pop(&buffer)), [Some(0), Some(1), Some(2)]);
        join_all(producers);
    });
}

#[test]
fn two_consumers_share_what_comes() {
    model_orders(1, |buffer| {
        let other = pop_in_thread(&buffer);
        let producer = push(&buffer, &[0, 1]);
        assert_sorted([pop(&buffer), other.join().unwrap()], [Some(0), Some(1)]);
        producer.join().unwrap();
    });
}

#[test]
fn one_item_that_closes_a_gap_wakes_all_who_can_continue() {
    model(|| {
        let buffer = shared(Order::Kept, 2);
        buffer.push(1, 1, || ()).unwrap();
        let consumers = [0; 2].map(|_| pop_in_thread(&buffer));
        buffer.push(0, 0, || ()).unwrap();
        let out = consumers.map(|consumer| consumer.join().unwrap());
        assert_sorted(out, [Some(0), Some(1)]);
    });
}

#[test]
fn closing_lets_everyone_go_after_the_last_item() {
    model_orders(1, |buffer| {
        let consumer = spawn(&buffer, |buffer| [pop(&buffer), pop(&buffer)]);
        buffer.push(0, 0, || ()).unwrap();
        buffer.close();
        assert_eq!(consumer.join().unwrap(), [Some(0), None]);
    });
}

#[test]
fn closing_with_two_consumers_waiting() {
    model(|| {
        let buffer = shared(Order::Kept, 1);
        let other = pop_in_thread(&buffer);
        let closer = spawn(&buffer, |buffer| {
            buffer.push(0, 0, || ()).unwrap();
            buffer.close();
        });
        assert_sorted([pop(&buffer), other.join().unwrap()], [None, Some(0)]);
        closer.join().unwrap();
    });
}

#[test]
fn closing_an_empty_buffer_with_two_consumers_waiting() {
    model(|| {
        let buffer = shared(Order::Free, 1);
        let consumers = [0; 2].map(|_| pop_in_thread(&buffer));
        buffer.close();
        for consumer in consumers {
            assert_eq!(consumer.join().unwrap(), None);
        }
    });
}

#[test]
fn cancelling_lets_go_of_those_who_push_and_those_who_pop() {
    model_orders(1, |buffer| {
        // The second has room only once the first was taken; either may come too late.
        let producer = spawn(&buffer, |buffer| {
            buffer.push(0, 0, || ()).is_ok() && buffer.push(1, 1, || ()).is_ok()
        });
        let canceller = spawn(&buffer, |buffer| buffer.cancel());
        let taken = std::iter::from_fn(|| pop(&buffer)).count();
        let all_in = producer.join().unwrap();
        canceller.join().unwrap();
        assert!(taken <= 1 || all_in);
        assert_eq!(buffer.push(2, 2, || ()), Err(2));
        assert_eq!(buffer.level().items, 0);
    });
}

#[test]
fn more_room_wakes_those_who_wait_for_it() {
    model_orders(1, |buffer| {
        let producers = [push(&buffer, &[0]), push(&buffer, &[1])];
        buffer.set_capacity(2);
        join_all(producers);
        assert_eq!(buffer.level().items, 2);
    });
}

#[test]
fn less_room_loses_nothing() {
    model_orders(2, |buffer| {
        let producer = push(&buffer, &[0, 1, 2]);
        let changer = spawn(&buffer, |buffer| buffer.set_capacity(1));
        for expected in 0..3 {
            assert_eq!(pop(&buffer), Some(expected));
        }
        join_all([producer, changer]);
    });
}

#[test]
fn a_budget_serves_everyone_and_is_never_exceeded() {
    model(|| {
        let budget = Budget::new("host", 2);
        let askers = [1, 2].map(|bytes| {
            spawn(&budget, move |budget| {
                drop(budget.reserve(bytes, || ()).unwrap());
            })
        });
        drop(budget.reserve(2, || ()).unwrap());
        join_all(askers);
        let usage = budget.usage();
        assert_eq!(usage.in_use, 0);
        assert!(usage.peak <= 2);
    });
}

#[test]
fn a_small_request_does_not_overtake_a_large_one_that_waits() {
    model(|| {
        let budget = Budget::new("host", 2);
        let first = budget.reserve(1, || ()).unwrap();
        let (waits, is_waiting) = loom::sync::mpsc::channel();
        let (served, order) = loom::sync::mpsc::channel();
        let large_served = served.clone();
        let large = spawn(&budget, move |budget| {
            let large = budget.reserve(2, || waits.send(()).unwrap()).unwrap();
            large_served.send("large").unwrap();
            drop(large);
        });
        // There is a byte left, but someone asked before.
        is_waiting.recv().unwrap();
        let small = spawn(&budget, move |budget| {
            let small = budget.reserve(1, || ()).unwrap();
            served.send("small").unwrap();
            drop(small);
        });
        drop(first);
        join_all([large, small]);
        let served = [order.recv().unwrap(), order.recv().unwrap()];
        assert_eq!(served, ["large", "small"]);
    });
}

#[test]
fn shrinking_and_raising_the_limit_let_the_next_one_in() {
    model(|| {
        let budget = Budget::new("host", 2);
        let mut first = budget.reserve(2, || ()).unwrap();
        let others = [0; 2].map(|_| spawn(&budget, |budget| budget.reserve(1, || ()).unwrap()));
        first.shrink_to(1).unwrap();
        budget.set_limit(3);
        let others = others.map(|other| other.join().unwrap());
        assert_eq!(budget.usage().in_use, 3);
        drop((first, others));
        assert_eq!(budget.usage().in_use, 0);
    });
}

#[test]
fn who_waits_for_bytes_that_cannot_come_free_gets_an_error() {
    model(|| {
        let budget = Budget::new("host", 2);
        let held = [0; 2].map(|_| budget.reserve(1, || ()).unwrap());
        let asker = spawn(&budget, |budget| budget.reserve(1, || ()));
        let _parked = held.map(|mut held| {
            held.set_parked(true);
            held
        });
        let refused = asker.join().unwrap().unwrap_err();
        assert!(matches!(refused, Refused::Stuck { .. }), "{refused:?}");
    });
}

#[test]
fn bytes_that_are_parked_for_a_while_are_waited_for_as_long_as_others_move() {
    model(|| {
        let budget = Budget::new("host", 2);
        let mut first = budget.reserve(1, || ()).unwrap();
        let second = budget.reserve(1, || ()).unwrap();
        let asker = spawn(&budget, |budget| budget.reserve(1, || ()).map(drop));
        // A group waits for its second member, which then comes.
        first.set_parked(true);
        first.set_parked(false);
        drop(first);
        drop(second);
        assert_eq!(asker.join().unwrap(), Ok(()));
    });
}

#[test]
fn cancelling_a_budget_lets_all_askers_go() {
    model(|| {
        let budget = Budget::new("host", 1);
        let held = budget.reserve(1, || ()).unwrap();
        let askers = [0; 2].map(|_| spawn(&budget, |budget| budget.reserve(1, || ()).map(drop)));
        budget.cancel();
        for asker in askers {
            assert_eq!(asker.join().unwrap(), Err(Refused::Cancelled));
        }
        drop(held);
    });
}

#[test]
fn a_slot_goes_from_hand_to_hand() {
    model(|| {
        let slots = Slots::new(1, Recorder::off());
        let others = [1, 2].map(|item| {
            spawn(&slots, move |slots| {
                drop(slots.acquire(item, || ()).unwrap().ready());
            })
        });
        drop(slots.acquire(0, || ()).unwrap().ready().train());
        join_all(others);
        assert_eq!(slots.free(), 1);
    });
}

#[test]
fn two_slots_and_three_who_want_one() {
    model(|| {
        let slots = Slots::new(2, Recorder::off());
        let others = [1, 2].map(|item| {
            spawn(&slots, move |slots| {
                let slot = slots.acquire(item, || ()).unwrap();
                assert!(slots.free() < 2);
                drop(slot);
            })
        });
        let slot = slots.acquire(0, || ()).unwrap();
        drop(slot.ready().train());
        join_all(others);
        assert_eq!(slots.free(), 2);
    });
}

#[test]
fn cancelling_slots_lets_all_who_wait_go() {
    model(|| {
        let slots = Slots::new(1, Recorder::off());
        let held = slots.acquire(0, || ()).unwrap();
        let others =
            [1, 2].map(|item| spawn(&slots, move |slots| slots.acquire(item, || ()).map(drop)));
        slots.cancel();
        for other in others {
            assert_eq!(other.join().unwrap(), Err(NoSlot::Cancelled));
        }
        drop(held);
        assert_eq!(slots.free(), 1);
    });
}

/// One is woken at a time, and none while one is on its way; all get their turn all the same.
#[test]
fn everyone_gets_a_turn() {
    model(|| {
        let turnstile = Arc::new(Turnstile::new(0));
        let others = [2, 1].map(|turns| {
            spawn(&turnstile, move |turnstile| {
                for _ in 0..turns {
                    *turnstile.take(|| ()) += 1;
                }
            })
        });
        *turnstile.take(|| ()) += 1;
        join_all(others);
        assert_eq!(*turnstile.take(|| ()), 4);
    });
}
