//! How audio becomes features. Everything here but `max_seconds` changes the features' values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mel::empty_filters;
use super::{AUDIO_VERSION, AudioError, AudioHeader, Framing};

/// How sound becomes log-mel frames: what of it is set, every clip of a dataset shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AudioSettings {
    /// Every clip is resampled to this rate, in Hz.
    pub sample_rate: u32,
    /// Samples in a window of the Fourier transform; even.
    pub n_fft: usize,
    /// Samples between two frames.
    pub hop_length: usize,
    pub n_mels: usize,
    /// Lower edge of the first mel filter, in Hz.
    pub f_min: f32,
    /// Upper edge of the last mel filter, in Hz.
    pub f_max: f32,
    /// Cut leading and trailing frames this many dB below the clip's loudest frame.
    pub trim_db: Option<f32>,
    /// Bring each clip to this integrated loudness, as far as its peak allows.
    pub loudness_lufs: Option<f32>,
    /// Longer clips are refused by their header, before memory is spent on them. Not serialised:
    /// it says which clips pass, not what their features are, so it is no part of a fingerprint.
    #[serde(skip, default = "default_max_seconds")]
    pub max_seconds: f32,
}

fn default_max_seconds() -> f32 {
    600.0
}

impl Default for AudioSettings {
    fn default() -> Self {
        Self {
            sample_rate: 22_050,
            n_fft: 1024,
            hop_length: 256,
            n_mels: 80,
            f_min: 0.0,
            f_max: 8000.0,
            trim_db: None,
            loudness_lufs: None,
            max_seconds: default_max_seconds(),
        }
    }
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AudioSettingsError {
    #[error("sample_rate is {0} Hz; it must be between 4000 and 192000")]
    SampleRate(u32),
    #[error("n_fft is {0}; it must be even and between 32 and 16384")]
    WindowLength(usize),
    #[error("hop_length is {hop_length}; it must be between 1 and n_fft ({n_fft})")]
    HopLength { hop_length: usize, n_fft: usize },
    #[error("n_mels is {0}; it must be between 1 and 512")]
    Mels(usize),
    #[error(
        "f_min is {f_min} and f_max {f_max} Hz; they must rise from 0 or more to at most half the sample rate ({half_rate} Hz)"
    )]
    Band {
        f_min: f32,
        f_max: f32,
        half_rate: f32,
    },
    #[error(
        "{empty} of {n_mels} mel filters (n_mels) between {f_min} Hz (f_min) and {f_max} Hz (f_max) fall between two \
         frequencies of the spectrum, {bin_hz:.1} Hz apart (sample_rate / n_fft): they would see nothing"
    )]
    EmptyFilters {
        empty: usize,
        n_mels: usize,
        f_min: f32,
        f_max: f32,
        bin_hz: f32,
    },
    #[error("trim_db is {0}; it must be above 0")]
    Trim(f32),
    #[error("loudness_lufs is {0}; it must be between -70 and 0")]
    Loudness(f32),
    #[error("max_seconds is {0}; it must be above 0 and at most 3600")]
    MaxSeconds(f32),
}

impl AudioSettings {
    /// Refuses settings that contradict each other or would ask for absurd amounts of memory.
    pub fn validate(&self) -> Result<(), AudioSettingsError> {
        use AudioSettingsError as Error;
        if !(4_000..=192_000).contains(&self.sample_rate) {
            return Err(Error::SampleRate(self.sample_rate));
        }
        if !(32..=16_384).contains(&self.n_fft) || !self.n_fft.is_multiple_of(2) {
            return Err(Error::WindowLength(self.n_fft));
        }
        if !(1..=self.n_fft).contains(&self.hop_length) {
            let (hop_length, n_fft) = (self.hop_length, self.n_fft);
            return Err(Error::HopLength { hop_length, n_fft });
        }
        if !(1..=512).contains(&self.n_mels) {
            return Err(Error::Mels(self.n_mels));
        }
        let (f_min, f_max) = (self.f_min, self.f_max);
        let half_rate = self.sample_rate as f32 / 2.0;
        if !(f_min >= 0.0 && f_min < f_max && f_max <= half_rate) {
            return Err(Error::Band {
                f_min,
                f_max,
                half_rate,
            });
        }
        // Some empty ones do no harm, and voices were trained so; without any other nothing can be heard.
        if empty_filters(self) == self.n_mels {
            return Err(self.empty_filters_error(self.n_mels));
        }
        if let Some(trim_db) = self.trim_db.filter(|&db| !(db > 0.0 && db.is_finite())) {
            return Err(Error::Trim(trim_db));
        }
        let is_outside = |lufs: &f32| !(-70.0..=0.0).contains(lufs);
        if let Some(lufs) = self.loudness_lufs.filter(is_outside) {
            return Err(Error::Loudness(lufs));
        }
        if !(self.max_seconds > 0.0 && self.max_seconds <= 3600.0) {
            return Err(Error::MaxSeconds(self.max_seconds));
        }
        Ok(())
    }

