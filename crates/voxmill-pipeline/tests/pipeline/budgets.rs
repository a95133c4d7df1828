//! Bytes in flight: admitted before they are allocated, in item order, never more than there may be.

use crate::common::*;

/// Numbers that are loaded by some workers within a budget.
fn loading(
    plan: Plan,
    count: u64,
    load: Work<u64, u64>,
    workers: usize,
    budget: u64,
) -> Pipeline<u64> {
    loaded(numbers(plan, count), load, workers, budget)
}

fn loaded(
    source: Pipeline<u64>,
    load: Work<u64, u64>,
    workers: usize,
    budget: u64,
) -> Pipeline<u64> {
    source
        .buffer(Setting::fixed(8))
        .budget("host", budget)
        .stage("load", load)
        .workers(Setting::fixed(workers))
        .buffer(Setting::fixed(8))
        .in_budget("host")
}

fn batching(loaded: Pipeline<u64>, size: usize) -> Pipeline<Group<u64>> {
    loaded.batch("batch", Groups::of(size)).in_budget("host")
}

fn plans() -> [Plan; 2] {
    both(plan("budgets"))
}

#[test]
fn in_use_never_exceeds_the_budget_and_comes_back_to_nothing() {
    for plan in plans() {
        let load = pass().reserving(|number| 1 + number % 5);
        let mut running = start(loading(plan, 200, load, 4, 10));
        for delivery in running.by_ref() {
            let (number, receipt) = item(delivery).into_parts();
            assert_eq!(receipt.bytes(), 1 + number % 5);
        }
        let budget = &running.snapshot().budgets[0];
        assert!(budget.peak <= 10 && budget.peak >= 5, "{budget:?}");
        assert_eq!(budget.in_use, 0);
    }
}

#[test]
fn bytes_are_granted_in_item_order_however_late_an_early_item_is() {
    // There is room for two. The first item is not done before four others had every chance to
    // take its bytes; were they granted to whoever comes, all would wait for item 0 for ever.
    for round in 0..20 {
        let started = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&started);
        let work = each(move |number| {
            count.fetch_add(1, SeqCst);
            if number.is_multiple_of(5) {
                std::thread::sleep(Duration::from_micros(200 * round));
            }
        });
        let pipeline = loading(plan("budgets"), 25, work.reserving(|_| 1), 5, 2);
        assert_eq!(items(start(pipeline)), up_to(25));
        assert_eq!(started.load(SeqCst), 25);
    }
}

#[test]
fn an_item_larger_than_the_whole_budget_is_an_error_of_its_own() {
    let size = |number: &u64| if *number == 3 { 11 } else { 4 };
    for plan in plans() {
        let pipeline = || loading(plan.clone(), 9, pass().reserving(size), 2, 10);
        let mut running = start(pipeline());
        assert_eq!(running.by_ref().take(3).filter(Result::is_ok).count(), 3);
        let fault = fault(running.next().unwrap().err());
        assert_eq!((fault.kind, fault.item), (FaultKind::TooLarge, 3));
        let message = "needs 11 bytes, and the whole budget `host` is 10 bytes";
        assert_eq!(fault.error.to_string(), message);

        let (items, gaps) = start(pipeline().on_error(0, AfterError::Skip))
            .finish()
            .unwrap();
        assert_eq!((items, gaps.len(), gaps[0].number), (8, 1, 3));
    }
}

#[test]
fn an_item_that_outgrows_what_it_reserved_is_an_error() {
    for plan in plans() {
        let work = pass().reserving(|_| 4).keeping(|number| *number);
        let fault = fault(start(loading(plan, 9, work, 2, 10)).finish().unwrap_err());
        assert_eq!((fault.kind, fault.item), (FaultKind::Outgrown, 5));
    }
}

#[test]
fn what_an_item_does_not_need_is_released_while_it_still_waits() {
    // Each reserves all there is and keeps a tenth of it: the buffer can fill all the same.
    let work = pass().reserving(|_| 10).keeping(|_| 0);
    let mut running = start(loading(plan("budgets"), 8, work, 2, 10));
    wait_until(|| running.snapshot().stages[1].buffered >= 8);
    assert_eq!(running.finish().unwrap().0, 8);
}

#[test]
fn a_size_that_panics_is_an_error_of_its_item() {
    for plan in plans() {
        let panics_at = |bad: u64| {
            move |number: &u64| {
                assert!(*number != bad, "{ON_PURPOSE}");
                1
            }
        };
        let work = pass().reserving(panics_at(2)).keeping(panics_at(4));
        let skipping = loading(plan, 9, work, 2, 10).on_error(0, AfterError::Skip);
        let (items, gaps) = start(skipping).finish().unwrap();
        assert_eq!(items, 7);
        let expected = [(2, FaultKind::Panic), (4, FaultKind::Panic)];
        assert_eq!(numbers_and_kinds(&gaps), expected);
    }
}

