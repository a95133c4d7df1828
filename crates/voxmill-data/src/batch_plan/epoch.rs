//! One epoch's batches, in order, and the ways to walk them: from a position, by a rank.

use serde::{Deserialize, Serialize};

use super::{BatchPlan, Reference, Shape};
use crate::draw::draw;

/// The batches of an epoch in the order of training.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRow {
    /// Number of the clip.
    pub clip: usize,
    pub reference: Reference,
}

/// The next batch to train on, counted over all ranks: a checkpoint of two ranks can be
/// continued on one or three.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Position {
    pub epoch: u64,
    pub batch: u64,
}

/// Rank r of n takes every n-th batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    rank: u32,
    world: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} is not one of {world} (ranks count from 0)")]
pub struct ShardError {
    pub rank: u32,
    pub world: u32,
}

impl Shard {
    /// One process alone.
    pub const WHOLE: Shard = Shard { rank: 0, world: 1 };

    pub fn new(rank: u32, world: u32) -> Result<Self, ShardError> {
        if rank < world {
            Ok(Self { rank, world })
        } else {
            Err(ShardError { rank, world })
        }
    }

    pub fn rank(self) -> u32 {
        self.rank
    }

    pub fn world(self) -> u32 {
        self.world
    }
}

impl BatchPlan {
    /// Shuffles clips within their buckets, cuts them into batches and shuffles those.
    ///
    /// A clip's place is decided by its own draws. Costs four hashes a clip.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let drawn =
            |clip: usize, purpose| draw(self.settings.seed, epoch, &self.clips[clip].id, purpose);
        let mut keyed = Vec::with_capacity(self.batches_per_epoch() as usize);
        for (shape, bucket) in self.buckets.iter().enumerate() {
            let mut clips: Vec<_> = bucket
                .clips
                .iter()
                .map(|&clip| (drawn(clip, "clip order"), clip))
                .collect();
            clips.sort_unstable();
            for members in clips.chunks(bucket.shape.rows as usize) {
                let first = members[0].1;
                let rows = members
                    .iter()
                    .map(|&(_, clip)| PlannedRow {
                        clip,
                        reference: self.reference(epoch, clip),
                    })
                    .collect();
                keyed.push((
                    (drawn(first, "batch order"), first),
                    PlannedBatch { shape, rows },
                ));
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

    pub fn shape(&self, batch: &PlannedBatch) -> Shape {
        self.shapes[batch.shape]
    }

    /// A rank's batches from `start` on, each with the position of its round, which is the same
    /// on all ranks. All ranks get equally many: the last round is filled with masked batches.
    ///
    /// A start in an earlier epoch yields all of this one, a start in a later epoch nothing.
    /// Ranks are dealt from `start`, so the number of ranks may change where a run continues.
    pub fn batches_from(
        &self,
        start: Position,
        shard: Shard,
    ) -> impl ExactSizeIterator<Item = (Position, &PlannedBatch)> {
        let start = match start.epoch.cmp(&self.epoch) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => (start.batch as usize).min(self.batches.len()),
            std::cmp::Ordering::Greater => self.batches.len(),
        };
        (start..self.batches.len())
            .step_by(shard.world as usize)
            .map(move |round| {
                let position = Position {
                    epoch: self.epoch,
                    batch: round as u64,
                };
                let mine = self.batches.get(round + shard.rank as usize);
                (position, mine.unwrap_or(&self.masked))
            })
    }

    /// The position after the round that begins at `position`.
    pub fn next(&self, position: Position, shard: Shard) -> Position {
        let batch = position.batch + u64::from(shard.world);
        if batch < self.batches.len() as u64 {
            Position { batch, ..position }
        } else {
            Position {
                epoch: position.epoch + 1,
                batch: 0,
            }
        }
    }
}
