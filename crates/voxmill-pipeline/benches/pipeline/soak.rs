//! Ten million items through stages that fail and panic now and then, while workers, buffers and the
//! budget are changed all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const ITEMS: u64 = 10_000_000;
const BUDGET: u64 = 10_000;

pub(crate) fn run() {
    std::panic::set_hook(Box::new(|_| ()));
    let plan = Plan::new("soak", "consumer");
    let fails = Work::new(|item: u64| match item % 100_003 {
        1 => Err("an error"),
        2 => panic!("a panic"),
        _ => Ok(item),
    });
    let fails = fails.reserving(|item| 1 + item % 100).retrying();
    let begin = Instant::now();
    let (workers, buffer) = (Setting::fixed(2), Setting::fixed(64));
    let pipeline = numbers(plan, ITEMS)
        .buffer(buffer)
        .budget("host", BUDGET)
        .stage("fail", fails)
        .workers(workers)
        .buffer(buffer)
        .in_budget("host")
        .on_error(1, AfterError::Skip)
        .stage("pass", pass())
        .workers(workers)
        .buffer(buffer)
        .in_budget("host");
    let running = start(pipeline);
    let control = running.control();
    let ended = Arc::new(AtomicBool::new(false));
    let changes = {
        let (control, ended) = (control.clone(), Arc::clone(&ended));
        std::thread::spawn(move || {
            let mut changes = 0;
            while !ended.load(Ordering::Relaxed) {
                let value = changes % 7 + 1;
                let done = control
                    .set_workers("fail", value)
                    .and(control.set_workers("pass", 8 - value))
                    .and(control.set_capacity("fail", value * 16))
                    .and(control.set_budget("host", BUDGET - 1000 * value as u64));
                done.expect("changes are taken");
                changes += 1;
                sleep(Duration::from_millis(10));
            }
            changes
        })
    };
    let (mut items, mut gaps, mut next) = (0u64, 0u64, 0u64);
    for delivery in running {
        let number = match delivery.expect("nothing is fatal") {
            Delivery::Item(item) => {
                assert_eq!(*item, item.number());
                items += 1;
                item.number()
            }
            Delivery::Gap(gap) => {
                assert!(matches!(gap.number % 100_003, 1 | 2));
                gaps += 1;
                gap.number
            }
        };
        assert_eq!(number, next, "in order");
        next += 1;
    }
    ended.store(true, Ordering::Relaxed);
    let changes = changes.join().expect("it makes changes");
    assert_eq!(items + gaps, ITEMS);
    let peak = control.snapshot().budgets[0].peak;
    assert!(peak <= BUDGET);
    println!(
        "{items} items and {gaps} gaps in {:.0} s, in order, none lost or repeated, through {changes} live changes; \
         at most {peak} of {BUDGET} bytes in use",
        begin.elapsed().as_secs_f64()
    );
}
