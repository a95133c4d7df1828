//! The bounded queue between two stages.
//!
//! Every item has a number. Where order is kept, the buffer is a window of `capacity` consecutive
//! numbers that begins with the next one to leave: an item that is done early waits in its place, one
//! beyond the window waits outside. The next item to leave always has room, whoever else waits, so
//! the buffer cannot deadlock however many workers fill it. Where order is free it is a plain queue.
//!
//! Items leave through a [`Tap`].

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use voxmill_telemetry::plan::Order;

use crate::primitives::{Arc, Hint, Mutex, MutexGuard, Thread, WaitList};
use crate::primitives::{lock, once, wait, wait_briefly, wake};

/// What one stage puts its items into, and the next takes them from.
#[derive(Debug)]
pub struct Buffer<T> {
    name: String,
    order: Order,
    state: Mutex<BufferState<T>>,
    hints: BufferHints,
}

/// Far from the rest in memory, so that reading them does not slow down those who work.
#[derive(Debug)]
#[repr(align(128))]
struct BufferHints {
    /// 1 or 0.
    next_is_here: Hint,
    room_below: Hint,
}

#[derive(Debug)]
struct BufferState<T> {
    /// Where order is kept, place `i` belongs to number `front + i` and may still be empty.
    queue: VecDeque<Option<T>>,
    front: u64,
    filled: usize,
    /// Items in a tap's hand that still count as being here.
    in_taps: usize,
    capacity: usize,
    /// No more will come.
    closed: bool,
    /// Nobody wants more.
    cancelled: bool,
    /// Numbers that wait for room.
    pushers: WaitList<u64>,
    poppers: WaitList<()>,
}

/// How full a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillLevel {
    pub items: usize,
    pub capacity: usize,
}

impl<T> BufferState<T> {
    /// Numbers below this have room.
    fn room_below(&self, order: Order) -> u64 {
        match order {
            Order::Kept => (self.front + self.capacity as u64).saturating_sub(self.in_taps as u64),
            Order::Free if self.filled + self.in_taps < self.capacity => u64::MAX,
            Order::Free => 0,
        }
    }

    fn next_is_here(&self) -> bool {
        matches!(self.queue.front(), Some(Some(_)))
    }

    fn level(&self) -> FillLevel {
        FillLevel {
            items: self.filled + self.in_taps,
            capacity: self.capacity,
        }
    }
}

impl<T> Buffer<T> {
    /// Named after the stage that fills it. `first` is the number of the first item that will come;
    /// only where order is kept does it matter.
    pub fn new(name: impl Into<String>, order: Order, capacity: usize, first: u64) -> Buffer<T> {
        Buffer {
            name: name.into(),
            order,
            state: Mutex::new(BufferState {
                queue: VecDeque::new(),
                front: first,
                filled: 0,
                in_taps: 0,
                capacity: capacity.max(1),
                closed: false,
                cancelled: false,
                pushers: WaitList::default(),
                poppers: WaitList::default(),
            }),
            hints: BufferHints {
                next_is_here: Hint::new(0),
                room_below: Hint::new(u64::MAX),
            },
        }
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts an item in, when there is room for its number; gives it back when nobody wants it any
    /// more. `before_waiting` is called at most once, when there is no room at once; it must not touch
    /// the buffer.
    pub fn push(&self, number: u64, item: T, before_waiting: impl FnOnce()) -> Result<(), T> {
        let may_go =
            |state: &BufferState<T>| state.cancelled || number < state.room_below(self.order);
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&self.state);
        if !may_go(&state) {
            drop(state);
            let ready = || number < self.hints.room_below.get();
            wait_briefly(ready, &mut before_waiting);
            state = lock(&self.state);
        }
        while !may_go(&state) {
            before_waiting();
            state = wait(&self.state, state, |s| &mut s.pushers, number, None);
        }
        if state.cancelled {
            return Err(item);
        }
        state.filled += 1;
        match self.order {
            Order::Free => state.queue.push_back(Some(item)),
            Order::Kept => {
                debug_assert!(number >= state.front, "number {number} came twice");
                let place = (number - state.front) as usize;
                while state.queue.len() <= place {
                    state.queue.push_back(None);
                }
                state.queue[place] = Some(item);
            }
        }
        self.wake_ready(state);
        Ok(())
    }

