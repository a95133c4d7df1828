//! The command line: verbs and their flags.
//!
//! The flags of settings come from the table (`flags.rs`); here are the verbs, and the flags that
//! belong to one call of one verb.

mod flags;
mod help;
mod parser;
mod refusal;

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::keys;
use crate::config::value::{Kind, Value};
use crate::{DeviceChoice, DeviceFlags};

pub use flags::Flags;
use parser::of;
pub use refusal::refusal;

#[derive(Debug, Parser)]
#[command(
    name = "voxmill",
    version,
    about = "Trains text-to-speech voices and keeps the GPUs busy while it does",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check a dataset, compute its features and keep them in a cache
    #[command(after_help = help::SHORT, after_long_help = help::PREPARE)]
    Prepare(Box<PrepareArgs>),
    /// Train a voice
    #[command(after_help = help::SHORT, after_long_help = help::TRAIN)]
    Train(Box<TrainArgs>),
    /// Measure where the time of a training goes, and say what is slow and what to change
    #[command(after_help = help::SHORT, after_long_help = help::PROFILE)]
    Profile(Box<ProfileArgs>),
    /// Measure the data side alone: text, audio, disk, and what a model would wait for
    #[command(after_help = help::SHORT, after_long_help = help::ANALYZE)]
    Analyze(Box<AnalyzeArgs>),
    /// Check settings, dataset and machine against each other before training
    #[command(after_help = help::SHORT, after_long_help = help::VALIDATE)]
    Validate(Box<ValidateArgs>),
    /// Show the devices there are, how they are linked, and how fast batches get across
    #[command(after_help = help::DEVICES)]
    Devices(DevicesArgs),
    /// Compare a device with the CPU: products, model, gradients, reads, memory, clock
    #[command(after_help = help::SELFTEST)]
    Selftest(SelftestArgs),
    /// Speak a text with a trained voice
    #[command(after_help = help::SHORT, after_long_help = help::SYNTHESIZE)]
    Synthesize(Box<SynthesizeArgs>),
    /// List the runs: state, steps, best held-out error, size
    #[command(after_help = help::RUNS)]
    Runs(RunsArgs),
    /// Show the dashboard of a run that another terminal trains, or of one that has ended
    #[command(after_help = help::WATCH)]
    Watch(WatchArgs),
    /// Compare runs: speed, stability, memory, loss, with the noise shown
    #[command(after_help = help::COMPARE)]
    Compare(CompareArgs),
    /// Make a page of a run that can be sent: what was slow, when, and how the voice learnt
    #[command(after_help = help::REPORT)]
    Report(ReportArgs),
    /// Measure several batch sizes, or numbers of workers: where more gains nothing, and what would not fit
    #[command(after_help = help::SHORT, after_long_help = help::SCALE)]
    Scale(Box<ScaleArgs>),
    /// Predict a run on hardware that is not there: from stage times that you state, or from a run's log
    #[command(after_help = help::PLAN)]
    Plan(PlanArgs),
    /// Compare what was predicted with what later runs measured
    #[command(after_help = help::LEDGER)]
    Ledger(LedgerArgs),
    /// Show how the text front-end reads a sentence
    #[command(after_help = help::TEXT)]
    Text(TextArgs),
    /// Write completions of verbs and flags for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions(CompletionsArgs),
}

