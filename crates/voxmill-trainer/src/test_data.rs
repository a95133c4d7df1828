//! Made-up clips and a made-up voice for tests.

use std::collections::BTreeMap;

use voxmill_audio::AudioSettings;
use voxmill_data::batch::{Batch, Sound};
use voxmill_data::batch_plan::{Position, Shape};
use voxmill_data::draw::draw;
use voxmill_text::language::Language;
use voxmill_text::symbols::SymbolTable;

use crate::checkpoint::VoiceFacts;
use crate::model::{ModelShape, ModelSize, Vocabulary};
use crate::prepare::{LANGUAGES, MelStatistics};

pub(crate) const CHANNELS: usize = 80;

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
        mel_statistics: MelStatistics {
            mean: -5.0,
            deviation: 2.0,
        },
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: "one".to_owned(),
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
pub(crate) fn batch_of(
    clips: &[Option<&TestClip>],
    tokens: usize,
    frames: usize,
    reference_frames: usize,
) -> Batch {
    let rows = clips.len();
    let mut batch = Batch {
        position: Position::default(),
        shape: Shape {
            rows: rows as u32,
            frames: frames as u32,
            tokens: tokens as u32,
        },
        clips: (0..rows).map(|row| clips[row].map(|_| row)).collect(),
        tokens: vec![0; rows * tokens],
        token_counts: vec![0; rows],
        mel_channels: CHANNELS as u16,
        sound: Sound::LogMel {
            frames: vec![0.0; rows * frames * CHANNELS],
            reference: vec![0.0; rows * reference_frames * CHANNELS],
        },
        frame_counts: vec![0; rows],
        languages: vec![Language::English; rows],
        speakers: vec![0; rows],
        reference_frames: reference_frames as u32,
        reference_counts: vec![0; rows],
    };
    for (row, clip) in clips.iter().enumerate() {
        let Some(clip) = clip else { continue };
        batch.tokens[row * tokens..][..clip.tokens.len()].copy_from_slice(&clip.tokens);
        batch.token_counts[row] = clip.tokens.len() as u32;
        batch.sound.rows_mut()[row * frames * CHANNELS..][..clip.mel.len()]
            .copy_from_slice(&clip.mel);
        batch.frame_counts[row] = (clip.mel.len() / CHANNELS) as u32;
        let heard = clip.mel.len().min(30 * CHANNELS);
        batch.sound.reference_mut()[row * reference_frames * CHANNELS..][..heard]
            .copy_from_slice(&clip.mel[..heard]);
        batch.reference_counts[row] = (heard / CHANNELS) as u32;
    }
    batch
}
