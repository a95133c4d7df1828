//! How fast the real training loop goes on batches that are already there: frames a second, and
//! the time of a step. One line of JSON on standard output.
//!
//! `cargo bench -p voxmill-trainer --bench train_step -- [--shape prototype|nano|tiny|…] [--rows 8]
//! [--frames 560] [--tokens 96] [--steps 30] [--threads 2] [--recompute] [--precision bf16|f16]`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use voxmill_audio::AudioSettings;
use voxmill_data::batch::{Batch, BatchForm, BatchRow, collate};
use voxmill_data::batch_plan::{Position, Shape};
use voxmill_text::language::Language;
use voxmill_text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::{Checkpoints, PrepareOn, Progress, VoiceFacts};
use voxmill_trainer::device::Precision;
use voxmill_trainer::model::{ModelShape, ModelSize, Vocabulary};
use voxmill_trainer::optimizer::AdamW;
use voxmill_trainer::prepare::{Augment, LANGUAGES, MelStatistics, ReadyBatch};
use voxmill_trainer::schedule::{Decay, Schedule};
use voxmill_trainer::train::{
    Fed, Feed, FeedError, Observer, RunLimits, StepReport, TrainOptions, Trainer,
};

/// The same batch again and again.
struct Replay(ReadyBatch);

impl Feed for Replay {
    fn next(&mut self) -> Option<Result<Fed, FeedError>> {
        Some(Ok(Fed {
            ready: self.0.clone(),
            trained: Box::new(|| Box::new(|| {})),
        }))
    }
    fn after(&self, position: Position) -> Position {
        position
    }
    fn position(&self) -> Value {
        Value::Null
    }
}

#[derive(Default)]
struct Times {
    service: Vec<f64>,
    last_loss: f64,
}

impl Observer for Times {
    fn steps(&mut self, steps: &[StepReport], _: &Progress) -> Result<(), FeedError> {
        for step in steps {
            self.service.push(step.service.as_secs_f64());
            self.last_loss = step.losses.total;
        }
        Ok(())
    }
}

fn batch(rows: usize, frames: usize, tokens: usize) -> Batch {
    let sound: Vec<f32> = (0..rows * frames.max(129) * 80)
        .map(|i| (i as f32 * 0.37).sin() * 2.0 - 5.0)
        .collect();
    let ids: Vec<u16> = (0..rows * tokens)
        .map(|i| 14 + (i * 7 % 60) as u16)
        .collect();
    let form = BatchForm {
        position: Position::default(),
        shape: Shape {
            rows: rows as u32,
            frames: frames as u32,
            tokens: tokens as u32,
        },
        mel_channels: 80,
        reference_frames: 129,
        framing: None,
    };
    let row = |clip: usize| {
        Some(BatchRow {
            clip,
            tokens: &ids[clip * tokens..][..tokens],
            sound: &sound[clip * frames * 80..][..frames * 80],
            language: Language::English,
            speaker: 0,
            reference: &sound[clip * 129 * 80..][..129 * 80],
        })
    };
    collate(form, (0..rows).map(row))
}

fn prototype() -> ModelShape {
    ModelShape {
        encoder_widen: 2,
        decoder_blocks: 6,
        decoder_widen: 3,
        reference_channels: 64,
        reference_blocks: 2,
        style: 48,
        ..ModelSize::Tiny.shape()
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let number = |name: &str, usual: usize| -> usize {
        value(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (rows, frames, tokens) = (
        number("--rows", 8),
        number("--frames", 560),
        number("--tokens", 96),
    );
    let (steps, threads) = (number("--steps", 30), number("--threads", 2));
    let named = value("--shape").unwrap_or_else(|| "prototype".to_owned());
    let shape = match named.as_str() {
        "prototype" => prototype(),
        size => size.parse::<ModelSize>().expect("a size").shape(),
    };
    let precision = match value("--precision").as_deref() {
        None | Some("single") => Precision::Single,
        Some("bf16") => Precision::Bf16,
        Some("f16") => Precision::F16,
        Some(other) => panic!("{other} is no precision"),
    };
    let symbols = SymbolTable::built_in();
    let voice = VoiceFacts {
        size: ModelSize::Tiny,
        shape,
        vocabulary: Vocabulary {
            tokens: symbols.symbols.len(),
            languages: LANGUAGES,
            mel_channels: 80,
        },
        symbols,
        audio: AudioSettings::default(),
        mel_statistics: MelStatistics {
            mean: -5.0,
            deviation: 2.0,
        },
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: "one".to_owned(),
        languages: BTreeMap::new(),
        recordings: None,
    };
    let options = TrainOptions {
        seed: 0,
        optimizer: AdamW::default(),
        schedule: Schedule {
            peak: 1e-3,
            warmup_steps: 50,
            decay: Decay::Constant,
        },
        limits: RunLimits {
            steps: Some(steps as u64),
            seconds: None,
        },
        accumulate: 1,
        log_every: steps as u64,
        checkpoint_every: None,
        validate_every: None,
        sample_every: None,
        patience: None,
        max_bad_steps: 0,
        max_failed_checkpoints: 1,
        recompute: args.iter().any(|arg| arg == "--recompute"),
        precision,
        prepare_on: PrepareOn::Host,
        as_settled: false,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads");
    let folder = tempfile::tempdir().expect("a folder");
    let mut times = Times::default();
    let (parameters, loss) = pool.install(|| {
        let device = voxmill_trainer::device::cpu();
        let training = Trainer::new(options, voice, Value::Null, vec!["one".to_owned()], &device);
        let parameters = training.parameters();
        let checkpoints = Checkpoints::new(folder.path(), 1);
        let mut preparer = training.preparing(&device, Augment::default()).preparer();
        let mut feed = Replay(preparer.prepare(batch(rows, frames, tokens)));
        let summary = training.run(&mut feed, &checkpoints, &mut times, &AtomicBool::new(false));
        summary.expect("the run ends well");
        (parameters, times.last_loss)
    });
    // The first steps warm up caches and the allocator.
    let mut measured: Vec<f64> = times.service.split_off(3.min(times.service.len() - 1));
    measured.sort_by(f64::total_cmp);
    let (best, median) = (measured[0], measured[measured.len() / 2]);
    let per_second = |seconds: f64| (rows * frames) as f64 / seconds;
    let result = json!({
        "program": "voxmill", "shape": named, "precision": precision, "parameters": parameters, "threads": threads,
        "rows": rows, "frames": frames, "tokens": tokens, "steps": measured.len(),
        "best_ms": best * 1e3, "median_ms": median * 1e3,
        "frames_per_second_best": per_second(best), "frames_per_second_median": per_second(median),
        "peak_resident_mb": peak_resident_mb(), "last_loss": loss,
    });
    #[expect(clippy::print_stdout, reason = "the bench's result")]
    {
        println!("{result}");
    }
    ExitCode::SUCCESS
}

fn peak_resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
