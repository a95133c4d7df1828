//! What a road does when nothing goes wrong.

use std::convert::Infallible;

use voxmill_pipeline::group::Groups;
use voxmill_pipeline::road::Road;
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::plan::{Order, Plan, Setting, StagePlan};
use voxmill_telemetry::recorder::Recorder;

pub(crate) fn numbers(plan: Plan, count: u64) -> Road<u64> {
    Road::source(plan, "numbers", move |from| {
        (from..count).map(Ok::<_, Infallible>)
    })
}

fn doubling(workers: usize) -> Plan {
    Plan::new("test", "test")
        .stage(StagePlan::new("numbers"))
        .stage(
            StagePlan::new("double")
                .workers(Setting::fixed(workers))
                .buffer(Setting::fixed(4)),
        )
}

fn double() -> Work<u64, u64> {
    Work::new(|number: u64| Ok::<_, Infallible>(number * 2))
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
        let running = numbers(doubling(workers), 1000).stage("double", double());
        let running = running.start(Recorder::off()).unwrap();
        let doubled: Vec<u64> = (0..1000).map(|number| number * 2).collect();
        assert_eq!(items(running), doubled);
    }
}

#[test]
fn with_order_free_each_item_comes_once() {
    let mut plan = doubling(4);
    plan.order = Order::Free;
    let running = numbers(plan, 1000).stage("double", double());
    let mut out = items(running.start(Recorder::off()).unwrap());
    out.sort_unstable();
    assert_eq!(out, (0..1000).map(|number| number * 2).collect::<Vec<_>>());
}

#[test]
fn without_overlap_the_same_comes_out_and_no_thread_is_started() {
    let mut plan = doubling(4);
    plan.overlap = false;
    let here = std::thread::current().id();
    let work = Work::new(move |number: u64| {
        assert_eq!(std::thread::current().id(), here);
        Ok::<_, Infallible>(number * 2)
    });
    let running = numbers(plan, 100).stage("double", work);
    let doubled: Vec<u64> = (0..100).map(|number| number * 2).collect();
    assert_eq!(items(running.start(Recorder::off()).unwrap()), doubled);
}

#[test]
fn batches_hold_their_items_in_order_and_the_last_may_be_short() {
    let plan = doubling(3).stage(StagePlan::new("batch"));
    let running = numbers(plan, 10)
        .stage("double", double())
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
            Delivery::Hole(hole) => panic!("{hole:?}"),
        })
        .collect();
    assert_eq!(
        batches,
        [vec![0, 2, 4, 6], vec![8, 10, 12, 14], vec![16, 18]]
    );
}
