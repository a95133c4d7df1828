//! The voice that a run begins with: new, or another run's.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use voxmill_speech::manifest::Split;
use voxmill_speech::text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::VoiceFacts;
use voxmill_trainer::device::Device;
use voxmill_trainer::model::Vocabulary;
use voxmill_trainer::prepare::{LANGUAGES, MelStatistics};
use voxmill_trainer::train::Training;

use super::complaints::{describe, of_checkpoint};
use super::data::Data;
use super::run_folder::Named;
use super::start;
use crate::commands::tell;
use crate::complaint::Complaint;
use crate::feed::train::Shelf;
use crate::settings::TrainSettings;

/// Clips that the mel statistics are taken from.
const STATISTICS_CLIPS: usize = 128;

/// A voice that has not learnt anything yet.
pub(in crate::commands) fn new_voice(
    settings: &TrainSettings,
    data: &Data,
    shelf: &Shelf,
) -> anyhow::Result<VoiceFacts> {
    let sample = shelf.sample_clips(Split::Train, STATISTICS_CLIPS, settings.data.batches.seed);
    let statistics = shelf.mel_statistics(&sample)?.ok_or_else(|| {
        Complaint::new(
            "no audio of the clips looked at could be read",
            "`voxmill prepare` on the same folder says why",
        )
    })?;
    let size = start::size(settings.model_size);
    let symbols = SymbolTable::built_in();
    let mut clips_of = BTreeMap::<u32, usize>::new();
    for clip in data
        .train
        .clips
        .iter()
        .filter(|clip| clip.split == Split::Train)
    {
        *clips_of.entry(clip.speaker).or_default() += 1;
    }
    let main = clips_of
        .iter()
        .max_by_key(|(_, clips)| **clips)
        .map_or(0, |(speaker, _)| *speaker);
    Ok(VoiceFacts {
        size,
        shape: size.shape(),
        vocabulary: Vocabulary {
            tokens: symbols.symbols.len(),
            languages: LANGUAGES,
            mel_channels: settings.data.audio.n_mels,
        },
        symbols,
        audio: settings.data.audio.clone(),
        mel_statistics: MelStatistics {
            mean: statistics.mean as f32,
            // A dataset of silence has none; dividing by it would not help.
            deviation: statistics.standard_deviation.max(1e-3) as f32,
        },
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: data
            .train
            .speakers
            .get(main as usize)
            .cloned()
            .unwrap_or_default(),
    })
}

pub(super) fn from_other_voice(
    path: &Path,
    options: voxmill_trainer::train::TrainOptions,
    mut voice: VoiceFacts,
    stored: Value,
    speakers: Vec<String>,
    device: &Device,
) -> anyhow::Result<Training> {
    let found = Named::find(path).best().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        tell(&format!(
            "warning: {}; taking `{}`",
            describe(damaged),
            found.checkpoint.path().display()
        ));
    }
    let theirs = &found.checkpoint.facts().voice;
    if theirs.shape != voice.shape {
        return Err(Complaint::new(
            format!(
                "`{}` is a voice of size {}, not {}",
                path.display(),
                theirs.size,
                voice.size
            ),
            format!("give --model-size {}", theirs.size),
        )
        .into());
    }
    if theirs.audio != voice.audio {
        return Err(Complaint::new(
            format!("`{}` was trained with other audio settings", path.display()),
            format!(
                "take its own: sample rate {}, n_fft {}, hop {}, {} mels",
                theirs.audio.sample_rate,
                theirs.audio.n_fft,
                theirs.audio.hop_length,
                theirs.audio.n_mels
            ),
        )
        .into());
    }
    // What its weights have learnt to read is in its scale.
    voice.mel_statistics = theirs.mel_statistics;
    voice.length_scale = theirs.length_scale;
    Training::from_voice(options, voice, stored, speakers, device, &found.checkpoint)
        .map_err(of_checkpoint)
}
