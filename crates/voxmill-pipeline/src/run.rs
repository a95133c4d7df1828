//! A pipeline that is being run, as its consumer sees it: items come out, and however it ends, its threads
//! are joined.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use voxmill_telemetry::event::{Event, GateReason, Wait};

use crate::assembly::Flow;
use crate::budget::Reservation;
use crate::buffer::{Filled, Level, Tap};
use crate::control::{Control, Shared};
use crate::counters::Snapshot;
use crate::item::{Content, Envelope, Failure, Gap};
use crate::meter::{Doing, Meter, Watch};
use crate::monitor::{Monitor, record_levels};
use crate::plan::Plan;
use crate::position::{Position, Progress};
use crate::slots::{Place, Training};

/// What the consumer gets for a number.
#[derive(Debug)]
pub enum Delivery<T> {
    Item(Delivered<T>),
    /// Nothing came of this number; it counts all the same.
    Gap(Gap),
}

/// An item in the consumer's hands. Dropping it frees its bytes and its slot; only
/// [`done`](Delivered::done) moves the position on, so a step that fails is not taken for done.
#[derive(Debug)]
pub struct Delivered<T> {
    item: T,
    receipt: Receipt,
}

/// The rest of a [`Delivered`] item when the item itself was taken out of it.
#[derive(Debug)]
pub struct Receipt {
    number: u64,
    progress: Arc<Progress>,
    bytes: Option<Reservation>,
    place: Option<Place<Training>>,
}

impl<T> Delivered<T> {
    pub fn number(&self) -> u64 {
        self.receipt.number
    }

    /// The item, and the receipt that says so when it is done.
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
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The item is done: a run that is resumed begins behind it.
    pub fn done(self) {
        self.progress.mark_done(self.number);
    }

    /// The bytes that the item still holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, Reservation::bytes)
    }

    /// The slot that the item is in.
    pub fn place(&self) -> Option<u32> {
        self.place.as_ref().map(Place::number)
    }
}

/// Where the consumer's items come from.
enum Outlet<T> {
    Tap(Tap<Envelope<T>>),
    Inline(Box<dyn FnMut() -> Option<Envelope<T>> + Send>),
    /// Nothing comes any more, and nothing is held any more.
    Ended,
}

/// A pipeline that is being run, as the consumer sees it: an iterator.
///
/// The consumer must let go of an item before it waits for the next (as a `for` loop does) or have
/// slots and a budget large enough for all that it holds: bytes that it keeps are bytes that nobody
/// else gets.
pub struct Running<T> {
    outlet: Outlet<T>,
    control: Control,
    watch: Watch,
    /// The number of the item that the consumer has in hand.
    in_hand: Option<u64>,
    gate_open: bool,
    ended: bool,
    cancelled_before_end: bool,
    monitor: Option<Monitor>,
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("plan", &self.control.shared.plan.name)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl<T> Running<T> {
    pub(crate) fn new(flow: Flow<T>, shared: Arc<Shared>, position: Position) -> Running<T> {
        let consumer = Arc::new(Meter::new());
        let recorder = shared.recorder.clone();
        let lane = recorder.lane(&shared.plan.consumer, 0);
        Running {
            outlet: match flow {
                Flow::Buffer(buffer) => Outlet::Tap(Tap::new(buffer)),
                Flow::Inline(take) => Outlet::Inline(take),
            },
            watch: Watch::new(Arc::clone(&consumer), lane, recorder),
            in_hand: None,
            gate_open: shared.plan.start_delay_seconds <= 0.0 || !shared.plan.overlap,
            control: Control {
                shared,
                consumer,
                progress: Arc::new(Progress::from(position)),
            },
            ended: false,
            cancelled_before_end: false,
            monitor: None,
        }
    }

    /// Starts the thread that adapts the run and records its levels, if there is anything for it to do.
    pub(crate) fn watch_over(&mut self) -> io::Result<()> {
        self.monitor = Monitor::start(&self.control)?;
        Ok(())
    }

    pub fn control(&self) -> Control {
        self.control.clone()
    }

    pub fn plan(&self) -> &Plan {
        &self.control.shared.plan
    }

    /// What is done so far: enough to resume.
    pub fn position(&self) -> Position {
        self.control.position()
    }

    /// Whether the items ended because the run was cancelled, not because there are no more.
    pub fn was_cancelled(&self) -> bool {
        self.cancelled_before_end
    }

    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot()
    }

