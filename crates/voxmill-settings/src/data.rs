//! Which data, and what becomes of it: what `prepare` and `train` have in common.

use std::num::NonZero;
use std::path::PathBuf;

use voxmill_audio::{AudioSettings, AudioSettingsError};
use voxmill_data::batch_plan::BatchSettings;
use voxmill_text::FrontEndOptions;
use voxmill_text::language::Language;

use super::Origin;
use super::resolver::Resolver;
use super::text::front_end;
use crate::config::keys::{self, Key};
use crate::error::UserError;

/// What is trained on, and how it becomes features and batches.
#[derive(Clone, Debug)]
pub struct DataSettings {
    /// `None`: the built-in demo corpus.
    pub train_data: Option<PathBuf>,
    pub val_data: Option<PathBuf>,
    pub val_fraction: f64,
    pub val_fraction_origin: Origin,
    pub language: Option<Language>,
    pub max_bad: f64,
    pub max_text_length: u32,
    pub max_mel_frames: u32,
    /// Leave out what `prepare` listed as suspicious.
    pub drop_suspicious: bool,
    /// In dB.
    pub min_snr: Option<f64>,
    pub follow_links: bool,
    pub text: FrontEndOptions,
    pub audio: AudioSettings,
    pub batches: BatchSettings,
    /// `None`: in the dataset's folder.
    pub cache_dir: Option<PathBuf>,
    pub cache_budget: Option<u64>,
}

/// Clips of a batch of the built-in corpus.
const EIGHT: NonZero<u32> = NonZero::<u32>::MIN.saturating_add(7);

impl DataSettings {
    /// `old_voice`: a voice that exists keeps its settings, such as a few mel filters that see nothing.
    pub(super) fn resolve(r: &mut Resolver, old_voice: bool) -> anyhow::Result<DataSettings> {
        let train_data: Option<PathBuf> = r.optional(&keys::TRAIN_DATA);
        let val_data: Option<PathBuf> = r.optional(&keys::VAL_DATA);
        let val_fraction = r.pick(&keys::VAL_FRACTION);
        let val_fraction_origin = r.origin(&keys::VAL_FRACTION);
        let language = r.optional(&keys::LANGUAGE);
        let max_bad = r.pick(&keys::MAX_BAD);
        let max_text_length = r.pick(&keys::MAX_TEXT_LENGTH);
        let max_mel_frames = max_mel_frames(r);
        let drop_suspicious = r.pick(&keys::DROP_SUSPICIOUS);
        let min_snr = r.optional(&keys::MIN_SNR);
        let follow_links = r.pick(&keys::FOLLOW_LINKS);
        let text = front_end(r);
        let audio = audio(r, old_voice)?;
        let batches = BatchSettings {
            batch_size: match &train_data {
                Some(_) => r.pick(&keys::BATCH_SIZE),
                // Minutes are short: twice the steps say more than twice the clips a step.
                None => r.auto(&keys::BATCH_SIZE, EIGHT, "for the built-in corpus"),
            },
            bucket_count: r.pick(&keys::BUCKETS),
            pad_to_fixed_length: r.pick(&keys::PAD_TO_FIXED_LENGTH),
            seed: r.pick(&keys::SEED),
            ..BatchSettings::default()
        };
        let cache_dir = r.optional(&keys::CACHE_DIR);
        let cache_budget = r.optional(&keys::CACHE_BUDGET);
        if val_data.is_some() && val_fraction_origin == Origin::Flag {
            let what = "--val-fraction and --val-data both say which clips are for validation";
            let hint = "leave one of the two out";
            return Err(UserError::new(what, hint)
                .fix(&keys::VAL_FRACTION, None)
                .into());
        }
        Ok(DataSettings {
            train_data,
            val_data,
            val_fraction,
            val_fraction_origin,
            language,
            max_bad,
            max_text_length,
            max_mel_frames,
            drop_suspicious,
            min_snr,
            follow_links,
            text,
            audio,
            batches,
            cache_dir,
            cache_budget,
        })
    }
}