#[derive(Debug, Default, Args)]
pub struct PrepareArgs {
    #[command(flatten)]
    pub flags: Flags,
    /// Compare the contents of audio files, not only size and time
    #[arg(long, help_heading = "Cache")]
    pub verify: bool,
    /// Drop the features of clips that the dataset no longer has, or that are now left out
    #[arg(long, help_heading = "Cache")]
    pub gc: bool,
    /// Add what happens to this file, as JSON lines: times by the second, faults, decisions
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub log: Option<PathBuf>,
    /// At the end, write every single step to this file (the newest 2 million), for a viewer such as Perfetto
    #[arg(long, value_name = "FILE", help_heading = "Record")]
    pub trace: Option<PathBuf>,
    /// Print the summary as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Clone, Debug, Default, Args)]
pub struct TrainArgs {
    #[command(flatten)]
    pub flags: Flags,
    /// At the end, write every single step to this file (the newest 2 million), for a viewer such as Perfetto
    #[arg(long, value_name = "FILE", help_heading = "Run and output")]
    pub trace: Option<PathBuf>,
    /// Print the summary as JSON on standard output
    #[arg(long, help_heading = "Run and output")]
    pub json: bool,
}

impl TrainArgs {
    /// `--resume`: with its run, or without one for the newest.
    pub fn resume(&self) -> Option<Option<PathBuf>> {
        let key = &keys::RESUME;
        self.flags.has(key).then(|| self.flags.get(key))
    }

    /// A training with these settings that is only measured.
    pub fn measured(mut flags: Flags) -> TrainArgs {
        flags.set(&keys::ENABLE_EVALUATION, Value::Switch(false));
        TrainArgs {
            flags,
            ..TrainArgs::default()
        }
    }
}

#[derive(Debug, Default, Args)]
pub struct ProfileArgs {
    /// Steps to measure [default: 100]
    #[arg(long, value_name = "N", help_heading = "Profile", allow_negative_numbers = true, value_parser = of::<NonZero<u32>>(Kind::Whole { min: 1, max: 1_000_000 }))]
    pub num_steps: Option<NonZero<u32>>,
    /// Steps before that, which are not counted [default: 5]
    #[arg(long, value_name = "N", help_heading = "Profile", allow_negative_numbers = true, value_parser = of::<u32>(Kind::Whole { min: 0, max: 1_000_000 }))]
    pub warmup: Option<u32>,
    /// Measure nothing: report what the log of this run says
    #[arg(long, id = "replayed", value_name = "RUN", help_heading = "Profile", value_parser = of::<PathBuf>(Kind::Path))]
    pub replay: Option<PathBuf>,
    /// Predict the step time with these changes, such as "num_workers=4, disk=2x"
    #[arg(long, value_name = "CHANGES", help_heading = "Profile")]
    pub what_if: Option<String>,
    /// At the end, write every single step to this file, for a viewer such as Perfetto
    #[arg(long, value_name = "FILE", help_heading = "Profile")]
    pub trace: Option<PathBuf>,
    /// Print everything as JSON on standard output
    #[arg(long, help_heading = "Profile")]
    pub json: bool,
    /// Slow a part down on purpose, such as read=20ms: to see whether it is found
    #[arg(long, alias = "plant", value_name = "PART=TIME", hide = true)]
    pub inject: Vec<String>,
    #[command(flatten)]
    pub flags: Flags,
}

impl ProfileArgs {
    /// The run that is measured: as `train` would do it.
    pub fn training(self) -> TrainArgs {
        let mut train = TrainArgs::measured(self.flags);
        train.flags.set(&keys::NAME, Value::Text("profile".into()));
        train.trace = self.trace;
        train.json = self.json;
        train
    }
}

#[derive(Debug, Default, Args)]
pub struct AnalyzeArgs {
    /// What a step of the model takes [default: as in the newest run of the same size, batch and device]
    #[arg(
        long,
        value_name = "MS",
        help_heading = "Analyze",
        allow_negative_numbers = true
    )]
    pub step_ms: Option<f64>,
    /// Print everything as JSON on standard output
    #[arg(long, help_heading = "Analyze")]
    pub json: bool,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    pub result: ResultArgs,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Result")]
pub struct ResultArgs {
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Write a corrected copy of the file, with its comments, and check that
    #[arg(long, requires = "config")]
    pub fix: bool,
    /// Where the corrected copy goes; a file that is there is replaced [default: <name>.fixed.yaml next to the file]
    #[arg(long, id = "copy", value_name = "FILE", requires = "fix")]
    pub output: Option<PathBuf>,
}

