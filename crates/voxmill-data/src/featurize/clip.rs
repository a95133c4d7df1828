//! Makes the audio half of clips, and knows what each part of that took.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cache::AudioStamp;
use crate::features::AudioFeatures;
use voxmill_audio::{AudioError, AudioSettings, AudioSettingsError, Effort, Featurizer};

/// Computes the audio half of clips, one at a time; each worker has its own.
pub(crate) trait AudioFeaturizer {
    /// Reads the whole file.
    fn stamp(&mut self, path: &Path) -> io::Result<AudioStamp>;

    /// After [`AudioFeaturizer::stamp`], so the file is in memory by now.
    fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError>;

    fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError>;

    /// What the last clip took.
    fn effort(&self) -> Effort;
}

#[derive(Debug)]
pub struct ClipFeaturizer {
    featurizer: Featurizer,
    read: Duration,
}

impl ClipFeaturizer {
    pub fn new(audio: &AudioSettings) -> Result<ClipFeaturizer, AudioSettingsError> {
        Ok(ClipFeaturizer {
            featurizer: Featurizer::new(audio)?,
            read: Duration::ZERO,
        })
    }

    /// Makes a clip's features for what it takes; they are thrown away.
    pub fn try_out(&mut self, path: &Path) -> Result<Effort, AudioError> {
        self.stamp(path)?;
        self.featurize(path)?;
        Ok(self.effort())
    }
}

impl AudioFeaturizer for ClipFeaturizer {
    fn stamp(&mut self, path: &Path) -> io::Result<AudioStamp> {
        let began = Instant::now();
        let stamp = AudioStamp::with_content(path);
        self.read = began.elapsed();
        stamp
    }

    fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        self.featurizer.featurize(path)
    }

    fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError> {
        self.read = Duration::ZERO;
        self.featurizer.waveform(path)
    }

    fn effort(&self) -> Effort {
        Effort {
            read: self.read,
            ..self.featurizer.effort()
        }
    }
}
