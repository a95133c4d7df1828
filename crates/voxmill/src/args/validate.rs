//! What `validate` takes: what `train` would be given, and what to do about what is wrong.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::{
    AudioArgs, BatchArgs, CacheArgs, CheckpointArgs, ConfigArgs, DatasetArgs, DeviceArgs,
    EvaluationArgs, FeedArgs, FrontEndArgs, LengthArgs, ModelArgs, OptimizationArgs, RunArgs,
    TrainArgs, WorkArgs, of,
};
use crate::config::keys;

const AFTER_HELP: &str = "\
Three levels: an error is what `train` would refuse or could not do, a warning is what costs time
or memory, a note is worth knowing. Each says where it stands, what it costs and what to write.

Examples:
  voxmill validate --config my.yaml                          the file against this machine
  voxmill validate --config my.yaml --train-data ~/LJSpeech  and against another dataset
  voxmill validate --config my.yaml --fix                    write my.fixed.yaml
  voxmill validate --batch-size 64 --num-workers 12          flags alone, on the built-in corpus

Exit: 0 ready, 1 something must be mended first";

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) mending: MendingArgs,
    #[command(flatten)]
    dataset: DatasetArgs,
    #[command(flatten)]
    text: FrontEndArgs,
    #[command(flatten)]
    audio: AudioArgs,
    #[command(flatten)]
    batches: BatchArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    feed: FeedArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    length: LengthArgs,
    #[command(flatten)]
    optimization: OptimizationArgs,
    #[command(flatten)]
    evaluation: EvaluationArgs,
    #[command(flatten)]
    folders: FolderArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Result")]
pub(crate) struct MendingArgs {
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a corrected copy of the file, with its comments, and check that
    #[arg(long, requires = "config")]
    pub(crate) fix: bool,
    /// Where the corrected copy goes; a file that is there is replaced [default: <name>.fixed.yaml beside the file]
    #[arg(long, value_name = "FILE", requires = "fix")]
    pub(crate) output: Option<PathBuf>,
}

/// Where a run would write, and where earlier runs are.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checkpoints and runs")]
struct FolderArgs {
    /// Where checkpoints go [default: checkpoints in the run's folder]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::CHECKPOINT_DIR))]
    checkpoint_dir: Option<PathBuf>,
    /// Steps from one checkpoint to the next [default: 250 for nano and tiny, 1000 for larger ones]
    #[arg(long, value_name = "STEPS", value_parser = of::<NonZero<u64>>(&keys::CHECKPOINT_EVERY))]
    checkpoint_every: Option<NonZero<u64>>,
    /// How many of the last checkpoints to keep, beside the best [default: 3]
    #[arg(long, value_name = "N", value_parser = of::<NonZero<usize>>(&keys::KEEP))]
    keep: Option<NonZero<usize>>,
    /// Where runs are kept; the newest like this one tells how busy the device was [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::RUNS_DIR))]
    runs_dir: Option<PathBuf>,
}

impl ValidateArgs {
    /// What `train` would be given.
    pub(crate) fn of_train(&self) -> TrainArgs {
        let this = self.clone();
        TrainArgs {
            config: this.config,
            dataset: this.dataset,
            text: this.text,
            audio: this.audio,
            batches: this.batches,
            cache: this.cache,
            work: this.work,
            feed: this.feed,
            devices: this.devices,
            model: this.model,
            length: this.length,
            optimization: this.optimization,
            checkpoints: CheckpointArgs {
                checkpoint_dir: this.folders.checkpoint_dir,
                checkpoint_every: this.folders.checkpoint_every,
                keep: this.folders.keep,
                ..CheckpointArgs::default()
            },
            evaluation: this.evaluation,
            run: RunArgs {
                runs_dir: this.folders.runs_dir,
                ..RunArgs::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Verb};
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn what_was_typed_reaches_the_settings_of_train() {
        let line = "voxmill validate --config c.yaml --num-workers 12 --keep 9 --json --fix";
        let Verb::Validate(args) = Cli::try_parse_from(line.split(' ')).unwrap().verb else {
            panic!("another verb")
        };
        assert!(args.mending.json && args.mending.fix);
        let train = args.of_train();
        assert_eq!(train.work.num_workers, Some(12));
        assert_eq!(train.checkpoints.keep.map(usize::from), Some(9));
        assert!(Cli::try_parse_from(["voxmill", "validate", "--fix"]).is_err());
    }

    #[test]
    fn its_help_is_its_own() {
        let mut cli = Cli::command();
        let validate = cli.find_subcommand_mut("validate").unwrap();
        let help = validate.render_help().to_string();
        assert!(help.contains("Three levels"), "{help}");
        assert!(!help.contains("--resume"), "{help}");
    }
}
