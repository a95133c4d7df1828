//! The buffer between two stages and the tap behind it, by the rules of `voxmill_sync::buffer`.

use std::collections::VecDeque;

use voxmill_telemetry::plan::Order;

/// An item on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) number: u64,
    /// Bytes of the budget that its stage is in.
    pub(super) held: u64,
}

/// A tap takes this share of a large buffer at once.
const TAKEN_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct Belt {
    order: Order,
    capacity: usize,
    queue: VecDeque<Option<Item>>,
    front: u64,
    filled: usize,
    /// What the tap took and has not come back from.
    in_tap: usize,
    in_hand: VecDeque<Item>,
    /// Items that ever came in.
    pub(super) came: u64,
    pub(super) peak: usize,
}

impl Belt {
    pub(super) fn new(order: Order, capacity: usize) -> Belt {
        Belt {
            order,
            capacity,
            queue: VecDeque::new(),
            front: 0,
            filled: 0,
            in_tap: 0,
            in_hand: VecDeque::new(),
            came: 0,
            peak: 0,
        }
    }

    pub(super) fn level(&self) -> usize {
        self.filled + self.in_tap
    }

    pub(super) fn is_full(&self) -> bool {
        self.level() >= self.capacity
    }

    pub(super) fn has_room_for(&self, number: u64) -> bool {
        match self.order {
            Order::Kept => number + (self.in_tap as u64) < self.front + self.capacity as u64,
            Order::Free => self.level() < self.capacity,
        }
    }

    pub(super) fn push(&mut self, item: Item) {
        self.came += 1;
        self.filled += 1;
        self.peak = self.peak.max(self.level());
        match self.order {
            Order::Free => self.queue.push_back(Some(item)),
            Order::Kept => {
                let place = (item.number - self.front) as usize;
                while self.queue.len() <= place {
                    self.queue.push_back(None);
                }
                self.queue[place] = Some(item);
            }
        }
    }

    /// The next item, and whether room came free.
    pub(super) fn take(&mut self) -> (Option<Item>, bool) {
        if let Some(item) = self.in_hand.pop_front() {
            return (Some(item), false);
        }
        let freed = std::mem::take(&mut self.in_tap) > 0;
        let most = (self.capacity / TAKEN_AT_ONCE).max(1);
        while self.in_hand.len() < most
            && let Some(Some(item)) = self.queue.front().copied()
        {
            self.queue.pop_front();
            self.front += 1;
            self.filled -= 1;
            self.in_hand.push_back(item);
        }
        self.in_tap = self.in_hand.len().saturating_sub(1);
        let item = self.in_hand.pop_front();
        (item, freed || item.is_some())
    }
}
