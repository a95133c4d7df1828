//! One epoch's batches, in order, and the ways to walk them: from a position, by a rank.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{BatchPlan, Reference, Shape};
use crate::draw::draw;

/// The batches of one epoch in the order of training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochPlan {
    pub epoch: u64,
    /// From the shortest to the longest; the same in every epoch.
    pub shapes: Vec<Shape>,
    pub batches: Vec<PlannedBatch>,
    /// Fills the last round of ranks that got no batch. It has the last batch's shape, which some
    /// rank is training on at that moment anyway.
    masked: PlannedBatch,
}

/// Rows up to the shape's that are not listed are masked; a batch without rows is all masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBatch {
    /// Number of the shape.
    pub shape: usize,
    pub rows: Vec<PlannedRow>,
}

/// A row of a batch: a clip, and where the style of its voice is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRow {
    /// Number of the clip.
    pub clip: usize,
    pub reference: Reference,
}

/// A place in the batch plan: where a batch is, and where a run resumes (the first batch that is not
/// done). `Position::default()` is the start.
///
/// It counts the batches of all ranks, so a run of two ranks can be resumed with one or three. A pipeline
/// counts the batches of its own rank instead; [`Loader`](crate::Loader) converts one into the other.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    pub epoch: u64,
    /// Within the epoch, from 0.
    pub batch: u64,
}

/// One of `world` processes that train together: it takes every `world`-th batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub(crate) number: u32,
    pub(crate) world: u32,
}

/// A number that no rank of so many has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {number} is not one of {world} (ranks count from 0)")]
pub struct RankError {
    pub number: u32,
    pub world: u32,
}

impl Rank {
    /// One process alone.
    pub const ONLY: Rank = Rank {
        number: 0,
        world: 1,
    };

    /// `number` counts from 0.
    pub fn new(number: u32, world: u32) -> Result<Rank, RankError> {
        match number < world {
            true => Ok(Rank { number, world }),
            false => Err(RankError { number, world }),
        }
    }
}

impl BatchPlan {
    /// Shuffles clips within their buckets, cuts them into batches and shuffles those.
    ///
    /// A clip's place is decided by its own draws. Costs four hashes a clip.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let seed = self.settings.seed;
        let drawn = |clip: usize, purpose| draw(seed, epoch, &self.clips[clip].id, purpose);
        let mut keyed = Vec::with_capacity(self.batches_per_epoch() as usize);
        for (shape, bucket) in self.buckets.iter().enumerate() {
            let mut clips = bucket.clips.clone();
            clips.sort_by_cached_key(|&clip| (drawn(clip, "clip order"), clip));
            for members in clips.chunks(bucket.shape.rows as usize) {
                let key = (drawn(members[0], "batch order"), members[0]);
                let rows = members.iter().map(|&clip| PlannedRow {
                    clip,
                    reference: self.reference(epoch, clip),
                });
                let rows = rows.collect();
                keyed.push((key, PlannedBatch { shape, rows }));
            }
        }
        keyed.sort_unstable_by_key(|(key, _)| *key);
        let batches: Vec<_> = keyed.into_iter().map(|(_, batch)| batch).collect();
        let last = batches.last().expect("a plan has at least one clip");
        EpochPlan {
            epoch,
            shapes: self.buckets.iter().map(|bucket| bucket.shape).collect(),
            masked: PlannedBatch {
                shape: last.shape,
                rows: Vec::new(),
            },
            batches,
        }
    }
}

impl EpochPlan {
    /// A batch without clips, for ranks that get none in the last round.
    pub fn masked(&self) -> &PlannedBatch {
        &self.masked
    }

    /// What the batch is padded to.
    pub fn shape(&self, batch: &PlannedBatch) -> Shape {
        self.shapes[batch.shape]
    }

    /// A rank's batches from `start` on, each with the position of its round, which is the same
    /// on all ranks. All ranks get equally many: the last round is filled with masked batches.
    ///
    /// A start in an earlier epoch yields all of this one, a start in a later epoch nothing.
    /// Ranks are dealt from `start`, so the number of ranks may change where a run resumes.
    pub fn batches_from(
        &self,
        start: Position,
        rank: Rank,
    ) -> impl ExactSizeIterator<Item = (Position, &PlannedBatch)> {
        let start = match start.epoch.cmp(&self.epoch) {
            Ordering::Less => 0,
            Ordering::Equal => (start.batch as usize).min(self.batches.len()),
            Ordering::Greater => self.batches.len(),
        };
        let rounds = (start..self.batches.len()).step_by(rank.world as usize);
        rounds.map(move |round| {
            let (epoch, batch) = (self.epoch, round as u64);
            let own = self.batches.get(round + rank.number as usize);
            (Position { epoch, batch }, own.unwrap_or(&self.masked))
        })
    }

    /// The position after the round that begins at `position`.
    pub fn next(&self, position: Position, rank: Rank) -> Position {
        let batch = position.batch + u64::from(rank.world);
        let (epoch, batch) = match batch < self.batches.len() as u64 {
            true => (position.epoch, batch),
            false => (position.epoch + 1, 0),
        };
        Position { epoch, batch }
    }
}
