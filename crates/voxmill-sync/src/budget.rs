//! Bytes that may be in flight, in host memory or on a device.
//!
//! An item reserves its largest size before it is made, carries the reservation along, and releases
//! it when it is dropped; on the way it can only shrink. Requests are served in the order in which
//! they come, and a stage asks for its items in item order while it holds the right to take the next
//! one. If bytes were granted in the order of arrival at the budget instead, a later item could take
//! the bytes that an earlier one needs, and then wait for that earlier one forever.

use crate::primitives::{Arc, Mutex, MutexGuard, WaitList, lock, once, wait, wake};

/// Bytes that are asked for before they are used.
#[derive(Debug)]
pub struct Budget {
    name: String,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    limit: u64,
    in_use: u64,
    /// Reservations, even of no bytes, that continue without anything else being admitted. Not those
    /// of an unfinished group's members, nor that of slots.
    moving: usize,
    peak: u64,
    cancelled: bool,
    next_ticket: u64,
    now_serving: u64,
    waiting: WaitList<u64>,
}

/// Why bytes were not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the run was cancelled")]
    Cancelled,
    #[error("needs {need} bytes, and the whole budget `{budget}` is {limit} bytes")]
    TooLarge {
        budget: String,
        need: u64,
        limit: u64,
    },
    #[error(
        "needs {need} bytes, but of the {limit} bytes of the budget `{budget}` {parked} are held by \
         what cannot continue without it"
    )]
    Stuck {
        budget: String,
        need: u64,
        limit: u64,
        parked: u64,
    },
}

/// A result that is larger than what was reserved for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("takes {actual} bytes of the budget `{budget}`, and had reserved {reserved}")]
pub struct Outgrown {
    pub budget: String,
    pub reserved: u64,
    pub actual: u64,
}

/// How much of a budget is in use, and who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUsage {
    pub name: String,
    pub in_use: u64,
    pub limit: u64,
    /// The most that was ever in use.
    pub peak: u64,
}

/// Bytes that are taken until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    parked: bool,
}

impl Budget {
    /// All of it free.
    pub fn new(name: impl Into<String>, limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            name: name.into(),
            state: Mutex::new(BudgetState {
                limit,
                ..BudgetState::default()
            }),
        })
    }

    /// What it is called in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the bytes are free and everyone who asked before is served.
    /// `before_waiting` is called once if they are not free at once; it must not touch the budget.
    pub fn reserve(
        self: &Arc<Self>,
        bytes: u64,
        before_waiting: impl FnOnce(),
    ) -> Result<Reservation, Refused> {
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&self.state);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        loop {
            let turn = state.now_serving == ticket;
            if state.cancelled {
                return self.leave(state, Err(Refused::Cancelled));
            }
            if turn && let Some(outcome) = self.decide(&mut state, bytes) {
                return self.leave(state, outcome);
            }
            before_waiting();
            state = wait(&self.state, state, |s| &mut s.waiting, ticket, None);
        }
    }

    /// Takes the bytes if they are free now; a refusal otherwise, whatever it is that holds them.
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, Refused> {
        let mut state = lock(&self.state);
        let outcome = self.decide(&mut state, bytes);
        outcome.unwrap_or_else(|| self.stuck(&state, bytes))
    }

    /// `None`: bytes will come free, so waiting helps.
    fn decide(
        self: &Arc<Self>,
        state: &mut BudgetState,
        bytes: u64,
    ) -> Option<Result<Reservation, Refused>> {
        if bytes > state.limit {
            return Some(Err(Refused::TooLarge {
                budget: self.name.clone(),
                need: bytes,
                limit: state.limit,
            }));
        }
        // In use may be above the limit, where that was lowered in mid-run.
        if state.in_use.saturating_add(bytes) <= state.limit {
            return Some(Ok(self.grant(state, bytes)));
        }
        (state.moving == 0).then(|| self.stuck(state, bytes))
    }

    fn stuck(&self, state: &BudgetState, need: u64) -> Result<Reservation, Refused> {
        Err(Refused::Stuck {
            budget: self.name.clone(),
            need,
            limit: state.limit,
            parked: state.in_use,
        })
    }

    fn grant(self: &Arc<Self>, state: &mut BudgetState, bytes: u64) -> Reservation {
        state.in_use += bytes;
        state.peak = state.peak.max(state.in_use);
        state.moving += 1;
        Reservation {
            budget: Arc::clone(self),
            bytes,
            parked: false,
        }
    }

    /// For what needs no bytes but may be what others wait for: a gap that completes a group.
    pub fn reserve_nothing(self: &Arc<Self>) -> Reservation {
        self.grant(&mut lock(&self.state), 0)
    }

    /// The one being served goes, with what it got; the next in line is woken.
    fn leave(
        &self,
        mut state: MutexGuard<'_, BudgetState>,
        outcome: Result<Reservation, Refused>,
    ) -> Result<Reservation, Refused> {
        state.now_serving += 1;
        self.wake_next(state);
        outcome
    }

    /// Releases the lock and wakes the one whose turn it is.
    fn wake_next(&self, mut state: MutexGuard<'_, BudgetState>) {
        let serving = state.now_serving;
        let next = state.waiting.take_first(|&ticket| ticket == serving);
        drop(state);
        wake(next);
    }

    /// May be called at any time. A lower limit takes nothing away; it only lets nobody in until
    /// enough has come free.
    pub fn set_limit(&self, limit: u64) {
        self.change(|state| state.limit = limit);
    }

    /// Everyone who waits gets [`Refused::Cancelled`].
    pub fn cancel(&self) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        let all = state.waiting.take_all();
        drop(state);
        wake(all);
    }

    /// At this moment.
    pub fn usage(&self) -> BudgetUsage {
        let state = lock(&self.state);
        BudgetUsage {
            name: self.name.clone(),
            in_use: state.in_use,
            limit: state.limit,
            peak: state.peak,
        }
    }

    /// After any change, the one whose turn it is checks again.
    fn change(&self, change: impl FnOnce(&mut BudgetState)) {
        let mut state = lock(&self.state);
        change(&mut state);
        self.wake_next(state);
    }
}

