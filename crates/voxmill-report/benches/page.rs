//! How long the page of a run of 100,000 steps takes, and how large it is.
//!
//! `cargo bench -p voxmill-report --bench page [-- LOG [PAGE]]`: of that log instead, and where the page goes.
//! Steps of 100 ms in eight shapes, with what a real run records by the second next to them.

#![expect(clippy::print_stdout, reason = "what it measures is printed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use voxmill_analysis::history::History;
use voxmill_analysis::profile::profile;
use voxmill_report::page::{Reported, Samples, page};
use voxmill_telemetry::event::{
    Event, HostSample, Nanos, Outcome, RunStarted, SlowItem, StageSecond, Stamped, Step,
};
use voxmill_telemetry::log::LogWriter;
use voxmill_telemetry::plan::{Plan, StagePlan};
use voxmill_telemetry::stats::Histogram;

const STEPS: u64 = 100_000;
const MS: u64 = 1_000_000;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let mut given = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let folder = tempfile::tempdir()?;
    let log = match given.next() {
        Some(log) => PathBuf::from(log),
        None => {
            let path = folder.path().join("events.jsonl");
            write_log(&path)?;
            path
        }
    };
    println!("log: {:.1} MB", std::fs::metadata(&log)?.len() as f64 / 1e6);
    let mut html = String::new();
    for round in 1..=3 {
        let began = Instant::now();
        let (run, history) = History::read(&log)?;
        let read = began.elapsed();
        let profile = profile(&run);
        let analysed = began.elapsed();
        let reported = Reported {
            name: "bench".to_owned(),
            run,
            history,
            profile,
            in_progress: false,
            samples: Samples::default(),
        };
        html = page(&[reported], None);
        let seconds = |time: std::time::Duration| time.as_secs_f64();
        println!(
            "round {round}: {:.2} s (reading {:.2}, findings {:.2}, page {:.2}); {:.2} MB",
            seconds(began.elapsed()),
            seconds(read),
            seconds(analysed - read),
            seconds(began.elapsed() - analysed),
            html.len() as f64 / 1e6,
        );
    }
    if let Some(path) = given.next() {
        std::fs::write(path, html)?;
    }
    Ok(())
}

fn write_log(path: &Path) -> Result<(), Failed> {
    let mut log = LogWriter::append(path)?;
    let mut write = |at: u64, event: Event| {
        log.write(&Stamped {
            at: Nanos(at),
            event,
        })
    };
    let stages = ["rows", "featurize", "keep", "batch", "collate", "prepare"];
    let mut plan = Plan::new("batches", "train");
    plan.stages = stages.map(StagePlan::new).into();
    write(
        0,
        Event::RunStarted(RunStarted {
            name: "train".to_owned(),
            plan: Some(plan),
            ..RunStarted::default()
        }),
    )?;
    let mut clock = 0;
    let mut second = 0;
    for number in 1..=STEPS {
        let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let service = 90 * MS + noise;
        let waited = if number % 1_000 == 0 {
            400 * MS
        } else {
            noise / 100
        };
        clock += service + waited + 20_000;
        let value = |name: &str, value: f64| (name.to_owned(), value);
        let decay = 1.0 / (1.0 + number as f64 / 5_000.0);
        let values = [
            value("loss", 2.0 * decay + noise as f64 / 1e9),
            value("mel", 0.8 * decay),
            value("mean", 0.9 * decay),
            value("duration", 0.3 * decay),
            value("gradient_norm", 1.0 + noise as f64 / 1e7),
            value("learning_rate", 1e-3 * decay),
            value("frames", 3_000.0),
            value("clips", 16.0),
        ];
        let frames = 200 + 40 * (number % 8);
        let step = Step {
            step: number,
            waited: Nanos(waited),
            late: (waited > 50 * MS).then(|| "featurize".to_owned()),
            service: Nanos(service),
            overhead: Nanos(20_000),
            shape: format!("16x{frames}x60").parse().ok(),
            ended: Some(Nanos(clock)),
            values: BTreeMap::from(values),
            ..Step::default()
        };
        write(clock, Event::Step(step))?;
        while clock / 1_000_000_000 > second {
            second += 1;
            let at = second * 1_000_000_000;
            for (n, stage) in stages.iter().enumerate() {
                let mut service = Histogram::default();
                (0..10).for_each(|item| service.record(Nanos((item + 1) * (n as u64 + 1) * MS)));
                let slow = SlowItem::from((second, format!("clip-{second}"), Nanos(20 * MS)));
                let of_second = StageSecond {
                    stage: (*stage).to_owned(),
                    service,
                    waits: BTreeMap::new(),
                    slowest: vec![slow],
                };
                write(at, Event::StageSecond(of_second))?;
                let level = Event::BufferLevel {
                    buffer: (*stage).to_owned(),
                    items: (second + n as u64) % 10,
                    capacity: 10,
                };
                write(at, level)?;
            }
            let sample = HostSample {
                cpu_percent: Some(60.0),
                process_cpu_percent: Some(120.0),
                process_memory: Some(900_000_000 + noise),
                memory_total: Some(16_000_000_000),
                ..HostSample::default()
            };
            write(at, Event::HostSample(sample))?;
        }
    }
    let outcome = Outcome::Finished;
    write(clock, Event::RunEnded { outcome })?;
    log.flush()?;
    Ok(())
}
