//! How the threads that do the work say what happened, at little cost.
//!
//! A worker has a [`Lane`] of its own, so it never waits for another; one thread collects all lanes.

use std::sync::Arc;
use std::time::Instant;

use crate::event::{Event, Nanos, SlotState, Wait};

/// The run's clock and the place where events go. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct Recorder {
    start: Instant,
}

/// Says the name of an item by its number.
pub type Naming = Arc<dyn Fn(u64) -> String + Send + Sync>;

impl Recorder {
    /// A clock that records nothing.
    pub fn off() -> Recorder {
        Recorder {
            start: Instant::now(),
        }
    }

    pub fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// Something that happens rarely.
    pub fn record(&self, _event: Event) {}

    /// The lane of one worker of one stage.
    pub fn lane(&self, _stage: &str, _worker: usize) -> Lane {
        Lane {}
    }

    /// How the items of a stage are called where they are shown.
    pub fn name_items(&self, _stage: &str, _naming: Naming) {}

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        false
    }

    /// Whether single items are kept, for a trace. Buffer levels are then wanted at every move.
    pub fn is_detailed(&self) -> bool {
        false
    }
}

/// What one worker has to say. One thread at a time.
#[derive(Debug)]
pub struct Lane {}

impl Lane {
    /// An item was in hand from `start` for `service`.
    pub fn item(&self, _item: u64, _start: Nanos, _service: Nanos) {}

    /// From `start` on, the worker waited.
    pub fn wait(&self, _wait: Wait, _item: u64, _start: Nanos, _waited: Nanos) {}

    /// Only kept in detail.
    pub fn level(&self, _buffer: &str, _at: Nanos, _items: u64, _capacity: u64) {}

    pub fn slot(&self, _place: u32, _item: u64, _at: Nanos, _to: SlotState) {}
}
