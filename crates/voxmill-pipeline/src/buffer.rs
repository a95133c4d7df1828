//! The bounded queue between two stages.
//!
//! Every item has a number. Where order is kept, the buffer is a window of `capacity` consecutive
//! numbers that begins with the next one to leave: an item that is done early waits in its place, one
//! beyond the window waits outside. The next item to leave always has room, whoever else waits, so
//! the buffer cannot deadlock however many workers fill it. Where order is free it is a plain queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(feature = "loom"))]
use std::time::{Duration, Instant};

use voxmill_telemetry::plan::Order;

use crate::sync::{Mutex, Waiting, lock, thread, wake};

#[derive(Debug)]
pub struct Buffer<T> {
    name: String,
    order: Order,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// Where order is kept, place `i` belongs to number `head + i` and may still be empty.
    queue: VecDeque<Option<T>>,
    head: u64,
    filled: usize,
    capacity: usize,
    /// No more will come.
    closed: bool,
    /// Nobody wants more.
    cancelled: bool,
    /// Numbers that wait for room.
    pushers: Waiting<u64>,
    poppers: Waiting<()>,
}

/// What a look into a buffer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub items: usize,
    pub capacity: usize,
}

impl<T> State<T> {
    fn has_room(&self, order: Order, number: u64) -> bool {
        match order {
            Order::Kept => number < self.head + self.capacity as u64,
            Order::Free => self.filled < self.capacity,
        }
    }

    fn next_is_here(&self) -> bool {
        matches!(self.queue.front(), Some(Some(_)))
    }
}

impl<T> Buffer<T> {
    /// Named after the stage that fills it. `first` is the number of the first item that will come;
    /// only where order is kept does it matter.
    pub fn new(name: impl Into<String>, order: Order, capacity: usize, first: u64) -> Buffer<T> {
        Buffer {
            name: name.into(),
            order,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                head: first,
                filled: 0,
                capacity: capacity.max(1),
                closed: false,
                cancelled: false,
                pushers: Waiting::new(),
                poppers: Waiting::new(),
            }),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts an item in, when there is room for its number; gives it back when nobody wants it any
    /// more. `before_waiting` is called once if there is no room at once.
    pub fn push(&self, number: u64, item: T, before_waiting: impl FnOnce()) -> Result<(), T> {
        let mut before_waiting = Some(before_waiting);
        let mut state = lock(&self.state);
        while !state.cancelled && !state.has_room(self.order, number) {
            if let Some(tell) = before_waiting.take() {
                tell();
            }
            state.pushers.register(number);
            drop(state);
            thread::park();
            state = lock(&self.state);
            state.pushers.forget_this_thread();
        }
        if state.cancelled {
            return Err(item);
        }
        state.filled += 1;
        match self.order {
            Order::Free => state.queue.push_back(Some(item)),
            Order::Kept => {
                debug_assert!(number >= state.head, "number {number} came twice");
                let place = (number - state.head) as usize;
                while state.queue.len() <= place {
                    state.queue.push_back(None);
                }
                state.queue[place] = Some(item);
            }
        }
        let popper = if state.next_is_here() {
            state.poppers.take_first(|()| true)
        } else {
            None
        };
        drop(state);
        wake(popper);
        Ok(())
    }

    /// The next item; `None` when no more will come, or nobody wants more.
    pub fn pop(&self, before_waiting: impl FnOnce()) -> Option<T> {
        let mut before_waiting = Some(before_waiting);
        let mut state = lock(&self.state);
        while !state.cancelled && !state.closed && !state.next_is_here() {
            if let Some(tell) = before_waiting.take() {
                tell();
            }
            state.poppers.register(());
            drop(state);
            thread::park();
            state = lock(&self.state);
            state.poppers.forget_this_thread();
        }
        if state.cancelled || !state.next_is_here() {
            return None;
        }
        let item = state.queue.pop_front().flatten();
        state.filled -= 1;
        state.head += 1;
        let order = self.order;
        let (head, capacity) = (state.head, state.capacity as u64);
        let room = match order {
            Order::Kept => true,
            Order::Free => state.filled < state.capacity,
        };
        let pusher = if room {
            state
                .pushers
                .take_first(|&number| order == Order::Free || number < head + capacity)
        } else {
            None
        };
        let popper = if state.next_is_here() {
            state.poppers.take_first(|()| true)
        } else {
            None
        };
        drop(state);
        wake(pusher);
        wake(popper);
        item
    }

