//! What the pipeline promises, measured. Stages that sleep stand for devices, so that overlap shows on
//! any machine with two cores.
//!
//! `cargo bench -p voxmill-pipeline --bench pipeline [-- SECTION…]`, with the sections `overlap`,
//! `slots`, `controller`, `handoff`, `latency`, `telemetry` and `soak`. The output of a full run is kept in
//! `benches/records/pipeline.md`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

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

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
