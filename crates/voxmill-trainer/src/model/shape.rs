//! The sizes that the model comes in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::reference::{WIDEN as REFERENCE_WIDEN, WIDTH as REFERENCE_WIDTH};
use super::{DECODER_WIDTH, DURATION_WIDTH, ENCODER_WIDTH, Vocabulary};
use crate::align::PLACES;

/// How wide and how deep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    pub channels: usize,
    pub encoder_blocks: usize,
    /// The hidden channels of an encoder block, as a multiple of its channels.
    pub encoder_widen: usize,
    pub decoder_blocks: usize,
    pub decoder_widen: usize,
    pub reference_channels: usize,
    pub reference_blocks: usize,
    /// Length of the style vector.
    pub style: usize,
}

impl ModelShape {
    /// How many weights a voice of this shape has, without making it: a large one takes seconds to make.
    pub fn parameters(&self, vocabulary: Vocabulary) -> usize {
        let (d, style, mels) = (self.channels, self.style, vocabulary.mel_channels);
        let dense = |inputs: usize, outputs: usize| (inputs + 1) * outputs;
        let norm = |channels: usize| 2 * channels;
        let block = |channels: usize, width: usize, widen: usize| {
            width * channels
                + norm(channels)
                + dense(channels, widen * channels)
                + dense(widen * channels, channels)
        };
        let bent = |width: usize, widen: usize| block(d, width, widen) + dense(style, 2 * d);
        let r = self.reference_channels;
        let reference = dense(mels, r)
            + self.reference_blocks * block(r, REFERENCE_WIDTH, REFERENCE_WIDEN)
            + norm(r)
            + dense(2 * r, style);
        (vocabulary.tokens + vocabulary.languages) * d
            + self.encoder_blocks * bent(ENCODER_WIDTH, self.encoder_widen)
            + dense(d, mels)
            + 2 * bent(DURATION_WIDTH, 1)
            + dense(d, 1)
            + dense(d + PLACES, d)
            + self.decoder_blocks * bent(DECODER_WIDTH, self.decoder_widen)
            + norm(d)
            + dense(d, mels)
            + reference
    }
}

/// The named shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelSize {
    /// For tests.
    Nano,
    #[default]
    Tiny,
    Small,
    Base,
    Big,
}

impl ModelSize {
    /// From the smallest to the largest.
    pub const ALL: [ModelSize; 5] = [Self::Nano, Self::Tiny, Self::Small, Self::Base, Self::Big];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nano => "nano",
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Base => "base",
            Self::Big => "big",
        }
    }

    /// Whether a run takes minutes, so that checkpoints and samples should be frequent.
    pub fn is_quick(self) -> bool {
        self <= Self::Tiny
    }

    /// The highest learning rate that trains this size well.
    pub fn peak_rate(self) -> f64 {
        match self {
            Self::Nano | Self::Tiny => 2e-3,
            Self::Small => 1e-3,
            Self::Base | Self::Big => 5e-4,
        }
    }

    /// Steps until the learning rate is at its peak.
    pub fn warmup_steps(self) -> u64 {
        match self {
            Self::Nano | Self::Tiny => 50,
            Self::Small => 500,
            Self::Base | Self::Big => 2_000,
        }
    }

    /// How long to train on a dataset where no length is given.
    pub fn usual_steps(self) -> u64 {
        match self {
            Self::Nano | Self::Tiny => 20_000,
            Self::Small => 100_000,
            Self::Base => 200_000,
            Self::Big => 300_000,
        }
    }

    /// What it is built of.
    pub fn shape(self) -> ModelShape {
        let shape = |channels, encoder: [usize; 2], decoder: [usize; 2], reference: [usize; 3]| {
            let [encoder_blocks, encoder_widen] = encoder;
            let [decoder_blocks, decoder_widen] = decoder;
            let [reference_channels, reference_blocks, style] = reference;
            ModelShape {
                channels,
                encoder_blocks,
                encoder_widen,
                decoder_blocks,
                decoder_widen,
                reference_channels,
                reference_blocks,
                style,
            }
        };
        match self {
            Self::Nano => shape(96, [3, 2], [4, 2], [48, 2, 48]),
            Self::Tiny => shape(128, [4, 3], [8, 4], [96, 3, 96]),
            Self::Small => shape(256, [6, 4], [10, 4], [128, 4, 128]),
            Self::Base => shape(384, [8, 4], [12, 4], [192, 4, 192]),
            Self::Big => shape(512, [10, 4], [20, 4], [256, 6, 256]),
        }
    }
}

impl fmt::Display for ModelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What names no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no model size; there are nano, tiny, small, base (or normal) and big")]
pub struct UnknownSize(String);

impl FromStr for ModelSize {
    type Err = UnknownSize;

    fn from_str(name: &str) -> Result<Self, UnknownSize> {
        // `normal` is what the earlier trainer called it.
        let name = if name == "normal" { "base" } else { name };
        let size = Self::ALL.into_iter().find(|size| size.name() == name);
        size.ok_or_else(|| UnknownSize(name.to_owned()))
    }
}
