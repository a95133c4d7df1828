//! What a run reports of itself is so, and what it held it releases.

use voxmill_telemetry::event::{Event, FaultAction};

use crate::common::*;
use crate::events::recorded;

/// Whoever listens for Ctrl-C keeps a control until the program ends.
#[test]
fn a_control_that_is_kept_keeps_nothing_alive() {
    for plan in both(plan("keeps")) {
        let overlap = plan.overlap;
        let held = Arc::new(());
        let (items, function) = (Arc::clone(&held), Arc::clone(&held));
        let pipeline = Pipeline::source(plan, "source", move |_| {
            std::iter::repeat_with(move || Ok::<_, Infallible>(Arc::clone(&items)))
        });
        let work = Work::new(move |item: Arc<()>| {
            let _captured = &function;
            Ok::<_, Infallible>(item)
        });
        let pipeline = pipeline
            .buffer(Setting::fixed(64))
            .stage("work", work)
            .buffer(Setting::fixed(64));
        let mut running = start(pipeline);
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
    let events = recorded(|recorder| {
        let contexts = AtomicU64::new(0);
        let work = Work::with_state(move || match contexts.fetch_add(1, SeqCst) {
            0 | 1 => Ok(Ok::<u64, Infallible>),
            _ => Err("no context is left"),
        });
        let pipeline = numbers(plan("setup"), 5000).stage("work", work);
        let pipeline = pipeline.workers(Setting::fixed(2));
        let mut running = start_with(pipeline, recorder);
        running.next().unwrap().unwrap();
        running.control().set_workers("work", 4).unwrap();
        let (items, gaps) = running.finish().unwrap();
        assert_eq!((items, gaps.len()), (4999, 0));
    });
    for event in &events {
        if let Event::Fault(fault) = event {
            assert_eq!(fault.kind, FaultKind::Setup);
            assert_eq!(fault.message, "no context is left");
            assert_eq!(fault.action, FaultAction::WentOnWithout);
        }
    }
}

/// Without overlap the caller's time is the caller's.
#[test]
fn without_overlap_each_stage_counts_its_own_time() {
    let slow = each(|_| std::thread::sleep(Duration::from_millis(1)));
    let pipeline = numbers(without_overlap(plan("time")), 7)
        .stage("slow", slow)
        .batch("batch", Groups::of(2));
    let begin = Instant::now();
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
    let odd = Work::new(|number: u64| (number % 2 == 1).then_some(number).ok_or("even"));
    let pipeline = numbers(plan("gaps"), 10).stage("odd", odd);
    let mut running = start(pipeline.on_error(0, AfterError::Skip));
    running.finish().unwrap();
    assert_eq!(running.snapshot().stages.last().unwrap().items, 10);
}

#[test]
fn batches_are_called_by_their_own_names() {
    let events = recorded(|recorder| {
        let pipeline = numbers(plan("names"), 9)
            .named(|number| format!("clip-{number}"))
            .batch("batch", Groups::of(3))
            .named(|number| format!("batch-{number}"));
        start_with(pipeline, recorder).finish().unwrap();
    });
    let names = |stage: &str| -> Vec<&str> {
        let seconds = events.iter().filter_map(|event| match event {
            Event::StageSecond(second) if second.stage == stage => Some(&second.slowest),
            _ => None,
        });
        seconds.flatten().map(|slow| slow.name.as_str()).collect()
    };
    let all_begin = |stage, with| names(stage).iter().all(|name| name.starts_with(with));
    assert!(all_begin("numbers", "clip-"));
    assert!(!names("batch").is_empty());
    assert!(all_begin("batch", "batch-"));
}

/// Parts of many batches could use the budget up, and none of them be finished.
#[test]
fn batches_within_a_budget_enter_it_in_order() {
    let [kept, free] = orders(plan("budget")).map(|plan| {
        numbers(plan, 64)
            .budget("host", 80)
            .stage("first", pass())
            .workers(Setting::fixed(4))
            .stage("enter", pass().reserving(|_| 10))
            .in_budget("host")
            .batch("batch", Groups::of(4))
            .in_budget("host")
    });
    let error = refused(free);
    let out_of_order = matches!(error, StartError::BatchesOutOfOrder { .. });
    assert!(out_of_order, "{error}");
    assert_eq!(start(kept).finish().unwrap().0, 16);
}

#[test]
fn without_overlap_a_cancel_ends_a_batch_that_is_being_collected() {
    let (send, receive) = mpsc::channel::<voxmill_pipeline::control::Control>();
    let receive = Mutex::new(receive);
    let work = each(move |number| {
        if number == 2 {
            receive.lock().unwrap().recv().unwrap().cancel();
        }
        assert!(number <= 2, "nobody wants more");
    });
    let pipeline = numbers(without_overlap(plan("cancel")), 1000)
        .stage("work", work)
        .batch("batch", Groups::of(50));
    let mut running = start(pipeline);
    send.send(running.control()).unwrap();
    assert!(running.next().is_none());
    assert!(running.was_cancelled());
}

#[test]
fn items_skipped_before_a_resume_count_towards_the_limit() {
    let plan = Plan {
        max_skipped: Some(3),
        ..plan("skips")
    };
    let [mut one, mut two] = [1, 2].map(|skipped| {
        let pipeline = numbers(plan.clone(), 10).stage("work", failing_at(&[4, 6]));
        let pipeline = pipeline.on_error(0, AfterError::Skip);
        start(pipeline.skipped_before(skipped))
    });
    assert_eq!(one.finish().unwrap().1.len(), 2);
    assert_eq!(one.control().skipped(), 3);
    assert!(two.finish().is_err());
}
