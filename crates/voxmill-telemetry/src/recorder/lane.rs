//! What one worker records, and where it lies until it is collected.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use super::{Naming, RecorderShared, lock};
use crate::event::{Nanos, SlotState, Wait};

/// Events in a lane before more are only counted: 2 MB.
pub(super) const LANE_CAPACITY: usize = 1 << 16;
/// From here on the collecting thread is called early.
const FILLS_UP: usize = LANE_CAPACITY / 2;

/// Takes the events of one worker, on one thread at a time.
#[derive(Debug)]
pub struct Lane {
    /// `None`: nothing is recorded.
    pub(super) shared: Option<Arc<LaneShared>>,
}

impl Lane {
    fn push(&self, event: ItemEvent) {
        if let Some(shared) = &self.shared {
            shared.push(event);
        }
    }

    /// A worker handled an item from `start` for `service`.
    pub fn item(&self, item: u64, start: Nanos, service: Nanos) {
        self.push(ItemEvent::Item {
            item,
            start,
            service,
        });
    }

    /// From `start` on, the worker waited: for or with that item, or for none that is known, as at
    /// the end of input.
    pub fn wait(&self, wait: Wait, item: Option<u64>, start: Nanos, waited: Nanos) {
        self.push(ItemEvent::Wait {
            wait,
            item: item.into(),
            start,
            waited,
        });
    }

    /// Only kept in detail.
    pub fn level(&self, buffer: &str, at: Nanos, items: u64, capacity: u64) {
        if let Some(shared) = &self.shared
            && shared.recorder.detailed
        {
            let buffer = shared.buffer(buffer);
            shared.push(ItemEvent::Level {
                buffer,
                at,
                items,
                capacity,
            });
        }
    }

    /// A place on a device changed its state.
    pub fn slot(&self, place: u32, item: u64, at: Nanos, to: SlotState) {
        self.push(ItemEvent::Slot {
            place,
            item,
            at,
            to,
        });
    }
}

/// An event of a single item, without names: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemEvent {
    Item {
        item: u64,
        start: Nanos,
        service: Nanos,
    },
    Wait {
        wait: Wait,
        item: MaybeItem,
        start: Nanos,
        waited: Nanos,
    },
    Level {
        /// The place in the lane's own list of buffers.
        buffer: u32,
        at: Nanos,
        items: u64,
        capacity: u64,
    },
    Slot {
        place: u32,
        item: u64,
        at: Nanos,
        to: SlotState,
    },
}

/// An item's number or none, in 8 bytes: no run gets as far as the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaybeItem(u64);

impl MaybeItem {
    pub(crate) fn number(self) -> Option<u64> {
        (self.0 != u64::MAX).then_some(self.0)
    }
}

impl From<Option<u64>> for MaybeItem {
    fn from(item: Option<u64>) -> MaybeItem {
        MaybeItem(item.unwrap_or(u64::MAX))
    }
}

impl ItemEvent {
    pub(crate) fn start(&self) -> Nanos {
        match *self {
            ItemEvent::Item { start, .. } | ItemEvent::Wait { start, .. } => start,
            ItemEvent::Level { at, .. } | ItemEvent::Slot { at, .. } => at,
        }
    }

    pub(crate) fn end(&self) -> Nanos {
        match *self {
            ItemEvent::Item { start, service, .. } => start + service,
            ItemEvent::Wait { start, waited, .. } => start + waited,
            ItemEvent::Level { at, .. } | ItemEvent::Slot { at, .. } => at,
        }
    }
}

/// A stage as far as telemetry knows it.
pub(crate) struct LaneStage {
    /// In the order in which stages became known.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(super) naming: OnceLock<Naming>,
}

impl LaneStage {
    pub(crate) fn new(number: u64, name: &str) -> LaneStage {
        LaneStage {
            number,
            name: name.to_owned(),
            naming: OnceLock::new(),
        }
    }

    /// The item's name, or its number where it has none.
    pub(crate) fn item_name(&self, item: u64) -> String {
        let named = self.naming.get().and_then(|naming| {
            // It is the program's function; its panic must not end the record.
            catch_unwind(AssertUnwindSafe(|| naming(item))).ok()
        });
        named.unwrap_or_else(|| item.to_string())
    }
}

impl fmt::Debug for LaneStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stage({})", self.name)
    }
}

/// The two ends of a lane: the worker's and the collecting thread's.
pub(crate) struct LaneShared {
    pub(crate) stage: Arc<LaneStage>,
    pub(crate) worker: u32,
    recorder: Arc<RecorderShared>,
    waiting: Mutex<Waiting>,
    /// The names of buffers whose levels this lane has recorded.
    buffers: Mutex<Vec<String>>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<ItemEvent>,
    lost: u64,
    closed: bool,
}

impl LaneShared {
    pub(super) fn new(
        stage: Arc<LaneStage>,
        worker: u32,
        recorder: Arc<RecorderShared>,
    ) -> LaneShared {
        LaneShared {
            stage,
            worker,
            recorder,
            waiting: Mutex::default(),
            buffers: Mutex::default(),
        }
    }

    fn push(&self, event: ItemEvent) {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return;
        }
        if waiting.events.len() >= LANE_CAPACITY {
            waiting.lost += 1;
            return;
        }
        waiting.events.push(event);
        if waiting.events.len() == FILLS_UP {
            drop(waiting);
            self.recorder.inbox().hurry = true;
            self.recorder.wake.notify_one();
        }
    }

    /// Swaps what is there for an empty vector; returns how many events found no room.
    pub(super) fn take(&self, empty: &mut Vec<ItemEvent>) -> u64 {
        let mut waiting = lock(&self.waiting);
        std::mem::swap(&mut waiting.events, empty);
        std::mem::take(&mut waiting.lost)
    }

    /// Nobody will take what is recorded from now on.
    pub(super) fn close(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.closed = true;
        waiting.events = Vec::new();
    }

    fn buffer(&self, name: &str) -> u32 {
        let mut buffers = lock(&self.buffers);
        let known = buffers.iter().position(|buffer| buffer == name);
        let index = known.unwrap_or_else(|| {
            buffers.push(name.to_owned());
            buffers.len() - 1
        });
        index as u32
    }

    pub(crate) fn buffer_name(&self, index: u32) -> String {
        let buffers = lock(&self.buffers);
        buffers.get(index as usize).cloned().unwrap_or_default()
    }
}

impl fmt::Debug for LaneShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneShared({} {})", self.stage.name, self.worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_small() {
        assert_eq!(size_of::<ItemEvent>(), 32);
        assert_eq!(size_of::<(u32, ItemEvent)>(), 40);
    }
}
