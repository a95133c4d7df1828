//! Where a worker's time goes, kept by the worker itself and readable at any moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use voxmill_sync::lock;
use voxmill_telemetry::event::{Nanos, Wait};
use voxmill_telemetry::recorder::{Lane, Recorder};

use crate::buffer::{Buffer, Tap};
use crate::counters::StageCounters;
use crate::item::Envelope;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    Working = 0,
    Starved = 1,
    ShortOfRoom = 2,
    Blocked = 3,
    /// Not there (any more).
    #[default]
    Nothing = 4,
}

/// Where one worker's time went.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    items: AtomicU64,
    /// Changes only where the worker waits anyhow, so a lock costs nothing that shows.
    time: Mutex<TimeTotals>,
}

#[derive(Debug, Default)]
struct TimeTotals {
    doing: Doing,
    since: Nanos,
    totals: [Nanos; 5],
}

impl Meter {
    pub(crate) fn now_doing(&self, doing: Doing, now: Nanos) {
        let mut time = lock(&self.time);
        let (before, span) = (time.doing as usize, now.since(time.since));
        time.totals[before] = time.totals[before] + span;
        time.since = now;
        time.doing = doing;
    }

    pub(crate) fn item_done(&self) {
        // Only the worker itself counts up.
        self.items.store(self.items.load(Relaxed) + 1, Relaxed);
    }

    /// Adds this worker's counts to its stage's, with what it is doing now up to now.
    pub(crate) fn add_to(&self, counters: &mut StageCounters, now: Nanos) {
        let time = lock(&self.time);
        let total = |doing: Doing| {
            let so_far = match time.doing == doing {
                true => now.since(time.since),
                false => Nanos(0),
            };
            (time.totals[doing as usize] + so_far).duration()
        };
        counters.items += self.items.load(Relaxed);
        counters.working += total(Doing::Working);
        counters.starved += total(Doing::Starved);
        counters.short_of_room += total(Doing::ShortOfRoom);
        counters.blocked += total(Doing::Blocked);
    }
}

/// How a worker keeps time: its meter learns what it is doing, its lane what took how long.
#[derive(Debug)]
pub(crate) struct Watch {
    meter: Arc<Meter>,
    lane: Lane,
    recorder: Recorder,
    started: Nanos,
}

impl Watch {
    pub(crate) fn new(meter: Arc<Meter>, lane: Lane, recorder: Recorder) -> Watch {
        let now = recorder.now();
        meter.now_doing(Doing::Working, now);
        Watch {
            meter,
            lane,
            recorder,
            started: now,
        }
    }

    /// From now on the worker does this. A wait ends with [`Watch::waited`].
    pub(crate) fn now(&self, doing: Doing) -> Nanos {
        let now = self.recorder.now();
        self.meter.now_doing(doing, now);
        now
    }

    /// Ends the wait that began at `since`, if there was one.
    pub(crate) fn waited(&self, since: Option<Nanos>, wait: Wait, item: Option<u64>) {
        if let Some(since) = since {
            let now = self.now(Doing::Working);
            self.lane.wait(wait, item, since, now.since(since));
        }
    }

    /// Lets the stage before do its work on this thread.
    pub(crate) fn waiting_for_input<T>(
        &self,
        take: &mut dyn FnMut() -> Option<Envelope<T>>,
    ) -> Option<Envelope<T>> {
        let since = self.now(Doing::Starved);
        let envelope = take();
        let number = envelope.as_ref().map(|envelope| envelope.number);
        self.waited(Some(since), Wait::Input, number);
        envelope
    }

    /// The next item of the buffer before.
    pub(crate) fn next_of<T>(&self, tap: &mut Tap<Envelope<T>>) -> Option<Envelope<T>> {
        let mut since = None;
        let envelope = tap.next(|| since = Some(self.now(Doing::Starved)));
        let number = envelope.as_ref().map(|envelope| envelope.number);
        self.waited(since, Wait::Input, number);
        self.level(tap.buffer());
        envelope
    }

    /// Asks for room for an item; `ask` gets what is to be called before it waits.
    pub(crate) fn asks_for_room<R>(
        &self,
        wait: Wait,
        item: u64,
        ask: impl FnOnce(&mut dyn FnMut()) -> R,
    ) -> R {
        let mut since = None;
        let answer = ask(&mut || since = Some(self.now(Doing::ShortOfRoom)));
        self.waited(since, wait, Some(item));
        answer
    }

    /// The level of a buffer that was just moved, where every move is wanted.
    pub(crate) fn level<T>(&self, buffer: &Buffer<T>) {
        if self.recorder.is_detailed() {
            let level = buffer.level();
            let (items, capacity) = (level.items as u64, level.capacity as u64);
            let now = self.recorder.now();
            self.lane.level(buffer.name(), now, items, capacity);
        }
    }

    /// An envelope that needs no work went by.
    pub(crate) fn passes(&self) {
        self.meter.item_done();
    }

    pub(crate) fn item_begins(&mut self) {
        if self.recorder.is_on() {
            self.started = self.recorder.now();
        }
    }

    pub(crate) fn item_ends(&self, item: u64) {
        self.meter.item_done();
        if self.recorder.is_on() {
            let now = self.recorder.now();
            self.lane.item(item, self.started, now.since(self.started));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.now(Doing::Nothing);
    }
}
