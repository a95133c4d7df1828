//! What the tests share: the names they use, and pipelines of numbers.

pub(crate) use std::convert::Infallible;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
pub(crate) use std::sync::{Arc, Mutex, mpsc};
pub(crate) use std::time::{Duration, Instant};

pub(crate) use voxmill_pipeline::group::{Group, Groups};
pub(crate) use voxmill_pipeline::item::{BoxError, Gap, ItemFault, RunFailure};
pub(crate) use voxmill_pipeline::plan::{
    AdaptPlan, AfterError, BudgetPlan, Order, Plan, Setting, SlotsPlan,
};
pub(crate) use voxmill_pipeline::resume::ResumePoint;
pub(crate) use voxmill_pipeline::run::{Delivered, Delivery, Running};
pub(crate) use voxmill_pipeline::stage::Work;
pub(crate) use voxmill_pipeline::{Pipeline, StartError};
pub(crate) use voxmill_telemetry::event::FaultKind;
pub(crate) use voxmill_telemetry::recorder::Recorder;

pub(crate) use crate::watchdog::{ON_PURPOSE, watch, watch_this_test};

/// Consumed by the test.
pub(crate) fn plan(name: &str) -> Plan {
    Plan::new(name, "consumer")
}

/// With and without overlap.
pub(crate) fn both(plan: Plan) -> [Plan; 2] {
    [true, false].map(|overlap| Plan {
        overlap,
        ..plan.clone()
    })
}

/// In order and in any order.
pub(crate) fn orders(plan: Plan) -> [Plan; 2] {
    [Order::Kept, Order::Free].map(|order| Plan {
        order,
        ..plan.clone()
    })
}

pub(crate) fn without_overlap(plan: Plan) -> Plan {
    let [_, without] = both(plan);
    without
}

/// Places ahead whose bytes nobody counts.
pub(crate) fn slots(ahead: usize) -> SlotsPlan {
    SlotsPlan {
        ahead: Setting::fixed(ahead),
        bytes_each: 0,
        budget: None,
    }
}

/// The numbers below `count`, from a source of this name that does something before each.
pub(crate) fn source(
    plan: Plan,
    name: &str,
    count: u64,
    mut before: impl FnMut(u64) + Send + 'static,
) -> Pipeline<u64> {
    Pipeline::source(plan, name, move |from| {
        (from..count).map(move |number| {
            before(number);
            Ok::<_, Infallible>(number)
        })
    })
}

pub(crate) fn numbers(plan: Plan, count: u64) -> Pipeline<u64> {
    source(plan, "numbers", count, |_| ())
}

/// A source that ends without an item, when the other end of the channel is dropped.
pub(crate) fn silent(plan: Plan, name: &str, blocks: mpsc::Receiver<()>) -> Pipeline<u64> {
    Pipeline::source(plan, name, move |_| {
        std::iter::from_fn(move || {
            let _ = blocks.recv();
            None::<Result<u64, Infallible>>
        })
    })
}

/// Does something with each number and hands it on.
pub(crate) fn each(run: impl Fn(u64) + Send + Sync + 'static) -> Work<u64, u64> {
    Work::new(move |number| {
        run(number);
        Ok::<_, Infallible>(number)
    })
}

pub(crate) fn pass() -> Work<u64, u64> {
    each(|_| ())
}

/// Counts the items that it hands on.
pub(crate) fn counting() -> (Arc<AtomicU64>, Work<u64, u64>) {
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let work = each(move |_| {
        count.fetch_add(1, SeqCst);
    });
    (made, work)
}

pub(crate) fn failing_at(bad: &'static [u64]) -> Work<u64, u64> {
    Work::new(move |number: u64| match bad.contains(&number) {
        true => Err(format!("{number} is bad")),
        false => Ok(number),
    })
}

pub(crate) fn start<T: Send + 'static>(pipeline: Pipeline<T>) -> Running<T> {
    start_with(pipeline, Recorder::off())
}

/// From here on the test is watched: a run that hangs aborts it with a message.
pub(crate) fn start_with<T: Send + 'static>(
    pipeline: Pipeline<T>,
    recorder: Recorder,
) -> Running<T> {
    watch_this_test(&pipeline.plan().name);
    pipeline.start(recorder).unwrap()
}

pub(crate) fn refused<T: Send + 'static>(pipeline: Pipeline<T>) -> StartError {
    pipeline.start(Recorder::off()).unwrap_err()
}

/// What was delivered must be an item.
pub(crate) fn item<T>(delivery: Result<Delivery<T>, RunFailure>) -> Delivered<T> {
    match delivery {
        Ok(Delivery::Item(item)) => item,
        other => panic!("no item: {:?}", other.map(|_| "a gap")),
    }
}

pub(crate) fn next_item<T>(running: &mut Running<T>) -> Delivered<T> {
    item(running.next().unwrap())
}

/// All items, in the order in which they came.
pub(crate) fn items<T: Clone>(running: Running<T>) -> Vec<T> {
    running.map(|delivery| T::clone(&item(delivery))).collect()
}

/// The numbers of each batch's members; `Err` where there is a gap.
pub(crate) fn members(batch: &Group<u64>) -> Vec<Result<u64, u64>> {
    let members = batch.members.iter();
    members
        .map(|member| member.as_ref().copied().map_err(|gap| gap.number))
        .collect()
}

/// The run must have ended with the fault of an item.
pub(crate) fn fault(failure: impl Into<Option<RunFailure>>) -> Arc<ItemFault> {
    match failure.into() {
        Some(RunFailure::Item(fault)) => fault,
        other => panic!("no fault of an item: {other:?}"),
    }
}

pub(crate) fn numbers_and_kinds(gaps: &[Gap]) -> Vec<(u64, FaultKind)> {
    gaps.iter()
        .map(|gap| (gap.number, gap.fault.kind))
        .collect()
}

pub(crate) fn up_to(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// The watchdog is there for when it never is.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}
