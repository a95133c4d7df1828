//! Computes the audio half of clips, and knows what each part of that took.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cache::AudioStamp;
use crate::features::AudioFeatures;
use voxmill_audio::{AudioError, AudioSettings, AudioSettingsError, Effort, Featurizer};

/// Computes the audio half of clips, one at a time; each worker has its own.
#[derive(Debug)]
pub struct ClipFeaturizer {
    featurizer: Featurizer,
    /// What the last clip took.
    pub(crate) effort: Effort,
}

impl ClipFeaturizer {
    /// Refuses settings that contradict each other.
    pub fn new(audio: &AudioSettings) -> Result<ClipFeaturizer, AudioSettingsError> {
        Ok(ClipFeaturizer {
            featurizer: Featurizer::new(audio)?,
            effort: Effort::default(),
        })
    }

    /// Computes a clip's features to measure the effort; the features are discarded.
    pub fn try_out(&mut self, path: &Path) -> Result<Effort, AudioError> {
        self.stamp(path)?;
        self.featurize(path)?;
        Ok(self.effort)
    }

    /// Reads the whole file.
    pub(crate) fn stamp(&mut self, path: &Path) -> io::Result<AudioStamp> {
        let began = Instant::now();
        let stamp = AudioStamp::with_content(path);
        self.effort.read = began.elapsed();
        stamp
    }

    /// After [`ClipFeaturizer::stamp`], so the file is in memory by now.
    pub(crate) fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        let features = self.featurizer.featurize(path);
        self.measure();
        features
    }

    pub(crate) fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError> {
        self.effort.read = Duration::ZERO;
        let samples = self.featurizer.waveform(path);
        self.measure();
        samples
    }

    fn measure(&mut self) {
        let read = self.effort.read;
        self.effort = Effort {
            read,
            ..self.featurizer.effort()
        };
    }
}
