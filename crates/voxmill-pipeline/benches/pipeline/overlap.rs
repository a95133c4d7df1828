//! Load 20, preprocess 10, transfer 15 and train 150 ms: one after another, and overlapped.

use super::*;

const LOAD_MS: u64 = 20;
const PREPROCESS_MS: u64 = 10;
const TRANSFER_MS: u64 = 15;
const TRAIN_MS: u64 = 150;
const STEPS: usize = 60;

pub(crate) fn run() {
    println!(
        "| {LOAD_MS}/{PREPROCESS_MS}/{TRANSFER_MS}/{TRAIN_MS} ms, {STEPS} steps | ms a step, after the first 5 |\n|---|---|"
    );
    let serial = milliseconds_a_step(false);
    println!("| one after another | {serial:.2} |");
    let mut overlapped = Vec::new();
    for _ in 0..3 {
        overlapped.push(milliseconds_a_step(true));
        println!("| overlapped | {:.2} |", overlapped[overlapped.len() - 1]);
    }
    let ratio = median(&overlapped) / TRAIN_MS as f64;
    println!("\nmedian: {ratio:.4} × the train stage (at most 1.01 asked)");
}

fn milliseconds_a_step(overlap: bool) -> f64 {
    let plan = Plan {
        overlap,
        ..with_slots("overlap", 3)
    };
    let mut pipeline = numbers(plan, STEPS as u64);
    for (stage, milliseconds) in [
        ("load", LOAD_MS),
        ("preprocess", PREPROCESS_MS),
        ("transfer", TRANSFER_MS),
    ] {
        let work = each(move |_| sleep(Duration::from_millis(milliseconds)));
        pipeline = pipeline.stage(stage, work).workers(Setting::fixed(1));
    }
    let running = start(pipeline);
    let mut ends = Vec::new();
    for item in running {
        let item = item.expect("nothing fails");
        sleep(Duration::from_millis(TRAIN_MS));
        drop(item);
        ends.push(Instant::now());
    }
    let (first, last) = (ends[4], ends[STEPS - 1]);
    (last - first).as_secs_f64() * 1e3 / (STEPS - 5) as f64
}
