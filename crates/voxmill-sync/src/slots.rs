//! Places on a device for batches: Preparing → Ready → Training → free.
//!
//! The state of a place is a type, so a move that is not on this line does not compile:
//!
//! ```compile_fail
//! # let slots = voxmill_sync::slots::Slots::new(3, voxmill_telemetry::recorder::Recorder::off());
//! let preparing = slots.acquire(0, || ()).unwrap();
//! let training = preparing.train(); // not Ready yet
//! ```
//!
//! ```
//! # let slots = voxmill_sync::slots::Slots::new(3, voxmill_telemetry::recorder::Recorder::off());
//! let training = slots.acquire(0, || ()).unwrap().ready().train();
//! assert_eq!(slots.free(), 2);
//! drop(training);
//! assert_eq!(slots.free(), 3);
//! ```
//!
//! Dropping a place in any state frees it. The bytes of all places are reserved once, when the slots
//! are made; a batch that comes into a place uses the place's bytes.

use std::marker::PhantomData;

use voxmill_telemetry::event::SlotState;
use voxmill_telemetry::recorder::{Lane, Recorder};

use crate::budget::{Budget, Refused, Reservation};
use crate::primitives::{Arc, Mutex, WaitList, lock, once, wait, wake};

/// Places on a device for batches that are ready ahead.
#[derive(Debug)]
pub struct Slots {
    state: Mutex<SlotsState>,
    recorder: Recorder,
}

#[derive(Debug)]
struct SlotsState {
    /// Numbers of free places, the one freed last on top: its memory is warm.
    free: Vec<u32>,
    cancelled: bool,
    waiting: WaitList<()>,
    lane: Lane,
    /// Held for as long as the slots exist.
    _bytes: Option<Reservation>,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSlot {
    #[error("the run was cancelled")]
    Cancelled,
    #[error("all slots are taken, and nobody else is there to free one")]
    AllTaken,
}

/// A batch is being put into the slot.
#[derive(Debug)]
pub struct Preparing;
/// The batch in the slot waits to be trained on.
#[derive(Debug)]
pub struct Ready;
/// The batch in the slot is being trained on.
#[derive(Debug)]
pub struct Training;

/// A place that is taken, in the state `S`.
#[derive(Debug)]
pub struct Slot<S> {
    guard: SlotGuard,
    state: PhantomData<S>,
}

/// Frees its place when dropped.
#[derive(Debug)]
struct SlotGuard {
    slots: Arc<Slots>,
    place: u32,
    item: u64,
}

impl Slots {
    /// Places whose bytes nobody counts.
    pub fn new(places: usize, recorder: Recorder) -> Arc<Slots> {
        Slots::with_bytes(places, None, recorder)
    }

    /// Places of `bytes_each`, taken from the budget at once and for good.
    pub fn within(
        places: usize,
        bytes_each: u64,
        budget: &Arc<Budget>,
        recorder: Recorder,
    ) -> Result<Arc<Slots>, Refused> {
        let mut bytes = budget.try_reserve(bytes_each.saturating_mul(places as u64))?;
        bytes.set_parked(true);
        Ok(Slots::with_bytes(places, Some(bytes), recorder))
    }

    fn with_bytes(places: usize, bytes: Option<Reservation>, recorder: Recorder) -> Arc<Slots> {
        Arc::new(Slots {
            state: Mutex::new(SlotsState {
                free: (0..places.max(1) as u32).rev().collect(),
                cancelled: false,
                waiting: WaitList::default(),
                lane: recorder.lane("slots", 0),
                _bytes: bytes,
            }),
            recorder,
        })
    }

    /// Waits for a free place. `before_waiting` is called once if there is none at once.
    pub fn acquire(
        self: &Arc<Self>,
        item: u64,
        before_waiting: impl FnOnce(),
    ) -> Result<Slot<Preparing>, NoSlot> {
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&self.state);
        loop {
            match self.take(&mut state, item) {
                Err(NoSlot::AllTaken) => before_waiting(),
                taken_or_cancelled => return taken_or_cancelled,
            }
            state = wait(&self.state, state, |s| &mut s.waiting, (), None);
        }
    }

