//! The recorded benches of the data side: ours and theirs on the same clips, in turns, in one run.
//!
//! Each figure is taken on the real thing: the release program, files on disk, the real cache.

mod against;
mod corpus;
mod record;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rayon::prelude::*;
use voxmill_data::cache::Cache;
use voxmill_text::{FrontEnd, FrontEndOptions};

use self::corpus::Corpus;
use self::record::Record;
use crate::output_of;
use xtask::{project_root, python, tell};

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Folder with ljspeech-32/ and ljspeech-13100-transcripts.csv
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// A Python that has librosa, soundfile and torch [default: one is made below the target folder]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Clips of the full-size corpus, copies of the 32 in turn
    #[arg(long, default_value_t = 13_100)]
    clips: usize,
    /// Rounds of each comparison
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const WORKERS: usize = 2;

pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    let root = project_root();
    let python = match args.python {
        Some(python) => python,
        None => python::environment(&root, "bench-python", "tools/python/requirements-bench.txt")?,
    };
    let program = build_program(&root)?;
    let mut record = Record::begin(&root)?;

    tell("text of the transcripts");
    let transcripts = corpus::transcripts(&args.data)?;
    text(&transcripts, &mut record)?;

    tell("log-mel against librosa");
    let wavs = args.data.join("ljspeech-32/wavs");
    against::librosa(&root, &python, &wavs, args.rounds, &mut record)?;

    tell("making the corpus");
    let corpus = Corpus::make(&args.data, &transcripts, args.clips)?;
    tell("prepare against a PyTorch DataLoader");
    against::dataloader(&root, &python, &program, &corpus, args.rounds, &mut record)?;

    tell("scan, index, memory");
    second_run(&program, &corpus, &mut record)?;
    index(&corpus, &mut record)?;
    memory(&program, &args.data, &transcripts, args.clips, &mut record)?;
    record.write()
}

fn build_program(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "voxmill"])
        .current_dir(root)
        .status()?;
    ensure!(built.success(), "cannot build the program");
    Ok(python::target_dir(root).join("release/voxmill"))
}

/// Front-end and transcripts on two threads. The first round is the one that a user sees: nothing is loaded yet.
fn text(transcripts: &[String], record: &mut Record) -> anyhow::Result<()> {
    let threads = rayon::ThreadPoolBuilder::new().num_threads(WORKERS);
    let threads = threads.build()?;
    let mut rounds = Vec::new();
    let mut tokens = 0;
    for _ in 0..5 {
        let begin = Instant::now();
        let front_end = FrontEnd::new(FrontEndOptions::default())?;
        let tokens_of = |text: &String| {
            let features = front_end.features(text, None);
            features.expect("espeak-ng was not asked for").tokens.len()
        };
        tokens = threads.install(|| transcripts.par_iter().map(tokens_of).sum::<usize>());
        rounds.push(begin.elapsed().as_secs_f64());
    }
    let count = transcripts.len();
    let what = format!(
        "{count} transcripts → {tokens} tokens, {WORKERS} threads, making the front-end included"
    );
    record.section("Text", &what);
    record.rounds("seconds (the first is cold)", &rounds, 3);
    record.target("at most 0.5 s", rounds[0] <= 0.5);
    Ok(())
}

/// A run on an unchanged dataset: manifest, headers and the cache's index.
fn second_run(program: &Path, corpus: &Corpus, record: &mut Record) -> anyhow::Result<()> {
    let (mut scans, mut walls) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let begin = Instant::now();
        let report = prepare(program, corpus.path())?;
        walls.push(begin.elapsed().as_secs_f64());
        let up_to_date = report["cache"]["up_to_date"] == true;
        ensure!(up_to_date, "the second run found work");
        let scan = report["time"]["scan_seconds"].as_f64();
        scans.push(scan.context("no scan time")?);
    }
    let clips = corpus.clips();
    let what =
        format!("`voxmill prepare` on {clips} unchanged clips, warm page cache, {WORKERS} workers");
    record.section("Second run", &what);
    record.rounds("scan of manifest and audio headers, seconds", &scans, 3);
    record.target("at most 0.5 s", largest(&scans) <= 0.5);
    record.rounds("whole process, seconds", &walls, 3);
    Ok(())
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn index(corpus: &Corpus, record: &mut Record) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let begin = Instant::now();
        let cache = Cache::open(&corpus.features())?;
        rounds.push(begin.elapsed().as_secs_f64() * 1e3);
        ensure!(cache.len() == corpus.clips(), "the index is not whole");
    }
    let what = format!("opening the cache of {} clips", corpus.clips());
    record.section("Index", &what);
    record.rounds("milliseconds", &rounds, 2);
    record.target("at most 50 ms", largest(&rounds) <= 50.0);
    Ok(())
}

/// The most anonymous memory of a full `prepare`, at full size and at a tenth of it.
fn memory(
    program: &Path,
    data: &Path,
    transcripts: &[String],
    clips: usize,
    record: &mut Record,
) -> anyhow::Result<()> {
    let what = "largest RssAnon of a cold `voxmill prepare`, looked at every 5 ms";
    record.section("Memory", what);
    let mut peaks = Vec::new();
    for clips in [clips / 10, clips] {
        let corpus = Corpus::make(data, transcripts, clips)?;
        let mut child = prepare_command(program, corpus.path())
            .stdout(Stdio::null())
            .spawn()?;
        let mut peak_kb = 0;
        while child.try_wait()?.is_none() {
            peak_kb = peak_kb.max(rss_anon_kb(child.id()).unwrap_or(0));
            std::thread::sleep(Duration::from_millis(5));
        }
        ensure!(child.wait()?.success(), "prepare failed");
        let peak_mb = peak_kb as f64 / 1e3;
        peaks.push(peak_mb);
        record.line(&format!("{clips} clips: {peak_mb:.1} MB"));
    }
    record.target("below 300 MB", largest(&peaks) < 300.0);
    Ok(())
}

fn rss_anon_kb(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn prepare_command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["prepare", "--json", "--num-workers"]);
    command.arg(WORKERS.to_string());
    command.arg("--train-data").arg(folder);
    command
}

fn prepare(program: &Path, folder: &Path) -> anyhow::Result<serde_json::Value> {
    let output = output_of(&mut prepare_command(program, folder))?;
    let report: serde_json::Value = serde_json::from_slice(&output)?;
    Ok(report["datasets"][0].clone())
}
