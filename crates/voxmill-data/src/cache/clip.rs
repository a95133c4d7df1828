//! A clip's features as the cache takes and gives them: borrowed.

use super::error::CacheError;
use super::room::clip_bytes;
use crate::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_text::language::Language;

/// List offsets have 31 bits; a shard writes in portions, in which only one clip can exceed a few
/// megabytes.
const MAX_VALUES: usize = 1 << 30;

/// A clip's features, borrowed: from the caller when writing, from the memory map when reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipView<'a> {
    pub language: Language,
    pub normalized: &'a str,
    pub tokens: &'a [u16],
    /// Log-mel frames, frame after frame.
    pub mel: &'a [f32],
    pub mel_channels: u16,
    pub levels: Levels,
}

impl<'a> ClipView<'a> {
    /// Borrows what was computed.
    pub fn new(text: &'a TextFeatures, audio: &'a AudioFeatures) -> Self {
        ClipView {
            language: text.language,
            normalized: &text.normalized,
            tokens: &text.tokens,
            mel: &audio.mel,
            mel_channels: audio.mel_channels,
            levels: audio.levels,
        }
    }

    /// How many frames it has.
    pub fn frames(&self) -> usize {
        self.mel.len() / usize::from(self.mel_channels)
    }

    /// A copy of its sound.
    pub fn to_audio(&self) -> AudioFeatures {
        AudioFeatures {
            mel: self.mel.to_vec(),
            mel_channels: self.mel_channels,
            levels: self.levels,
        }
    }

    /// What it takes on disk, roughly: see [`clip_bytes`].
    pub(crate) fn bytes(&self) -> u64 {
        let lengths = [self.mel.len(), self.tokens.len(), self.normalized.len()];
        let [values, tokens, text] = lengths.map(|length| length as u64);
        clip_bytes(values, 1, tokens, text)
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        let channels = usize::from(self.mel_channels);
        if channels == 0 {
            Some("it has no mel channels")
        } else if !self.mel.len().is_multiple_of(channels) {
            Some("its mel is not a whole number of frames")
        } else if self.mel.len() >= MAX_VALUES || self.tokens.len() >= MAX_VALUES {
            Some("it is too long")
        } else if self.normalized.len() >= MAX_VALUES {
            Some("its text is too long")
        } else {
            None
        }
    }

    /// Refuses what could not be read back.
    pub(super) fn check_fit(&self, id: &str) -> Result<(), CacheError> {
        let unfit = |why| CacheError::UnfitFeatures {
            id: id.to_owned(),
            why,
        };
        self.fault().map_or(Ok(()), |why| Err(unfit(why)))
    }
}
