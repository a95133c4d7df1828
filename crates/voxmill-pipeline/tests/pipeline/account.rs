//! What a run says of itself is so, and what it held it lets go of.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use voxmill_pipeline::group::Groups;
use voxmill_pipeline::plan::{AfterError, Order, Plan, Setting};
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::event::{Event, FaultAction, FaultKind};
use voxmill_telemetry::recorder::Recorder;

use crate::basics::{numbers, pass, start};
use crate::events::recorded;
use crate::watchdog::watch;

/// Whoever listens for Ctrl-C keeps a control until the program ends.
#[test]
fn a_control_that_is_kept_keeps_nothing_alive() {
    let _watched = watch("kept control");
    for overlap in [true, false] {
        let held = Arc::new(());
        let plan = Plan {
            overlap,
            ..Plan::new("keeps", "test")
        };
        let (items, function) = (Arc::clone(&held), Arc::clone(&held));
        let pipeline = Pipeline::source(plan, "source", move |_| {
            std::iter::repeat_with(move || Ok::<_, Infallible>(Arc::clone(&items)))
        });
        let work = Work::new(move |item: Arc<()>| {
            let _captured = &function;
            Ok::<_, Infallible>(item)
        });
        let mut running = pipeline
            .buffer(Setting::fixed(64))
            .stage("work", work)
            .buffer(Setting::fixed(64))
            .start(Recorder::off())
            .unwrap();
        let control = running.control();
        running.next().unwrap().unwrap();
        drop(running);
        assert_eq!(Arc::strong_count(&held), 1, "overlap: {overlap}");
        drop(control);
    }
}

/// There are contexts for two workers only.
#[test]
fn a_worker_that_cannot_be_set_up_leaves_the_work_to_the_others() {
    let _watched = watch("setup of some");
    let plan = Plan::new("setup", "test");
    let events = recorded(|recorder| {
        let contexts = Arc::new(AtomicU64::new(0));
        let work = Work::with_state(move || match contexts.fetch_add(1, SeqCst) {
            0 | 1 => Ok(Ok::<u64, Infallible>),
            _ => Err("no context is left"),
        });
        let mut running = numbers(plan, 5000)
            .stage("work", work)
            .workers(Setting::fixed(2))
            .start(recorder)
            .unwrap();
        running.next().unwrap().unwrap();
        running.control().set_workers("work", 4).unwrap();
        let (items, gaps) = running.finish().unwrap();
        assert_eq!((items, gaps.len()), (4999, 0));
    });
    let told = events.iter().filter_map(|event| match event {
        Event::Fault(fault) => Some((fault.kind, fault.message.as_str(), fault.action)),
        _ => None,
    });
    for fault in told {
        let expected = (
            FaultKind::Setup,
            "no context is left",
            FaultAction::WentOnWithout,
        );
        assert_eq!(fault, expected);
    }
}

/// Without overlap the caller's time is the caller's.
#[test]
fn without_overlap_each_stage_counts_its_own_time() {
    let _watched = watch("own time");
    let plan = Plan {
        overlap: false,
        ..Plan::new("time", "test")
    };
    let slow = Work::new(|number: u64| {
        std::thread::sleep(Duration::from_millis(1));
        Ok::<_, Infallible>(number)
    });
    let pipeline = numbers(plan, 7)
        .stage("slow", slow)
        .batch("batch", Groups::of(2));
    let begin = std::time::Instant::now();
    let mut running = start(pipeline);
    for batch in running.by_ref() {
        std::thread::sleep(Duration::from_millis(5));
        drop(batch);
    }
    let stages = running.snapshot().stages;
    let items: Vec<_> = stages.iter().map(|stage| stage.items).collect();
    assert_eq!(items, [7, 7, 4, 4], "the short last batch counts");
    assert!(stages[1].working >= Duration::from_millis(7));
    assert!(stages[3].working >= Duration::from_millis(20));
    // One thread does one thing at a time.
    let all: Duration = stages.iter().map(|stage| stage.working).sum();
    assert!(all <= begin.elapsed(), "{stages:?}");
}