/// The default is a length of time: shorter frames do not leave out more clips.
fn max_mel_frames(r: &mut Resolver) -> u32 {
    let key = &keys::MAX_MEL_FRAMES;
    let default = AudioSettings::default();
    let rate = r.given(&keys::SAMPLE_RATE);
    let rate: u32 = rate.map_or(default.sample_rate, |(rate, _)| rate);
    let hop = r.given(&keys::HOP_LENGTH);
    let hop: usize = hop.map_or(default.hop_length, |(hop, _)| hop);
    if (rate, hop) == (default.sample_rate, default.hop_length) {
        return r.pick(key);
    }
    let seconds = |frames: u32| {
        f64::from(frames) * default.hop_length as f64 / f64::from(default.sample_rate)
    };
    let frames = seconds(key.default()) * f64::from(rate) / hop.max(1) as f64;
    r.auto(key, frames.max(1.0) as u32, "17 s at this rate and hop")
}

fn audio(r: &mut Resolver, old_voice: bool) -> anyhow::Result<AudioSettings> {
    let default = AudioSettings::default();
    let sample_rate: u32 = r.pick(&keys::SAMPLE_RATE);
    let nyquist = sample_rate as f32 / 2.0;
    let settings = AudioSettings {
        sample_rate,
        n_fft: r.pick(&keys::N_FFT),
        hop_length: r.pick(&keys::HOP_LENGTH),
        n_mels: r.pick(&keys::N_MELS),
        f_min: r.pick(&keys::F_MIN),
        f_max: if nyquist < default.f_max {
            r.auto(&keys::F_MAX, nyquist, "half the sample rate")
        } else {
            r.pick(&keys::F_MAX)
        },
        trim_db: r.optional(&keys::TRIM_DB),
        loudness_lufs: r.optional(&keys::LOUDNESS_LUFS),
        ..default
    };
    let checked = match old_voice {
        true => settings.validate(),
        false => settings.validate_new(),
    };
    match checked {
        Ok(()) => Ok(settings),
        Err(error) => Err(refused(&settings, &error).into()),
    }
}

fn refused(settings: &AudioSettings, error: &AudioSettingsError) -> UserError {
    let what = format!("the audio settings do not go together: {error}");
    let keys = keys_of(error);
    let AudioSettingsError::EmptyFilters { .. } = error else {
        let hint = "`--show-settings` shows where each value comes from";
        return UserError::new(what, hint).about(&keys);
    };
    let [n_mels, n_fft, f_min] = settings.with_full_filters();
    let f_min = f_min.map(|with| (&keys::F_MIN, with.f_min.to_string()));
    let n_mels = n_mels.map(|with| (&keys::N_MELS, with.n_mels.to_string()));
    let n_fft = n_fft.map(|with| (&keys::N_FFT, with.n_fft.to_string()));
    let ways: Vec<(&'static Key, String)> = [f_min, n_mels, n_fft].into_iter().flatten().collect();
    let flags: Vec<String> = ways
        .iter()
        .map(|(key, value)| key.flag_with(value))
        .collect();
    match ways.first() {
        Some((key, value)) => {
            let hint = format!(
                "write {}: then each filter sees something",
                flags.join(", or ")
            );
            UserError::new(what, hint)
                .fix(key, Some(value))
                .about(&keys)
        }
        None => {
            let hint = "move f_min and f_max further apart, or use fewer n_mels or a larger n_fft";
            UserError::new(what, hint).about(&keys)
        }
    }
}

/// The settings that an error names, in its order.
fn keys_of(error: &AudioSettingsError) -> Vec<&'static Key> {
    use AudioSettingsError as Error;
    match error {
        Error::SampleRate(_) => vec![&keys::SAMPLE_RATE],
        Error::WindowLength(_) => vec![&keys::N_FFT],
        Error::HopLength { .. } => vec![&keys::HOP_LENGTH, &keys::N_FFT],
        Error::Mels(_) => vec![&keys::N_MELS],
        Error::Band { .. } => vec![&keys::F_MIN, &keys::F_MAX, &keys::SAMPLE_RATE],
        Error::EmptyFilters { .. } => {
            vec![&keys::F_MIN, &keys::F_MAX, &keys::N_MELS, &keys::N_FFT]
        }
        Error::Trim(_) => vec![&keys::TRIM_DB],
        Error::Loudness(_) => vec![&keys::LOUDNESS_LUFS],
        Error::MaxSeconds(_) => vec![],
    }
}
