//! Text to Ogg Vorbis by the installed synthesisers and encoder, with a look at what came out.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use super::Clip;

/// Any clip quieter than this (root mean square, full scale 1) would be a fault.
const SILENT_RMS: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Flite(&'static str),
    EspeakPersian,
}

impl Voice {
    pub(super) fn speaker(self) -> &'static str {
        match self {
            Voice::Flite(name) => name,
            Voice::EspeakPersian => "espeak-fa",
        }
    }

    pub(super) fn language(self) -> &'static str {
        match self {
            Voice::Flite(_) => "en",
            Voice::EspeakPersian => "fa",
        }
    }

    fn synthesiser(self, text: &str, wav: &Path) -> Command {
        let mut command;
        match self {
            Voice::Flite(name) => {
                command = Command::new("flite");
                command.args(["-voice", name, "-t", text, "-o"]).arg(wav);
            }
            Voice::EspeakPersian => {
                command = Command::new("espeak-ng");
                command
                    .args(["-v", "fa", "-s", "140", "-w"])
                    .arg(wav)
                    .arg(text);
            }
        }
        command
    }
}

#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) ogg: Vec<u8>,
    pub(super) seconds: f64,
    /// Largest sample; full scale is 1.
    pub(super) peak: f64,
    pub(super) rms: f64,
}

/// Speaks all clips on all cores; the answer is in the clips' order.
pub(super) fn speak_all(clips: &[Clip], quality: f32, keep: Option<&Path>) -> Result<Vec<Spoken>> {
    let folder = tempfile::tempdir()?;
    if let Some(keep) = keep {
        fs::create_dir_all(keep)?;
    }
    let folder = keep.unwrap_or(folder.path());
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Spoken)>> {
        let mut spoken = Vec::new();
        while let Some((index, clip)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            clips.get(index).map(|clip| (index, clip))
        } {
            let one = speak(clip, quality, folder).with_context(|| clip.id.clone())?;
            spoken.push((index, one));
        }
        Ok(spoken)
    };
    let mut spoken = thread::scope(|scope| -> Result<Vec<(usize, Spoken)>> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(spoken) => all.extend(spoken?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })?;
    spoken.sort_by_key(|(index, _)| *index);
    Ok(spoken.into_iter().map(|(_, one)| one).collect())
}

fn speak(clip: &Clip, quality: f32, folder: &Path) -> Result<Spoken> {
    let wav = folder.join(format!("{}.wav", clip.id));
    let ogg = folder.join(format!("{}.ogg", clip.id));
    complete(&mut clip.voice.synthesiser(&clip.text, &wav))?;
    let bytes = fs::read(&wav)?;
    let (rate, samples) = mono_16_bit(&bytes)?;
    let peak = samples.iter().map(|s| s.unsigned_abs()).max().unwrap_or(0);
    let energy: f64 = samples.iter().map(|s| f64::from(*s).powi(2)).sum();
    let rms = (energy / samples.len().max(1) as f64).sqrt() / 32768.0;
    ensure!(rms > SILENT_RMS, "nearly silent ({rms:.4})");
    ensure!(peak < i16::MAX as u16, "clipped: a sample is at full scale");
    // A fixed serial number makes the bytes repeatable and the heads of all files alike.
    let mut encoder = Command::new("oggenc");
    encoder.args([
        "--quiet",
        "--serial",
        "1",
        "--quality",
        &quality.to_string(),
        "--output",
    ]);
    complete(encoder.arg(&ogg).arg(&wav))?;
    Ok(Spoken {
        ogg: fs::read(&ogg)?,
        seconds: samples.len() as f64 / f64::from(rate),
        peak: f64::from(peak) / 32768.0,
        rms,
    })
}

fn complete(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}; is it installed?"))?;
    ensure!(
        output.status.success(),
        "{program} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// Sample rate and samples of the only kind of wav file that the synthesisers write.
fn mono_16_bit(wav: &[u8]) -> Result<(u32, Vec<i16>)> {
    ensure!(
        wav.starts_with(b"RIFF") && wav.get(8..12) == Some(b"WAVE"),
        "not a wav file"
    );
    let mut rest = &wav[12..];
    let mut rate = None;
    while let Some((head, body)) = rest.split_first_chunk::<8>() {
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let chunk = body.get(..size).context("the wav file is cut off")?;
        match &head[..4] {
            b"fmt " => {
                ensure!(chunk.len() >= 16, "the wav file's format is cut off");
                ensure!(
                    chunk[..4] == [1, 0, 1, 0] && chunk[14] == 16,
                    "not 16-bit mono"
                );
                rate = Some(u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]));
            }
            b"data" => {
                let samples = chunk
                    .chunks_exact(2)
                    .map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
                return Ok((
                    rate.context("samples before the format")?,
                    samples.collect(),
                ));
            }
            _ => {}
        }
        rest = body.get(size + size % 2..).unwrap_or_default();
    }
    bail!("the wav file has no samples")
}
