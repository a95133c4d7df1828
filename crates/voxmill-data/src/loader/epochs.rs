//! Which rows form which batch: the plan of every epoch, one after the other, as one rank sees it.
//!
//! Rows and batches are numbered through all epochs. In a run of one rank every clip of the plan is in
//! one row of each epoch, so a number gives its epoch by division. With several ranks an epoch has as
//! many rows for each as its batches happen to have; those are counted from where the rank started.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::batch_plan::{BatchPlan, EpochPlan, PlannedBatch, PlannedRow, Position, Rank, Shape};
use crate::store::lock;

/// Epochs that are kept: those in which rows begin and batches end, and their neighbours.
const RECENT: usize = 4;

#[derive(Debug)]
pub(super) struct Epochs {
    plan: Arc<BatchPlan>,
    rank: Rank,
    /// Where ranks begin to take turns; number 0 is here. The start of the plan for one rank.
    from: Position,
    recent: Mutex<VecDeque<Arc<Epoch>>>,
    /// With several ranks: this rank's rows before the epoch `from.epoch + index`.
    rows_before: Mutex<Vec<u64>>,
}

#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) plan: EpochPlan,
    /// This rank's batches: every `world`-th from here on.
    first_batch: u64,
    rank: Rank,
    /// The first row of each of this rank's batches, counted within the epoch.
    firsts: Vec<u64>,
    rows: u64,
}

/// A row of a batch, as the plan has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedRow {
    /// `None` in a batch without clips, which fills up the last round of the ranks.
    pub(super) row: Option<PlannedRow>,
    pub(super) position: Position,
    pub(super) shape: Shape,
    /// Rows of the batch that are not masked by the plan.
    pub(super) planned_rows: u32,
}

impl Epochs {
    /// All batches of the plan.
    pub(super) fn new(plan: Arc<BatchPlan>) -> Epochs {
        Epochs::of_rank(plan, Rank::ONLY, Position::default())
    }

    /// Every `world`-th batch from a position on.
    pub(super) fn of_rank(plan: Arc<BatchPlan>, rank: Rank, from: Position) -> Epochs {
        Epochs {
            plan,
            from: match rank == Rank::ONLY {
                true => Position::default(),
                false => from,
            },
            rank,
            recent: Mutex::default(),
            rows_before: Mutex::new(vec![0]),
        }
    }

    fn world(&self) -> u64 {
        u64::from(self.rank.world)
    }

    fn first_batch(&self, epoch: u64) -> u64 {
        match epoch == self.from.epoch {
            true => self.from.batch,
            false => 0,
        }
    }

    /// The round of all ranks, within its epoch, that a position is in.
    fn round_of(&self, position: Position) -> u64 {
        (position.batch - self.first_batch(position.epoch)) / self.world()
    }

    fn rounds_in(&self, epoch: u64) -> u64 {
        let left = self.plan.batches_per_epoch() - self.first_batch(epoch);
        left.div_ceil(self.world())
    }

    /// The batch's number through all epochs: as many of this rank's are before it.
    pub(super) fn batches_before(&self, position: Position) -> u64 {
        let round = self.round_of(position);
        match position.epoch - self.from.epoch {
            0 => round,
            later => {
                let whole = self.rounds_in(position.epoch);
                self.rounds_in(self.from.epoch) + (later - 1) * whole + round
            }
        }
    }

    pub(super) fn position(&self, batches: u64) -> Position {
        let Position { epoch, batch } = self.from;
        let (epoch, batch) = match batches.checked_sub(self.rounds_in(epoch)) {
            None => (epoch, batch + batches * self.world()),
            Some(later) => {
                let whole = self.rounds_in(epoch + 1);
                (epoch + 1 + later / whole, later % whole * self.world())
            }
        };
        Position { epoch, batch }
    }

    /// The first row of a batch, both numbered through all epochs.
    pub(super) fn first_row(&self, batch: u64) -> u64 {
        let position = self.position(batch);
        let epoch = self.epoch(position.epoch);
        self.rows_before(position.epoch) + epoch.firsts[self.round_of(position) as usize]
    }

    pub(super) fn row(&self, number: u64) -> PlacedRow {
        let epoch = self.epoch(self.epoch_of(number));
        let within = number - self.rows_before(epoch.plan.epoch);
        let round = epoch.firsts.partition_point(|&first| first <= within) - 1;
        let planned = epoch.batch(round);
        let at = (within - epoch.firsts[round]) as usize;
        PlacedRow {
            row: planned.rows.get(at).copied(),
            position: Position {
                epoch: epoch.plan.epoch,
                batch: epoch.first_batch + round as u64 * self.world(),
            },
            shape: epoch.plan.shape(planned),
            planned_rows: planned.rows.len() as u32,
        }
    }

