//! Which data, and what becomes of it: what `prepare` and `train` have in common.

use std::num::NonZero;
use std::path::PathBuf;

use voxmill_speech::audio::AudioSettings;
use voxmill_speech::batch_plan::BatchSettings;
use voxmill_speech::language::Language;
use voxmill_speech::text::FrontEndOptions;

use super::Origin;
use super::resolver::Resolver;
use super::text::front_end;
use crate::args::{AudioArgs, BatchArgs, CacheArgs, DatasetArgs, FrontEndArgs};
use crate::complaint::Complaint;
use crate::config::keys;

#[derive(Clone, Debug)]
pub(crate) struct DataSettings {
    /// `None`: the built-in demo corpus.
    pub(crate) train_data: Option<PathBuf>,
    pub(crate) val_data: Option<PathBuf>,
    pub(crate) val_fraction: f64,
    pub(crate) val_fraction_origin: Origin,
    pub(crate) language: Option<Language>,
    pub(crate) max_bad: f64,
    pub(crate) max_text_length: u32,
    pub(crate) max_mel_frames: u32,
    pub(crate) text: FrontEndOptions,
    pub(crate) audio: AudioSettings,
    pub(crate) batches: BatchSettings,
    /// `None`: beside the dataset.
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_budget: Option<u64>,
}

/// Clips of a batch of the built-in corpus.
const EIGHT: NonZero<u32> = NonZero::<u32>::MIN.saturating_add(7);

impl DataSettings {
    pub(super) fn resolve(
        r: &mut Resolver,
        dataset: DatasetArgs,
        text: FrontEndArgs,
        audio_args: &AudioArgs,
        batches: &BatchArgs,
        cache: CacheArgs,
    ) -> anyhow::Result<DataSettings> {
        let train_data = r.optional(
            &keys::TRAIN_DATA,
            dataset.train_data,
            "the built-in demo corpus",
        );
        let val_data = r.optional(&keys::VAL_DATA, dataset.val_data, "none");
        let val_fraction = r.pick(&keys::VAL_FRACTION, dataset.val_fraction, 0.05);
        let val_fraction_origin = r.last_origin();
        let absent = "detected for each clip";
        let language = r.optional(&keys::LANGUAGE, dataset.language, absent);
        let max_bad = r.pick(&keys::MAX_BAD, dataset.max_bad, 0.05);
        let max_text_length = r.pick(&keys::MAX_TEXT_LENGTH, dataset.max_text_length, 400);
        let max_mel_frames = r.pick(&keys::MAX_MEL_FRAMES, dataset.max_mel_frames, 1_500);
        let text = front_end(r, text);
        let audio = audio(r, audio_args)?;
        let default = BatchSettings::default();
        let fixed = batches.pad_to_fixed_length;
        let batches = BatchSettings {
            batch_size: match &train_data {
                Some(_) => r.pick(&keys::BATCH_SIZE, batches.batch_size, default.batch_size),
                // Minutes are short: twice the steps say more than twice the clips a step.
                None => r.auto(
                    &keys::BATCH_SIZE,
                    batches.batch_size,
                    EIGHT,
                    "for the built-in corpus",
                ),
            },
            bucket_count: r.pick(&keys::BUCKETS, batches.buckets, default.bucket_count),
            pad_to_fixed_length: r.pick(&keys::PAD_TO_FIXED_LENGTH, fixed, false),
            seed: r.pick(&keys::SEED, batches.seed, default.seed),
            ..default
        };
        let absent = "voxmill-cache in the dataset's folder";
        let cache_dir = r.optional(&keys::CACHE_DIR, cache.cache_dir, absent);
        let cache_budget = r.optional(&keys::CACHE_BUDGET, cache.cache_budget, "no limit");
        if val_data.is_some() && val_fraction_origin == Origin::Flag {
            return Err(Complaint::new(
                "--val-fraction and --val-data both say which clips are for validation",
                "leave one of the two out",
            )
            .mend(&keys::VAL_FRACTION, None)
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
            text,
            audio,
            batches,
            cache_dir,
            cache_budget,
        })
    }
}

fn audio(r: &mut Resolver, args: &AudioArgs) -> anyhow::Result<AudioSettings> {
    let default = AudioSettings::default();
    let sample_rate = r.pick(&keys::SAMPLE_RATE, args.sample_rate, default.sample_rate);
    let nyquist = sample_rate as f32 / 2.0;
    let settings = AudioSettings {
        sample_rate,
        n_fft: r.pick(&keys::N_FFT, args.n_fft, default.n_fft),
        hop_length: r.pick(&keys::HOP_LENGTH, args.hop_length, default.hop_length),
        n_mels: r.pick(&keys::N_MELS, args.n_mels, default.n_mels),
        f_min: r.pick(&keys::F_MIN, args.f_min, default.f_min),
        f_max: if nyquist < default.f_max {
            r.auto(&keys::F_MAX, args.f_max, nyquist, "half the sample rate")
        } else {
            r.pick(&keys::F_MAX, args.f_max, default.f_max)
        },
        trim_db: r.optional(&keys::TRIM_DB, args.trim_db, "off"),
        loudness_lufs: r.optional(&keys::LOUDNESS_LUFS, args.loudness_lufs, "off"),
        ..default
    };
    settings.validate().map_err(|error| {
        Complaint::new(
            format!("the audio settings do not go together: {error}"),
            "`--show-settings` shows where each value comes from",
        )
    })?;
    Ok(settings)
}
