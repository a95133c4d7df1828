//! Synthetic clips and a small voice, for the self-test of devices and for tests.

use std::collections::BTreeMap;

use voxmill_audio::AudioSettings;
use voxmill_data::batch::{Batch, BatchForm, BatchRow, collate};
use voxmill_data::batch_plan::{Position, Shape};
use voxmill_data::draw::{draw, unit};
use voxmill_text::language::Language;
use voxmill_text::symbols::SymbolTable;

use crate::checkpoint::VoiceFacts;
use crate::device::Device;
use crate::model::{ModelShape, ModelSize, Vocabulary};
use crate::prepare::{Augment, LANGUAGES, MelStatistics, Preparation};

pub(crate) const CHANNELS: usize = 80;
pub(crate) const STATISTICS: MelStatistics = MelStatistics {
    mean: -5.0,
    deviation: 2.0,
};

/// How batches of the small voice come to its device.
pub(crate) fn preparation(data: &Device, model: &Device) -> Preparation {
    Preparation {
        data: data.clone(),
        model: model.clone(),
        statistics: STATISTICS,
        audio: AudioSettings::default(),
        augment: Augment::default(),
        seed: 1,
    }
}

/// A voice that is smaller than any to listen to: a step takes milliseconds.
pub(crate) fn small_voice() -> VoiceFacts {
    let symbols = SymbolTable::built_in();
    VoiceFacts {
        size: ModelSize::Nano,
        shape: ModelShape {
            channels: 16,
            encoder_blocks: 1,
            encoder_widen: 2,
            decoder_blocks: 1,
            decoder_widen: 2,
            reference_channels: 16,
            reference_blocks: 1,
            style: 8,
        },
        vocabulary: Vocabulary {
            tokens: symbols.symbols.len(),
            languages: LANGUAGES,
            mel_channels: CHANNELS,
        },
        symbols,
        audio: AudioSettings::default(),
        mel_statistics: STATISTICS,
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: "one".to_owned(),
        languages: BTreeMap::new(),
        recordings: None,
    }
}

/// A clip whose frames have something to do with its tokens, so that a model can learn it.
#[derive(Clone, Debug)]
pub(crate) struct TestClip {
    pub(crate) tokens: Vec<u16>,
    pub(crate) mel: Vec<f32>,
}

impl TestClip {
    pub(crate) fn new(name: &str, tokens: usize, frames: usize) -> Self {
        let ids: Vec<u16> = (0..tokens)
            .map(|at| 4 + (draw(0, at as u64, name, "token") % 30) as u16)
            .collect();
        let mel = (0..frames).flat_map(|frame| {
            let id = f32::from(ids[frame * tokens / frames.max(1)]);
            (0..CHANNELS).map(move |channel| {
                -5.0 + 2.0 * (id * 0.7 + channel as f32 * 0.05 * id + frame as f32 * 0.01).sin()
            })
        });
        Self {
            mel: mel.collect(),
            tokens: ids.clone(),
        }
    }
}

/// Rows of clips (`None`: masked) padded to a shape; the first 30 frames of a clip are its reference.
pub(crate) fn batch_of<'a>(
    clips: &[Option<&'a TestClip>],
    tokens: usize,
    frames: usize,
    reference_frames: usize,
) -> Batch {
    let form = BatchForm {
        position: Position::default(),
        shape: Shape {
            rows: clips.len() as u32,
            frames: frames as u32,
            tokens: tokens as u32,
        },
        mel_channels: CHANNELS as u16,
        reference_frames: reference_frames as u32,
        framing: None,
    };
    let row = |(row, clip): (usize, &Option<&'a TestClip>)| {
        let clip = (*clip)?;
        Some(BatchRow {
            clip: row,
            tokens: &clip.tokens,
            sound: &clip.mel,
            language: Language::English,
            speaker: 0,
            reference: &clip.mel[..clip.mel.len().min(30 * CHANNELS)],
        })
    };
    collate(form, clips.iter().enumerate().map(row))
}

/// Something like speech: loud tones, quiet treble, silence, and a click.
pub(crate) fn speech_like(samples: usize) -> Vec<f32> {
    (0..samples)
        .map(|at| {
            let t = at as f64 / 22_050.0;
            let loud = 0.4 * (t * 900.0 + (t * 11.0).sin() * 30.0).sin();
            let quiet = 0.003 * (t * 30_000.0).sin();
            let hiss = 0.01 * (unit(draw(0, at as u64, "hiss", "test")) - 0.5);
            let envelope = (t * 3.0).sin().max(0.0);
            let click = if at == 7_000 { 0.5 } else { 0.0 };
            ((loud + quiet) * envelope + hiss * 0.1 + click) as f32
        })
        .collect()
}