impl ValidateArgs {
    /// What `train` would be given.
    pub fn of_train(&self) -> TrainArgs {
        TrainArgs {
            flags: self.flags.clone(),
            ..TrainArgs::default()
        }
    }
}

#[derive(Clone, Debug, Default, Args)]
pub struct DevicesArgs {
    /// Show what a run with this device would use, such as cpu or vulkan:0
    #[arg(long, value_name = "DEVICE", hide_possible_values = true, value_parser = of::<DeviceChoice>(keys::DEVICE.kind))]
    pub device: Option<DeviceChoice>,
    /// The GPU that prepares batches, or auto; needs --model-gpu
    #[arg(long, value_name = "N", hide_possible_values = true, value_parser = of::<String>(keys::DATA_GPU.kind))]
    pub data_gpu: Option<String>,
    /// The GPU that trains, or auto; needs --data-gpu
    #[arg(long, value_name = "N", hide_possible_values = true, value_parser = of::<String>(keys::MODEL_GPU.kind))]
    pub model_gpu: Option<String>,
    /// Measure how fast batches get from this device to --model-device
    #[arg(long, value_name = "DEVICE", hide_possible_values = true, value_parser = of::<DeviceChoice>(keys::DATA_DEVICE.kind))]
    pub data_device: Option<DeviceChoice>,
    /// The device that trains; needs --data-device
    #[arg(long, value_name = "DEVICE", hide_possible_values = true, value_parser = of::<DeviceChoice>(keys::MODEL_DEVICE.kind))]
    pub model_device: Option<DeviceChoice>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl DevicesArgs {
    pub fn flags(&self) -> DeviceFlags {
        DeviceFlags {
            device: self.device,
            data_gpu: self.data_gpu.clone(),
            model_gpu: self.model_gpu.clone(),
            data_device: self.data_device,
            model_device: self.model_device,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// The run's folder, or its name below --runs-dir [default: the run that trains now, else the newest]
    #[arg(value_name = "RUN", value_parser = of::<PathBuf>(Kind::Path))]
    pub run: Option<PathBuf>,
    /// Where runs are kept [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(keys::RUNS_DIR.kind))]
    runs_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct RunsArgs {
    /// Where runs are kept [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(keys::RUNS_DIR.kind))]
    runs_dir: Option<PathBuf>,
    /// Print the list as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Debug, Args)]
pub struct LedgerArgs {
    /// Where runs are kept, and the ledger with them [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(keys::RUNS_DIR.kind))]
    runs_dir: Option<PathBuf>,
    /// Write the JSON to this file, to be shown to others: there are no paths and no names in it
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

impl LedgerArgs {
    pub fn runs_dir(&self) -> PathBuf {
        runs_dir(self.runs_dir.as_ref())
    }
}

impl WatchArgs {
    pub fn runs_dir(&self) -> PathBuf {
        runs_dir(self.runs_dir.as_ref())
    }
}

impl RunsArgs {
    pub fn runs_dir(&self) -> PathBuf {
        runs_dir(self.runs_dir.as_ref())
    }
}

/// Where `train` writes runs, unless it is moved.
pub fn runs_dir(typed: Option<&PathBuf>) -> PathBuf {
    typed.cloned().unwrap_or_else(|| keys::RUNS_DIR.default())
}

#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    #[arg(value_name = "SHELL")]
    pub shell: CompletedShell,
}

/// Those that `voxmill completions` writes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

/// What the shell reads to complete verbs and flags.
pub fn completions(shell: CompletedShell) -> Vec<u8> {
    let shell = match shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "voxmill", &mut script);
    script
}

#[derive(Clone, Debug, Default, Args)]
pub struct SelftestArgs {
    /// The device to test [default: the one that training takes]
    #[arg(long, value_name = "DEVICE", hide_possible_values = true, value_parser = of::<DeviceChoice>(keys::DEVICE.kind))]
    pub device: Option<DeviceChoice>,
    /// Only compare what the device computes, as before a run; measure nothing
    #[arg(long)]
    pub compare_only: bool,
    /// Write the result to this file too, as JSON: to keep, or to send to the developers
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub struct SynthesizeArgs {
    /// The text to speak; also as --text
    #[arg(value_name = "TEXT", help_heading = "Text")]
    pub words: Vec<String>,
    /// The text to speak; - for standard input [default: standard input]
    #[arg(
        long,
        value_name = "TEXT",
        help_heading = "Text",
        allow_hyphen_values = true
    )]
    pub text: Option<String>,
    /// A file with the text to speak
    #[arg(long, value_name = "FILE", help_heading = "Text", value_parser = of::<PathBuf>(Kind::Path))]
    pub text_file: Option<PathBuf>,
    /// Speak also what is in a language that the voice was not trained on
    #[arg(long, help_heading = "Voice")]
    pub force: bool,
    #[command(flatten)]
    pub flags: Flags,
    /// Play the speech once it is written, with the first player found
    #[arg(long, help_heading = "Output")]
    pub play: bool,
    /// Print what was spoken as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub struct CompareArgs {
    /// Folders of runs, or their logs: two or more
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Exit 1 when a later run's steps take longer than the first's by more than this, and noise cannot be why
    #[arg(long, value_name = "SHARE", value_parser = of::<f64>(Kind::Share))]
    pub fail_above: Option<f64>,
    /// Print the comparison as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub struct ReportArgs {
    /// Folders of runs, or their logs; several are compared with the first
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Where to write it [default: report.html in the run's folder; of a log or several runs, here]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Draw this chart alone, as an SVG picture [default: on standard output]
    #[arg(long, value_name = "CHART", help_heading = "Output")]
    pub svg: Option<Chart>,
}

/// What `report --svg` draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Chart {
    StepTime,
    Timeline,
    Buffers,
}

#[derive(Debug, Default, Args)]
pub struct ScaleArgs {
    #[command(flatten)]
    pub sweep: SweepArgs,
    #[command(flatten)]
    pub flags: Flags,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// One of the three lists. [`crate::ScaleSettings`] knows these flags by name.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sizes (one of the lists)")]
pub struct SweepArgs {
    /// Batch sizes [default: by model size: 16,24,32 for tiny, 4,8,12 for big]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with_all = ["workers", "prefetch"], value_parser = of::<NonZero<u32>>(keys::BATCH_SIZE.kind))]
    pub batch_sizes: Vec<NonZero<u32>>,
    /// Numbers of threads that compute features, at the given batch size
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "prefetch", value_parser = of::<usize>(keys::NUM_WORKERS.kind))]
    pub workers: Vec<usize>,
    /// Numbers of batches ahead on the device
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = of::<usize>(keys::PREFETCH_BUFFER_SIZE.kind))]
    pub prefetch: Vec<usize>,
    /// Steps of each size that are measured, after 3 to warm up
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = of::<u64>(Kind::Whole { min: 5, max: 100_000 }))]
    pub num_steps: u64,
}

#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    /// A YAML file with stages and their times
    #[arg(value_name = "FILE", required_unless_present = "replay", conflicts_with = "replay", value_parser = of::<PathBuf>(Kind::Path))]
    pub file: Option<PathBuf>,
    /// The log of this run instead of a file
    #[arg(long, value_name = "RUN", requires = "what_if", value_parser = of::<PathBuf>(Kind::Path))]
    pub replay: Option<PathBuf>,
    /// With --replay: with which changes, such as "model=4x, disk=2x, cores=8"
    #[arg(long, value_name = "CHANGES", requires = "replay")]
    pub what_if: Option<String>,
    /// Steps of the whole run, for its hours [default: as in the file, or 100000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = of::<u64>(Kind::Whole { min: 1, max: 1_000_000_000_000 }))]
    pub steps: Option<u64>,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub struct TextArgs {
    /// The text; standard input, a sentence a line, when it is left out
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    #[command(flatten)]
    pub flags: Flags,
    /// Print the steps as JSON, one object a line, on standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[cfg(test)]
mod tests;
