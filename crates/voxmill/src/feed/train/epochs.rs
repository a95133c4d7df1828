//! Which rows of the road make which batch: the plan of every epoch, one after the other.
//!
//! Every clip of the plan is in one row of each epoch. So rows and batches can be numbered through all
//! epochs, and a number says its epoch by division.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use voxmill_speech::batch_plan::{BatchPlan, EpochPlan, PlannedRow, Position, Shape};

/// Epochs that are kept: those in which rows begin and batches end, and their neighbours.
const RECENT: usize = 4;

#[derive(Debug)]
pub(super) struct Epochs {
    plan: Arc<BatchPlan>,
    recent: Mutex<VecDeque<Arc<Epoch>>>,
}

#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) plan: EpochPlan,
    /// The first row of each batch, counted within the epoch.
    firsts: Vec<u64>,
}

/// A row of a batch, as the plan has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedRow {
    pub(super) row: PlannedRow,
    pub(super) position: Position,
    pub(super) shape: Shape,
    /// Rows of the batch that are not masked by the plan.
    pub(super) planned_rows: u32,
}

impl Epochs {
    pub(super) fn new(plan: Arc<BatchPlan>) -> Epochs {
        Epochs {
            plan,
            recent: Mutex::default(),
        }
    }

    fn rows_per_epoch(&self) -> u64 {
        self.plan.clips().len() as u64
    }

    /// The batch's number through all epochs: as many are before it.
    pub(super) fn batches_before(&self, position: Position) -> u64 {
        position.epoch * self.plan.batches_per_epoch() + position.batch
    }

    pub(super) fn position(&self, batches: u64) -> Position {
        Position {
            epoch: batches / self.plan.batches_per_epoch(),
            batch: batches % self.plan.batches_per_epoch(),
        }
    }

    /// The first row of a batch, both numbered through all epochs.
    pub(super) fn first_row(&self, batch: u64) -> u64 {
        let position = self.position(batch);
        let epoch = self.epoch(position.epoch);
        position.epoch * self.rows_per_epoch() + epoch.firsts[position.batch as usize]
    }

    pub(super) fn row(&self, number: u64) -> PlacedRow {
        let epoch = self.epoch(number / self.rows_per_epoch());
        let within = number % self.rows_per_epoch();
        let batch = epoch.firsts.partition_point(|&first| first <= within) - 1;
        let planned = &epoch.plan.batches[batch];
        PlacedRow {
            row: planned.rows[(within - epoch.firsts[batch]) as usize],
            position: Position {
                epoch: epoch.plan.epoch,
                batch: batch as u64,
            },
            shape: epoch.plan.shape(planned),
            planned_rows: planned.rows.len() as u32,
        }
    }

    pub(super) fn end_of(&self, epochs: u64) -> u64 {
        epochs.saturating_mul(self.rows_per_epoch())
    }

    /// Planned when first asked for, by whoever asks.
    pub(super) fn epoch(&self, epoch: u64) -> Arc<Epoch> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent.iter().find(|known| known.plan.epoch == epoch) {
            return Arc::clone(known);
        }
        let plan = self.plan.epoch(epoch);
        let firsts = plan.batches.iter().scan(0, |next, batch| {
            let first = *next;
            *next += batch.rows.len() as u64;
            Some(first)
        });
        let planned = Arc::new(Epoch {
            firsts: firsts.collect(),
            plan,
        });
        recent.push_back(Arc::clone(&planned));
        if recent.len() > RECENT {
            recent.pop_front();
        }
        planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_speech::batch_plan::{BatchSettings, PlanClip};

    #[test]
    fn rows_and_batches_are_numbered_through_all_epochs() {
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
        let plan = Arc::new(BatchPlan::new(clips.collect(), settings).unwrap());
        let epochs = Epochs::new(Arc::clone(&plan));
        let mut row = 0;
        for epoch in 0..7 {
            for (position, batch) in plan.epoch(epoch).batches_from(
                Position::default(),
                voxmill_speech::batch_plan::Shard::WHOLE,
            ) {
                let number = epochs.batches_before(position);
                assert_eq!(epochs.position(number), position);
                assert_eq!(epochs.first_row(number), row);
                for planned in &batch.rows {
                    let placed = epochs.row(row);
                    assert_eq!((placed.row, placed.position), (*planned, position));
                    row += 1;
                }
            }
            assert_eq!(epochs.end_of(epoch + 1), row);
        }
    }
}
