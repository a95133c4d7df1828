//! Computes the features of clips, one at a time; callers run it in parallel.

mod clip;
mod compute;
mod delay;
mod memory;
mod skipped;

use std::error::Error;
use std::sync::Arc;

use voxmill_audio::AudioSettings;
use voxmill_text::language::Language;
use voxmill_text::{FrontEnd, FrontEndOptions};

use crate::cache::FeatureSettings;
use crate::features::Quality;
use crate::manifest::Clip;

pub use clip::ClipFeaturizer;
pub(crate) use compute::{ComputedAudio, audio_features, bad_audio, text_features};
pub use delay::InjectedDelays;
pub(crate) use memory::{decoding_bytes, largest_bytes};
pub use skipped::TOO_LARGE;
pub(crate) use skipped::{left_out, lost};

/// What features are computed with; the same for all clips of a run.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Text → token ids.
    pub front_end: Arc<FrontEnd>,
    /// Sample rate, frames and mel channels.
    pub audio: Arc<AudioSettings>,
    /// For clips whose manifest row does not say.
    pub language: Option<Language>,
}

impl Default for Recipe {
    /// The built-in front-end without a lexicon, and the default audio settings.
    fn default() -> Recipe {
        let front_end = FrontEnd::new(FrontEndOptions::default());
        let front_end = front_end.expect("without a lexicon and espeak-ng nothing is read");
        Recipe {
            front_end: Arc::new(front_end),
            audio: Arc::default(),
            language: None,
        }
    }
}

impl Recipe {
    /// The clip's own language, or the one that was set for all. `None`: it is detected from the text.
    pub fn language_of(&self, clip: &Clip) -> Option<Language> {
        clip.language.or(self.language)
    }

    /// How many kinds of characters of a clip's text are not read.
    pub fn unread(&self, clip: &Clip, language: Language) -> usize {
        self.front_end.unread(&clip.text, Some(language))
    }

    /// What a clip's log-mel frames tell of its sound.
    pub fn quality(&self, mel: &[f32]) -> Quality {
        let audio = &self.audio;
        let seconds = audio.hop_length as f64 / f64::from(audio.sample_rate);
        voxmill_audio::measure_quality(mel, audio.n_mels, seconds)
    }

    /// The settings that a cached clip must have been computed with to be reused.
    pub fn feature_settings(&self) -> FeatureSettings {
        FeatureSettings {
            audio: self.audio.named_values(),
            text: self.front_end.fingerprint().parts.iter().cloned().collect(),
        }
    }
}

/// An error and its causes in one line, for a table's cell.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<String> = causes.map(ToString::to_string).collect();
    messages.join(": ")
}
