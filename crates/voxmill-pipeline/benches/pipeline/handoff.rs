//! What handing an item over costs: one million items that need no work, in order, through our stages
//! and through the same graph made by hand with crossbeam channels, in turns.

use std::collections::BTreeSet;

use super::*;

const ITEMS: u64 = 1_000_000;
const CAPACITY: usize = 128;
const ROUNDS: usize = 9;

pub(crate) fn run() {
    println!("| workers | by hand, ns an item | ours, ns an item | ratio |\n|---|---|---|---|");
    for workers in [1, 8] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let (hand, ours) = (by_hand(workers), ours(workers));
            let nanoseconds = |time: Duration| time.as_nanos() as f64 / ITEMS as f64;
            let ratio = ours.as_secs_f64() / hand.as_secs_f64();
            println!(
                "| {workers} | {:.0} | {:.0} | {ratio:.2} |",
                nanoseconds(hand),
                nanoseconds(ours),
            );
            ratios.push(ratio);
        }
        println!("| {workers}, median | | | {:.2} |", median(&ratios));
    }
    println!("\nasked: at most 2 ×");
}

fn ours(workers: usize) -> Duration {
    let plan = Plan::new("handoff", "consumer");
    let begin = Instant::now();
    let pipeline = numbers(plan, ITEMS)
        .buffer(Setting::fixed(CAPACITY))
        .stage("no-op", pass())
        .workers(Setting::fixed(workers))
        .buffer(Setting::fixed(CAPACITY));
    let running = start(pipeline);
    let count = running.map(|item| assert!(item.is_ok())).count();
    assert_eq!(count as u64, ITEMS);
    begin.elapsed()
}

fn by_hand(workers: usize) -> Duration {
    let begin = Instant::now();
    let (give, take) = crossbeam_channel::bounded::<u64>(CAPACITY);
    let (send, receive) = crossbeam_channel::bounded::<u64>(CAPACITY);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..ITEMS {
                give.send(number).expect("workers take all");
            }
        });
        for _ in 0..workers {
            let (take, send) = (take.clone(), send.clone());
            scope.spawn(move || {
                for item in take {
                    send.send(item).expect("the consumer takes all");
                }
            });
        }
        drop((take, send));
        // In order: what came early waits.
        let mut early = BTreeSet::new();
        let mut next = 0;
        for item in receive {
            if item == next {
                next += 1;
                while early.remove(&next) {
                    next += 1;
                }
            } else {
                early.insert(item);
            }
        }
        assert_eq!(next, ITEMS);
    });
    begin.elapsed()
}
