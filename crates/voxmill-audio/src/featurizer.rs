//! From a file to the audio half of a clip's features.

use std::mem;
use std::path::Path;
use std::time::{Duration, Instant};

use super::decode::{self, Scratch};
use super::settings::{AudioSettings, AudioSettingsError};
use super::{
    AudioError, Levels, LogMel, Resampler, container, measure_levels, normalize_loudness,
    trim_silence,
};

/// The audio half of a clip's features.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioFeatures {
    /// Log-mel frames, frame after frame: `frames * mel_channels` values.
    pub mel: Vec<f32>,
    pub mel_channels: u16,
    pub levels: Levels,
}

impl AudioFeatures {
    /// How many frames there are.
    pub fn frames(&self) -> usize {
        self.mel.len() / usize::from(self.mel_channels)
    }
}

/// Featurizes one clip at a time, reusing its buffers; each worker has its own.
#[derive(Debug)]
pub struct Featurizer {
    settings: AudioSettings,
    log_mel: LogMel,
    resampler: Resampler,
    scratch: Scratch,
    decoded: Vec<f32>,
    samples: Vec<f32>,
    effort: Effort,
}

/// What the last clip took, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Reading the file beforehand, where its content is wanted for something else, too.
    pub read: Duration,
    /// Without `read`, reading the file is in it.
    pub decode: Duration,
    /// Trimming and loudness are in it.
    pub resample: Duration,
    pub mel: Duration,
}

impl Effort {
    /// The parts by the names that they have in a log, in their order.
    pub fn parts(&self) -> [(&'static str, Duration); 4] {
        [
            ("read", self.read),
            ("decode", self.decode),
            ("resample", self.resample),
            ("mel", self.mel),
        ]
    }
}

impl Featurizer {
    /// Refuses settings that contradict each other.
    pub fn new(settings: &AudioSettings) -> Result<Self, AudioSettingsError> {
        Ok(Self {
            log_mel: LogMel::new(settings)?,
            resampler: Resampler::new(settings.sample_rate),
            settings: settings.clone(),
            scratch: Scratch::default(),
            decoded: Vec::new(),
            samples: Vec::new(),
            effort: Effort::default(),
        })
    }

    /// The samples that [`Featurizer::waveform`] gives, and their log-mel. Without trimming, the frames
    /// are as many as [`AudioSettings::frames_for_header`] says.
    pub fn featurize(&mut self, path: &Path) -> Result<AudioFeatures, AudioError> {
        let levels = self.read(path)?;
        let mut mel = Vec::new();
        let began = Instant::now();
        self.log_mel.log_mel(&self.samples, &mut mel);
        self.effort.mel = began.elapsed();
        Ok(AudioFeatures {
            mel,
            mel_channels: self.settings.n_mels as u16,
            levels,
        })
    }

    /// A clip's samples at the target rate, for frames that are computed elsewhere.
    pub fn waveform(&mut self, path: &Path) -> Result<Vec<f32>, AudioError> {
        self.read(path)?;
        // Given away, not copied: the next clip finds its memory as fast as a copy would.
        Ok(mem::take(&mut self.samples))
    }

    /// What the last call took; of one that failed, the parts that were done.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Decode, measure, resample, trim, normalise: `samples` is then all that frames are computed from.
    fn read(&mut self, path: &Path) -> Result<Levels, AudioError> {
        self.effort = Effort::default();
        let began = Instant::now();
        let opened = container::open(path)?;
        self.settings.check_length(&opened.header)?;
        let from_hz = opened.header.sample_rate;
        decode::decode_opened(opened, &mut self.scratch, &mut self.decoded)?;
        let levels = measure_levels(&self.decoded)?;
        if levels.peak == 0.0 {
            return Err(AudioError::Silent);
        }
        let decoded = Instant::now();
        self.effort.decode = decoded - began;

        if from_hz == self.settings.sample_rate {
            mem::swap(&mut self.decoded, &mut self.samples);
        } else {
            let (decoded, samples) = (&self.decoded, &mut self.samples);
            self.resampler.resample(decoded, from_hz, samples)?;
        }
        let samples = &mut self.samples;
        if let Some(trim_db) = self.settings.trim_db {
            let kept = trim_silence(samples, trim_db, &self.settings);
            samples.truncate(kept.end);
            samples.drain(..kept.start);
        }
        if let Some(lufs) = self.settings.loudness_lufs {
            normalize_loudness(samples, self.settings.sample_rate, lufs)?;
        }
        self.effort.resample = decoded.elapsed();
        Ok(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::super::formats::fixture;
    use super::*;

    fn frames(trim_db: Option<f32>, loudness_lufs: Option<f32>) -> AudioFeatures {
        let settings = AudioSettings {
            trim_db,
            loudness_lufs,
            ..AudioSettings::default()
        };
        let mut featurizer = Featurizer::new(&settings).unwrap();
        featurizer.featurize(&fixture("mono.wav")).unwrap()
    }

    #[test]
    fn loudness_shifts_every_frame_alike_and_leaves_the_levels() {
        let plain = frames(None, None);
        let quiet = frames(None, Some(-40.0));
        assert_eq!(plain.levels, quiet.levels);
        let shifts = plain.mel.iter().zip(&quiet.mel);
        // Where neither is at the floor.
        let shifts = shifts.filter(|(_, quiet)| **quiet > -11.0);
        let shifts: Vec<f32> = shifts.map(|(plain, quiet)| plain - quiet).collect();
        assert!(shifts[0] > 0.5, "{}", shifts[0]);
        assert!(shifts.iter().all(|shift| (shift - shifts[0]).abs() < 1e-3));
    }

    #[test]
    fn a_waveform_is_what_the_frames_are_made_of() {
        let settings = AudioSettings {
            sample_rate: 16_000,
            trim_db: Some(30.0),
            loudness_lufs: Some(-30.0),
            ..AudioSettings::default()
        };
        for settings in [AudioSettings::default(), settings] {
            let mut featurizer = Featurizer::new(&settings).unwrap();
            // More than once: buffers that changed hands must not matter.
            for name in ["mono.wav", "stereo.flac", "mono.wav"] {
                let samples = featurizer.waveform(&fixture(name)).unwrap();
                let features = featurizer.featurize(&fixture(name)).unwrap();
                let mut mel = Vec::new();
                let mut log_mel = LogMel::new(&settings).unwrap();
                log_mel.log_mel(&samples, &mut mel);
                assert!(mel == features.mel, "{name}");
            }
        }
    }

    #[test]
    fn trimming_shortens() {
        let plain = frames(None, None);
        let trimmed = frames(Some(3.0), None);
        assert!((1..plain.frames()).contains(&trimmed.frames()));
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
