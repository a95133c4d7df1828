//! The batch plan: which clip is in which batch, padded to which shape.
//!
//! A device that gets batches of ever new shapes spends its time on recompiling, re-tuning and
//! multiplying padding. So clips of like length go together, padded to one of a few shapes that
//! are chosen once from the lengths of all clips ([`BatchPlan::new`]); each epoch only reshuffles
//! ([`BatchPlan::epoch`]).
//!
//! All of it is a pure function of (clips, settings, epoch): lengths in, plain lists out.
//! Nothing depends on the order in which clips were listed, on workers, on ranks or on what the
//! cache holds, so a run can resume anywhere by its [`Position`]. Clips that are in
//! quarantine when an epoch begins are left out by the caller; one that fails in mid-epoch
//! becomes a masked row of the batch it was planned for, and the plan stands.

mod epoch;
#[cfg(test)]
mod properties;
mod reference;
mod shapes;
#[cfg(test)]
mod tests;
mod waste;

use std::num::{NonZeroU8, NonZeroU32};

pub use epoch::{EpochPlan, PlannedBatch, PlannedRow, Position, Rank, RankError};
pub use reference::Reference;
pub use shapes::{Bucket, Shape};
pub use waste::{Padded, PaddingWaste, least_padded_frames};

use reference::SpeakerClips;

use crate::draw::draw;

/// What the plan must know of a clip: from the manifest and the audio header, or the length after trimming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanClip {
    pub id: String,
    pub frames: u32,
    pub tokens: u32,
    /// Any number that clips of one speaker, and no others, share.
    pub speaker: u32,
}

/// How to batch. Every value that the types admit is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Clips of mean length in a batch; longer shapes hold fewer, shorter ones more. With
    /// `pad_to_fixed_length` simply the rows of a batch.
    pub batch_size: NonZeroU32,
    /// The most shapes that may be used. Fewer are, when one more would save less than half
    /// a batch an epoch.
    pub bucket_count: NonZeroU8,
    /// One shape for all, as long as the longest clip.
    pub pad_to_fixed_length: bool,
    /// Shapes are multiples of this many frames.
    pub frame_multiple: NonZeroU32,
    /// Shapes are multiples of this many tokens.
    pub token_multiple: NonZeroU32,
    /// Length of the crop of the reference clip.
    pub reference_frames: NonZeroU32,
    pub seed: u64,
    pub shape_choice: ShapeChoice,
}

/// How shapes are chosen. A run keeps the choice that it began with: its position counts the batches of one plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShapeChoice {
    /// As the first versions of this program chose. It may waste more than random batches where clips are few.
    Bucketed,
    /// The same, unless random batches waste less: then the fewest shapes that waste no more than those.
    #[default]
    NoWorseThanRandom,
}

impl ShapeChoice {
    /// As a checkpoint has it.
    pub fn number(self) -> u64 {
        match self {
            ShapeChoice::Bucketed => 1,
            ShapeChoice::NoWorseThanRandom => 2,
        }
    }

    /// Of a checkpoint's number; without one it is of a version that knew one choice.
    pub fn of_number(number: Option<u64>) -> ShapeChoice {
        match number {
            None | Some(1) => ShapeChoice::Bucketed,
            Some(_) => ShapeChoice::NoWorseThanRandom,
        }
    }
}

impl Default for BatchSettings {
    /// Multiples of 8 keep rows aligned for vector units and cost about 0.05 points of padding
    /// waste on LJ Speech lengths (16 cost 0.2); 129 frames are 1.5 s at 22,050 Hz and hop 256.
    fn default() -> Self {
        let at_least_1 = |n: u32| NonZeroU32::MIN.saturating_add(n - 1);
        Self {
            batch_size: at_least_1(16),
            bucket_count: NonZeroU8::MIN.saturating_add(7),
            pad_to_fixed_length: false,
            frame_multiple: at_least_1(8),
            token_multiple: at_least_1(8),
            reference_frames: at_least_1(129),
            seed: 0,
            shape_choice: ShapeChoice::default(),
        }
    }
}