    fn empty_filters_error(&self, empty: usize) -> AudioSettingsError {
        AudioSettingsError::EmptyFilters {
            empty,
            n_mels: self.n_mels,
            f_min: self.f_min,
            f_max: self.f_max,
            bin_hz: self.sample_rate as f32 / self.n_fft as f32,
        }
    }

    /// [`AudioSettings::validate`], for a voice that is not trained yet: every mel filter must cover a bin of
    /// the spectrum. The others would be the same number in every frame.
    pub fn validate_new(&self) -> Result<(), AudioSettingsError> {
        self.validate()?;
        match empty_filters(self) {
            0 => Ok(()),
            empty => Err(self.empty_filters_error(empty)),
        }
    }

    /// The same settings with another `n_mels`, `n_fft` or `f_min`, as near as possible, with which every filter
    /// covers a bin; each where there is one.
    pub fn with_full_filters(&self) -> [Option<AudioSettings>; 3] {
        let fits = |settings: &AudioSettings| settings.validate_new().is_ok();
        let n_mels = (8..self.n_mels).rev().map(|n_mels| AudioSettings {
            n_mels,
            ..self.clone()
        });
        let n_fft = (1..=8).map(|power| AudioSettings {
            n_fft: self.n_fft << power,
            ..self.clone()
        });
        let hundreds = (self.f_min / 100.0).ceil() as u32;
        let f_min = (0..hundreds).rev().map(|hundred| AudioSettings {
            f_min: 100.0 * hundred as f32,
            ..self.clone()
        });
        [
            { n_mels }.find(fits),
            { n_fft }.find(fits),
            { f_min }.find(fits),
        ]
    }

    /// The same for recordings of another rate: windows and hops that last about as long, in powers of two, as the
    /// transform is fastest with, and rounded down, since longer ones blur what is short. `None` where no such
    /// settings are valid.
    pub fn at_rate(&self, sample_rate: u32) -> Option<AudioSettings> {
        let ratio = f64::from(sample_rate) / f64::from(self.sample_rate);
        let scaled = |samples: usize| {
            let exact = (samples as f64 * ratio) as usize;
            1 << exact.max(1).ilog2()
        };
        let at_rate = AudioSettings {
            sample_rate,
            n_fft: scaled(self.n_fft),
            hop_length: scaled(self.hop_length),
            f_max: self.f_max.min(sample_rate as f32 / 2.0),
            ..self.clone()
        };
        if at_rate.validate_new().is_ok() {
            return Some(at_rate);
        }
        let [n_mels, n_fft, _] = at_rate.with_full_filters();
        n_fft.or(n_mels)
    }

    /// All that shapes the frames, by name, so that the one which changed can be named.
    pub fn named_values(&self) -> BTreeMap<String, String> {
        let fields = serde_json::to_value(self).expect("numbers and options always serialise");
        let fields = fields.as_object().expect("a struct is an object");
        let named = fields
            .iter()
            .map(|(name, value)| (name.clone(), value.to_string()));
        let version = ("audio version".to_owned(), AUDIO_VERSION.to_string());
        named.chain([version]).collect()
    }

    /// How samples are cut into frames.
    pub fn framing(&self) -> Framing {
        Framing {
            n_fft: self.n_fft,
            hop: self.hop_length,
        }
    }

    /// Frames of a clip with this many samples at the target rate. Frames are centred, so a clip
    /// always has at least one.
    pub(crate) fn frames_for(&self, samples: u64) -> usize {
        1 + usize::try_from(samples / self.hop_length as u64).unwrap_or(usize::MAX - 1)
    }

    /// Exactly the frames that featurizing the file will give, unless trimming shortens it.
    pub fn frames_for_header(&self, header: &AudioHeader) -> usize {
        self.frames_for(self.resampled_samples(header))
    }