#[test]
fn a_batch_holds_the_bytes_of_its_members_until_it_is_done() {
    for plan in plans() {
        let load = pass().reserving(|number| 1 + number % 3);
        let mut running = start(batching(loading(plan, 12, load, 3, 12), 3));
        for batch in running.by_ref() {
            assert_eq!(item(batch).into_parts().1.bytes(), 1 + 2 + 3);
        }
        let budget = &running.snapshot().budgets[0];
        assert!(budget.peak <= 12 && budget.in_use == 0, "{budget:?}");
    }
}

#[test]
fn a_batch_that_does_not_fit_is_an_error_and_not_a_hang() {
    for plan in plans() {
        let pipeline = batching(loading(plan, 12, pass().reserving(|_| 1), 3, 3), 4);
        let fault = fault(start(pipeline).finish().unwrap_err());
        assert_eq!((fault.kind, fault.item), (FaultKind::TooLarge, 3));
        let message = fault.error.to_string();
        assert!(message.contains("cannot continue without it"), "{message}");
    }
}

/// Sizes of four items, of which item 2 needs the whole budget; and what another stage calls to wait
/// until item 2 has asked for it.
fn asking(
    sizes: [u64; 4],
    load: Work<u64, u64>,
) -> (Work<u64, u64>, impl Fn() + Send + Sync + 'static) {
    let (asks, asked) = mpsc::channel();
    let asked = Mutex::new(asked);
    let load = load.reserving(move |number| {
        if *number == 2 {
            asks.send(()).unwrap();
        }
        sizes[*number as usize]
    });
    let linger = move || {
        asked.lock().unwrap().recv().unwrap();
        // Time to give up in, for those who would.
        std::thread::sleep(Duration::from_millis(20));
    };
    (load, linger)
}

#[test]
fn members_without_bytes_that_are_still_on_their_way_are_waited_for() {
    // The batch of 0 and 1 holds a byte and waits for item 1, which holds none. Item 2 needs both
    // bytes: it must wait for that batch, not give up because all bytes wait.
    let (load, linger) = asking([1, 0, 2, 0], pass());
    let linger = each(move |number| {
        if number == 1 {
            linger();
        }
    });
    let lingering = loading(plan("budgets"), 4, load, 2, 2)
        .stage("linger", linger)
        .in_budget("host");
    assert_eq!(start(batching(lingering, 2)).finish().unwrap().0, 2);
}

#[test]
fn gaps_that_are_still_on_their_way_are_waited_for() {
    // As above, but item 1 is skipped: before it enters the budget, or within it.
    for source_fails in [true, false] {
        let source = Pipeline::source(plan("budgets"), "numbers", move |from| {
            (from..4).map(move |number| match number {
                1 if source_fails => Err("bad"),
                number => Ok(number),
            })
        });
        let (load, linger) = asking([1, 1, 2, 0], failing_at(&[1]));
        // A batch of one gap is something to work on again.
        let linger = Work::new(move |group: Group<u64>| {
            if group.members[0].is_err() {
                linger();
            }
            Ok::<_, Infallible>(group)
        });
        let skips = AfterError::Skip;
        let pipeline = loaded(source.on_error(0, skips), load, 2, 2)
            .on_error(0, skips)
            .batch("single", Groups::of(1))
            .in_budget("host")
            .stage("linger", linger)
            .in_budget("host")
            .batch("batch", Groups::of(2))
            .in_budget("host");
        assert_eq!(start(pipeline).finish().unwrap().0, 2);
    }
}

#[test]
fn bytes_are_free_when_the_item_leaves_the_budget() {
    // The whole budget is one item; behind it stands a stage that is not within it.
    for plan in plans() {
        let held = Arc::new(AtomicBool::new(false));
        let (takes, leaves) = (Arc::clone(&held), held);
        let load = each(move |_| assert!(!takes.swap(true, SeqCst), "two items at once"));
        let write = each(move |_| leaves.store(false, SeqCst));
        let pipeline = loading(plan, 20, load.reserving(|_| 1), 2, 1).stage("write", write);
        // All are kept by the consumer: none of them holds a byte.
        let kept: Vec<_> = start(pipeline).map(Result::unwrap).collect();
        assert_eq!(kept.len(), 20);
    }
}

#[test]
fn a_pipeline_that_does_not_know_its_sizes_is_refused() {
    let error = refused(loading(plan("budgets"), 1, pass(), 1, 10));
    assert!(matches!(error, StartError::ReservesNothing { .. }));
    let source = numbers(plan("budgets"), 1).in_budget("host");
    let error = refused(loaded(source, pass().reserving(|_| 1), 1, 10));
    assert!(matches!(error, StartError::SourceInBudget(_)));
}