    /// No more will come: those who wait for items learn that there are none.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let poppers = state.poppers.take_all();
        drop(state);
        wake(poppers);
    }

    /// Nobody wants more: everyone who waits is let go, and what is here is dropped.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        let dropped = std::mem::take(&mut state.queue);
        state.filled = 0;
        let mut threads = state.poppers.take_all();
        threads.extend(state.pushers.take_all());
        drop(state);
        wake(threads);
        // An item that panics here must not keep the rest of the run from being cancelled; the panic
        // hook has spoken.
        for item in dropped {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(item)));
        }
    }

    /// May be called at any time. A smaller capacity loses nothing; it only lets nobody in until the
    /// level has sunk.
    pub fn set_capacity(&self, capacity: usize) {
        let mut state = lock(&self.state);
        state.capacity = capacity.max(1);
        // Whoever still has no room registers again. Waiting poppers may watch for a full buffer.
        let mut threads = state.pushers.take_all();
        threads.extend(state.poppers.take_all());
        drop(state);
        wake(threads);
    }

    pub fn level(&self) -> Level {
        let state = lock(&self.state);
        Level {
            items: state.filled,
            capacity: state.capacity,
        }
    }

    /// Waits until `enough` items are here, no more will come, or the time is over.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn wait_for(&self, enough: impl Fn(Level) -> bool, longest: Duration) -> Filled {
        let deadline = Instant::now() + longest;
        let mut state = lock(&self.state);
        loop {
            let level = Level {
                items: state.filled,
                capacity: state.capacity,
            };
            if enough(level) {
                return Filled::Enough;
            }
            if state.closed || state.cancelled {
                return Filled::NoMore;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Filled::TimeOver;
            }
            // Every push of the next item wakes one that waits for items; while the gate is closed
            // nobody else does.
            state.poppers.register(());
            drop(state);
            thread::park_timeout(left);
            state = lock(&self.state);
            state.poppers.forget_this_thread();
        }
    }
}

/// Why [`Buffer::wait_for`] came back.
#[cfg(not(feature = "loom"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Enough,
    NoMore,
    TimeOver,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_not_wait() {
        panic!("there is no need to wait");
    }

    #[test]
    fn early_items_wait_in_their_places_for_the_one_that_is_late() {
        let buffer = Buffer::new("test", Order::Kept, 3, 10);
        for number in [12, 11, 10] {
            buffer.push(number, number, must_not_wait).unwrap();
        }
        buffer.close();
        let out: Vec<_> = std::iter::from_fn(|| buffer.pop(must_not_wait)).collect();
        assert_eq!(out, [10, 11, 12]);
    }

    #[test]
    fn where_order_is_free_items_leave_as_they_came() {
        let buffer = Buffer::new("test", Order::Free, 3, 0);
        for number in [7, 3, 9] {
            buffer.push(number, number, must_not_wait).unwrap();
        }
        buffer.close();
        let out: Vec<_> = std::iter::from_fn(|| buffer.pop(must_not_wait)).collect();
        assert_eq!(out, [7, 3, 9]);
    }

    #[test]
    fn the_next_item_to_leave_has_room_even_in_a_buffer_that_is_full_beyond_it() {
        let buffer = Buffer::new("test", Order::Kept, 4, 0);
        for number in 1..4 {
            buffer.push(number, number, must_not_wait).unwrap();
        }
        buffer.set_capacity(1);
        buffer.push(0, 0, must_not_wait).unwrap();
        let level = buffer.level();
        assert_eq!(
            (level.items, level.capacity),
            (4, 1),
            "nothing was thrown out"
        );
        assert_eq!(buffer.pop(must_not_wait), Some(0));
    }

    #[test]
    fn a_cancelled_buffer_drops_what_it_holds_and_takes_no_more() {
        let item = std::sync::Arc::new(());
        let buffer = Buffer::new("test", Order::Kept, 2, 0);
        buffer.push(0, item.clone(), must_not_wait).unwrap();
        buffer.cancel();
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
        assert!(buffer.push(1, item, must_not_wait).is_err());
        assert_eq!(buffer.pop(must_not_wait), None);
    }

    #[test]
    fn waiting_for_a_level_ends_with_the_level_the_time_or_the_items() {
        let buffer = Buffer::new("test", Order::Kept, 2, 0);
        let full = |level: Level| level.items == level.capacity;
        let soon = Duration::from_millis(1);
        assert_eq!(buffer.wait_for(full, soon), Filled::TimeOver);
        buffer.push(0, 0, must_not_wait).unwrap();
        buffer.push(1, 1, must_not_wait).unwrap();
        assert_eq!(
            buffer.wait_for(full, Duration::from_secs(1000)),
            Filled::Enough
        );
        assert_eq!(buffer.pop(must_not_wait), Some(0));
        buffer.close();
        assert_eq!(buffer.wait_for(full, soon), Filled::NoMore);
    }
}
