//! What the verbs take that measure a training or a part of it: the flags of `train` up to the batches.

use clap::Args;

use super::train::{DeviceArgs, FeedArgs, ModelArgs};
use super::{
    AudioArgs, BatchArgs, CacheArgs, ConfigArgs, DatasetArgs, FrontEndArgs, TrainArgs, WorkArgs,
};

/// From a dataset to batches: what all verbs take that put the data road together.
#[derive(Debug, Default, Args)]
pub(crate) struct RoadArgs {
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
}

impl RoadArgs {
    /// A training on them that is only measured.
    pub(crate) fn measured(self, devices: DeviceArgs, model: ModelArgs) -> TrainArgs {
        let mut train = TrainArgs {
            config: self.config,
            dataset: self.dataset,
            text: self.text,
            audio: self.audio,
            batches: self.batches,
            cache: self.cache,
            work: self.work,
            feed: self.feed,
            devices,
            model,
            ..TrainArgs::default()
        };
        train.evaluation.no_evaluation = true;
        train
    }
}
