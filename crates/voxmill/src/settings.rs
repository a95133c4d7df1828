//! What is meant: every setting resolved by flag > file > auto > default, and valid as a whole.

use std::fmt;
use std::path::{Path, PathBuf};

use voxmill_speech::audio::AudioSettings;
use voxmill_speech::batch_plan::BatchSettings;
use voxmill_speech::language::Language;
use voxmill_speech::text::FrontEndOptions;
use voxmill_telemetry::plan::Order;
use voxmill_telemetry::probes::{Roots, usable_memory};

use crate::args::{FrontEndArgs, PrepareArgs, TextArgs, WorkArgs};
use crate::complaint::Complaint;
use crate::config::file::{ConfigFile, Place};
use crate::config::keys::{self, Key, Role};
use crate::config::value::{FromValue, Kind, show_bytes};
use crate::feed::Spread;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
    Flag,
    File(Place),
    /// Worked out from the machine or from other settings, for the reason given.
    Auto(&'static str),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::File(place) => write!(
                f,
                "{}:{}:{}",
                place.file.display(),
                place.line,
                place.column
            ),
            Origin::Auto(why) => write!(f, "auto ({why})"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// One line of `--show-settings`.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) key: &'static Key,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

#[derive(Debug)]
pub(crate) struct PrepareSettings {
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
    pub(crate) verify: bool,
    pub(crate) gc: bool,
    /// Threads that read headers and make features.
    pub(crate) workers: usize,
    pub(crate) spread: Spread,
    pub(crate) log: Option<PathBuf>,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) shown: Vec<Shown>,
}

#[derive(Debug)]
pub(crate) struct TextSettings {
    pub(crate) language: Option<Language>,
    pub(crate) text: FrontEndOptions,
    pub(crate) notes: Vec<String>,
    pub(crate) shown: Vec<Shown>,
}

impl PrepareSettings {
    pub(crate) fn resolve(args: PrepareArgs) -> anyhow::Result<PrepareSettings> {
        let mut resolver = Resolver::new(args.config.config.as_deref())?;
        let r = &mut resolver;
        let train_data = r.optional(
            &keys::TRAIN_DATA,
            args.dataset.train_data,
            "the built-in demo corpus",
        );
        let val_data = r.optional(&keys::VAL_DATA, args.dataset.val_data, "none");
        let val_fraction = r.pick(&keys::VAL_FRACTION, args.dataset.val_fraction, 0.05);
        let val_fraction_origin = r.last_origin();
        let language = r.optional(
            &keys::LANGUAGE,
            args.dataset.language,
            "detected for each clip",
        );
        let max_bad = r.pick(&keys::MAX_BAD, args.dataset.max_bad, 0.05);
        let max_text_length = r.pick(&keys::MAX_TEXT_LENGTH, args.dataset.max_text_length, 400);
        let max_mel_frames = r.pick(&keys::MAX_MEL_FRAMES, args.dataset.max_mel_frames, 1_500);
        let text = front_end(r, args.text);
        let audio = audio(r, &args.audio)?;
        let default = BatchSettings::default();
        let batches = BatchSettings {
            batch_size: r.pick(
                &keys::BATCH_SIZE,
                args.batches.batch_size,
                default.batch_size,
            ),
            bucket_count: r.pick(&keys::BUCKETS, args.batches.buckets, default.bucket_count),
            pad_to_fixed_length: r.pick(
                &keys::PAD_TO_FIXED_LENGTH,
                args.batches.pad_to_fixed_length,
                false,
            ),
            seed: r.pick(&keys::SEED, args.batches.seed, default.seed),
            ..default
        };
        let cache_dir = r.optional(
            &keys::CACHE_DIR,
            args.cache.cache_dir,
            "voxmill-cache in the dataset's folder",
        );
        let cache_budget = r.optional(&keys::CACHE_BUDGET, args.cache.cache_budget, "no limit");
        let spread = spread(r, &args.work);
        if val_data.is_some() && val_fraction_origin == Origin::Flag {
            return Err(Complaint::new(
                "--val-fraction and --val-data both say which clips are for validation",
                "leave one of the two out",
            )
            .into());
        }
        Ok(PrepareSettings {
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
            verify: args.cache.verify,
            gc: args.cache.gc,
            workers: spread.workers,
            spread,
            log: args.record.log,
            trace: args.record.trace,
            json: args.json,
            notes: resolver.notes(),
            shown: resolver.shown,
        })
    }
}

