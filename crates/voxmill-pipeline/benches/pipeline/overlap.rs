//! Load 20, preprocess 10, transfer 15 and train 150 ms: one after another, and overlapped.

use std::convert::Infallible;
use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::plan::{Plan, Setting, SlotsPlan};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

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
    let ratio = super::median(&overlapped) / TRAIN_MS as f64;
    println!("\nmedian: {ratio:.4} × the train stage (at most 1.01 asked)");
}

fn sleeping(milliseconds: u64) -> Work<u64, u64> {
    Work::new(move |item| {
        sleep(Duration::from_millis(milliseconds));
        Ok::<_, Infallible>(item)
    })
}

fn milliseconds_a_step(overlap: bool) -> f64 {
    let plan = Plan {
        overlap,
        slots: Some(SlotsPlan {
            ahead: Setting::fixed(3),
            bytes_each: 0,
            budget: None,
        }),
        ..Plan::new("overlap", "train")
    };
    let one = Setting::fixed(1);
    let running = Pipeline::source(plan, "batches", |from| {
        (from..STEPS as u64).map(Ok::<_, Infallible>)
    })
    .stage("load", sleeping(LOAD_MS))
    .workers(one)
    .stage("preprocess", sleeping(PREPROCESS_MS))
    .workers(one)
    .stage("transfer", sleeping(TRANSFER_MS))
    .workers(one)
    .start(Recorder::off())
    .expect("the plan is good");
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
