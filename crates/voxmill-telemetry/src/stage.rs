//! The stages of a training run, written once for the code that builds them and the code that reads the log.
//!
//! A log may have others: the pipeline takes any name, and so do its events.

/// A stage of the loader, or a part of one, which is measured by itself and is in its stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageId {
    /// Computes the features of clips.
    Featurize,
    /// Parts of [`StageId::Featurize`].
    Read,
    Decode,
    Resample,
    Mel,
    /// Puts new features into the feature store.
    Keep,
    /// Groups clips into batches.
    Batch,
    /// Pads a batch's clips to its shape.
    Collate,
    /// Brings batches to the model device.
    Prepare,
}

impl StageId {
    /// What a clip's features take, part by part, in the order of the work.
    pub const PARTS: [StageId; 4] = [Self::Read, Self::Decode, Self::Resample, Self::Mel];

    /// As it stands in plans and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Featurize => "featurize",
            Self::Read => "featurize.read",
            Self::Decode => "featurize.decode",
            Self::Resample => "featurize.resample",
            Self::Mel => "featurize.mel",
            Self::Keep => "keep",
            Self::Batch => "batch",
            Self::Collate => "collate",
            Self::Prepare => "prepare",
        }
    }
}

impl PartialEq<StageId> for str {
    fn eq(&self, stage: &StageId) -> bool {
        self == stage.name()
    }
}

/// Whether a stage of this name is a part of another.
pub fn is_part(name: &str) -> bool {
    name.contains('.')
}
