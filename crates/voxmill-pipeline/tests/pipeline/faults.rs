//! What goes wrong with an item, and what becomes of the run.

use std::fmt;

use crate::common::*;

fn plans() -> [Plan; 2] {
    both(plan("faults"))
}

/// What three workers make of a source; an error stops the run unless that is changed.
fn worked<T: Send + 'static>(source: Pipeline<T>, work: Work<T, u64>) -> Pipeline<u64> {
    source.stage("work", work).workers(Setting::fixed(3))
}

fn stopping(plan: Plan, count: u64, work: Work<u64, u64>) -> Pipeline<u64> {
    worked(numbers(plan, count), work)
}

fn skipping(plan: Plan, count: u64, work: Work<u64, u64>) -> Pipeline<u64> {
    stopping(plan, count, work).on_error(0, AfterError::Skip)
}

/// The items, the gaps, and the failure at the end, if there was one.
fn run_to_end<T: Clone>(running: &mut Running<T>) -> (Vec<T>, Vec<Gap>, Option<RunFailure>) {
    let (mut items, mut gaps) = (Vec::new(), Vec::new());
    for delivery in running {
        match delivery {
            Ok(Delivery::Item(item)) => {
                items.push(T::clone(&item));
                item.done();
            }
            Ok(Delivery::Gap(gap)) => gaps.push(gap),
            Err(failure) => return (items, gaps, Some(failure)),
        }
    }
    (items, gaps, None)
}

fn outcome<T: Clone + Send + 'static>(
    pipeline: Pipeline<T>,
) -> (Vec<T>, Vec<Gap>, Option<RunFailure>) {
    run_to_end(&mut start(pipeline))
}

