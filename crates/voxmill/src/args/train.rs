//! What `train` takes beside the data's flags: model, device, length, optimisation, checkpoints.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::{AudioArgs, BatchArgs, CacheArgs, ConfigArgs, DatasetArgs, FrontEndArgs, WorkArgs, of};
use crate::config::keys;
use crate::settings::{DeviceName, ModelSize, OptimizationLevel, PreparePlace};

const AFTER_HELP: &str = "\
Optimization levels (each gives defaults; a flag or key of its own beats them):
  basic            warm-up, then a constant rate; no averaging of weights
  enhanced         the default: AdamW 0.9/0.98, weight decay 1e-4, gradients clipped to 1.0,
                   warm-up, cosine down to 3 % of the peak, averaged weights (EMA 0.999)
  experimental     enhanced with 1.5 times the rate and gradients clipped to 0.5
  plateau_breaker  enhanced, but the cosine runs four times, each from the peak again

Peak rate and warm-up go with the size: 2e-3 after 50 steps (nano, tiny), 1e-3 after 500 (small),
5e-4 after 2000 (base, big); warm-up never takes more than a tenth of --max-steps by itself.

Examples:
  voxmill train                                     the tiny voice on the built-in corpus, 9 minutes
  voxmill train --train-data ~/LJSpeech-1.1         a dataset of your own
  voxmill train --config my.yaml --max-minutes 60   settings from a file, one hour
  voxmill train --resume                            go on with the newest run
  voxmill train --init-from runs/a --train-data D   go on from another voice's weights

Exit: 0 done, 1 failed, 130 interrupted (a checkpoint is saved; --resume goes on from it)";

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainArgs {
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
    pub(crate) work: WorkArgs,
    #[command(flatten)]
    pub(crate) feed: FeedArgs,
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) length: LengthArgs,
    #[command(flatten)]
    pub(crate) optimization: OptimizationArgs,
    #[command(flatten)]
    pub(crate) checkpoints: CheckpointArgs,
    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Feeding the model")]
