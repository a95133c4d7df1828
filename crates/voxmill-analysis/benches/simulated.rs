//! Predictions compared with what the real pipeline then does, with stages that sleep; and how long a simulation takes.
//!
//! `cargo bench -p voxmill-analysis --bench simulated [-- PLANS [SEED]]`. Each plan is drawn from the seed. It runs once
//! with a log; from that log alone its own step time is replayed, and that of three changes is predicted; then the
//! changes are made and measured. The output is kept in `benches/records/predictions.md`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::convert::Infallible;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use voxmill_analysis::run::Run;
use voxmill_analysis::simulate::engine::simulate;
use voxmill_analysis::simulate::model::{Pace, RunModel};
use voxmill_analysis::simulate::setup::{Demand, Load, Setup, Stage, Training};
use voxmill_analysis::simulate::times::{Times, draw};
use voxmill_analysis::simulate::what_if::{parse, predict};
use voxmill_pipeline::Pipeline;
use voxmill_pipeline::group::{Group, Groups};
use voxmill_pipeline::plan::{Plan, Setting, SlotsPlan};
use voxmill_pipeline::run::Delivery;
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::event::{Event, Nanos, RunStarted, Step};
use voxmill_telemetry::recorder::{Recorder, RecorderOptions};

const STEPS: usize = 120;
/// As `voxmill train` leaves out.
const WARM_UP: usize = 3;

fn main() {
    let asked: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let (plans, seed) = (
        asked.first().copied().unwrap_or(12),
        asked.get(1).copied().unwrap_or(18),
    );
    speed();
    println!("\n## Predictions, stages that sleep, {STEPS} steps, seed {seed}\n");
    println!(
        "| plan | change | predicted ms | interval | measured ms | error | within |\n|---|---|---|---|---|---|---|"
    );
    let (mut replays, mut errors, mut within) = (Vec::new(), Vec::new(), 0);
    for number in 0..plans {
        let sleeping = Sleeping::drawn(seed, number);
        let run = sleeping.run();
        let model = RunModel::of(&run).expect("the log has all of it");
        let replayed = Pace::of_simulated(&model.simulate().expect("it ends").steps).step_ms;
        let error = replayed / model.measured.step_ms - 1.0;
        replays.push(error.abs());
        let words = sleeping.words();
        println!(
            "| {words} | none (replay) | {replayed:.2} | | {:.2} | {:+.1} % | |",
            model.measured.step_ms,
            100.0 * error
        );
        for (question, changed) in sleeping.changes() {
            let changes = parse(&question).expect("a known change");
            let predicted = match predict(&model, &changes) {
                Ok(predicted) => predicted,
                Err(error) => {
                    println!("| {words} | {question} | {error} | | | | |");
                    continue;
                }
            };
            let measured = measured(&changed.run());
            let likely = predicted.step_ms;
            let error = likely.value / measured - 1.0;
            let inside = (likely.low..=likely.high).contains(&measured);
            within += usize::from(inside);
            errors.push(error.abs());
            println!(
                "| {words} | {question} | {:.2} | {:.2} to {:.2} | {measured:.2} | {:+.1} % | {} |",
                likely.value,
                likely.low,
                likely.high,
                100.0 * error,
                if inside { "yes" } else { "no" }
            );
        }
    }
    let mean = |errors: &[f64]| 100.0 * errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let worst = |errors: &[f64]| 100.0 * errors.iter().copied().fold(0.0, f64::max);
    println!(
        "\nreplays: mean absolute error {:.2} %, worst {:.2} %",
        mean(&replays),
        worst(&replays)
    );
    println!(
        "changes: mean absolute error {:.2} %, worst {:.2} %; {within} of {} within their 90 % interval",
        mean(&errors),
        worst(&errors),
        errors.len()
    );
}

fn measured(run: &Run) -> f64 {
    Pace::of_steps(&run.steps[WARM_UP..]).step_ms
}

/// What 10,000 steps of a plan like that of a training take to simulate.
fn speed() {
    struct Uneven(Times);
    impl Load for Uneven {
        fn demand(&self, stage: usize, number: u64) -> Demand {
            let time = self.0.of(draw(1, stage as u64, number)) as u64;
            Demand::computing(if stage == 1 { time } else { time / 50 })
        }

        fn training(&self, _: u64) -> Training {
            Training {
                demand: Demand::computing(30_000_000),
                overhead: 100_000,
            }
        }

        fn members(&self, _: usize, _: u64) -> u64 {
            16
        }
    }
    let mut stages: Vec<Stage> = ["rows", "featurize", "keep", "batch", "collate", "prepare"]
        .map(Stage::new)
        .into();
    for stage in &mut stages[..3] {
        stage.buffer = 16;
    }
    stages[1].workers = 4;
    stages[3].gathers = true;
    stages[4].buffer = 50;
    let setup = Setup {
        slots_ahead: Some(4),
        cores: Some(4.0),
        ..Setup::new(stages)
    };
    let load = Uneven(Times::uneven(5e6, 1.0));
    println!("## 10,000 steps of 16 clips, 4 workers, 4 cores\n");
    for _ in 0..3 {
        let began = Instant::now();
        let simulated = simulate(&setup, &load, 10_000).expect("it ends");
        println!(
            "{:.3} s, {} events",
            began.elapsed().as_secs_f64(),
            simulated.events
        );
    }
}

/// A pipeline like the loader's whose stages sleep.
#[derive(Clone, Debug)]
struct Sleeping {
    seed: u64,
    workers: usize,
    rows: u64,
    buffer: usize,
    slots: usize,
    /// Milliseconds, and the variation of a clip's.
    clip_ms: f64,
    variation: f64,
    collate_ms: f64,
    prepare_ms: f64,
    train_ms: f64,
}