    /// Releases the lock and wakes whoever can continue now.
    fn wake_ready(&self, mut state: MutexGuard<'_, BufferState<T>>) {
        let here = state.next_is_here();
        let below = state.room_below(self.order);
        self.hints.next_is_here.set(here.into());
        self.hints.room_below.set(below);
        let popper = match here {
            true => state.poppers.take_first(|()| true),
            false => None,
        };
        let mut pushers = Vec::new();
        // Where order is free, one wake-up a place: the rest would find it taken.
        let mut places = match self.order {
            Order::Kept => usize::MAX,
            Order::Free => {
                let taken = state.filled + state.in_taps;
                state.capacity.saturating_sub(taken)
            }
        };
        while places > 0
            && let Some(pusher) = state.pushers.take_first(|&number| number < below)
        {
            pushers.push(pusher);
            places -= 1;
        }
        drop(state);
        wake(popper);
        wake(pushers);
    }

    /// No more will come: those who wait for items learn that there are none.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let poppers = state.poppers.take_all();
        self.hints.next_is_here.set(1);
        drop(state);
        wake(poppers);
    }

    /// Nobody wants more: everyone who waits is released, and what is here is dropped.
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        let dropped = std::mem::take(&mut state.queue);
        state.filled = 0;
        self.hints.next_is_here.set(1);
        self.hints.room_below.set(u64::MAX);
        let threads = everyone(&mut state);
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
        self.hints.room_below.set(state.room_below(self.order));
        // Whoever still has no room registers again. Who waits for items may watch for a full buffer.
        let threads = everyone(&mut state);
        drop(state);
        wake(threads);
    }

    /// At this moment.
    pub fn level(&self) -> FillLevel {
        lock(&self.state).level()
    }

    /// Waits until there is `enough` here, no more will come, or the time is over.
    pub fn wait_for(&self, enough: impl Fn(FillLevel) -> bool, longest: Duration) -> Filled {
        let deadline = Instant::now() + longest;
        let mut state = lock(&self.state);
        loop {
            if enough(state.level()) {
                return Filled::Enough;
            }
            if state.cancelled {
                return Filled::Cancelled;
            }
            if state.closed {
                return Filled::NoMore;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Filled::TimeOver;
            }
            // A push wakes one of those that wait for items; this is the only one while it waits.
            state = wait(&self.state, state, |s| &mut s.poppers, (), Some(left));
        }
    }
}

fn everyone<T>(state: &mut BufferState<T>) -> Vec<Thread> {
    let mut threads = state.poppers.take_all();
    threads.extend(state.pushers.take_all());
    threads
}

/// Why [`Buffer::wait_for`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    Enough,
    NoMore,
    TimeOver,
    Cancelled,
}

/// Where items leave a buffer.
///
/// From a large buffer it takes several items with one locking, at most an eighth of the capacity.
/// They count as being in the buffer until the tap comes back for more, so the bound holds.
#[derive(Debug)]
pub struct Tap<T> {
    buffer: Arc<Buffer<T>>,
    in_hand: VecDeque<T>,
    /// How many of those taken last still count as being in the buffer.
    owed: usize,
}

const TAKEN_AT_ONCE: usize = 8;

impl<T> Tap<T> {
    /// Takes from this buffer.
    pub fn new(buffer: Arc<Buffer<T>>) -> Tap<T> {
        Tap {
            buffer,
            in_hand: VecDeque::new(),
            owed: 0,
        }
    }

    /// The buffer that it takes from.
    pub fn buffer(&self) -> &Arc<Buffer<T>> {
        &self.buffer
    }

