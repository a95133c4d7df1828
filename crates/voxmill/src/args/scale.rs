//! What `scale` takes: the sizes, and what `train` takes of data, model and devices.

use std::num::NonZero;

use clap::Args;

use super::of;
use super::road::RoadArgs;
use super::train::{DeviceArgs, ModelArgs};
use crate::config::keys;

const AFTER_HELP: &str = "\
Each size is a short training run in a process of its own: one that runs out of memory is a row with its
reason, not the end. Its files are temporary; the cache of features is the dataset's own.

Examples:
  voxmill scale --train-data D                           batch sizes that suit the model's size
  voxmill scale --train-data D --batch-sizes 8,16,32,64
  voxmill scale --train-data D --workers 1,2,4           does a larger number feed the model better?
  voxmill scale --config my.yaml --prefetch 1,2,4 --json

Exit: 0 measured, 1 no size ran, 130 interrupted (what was measured is printed)";

#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    #[command(flatten)]
    pub(crate) road: RoadArgs,
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Print the result as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// One of the three lists. [`crate::settings::ScaleSettings`] knows these flags by name.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sizes (one of the lists)")]
pub(crate) struct SweepArgs {
    /// Batch sizes [default: by model size: 16,24,32 for tiny, 4,8,12 for big]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with_all = ["workers", "prefetch"], value_parser = of::<NonZero<u32>>(&keys::BATCH_SIZE))]
    pub(crate) batch_sizes: Vec<NonZero<u32>>,
    /// Numbers of threads that make features, with the batch size as it is
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with = "prefetch", value_parser = of::<usize>(&keys::NUM_WORKERS))]
    pub(crate) workers: Vec<usize>,
    /// Numbers of batches ahead on the device
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = of::<usize>(&keys::PREFETCH_BUFFER_SIZE))]
    pub(crate) prefetch: Vec<usize>,
    /// Steps of each size that are measured, after 3 to warm up
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=100_000))]
    pub(crate) num_steps: u64,
}
