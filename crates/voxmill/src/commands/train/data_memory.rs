//! Memory of the data device: every batch is let in before it comes, and the pools are looked at.
//!
//! All of it happens on the thread that works on that device (with `--no-overlap` there is only one); the model's
//! thread reads what was seen last.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use voxmill_speech::batch::Batch;
use voxmill_speech::batch_plan::Shape;
use voxmill_trainer::device::{Device, DeviceId, DeviceMemory, memory_in_use};
use voxmill_trainer::need::{frame_tables, prepare_need};

use super::memory::megabytes;
use crate::config::value::show_bytes;
use crate::settings::TrainSettings;

/// How often the pools are read where no limit asks for it.
const EVERY: Duration = Duration::from_secs(1);

/// Bytes that the pools held at the last look, and at the most; 0 before the first, or where the backend does
/// not say.
#[derive(Debug, Default)]
pub(in crate::commands) struct DataPools {
    last: AtomicU64,
    most: AtomicU64,
}

impl DataPools {
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    pub(super) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    pub(super) fn saw(&self, bytes: u64) {
        self.last.store(bytes, Ordering::Relaxed);
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// A batch, and what it takes on the data device by calculation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest {
    shape: Shape,
    need: u64,
}

/// The data device has no room for a batch.
#[derive(Debug, thiserror::Error)]
#[error(
    "{device} has no room for a batch of {} clips of {} frames: it takes {} there, the pools hold {}, of which {} are in use, and --data-gpu-memory is {}; a smaller --batch-size with --grad-accum takes less",
    .guest.shape.rows, .guest.shape.frames, megabytes(.guest.need),
    megabytes(.memory.reserved), megabytes(.memory.in_use), show_bytes(*.limit)
)]
pub(super) struct NoRoom {
    device: DeviceId,
    guest: Guest,
    memory: DeviceMemory,
    limit: u64,
}

/// Stands at the data device's door.
#[derive(Clone, Debug)]
pub(super) struct DataDoor {
    device: Device,
    id: DeviceId,
    limit: Option<u64>,
    pools: Arc<DataPools>,
    /// Shapes that came since the pools were cleaned.
    seen: HashSet<Shape>,
    /// Whether they ever were: what others left there before is not known.
    is_cleaned: bool,
    looked: Option<Instant>,
}

impl DataDoor {
    pub(super) fn new(settings: &TrainSettings, device: &Device, pools: &Arc<DataPools>) -> Self {
        Self {
            device: device.clone(),
            id: settings.devices.devices.data(),
            limit: settings.devices.limits.data,
            pools: Arc::clone(pools),
            seen: HashSet::new(),
            is_cleaned: false,
            looked: None,
        }
    }

    /// Before anything of the batch is on the device.
    pub(super) fn let_in(&mut self, batch: &Batch) -> Result<Guest, NoRoom> {
        let guest = Guest {
            shape: batch.shape,
            // The tables come with the first batch and are in use from then on.
            need: need(batch)
                + if self.seen.is_empty() {
                    tables(batch)
                } else {
                    0
                },
        };
        let Some(limit) = self.limit else {
            return Ok(guest);
        };
        let mut memory = self.look();
        // A new shape may make the pools grow: what they keep for others is given back first.
        let may_grow = self.seen.insert(guest.shape);
        let most = match may_grow {
            true => memory.reserved,
            false => memory.in_use,
        };
        if most.saturating_add(guest.need) > limit {
            memory = self.look_after_cleaning(guest);
        }
        self.hold(memory.in_use.saturating_add(guest.need), guest, memory)
    }

    /// After the batch has gone on its way: by now the pools have grown as far as they had to.
    pub(super) fn has_left(&mut self, guest: Guest) -> Result<(), NoRoom> {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= EVERY);
        if self.limit.is_none() && !is_due {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let mut memory = self.look();
        // Pages for other shapes can be given back. What this one takes by itself is what it will always take.
        let are_others = self.seen.len() > 1 || !self.is_cleaned;
        if are_others && self.limit.is_some_and(|limit| memory.reserved > limit) {
            memory = self.look_after_cleaning(guest);
        }
        self.hold(memory.reserved, guest, memory).map(|_| ())
    }

    /// What the pools hold once they have given back what they only keep for later.
    fn look_after_cleaning(&mut self, guest: Guest) -> DeviceMemory {
        // A device that failed says so where its results are read.
        let _ = self.device.sync();
        self.device.memory_cleanup();
        self.seen = HashSet::from([guest.shape]);
        self.is_cleaned = true;
        self.look()
    }

    fn hold(&self, bytes: u64, guest: Guest, memory: DeviceMemory) -> Result<Guest, NoRoom> {
        match self.limit.filter(|limit| bytes > *limit) {
            None => Ok(guest),
            Some(limit) => Err(NoRoom {
                device: self.id,
                guest,
                memory,
                limit,
            }),
        }
    }

    /// Nothing where the backend does not say, as on the CPU: there the sums alone count.
    fn look(&self) -> DeviceMemory {
        let memory = memory_in_use(&self.device).unwrap_or_default();
        self.pools.saw(memory.reserved);
        memory
    }
}

/// Bytes on the data device, by calculation.
fn need(batch: &Batch) -> u64 {
    prepare_need(
        batch.shape,
        batch.reference_frames as usize,
        usize::from(batch.mel_channels),
        batch.sound.framing().map(|framing| framing.n_fft),
    )
}

fn tables(batch: &Batch) -> u64 {
    let framing = batch.sound.framing();
    framing.map_or(0, |framing| {
        frame_tables(framing.n_fft, usize::from(batch.mel_channels))
    })
}

#[cfg(test)]
mod tests {
    use voxmill_speech::batch::{BatchForm, collate};
    use voxmill_speech::batch_plan::Position;

    use super::*;

    const SHAPE: Shape = Shape {
        rows: 4,
        frames: 640,
        tokens: 96,
    };

    fn door(limit: u64) -> DataDoor {
        DataDoor {
            device: voxmill_trainer::device::cpu(),
            id: "vulkan:1".parse().unwrap(),
            limit: Some(limit),
            pools: Arc::default(),
            seen: HashSet::new(),
            is_cleaned: false,
            looked: None,
        }
    }

    #[test]
    fn above_the_limit_nobody_is_let_in_and_the_reason_is_told() {
        let guest = Guest {
            shape: SHAPE,
            need: 12_000_000,
        };
        let memory = DeviceMemory {
            in_use: 9_000_000,
            reserved: 16_000_000,
        };
        let door = door(20_000_000);
        assert!(door.hold(20_000_000, guest, memory).is_ok());
        let told = door.hold(21_000_000, guest, memory).unwrap_err();
        assert_eq!(
            told.to_string(),
            "vulkan:1 has no room for a batch of 4 clips of 640 frames: it takes 12MB there, the pools hold 16MB, of which \
             9MB are in use, and --data-gpu-memory is 20MB; a smaller --batch-size with --grad-accum takes less"
        );
    }

    /// The CPU tells of no pools: the sums alone count.
    #[test]
    fn a_batch_is_held_against_the_limit_before_it_comes() {
        let form = BatchForm {
            position: Position::default(),
            shape: SHAPE,
            mel_channels: 80,
            reference_frames: 129,
            framing: None,
        };
        let batch = collate(form, []);
        let need = need(&batch);
        assert!(door(need).let_in(&batch).is_ok());
        assert!(door(need - 1).let_in(&batch).is_err());
        let mut open = door(need);
        open.limit = None;
        assert!(open.let_in(&batch).is_ok());
    }
}
