//! From an audio file to mono samples at the target rate, and from those to log-mel frames.

use std::path::Path;

/// What an audio file's header says, before anything is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioHeader {
    pub sample_rate: u32,
    pub channels: u16,
    /// Samples per channel.
    pub samples: u64,
}

impl AudioHeader {
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(self.sample_rate)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AudioError {
    #[error("placeholder")]
    Placeholder,
}

/// Reads a file's header only.
pub fn read_header(_path: &Path) -> Result<AudioHeader, AudioError> {
    Err(AudioError::Placeholder)
}
