//! Text to Ogg Vorbis by the installed synthesisers and encoder, with a look at what came out.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use voxmill_audio::decode_mono;

use super::DemoClip;
use crate::output_of;

/// Any clip quieter than this (root mean square, full scale 1) would be a fault.
const SILENT_RMS: f64 = 0.01;
/// The largest of 16 bits.
const LARGEST: f32 = 32_767.0 / 32_768.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoVoice {
    Flite(&'static str),
    EspeakPersian,
}

impl DemoVoice {
    pub(super) fn speaker(self) -> &'static str {
        match self {
            DemoVoice::Flite(name) => name,
            DemoVoice::EspeakPersian => "espeak-fa",
        }
    }

    pub(super) fn language(self) -> &'static str {
        match self {
            DemoVoice::Flite(_) => "en",
            DemoVoice::EspeakPersian => "fa",
        }
    }

    fn synthesiser(self, text: &str, wav: &Path) -> Command {
        let (program, args, last) = match self {
            DemoVoice::Flite(name) => ("flite", vec!["-voice", name, "-t", text, "-o"], None),
            DemoVoice::EspeakPersian => {
                ("espeak-ng", vec!["-v", "fa", "-s", "140", "-w"], Some(text))
            }
        };
        let mut command = Command::new(program);
        command.args(args).arg(wav).args(last);
        command
    }
}

#[derive(Debug)]
pub(super) struct SpokenClip {
    pub(super) ogg: Vec<u8>,
    pub(super) seconds: f64,
    /// Largest sample; full scale is 1.
    pub(super) peak: f64,
    pub(super) rms: f64,
}

/// Speaks all clips on all cores; the answer is in the clips' order.
pub(super) fn speak_all(
    clips: &[DemoClip],
    quality: f32,
    keep: Option<&Path>,
) -> Result<Vec<SpokenClip>> {
    let folder = tempfile::tempdir()?;
    if let Some(keep) = keep {
        fs::create_dir_all(keep)?;
    }
    let folder = keep.unwrap_or(folder.path());
    let speak = |clip: &DemoClip| speak(clip, quality, folder).with_context(|| clip.id.clone());
    clips.par_iter().map(speak).collect()
}

fn speak(clip: &DemoClip, quality: f32, folder: &Path) -> Result<SpokenClip> {
    let wav = folder.join(format!("{}.wav", clip.id));
    let ogg = folder.join(format!("{}.ogg", clip.id));
    output_of(&mut clip.voice.synthesiser(&clip.text, &wav))?;
    let sound = decode_mono(&wav)?;
    let samples = &sound.samples;
    let peak = samples.iter().fold(0.0_f32, |peak, s| peak.max(s.abs()));
    let energy: f64 = samples.iter().map(|s| f64::from(*s).powi(2)).sum();
    let rms = (energy / samples.len().max(1) as f64).sqrt();
    ensure!(rms > SILENT_RMS, "nearly silent ({rms:.4})");
    ensure!(peak < LARGEST, "clipped: a sample is at full scale");
    // A fixed serial number makes the bytes repeatable and the heads of all files alike.
    let mut encoder = Command::new("oggenc");
    encoder.args(["--quiet", "--serial", "1", "--quality"]);
    encoder.arg(quality.to_string()).arg("--output");
    output_of(encoder.arg(&ogg).arg(&wav))?;
    Ok(SpokenClip {
        ogg: fs::read(&ogg)?,
        seconds: samples.len() as f64 / f64::from(sound.sample_rate),
        peak: peak.into(),
        rms,
    })
}