#[test]
fn the_consumer_counts_gaps() {
    let _watched = watch("gaps count");
    let plan = Plan::new("gaps", "test");
    let odd = Work::new(|number: u64| (number % 2 == 1).then_some(number).ok_or("even"));
    let mut running = numbers(plan, 10)
        .stage("odd", odd)
        .on_error(0, AfterError::Skip)
        .start(Recorder::off())
        .unwrap();
    running.finish().unwrap();
    assert_eq!(running.snapshot().stages.last().unwrap().items, 10);
}

#[test]
fn batches_are_called_by_their_own_names() {
    let _watched = watch("names of batches");
    let plan = Plan::new("names", "test");
    let events = recorded(|recorder| {
        let pipeline = numbers(plan, 9).named(|number| format!("clip-{number}"));
        let pipeline = pipeline
            .batch("batch", Groups::of(3))
            .named(|number| format!("batch-{number}"));
        pipeline.start(recorder).unwrap().finish().unwrap();
    });
    let names = |stage: &str| -> Vec<&str> {
        let seconds = events.iter().filter_map(|event| match event {
            Event::StageSecond(second) if second.stage == stage => Some(&second.slowest),
            _ => None,
        });
        seconds.flatten().map(|slow| slow.name.as_str()).collect()
    };
    assert!(
        names("numbers")
            .iter()
            .all(|name| name.starts_with("clip-"))
    );
    assert!(!names("batch").is_empty());
    assert!(names("batch").iter().all(|name| name.starts_with("batch-")));
}

/// Parts of many batches could use the budget up, and none of them be finished.
#[test]
fn batches_within_a_budget_enter_it_in_order() {
    let plan = |order| Plan {
        order,
        ..Plan::new("budget", "test")
    };
    let pipeline = |order| {
        numbers(plan(order), 64)
            .budget("host", 80)
            .stage("first", pass())
            .workers(Setting::fixed(4))
            .stage("enter", pass().reserving(|_| 10))
            .in_budget("host")
            .batch("batch", Groups::of(4))
            .in_budget("host")
    };
    let refused = pipeline(Order::Free).start(Recorder::off()).unwrap_err();
    assert!(
        matches!(refused, StartError::BatchesOutOfOrder { .. }),
        "{refused}"
    );
    let mut running = pipeline(Order::Kept).start(Recorder::off()).unwrap();
    assert_eq!(running.finish().unwrap().0, 16);
}

#[test]
fn without_overlap_a_cancel_ends_a_batch_that_is_being_collected() {
    let _watched = watch("cancel a batch");
    let plan = Plan {
        overlap: false,
        ..Plan::new("cancel", "test")
    };
    let (tell, told) = std::sync::mpsc::channel::<voxmill_pipeline::control::Control>();
    let told = std::sync::Mutex::new(told);
    let work = Work::new(move |number: u64| {
        if number == 2 {
            told.lock().unwrap().recv().unwrap().cancel();
        }
        assert!(number <= 2, "nobody wants more");
        Ok::<_, Infallible>(number)
    });
    let pipeline = numbers(plan, 1000)
        .stage("work", work)
        .batch("batch", Groups::of(50));
    let mut running = start(pipeline);
    tell.send(running.control()).unwrap();
    assert!(running.next().is_none());
    assert!(running.was_cancelled());
}

#[test]
fn items_skipped_before_a_resume_count_towards_the_limit() {
    let _watched = watch("skipped before");
    let plan = Plan {
        max_skipped: Some(3),
        ..Plan::new("skips", "test")
    };
    let pipeline = || {
        let fails = Work::new(|number: u64| match number {
            4 | 6 => Err("bad"),
            _ => Ok(number),
        });
        numbers(plan.clone(), 10)
            .stage("work", fails)
            .on_error(0, AfterError::Skip)
    };
    let mut running = pipeline().skipped_before(1).start(Recorder::off()).unwrap();
    assert_eq!(running.finish().unwrap().1.len(), 2);
    assert_eq!(running.control().skipped(), 3);
    let mut running = pipeline().skipped_before(2).start(Recorder::off()).unwrap();
    assert!(running.finish().is_err());
}
