//! A pipeline that is being run, as its consumer sees it: items come out, and however it ends, its threads
//! are joined.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use voxmill_sync::lock;
use voxmill_telemetry::event::{Event, GateReason, Wait};

use crate::assembly::Flow;
use crate::budget::Reservation;
use crate::buffer::{FillLevel, Filled};
use crate::control::{Control, RunShared};
use crate::counters::RunSnapshot;
use crate::item::{Content, Envelope, Gap, RunFailure};
use crate::meter::{Doing, Meter, Watch};
use crate::monitor::{Monitor, record_levels};
use crate::plan::Plan;
use crate::resume::ResumePoint;
use crate::slots::{Slot, Training};

/// What the consumer gets for a number.
#[derive(Debug)]
pub enum Delivery<T> {
    Item(Delivered<T>),
    /// Nothing came of this number; it counts all the same.
    Gap(Gap),
}

/// An item in the consumer's hands. Dropping it frees its bytes and its slot; only
/// [`done`](Delivered::done) moves the resume point, so a step that fails is not taken for done.
#[derive(Debug)]
pub struct Delivered<T> {
    item: T,
    receipt: Receipt,
}

/// The rest of a [`Delivered`] item when the item itself was taken out of it.
#[derive(Debug)]
pub struct Receipt {
    number: u64,
    done: Arc<Mutex<ResumePoint>>,
    bytes: Option<Reservation>,
    slot: Option<Slot<Training>>,
}

impl<T> Delivered<T> {
    /// Which item it is, or would have been.
    pub fn number(&self) -> u64 {
        self.receipt.number
    }

    /// The item, and the receipt that marks it as done.
    pub fn into_parts(self) -> (T, Receipt) {
        (self.item, self.receipt)
    }

    /// The item is done: a run that is resumed begins behind it.
    pub fn done(self) {
        let Delivered { item, receipt } = self;
        // Its bytes are free when they are, not before.
        drop(item);
        receipt.done();
    }
}

impl<T> Deref for Delivered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> DerefMut for Delivered<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.item
    }
}

impl Receipt {
    /// The item is done: a run that is resumed begins behind it.
    pub fn done(self) {
        lock(&self.done).mark_done(self.number);
    }

    /// The item is gone, and may be done later: its bytes and its slot are for others.
    pub fn release(&mut self) {
        (self.bytes, self.slot) = (None, None);
    }

    /// The bytes that the item still holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, Reservation::bytes)
    }

    /// The slot that the item is in.
    pub fn place(&self) -> Option<u32> {
        self.slot.as_ref().map(Slot::number)
    }
}

/// A pipeline that is being run, as the consumer sees it: an iterator.
///
/// The consumer must drop an item before it waits for the next (as a `for` loop does) or have
/// slots and a budget large enough for all that it holds: bytes that it keeps are bytes that nobody
/// else gets.
pub struct Running<T> {
    /// Nothing once the run has ended: nothing is held any more.
    flow: Option<Flow<T>>,
    pub(crate) control: Control,
    watch: Watch,
    /// The number of the item that the consumer has in hand.
    in_hand: Option<u64>,
    gate_open: bool,
    cancelled_before_end: bool,
    /// Adapts the run and records its levels, if there is anything for it to do.
    pub(crate) monitor: Option<Monitor>,
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("plan", &self.control.shared.plan.name)
            .field("resume_point", &self.resume_point())
            .finish_non_exhaustive()
    }
}

impl<T> Running<T> {
    pub(crate) fn new(flow: Flow<T>, shared: Arc<RunShared>, from: ResumePoint) -> Running<T> {
        let consumer = Arc::<Meter>::default();
        let recorder = shared.recorder.clone();
        let lane = recorder.lane(&shared.plan.consumer, 0);
        Running {
            flow: Some(flow),
            watch: Watch::new(Arc::clone(&consumer), lane, recorder),
            in_hand: None,
            gate_open: shared.plan.start_delay_seconds <= 0.0 || !shared.plan.overlap,
            control: Control {
                shared,
                consumer,
                done: Arc::new(Mutex::new(from)),
            },
            cancelled_before_end: false,
            monitor: None,
        }
    }

