//! A thing that one thread at a time may have, for as long as it likes.
//!
//! Unlike a mutex it may be held while its holder sleeps, and handing it back wakes at most one of those
//! who wait, and none while one is already on its way: where turns are short, waking somebody for each
//! of them would cost more than the turns.

use std::ops::{Deref, DerefMut};

use crate::primitives::{AtomicBool, Mutex, Ordering::Relaxed, Waiting};
use crate::primitives::{lock, once, spin_until, thread, wake};

#[derive(Debug)]
pub struct Turnstile<T> {
    state: Mutex<State<T>>,
    /// What can be seen without the lock. Only a hint.
    free: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    /// Gone while somebody has it.
    thing: Option<T>,
    waiting: Waiting<()>,
    /// One who waited was woken and has not looked yet.
    somebody_comes: bool,
}

/// The thing, until this is dropped.
#[derive(Debug)]
pub struct Turn<'a, T> {
    turnstile: &'a Turnstile<T>,
    thing: Option<T>,
}

impl<T> Turnstile<T> {
    pub fn new(thing: T) -> Turnstile<T> {
        Turnstile {
            state: Mutex::new(State {
                thing: Some(thing),
                waiting: Waiting::new(),
                somebody_comes: false,
            }),
            free: AtomicBool::new(true),
        }
    }

    /// Waits until nobody else has it. `before_waiting` is called once if somebody has.
    pub fn take(&self, before_waiting: impl FnOnce()) -> Turn<'_, T> {
        let mut before_waiting = once(before_waiting);
        let mut state = lock(&self.state);
        if state.thing.is_none() {
            drop(state);
            spin_until(|| self.free.load(Relaxed));
            state = lock(&self.state);
        }
        while state.thing.is_none() {
            before_waiting();
            state.waiting.register(());
            drop(state);
            thread::park();
            state = lock(&self.state);
            state.waiting.forget_this_thread();
            // Whoever was on its way is here; the next to hand back wakes another.
            state.somebody_comes = false;
        }
        self.free.store(false, Relaxed);
        Turn {
            turnstile: self,
            thing: state.thing.take(),
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.turnstile.state);
        state.thing = self.thing.take();
        self.turnstile.free.store(true, Relaxed);
        let next = match state.somebody_comes {
            true => None,
            false => state.waiting.take_first(|()| true),
        };
        state.somebody_comes |= next.is_some();
        drop(state);
        wake(next);
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.thing {
            Some(thing) => thing,
            None => unreachable!("it is only handed back at the end"),
        }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.thing {
            Some(thing) => thing,
            None => unreachable!("it is only handed back at the end"),
        }
    }
}