impl TextSettings {
    pub(crate) fn resolve(args: &mut TextArgs) -> anyhow::Result<TextSettings> {
        let mut resolver = Resolver::new(args.config.config.as_deref())?;
        let language = resolver.optional(&keys::LANGUAGE, args.language, "detected");
        let text = front_end(&mut resolver, std::mem::take(&mut args.front_end));
        Ok(TextSettings {
            language,
            text,
            notes: resolver.notes(),
            shown: resolver.shown,
        })
    }
}

fn front_end(r: &mut Resolver, args: FrontEndArgs) -> FrontEndOptions {
    FrontEndOptions {
        lexicon: r.optional(&keys::LEXICON, args.lexicon, "none"),
        espeak: r
            .pick(&keys::ESPEAK, args.espeak, false)
            .then(|| "espeak-ng".into()),
    }
}

fn audio(r: &mut Resolver, args: &crate::args::AudioArgs) -> anyhow::Result<AudioSettings> {
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

/// How much memory to count on where the system does not say how much there is.
const UNKNOWN_MEMORY: u64 = 8 << 30;

fn spread(r: &mut Resolver, args: &WorkArgs) -> Spread {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let why = "one for each core";
    let workers = r.auto(&keys::NUM_WORKERS, args.num_workers, cores, why);
    let memory = usable_memory(&Roots::default()).unwrap_or(UNKNOWN_MEMORY);
    let quarter = (memory / 4).next_multiple_of(1_000_000);
    let why = "a quarter of the memory";
    let ram_budget = r.auto(&keys::RAM_BUDGET, args.ram_budget, quarter, why);
    let unordered = r.pick(&keys::UNORDERED, args.unordered, false);
    let no_overlap = r.pick(&keys::NO_OVERLAP, args.no_overlap, false);
    let adapt = args.no_adapt.map(|not| !not);
    let adapt = r.pick(&keys::AUTO_TUNE_PERFORMANCE, adapt, true);
    Spread {
        workers,
        ram_budget,
        order: if unordered { Order::Free } else { Order::Kept },
        overlap: !no_overlap,
        adapt,
    }
}

/// Picks values and remembers for each where it came from.
struct Resolver {
    file: ConfigFile,
    path: Option<PathBuf>,
    shown: Vec<Shown>,
}

impl Resolver {
    fn new(path: Option<&Path>) -> anyhow::Result<Resolver> {
        let file = path.map(ConfigFile::read).transpose()?.unwrap_or_default();
        Ok(Resolver {
            file,
            path: path.map(Path::to_owned),
            shown: Vec::new(),
        })
    }

    fn given<T: FromValue>(&self, key: &'static Key, flag: Option<T>) -> Option<(T, Origin)> {
        match flag {
            Some(value) => Some((value, Origin::Flag)),
            None => self
                .file
                .get(key)
                .map(|(value, place)| (value, Origin::File(place))),
        }
    }

    fn note<T: FromValue>(&mut self, key: &'static Key, (value, origin): (T, Origin)) -> T {
        let shown = value.show();
        let shown = match (key.kind, shown.parse()) {
            (Kind::Bytes, Ok(bytes)) => show_bytes(bytes),
            _ => shown,
        };
        self.shown.push(Shown {
            key,
            value: shown,
            origin,
        });
        value
    }

    fn pick<T: FromValue>(&mut self, key: &'static Key, flag: Option<T>, default: T) -> T {
        let picked = self.given(key, flag).unwrap_or((default, Origin::Default));
        self.note(key, picked)
    }

    fn auto<T: FromValue>(
        &mut self,
        key: &'static Key,
        flag: Option<T>,
        auto: T,
        why: &'static str,
    ) -> T {
        let picked = self.given(key, flag).unwrap_or((auto, Origin::Auto(why)));
        self.note(key, picked)
    }

    /// A setting that may be absent; `absent` says in words what happens then.
    fn optional<T: FromValue>(
        &mut self,
        key: &'static Key,
        flag: Option<T>,
        absent: &'static str,
    ) -> Option<T> {
        match self.given(key, flag) {
            Some(picked) => Some(self.note(key, picked)),
            None => {
                self.shown.push(Shown {
                    key,
                    value: absent.into(),
                    origin: Origin::Default,
                });
                None
            }
        }
    }

    fn last_origin(&self) -> Origin {
        self.shown
            .last()
            .map_or(Origin::Default, |shown| shown.origin.clone())
    }

    /// What the person should hear once about keys that have no effect here.
    fn notes(&self) -> Vec<String> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        for key in &self.file.without_meaning {
            if let Role::NoMeaning(why) = key.role {
                notes.push(format!(
                    "{}: `{}` has no meaning here: {why}",
                    path.display(),
                    key.name
                ));
            }
        }
        if !self.file.for_later.is_empty() {
            let names: Vec<_> = self
                .file
                .for_later
                .iter()
                .map(|key| format!("`{}`", key.name))
                .collect();
            notes.push(format!(
                "{}: checked, but not used by any command of this version: {}",
                path.display(),
                names.join(", ")
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::num::NonZero;

    fn config(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn shown<'a>(settings: &'a PrepareSettings, name: &str) -> &'a Shown {
        settings
            .shown
            .iter()
            .find(|shown| shown.key.name == name)
            .unwrap()
    }

    #[test]
    fn flag_beats_file_beats_auto_beats_default() {
        let file = config(
            "data:\n  batch_size: 24\n  num_workers: 3\n  n_mels: 100\n  sample_rate: 8000\n",
        );
        let mut args = PrepareArgs::default();
        args.config.config = Some(file.path().to_owned());
        args.batches.batch_size = NonZero::new(32);
        let settings = PrepareSettings::resolve(args).unwrap();
        assert_eq!(settings.batches.batch_size.get(), 32);
        assert_eq!(shown(&settings, "batch_size").origin, Origin::Flag);
        assert_eq!(settings.workers, 3);
        assert!(
            matches!(&shown(&settings, "num_workers").origin, Origin::File(place) if place.line == 3)
        );
        assert_eq!(settings.audio.f_max, 4000.0);
        assert!(matches!(shown(&settings, "f_max").origin, Origin::Auto(_)));
        assert_eq!(shown(&settings, "hop_length").origin, Origin::Default);
    }

    /// Every key that is said to act must be read by some command, with a type that fits its kind.
    #[test]
    fn every_acting_key_of_a_full_file_reaches_the_settings() {
        let full = "data:\n  train_data: d\n  val_data: v\n  val_fraction: 0.1\n  language: fa\n  max_bad: 2%\n  \
            max_text_length: 99\n  max_mel_frames: 999\n  lexicon: l\n  espeak: true\n  sample_rate: 24000\n  n_fft: 2048\n  \
            hop_length: 300\n  n_mels: 100\n  f_min: 20\n  f_max: 12000\n  trim_db: 40\n  loudness_lufs: -23\n  cache_dir: c\n  \
            cache_budget: 5GB\n  batch_size: 8\n  buckets: 12\n  pad_to_fixed_length: true\n  seed: 7\n  num_workers: 2\n  \
            ram_budget: 1GB\n  unordered: true\n  no_overlap: true\n  auto_tune_performance: false\n";
        let file = config(full);
        let mut args = PrepareArgs::default();
        args.config.config = Some(file.path().to_owned());
        let settings = PrepareSettings::resolve(args).unwrap();
        for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
            assert!(
                full.contains(&format!("  {}:", key.name)),
                "{} is missing from this test",
                key.name
            );
            let origin = &shown(&settings, key.name).origin;
            assert!(matches!(origin, Origin::File(_)), "{}: {origin}", key.name);
        }
    }

    #[test]
    fn the_example_file_says_the_defaults() {
        let mut args = PrepareArgs::default();
        args.config.config =
            Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.example.yaml"));
        let example = PrepareSettings::resolve(args).unwrap();
        let default = PrepareSettings::resolve(PrepareArgs::default()).unwrap();
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../config.example.yaml"
        ))
        .unwrap();
        for key in keys::KEYS.iter().filter(|key| key.role == Role::Acts) {
            assert!(
                text.contains(&format!("{}:", key.name)),
                "{} is missing",
                key.name
            );
        }
        for (written, default) in example.shown.iter().zip(&default.shown) {
            assert_eq!(written.value, default.value, "{}", written.key.name);
        }
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let mut args = PrepareArgs::default();
        args.audio.f_max = Some(20_000.0);
        let error = PrepareSettings::resolve(args).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the audio settings do not go together"),
            "{error}"
        );
    }
}