    /// The next item; `None` when no more will come, or nobody wants more.
    /// `before_waiting` is called at most once, when there is none at once.
    pub fn next(&mut self, before_waiting: impl FnOnce()) -> Option<T> {
        if let Some(item) = self.in_hand.pop_front() {
            return Some(item);
        }
        let buffer = &self.buffer;
        let may_go =
            |state: &BufferState<T>| state.cancelled || state.closed || state.next_is_here();
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&buffer.state);
        if self.owed > 0 {
            state.in_taps -= std::mem::take(&mut self.owed);
            if !may_go(&state) {
                buffer.wake_ready(state);
                state = lock(&buffer.state);
            }
        }
        if !may_go(&state) {
            drop(state);
            let ready = || buffer.hints.next_is_here.get() == 1;
            wait_briefly(ready, &mut before_waiting);
            state = lock(&buffer.state);
        }
        while !may_go(&state) {
            before_waiting();
            state = wait(&buffer.state, state, |s| &mut s.poppers, (), None);
        }
        if state.cancelled || !state.next_is_here() {
            debug_assert!(state.filled == 0, "a gap before {} items", state.filled);
            return None;
        }
        let most = (state.capacity / TAKEN_AT_ONCE).max(1);
        while self.in_hand.len() < most
            && state.next_is_here()
            && let Some(Some(item)) = state.queue.pop_front()
        {
            state.front += 1;
            state.filled -= 1;
            self.in_hand.push_back(item);
        }
        self.owed = self.in_hand.len() - 1;
        state.in_taps += self.owed;
        buffer.wake_ready(state);
        self.in_hand.pop_front()
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        if self.owed > 0 {
            let mut state = lock(&self.buffer.state);
            state.in_taps -= self.owed;
            self.buffer.wake_ready(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_not_wait() {
        panic!("there is no need to wait");
    }

    /// A buffer that these numbers were put into, as items.
    fn filled(
        order: Order,
        capacity: usize,
        first: u64,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Arc<Buffer<u64>> {
        let buffer = Arc::new(Buffer::new("test", order, capacity, first));
        for number in numbers {
            buffer.push(number, number, must_not_wait).unwrap();
        }
        buffer
    }

    fn pop<T>(buffer: &Arc<Buffer<T>>) -> Option<T> {
        Tap::new(Arc::clone(buffer)).next(must_not_wait)
    }

    #[test]
    fn items_leave_in_number_order_or_as_they_came() {
        for (order, first, pushed, expected) in [
            (Order::Kept, 10, [12, 11, 10], [10, 11, 12]),
            (Order::Free, 0, [7, 3, 9], [7, 3, 9]),
        ] {
            let buffer = filled(order, 3, first, pushed);
            buffer.close();
            let out: Vec<_> = std::iter::from_fn(|| pop(&buffer)).collect();
            assert_eq!(out, expected, "{order:?}");
        }
    }

    #[test]
    fn the_next_item_to_leave_has_room_even_in_a_buffer_that_is_full_beyond_it() {
        let buffer = filled(Order::Kept, 4, 0, 1..4);
        buffer.set_capacity(1);
        buffer.push(0, 0, must_not_wait).unwrap();
        let level = buffer.level();
        assert_eq!((level.items, level.capacity), (4, 1), "nothing was lost");
        assert_eq!(pop(&buffer), Some(0));
    }

    #[test]
    fn a_cancelled_buffer_drops_what_it_holds_and_takes_no_more() {
        let item = Arc::new(());
        let buffer = Arc::new(Buffer::new("test", Order::Kept, 2, 0));
        buffer.push(0, item.clone(), must_not_wait).unwrap();
        buffer.cancel();
        assert_eq!(Arc::strong_count(&item), 1);
        assert!(buffer.push(1, item, must_not_wait).is_err());
        assert_eq!(pop(&buffer), None);
    }

    #[test]
    fn waiting_for_a_level_ends_with_the_level_the_time_or_the_items() {
        let buffer = filled(Order::Kept, 2, 0, []);
        let full = |level: FillLevel| level.items == level.capacity;
        let (soon, late) = (Duration::from_millis(1), Duration::from_secs(1000));
        assert_eq!(buffer.wait_for(full, soon), Filled::TimeOver);
        buffer.push(0, 0, must_not_wait).unwrap();
        buffer.push(1, 1, must_not_wait).unwrap();
        assert_eq!(buffer.wait_for(full, late), Filled::Enough);
        assert_eq!(pop(&buffer), Some(0));
        buffer.close();
        assert_eq!(buffer.wait_for(full, soon), Filled::NoMore);
    }

    #[test]
    fn what_a_tap_has_in_hand_still_counts_against_the_capacity() {
        let buffer = filled(Order::Kept, 16, 0, 0..16);
        let mut tap = Tap::new(Arc::clone(&buffer));
        assert_eq!(tap.next(must_not_wait), Some(0));
        let level = buffer.level().items;
        assert_eq!(level, 15, "it took 0 and 1, and 1 still counts");
        assert_eq!(tap.next(must_not_wait), Some(1));
        assert_eq!(tap.next(must_not_wait), Some(2));
        assert_eq!(buffer.level().items, 13);
    }
}
