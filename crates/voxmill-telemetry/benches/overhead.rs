//! What telemetry costs a worker that handles 10,000 items a second.
//!
//!     cargo bench -p voxmill-telemetry --bench overhead
//!
//! The worker does a fixed amount of arithmetic, about 100 µs, for each item, and says three things
//! of it: how long it had it in hand and two waits; with a trace also how full the buffer behind it
//! is. It reads the clock for each item only when it records, as a pipeline does: the cost of
//! telemetry is the clock's too.
//!
//! Modes take turns every 10 ms and each turn is compared with the turn of `off` next to it, so that
//! whatever else the machine does falls on all of them; the median of these is the worker's cost.
//! The collecting thread's cost is its CPU time in a run of one mode: it is only felt where no core
//! is free. Apart from that, the cost of one event is measured without any work in between.

#![expect(clippy::print_stdout, reason = "the numbers are for people")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use voxmill_telemetry::event::{Nanos, Wait};
use voxmill_telemetry::recorder::{Lane, Recorder, RecorderOptions};
use voxmill_telemetry::trace::TraceOptions;

const ROUNDS: usize = 700;
const ITEMS_A_TURN: u64 = 100;
const ITEMS_A_RUN: u64 = 50_000;
const EVENTS_PER_ITEM: u64 = 3;
const MODES: [Mode; 3] = [Mode::Off, Mode::Log, Mode::Trace];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Off,
    Log,
    Trace,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Log => "log",
            Mode::Trace => "log and trace",
        }
    }

    fn recorder(self, folder: &Path) -> Recorder {
        let log = Some(folder.join("events.jsonl"));
        let trace = TraceOptions::new(folder.join("trace.json"));
        let options = match self {
            Mode::Off => return Recorder::off(),
            Mode::Log => RecorderOptions { log, trace: None },
            Mode::Trace => RecorderOptions {
                log,
                trace: Some(trace),
            },
        };
        Recorder::start(options).expect("a writable temporary folder")
    }
}

fn spin(turns: u64) -> u64 {
    let mut value = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..turns {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    value
}

/// Turns of the loop that take 100 µs.
fn calibrate() -> u64 {
    let turns = 10_000_000;
    let begin = Instant::now();
    black_box(spin(black_box(turns)));
    let nanos = begin.elapsed().as_nanos() as f64 / turns as f64;
    (100_000.0 / nanos) as u64
}

/// Nanoseconds per item.
fn work(recorder: &Recorder, lane: &Lane, turns: u64, items: u64) -> f64 {
    let begin = Instant::now();
    if !recorder.is_on() {
        for _ in 0..items {
            black_box(spin(black_box(turns)));
        }
        return begin.elapsed().as_nanos() as f64 / items as f64;
    }
    let detailed = recorder.is_detailed();
    let mut last = recorder.now();
    for item in 0..items {
        let start = recorder.now();
        black_box(spin(black_box(turns)));
        let end = recorder.now();
        lane.wait(Wait::Input, Some(item), last, start.since(last));
        lane.item(item, start, end.since(start));
        lane.wait(Wait::Output, Some(item), end, Nanos(0));
        if detailed {
            lane.level("work", end, item % 8, 8);
        }
        last = end;
    }
    begin.elapsed().as_nanos() as f64 / items as f64
}

/// CPU time that the collecting thread had so far; Linux keeps it for each thread.
fn collector_nanos() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let mut folders = threads.filter_map(|thread| Some(thread.ok()?.path()));
    let folder = folders.find(|folder| {
        let name = std::fs::read_to_string(folder.join("comm"));
        name.is_ok_and(|name| name.trim() == "telemetry")
    })?;
    let times = std::fs::read_to_string(folder.join("schedstat")).ok()?;
    times.split_whitespace().next()?.parse().ok()
}

/// The share of one core that the collecting thread takes, in per cent.
fn collector_share(recorder: &Recorder, turns: u64) -> Option<f64> {
    let lane = recorder.lane("work", 0);
    // By then the thread has its name.
    recorder.flush().ok()?;
    let begin = Instant::now();
    let before = collector_nanos()?;
    work(recorder, &lane, turns, ITEMS_A_RUN);
    let spent = collector_nanos()? - before;
    Some(spent as f64 / begin.elapsed().as_nanos() as f64 * 100.0)
}

/// Nanoseconds per event that the worker itself spends, in bursts that a lane can hold.
fn event_cost(recorder: &Recorder) -> f64 {
    let lane = recorder.lane("cost", 0);
    let burst = 10_000;
    let mut spent = 0.0;
    let bursts = 100;
    for _ in 0..bursts {
        let begin = Instant::now();
        for item in 0..burst {
            lane.item(black_box(item), Nanos(item), Nanos(100_000));
        }
        spent += begin.elapsed().as_nanos() as f64;
        recorder.flush().expect("a writable log");
    }
    spent / (bursts * burst) as f64
}

fn clock_cost(recorder: &Recorder) -> f64 {
    let reads = 1_000_000;
    let begin = Instant::now();
    for _ in 0..reads {
        black_box(recorder.now());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(reads)
}

fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[sorted.len() * quarter / 4])
}

fn main() {
    let turns = calibrate();
    let folders = MODES.map(|_| tempfile::tempdir().expect("a temporary folder"));
    let mut per_event = [0.0; MODES.len()];
    let mut collector = [Some(0.0); MODES.len()];
    for (index, mode) in MODES.into_iter().enumerate() {
        per_event[index] = event_cost(&mode.recorder(folders[index].path()));
        if mode != Mode::Off {
            // Only one at a time: the thread is found by its name.
            collector[index] = collector_share(&mode.recorder(folders[index].path()), turns);
        }
    }

    let recorders: Vec<Recorder> = (MODES.iter().zip(&folders))
        .map(|(mode, folder)| mode.recorder(folder.path()))
        .collect();
    let lanes: Vec<Lane> = recorders.iter().map(|r| r.lane("work", 0)).collect();
    let mut per_item = [const { Vec::new() }; MODES.len()];
    for round in 0..ROUNDS {
        for turn in 0..MODES.len() {
            // Each mode is first as often as the others.
            let index = (turn + round) % MODES.len();
            let nanos = work(&recorders[index], &lanes[index], turns, ITEMS_A_TURN);
            per_item[index].push(nanos);
        }
    }
    println!(
        "{ROUNDS} rounds of {ITEMS_A_TURN} items, {EVENTS_PER_ITEM} events each, one more with a \
         trace; reading the clock takes {:.1} ns\n",
        clock_cost(&Recorder::off())
    );
    println!(
        "{:<14} {:>12} {:>12} {:>15} {:>14} {:>16}",
        "mode", "ns per item", "worker cost", "middle half", "ns per event", "collector's core"
    );
    for (index, mode) in MODES.into_iter().enumerate() {
        let pairs = per_item[index].iter().zip(&per_item[0]);
        let costs: Vec<f64> = pairs.map(|(on, off)| (on / off - 1.0) * 100.0).collect();
        let [low, middle, high] = quartiles(&costs);
        let [_, item, _] = quartiles(&per_item[index]);
        println!(
            "{:<14} {item:>12.0} {middle:>11.2}% {:>15} {:>14.1} {:>16}",
            mode.name(),
            format!("{low:.2} to {high:.2}"),
            per_event[index],
            collector[index].map_or("unknown".to_owned(), |share| format!("{share:.3}%")),
        );
    }
}
