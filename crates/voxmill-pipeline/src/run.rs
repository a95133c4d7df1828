//! A road that is being run, as its consumer sees it: items come out, and however it ends, its threads
//! are joined.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use voxmill_telemetry::event::{Event, GateReason, Wait};
use voxmill_telemetry::plan::Plan;

use crate::assembly::Flow;
use crate::budget::Reservation;
use crate::buffer::{Filled, Level, Tap};
use crate::control::{Control, Shared};
use crate::counters::Snapshot;
use crate::item::{Content, Envelope, Failure, Hole};
use crate::meter::{Doing, Meter, Watch};
use crate::monitor::Monitor;
use crate::position::{Position, Progress};
use crate::slots::{Place, Training};

/// What the consumer gets for a number.
#[derive(Debug)]
pub enum Delivery<T> {
    Item(Delivered<T>),
    /// Nothing came of this number; it counts all the same.
    Hole(Hole),
}

/// An item in the consumer's hands. When it is dropped it is done: the position moves on, its bytes
/// and its slot are free.
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

    /// The item is done when the receipt is dropped.
    pub fn into_parts(self) -> (T, Receipt) {
        (self.item, self.receipt)
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

    /// The bytes that the item still holds.
    pub fn bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, Reservation::bytes)
    }

    /// The slot that the item is in.
    pub fn place(&self) -> Option<u32> {
        self.place.as_ref().map(Place::number)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        // A consumer that panicked did not do what it took.
        if !std::thread::panicking() {
            self.progress.mark_done(self.number);
        }
    }
}

/// Where the consumer's items come from.
enum Outlet<T> {
    Tap(Tap<Envelope<T>>),
    Inline(Box<dyn FnMut() -> Option<Envelope<T>> + Send>),
}

/// A road that is being run, as the consumer sees it: an iterator.
///
/// The consumer must let go of an item before it waits for the next (as a `for` loop does) or have
/// slots and a budget large enough for all that it holds: bytes that it keeps are bytes that nobody
/// else gets.
pub struct Running<T> {
    outlet: Outlet<T>,
    control: Control,
    progress: Arc<Progress>,
    watch: Watch,
    /// The number of the item that the consumer has in hand.
    in_hand: Option<u64>,
    gate_open: bool,
    ended: bool,
    monitor: Option<Monitor>,
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("plan", &self.control.shared.plan.name)
            .field("position", &self.progress.position())
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
            progress: Arc::new(Progress::from(position)),
            watch: Watch::new(Arc::clone(&consumer), lane, recorder),
            in_hand: None,
            gate_open: shared.plan.start_delay_seconds <= 0.0 || !shared.plan.overlap,
            control: Control { shared, consumer },
            ended: false,
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
        self.progress.position()
    }

    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot()
    }

    /// Takes everything that comes and drops it: for roads that end in a sink. How many items came,
    /// and the holes among them.
    pub fn finish(&mut self) -> Result<(u64, Vec<Hole>), Failure> {
        let (mut items, mut holes) = (0, Vec::new());
        for delivery in self {
            match delivery? {
                Delivery::Item(_) => items += 1,
                Delivery::Hole(hole) => holes.push(hole),
            }
        }
        Ok((items, holes))
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
        self.watch.waited(Some(since), Wait::Input, 0);
        self.control.recorder().record(Event::GateOpened {
            reason: match filled {
                Filled::Enough => GateReason::Full,
                Filled::NoMore => GateReason::AllReady,
                Filled::TimeOver => GateReason::Delay,
            },
            waited,
            ready: buffer.level().items as u64,
        });
    }

    fn take(&mut self) -> Option<Envelope<T>> {
        if self.control.shared.cancelled.load(SeqCst) {
            return None;
        }
        let watch = &self.watch;
        match &mut self.outlet {
            Outlet::Inline(take) => watch.waiting_for_input(take),
            Outlet::Tap(tap) => {
                let mut since = None;
                let envelope = tap.next(|| since = Some(watch.waits(Doing::Starved)))?;
                watch.waited(since, Wait::Input, envelope.number);
                watch.level(tap.buffer());
                Some(envelope)
            }
        }
    }

    fn deliver(&mut self, item: T, envelope: Envelope<()>) -> Delivery<T> {
        self.in_hand = Some(envelope.number);
        self.watch.item_begins();
        Delivery::Item(Delivered {
            item,
            receipt: Receipt {
                number: envelope.number,
                progress: Arc::clone(&self.progress),
                bytes: envelope.bytes,
                place: envelope.place.map(Place::train),
            },
        })
    }

    /// Ends all threads; each finishes the item in its hands first.
    fn end(&mut self) {
        self.ended = true;
        self.monitor = None;
        self.control.shared.cancel();
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
                Content::Hole(hole) => {
                    self.progress.mark_done(number);
                    return Some(Ok(Delivery::Hole(Hole { number, ..hole })));
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