pub(crate) struct FeedArgs {
    /// Threads that the model computes with [default: the cores that the workers leave]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::COMPUTE_THREADS))]
    pub(crate) compute_threads: Option<usize>,
    /// Batches made ahead in memory, within --ram-budget [default: 50]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::BUFFER_SIZE))]
    pub(crate) buffer_size: Option<usize>,
    /// Batches ahead on the device [default: 64 / batch size, from 2 (two devices: 3) to 8]
    #[arg(long, value_name = "N", value_parser = of::<usize>(&keys::PREFETCH_BUFFER_SIZE))]
    pub(crate) prefetch_buffer_size: Option<usize>,
    /// The longest wait for full buffers before the first step [default: 2.0]
    #[arg(long, value_name = "SECONDS", value_parser = of::<f64>(&keys::MODEL_START_DELAY))]
    pub(crate) model_start_delay: Option<f64>,
    /// Pad batches to a few shapes, at most --buckets of them: always so
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ENABLE_STATIC_SHAPES))]
    pub(crate) enable_static_shapes: Option<bool>,
    /// Refused: more --buckets pad less
    #[arg(long)]
    pub(crate) disable_static_shapes: bool,
    /// Read and write no cache: features stay in memory as far as they fit, else they are made anew
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ENABLE_CACHING))]
    pub(crate) no_cache: Option<bool>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DeviceArgs {
    /// auto, cpu, wgpu, vulkan, metal, cuda or rocm, a GPU with or without its number (vulkan:0) [default: auto]
    #[arg(long, value_name = "DEVICE", value_parser = of::<DeviceName>(&keys::DEVICE))]
    pub(crate) device: Option<DeviceName>,
    /// The GPU that prepares batches, or auto; needs --model-gpu
    #[arg(long, value_name = "N", value_parser = of::<String>(&keys::DATA_GPU))]
    pub(crate) data_gpu: Option<String>,
    /// The GPU that trains, or auto; needs --data-gpu
    #[arg(long, value_name = "N", value_parser = of::<String>(&keys::MODEL_GPU))]
    pub(crate) model_gpu: Option<String>,
    /// The device that prepares batches; needs --model-device
    #[arg(long, value_name = "DEVICE", value_parser = of::<DeviceName>(&keys::DATA_DEVICE))]
    pub(crate) data_device: Option<DeviceName>,
    /// The device that trains; needs --data-device
    #[arg(long, value_name = "DEVICE", value_parser = of::<DeviceName>(&keys::MODEL_DEVICE))]
    pub(crate) model_device: Option<DeviceName>,
    /// Where sound becomes log-mel frames: host (the workers and the cache), data or model (on that device), or auto, which is host with one device and measured with two [default: auto]
    #[arg(long, value_name = "WHERE", value_parser = of::<PreparePlace>(&keys::PREPARE_ON))]
    pub(crate) prepare_on: Option<PreparePlace>,
    /// Play references louder or softer by up to so much [default: 0]
    #[arg(long, value_name = "DB", value_parser = of::<f64>(&keys::AUGMENT_GAIN_DB))]
    pub(crate) augment_gain_db: Option<f64>,
    /// Add noise to references, at least so far below the voice [default: none]
    #[arg(long, value_name = "DB", value_parser = of::<f64>(&keys::AUGMENT_NOISE_DB))]
    pub(crate) augment_noise_db: Option<f64>,
    /// Blank so many stretches of time and of channels in references [default: 0]
    #[arg(long, value_name = "N", value_parser = of::<u32>(&keys::AUGMENT_MASKS))]
    pub(crate) augment_masks: Option<u32>,
    /// Memory to use of the GPU that prepares batches
    #[arg(long, value_name = "SIZE", value_parser = of::<u64>(&keys::DATA_GPU_MEMORY))]
    pub(crate) data_gpu_memory: Option<u64>,
    /// Memory to use of the GPU that trains
    #[arg(long, value_name = "SIZE", value_parser = of::<u64>(&keys::MODEL_GPU_MEMORY))]
    pub(crate) model_gpu_memory: Option<u64>,
    /// Hold both GPUs to their memory limits
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ENABLE_MEMORY_ISOLATION))]
    pub(crate) enable_memory_isolation: Option<bool>,
    /// Compute in bf16 or f16 with 32-bit weights, on a GPU that has either
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::MIXED_PRECISION))]
    pub(crate) mixed_precision: Option<bool>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// tiny, small, base (or normal), big; nano is for tests [default: tiny]
    #[arg(long, value_name = "SIZE", value_parser = of::<ModelSize>(&keys::SIZE))]
    pub(crate) model_size: Option<ModelSize>,
    /// Save memory by computing activations twice
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ENABLE_GRADIENT_CHECKPOINTING))]
    pub(crate) enable_gradient_checkpointing: Option<bool>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Length (what is reached first ends the run)")]
