//! Where a worker's time goes, kept by the worker itself and readable at any moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use voxmill_sync::lock;
use voxmill_telemetry::event::{Nanos, Wait};
use voxmill_telemetry::recorder::{Lane, Recorder};

use crate::buffer::Buffer;
use crate::counters::StageCounters;
use crate::item::Envelope;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Working = 0,
    Starved = 1,
    ShortOfRoom = 2,
    Blocked = 3,
    /// Not there (any more).
    Nothing = 4,
}

/// Where one worker's time went.
#[derive(Debug)]
pub(crate) struct Meter {
    items: AtomicU64,
    /// Changes only where the worker waits anyhow, so a lock costs nothing that shows.
    time: Mutex<Time>,
}

#[derive(Debug)]
struct Time {
    doing: Doing,
    since: Nanos,
    totals: [Nanos; 5],
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            items: AtomicU64::new(0),
            time: Mutex::new(Time {
                doing: Doing::Nothing,
                since: Nanos(0),
                totals: [Nanos(0); 5],
            }),
        }
    }

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

/// A worker's pen: tells its meter what it is doing and its lane what took how long.
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

    /// A stage that is called works from here on …
    pub(crate) fn on_duty(&self) {
        let now = self.recorder.now();
        self.meter.now_doing(Doing::Working, now);
    }

    /// … until here; what its caller does then is not its time.
    pub(crate) fn off_duty(&self) {
        let now = self.recorder.now();
        self.meter.now_doing(Doing::Nothing, now);
    }

    /// Begins a wait; call [`Watch::waited`] when it is over.
    pub(crate) fn waits(&self, doing: Doing) -> Nanos {
        let now = self.recorder.now();
        self.meter.now_doing(doing, now);
        now
    }

    /// Ends the wait that began at `since`, if there was one.
    pub(crate) fn waited(&self, since: Option<Nanos>, wait: Wait, item: Option<u64>) {
        if let Some(since) = since {
            let now = self.recorder.now();
            self.meter.now_doing(Doing::Working, now);
            self.lane.wait(wait, item, since, now.since(since));
        }
    }

    /// Lets the stage before do its work on this thread.
    pub(crate) fn waiting_for_input<T>(
        &self,
        take: &mut dyn FnMut() -> Option<Envelope<T>>,
    ) -> Option<Envelope<T>> {
        let since = self.waits(Doing::Starved);
        let envelope = take();
        let number = envelope.as_ref().map(|envelope| envelope.number);
        self.waited(Some(since), Wait::Input, number);
        envelope
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

    /// Something went by that needs no work.
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
        self.meter.now_doing(Doing::Nothing, self.recorder.now());
    }
}