    /// The epoch that a row is in.
    pub(super) fn epoch_of(&self, number: u64) -> u64 {
        if self.rank == Rank::ONLY {
            return number / self.plan.clips().len() as u64;
        }
        let mut before = lock(&self.rows_before);
        while before.last().is_some_and(|&rows| rows <= number) {
            self.count_epoch(&mut before);
        }
        self.from.epoch + before.partition_point(|&rows| rows <= number) as u64 - 1
    }

    fn rows_before(&self, epoch: u64) -> u64 {
        if self.rank == Rank::ONLY {
            return epoch * self.plan.clips().len() as u64;
        }
        let index = (epoch - self.from.epoch) as usize;
        let mut before = lock(&self.rows_before);
        while before.len() <= index {
            self.count_epoch(&mut before);
        }
        before[index]
    }

    fn count_epoch(&self, before: &mut Vec<u64>) {
        let epoch = self.epoch(self.from.epoch + before.len() as u64 - 1);
        let so_far = before.last().copied().unwrap_or(0);
        before.push(so_far + epoch.rows);
    }

    /// Planned when first asked for.
    pub(super) fn epoch(&self, epoch: u64) -> Arc<Epoch> {
        let mut recent = lock(&self.recent);
        if let Some(known) = recent.iter().find(|known| known.plan.epoch == epoch) {
            return Arc::clone(known);
        }
        let mut planned = Epoch {
            plan: self.plan.epoch(epoch),
            first_batch: self.first_batch(epoch),
            rank: self.rank,
            firsts: Vec::new(),
            rows: 0,
        };
        for round in 0..self.rounds_in(epoch) {
            planned.firsts.push(planned.rows);
            // A batch without clips takes a number too, or nothing would come out for it.
            planned.rows += planned.batch(round as usize).rows.len().max(1) as u64;
        }
        let planned = Arc::new(planned);
        recent.push_back(Arc::clone(&planned));
        if recent.len() > RECENT {
            recent.pop_front();
        }
        planned
    }
}

impl Epoch {
    /// This rank's batch of a round.
    fn batch(&self, round: usize) -> &PlannedBatch {
        let begins = self.first_batch as usize + round * self.rank.world as usize;
        let own = self.plan.batches.get(begins + self.rank.number as usize);
        own.unwrap_or(self.plan.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_plan::{BatchSettings, PlanClip};

    fn plan() -> Arc<BatchPlan> {
        let clips = (0..23).map(|number| PlanClip {
            id: format!("c{number}"),
            frames: 10 + number * 7,
            tokens: 5 + number,
            speaker: 0,
        });
        let settings = BatchSettings {
            batch_size: 4.try_into().unwrap(),
            ..BatchSettings::default()
        };
        Arc::new(BatchPlan::new(clips.collect(), settings).unwrap())
    }

    #[test]
    fn rows_and_batches_are_numbered_through_all_epochs() {
        let plan = plan();
        let epochs = Epochs::new(Arc::clone(&plan));
        let mut row = 0;
        for epoch in 0..7 {
            let planned = plan.epoch(epoch);
            for (position, batch) in planned.batches_from(Position::default(), Rank::ONLY) {
                let number = epochs.batches_before(position);
                assert_eq!(epochs.position(number), position);
                assert_eq!(epochs.first_row(number), row);
                for planned in &batch.rows {
                    let placed = epochs.row(row);
                    assert_eq!((placed.row, placed.position), (Some(*planned), position));
                    row += 1;
                }
            }
            assert_eq!(epochs.epoch_of(row), epoch + 1);
        }
    }

    /// A rank's numbers say what the plan's own walk over its batches says, from any position.
    #[test]
    fn ranks_take_turns_from_where_they_start() {
        let plan = plan();
        for (world, (epoch, batch)) in [(2, (0, 0)), (3, (1, 2)), (4, (2, 5))] {
            let from = Position { epoch, batch };
            for rank in 0..world {
                let rank = Rank::new(rank, world).unwrap();
                let epochs = Epochs::of_rank(Arc::clone(&plan), rank, from);
                let (mut number, mut row) = (0, 0);
                for epoch in from.epoch..from.epoch + 4 {
                    for (position, batch) in plan.epoch(epoch).batches_from(from, rank) {
                        assert_eq!(epochs.position(number), position);
                        assert_eq!(epochs.batches_before(position), number);
                        assert_eq!(epochs.first_row(number), row);
                        let rows = batch.rows.iter().copied().map(Some);
                        let masked = batch.rows.is_empty().then_some(None);
                        for planned in rows.chain(masked) {
                            let placed = epochs.row(row);
                            assert_eq!((placed.row, placed.position), (planned, position));
                            assert_eq!(epochs.epoch_of(row), epoch);
                            row += 1;
                        }
                        number += 1;
                    }
                }
            }
        }
    }
}