impl Reservation {
    /// How many it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases what the item turned out not to need.
    pub fn shrink_to(&mut self, bytes: u64) -> Result<(), Outgrown> {
        let Some(surplus) = self.bytes.checked_sub(bytes) else {
            return Err(Outgrown {
                budget: self.budget.name.clone(),
                reserved: self.bytes,
                actual: bytes,
            });
        };
        self.bytes = bytes;
        if surplus > 0 {
            self.budget.change(|state| state.in_use -= surplus);
        }
        Ok(())
    }

    /// Sets whether these bytes can only come free once further items are admitted. When all
    /// reservations are of that kind, a request that does not fit is refused instead of waiting.
    pub fn set_parked(&mut self, parked: bool) {
        if parked != self.parked {
            self.budget.change(|state| match parked {
                true => state.moving -= 1,
                false => state.moving += 1,
            });
            self.parked = parked;
        }
    }

    /// Two reservations of the same budget become one.
    pub fn merge(&mut self, mut other: Reservation) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        other.set_parked(self.parked);
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (bytes, moving) = (self.bytes, usize::from(!self.parked));
        self.budget.change(|state| {
            state.in_use -= bytes;
            state.moving -= moving;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must_not_wait() {
        panic!("there is no need to wait");
    }

    #[test]
    fn bytes_are_released_when_a_reservation_shrinks_or_is_dropped() {
        let budget = Budget::new("host", 10);
        let mut first = budget.reserve(8, must_not_wait).unwrap();
        first.shrink_to(3).unwrap();
        let second = budget.reserve(7, must_not_wait).unwrap();
        assert!(first.bytes() == 3 && second.bytes() == 7);
        drop((first, second));
        let usage = budget.usage();
        assert_eq!((usage.in_use, usage.peak, usage.limit), (0, 10, 10));
    }

    #[test]
    fn a_reservation_cannot_grow() {
        let budget = Budget::new("host", 10);
        let mut small = budget.reserve(2, must_not_wait).unwrap();
        let error = small.shrink_to(3).unwrap_err();
        let message = "takes 3 bytes of the budget `host`, and had reserved 2";
        assert_eq!(error.to_string(), message);
        assert_eq!(small.bytes(), 2);
    }

    #[test]
    fn more_than_the_limit_is_refused_at_once() {
        let budget = Budget::new("host", 10);
        let refused = budget.reserve(11, must_not_wait).unwrap_err();
        let message = "needs 11 bytes, and the whole budget `host` is 10 bytes";
        assert_eq!(refused.to_string(), message);
        assert!(budget.reserve(u64::MAX, must_not_wait).is_err());
        assert_eq!(budget.usage().in_use, 0);
    }

    #[test]
    fn try_reserve_does_not_wait() {
        let budget = Budget::new("host", 10);
        let _held = budget.try_reserve(6).unwrap();
        assert!(matches!(budget.try_reserve(5), Err(Refused::Stuck { .. })));
        assert!(budget.try_reserve(4).is_ok());
    }

    #[test]
    fn merged_reservations_are_as_parked_as_the_one_that_stays() {
        let budget = Budget::new("host", 3);
        for parked in [false, true] {
            let mut sum = budget.reserve(1, must_not_wait).unwrap();
            sum.set_parked(parked);
            let mut other = budget.reserve(2, must_not_wait).unwrap();
            other.set_parked(!parked);
            sum.merge(other);
            assert_eq!((sum.bytes(), budget.usage().in_use), (3, 3));
            sum.set_parked(true);
            // Nothing moves: it is refused instead of waiting.
            let refused = budget.reserve(1, must_not_wait).unwrap_err();
            assert!(matches!(refused, Refused::Stuck { parked: 3, .. }));
            drop(sum);
            assert_eq!(budget.usage().in_use, 0);
        }
    }

    #[test]
    fn a_lower_limit_takes_nothing_away() {
        let budget = Budget::new("host", 10);
        let held = budget.reserve(10, must_not_wait).unwrap();
        budget.set_limit(4);
        assert_eq!(budget.usage().in_use, 10);
        assert!(budget.try_reserve(1).is_err());
        drop(held);
        assert!(budget.try_reserve(4).is_ok());
    }
}