    /// What changes workers and buffers while it runs.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The plan that it runs by.
    pub fn plan(&self) -> &Plan {
        &self.control.shared.plan
    }

    /// What is done so far: enough to resume.
    pub fn resume_point(&self) -> ResumePoint {
        self.control.resume_point()
    }

    /// Whether the items ended because the run was cancelled, not because there are no more.
    pub fn was_cancelled(&self) -> bool {
        self.cancelled_before_end
    }

    /// What all stages have done so far.
    pub fn snapshot(&self) -> RunSnapshot {
        self.control.snapshot()
    }

    /// Takes everything that comes and counts it as done: for pipelines that end in a sink. How many items
    /// came, and the gaps among them.
    pub fn finish(&mut self) -> Result<(u64, Vec<Gap>), RunFailure> {
        let (mut items, mut gaps) = (0, Vec::new());
        for delivery in self {
            match delivery? {
                Delivery::Item(item) => {
                    item.done();
                    items += 1;
                }
                Delivery::Gap(gap) => gaps.push(gap),
            }
        }
        Ok((items, gaps))
    }

    fn open_gate(&mut self) {
        let Some(Flow::Tap(tap)) = &self.flow else {
            return;
        };
        let buffer = tap.buffer();
        let plan = &self.control.shared.plan;
        let longest = Duration::from_secs_f64(plan.start_delay_seconds);
        let ahead = plan.slots.as_ref().map(|slots| slots.ahead.value);
        let full = |level: FillLevel| level.items >= ahead.unwrap_or(level.capacity);
        let since = self.watch.now(Doing::Starved);
        let filled = buffer.wait_for(full, longest);
        let waited = self.control.shared.recorder.now().since(since);
        self.watch.waited(Some(since), Wait::Input, None);
        let reason = match filled {
            Filled::Enough => GateReason::Full,
            Filled::NoMore => GateReason::AllReady,
            Filled::TimeOver => GateReason::Delay,
            Filled::Cancelled => return,
        };
        self.control.shared.recorder.record(Event::GateOpened {
            reason,
            waited,
            ready: buffer.level().items as u64,
        });
    }

    fn take(&mut self) -> Option<Envelope<T>> {
        if self.control.shared.is_cancelled() {
            return None;
        }
        self.flow.as_mut()?.next(&self.watch)
    }

    /// Ends all threads; each finishes the item in its hands first. Whatever the run held is released,
    /// also where somebody keeps a [`Control`].
    fn end(&mut self) {
        if let Some(number) = self.in_hand.take() {
            self.watch.item_ends(number);
        }
        self.monitor = None;
        // However short the run was, its log records how full things were.
        record_levels(&self.control, &self.control.snapshot());
        self.cancelled_before_end = self.control.shared.is_cancelled();
        self.control.shared.cancel();
        self.flow = None;
        for thread in self.control.shared.stop_threads() {
            // A worker contains the panics of the caller's functions. Should it panic all the same,
            // the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

impl<T> Iterator for Running<T> {
    type Item = Result<Delivery<T>, RunFailure>;

    /// `None` after the last item, after a failure, or when the run was cancelled; all threads are
    /// joined by then.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(number) = self.in_hand.take() {
            self.watch.item_ends(number);
        }
        self.flow.as_ref()?;
        if !self.gate_open {
            self.gate_open = true;
            self.open_gate();
        }
        loop {
            let Some(envelope) = self.take() else {
                self.end();
                return None;
            };
            let number = envelope.number;
            match envelope.content {
                Content::DoneBefore => {}
                Content::Gap(gap) => {
                    self.watch.passes();
                    lock(&self.control.done).mark_done(number);
                    return Some(Ok(Delivery::Gap(Gap { number, ..gap })));
                }
                Content::Failed(failure) => {
                    self.end();
                    return Some(Err(failure));
                }
                Content::Item(item) => {
                    self.in_hand = Some(number);
                    self.watch.item_begins();
                    let receipt = Receipt {
                        number,
                        done: Arc::clone(&self.control.done),
                        bytes: envelope.bytes,
                        slot: envelope.slot.map(Slot::train),
                    };
                    return Some(Ok(Delivery::Item(Delivered { item, receipt })));
                }
            }
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if self.flow.is_some() {
            self.end();
        }
    }
}