    /// Samples after resampling to the target rate: the last one is the last whose time lies
    /// within the clip.
    fn resampled_samples(&self, header: &AudioHeader) -> u64 {
        let samples = u128::from(header.samples) * u128::from(self.sample_rate);
        let resampled = samples.div_ceil(u128::from(header.sample_rate.max(1)));
        u64::try_from(resampled).unwrap_or(u64::MAX)
    }

    /// Refuses a clip that is too long by its header.
    pub fn check_length(&self, header: &AudioHeader) -> Result<(), AudioError> {
        let seconds = header.seconds();
        if seconds > f64::from(self.max_seconds) {
            let limit_seconds = self.max_seconds;
            return Err(AudioError::TooLong {
                seconds,
                limit_seconds,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(AudioSettings::default().validate(), Ok(()));
    }

    #[test]
    fn each_field_is_checked() {
        let refuse = |change: fn(&mut AudioSettings)| {
            let mut settings = AudioSettings::default();
            change(&mut settings);
            assert!(settings.validate().is_err(), "{settings:?}");
        };
        refuse(|s| s.sample_rate = 0);
        refuse(|s| s.n_fft = 1023);
        refuse(|s| s.hop_length = 0);
        refuse(|s| s.hop_length = 1025);
        refuse(|s| s.n_mels = 0);
        refuse(|s| s.f_max = 11_026.0);
        refuse(|s| s.f_min = 8000.0);
        refuse(|s| s.f_min = f32::NAN);
        refuse(|s| s.trim_db = Some(0.0));
        refuse(|s| s.loudness_lufs = Some(f32::NAN));
        refuse(|s| s.max_seconds = f32::INFINITY);
    }

    #[test]
    fn every_filter_of_a_new_voice_covers_a_bin() {
        let settings = |f_min, n_mels| AudioSettings {
            f_min,
            n_mels,
            ..AudioSettings::default()
        };
        let narrow = settings(7999.0, 80);
        let error = narrow.validate().unwrap_err().to_string();
        assert!(error.starts_with("80 of 80 mel filters"), "{error}");
        let [n_mels, n_fft, f_min] = narrow.with_full_filters();
        assert_eq!((n_mels, n_fft), (None, None));
        let f_min = f_min.unwrap();
        assert_eq!((f_min.f_min, f_min.validate_new()), (7100.0, Ok(())));

        // Voices with some empty filters exist, and are still taken.
        let fine = settings(0.0, 512);
        assert_eq!(fine.validate(), Ok(()));
        let error = fine.validate_new().unwrap_err().to_string();
        assert!(error.starts_with("100 of 512 mel filters"), "{error}");
        let [n_mels, n_fft, f_min] = fine.with_full_filters();
        assert!(n_mels.is_some_and(|n| n.n_mels > 200));
        assert_eq!((n_fft.unwrap().n_fft, f_min), (2048, None));
    }

    #[test]
    fn frames_last_about_as_long_at_another_rate() {
        let at = |rate| {
            let settings = AudioSettings::default().at_rate(rate).unwrap();
            assert_eq!(settings.validate_new(), Ok(()));
            (settings.n_fft, settings.hop_length, settings.f_max)
        };
        assert_eq!(at(8_000), (256, 64, 4000.0));
        assert_eq!(at(11_025), (512, 128, 5512.5));
        assert_eq!(at(16_000), (512, 128, 8000.0));
        assert_eq!(at(44_100), (2048, 512, 8000.0));
        // Many filters need the longer window.
        let fine = AudioSettings {
            n_mels: 200,
            ..AudioSettings::default()
        };
        assert_eq!(fine.at_rate(8_000).unwrap().n_fft, 512);
        assert_eq!(fine.at_rate(0), None);
    }

    #[test]
    fn frames_are_counted_from_the_header() {
        let settings = AudioSettings::default();
        let header = |sample_rate, samples| AudioHeader {
            sample_rate,
            channels: 1,
            samples,
        };
        let frames = |rate, samples| settings.frames_for_header(&header(rate, samples));
        assert_eq!([255, 256].map(|samples| frames(22_050, samples)), [1, 2]);
        assert_eq!([510, 511].map(|samples| frames(44_100, samples)), [1, 2]);
        assert!(frames(1, u64::MAX) > 0);
    }

    #[test]
    fn the_length_limit_is_not_part_of_a_fingerprint() {
        let json = serde_json::to_string(&AudioSettings::default()).unwrap();
        assert!(!json.contains("max_seconds"), "{json}");
        let back: AudioSettings = serde_json::from_str(&json).unwrap();
        assert_eq!(back, AudioSettings::default());
    }
}