impl BatchSettings {
    /// All but how shapes are chosen. Fingerprints in checkpoints are of these words: they must stay.
    fn words(&self) -> String {
        format!(
            "BatchSettings {{ batch_size: {}, bucket_count: {}, pad_to_fixed_length: {}, frame_multiple: {}, \
             token_multiple: {}, reference_frames: {}, seed: {} }}",
            self.batch_size,
            self.bucket_count,
            self.pad_to_fixed_length,
            self.frame_multiple,
            self.token_multiple,
            self.reference_frames,
            self.seed
        )
    }
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchPlanError {
    #[error("there are no clips to plan batches for")]
    NoClips,
    #[error("clip `{0}` is listed twice")]
    DuplicateClip(String),
    #[error("clip `{0}` has no audio frames")]
    NoFrames(String),
    #[error("clip `{0}` has no text tokens")]
    NoTokens(String),
    #[error("clip `{0}` is too long: its length does not fit in 32 bits once rounded up")]
    TooLong(String),
}

/// All that stays the same from epoch to epoch: the clips, their buckets and their speakers.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    settings: BatchSettings,
    clips: Vec<PlanClip>,
    buckets: Vec<Bucket>,
    speakers: SpeakerClips,
}

impl BatchPlan {
    /// Chooses the shapes. Costs a sort and some milliseconds for 100,000 clips.
    pub fn new(mut clips: Vec<PlanClip>, settings: BatchSettings) -> Result<Self, BatchPlanError> {
        clips.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        check(&clips, &settings)?;
        let buckets = shapes::buckets(&clips, &settings);
        let speakers = SpeakerClips::new(&clips);
        Ok(Self {
            settings,
            clips,
            buckets,
            speakers,
        })
    }

    /// The clips in the order of their ids. Clip numbers anywhere in the plan index this list.
    pub fn clips(&self) -> &[PlanClip] {
        &self.clips
    }

    /// What it was made with.
    pub fn settings(&self) -> &BatchSettings {
        &self.settings
    }

    /// Which clips are in which batch, in 16 hexadecimal digits: equal where clips and settings are, whichever
    /// way the shapes were chosen.
    pub fn fingerprint(&self) -> String {
        let mut hash = 0u64;
        for clip in &self.clips {
            let lengths = u64::from(clip.frames) << 32 | u64::from(clip.tokens);
            hash = draw(hash, lengths, &clip.id, "plan");
        }
        let s = &self.settings;
        let hash = draw(hash, 0, &s.words(), "plan");
        let first = match s.shape_choice {
            ShapeChoice::Bucketed => true,
            ShapeChoice::NoWorseThanRandom => {
                let shape_choice = ShapeChoice::Bucketed;
                let as_first = BatchSettings { shape_choice, ..*s };
                self.buckets == shapes::buckets(&self.clips, &as_first)
            }
        };
        let hash = if first {
            hash
        } else {
            draw(hash, 0, "no worse than random", "plan")
        };
        format!("{hash:016x}")
    }

    /// From the shortest shape to the longest. Shape numbers anywhere in the plan index this list.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The same in every epoch.
    pub fn batches_per_epoch(&self) -> u64 {
        self.buckets.iter().map(Bucket::batches).sum()
    }
}

fn check(sorted: &[PlanClip], settings: &BatchSettings) -> Result<(), BatchPlanError> {
    if sorted.is_empty() {
        return Err(BatchPlanError::NoClips);
    }
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(BatchPlanError::DuplicateClip(pair[0].id.clone()));
    }
    let fits = |n: u32, multiple: NonZeroU32| n.checked_next_multiple_of(multiple.get()).is_some();
    for clip in sorted {
        let id = || clip.id.clone();
        if clip.frames == 0 {
            return Err(BatchPlanError::NoFrames(id()));
        } else if clip.tokens == 0 {
            return Err(BatchPlanError::NoTokens(id()));
        } else if !fits(clip.frames, settings.frame_multiple)
            || !fits(clip.tokens, settings.token_multiple)
        {
            return Err(BatchPlanError::TooLong(id()));
        }
    }
    Ok(())
}
