//! From an audio file to mono samples at the target rate, from those to log-mel frames, and back.
//!
//! A file's header is a promise: [`read_header`] says how many samples it holds, cheaply, and
//! decoding gives exactly that many or an error. Batches can therefore be planned, and frames
//! counted, before anything is decoded.

mod container;
mod decode;
mod error;
mod featurizer;
mod framing;
mod levels;
mod loudness;
mod mel;
mod quality;
mod resample;
mod settings;
mod trim;
mod vectors;
mod vocoder;
mod wav;
mod wav_bytes;

#[cfg(test)]
mod formats;
#[cfg(test)]
mod hostile_files;

pub use container::read_header;
pub use decode::{Waveform, decode_mono};
pub use error::AudioError;
pub use featurizer::{AudioFeatures, Effort, Featurizer};
pub use framing::Framing;
pub use levels::Levels;
pub(crate) use levels::measure_levels;
pub use loudness::{loudness, normalize_loudness};
pub use mel::{LogMel, MelTables};
pub use quality::{Quality, measure_quality};
pub use resample::Resampler;
pub use settings::{AudioSettings, AudioSettingsError};
pub(crate) use trim::trim_silence;
pub use vocoder::{GriffinLim, ITERATIONS, Vocoder};
pub use wav_bytes::wav_bytes;

/// Counts up whenever any file may give other frames than before: cached ones are then remade.
pub(crate) const AUDIO_VERSION: u32 = 1;

/// `Debug` with these fields alone: tables and buffers are left out.
macro_rules! debug_fields {
    ($type:ident: $($field:ident),*) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                $(shown.field(stringify!($field), &self.$field);)*
                shown.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_fields;

/// What an audio file's header says, before anything is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioHeader {
    pub sample_rate: u32,
    pub channels: u16,
    /// Samples per channel.
    pub samples: u64,
}

impl AudioHeader {
    /// How long it is, at its own sample rate.
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(self.sample_rate)
    }
}
