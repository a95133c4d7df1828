//! The right to take the next item.
//!
//! One worker of a stage at a time takes an item and asks for the room it needs; the others wait for
//! the right to do so. That is what makes bytes be granted in item order.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use voxmill_telemetry::event::Wait;

use crate::buffer::Tap;
use crate::item::Envelope;
use crate::meter::Doing;
use crate::stage::{Admission, Worker};
use crate::turn::Turnstile;

pub(crate) struct Intake<T> {
    right: Turnstile<Tap<Envelope<T>>>,
    /// Whoever has the right waits for room, not for an item.
    asks_for_room: AtomicBool,
}

impl<T: 'static> Intake<T> {
    pub(crate) fn new(input: Tap<Envelope<T>>) -> Intake<T> {
        Intake {
            right: Turnstile::new(input),
            asks_for_room: AtomicBool::new(false),
        }
    }

    /// The next item with the room it needs; `None` when no more will come.
    pub(crate) fn take<U: 'static>(&self, worker: &Worker<T, U>) -> Option<Admission<T, U>> {
        let mut since = None;
        let mut wait = Wait::Input;
        let mut tap = self.right.take(|| {
            // Charged to what the one before waits for.
            let doing = if self.asks_for_room.load(Relaxed) {
                wait = worker.stage.room();
                Doing::ShortOfRoom
            } else {
                Doing::Starved
            };
            since = Some(worker.watch.now(doing));
        });
        let envelope = tap.next(|| {
            let now = worker.watch.now(Doing::Starved);
            since.get_or_insert(now);
        })?;
        worker.watch.waited(since, wait, Some(envelope.number));
        worker.watch.level(tap.buffer());
        if !worker.stage.needs_room() {
            drop(tap);
            return Some(worker.ask(envelope, true));
        }
        self.asks_for_room.store(true, Relaxed);
        let admission = worker.ask(envelope, true);
        self.asks_for_room.store(false, Relaxed);
        Some(admission)
    }
}
