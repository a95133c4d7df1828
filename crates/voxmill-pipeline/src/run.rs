//! A road that is being run: items come out, its workers and buffers can be changed, and however it
//! ends, its threads are joined.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use voxmill_telemetry::event::{Event, GateReason, Wait};
use voxmill_telemetry::plan::Plan;
use voxmill_telemetry::recorder::Recorder;

use crate::assembly::Flow;
use crate::budget::{Budget, Reservation};
use crate::buffer::{Buffer, Filled, Level, Tap};
use crate::counters::{BudgetCounters, Snapshot, StageCounters};
use crate::item::{Content, Envelope, Failure, Hole};
use crate::meter::{Doing, Meter, Watch};
use crate::monitor::Monitor;
use crate::pool::Pool;
use crate::position::{Position, Progress};
use crate::slots::{Place, Slots, Training};

/// A buffer, whatever is in it.
pub(crate) trait AnyBuffer: Send + Sync {
    fn level(&self) -> Level;
    fn set_capacity(&self, capacity: usize);
    fn cancel(&self);
}

impl<T: Send> AnyBuffer for Buffer<T> {
    fn level(&self) -> Level {
        Buffer::level(self)
    }

    fn set_capacity(&self, capacity: usize) {
        Buffer::set_capacity(self, capacity);
    }

    fn cancel(&self) {
        Buffer::cancel(self);
    }
}

pub(crate) struct StageHandle {
    pub(crate) name: String,
    pub(crate) pool: Option<Arc<Pool>>,
    /// The meter of a stage that has no threads.
    pub(crate) inline: Option<Arc<Meter>>,
    pub(crate) buffer: Option<Arc<dyn AnyBuffer>>,
}

/// What all who have to do with a run share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) recorder: Recorder,
    pub(crate) stages: Vec<StageHandle>,
    /// Stages that have one worker by their nature.
    pub(crate) single: Vec<usize>,
    pub(crate) budgets: Vec<Arc<Budget>>,
    pub(crate) slots: Option<Arc<Slots>>,
    /// For a road without buffers, which has nobody else to ask.
    pub(crate) cancelled: AtomicBool,
}

impl Shared {
    fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
        // From the end: nobody may take for the end of the road what is only the end of the run, and
        // get a batch that is not whole for the last one.
        for stage in self.stages.iter().rev() {
            if let Some(buffer) = &stage.buffer {
                buffer.cancel();
            }
        }
        for budget in &self.budgets {
            budget.cancel();
        }
        if let Some(slots) = &self.slots {
            slots.cancel();
        }
    }

    fn stop_threads(&self) -> Vec<JoinHandle<()>> {
        let pools = self.stages.iter().filter_map(|stage| stage.pool.as_ref());
        pools.flat_map(|pool| pool.stop()).collect()
    }
}

/// Why a change was refused.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("there is no stage `{name}`")]
    NoStage { name: String },
    #[error("there is no budget `{name}`")]
    NoBudget { name: String },
    #[error("stage `{name}` has one worker by its nature")]
    OneWorkerOnly { name: String },
    #[error("the stages run one after another: there are no workers or buffers to change")]
    NoOverlap,
    #[error("slots bound what is behind stage `{name}`, not a buffer")]
    Slots { name: String },
    #[error("a stage needs a worker, a buffer room for an item, and a budget bytes")]
    Zero,
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Changes a run from outside. Clones control the same run.
#[derive(Clone)]
pub struct Control {
    shared: Arc<Shared>,
    consumer: Arc<Meter>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("plan", &self.shared.plan.name)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Ends the run: items in hand are finished and dropped, and the consumer sees the end.
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    pub fn set_workers(&self, stage: &str, workers: usize) -> Result<(), ChangeError> {
        let (index, handle) = self.stage(stage, workers)?;
        if self.shared.single.contains(&index) {
            return Err(ChangeError::OneWorkerOnly { name: stage.into() });
        }
        let pool = handle.pool.as_ref().ok_or(ChangeError::NoOverlap)?;
        pool.set_workers(workers).map_err(ChangeError::Thread)
    }

    pub fn set_capacity(&self, stage: &str, items: usize) -> Result<(), ChangeError> {
        let (index, handle) = self.stage(stage, items)?;
        if self.shared.slots.is_some() && index + 1 == self.shared.stages.len() {
            return Err(ChangeError::Slots { name: stage.into() });
        }
        let buffer = handle.buffer.as_ref().ok_or(ChangeError::NoOverlap)?;
        buffer.set_capacity(items);
        Ok(())
    }

    pub fn set_budget(&self, budget: &str, bytes: u64) -> Result<(), ChangeError> {
        if bytes == 0 {
            return Err(ChangeError::Zero);
        }
        let named = |known: &&Arc<Budget>| known.name() == budget;
        let found = self.shared.budgets.iter().find(named);
        let found = found.ok_or_else(|| ChangeError::NoBudget {
            name: budget.into(),
        })?;
        found.set_limit(bytes);
        Ok(())
    }

    fn stage(&self, name: &str, value: usize) -> Result<(usize, &StageHandle), ChangeError> {
        if value == 0 {
            return Err(ChangeError::Zero);
        }
        let mut stages = self.shared.stages.iter().enumerate();
        stages
            .find(|(_, stage)| stage.name == name)
            .ok_or_else(|| ChangeError::NoStage { name: name.into() })
    }

    /// What the run knows of itself now.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.shared.recorder.now();
        let stage = |handle: &StageHandle| {
            let mut counters = StageCounters {
                name: handle.name.clone(),
                workers: handle.pool.as_ref().map_or(1, |pool| pool.workers()),
                ..StageCounters::default()
            };
            let meters = handle
                .pool
                .as_ref()
                .map_or_else(Vec::new, |pool| pool.meters());
            for meter in meters.iter().chain(&handle.inline) {
                meter.add_to(&mut counters, now);
            }
            if let Some(level) = handle.buffer.as_ref().map(|buffer| buffer.level()) {
                counters.buffered = level.items;
                counters.capacity = level.capacity;
            }
            counters
        };
        let mut consumer = StageCounters {
            name: self.shared.plan.consumer.clone(),
            workers: 1,
            ..StageCounters::default()
        };
        self.consumer.add_to(&mut consumer, now);
        let budget = |budget: &Arc<Budget>| {
            let usage = budget.usage();
            BudgetCounters {
                name: budget.name().to_owned(),
                in_use: usage.in_use,
                limit: usage.limit,
                peak: usage.peak,
            }
        };
        Snapshot {
            at: now.duration(),
            stages: self
                .shared
                .stages
                .iter()
                .map(stage)
                .chain([consumer])
                .collect(),
            budgets: self.shared.budgets.iter().map(budget).collect(),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    pub(crate) fn single(&self) -> &[usize] {
        &self.shared.single
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }
}

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
enum Source<T> {
    Tap(Tap<Envelope<T>>),
    Inline(Box<dyn FnMut() -> Option<Envelope<T>> + Send>),
}

/// A road that is being run, as the consumer sees it: an iterator.
///
/// The consumer must let go of an item before it waits for the next (as a `for` loop does) or have
/// slots and a budget large enough for all that it holds: bytes that it keeps are bytes that nobody
/// else gets.
pub struct Running<T> {
    source: Source<T>,
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
            source: match flow {
                Flow::Buffer(buffer) => Source::Tap(Tap::new(buffer)),
                Flow::Inline(take) => Source::Inline(take),
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
        let Source::Tap(tap) = &self.source else {
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
        match &mut self.source {
            Source::Inline(take) => watch.waiting_for_input(take),
            Source::Tap(tap) => {
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