impl Sleeping {
    fn drawn(seed: u64, number: u64) -> Sleeping {
        let pick =
            |what: u64, of: &[f64]| of[(draw(seed, what, number) % of.len() as u64) as usize];
        Sleeping {
            seed: draw(seed, 99, number),
            workers: pick(1, &[1.0, 2.0, 3.0, 4.0]) as usize,
            rows: pick(2, &[2.0, 4.0, 8.0]) as u64,
            buffer: pick(3, &[1.0, 2.0, 5.0, 20.0]) as usize,
            slots: pick(4, &[1.0, 2.0, 4.0]) as usize,
            clip_ms: pick(5, &[3.0, 6.0, 12.0]),
            variation: pick(6, &[0.1, 0.5, 1.5]),
            collate_ms: pick(7, &[1.0, 4.0, 25.0]),
            prepare_ms: pick(8, &[1.0, 5.0, 30.0]),
            train_ms: pick(9, &[10.0, 25.0, 40.0]),
        }
    }

    fn words(&self) -> String {
        let Sleeping {
            workers,
            rows,
            buffer,
            slots,
            clip_ms,
            variation,
            collate_ms,
            prepare_ms,
            train_ms,
            ..
        } = self;
        format!(
            "{workers} × {clip_ms} ms ± {variation}, {rows} clips, collate {collate_ms}, transfer {prepare_ms}, train {train_ms}, buffer {buffer}, slots {slots}"
        )
    }

    fn changes(&self) -> Vec<(String, Sleeping)> {
        let more = self.workers * 2;
        let (buffer, slots) = (if self.buffer < 5 { 10 } else { 1 }, self.slots + 2);
        vec![
            (
                format!("num_workers={more}"),
                Sleeping {
                    workers: more,
                    ..self.clone()
                },
            ),
            (
                format!("buffer_size={buffer}, prefetch_buffer_size={slots}"),
                Sleeping {
                    buffer,
                    slots,
                    ..self.clone()
                },
            ),
            (
                "transfer=2x, model=0.5x".to_owned(),
                Sleeping {
                    prepare_ms: self.prepare_ms / 2.0,
                    train_ms: self.train_ms * 2.0,
                    ..self.clone()
                },
            ),
        ]
    }

    /// Runs it, and reads its log.
    fn run(&self) -> Run {
        let folder = tempfile::tempdir().expect("a folder for the log");
        let log = folder.path().join("events.jsonl");
        self.record(&log);
        Run::read(&log).expect("a log that was just written")
    }

    fn record(&self, log: &Path) {
        let options = RecorderOptions {
            log: Some(log.to_owned()),
            trace: None,
        };
        let recorder = Recorder::start(options).expect("a log");
        let clips = Times::uneven(self.clip_ms * 1e6, self.variation);
        let seed = self.seed;
        let asleep = move |ms: f64| sleep(Duration::from_secs_f64(ms / 1e3));
        let (collate_ms, prepare_ms) = (self.collate_ms, self.prepare_ms);
        let plan = Plan {
            slots: Some(SlotsPlan {
                ahead: Setting::fixed(self.slots),
                bytes_each: 1,
                budget: None,
            }),
            start_delay_seconds: 2.0,
            ..Plan::new("batches", "train")
        };
        let rows = self.rows as usize;
        let pipeline = Pipeline::source(plan, "rows", |from| (from..).map(Ok::<u64, Infallible>))
            .buffer(Setting::fixed(rows))
            .stage(
                "featurize",
                Work::new(move |clip: u64| {
                    asleep(clips.of(draw(seed, 1, clip)) / 1e6);
                    Ok::<_, Infallible>(clip)
                }),
            )
            .workers(Setting::fixed(self.workers))
            .buffer(Setting::fixed(rows))
            .stage("keep", Work::new(Ok::<u64, Infallible>))
            .buffer(Setting::fixed(rows))
            .batch("batch", Groups::of(rows))
            .stage(
                "collate",
                Work::new(move |group: Group<u64>| {
                    asleep(collate_ms);
                    Ok::<_, Infallible>(group.members.len() as u64)
                }),
            )
            .buffer(Setting::fixed(self.buffer))
            .stage(
                "prepare",
                Work::new(move |rows: u64| {
                    asleep(prepare_ms);
                    Ok::<_, Infallible>(rows)
                }),
            );
        let started = RunStarted {
            name: "sleeping".to_owned(),
            program: "bench".to_owned(),
            plan: Some(pipeline.plan().clone()),
            ..RunStarted::default()
        };
        recorder.record(Event::RunStarted(started));
        let mut running = pipeline.start(recorder.clone()).expect("a good plan");
        let mut last_end = recorder.now();
        for number in 1..=STEPS + WARM_UP {
            let asked = recorder.now();
            let Some(Ok(Delivery::Item(batch))) = running.next() else {
                panic!("the source has no end");
            };
            let began = recorder.now();
            asleep(self.train_ms);
            let ended = recorder.now();
            let rows = *batch;
            batch.done();
            recorder.record(Event::Step(Step {
                step: number as u64,
                waited: began.since(asked),
                service: ended.since(began),
                overhead: asked.since(last_end),
                ended: Some(ended),
                values: [("clips".to_owned(), rows as f64)].into(),
                ..Step::default()
            }));
            last_end = ended;
        }
        drop(running);
        let _: Nanos = last_end;
        recorder.record(Event::RunEnded {
            outcome: voxmill_telemetry::event::Outcome::Finished,
        });
        recorder.finish().expect("the log is whole");
    }
}