pub(crate) struct LengthArgs {
    /// Stop after this many times through the data
    #[arg(long, value_name = "N", value_parser = of::<u64>(&keys::EPOCHS))]
    pub(crate) epochs: Option<u64>,
    /// Stop after this many steps [default where no length is given: 20000 for nano and tiny, 100000 for small, 200000 for base, 300000 for big]
    #[arg(long, value_name = "N", value_parser = of::<u64>(&keys::MAX_STEPS))]
    pub(crate) max_steps: Option<u64>,
    /// Stop after this many minutes [default where no length is given: 9 on the built-in corpus]
    #[arg(long, value_name = "MINUTES", value_parser = of::<f64>(&keys::MAX_MINUTES))]
    pub(crate) max_minutes: Option<f64>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Optimization")]
pub(crate) struct OptimizationArgs {
    /// basic, enhanced, experimental or plateau_breaker: see below [default: enhanced]
    #[arg(long, value_name = "LEVEL", value_parser = of::<OptimizationLevel>(&keys::OPTIMIZATION_LEVEL))]
    pub(crate) optimization_level: Option<OptimizationLevel>,
    /// The highest learning rate [default: by size and level]
    #[arg(long, alias = "learning-rate", value_name = "RATE", value_parser = of::<f64>(&keys::LEARNING_RATE))]
    pub(crate) lr: Option<f64>,
    /// Steps in which the rate rises to its highest [default: by size]
    #[arg(long, value_name = "N", value_parser = of::<u64>(&keys::WARMUP_STEPS))]
    pub(crate) warmup_steps: Option<u64>,
    /// How strongly weights are pulled to zero [default: 1e-4]
    #[arg(long, value_name = "X", value_parser = of::<f64>(&keys::WEIGHT_DECAY))]
    pub(crate) weight_decay: Option<f64>,
    /// Scale gradients down to this norm, all together [default: 1.0; experimental: 0.5]
    #[arg(long, value_name = "NORM", value_parser = of::<f64>(&keys::GRADIENT_CLIP_NORM))]
    pub(crate) gradient_clip_norm: Option<f64>,
    /// Batches whose gradients make one step [default: 1]
    #[arg(long, alias = "gradient-accumulation-steps", value_name = "N", value_parser = of::<NonZero<u32>>(&keys::GRADIENT_ACCUMULATION_STEPS))]
    pub(crate) grad_accum: Option<NonZero<u32>>,
    /// How slowly the averaged weights follow; 0 turns averaging off [default: 0.999; basic: 0]
    #[arg(long, value_name = "X", value_parser = of::<f64>(&keys::EMA_DECAY))]
    pub(crate) ema_decay: Option<f64>,
    /// Stop when more steps than this were passed over because a number was not finite [default: 20]
    #[arg(long, value_name = "N", value_parser = of::<u64>(&keys::MAX_BAD_STEPS))]
    pub(crate) max_bad_steps: Option<u64>,
    /// Control experiment: deal the texts out among the clips anew, so that there is nothing to learn
    #[arg(long, hide = true)]
    pub(crate) shuffle_texts: bool,
    /// For measuring: take all batches of the run into memory and stop the workers before the first step
    #[arg(long, hide = true)]
    pub(crate) replay: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Checkpoints")]
pub(crate) struct CheckpointArgs {
    /// Begin with the weights of this run or checkpoint; new speakers and symbols are added
    #[arg(long, value_name = "CHECKPOINT", value_parser = of::<PathBuf>(&keys::INIT_FROM))]
    pub(crate) init_from: Option<PathBuf>,
    /// Go on with this run or checkpoint, or with the newest run
    #[arg(long, value_name = "RUN", num_args = 0..=1, value_parser = of::<PathBuf>(&keys::RESUME))]
    pub(crate) resume: Option<Option<PathBuf>>,
    /// Start at step 0 although --checkpoint-dir or --run-dir holds checkpoints: they are replaced
    #[arg(long)]
    pub(crate) reset_training: bool,
    /// Where checkpoints go [default: checkpoints in the run's folder]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::CHECKPOINT_DIR))]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Steps from one checkpoint to the next [default: 250 for nano and tiny, 1000 for larger ones]
    #[arg(long, value_name = "STEPS", value_parser = of::<NonZero<u64>>(&keys::CHECKPOINT_EVERY))]
    pub(crate) checkpoint_every: Option<NonZero<u64>>,
    /// How many of the last checkpoints to keep, beside the best [default: 3]
    #[arg(long, value_name = "N", value_parser = of::<NonZero<usize>>(&keys::KEEP))]
    pub(crate) keep: Option<NonZero<usize>>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Evaluation")]
pub(crate) struct EvaluationArgs {
    /// Measure the loss on the held-out clips: on unless turned off
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = of::<bool>(&keys::ENABLE_EVALUATION))]
    pub(crate) enable_evaluation: Option<bool>,
    /// Never measure the loss on the held-out clips
    #[arg(long)]
    pub(crate) no_evaluation: bool,
    /// Steps from one evaluation to the next [default: 250 for nano and tiny, 1000 for larger ones]
    #[arg(long, value_name = "STEPS", value_parser = of::<NonZero<u64>>(&keys::EVALUATION_INTERVAL))]
    pub(crate) evaluation_interval: Option<NonZero<u64>>,
    /// Stop when this many evaluations in a row brought nothing better [default: off]
    #[arg(long, value_name = "N", value_parser = of::<u32>(&keys::EARLY_STOPPING_PATIENCE))]
    pub(crate) early_stopping_patience: Option<u32>,
    /// Steps from one spoken sample to the next; 0 for none [default: 500 for nano and tiny, 2000 for larger ones]
    #[arg(long, value_name = "STEPS", value_parser = of::<u64>(&keys::SAMPLE_EVERY))]
    pub(crate) sample_every: Option<u64>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Run and output")]
pub(crate) struct RunArgs {
    /// The folder of this run [default: a new one in --runs-dir]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::RUN_DIR))]
    pub(crate) run_dir: Option<PathBuf>,
    /// Where runs are kept, each in a folder <time>-<name> [default: runs]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::RUNS_DIR))]
    pub(crate) runs_dir: Option<PathBuf>,
    /// The name of this run [default: the dataset's and the size]
    #[arg(long, value_name = "NAME", value_parser = of::<String>(&keys::NAME))]
    pub(crate) name: Option<String>,
    /// Where TensorBoard's files go [default: the run's folder]
    #[arg(long, value_name = "DIR", value_parser = of::<PathBuf>(&keys::TENSORBOARD_LOG_DIR))]
    pub(crate) tensorboard_log_dir: Option<PathBuf>,
    /// Steps from one look at the loss to the next [default: 10]
    #[arg(long, value_name = "STEPS", value_parser = of::<NonZero<u64>>(&keys::LOG_EVERY))]
    pub(crate) log_every: Option<NonZero<u64>>,
    /// Show curves and buffers while it runs [default: where standard error is a terminal]
    #[arg(long)]
    pub(crate) dashboard: bool,
    /// Plain lines instead of the dashboard
    #[arg(long)]
    pub(crate) no_dashboard: bool,
    /// At the end, write every single step to this file (the newest 2 million), for a viewer such as Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        train: TrainArgs,
    }

