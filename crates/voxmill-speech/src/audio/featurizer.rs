//! From a file to the audio half of a clip's features.

use std::path::Path;

use super::decode::{self, Scratch};
use super::settings::{AudioSettings, AudioSettingsError};
use super::{
    AudioError, LogMel, Resampler, container, measure_levels, normalize_loudness, trim_silence,
};
use crate::features::AudioFeatures;

/// Featurizes one clip at a time, reusing its buffers; each worker has its own.
#[derive(Debug)]
pub struct Featurizer {
    settings: AudioSettings,
    log_mel: LogMel,
    resampler: Resampler,
    scratch: Scratch,
    decoded: Vec<f32>,
    samples: Vec<f32>,
}

impl Featurizer {
    pub fn new(settings: &AudioSettings) -> Result<Self, AudioSettingsError> {
        Ok(Self {
            log_mel: LogMel::new(settings)?,
            resampler: Resampler::new(settings.sample_rate),
            settings: settings.clone(),
            scratch: Scratch::default(),
            decoded: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Decode, measure, resample, trim, normalise, log-mel. Without trimming, the frames are as
    /// many as [`AudioSettings::frames_for_header`] says.
    pub fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        let opened = container::open(path)?;
        self.settings.check_length(&opened.header)?;
        let from_hz = opened.header.sample_rate;
        decode::decode_opened(opened, &mut self.scratch, &mut self.decoded)?;
        let levels = measure_levels(&self.decoded)?;
        if levels.peak == 0.0 {
            return Err(AudioError::Silent);
        }

        let samples = if from_hz == self.settings.sample_rate {
            &mut self.decoded
        } else {
            self.resampler
                .resample(&self.decoded, from_hz, &mut self.samples)?;
            &mut self.samples
        };
        if let Some(trim_db) = self.settings.trim_db {
            let kept = trim_silence(samples, trim_db, &self.settings);
            samples.truncate(kept.end);
            samples.drain(..kept.start);
        }
        if let Some(lufs) = self.settings.loudness_lufs {
            normalize_loudness(samples, self.settings.sample_rate, lufs)?;
        }
        let mut mel = Vec::new();
        self.log_mel.log_mel(samples, &mut mel);
        Ok(AudioFeatures {
            mel,
            mel_channels: self.settings.n_mels as u16,
            levels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::formats::fixture;
    use super::*;

    fn frames(settings: &AudioSettings) -> AudioFeatures {
        Featurizer::new(settings)
            .unwrap()
            .featurize(&fixture("mono.wav"))
            .unwrap()
    }

    #[test]
    fn loudness_shifts_every_frame_alike_and_leaves_the_levels() {
        let plain = frames(&AudioSettings::default());
        let quiet = frames(&AudioSettings {
            loudness_lufs: Some(-40.0),
            ..AudioSettings::default()
        });
        assert_eq!(plain.levels, quiet.levels);
        let shifts = plain.mel.iter().zip(&quiet.mel);
        // Where neither is at the floor.
        let shifts = shifts.filter(|(_, quiet)| **quiet > -11.0);
        let shifts: Vec<f32> = shifts.map(|(plain, quiet)| plain - quiet).collect();
        assert!(shifts[0] > 0.5, "{}", shifts[0]);
        assert!(shifts.iter().all(|shift| (shift - shifts[0]).abs() < 1e-3));
    }

    #[test]
    fn trimming_shortens() {
        let plain = frames(&AudioSettings::default());
        let trimmed = frames(&AudioSettings {
            trim_db: Some(3.0),
            ..AudioSettings::default()
        });
        assert!(trimmed.frames() < plain.frames());
        assert!(trimmed.frames() > 0);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let settings = AudioSettings {
            hop_length: 0,
            ..AudioSettings::default()
        };
        assert!(Featurizer::new(&settings).is_err());
    }
}