#[test]
fn a_skipped_item_is_a_gap_in_its_place() {
    for plan in plans() {
        let pipeline = skipping(plan, 10, failing_at(&[2, 7]));
        let pipeline = pipeline.named(|number| format!("clip-{number}.wav"));
        let delivered = start(pipeline).map(|delivery| match delivery.unwrap() {
            Delivery::Item(item) => (item.number(), true),
            Delivery::Gap(Gap { number, fault }) => {
                assert_eq!(fault.stage, "work");
                assert_eq!(fault.kind, FaultKind::Error);
                assert_eq!(fault.name, format!("clip-{number}.wav"));
                assert_eq!(fault.error.to_string(), format!("{number} is bad"));
                (number, false)
            }
        });
        let expected: Vec<_> = (0..10).map(|n| (n, n != 2 && n != 7)).collect();
        assert_eq!(delivered.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn gaps_stay_in_their_batches_so_that_counts_stay_equal() {
    for plan in plans() {
        let pipeline = skipping(plan, 10, failing_at(&[0, 4, 5, 6, 7]));
        let running = start(pipeline.batch("batch", Groups::of(4)));
        let batches: Vec<_> = running.map(|batch| members(&item(batch))).collect();
        let expected = [
            vec![Err(0), Ok(1), Ok(2), Ok(3)],
            vec![Err(4), Err(5), Err(6), Err(7)],
            vec![Ok(8), Ok(9)],
        ];
        assert_eq!(batches, expected);
    }
}

#[test]
fn an_error_that_stops_comes_after_all_items_before_it() {
    for plan in plans() {
        let mut running = start(stopping(plan, 1000, failing_at(&[40, 41, 42])));
        let (items, _, failure) = run_to_end(&mut running);
        assert_eq!(items, up_to(40));
        let fault = fault(failure);
        assert_eq!(fault.item, 40);
        assert_eq!(fault.to_string(), "stage `work` failed at item 40");
        assert!(running.next().is_none(), "an end is an end");
        let next = running.resume_point().next;
        assert_eq!(next, 40, "the item is still to be done");
    }
}

#[test]
fn an_error_in_a_batch_stops_after_all_whole_batches() {
    for plan in plans() {
        let pipeline = stopping(plan, 1000, failing_at(&[41])).batch("batch", Groups::of(4));
        let mut running = start(pipeline);
        assert!(running.finish().is_err());
        assert_eq!(running.resume_point().next, 10);
    }
}

/// Fails the first tries of every item, and is tried three times.
fn failing_tries(plan: Plan, tries: u64, then: AfterError) -> Pipeline<u64> {
    let tried: Vec<AtomicU64> = (0..20).map(|_| AtomicU64::new(0)).collect();
    let work = Work::new(move |number: u64| {
        let before = tried[number as usize].fetch_add(1, SeqCst);
        match before < tries {
            true => Err(format!("try {before}")),
            false => Ok(before),
        }
    });
    stopping(plan, 20, work.retrying()).on_error(2, then)
}

#[test]
fn a_retried_item_comes_out_as_if_nothing_had_been() {
    for plan in plans() {
        let (tries, gaps, failure) = outcome(failing_tries(plan, 2, AfterError::Stop));
        assert_eq!(tries, [2; 20]);
        assert!(gaps.is_empty() && failure.is_none());
    }
}

#[test]
fn after_the_last_try_the_item_is_skipped_or_the_run_stops() {
    for plan in plans() {
        let (items, gaps, failure) = outcome(failing_tries(plan.clone(), 3, AfterError::Skip));
        assert!(items.is_empty() && failure.is_none());
        assert_eq!(gaps.len(), 20);
        let last = gaps[0].fault.error.to_string();
        assert_eq!(last, "try 2", "the last error is reported");
        fault(outcome(failing_tries(plan, 3, AfterError::Stop)).2);
    }
}

#[test]
fn a_plan_that_retries_what_cannot_be_copied_is_refused() {
    for plan in plans() {
        let error = refused(stopping(plan, 1, failing_at(&[])).on_error(1, AfterError::Skip));
        assert!(matches!(error, StartError::CannotRetry(stage) if stage == "work"));
    }
}

#[test]
fn a_fault_injected_from_outside_is_one_of_the_work_it_precedes() {
    for plan in plans() {
        let injected = failing_at(&[2]).preceded_by(|number| {
            assert!(*number != 4, "{ON_PURPOSE}: injected");
        });
        let (items, gaps, failure) = outcome(skipping(plan, 6, injected));
        assert_eq!(items, [0, 1, 3, 5]);
        let expected = [(2, FaultKind::Error), (4, FaultKind::Panic)];
        assert_eq!(numbers_and_kinds(&gaps), expected);
        assert!(failure.is_none());
    }
}

#[test]
fn too_many_skipped_items_stop_the_run() {
    for mut plan in plans() {
        plan.max_skipped = Some(2);
        let pipeline = skipping(plan.clone(), 100, failing_at(&[3, 5]));
        let (items, gaps, failure) = outcome(pipeline);
        assert_eq!((items.len(), gaps.len()), (98, 2));
        assert!(failure.is_none(), "just as many as may be");

        let pipeline = skipping(plan, 100, failing_at(&[3, 5, 50, 70]));
        let (items, gaps, failure) = outcome(pipeline);
        let Some(RunFailure::TooManySkipped { skipped, most, .. }) = failure else {
            panic!("{failure:?}");
        };
        assert!(skipped > 2 && most == 2);
        assert!(items.len() + gaps.len() <= 70 && gaps.len() <= 2);
    }
}

#[test]
fn a_panic_is_caught_and_named_with_its_item() {
    let panicking = || each(|number| assert!(number != 4, "{ON_PURPOSE}: four"));
    for plan in plans() {
        let (items, gaps, failure) = outcome(skipping(plan.clone(), 9, panicking()));
        assert_eq!(items, [0, 1, 2, 3, 5, 6, 7, 8]);
        let caught = &gaps[0].fault;
        assert_eq!(caught.kind, FaultKind::Panic);
        assert_eq!(caught.to_string(), "stage `work` panicked at item 4");
        assert_eq!(caught.error.to_string(), format!("{ON_PURPOSE}: four"));
        assert!(failure.is_none());

        let (items, _, failure) = outcome(stopping(plan, 9, panicking()));
        assert_eq!(items, [0, 1, 2, 3]);
        assert_eq!(fault(failure).item, 4);
    }
}

#[test]
fn a_panic_is_not_tried_again() {
    for plan in plans() {
        let tries = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&tries);
        let work = each(move |_| {
            count.fetch_add(1, SeqCst);
            panic!("{ON_PURPOSE}")
        });
        outcome(stopping(plan, 3, work.retrying()).on_error(5, AfterError::Skip));
        assert_eq!(tries.load(SeqCst), 3);
    }
}

#[test]
fn the_state_of_a_worker_that_panicked_is_made_anew() {
    for plan in plans() {
        let work = Work::with_state(|| {
            let mut seen = 0u64;
            Ok::<_, Infallible>(move |number: u64| {
                seen += 1;
                assert!(number != 2, "{ON_PURPOSE}");
                Ok::<_, Infallible>(seen)
            })
        });
        let (seen, ..) = outcome(skipping(plan, 5, work).workers(Setting::fixed(1)));
        assert_eq!(seen, [1, 2, 1, 2]);
    }
}

#[test]
fn a_worker_that_cannot_be_set_up_stops_the_run_whatever_the_policy() {
    let fails: [fn() -> Result<(), BoxError>; 2] =
        [|| Err("no such device".into()), || panic!("{ON_PURPOSE}")];
    for fail in fails {
        for plan in plans() {
            let work = Work::with_state(move || {
                fail()?;
                Ok::<_, BoxError>(Ok::<u64, BoxError>)
            });
            let (items, gaps, failure) = outcome(skipping(plan, 5, work));
            assert!(items.is_empty() && gaps.is_empty());
            assert_eq!(fault(failure).kind, FaultKind::Setup);
        }
    }
}

#[test]
fn an_error_of_the_source_is_a_gap_or_the_end() {
    for plan in plans() {
        let broken = |then| {
            let source = Pipeline::source(plan.clone(), "numbers", |from| {
                (from..6).map(|number| match number {
                    3 => Err("cannot read"),
                    number => Ok(number),
                })
            });
            outcome(worked(source.on_error(0, then), failing_at(&[])))
        };
        let (items, gaps, failure) = broken(AfterError::Skip);
        assert_eq!(items, [0, 1, 2, 4, 5]);
        assert_eq!((gaps.len(), gaps[0].number), (1, 3));
        assert!(failure.is_none());

        let (items, gaps, failure) = broken(AfterError::Stop);
        assert_eq!((items.len(), gaps.len()), (3, 0));
        assert_eq!(fault(failure).stage, "numbers");
    }
}

#[test]
fn a_source_that_panics_ends_the_run_whatever_the_policy() {
    for plan in plans() {
        let source = source(plan, "numbers", u64::MAX, |number| {
            assert!(number < 3, "{ON_PURPOSE}");
        });
        let source = source.on_error(0, AfterError::Skip);
        let (items, _, failure) = outcome(worked(source, failing_at(&[])));
        assert_eq!(items, [0, 1, 2]);
        let fault = fault(failure);
        assert_eq!((fault.kind, fault.item), (FaultKind::Panic, 3));
    }
}

#[test]
fn a_source_without_items_ends_at_once() {
    for plan in plans() {
        let pipeline = skipping(plan, 0, failing_at(&[]));
        assert_eq!(start(pipeline.batch("batch", Groups::of(4))).count(), 0);
    }
}

/// Items and errors whose own code panics where nobody expects it.
#[derive(Debug)]
struct PanicsOnUse(u64);

impl Clone for PanicsOnUse {
    fn clone(&self) -> PanicsOnUse {
        assert!(self.0 != 5, "{ON_PURPOSE}: no copy");
        PanicsOnUse(self.0)
    }
}

impl fmt::Display for PanicsOnUse {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("{ON_PURPOSE}: no comment")
    }
}

impl std::error::Error for PanicsOnUse {}

#[test]
fn a_panic_while_an_item_is_copied_or_an_error_is_reported_hangs_nobody() {
    for plan in plans() {
        let source = Pipeline::source(plan.clone(), "numbers", |from| {
            (from..100).map(|number| Ok::<_, Infallible>(PanicsOnUse(number)))
        });
        let copied = Work::new(|item: PanicsOnUse| Ok::<_, Infallible>(item.0)).retrying();
        let reported = Work::new(|number: u64| match number {
            5 => Err(PanicsOnUse(5)),
            number => Ok(number),
        });
        for (what, pipeline) in [
            (
                "copied",
                worked(source, copied).on_error(1, AfterError::Stop),
            ),
            ("reported", skipping(plan, 100, reported)),
        ] {
            let (items, _, failure) = outcome(pipeline);
            assert_eq!(items, up_to(5), "{what}");
            assert_eq!(fault(failure).item, 5, "{what}");
        }
    }
}

#[test]
fn groups_that_make_no_sense_end_the_run_with_an_error() {
    let panics = Groups::beginning_at(|group| {
        assert!(group < 3, "{ON_PURPOSE}: no such group");
        group * 4
    });
    let does_not_rise = Groups::beginning_at(|group| group.min(2) * 4);
    for groups in [panics, does_not_rise] {
        for plan in plans() {
            let pipeline = stopping(plan, 100, failing_at(&[])).batch("batch", groups.clone());
            let (whole, failed): (Vec<_>, Vec<_>) = start(pipeline).partition(Result::is_ok);
            assert_eq!((whole.len(), failed.len()), (2, 1));
            assert_eq!(
                fault(failed.into_iter().find_map(Result::err)).stage,
                "batch"
            );
        }
    }
}