    fn parse(args: &[&str]) -> Result<TrainArgs, clap::Error> {
        let args = ["train"].iter().chain(args);
        Alone::try_parse_from(args).map(|alone| alone.train)
    }

    #[test]
    fn every_flag_of_the_earlier_trainer_is_taken() {
        Alone::command().debug_assert();
        let line = "--train-data d --val-data v --config c --model-size normal --batch-size 8 --epochs 3 --max-steps 9 \
            --grad-accum 2 --num-workers 2 --buffer-size 50 --prefetch-buffer-size 8 --model-start-delay 2.0 \
            --enable-static-shapes --max-text-length 200 --max-mel-frames 900 --optimization-level plateau_breaker \
            --lr 8e-5 --seed 1 --reset-training --checkpoint-dir c --tensorboard-log-dir t --enable-evaluation \
            --evaluation-interval 50 --data-gpu 0 --model-gpu auto --disable-static-shapes --data-gpu-memory 8GB \
            --model-gpu-memory 16GB --enable-memory-isolation --mixed-precision";
        let args = parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(args.model.model_size, Some(ModelSize::Base));
        assert_eq!(args.optimization.lr, Some(8e-5));
        assert_eq!(args.devices.model_gpu.as_deref(), Some("auto"));
    }

    #[test]
    fn resume_takes_a_run_or_none() {
        assert_eq!(parse(&[]).unwrap().checkpoints.resume, None);
        let newest = parse(&["--resume", "--lr", "1e-3"]).unwrap();
        assert_eq!(newest.checkpoints.resume, Some(None));
        let this = parse(&["--resume", "runs/a"]).unwrap();
        assert_eq!(this.checkpoints.resume, Some(Some("runs/a".into())));
    }

    #[test]
    fn what_is_out_of_range_is_refused_in_words() {
        let refused = |args: &[&str]| parse(args).unwrap_err().to_string();
        let sizes = refused(&["--model-size", "huge"]);
        assert!(
            sizes.contains("one of nano, tiny, small, base, normal, big"),
            "{sizes}"
        );
        let rate = refused(&["--lr", "3"]);
        assert!(rate.contains("a number from 0.000000001 to 1"), "{rate}");
        let device = refused(&["--device", "gpu"]);
        assert!(device.contains("auto, cpu, or one of wgpu"), "{device}");
        // They are of `prepare`.
        assert!(parse(&["--gc"]).is_err() && parse(&["--verify"]).is_err());
    }

    #[test]
    fn the_help_says_what_the_levels_do_and_gives_examples() {
        let help = Alone::command().render_help().to_string();
        for words in [
            "Optimization levels",
            "Examples:",
            "Checkpoints:",
            "--init-from",
        ] {
            assert!(help.contains(words), "{words}");
        }
        assert!(
            !help.contains("--shuffle-texts"),
            "a control experiment is no feature"
        );
    }
}
