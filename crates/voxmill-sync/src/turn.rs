//! A value that one thread at a time may have, for as long as it likes.
//!
//! Unlike a mutex it may be held while its holder sleeps, and handing it back wakes at most one of those
//! who wait, and none while one is already on its way: where turns are short, waking somebody for each
//! of them would cost more than the turns.

use std::ops::{Deref, DerefMut};

use crate::primitives::{Hint, Mutex, WaitList, lock, once, spin_until, wait, wake};

/// A value that one thread at a time has.
#[derive(Debug)]
pub struct Turnstile<T> {
    state: Mutex<TurnState<T>>,
    is_free: Hint,
}

#[derive(Debug)]
struct TurnState<T> {
    /// `None` while somebody has it.
    value: Option<T>,
    waiting: WaitList<()>,
    /// One who waited was woken and has not looked yet.
    somebody_comes: bool,
}

/// The value, until this is dropped.
#[derive(Debug)]
pub struct Turn<'a, T> {
    turnstile: &'a Turnstile<T>,
    value: Option<T>,
}

impl<T> Turnstile<T> {
    /// Nobody has it yet.
    pub fn new(value: T) -> Turnstile<T> {
        Turnstile {
            state: Mutex::new(TurnState {
                value: Some(value),
                waiting: WaitList::default(),
                somebody_comes: false,
            }),
            is_free: Hint::new(1),
        }
    }

    /// Waits until nobody else has it. `before_waiting` is called once if somebody has.
    pub fn take(&self, before_waiting: impl FnOnce()) -> Turn<'_, T> {
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&self.state);
        if state.value.is_none() {
            drop(state);
            spin_until(|| self.is_free.get() == 1);
            state = lock(&self.state);
        }
        while state.value.is_none() {
            before_waiting();
            state = wait(&self.state, state, |s| &mut s.waiting, (), None);
            // Whoever was on its way is here; the next to hand back wakes another.
            state.somebody_comes = false;
        }
        self.is_free.set(0);
        Turn {
            turnstile: self,
            value: state.value.take(),
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.turnstile.state);
        state.value = self.value.take();
        self.turnstile.is_free.set(1);
        let next = match state.somebody_comes {
            true => None,
            false => state.waiting.take_first(|()| true),
        };
        state.somebody_comes |= next.is_some();
        drop(state);
        wake(next);
    }
}

const HELD: &str = "it is only handed back at the end";

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(HELD)
    }
}
