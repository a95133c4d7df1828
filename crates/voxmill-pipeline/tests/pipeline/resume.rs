//! A resume point is enough to resume from; random ones, with all that can go wrong, are in `random_runs`.

use crate::common::*;

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
    let plan = Plan {
        order,
        ..plan("resume")
    };
    numbers(plan, 60)
        .stage("work", uneven())
        .workers(Setting::fixed(workers))
        .on_error(0, AfterError::Skip)
}

/// Takes some and stops; what was taken and where to resume. By way of text, as a checkpoint would.
fn take(pipeline: Pipeline<u64>, count: usize) -> (Vec<u64>, ResumePoint) {
    let mut running = start(pipeline);
    let taken = running.by_ref().take(count).map(|delivery| match delivery {
        Ok(Delivery::Gap(gap)) => gap.number,
        other => {
            let item = item(other);
            let number = item.number();
            item.done();
            number
        }
    });
    let taken = taken.collect();
    let stored = serde_json::to_string(&running.resume_point()).unwrap();
    (taken, serde_json::from_str(&stored).unwrap())
}

#[test]
fn a_run_resumes_with_exactly_the_next_item_with_any_number_of_workers() {
    for stop in [0, 1, 7, 59, 60] {
        for (before, after) in [(1, 4), (4, 1)] {
            let (mut seen, point) = take(pipeline(before, Order::Kept), stop);
            assert_eq!(point, ResumePoint::at(stop as u64));
            seen.extend(take(pipeline(after, Order::Kept).resume_at(point), 100).0);
            assert_eq!(seen, up_to(60));
        }
    }
}

#[test]
fn in_any_order_the_resume_point_also_lists_what_was_done_beyond_it() {
    for stop in [1, 13, 40] {
        let (mut seen, point) = take(pipeline(4, Order::Free), stop);
        assert_eq!(point.next as usize + point.beyond.len(), stop);
        assert!(seen.iter().all(|number| point.is_done(*number)));
        seen.extend(take(pipeline(2, Order::Free).resume_at(point), 100).0);
        seen.sort_unstable();
        assert_eq!(seen, up_to(60));
    }
}

#[test]
fn an_unordered_run_can_be_resumed_in_order() {
    let point = ResumePoint {
        next: 3,
        beyond: [4, 7].into(),
    };
    let (seen, end) = take(pipeline(4, Order::Kept).resume_at(point), 100);
    let expected: Vec<_> = [3, 5, 6].into_iter().chain(8..60).collect();
    assert_eq!(seen, expected);
    assert_eq!(end, ResumePoint::at(60));
}

#[test]
fn an_item_in_the_consumers_hands_is_not_done_yet() {
    let mut running = start(pipeline(2, Order::Kept));
    let [first, second, third] = [0; 3].map(|_| next_item(&mut running));
    let control = running.control();
    assert_eq!(control.resume_point(), ResumePoint::at(0));
    second.done();
    assert_eq!(control.resume_point().beyond, [1].into());
    first.done();
    assert_eq!(control.resume_point(), ResumePoint::at(2));
    // A step that fails drops its item, which is then still to be done.
    drop(third);
    assert_eq!(control.resume_point(), ResumePoint::at(2));
}

#[test]
fn with_batches_the_resume_point_counts_batches() {
    for order in [Order::Kept, Order::Free] {
        for stop in [0, 1, 5, 9] {
            let mut seen = Vec::new();
            let mut point = ResumePoint::default();
            for count in [stop, 100] {
                // Batches of 1, 2, 3, …
                let triangle = Groups::beginning_at(|group| group * (group + 1) / 2);
                let batches = pipeline(3, order).batch("batch", triangle);
                let mut running = start(batches.resume_at(point.clone()));
                for batch in running.by_ref().take(count) {
                    let batch = item(batch);
                    let numbers = members(&batch).into_iter();
                    seen.extend(numbers.map(|member| member.unwrap_or_else(|gap| gap)));
                    batch.done();
                }
                point = running.resume_point();
            }
            seen.sort_unstable();
            assert_eq!(seen, up_to(60), "{order:?}, {stop}");
        }
    }
}

#[test]
fn the_source_is_asked_from_the_first_item_that_is_not_done() {
    let (send, first) = mpsc::channel();
    let source = Pipeline::source(plan("resume"), "numbers", move |from| {
        send.send(from).unwrap();
        (from..60).map(Ok::<u64, Infallible>)
    });
    let pipeline = source.stage("work", pass());
    assert_eq!(items(start(pipeline.resume_at(ResumePoint::at(41))))[0], 41);
    assert_eq!(first.recv().unwrap(), 41);
}
