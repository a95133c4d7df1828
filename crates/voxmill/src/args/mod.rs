//! What was typed. `settings/` turns it into what is meant.

mod compare;
mod devices;
mod profile;
mod road;
mod scale;
mod synthesize;
#[cfg(test)]
mod table;
mod train;
mod validate;

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use voxmill_speech::language::Language;

use crate::config::keys::{self, Key};
use crate::config::value::FromValue;

pub(crate) use compare::CompareArgs;
pub(crate) use devices::DevicesArgs;
pub(crate) use profile::{AnalyzeArgs, ProfileArgs};
pub(crate) use scale::ScaleArgs;
pub(crate) use synthesize::SynthesizeArgs;
pub(crate) use train::{
    CheckpointArgs, DeviceArgs, EvaluationArgs, FeedArgs, LengthArgs, ModelArgs, OptimizationArgs,
    RunArgs, TrainArgs,
};
pub(crate) use validate::ValidateArgs;

/// A parser for clap that takes the range of a flag from the table of keys, so that a flag and
/// its key in the file accept the same values.
fn of<T: FromValue + Clone + Send + Sync + 'static>(
    key: &'static Key,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = key.kind.parse(text)?;
        T::from_value(value).ok_or_else(|| format!("`{text}` is not {}", key.kind.expects()))
    }
}

#[derive(Debug, Parser)]
#[command(
    name = "voxmill",
    version,
    about = "Trains text-to-speech voices and keeps the GPUs busy while it does",
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check a dataset, compute its features and keep them in a cache
    #[command(after_help = "\
Examples:
  voxmill prepare                                  the built-in demo corpus
  voxmill prepare --train-data ~/LJSpeech-1.1      a dataset of your own
  voxmill prepare --train-data D --verify --gc     check file contents, drop deleted clips
  voxmill prepare --train-data D --json            the summary as JSON

Exit: 0 ready, 1 failed, 130 interrupted (what is done is kept)")]
    Prepare(Box<PrepareArgs>),
    /// Train a voice
    Train(Box<TrainArgs>),
    /// Measure where the time of a training goes, and say what is slow and what to change
    Profile(Box<ProfileArgs>),
    /// Measure the data side alone: text, audio, disk, and what a model would wait for
    Analyze(Box<AnalyzeArgs>),
    /// Check settings, dataset and machine against each other before training
    Validate(Box<ValidateArgs>),
    /// Show the devices there are, how they are linked, and how fast batches get across
    Devices(DevicesArgs),
    /// Say a text with a trained voice
    Synthesize(Box<SynthesizeArgs>),
    /// Hold runs against each other: speed, stability, memory, loss, with the noise shown
    Compare(CompareArgs),
    /// Measure several batch sizes, or numbers of workers: where more gains nothing, and what would not fit
    Scale(Box<ScaleArgs>),
    /// Show what the text front-end makes of a sentence
    #[command(after_help = "\
Examples:
  voxmill text \"Dr. Smith paid $3.50 on May 4, 1999.\"
  voxmill text --language fa \"۱۲ کتاب\"
  voxmill text \"Say {T AH0 M EY1 T OW0}.\"           phonemes written out
  echo \"Hello there.\" | voxmill text               a sentence a line, from standard input")]
    Text(TextArgs),
}

#[derive(Debug, Default, Args)]
pub(crate) struct PrepareArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) dataset: DatasetArgs,
    #[command(flatten)]
    pub(crate) text: FrontEndArgs,
    #[command(flatten)]
    pub(crate) audio: AudioArgs,
    #[command(flatten)]
    pub(crate) batches: BatchArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    #[command(flatten)]
    pub(crate) check: CheckArgs,
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) record: RecordArgs,
    /// Print the summary as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct TextArgs {
    /// The text; standard input, a sentence a line, when it is left out
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// The language, such as en or fa [default: detected]
    #[arg(long, value_name = "CODE", value_parser = of::<Language>(&keys::LANGUAGE))]
    pub(crate) language: Option<Language>,
    #[command(flatten)]
    pub(crate) front_end: FrontEndArgs,
    /// Print the steps as JSON, one object a line, on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct ConfigArgs {
    /// A YAML file with the sections data:, model: and training:
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print each setting with its value and where it came from, and stop
    #[arg(long)]
    pub(crate) show_settings: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Dataset")]
pub(crate) struct DatasetArgs {
    /// The folder with metadata.csv and wavs/ [default: the built-in demo corpus]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::TRAIN_DATA))]
    pub(crate) train_data: Option<PathBuf>,
    /// A second folder whose clips are all for validation
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::VAL_DATA))]
    pub(crate) val_data: Option<PathBuf>,
    /// Share of clips held out for validation where the dataset has no split of its own [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = of::<f64>(&keys::VAL_FRACTION))]
    pub(crate) val_fraction: Option<f64>,
    /// Language of clips whose manifest does not say [default: detected for each clip]
    #[arg(long, value_name = "CODE", value_parser = of::<Language>(&keys::LANGUAGE))]
    pub(crate) language: Option<Language>,
    /// Stop when more than this share of the manifest's rows is bad [default: 5%]
    #[arg(long, value_name = "SHARE", value_parser = of::<f64>(&keys::MAX_BAD))]
    pub(crate) max_bad: Option<f64>,
    /// Leave out clips whose text has more characters than this [default: 400]
    #[arg(long, value_name = "N", value_parser = of::<u32>(&keys::MAX_TEXT_LENGTH))]
    pub(crate) max_text_length: Option<u32>,
    /// Leave out clips with more frames than this [default: 1500, 17 s at the default rate; never above 10 minutes]
    #[arg(long, value_name = "N", value_parser = of::<u32>(&keys::MAX_MEL_FRAMES))]
    pub(crate) max_mel_frames: Option<u32>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Text")]