    /// Takes everything that comes and counts it as done: for pipelines that end in a sink. How many items
    /// came, and the gaps among them.
    pub fn finish(&mut self) -> Result<(u64, Vec<Gap>), Failure> {
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
        let Outlet::Tap(tap) = &self.outlet else {
            return;
        };
        let buffer = tap.buffer();
        let plan = &self.control.shared.plan;
        let longest = Duration::from_secs_f64(plan.start_delay_seconds);
        let ahead = plan.slots.as_ref().map(|slots| slots.ahead.value);
        let full = |level: Level| level.items >= ahead.unwrap_or(level.capacity);
        let since = self.watch.waits(Doing::Starved);
        let filled = buffer.wait_for(full, longest);
        let waited = self.control.recorder().now().since(since);
        self.watch.waited(Some(since), Wait::Input, None);
        let reason = match filled {
            Filled::Enough => GateReason::Full,
            Filled::NoMore => GateReason::AllReady,
            Filled::TimeOver => GateReason::Delay,
            Filled::Cancelled => return,
        };
        self.control.recorder().record(Event::GateOpened {
            reason,
            waited,
            ready: buffer.level().items as u64,
        });
    }

    fn take(&mut self) -> Option<Envelope<T>> {
        if self.control.shared.is_cancelled() {
            return None;
        }
        let watch = &self.watch;
        match &mut self.outlet {
            Outlet::Inline(take) => watch.waiting_for_input(take),
            Outlet::Tap(tap) => {
                let mut since = None;
                let envelope = tap.next(|| since = Some(watch.waits(Doing::Starved)));
                let number = envelope.as_ref().map(|envelope| envelope.number);
                watch.waited(since, Wait::Input, number);
                watch.level(tap.buffer());
                envelope
            }
            Outlet::Ended => None,
        }
    }

    fn deliver(&mut self, item: T, envelope: Envelope<()>) -> Delivery<T> {
        self.in_hand = Some(envelope.number);
        self.watch.item_begins();
        Delivery::Item(Delivered {
            item,
            receipt: Receipt {
                number: envelope.number,
                progress: Arc::clone(&self.control.progress),
                bytes: envelope.bytes,
                place: envelope.place.map(Place::train),
            },
        })
    }

    /// Ends all threads; each finishes the item in its hands first. Whatever the run held is let go,
    /// also where somebody keeps a [`Control`].
    fn end(&mut self) {
        if let Some(number) = self.in_hand.take() {
            self.watch.item_ends(number);
        }
        self.monitor = None;
        // However short the run was, its log says how full things were.
        record_levels(&self.control, &self.control.snapshot());
        self.cancelled_before_end = self.control.shared.is_cancelled();
        self.control.shared.cancel();
        self.outlet = Outlet::Ended;
        self.ended = true;
        for thread in self.control.shared.stop_threads() {
            // A worker contains the panics of the caller's functions. Should it panic all the same,
            // there is nobody left to tell but the panic hook, which has spoken.
            let _ = thread.join();
        }
    }
}

impl<T> Iterator for Running<T> {
    type Item = Result<Delivery<T>, Failure>;

    /// `None` after the last item, after a failure, or when the run was cancelled; all threads are
    /// joined by then.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(number) = self.in_hand.take() {
            self.watch.item_ends(number);
        }
        if self.ended {
            return None;
        }
        if !self.gate_open {
            self.gate_open = true;
            self.open_gate();
        }
        loop {
            let Some(Envelope {
                number,
                content,
                bytes,
                place,
            }) = self.take()
            else {
                self.end();
                return None;
            };
            match content {
                Content::DoneBefore => {}
                Content::Gap(gap) => {
                    self.watch.passes();
                    self.control.progress.mark_done(number);
                    return Some(Ok(Delivery::Gap(Gap { number, ..gap })));
                }
                Content::Failed(failure) => {
                    self.end();
                    return Some(Err(failure));
                }
                Content::Item(item) => {
                    let rest = Envelope {
                        number,
                        content: Content::Item(()),
                        bytes,
                        place,
                    };
                    return Some(Ok(self.deliver(item, rest)));
                }
            }
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
