//! The voice that a run begins with: new, or another run's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use voxmill_audio::{Featurizer, loudness};
use voxmill_data::manifest::Split;
use voxmill_text::symbols::SymbolTable;
use voxmill_trainer::checkpoint::{Recordings, VoiceFacts};
use voxmill_trainer::device::Device;
use voxmill_trainer::model::Vocabulary;
use voxmill_trainer::prepare::LANGUAGES;
use voxmill_trainer::train::Trainer;

use super::data::Data;
use super::on_all_threads;
use crate::commands::warning;
use voxmill_data::FeatureStore;
use voxmill_settings::TrainSettings;
use voxmill_settings::args::TrainArgs;
use voxmill_settings::config::file::ConfigFile;
use voxmill_settings::config::keys;
use voxmill_settings::config::value::Value::Text;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{of_checkpoint, with_cause};
use voxmill_settings::recorded;
use voxmill_settings::run_folder::CheckpointPath;

/// Clips that the mel statistics are taken from.
const STATISTICS_CLIPS: usize = 128;
/// Clips that are decoded for their loudness: its median hardly moves with more.
const LOUDNESS_CLIPS: usize = 32;

/// A voice that has not learnt anything yet.
pub(crate) fn new_voice(
    settings: &TrainSettings,
    data: &Data,
    store: &FeatureStore,
) -> anyhow::Result<VoiceFacts> {
    let sample = store.sample_clips(Split::Train, STATISTICS_CLIPS, settings.data.batches.seed);
    let sampled = on_all_threads(settings, || store.mel_statistics(&sample))?;
    let sampled = sampled.ok_or_else(|| {
        let what = "none of the sampled clips could be decoded";
        let hint = "`voxmill prepare` on the same folder says why";
        UserError::new(what, hint)
    })?;
    let size = settings.model_size;
    let symbols = SymbolTable::built_in();
    let languages = data.languages(settings.data.language);
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
        mel_statistics: sampled.statistics,
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: data.train.main_speaker().unwrap_or_default().to_owned(),
        languages,
        recordings: recordings(settings, store, &sample)?,
    })
}

/// How the recordings sound. `None` where none of them has a loudness.
fn recordings(
    settings: &TrainSettings,
    store: &FeatureStore,
    sample: &[usize],
) -> anyhow::Result<Option<Recordings>> {
    let audio = &settings.data.audio;
    let sample = &sample[..sample.len().min(LOUDNESS_CLIPS)];
    let Some(pause) = store.pause_frame(sample)? else {
        return Ok(None);
    };
    let mut featurizer = Featurizer::new(audio)?;
    let mut levels: Vec<f32> = sample
        .iter()
        .filter_map(|&clip| {
            // What cannot be decoded is found, and listed, by whoever trains on it.
            let samples = featurizer
                .waveform(&store.clips()[clip].audio_path())
                .ok()?;
            loudness(&samples, audio.sample_rate)
        })
        .collect();
    levels.sort_by(f32::total_cmp);
    let median = levels.get(levels.len() / 2);
    Ok(median.map(|&lufs| Recordings {
        loudness_lufs: lufs.clamp(-70.0, 0.0),
        pause,
    }))
}

/// Finds the run that a voice is fine-tuned from. That voice decides the size, unless a flag or the file does: then [`from_other_voice`]
/// refuses another one. A resumed run has its own.
pub(crate) fn take_size_of_other_voice(args: &mut TrainArgs) -> anyhow::Result<()> {
    if args.resume().is_some() {
        return Ok(());
    }
    let file = args.flags.config.as_deref();
    let file = file.map(ConfigFile::read).transpose()?.unwrap_or_default();
    let of_file = || file.get(&keys::INIT_FROM).map(|(path, _)| path);
    let path: Option<PathBuf> = args.flags.get(&keys::INIT_FROM).or_else(of_file);
    let is_given = args.flags.has(&keys::SIZE) || file.value(&keys::SIZE).is_some();
    let Some(path) = path else {
        return Ok(());
    };
    let found = recorded::find(&recorded::runs_dir_of(&args.flags)?, &path)?;
    if found != path {
        let found = found.to_string_lossy().into_owned();
        args.flags.set(&keys::INIT_FROM, Text(found));
    }
    if is_given {
        return Ok(());
    }
    let path = found;
    let found = CheckpointPath::find(&path).best().map_err(of_checkpoint)?;
    let size = found.checkpoint.facts().voice.size;
    args.flags.set(&keys::SIZE, Text(size.name().to_owned()));
    Ok(())
}

pub(crate) fn from_other_voice(
    path: &Path,
    options: voxmill_trainer::train::TrainOptions,
    mut voice: VoiceFacts,
    stored: Value,
    speakers: Vec<String>,
    device: &Device,
) -> anyhow::Result<Trainer> {
    let found = CheckpointPath::find(path).best().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        warning!(
            "{}; taking `{}`",
            with_cause(damaged),
            found.checkpoint.path().display()
        );
    }
    let theirs = &found.checkpoint.facts().voice;
    if theirs.shape != voice.shape {
        let what = format!(
            "`{}` is a voice of size {}, not {}",
            path.display(),
            theirs.size,
            voice.size
        );
        let hint = format!(
            "leave the size out, or give its own: --model-size {0}, or `size: {0}` under `model:`",
            theirs.size
        );
        return Err(UserError::new(what, hint).into());
    }
    if theirs.audio != voice.audio {
        let what = format!("`{}` was trained with other audio settings", path.display());
        let hint = format!(
            "take its own: sample rate {}, n_fft {}, hop {}, {} mels",
            theirs.audio.sample_rate,
            theirs.audio.n_fft,
            theirs.audio.hop_length,
            theirs.audio.n_mels
        );
        return Err(UserError::new(what, hint).into());
    }
    // What its weights have learnt to read is in its scale.
    voice.mel_statistics = theirs.mel_statistics;
    voice.length_scale = theirs.length_scale;
    // Its speakers stay, and so do the languages that they speak.
    for (code, speaker) in &theirs.languages {
        let ours = voice.languages.entry(code.clone());
        ours.or_insert_with(|| speaker.clone());
    }
    Trainer::from_voice(options, voice, stored, speakers, device, &found.checkpoint)
        .map_err(of_checkpoint)
}