pub(crate) struct FrontEndArgs {
    /// Pronunciations of your own: a file of lines `word<TAB>PH ON EM ES`
    #[arg(long, value_name = "FILE", value_parser = of::<PathBuf>(&keys::LEXICON))]
    pub(crate) lexicon: Option<PathBuf>,
    /// Ask the installed espeak-ng program how languages other than English are spoken
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ESPEAK))]
    pub(crate) espeak: Option<bool>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Audio")]
pub(crate) struct AudioArgs {
    /// Samples per second that clips are brought to [default: 22050]
    #[arg(long, value_name = "HZ", value_parser = of::<u32>(&keys::SAMPLE_RATE))]
    pub(crate) sample_rate: Option<u32>,
    /// Samples in one analysis window [default: 1024]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::N_FFT))]
    pub(crate) n_fft: Option<usize>,
    /// Samples from one frame to the next [default: 256]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::HOP_LENGTH))]
    pub(crate) hop_length: Option<usize>,
    /// Mel channels [default: 80]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::N_MELS))]
    pub(crate) n_mels: Option<usize>,
    /// Lower edge of the mel filters [default: 0]
    #[arg(long, value_name = "HZ", value_parser = of::<f32>(&keys::F_MIN))]
    pub(crate) f_min: Option<f32>,
    /// Upper edge of the mel filters [default: 8000]
    #[arg(long, value_name = "HZ", value_parser = of::<f32>(&keys::F_MAX))]
    pub(crate) f_max: Option<f32>,
    /// Cut silence at both ends that is this many dB below the clip's loudest part [default: off]
    #[arg(long, value_name = "DB", value_parser = of::<f32>(&keys::TRIM_DB))]
    pub(crate) trim_db: Option<f32>,
    /// Bring every clip to this loudness, e.g. -23 [default: off]
    #[arg(long, value_name = "LUFS", allow_negative_numbers = true, value_parser = of::<f32>(&keys::LOUDNESS_LUFS))]
    pub(crate) loudness_lufs: Option<f32>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Batches")]
pub(crate) struct BatchArgs {
    /// Clips in a batch at the mean length [default: 16; 8 for the built-in corpus]
    #[arg(long, value_name = "N", value_parser = of::<NonZero<u32>>(&keys::BATCH_SIZE))]
    pub(crate) batch_size: Option<NonZero<u32>>,
    /// Shapes that batches are padded to, at the most [default: 8]
    #[arg(long, value_name = "N", value_parser = of::<NonZero<u8>>(&keys::BUCKETS))]
    pub(crate) buckets: Option<NonZero<u8>>,
    /// Pad every batch to the longest clip: one shape, much waste
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::PAD_TO_FIXED_LENGTH))]
    pub(crate) pad_to_fixed_length: Option<bool>,
    /// Seed of all draws: batches and, in `train`, first weights [default: 0]
    #[arg(long, value_name = "N", value_parser = of::<u64>(&keys::SEED))]
    pub(crate) seed: Option<u64>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheArgs {
    /// Where the cache is kept [default: voxmill-cache in the dataset's folder]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::CACHE_DIR))]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Never let the cache grow beyond this size, both folders together [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = of::<u64>(&keys::CACHE_BUDGET))]
    pub(crate) cache_budget: Option<u64>,
}

/// What only `prepare` does with a cache.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CheckArgs {
    /// Compare the contents of audio files, not only size and time
    #[arg(long)]
    pub(crate) verify: bool,
    /// Drop the features of clips that the dataset no longer has, or that are now left out
    #[arg(long)]
    pub(crate) gc: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Work")]
pub(crate) struct WorkArgs {
    /// Threads that read clips and make features [default: one for each core; `train` shares the cores with the model]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::NUM_WORKERS))]
    pub(crate) num_workers: Option<usize>,
    /// Bytes of all clips in memory, in work or waiting, at the most [default: a quarter of the memory]
    #[arg(long, value_name = "SIZE", value_parser = of::<u64>(&keys::RAM_BUDGET))]
    pub(crate) ram_budget: Option<u64>,
    /// Take things as they are done instead of in their order
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::UNORDERED))]
    pub(crate) unordered: Option<bool>,
    /// Do one thing after another on one thread: the baseline to hold a gain against
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::NO_OVERLAP))]
    pub(crate) no_overlap: Option<bool>,
    /// Leave workers and buffers as they are at the start
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::AUTO_TUNE_PERFORMANCE))]
    pub(crate) no_adapt: Option<bool>,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Record")]
pub(crate) struct RecordArgs {
    /// Add what happens to this file, as JSON lines: times by the second, faults, decisions
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// At the end, write every single step to this file (the newest 2 million), for a viewer such as Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_switch_does_not_swallow_the_text() {
        let cli = Cli::try_parse_from(["voxmill", "text", "--espeak", "hi"]).unwrap();
        let Verb::Text(args) = cli.verb else {
            panic!("another verb")
        };
        assert_eq!(
            (args.text.as_deref(), args.front_end.espeak),
            (Some("hi"), Some(true))
        );
        let cli = Cli::try_parse_from(["voxmill", "text", "--espeak=false", "hi"]).unwrap();
        let Verb::Text(args) = cli.verb else {
            panic!("another verb")
        };
        assert_eq!(args.front_end.espeak, Some(false));
    }

    #[test]
    fn a_flag_has_the_range_of_its_key() {
        let refused = Cli::try_parse_from(["voxmill", "prepare", "--batch-size", "0"]).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("a whole number from 1 to 4096"),
            "{refused}"
        );
        assert!(Cli::try_parse_from(["voxmill", "prepare", "--max-bad", "5%"]).is_ok());
    }
}
