//! Side by side with what a user would pick instead: the same clips, in turns, one ratio a round.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use voxmill_audio::{AudioSettings, LogMel, decode_mono};

use super::corpus::Corpus;
use super::record::Record;
use super::{WORKERS, prepare};
use crate::output_of;

/// Log-mel on one thread, decoded samples in memory on both sides.
pub(super) fn librosa(
    root: &Path,
    python: &Path,
    wavs: &Path,
    rounds: usize,
    record: &mut Record,
) -> anyhow::Result<()> {
    let mut clips = Vec::new();
    for entry in std::fs::read_dir(wavs)? {
        clips.push(decode_mono(&entry?.path())?);
    }
    let seconds: f64 = clips
        .iter()
        .map(|clip| clip.samples.len() as f64 / f64::from(clip.sample_rate))
        .sum();
    let mut log_mel = LogMel::new(&AudioSettings::default())?;
    let mut frames = Vec::new();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let script = root.join("tools/python/mel_bench.py");
        let said = output_of(Command::new(python).arg(script).arg(wavs))?;
        let time = fastest(&String::from_utf8_lossy(&said));
        theirs.push(time.context("mel_bench.py said nothing of its time")?);
        let mut best = f64::INFINITY;
        for _ in 0..15 {
            let begin = Instant::now();
            for clip in &clips {
                frames.clear();
                log_mel.log_mel(&clip.samples, &mut frames);
            }
            best = best.min(begin.elapsed().as_secs_f64() * 1e3 / seconds);
        }
        ours.push(best);
    }
    record.section("Log-mel", &format!("{} clips, {seconds:.1} s of audio, one thread; ms per second of audio, fastest of 15 passes a round", clips.len()));
    record.rounds("librosa 0.11.0", &theirs, 4);
    record.rounds("voxmill", &ours, 4);
    record.ratio(&theirs, &ours, "at least 2.5 ×", 2.5);
    Ok(())
}

/// The number after the word `fastest` in what mel_bench.py prints.
fn fastest(said: &str) -> Option<f64> {
    let number = said.split("fastest ").nth(1)?;
    number.split([',', ' ']).next()?.parse().ok()
}

/// Decode, mel and write here; decode and mel there. Their time is that of the loop alone, without
/// the start of Python; ours is that of the whole process.
pub(super) fn dataloader(
    root: &Path,
    python: &Path,
    program: &Path,
    corpus: &Corpus,
    rounds: usize,
    record: &mut Record,
) -> anyhow::Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let script = root.join("tools/python/dataloader.py");
        let workers = WORKERS.to_string();
        let mut loop_of_theirs = Command::new(python);
        loop_of_theirs.arg(script).arg(corpus.path()).arg(workers);
        let said: serde_json::Value = serde_json::from_slice(&output_of(&mut loop_of_theirs)?)?;
        let rate = said["clips_per_second"].as_f64();
        theirs.push(rate.context("dataloader.py said nothing of its rate")?);

        corpus.forget_cache()?;
        let begin = Instant::now();
        let report = prepare(program, corpus.path())?;
        ours.push(corpus.clips() as f64 / begin.elapsed().as_secs_f64());
        ensure!(
            report["cache"]["rebuilt"] == corpus.clips(),
            "prepare did not make every clip"
        );
    }
    let clips = corpus.clips();
    let what = format!("{clips} clips cold, {WORKERS} workers on both sides; clips per second");
    record.section("Prepare", &what);
    let loader = "PyTorch DataLoader (soundfile, torch.stft), nothing written";
    record.rounds(loader, &theirs, 0);
    record.rounds("voxmill prepare, text and writing included", &ours, 0);
    record.ratio(&ours, &theirs, "at least 3 ×", 3.0);
    Ok(())
}
