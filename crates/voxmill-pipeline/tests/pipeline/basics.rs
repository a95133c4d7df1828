//! What a pipeline does when nothing goes wrong.

use std::convert::Infallible;

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::group::Groups;
use voxmill_pipeline::plan::{Order, Plan, Setting, SlotsPlan};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

pub(crate) fn numbers(plan: Plan, count: u64) -> Pipeline<u64> {
    Pipeline::source(plan, "numbers", move |from| {
        (from..count).map(Ok::<_, Infallible>)
    })
}

pub(crate) fn start<T: Send + 'static>(pipeline: Pipeline<T>) -> Running<T> {
    pipeline.start(Recorder::off()).unwrap()
}

/// Hands each item on as it is.
pub(crate) fn pass() -> Work<u64, u64> {
    Work::new(Ok::<u64, Infallible>)
}

/// Places ahead whose bytes nobody counts.
pub(crate) fn slots(ahead: usize) -> SlotsPlan {
    SlotsPlan {
        ahead: Setting::fixed(ahead),
        bytes_each: 0,
        budget: None,
    }
}

fn plan() -> Plan {
    Plan::new("test", "test")
}

fn doubled(plan: Plan, count: u64, workers: usize) -> Pipeline<u64> {
    let double = Work::new(|number: u64| Ok::<_, Infallible>(number * 2));
    numbers(plan, count)
        .stage("double", double)
        .workers(Setting::fixed(workers))
        .buffer(Setting::fixed(4))
}

/// All items, in the order in which they came.
pub(crate) fn items<T: Clone>(running: Running<T>) -> Vec<T> {
    let item = |delivery| match delivery {
        Ok(Delivery::Item(item)) => T::clone(&item),
        other => panic!("no item: {:?}", other.map(|_| ())),
    };
    running.map(item).collect()
}

#[test]
fn items_come_out_in_order_whatever_the_number_of_workers() {
    for workers in [1, 2, 8] {
        let running = doubled(plan(), 1000, workers)
            .start(Recorder::off())
            .unwrap();
        let expected: Vec<u64> = (0..1000).map(|number| number * 2).collect();
        assert_eq!(items(running), expected);
    }
}

#[test]
fn with_order_free_each_item_comes_once() {
    let plan = Plan {
        order: Order::Free,
        ..plan()
    };
    let pipeline = doubled(plan, 1000, 4);
    let mut out = items(start(pipeline));
    out.sort_unstable();
    assert_eq!(out, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
}

#[test]
fn without_overlap_the_same_comes_out_and_no_thread_is_started() {
    let plan = Plan {
        overlap: false,
        ..plan()
    };
    let here = std::thread::current().id();
    let work = Work::new(move |number: u64| {
        assert_eq!(std::thread::current().id(), here);
        Ok::<_, Infallible>(number * 2)
    });
    let running = numbers(plan, 100)
        .stage("double", work)
        .workers(Setting::fixed(4));
    let doubled: Vec<u64> = (0..100).map(|number| number * 2).collect();
    assert_eq!(items(start(running)), doubled);
}

#[test]
fn batches_hold_their_items_in_order_and_the_last_may_be_short() {
    let running = doubled(plan(), 10, 3)
        .batch("batch", Groups::of(4))
        .start(Recorder::off())
        .unwrap();
    let batches: Vec<Vec<u64>> = running
        .map(|batch| match batch.unwrap() {
            Delivery::Item(batch) => batch
                .members
                .iter()
                .map(|member| *member.as_ref().unwrap())
                .collect(),
            Delivery::Gap(gap) => panic!("{gap:?}"),
        })
        .collect();
    assert_eq!(
        batches,
        [vec![0, 2, 4, 6], vec![8, 10, 12, 14], vec![16, 18]]
    );
}