    /// A place if there is one now.
    pub fn try_acquire(self: &Arc<Self>, item: u64) -> Result<Slot<Preparing>, NoSlot> {
        self.take(&mut lock(&self.state), item)
    }

    fn take(
        self: &Arc<Self>,
        state: &mut SlotsState,
        item: u64,
    ) -> Result<Slot<Preparing>, NoSlot> {
        if state.cancelled {
            return Err(NoSlot::Cancelled);
        }
        let place = state.free.pop().ok_or(NoSlot::AllTaken)?;
        let at = self.recorder.now();
        state.lane.slot(place, item, at, SlotState::Preparing);
        let slots = Arc::clone(self);
        let guard = SlotGuard { slots, place, item };
        let state = PhantomData;
        Ok(Slot { guard, state })
    }

    /// How many are free at this moment.
    pub fn free(&self) -> usize {
        lock(&self.state).free.len()
    }

    /// Everyone who waits for a place gets an error.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        let all = state.waiting.take_all();
        drop(state);
        wake(all);
    }
}

impl Slot<Preparing> {
    /// The batch is there.
    pub fn ready(self) -> Slot<Ready> {
        self.guard.moved_to(SlotState::Ready)
    }
}

impl Slot<Ready> {
    /// Somebody begins to train on it.
    pub fn train(self) -> Slot<Training> {
        self.guard.moved_to(SlotState::Training)
    }
}

impl<S> Slot<S> {
    /// Which of the places it is.
    pub fn number(&self) -> u32 {
        self.guard.place
    }
}

impl SlotGuard {
    fn moved_to<S>(self, to: SlotState) -> Slot<S> {
        let at = self.slots.recorder.now();
        let state = lock(&self.slots.state);
        state.lane.slot(self.place, self.item, at, to);
        drop(state);
        Slot {
            guard: self,
            state: PhantomData,
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let at = self.slots.recorder.now();
        let mut state = lock(&self.slots.state);
        state.lane.slot(self.place, self.item, at, SlotState::Free);
        state.free.push(self.place);
        let next = state.waiting.take_first(|()| true);
        drop(state);
        wake(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_freed_from_any_state() {
        let slots = Slots::new(2, Recorder::off());
        drop(slots.acquire(0, || ()).unwrap());
        drop(slots.acquire(1, || ()).unwrap().ready());
        drop(slots.acquire(2, || ()).unwrap().ready().train());
        assert_eq!(slots.free(), 2);
    }

    #[test]
    fn the_place_freed_last_is_used_next() {
        let slots = Slots::new(3, Recorder::off());
        let [first, second, third] = [0, 1, 2].map(|item| slots.acquire(item, || ()).unwrap());
        assert_eq!(slots.try_acquire(3).unwrap_err(), NoSlot::AllTaken);
        let warm = second.number();
        drop((first, third, second));
        assert_eq!(slots.try_acquire(4).unwrap().number(), warm);
    }

    #[test]
    fn bytes_are_reserved_with_the_slots_and_released_with_the_last_of_them() {
        let budget = Budget::new("device", 35);
        assert!(Slots::within(4, 10, &budget, Recorder::off()).is_err());
        let slots = Slots::within(3, 10, &budget, Recorder::off()).unwrap();
        for item in 0..10 {
            let place = slots.acquire(item, || ()).unwrap();
            assert_eq!(budget.usage().in_use, 30);
            drop(place.ready().train());
        }
        // They never come free while the run continues: waiting for them is refused.
        let refused = budget.reserve(6, || panic!("waits forever")).unwrap_err();
        assert!(matches!(refused, Refused::Stuck { parked: 30, .. }));
        let last = slots.acquire(11, || ()).unwrap();
        drop(slots);
        assert_eq!(budget.usage().in_use, 30);
        drop(last);
        assert_eq!(budget.usage().in_use, 0);
    }
}
