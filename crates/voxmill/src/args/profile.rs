//! What the verbs take that measure a run: `profile` and `analyze`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::of;
use super::road::RoadArgs;
use super::train::{DeviceArgs, ModelArgs, TrainArgs};
use crate::config::keys;
use crate::settings::ModelSize;

const AFTER_HELP: &str = "\
It trains for real and throws the model away. Beside the run itself it measures the floor (batches that are
on the device already), the interference (the same while the workers work) and the same work without overlap.
The log that it writes can be looked at again with --replay, on any machine, with the same result.

Examples:
  voxmill profile                                   the tiny model on the built-in corpus
  voxmill profile --train-data D --batch-size 16    your dataset
  voxmill profile --data-gpu 0 --model-gpu 1        two GPUs
  voxmill profile --replay runs/a                   the log of an earlier run, profiled or trained
  voxmill profile --json > profile.json             everything as JSON (docs/json.md)

Exit: 0 done, 1 failed";

#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProfileArgs {
    /// Steps to measure [default: 100]
    #[arg(long, value_name = "N", help_heading = "Profile")]
    pub(crate) num_steps: Option<NonZero<u32>>,
    /// Steps before that, which are not counted [default: 5]
    #[arg(long, value_name = "N", help_heading = "Profile")]
    pub(crate) warmup: Option<u32>,
    /// Measure nothing: say what the log of this run says
    #[arg(long, value_name = "RUN", help_heading = "Profile", value_parser = of::<PathBuf>(&keys::RUN_DIR))]
    pub(crate) replay: Option<PathBuf>,
    /// Where the log goes, as events.jsonl in a folder <time>-profile [default: runs]
    #[arg(long, value_name = "DIR", help_heading = "Profile", value_parser = of::<PathBuf>(&keys::RUNS_DIR))]
    pub(crate) runs_dir: Option<PathBuf>,
    /// At the end, write every single step to this file, for a viewer such as Perfetto
    #[arg(long, value_name = "FILE", help_heading = "Profile")]
    pub(crate) trace: Option<PathBuf>,
    /// Print everything as JSON on standard output
    #[arg(long, help_heading = "Profile")]
    pub(crate) json: bool,
    /// Slow a part down on purpose, such as read=20ms: to see whether it is found
    #[arg(long, value_name = "PART=TIME", hide = true)]
    pub(crate) plant: Vec<String>,
    #[command(flatten)]
    pub(crate) road: RoadArgs,
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Batches whose gradients make one step [default: 1]
    #[arg(long, value_name = "N", help_heading = "Model", value_parser = of::<NonZero<u32>>(&keys::GRADIENT_ACCUMULATION_STEPS))]
    pub(crate) grad_accum: Option<NonZero<u32>>,
    /// Steps from one look at the loss to the next [default: 10]
    #[arg(long, value_name = "STEPS", help_heading = "Model", value_parser = of::<NonZero<u64>>(&keys::LOG_EVERY))]
    pub(crate) log_every: Option<NonZero<u64>>,
}

impl ProfileArgs {
    /// The run that is measured: as `train` would do it.
    pub(crate) fn training(self) -> TrainArgs {
        let mut train = self.road.measured(self.devices, self.model);
        train.optimization.grad_accum = self.grad_accum;
        train.run.runs_dir = self.runs_dir;
        train.run.name = Some("profile".to_owned());
        train.run.log_every = self.log_every;
        train.run.trace = self.trace;
        train.run.json = self.json;
        train
    }
}

const ANALYZE_HELP: &str = "\
No model is built. What is measured: the text of every clip, the audio of a sample of them, how fast files can be
read, how many clips a second the road makes with 1, 2, … workers, and what a model would wait for.

Examples:
  voxmill analyze                              the built-in corpus
  voxmill analyze --train-data D --step-ms 80  a dataset, for a model that takes 80 ms a step

Exit: 0 done, 1 failed";

#[derive(Debug, Default, Args)]
#[command(after_help = ANALYZE_HELP)]
pub(crate) struct AnalyzeArgs {
    /// What a step of the model takes [default: as in the newest run of the same size, batch and device]
    #[arg(long, value_name = "MS", help_heading = "Analyze")]
    pub(crate) step_ms: Option<f64>,
    /// The size of the model in the run that is looked for [default: tiny]
    #[arg(long, value_name = "SIZE", help_heading = "Analyze", value_parser = of::<ModelSize>(&keys::SIZE))]
    pub(crate) model_size: Option<ModelSize>,
    /// Where runs are looked for [default: runs]
    #[arg(long, value_name = "DIR", help_heading = "Analyze", value_parser = of::<PathBuf>(&keys::RUNS_DIR))]
    pub(crate) runs_dir: Option<PathBuf>,
    /// Print everything as JSON on standard output
    #[arg(long, help_heading = "Analyze")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) road: RoadArgs,
}
