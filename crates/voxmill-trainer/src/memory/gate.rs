//! Memory of the data device: every batch is admitted before it comes, and the pools are polled.
//!
//! All of it happens on the thread that works on that device; the model's thread reads what was seen last.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use voxmill_format::given_megabytes;

use voxmill_data::batch::Batch;
use voxmill_data::batch_plan::Shape;

use super::PoolUsage;
use crate::device::{Device, DeviceId, PoolMemory, memory_in_use};
use crate::need::{frame_tables, prepare_need};

/// How often the pools are read where no limit asks for it.
const EVERY: Duration = Duration::from_secs(1);

/// A batch, and what it takes on the data device by calculation.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    pub shape: Shape,
    pub need: u64,
}

/// The data device has no room for a batch.
#[derive(Debug, thiserror::Error)]
#[error(
    "{device} has no room for a batch of {} clips of {} frames: it takes {} there, the pools hold {}, of which {} are in use, and the limit is {}",
    .batch.shape.rows, .batch.shape.frames, given_megabytes(.batch.need),
    given_megabytes(.memory.reserved), given_megabytes(.memory.in_use), given_megabytes(*.limit)
)]
pub struct NoRoom {
    pub device: DeviceId,
    pub batch: Admitted,
    pub memory: PoolMemory,
    pub limit: u64,
}

/// Keeps the data device within its limit.
#[derive(Clone, Debug)]
pub struct MemoryGate {
    device: Device,
    id: DeviceId,
    limit: Option<u64>,
    pools: Arc<PoolUsage>,
    /// Shapes that came since the pools were cleaned.
    seen: HashSet<Shape>,
    /// Whether they ever were: what others left there before is not known.
    is_cleaned: bool,
    polled: Option<Instant>,
}

impl MemoryGate {
    /// Without a limit the pools are only polled.
    pub fn new(id: DeviceId, device: &Device, limit: Option<u64>, pools: &Arc<PoolUsage>) -> Self {
        Self {
            device: device.clone(),
            id,
            limit,
            pools: Arc::clone(pools),
            seen: HashSet::new(),
            is_cleaned: false,
            polled: None,
        }
    }

    /// Before anything of the batch is on the device.
    pub fn admit(&mut self, batch: &Batch) -> Result<Admitted, NoRoom> {
        let (need, tables) = need(batch);
        // The tables come with the first batch and are in use from then on.
        let tables = if self.seen.is_empty() { tables } else { 0 };
        let admitted = Admitted {
            shape: batch.shape,
            need: need + tables,
        };
        let Some(limit) = self.limit else {
            return Ok(admitted);
        };
        let mut memory = self.poll();
        // A new shape may make the pools grow: what they keep for others is released first.
        let may_grow = self.seen.insert(admitted.shape);
        let most = match may_grow {
            true => memory.reserved,
            false => memory.in_use,
        };
        if most.saturating_add(admitted.need) > limit {
            memory = self.poll_after_cleaning(admitted);
        }
        let in_use = memory.in_use.saturating_add(admitted.need);
        self.check(in_use, admitted, memory)
    }

    /// After the batch has gone on its way: by now the pools have grown as far as they had to.
    pub fn release(&mut self, admitted: Admitted) -> Result<(), NoRoom> {
        let is_due = self.polled.is_none_or(|polled| polled.elapsed() >= EVERY);
        if self.limit.is_none() && !is_due {
            return Ok(());
        }
        self.polled = Some(Instant::now());
        let mut memory = self.poll();
        // Pages for other shapes can be released. What this one takes by itself is what it will always take.
        let are_others = self.seen.len() > 1 || !self.is_cleaned;
        if are_others && self.limit.is_some_and(|limit| memory.reserved > limit) {
            memory = self.poll_after_cleaning(admitted);
        }
        self.check(memory.reserved, admitted, memory).map(|_| ())
    }

    /// What the pools hold once they have released what they only keep for later.
    fn poll_after_cleaning(&mut self, batch: Admitted) -> PoolMemory {
        // A device that failed reports it where its results are read.
        let _ = self.device.sync();
        self.device.memory_cleanup();
        self.seen = HashSet::from([batch.shape]);
        self.is_cleaned = true;
        self.poll()
    }

    fn check(&self, bytes: u64, batch: Admitted, memory: PoolMemory) -> Result<Admitted, NoRoom> {
        match self.limit.filter(|limit| bytes > *limit) {
            None => Ok(batch),
            Some(limit) => Err(NoRoom {
                device: self.id,
                batch,
                memory,
                limit,
            }),
        }
    }

    /// Nothing where the backend does not report it, as on the CPU: there the sums alone count.
    fn poll(&self) -> PoolMemory {
        let memory = memory_in_use(&self.device).unwrap_or_default();
        self.pools.record(memory.reserved);
        memory
    }
}

/// Bytes on the data device, by calculation: of the batch, and of the tables that frames are made with.
fn need(batch: &Batch) -> (u64, u64) {
    let mels = usize::from(batch.mel_channels);
    let n_fft = batch.sound.framing().map(|framing| framing.n_fft);
    let reference = batch.reference_frames as usize;
    let tables = n_fft.map_or(0, |n_fft| frame_tables(n_fft, mels));
    (prepare_need(batch.shape, reference, mels, n_fft), tables)
}

#[cfg(test)]
mod tests {
    use voxmill_data::batch::{BatchForm, collate};
    use voxmill_data::batch_plan::Position;

    use super::*;

    const SHAPE: Shape = Shape {
        rows: 4,
        frames: 640,
        tokens: 96,
    };

    fn gate(limit: u64) -> MemoryGate {
        let id = "vulkan:1".parse().unwrap();
        MemoryGate::new(id, &crate::device::cpu(), Some(limit), &Arc::default())
    }

    #[test]
    fn above_the_limit_no_batch_is_admitted_and_the_reason_is_given() {
        let admitted = Admitted {
            shape: SHAPE,
            need: 12_000_000,
        };
        let memory = PoolMemory {
            in_use: 9_000_000,
            reserved: 16_000_000,
        };
        let gate = gate(20_000_000);
        assert!(gate.check(20_000_000, admitted, memory).is_ok());
        let refused = gate.check(21_000_000, admitted, memory).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "vulkan:1 has no room for a batch of 4 clips of 640 frames: it takes 12MB there, the pools hold 16MB, of which \
             9MB are in use, and the limit is 20MB"
        );
    }

    /// The CPU reports no pools: the sums alone count.
    #[test]
    fn a_batch_is_compared_with_the_limit_before_it_comes() {
        let form = BatchForm {
            position: Position::default(),
            shape: SHAPE,
            mel_channels: 80,
            reference_frames: 129,
            framing: None,
        };
        let batch = collate(form, []);
        let (need, _) = need(&batch);
        assert!(gate(need).admit(&batch).is_ok());
        assert!(gate(need - 1).admit(&batch).is_err());
        let mut open = gate(need);
        open.limit = None;
        assert!(open.admit(&batch).is_ok());
    }
}
