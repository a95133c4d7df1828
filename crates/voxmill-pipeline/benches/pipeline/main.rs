//! What the pipeline promises, measured. Stages that sleep stand for devices, so that overlap shows on
//! any machine with two cores.
//!
//! `cargo bench -p voxmill-pipeline --bench pipeline [-- SECTION…]`, with the sections `overlap`,
//! `slots`, `controller`, `handoff`, `latency`, `telemetry` and `soak`. The output of a full run is kept in
//! `benches/records/pipeline.md`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::convert::Infallible;
use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_pipeline::Pipeline;
use voxmill_pipeline::plan::{AdaptPlan, AfterError, Plan, Setting, SlotsPlan};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::{Recorder, RecorderOptions};

mod controller;
mod draw;
mod handoff;
mod latency;
mod overlap;
mod slots;
mod soak;
mod telemetry;

fn main() {
    let sections: [(&str, fn()); 7] = [
        ("overlap", overlap::run),
        ("slots", slots::run),
        ("controller", controller::run),
        ("handoff", handoff::run),
        ("latency", latency::run),
        ("telemetry", telemetry::run),
        ("soak", soak::run),
    ];
    // Cargo adds `--bench` of its own accord.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    for (name, run) in sections {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            println!("\n## {name}\n");
            run();
        }
    }
}

/// Numbers from a source that costs nothing.
fn numbers(plan: Plan, count: u64) -> Pipeline<u64> {
    Pipeline::source(plan, "source", move |from| {
        (from..count).map(Ok::<_, Infallible>)
    })
}

/// Does something with each number and hands it on.
fn each(run: impl Fn(u64) + Send + Sync + 'static) -> Work<u64, u64> {
    Work::new(move |number| {
        run(number);
        Ok::<_, Infallible>(number)
    })
}

fn pass() -> Work<u64, u64> {
    each(|_| ())
}

fn start<T: Send + 'static>(pipeline: Pipeline<T>) -> Running<T> {
    pipeline.start(Recorder::off()).expect("the plan is good")
}

/// A plan with places ahead whose bytes nobody counts.
fn with_slots(name: &str, ahead: usize) -> Plan {
    Plan {
        slots: Some(SlotsPlan {
            ahead: Setting::fixed(ahead),
            bytes_each: 0,
            budget: None,
        }),
        ..Plan::new(name, "train")
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
