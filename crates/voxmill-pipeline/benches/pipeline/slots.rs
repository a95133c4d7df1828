//! 20/10/135/150 ms with log-normal jitter on every stage: how many slots it takes to ride it out.
//!
//! Time is scaled down tenfold. A run is compared with what its slowest stage took in sum, as measured:
//! sleeping takes a little longer than asked for, and that is part of the stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::draw::log_normal;
use super::*;

const MEANS_MS: [f64; 4] = [20.0, 10.0, 135.0, 150.0];
const SCALE: f64 = 0.1;
const VARIATION: f64 = 0.5;
const ITEMS: u64 = 2000;

pub(crate) fn run() {
    println!("| slots | seconds | slowest stage, seconds | ratio |\n|---|---|---|---|");
    for slots in [1, 2, 3, 5, 10] {
        let (took, slowest) = run_with(slots);
        println!(
            "| {slots} | {:.2} | {:.2} | {:.3} |",
            took.as_secs_f64(),
            slowest.as_secs_f64(),
            took.as_secs_f64() / slowest.as_secs_f64()
        );
    }
    println!(
        "\nasked: at most 1.05 with 3 slots; queueing theory gives about 1.20 with 1 and 1.08 with 2"
    );
}

/// How long the stages really took, in nanoseconds.
type Realised = Arc<[AtomicU64; 4]>;

fn rest(stage: usize, item: u64, realised: &Realised) {
    let begin = Instant::now();
    let mean = Duration::from_secs_f64(MEANS_MS[stage] * SCALE / 1e3);
    sleep(log_normal(mean, VARIATION, stage as u64, item));
    realised[stage].fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

fn run_with(slots: usize) -> (Duration, Duration) {
    let realised = Realised::default();
    let resting = |stage| {
        let realised = Arc::clone(&realised);
        each(move |item| rest(stage, item, &realised))
    };
    let one = Setting::fixed(1);
    let begin = Instant::now();
    let pipeline = numbers(with_slots("slots", slots), ITEMS)
        .stage("load", resting(0))
        .workers(one)
        .stage("preprocess", resting(1))
        .workers(one)
        .buffer(Setting::fixed(50))
        .stage("transfer", resting(2))
        .workers(one);
    let running = start(pipeline);
    for (number, item) in running.enumerate() {
        rest(3, number as u64, &realised);
        drop(item);
    }
    let took = begin.elapsed();
    let sums = realised.iter().map(|sum| sum.load(Ordering::Relaxed));
    (took, Duration::from_nanos(sums.max().unwrap_or(0)))
}
