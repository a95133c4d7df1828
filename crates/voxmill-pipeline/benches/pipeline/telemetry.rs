//! What being watched costs: a pipeline that computes some 10,000 items a second, with and without a record.
//!
//! Wall time on a shared machine scatters by more than the effect, so the CPU time of the whole process
//! is shown next to it: it holds the workers' part and the collecting thread's.

use voxmill_telemetry::trace::TraceOptions;

use super::controller::{compute, rounds_in};
use super::*;

/// Some five seconds: the collecting thread writes once a second, and its part must be in it.
const ITEMS: u64 = 50_000;
const ROUNDS: usize = 9;

pub(crate) fn run() {
    // Two workers that take 200 µs for an item make 10,000 items a second where there are two cores.
    let rounds = rounds_in(Duration::from_micros(200));
    let folder = tempfile::tempdir().expect("a folder for logs");
    let log = Some(folder.path().join("events.jsonl"));
    let trace = Some(TraceOptions::new(folder.path().join("trace.json")));
    let with = |log, trace| Some(RecorderOptions { log, trace });
    let modes = [
        ("no record", None),
        ("log", with(log.clone(), None)),
        ("log and trace", with(log, trace)),
    ];
    let mut rates = [const { Vec::new() }; 3];
    let mut cpu = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (mode, (_, options)) in modes.iter().enumerate() {
            let (rate, cpu_us) = one_run(options.clone(), rounds);
            rates[mode].push(rate);
            cpu[mode].push(cpu_us);
        }
    }
    println!(
        "| record | items a second, median | CPU, µs an item, median | more CPU, median of paired rounds |\n|---|---|---|---|"
    );
    for (mode, (name, _)) in modes.iter().enumerate() {
        let pairs = cpu[mode].iter().zip(&cpu[0]);
        let paired: Vec<f64> = pairs
            .map(|(with, without)| (with / without - 1.0) * 100.0)
            .collect();
        println!(
            "| {name} | {:.0} | {:.2} | {:+.2} % |",
            median(&rates[mode]),
            median(&cpu[mode]),
            median(&paired)
        );
    }
    let pairs = rates[1].iter().zip(&rates[0]);
    let lost: Vec<f64> = pairs
        .map(|(with, without)| (1.0 - with / without) * 100.0)
        .collect();
    println!(
        "\nthroughput lost to the log, median of {ROUNDS} paired rounds: {:+.2} % (below 1 asked)",
        median(&lost)
    );
    let rounds: Vec<_> = lost.iter().map(|lost| format!("{lost:+.1}")).collect();
    println!("all rounds: {}", rounds.join(", "));
}

fn one_run(options: Option<RecorderOptions>, rounds: u64) -> (f64, f64) {
    let plan = Plan::new("telemetry", "use");
    let recorder = options.map_or_else(Recorder::off, |options| {
        Recorder::start(options).expect("files can be made")
    });
    let (begin, cpu) = (Instant::now(), cpu_ticks());
    let buffer = Setting::fixed(32);
    let running = numbers(plan, ITEMS)
        .buffer(buffer)
        .stage("make", each(move |_| compute(rounds)))
        .workers(Setting::fixed(2))
        .buffer(buffer)
        .stage("pass", pass())
        .buffer(buffer)
        .start(recorder.clone())
        .expect("the plan is good");
    assert_eq!(running.count() as u64, ITEMS);
    recorder.flush().expect("files can be written");
    let rate = ITEMS as f64 / begin.elapsed().as_secs_f64();
    let ticks = cpu_ticks() - cpu;
    recorder.finish().expect("files can be written");
    (rate, ticks * 1e4 / ITEMS as f64)
}

/// CPU time of this process, in hundredths of a second, all threads.
fn cpu_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after_name
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // The state is a letter and falls out: user time is the 11th number behind it, system time the 12th.
    fields.get(10).unwrap_or(&0.0) + fields.get(11).unwrap_or(&0.0)
}
