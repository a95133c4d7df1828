//! What a pipeline does when nothing goes wrong.

use crate::common::*;

fn doubled(plan: Plan, count: u64, workers: usize) -> Pipeline<u64> {
    let double = Work::new(|number: u64| Ok::<_, Infallible>(number * 2));
    numbers(plan, count)
        .stage("double", double)
        .workers(Setting::fixed(workers))
        .buffer(Setting::fixed(4))
}

fn expected(count: u64) -> Vec<u64> {
    (0..count).map(|number| number * 2).collect()
}

#[test]
fn items_come_out_in_order_whatever_the_number_of_workers() {
    for workers in [1, 2, 8] {
        let running = start(doubled(plan("test"), 1000, workers));
        assert_eq!(items(running), expected(1000), "{workers} workers");
    }
}

#[test]
fn with_order_free_each_item_comes_once() {
    let [_, free] = orders(plan("test"));
    let mut out = items(start(doubled(free, 1000, 4)));
    out.sort_unstable();
    assert_eq!(out, expected(1000));
}

#[test]
fn without_overlap_the_same_comes_out_and_no_thread_is_started() {
    let test_thread = std::thread::current().id();
    let work = Work::new(move |number: u64| {
        assert_eq!(std::thread::current().id(), test_thread);
        Ok::<_, Infallible>(number * 2)
    });
    let pipeline = numbers(without_overlap(plan("test")), 100)
        .stage("double", work)
        .workers(Setting::fixed(4));
    assert_eq!(items(start(pipeline)), expected(100));
}

#[test]
fn batches_hold_their_items_in_order_and_the_last_may_be_short() {
    let running = start(doubled(plan("test"), 10, 3).batch("batch", Groups::of(4)));
    let batches: Vec<_> = running.map(|batch| members(&item(batch))).collect();
    let expected = [vec![0, 2, 4, 6], vec![8, 10, 12, 14], vec![16, 18]];
    assert_eq!(
        batches,
        expected.map(|batch| batch.into_iter().map(Ok).collect::<Vec<_>>())
    );
}
