//! A position is enough to go on from; random ones, with all that can go wrong, are in `random_runs`.

use std::convert::Infallible;
use std::time::Duration;

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::group::{Group, Groups};
use voxmill_pipeline::plan::{AfterError, Order, Plan, Setting};
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::Delivery;
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{items, numbers, pass, start};
use crate::watchdog::watch;

fn plan(order: Order) -> Plan {
    Plan {
        order,
        ..Plan::new("resume", "consumer")
    }
}

/// Every third item is late, every seventh is bad.
fn uneven() -> Work<u64, u64> {
    Work::new(|number: u64| {
        if number.is_multiple_of(3) {
            std::thread::sleep(Duration::from_micros(100));
        }
        if number % 7 == 6 {
            return Err("bad");
        }
        Ok(number)
    })
}

fn pipeline(workers: usize, order: Order) -> Pipeline<u64> {
    numbers(plan(order), 60)
        .stage("work", uneven())
        .workers(Setting::fixed(workers))
        .on_error(0, AfterError::Skip)
}

/// Takes some and stops; what was taken and where it stands. By way of text, as a checkpoint would.
fn take(pipeline: Pipeline<u64>, count: usize) -> (Vec<u64>, ResumePoint) {
    let mut running = start(pipeline);
    let taken = running.by_ref().take(count).map(|delivery| match delivery {
        Ok(Delivery::Item(item)) => {
            let number = item.number();
            item.done();
            number
        }
        Ok(Delivery::Gap(gap)) => gap.number,
        Err(failure) => panic!("{failure}"),
    });
    let taken = taken.collect();
    let stored = serde_json::to_string(&running.resume_point()).unwrap();
    (taken, serde_json::from_str(&stored).unwrap())
}

#[test]
fn a_run_goes_on_with_exactly_the_next_item_with_any_number_of_workers() {
    let _watched = watch("resume in order");
    for stop in [0, 1, 7, 59, 60] {
        for (before, after) in [(1, 4), (4, 1)] {
            let (mut seen, position) = take(pipeline(before, Order::Kept), stop);
            assert_eq!(position, ResumePoint::at(stop as u64));
            seen.extend(take(pipeline(after, Order::Kept).resume_at(position), 100).0);
            assert_eq!(seen, (0..60).collect::<Vec<_>>());
        }
    }
}

#[test]
fn in_any_order_the_position_also_lists_what_was_done_beyond_it() {
    let _watched = watch("resume in any order");
    for stop in [1, 13, 40] {
        let (mut seen, position) = take(pipeline(4, Order::Free), stop);
        assert_eq!(position.next as usize + position.beyond.len(), stop);
        assert!(seen.iter().all(|number| position.is_done(*number)));
        seen.extend(take(pipeline(2, Order::Free).resume_at(position), 100).0);
        seen.sort_unstable();
        assert_eq!(seen, (0..60).collect::<Vec<_>>());
    }
}

#[test]
fn a_position_of_an_unordered_run_can_be_resumed_in_order() {
    let _watched = watch("resume unordered in order");
    let position = ResumePoint {
        next: 3,
        beyond: [4, 7].into(),
    };
    let (seen, end) = take(pipeline(4, Order::Kept).resume_at(position), 100);
    let expected: Vec<_> = [3, 5, 6].into_iter().chain(8..60).collect();
    assert_eq!(seen, expected);
    assert_eq!(end, ResumePoint::at(60));
}

#[test]
fn an_item_in_the_consumers_hands_is_not_done_yet() {
    let _watched = watch("in hand");
    let mut running = pipeline(2, Order::Kept).start(Recorder::off()).unwrap();
    let mut next = || match running.next() {
        Some(Ok(Delivery::Item(item))) => item,
        other => panic!("{other:?}"),
    };
    let (first, second, third) = (next(), next(), next());
    let control = running.control();
    assert_eq!(control.resume_point(), ResumePoint::at(0));
    second.done();
    assert_eq!(control.resume_point().beyond, [1].into());
    first.done();
    assert_eq!(control.resume_point(), ResumePoint::at(2));
    // A step that fails lets go of its item, which is then still to be done.
    drop(third);
    assert_eq!(control.resume_point(), ResumePoint::at(2));
}

fn batches(order: Order) -> Pipeline<Group<u64>> {
    // Batches of 1, 2, 3, …
    let triangle = Groups::beginning_at(|group| group * (group + 1) / 2);
    pipeline(3, order).batch("batch", triangle)
}

#[test]
fn with_batches_the_position_counts_batches() {
    let _watched = watch("resume batches");
    for order in [Order::Kept, Order::Free] {
        for stop in [0, 1, 5, 9] {
            let mut members = Vec::new();
            let mut position = ResumePoint::default();
            for count in [stop, 100] {
                let pipeline = batches(order).resume_at(position.clone());
                let mut running = start(pipeline);
                for batch in running.by_ref().take(count) {
                    let Ok(Delivery::Item(batch)) = batch else {
                        panic!("{batch:?}");
                    };
                    let number = |member: &Result<u64, _>| match member {
                        Ok(number) => *number,
                        Err(gap) => voxmill_pipeline::item::Gap::clone(gap).number,
                    };
                    members.extend(batch.members.iter().map(number));
                    batch.done();
                }
                position = running.resume_point();
            }
            members.sort_unstable();
            assert_eq!(members, (0..60).collect::<Vec<_>>(), "{order:?}, {stop}");
        }
    }
}

#[test]
fn the_source_is_asked_from_the_first_item_that_is_not_done() {
    let _watched = watch("source from");
    let (tell, told) = std::sync::mpsc::channel();
    let source = Pipeline::source(plan(Order::Kept), "numbers", move |from| {
        tell.send(from).unwrap();
        (from..60).map(Ok::<u64, Infallible>)
    });
    let pipeline = source.stage("work", pass());
    let running = pipeline
        .resume_at(ResumePoint::at(41))
        .start(Recorder::off());
    assert_eq!(items(running.unwrap())[0], 41);
    assert_eq!(told.recv().unwrap(), 41);
}
