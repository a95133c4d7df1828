//! What a stage does to one item: asks for room, runs the function, and deals with its errors.
//!
//! The same code serves a worker thread and a pipeline without overlap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind, Wait};
use voxmill_telemetry::recorder::{Naming, Recorder};

use crate::budget::{Budget, Refused, Reservation};
use crate::item::{BoxError, Content, Envelope, Gap, ItemFault, RunFailure, catch_panic};
use crate::meter::Watch;
use crate::plan::{AfterError, OnError};
use crate::slots::{NoSlot, Preparing, Slot, Slots};

type Function<T, U> = Box<dyn FnMut(T) -> Result<U, BoxError> + Send>;
type MakeFunction<T, U> = Arc<dyn Fn() -> Result<Function<T, U>, BoxError> + Send + Sync>;
type SizeOf<T> = Arc<dyn Fn(&T) -> u64 + Send + Sync>;

/// The function of a stage, and what the pipeline must know of it.
pub struct Work<T, U> {
    make: MakeFunction<T, U>,
    pub(crate) reserve: Option<SizeOf<T>>,
    keep: Option<SizeOf<U>>,
    pub(crate) copy: Option<fn(&T) -> T>,
}

impl<T, U> Clone for Work<T, U> {
    fn clone(&self) -> Self {
        Work {
            make: Arc::clone(&self.make),
            reserve: self.reserve.clone(),
            keep: self.keep.clone(),
            copy: self.copy,
        }
    }
}

impl<T, U> fmt::Debug for Work<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("reserves", &self.reserve.is_some())
            .field("retries", &self.copy.is_some())
            .finish_non_exhaustive()
    }
}

impl<T: 'static, U: 'static> Work<T, U> {
    /// A function without a state of its own; all workers share it.
    pub fn new<E: Into<BoxError>>(
        function: impl Fn(T) -> Result<U, E> + Send + Sync + 'static,
    ) -> Work<T, U> {
        let function = Arc::new(function);
        Work::with_state(move || {
            let function = Arc::clone(&function);
            Ok::<_, BoxError>(move |item| function(item))
        })
    }

    /// Every worker makes a function of its own, on its own thread (without overlap: on the thread that
    /// starts the pipeline). One that panicked is made anew. A worker whose function cannot be made leaves
    /// the work to the others; the last one's failure ends the run.
    pub fn with_state<F, E, S>(
        make: impl Fn() -> Result<F, S> + Send + Sync + 'static,
    ) -> Work<T, U>
    where
        F: FnMut(T) -> Result<U, E> + Send + 'static,
        E: Into<BoxError>,
        S: Into<BoxError>,
    {
        let make = move || {
            let mut function = make().map_err(Into::into)?;
            let function: Function<T, U> = Box::new(move |item| function(item).map_err(Into::into));
            Ok(function)
        };
        Work {
            make: Arc::new(make),
            reserve: None,
            keep: None,
            copy: None,
        }
    }

    /// The most bytes that the item will take, from here until it leaves the stage's budget.
    /// Asked where an item enters a budget, before the function runs and while the stage's other workers
    /// wait: it should be quick.
    pub fn reserving(self, bytes: impl Fn(&T) -> u64 + Send + Sync + 'static) -> Work<T, U> {
        Work {
            reserve: Some(Arc::new(bytes)),
            ..self
        }
    }

    /// The bytes that the result takes; the rest of the reservation is released.
    pub fn keeping(self, bytes: impl Fn(&U) -> u64 + Send + Sync + 'static) -> Work<T, U> {
        Work {
            keep: Some(Arc::new(bytes)),
            ..self
        }
    }

    /// Lets the plan retry: an item is then copied before each try but the last.
    pub fn retrying(self) -> Work<T, U>
    where
        T: Clone,
    {
        Work {
            copy: Some(T::clone),
            ..self
        }
    }

    /// The same, with something done before each try at an item, on the worker's thread and in its time: how
    /// delays and faults are injected from outside.
    pub fn preceded_by(self, before: impl Fn(&T) + Send + Sync + 'static) -> Work<T, U> {
        let (make, before) = (self.make, Arc::new(before));
        let make = move || {
            let (mut function, before) = (make()?, Arc::clone(&before));
            let preceded: Function<T, U> = Box::new(move |item| {
                before(&item);
                function(item)
            });
            Ok(preceded)
        };
        Work {
            make: Arc::new(make),
            ..self
        }
    }
}

/// What all stages of a run share.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) recorder: Recorder,
    pub(crate) skipped: AtomicU64,
    pub(crate) max_skipped: Option<u64>,
}

/// A stage of a pipeline that is being run.
pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) on_error: OnError,
    /// The budget that items enter here.
    pub(crate) enters: Option<Arc<Budget>>,
    /// Whether what an item held before is held on, because it stays in the same budget.
    pub(crate) holds_on: bool,
    pub(crate) slots: Option<Arc<Slots>>,
    pub(crate) naming: Naming,
    pub(crate) faults: Arc<Faults>,
}

impl Stage {
    pub(crate) fn fault(
        &self,
        item: u64,
        kind: FaultKind,
        error: impl Into<BoxError>,
    ) -> Arc<ItemFault> {
        Arc::new(ItemFault {
            stage: self.name.clone(),
            item,
            name: (self.naming)(item),
            kind,
            error: error.into(),
        })
    }

    /// A gap or the end of the run, by the stage's policy.
    pub(crate) fn after<U>(&self, fault: Arc<ItemFault>) -> Content<U> {
        let skip = self.on_error.then == AfterError::Skip && fault.kind != FaultKind::Setup;
        if !skip {
            return self.stop(fault);
        }
        let skipped = self.faults.skipped.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(most) = self.faults.max_skipped.filter(|most| skipped > *most) {
            self.report(&fault, FaultAction::Stopped);
            let last = fault;
            return Content::Failed(RunFailure::TooManySkipped {
                skipped,
                most,
                last,
            });
        }
        self.report(&fault, FaultAction::Skipped);
        let number = fault.item;
        Content::Gap(Gap { number, fault })
    }

    /// Whether items have to ask before they are worked on.
    pub(crate) fn needs_room(&self) -> bool {
        self.enters.is_some() || self.slots.is_some()
    }

    /// What it is that they wait for then.
    pub(crate) fn room(&self) -> Wait {
        match self.enters {
            Some(_) => Wait::Bytes,
            None => Wait::Slot,
        }
    }

    /// The end of the run, whatever the policy.
    pub(crate) fn stop<U>(&self, fault: Arc<ItemFault>) -> Content<U> {
        self.report(&fault, FaultAction::Stopped);
        Content::Failed(RunFailure::Item(fault))
    }

    /// The caller's code also runs where an item is copied or dropped, or an error is put into words.
    /// A panic there ends the run: were the item just gone, others would wait for it forever.
    pub(crate) fn escaped<U>(&self, number: u64, panic: String) -> Envelope<U> {
        let fault = self.fault(number, FaultKind::Panic, panic);
        Envelope::new(number, self.stop(fault))
    }

    fn report(&self, fault: &ItemFault, action: FaultAction) {
        let mut message = fault.error.to_string();
        let mut cause = fault.error.source();
        while let Some(next) = cause {
            message.push_str(": ");
            message.push_str(&next.to_string());
            cause = next.source();
        }
        self.faults.recorder.record(Event::Fault(Fault {
            stage: fault.stage.clone(),
            item: fault.item,
            name: fault.name.clone(),
            kind: fault.kind,
            message,
            action,
        }));
    }
}

/// Room that an item got before it is worked on.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    bytes: Option<Reservation>,
    slot: Option<Slot<Preparing>>,
}

/// What became of the request for room.
pub(crate) enum Admission<T, U> {
    /// To be worked on.
    Admitted(u64, T, Granted, Option<Reservation>),
    /// There is nothing to work on; this is passed along.
    Passed(Envelope<U>),
    Cancelled,
}

/// One worker of a stage.
pub(crate) struct Worker<T, U> {
    pub(crate) stage: Arc<Stage>,
    work: Work<T, U>,
    function: Result<Function<T, U>, Option<BoxError>>,
    pub(crate) watch: Watch,
}

impl<T: 'static, U: 'static> Worker<T, U> {
    pub(crate) fn new(stage: Arc<Stage>, work: Work<T, U>, watch: Watch) -> Worker<T, U> {
        let function = make(&work);
        Worker {
            stage,
            work,
            function,
            watch,
        }
    }

    /// Whether its function could not be made.
    pub(crate) fn cannot_work(&self) -> bool {
        self.function.is_err()
    }

    /// Reports that the run continues without this worker, and why.
    pub(crate) fn report_why_not(&mut self) {
        if let Err(error) = &mut self.function {
            let error = why_not(error);
            let fault = ItemFault {
                stage: self.stage.name.clone(),
                item: 0,
                name: "a worker".to_owned(),
                kind: FaultKind::Setup,
                error,
            };
            self.stage.report(&fault, FaultAction::WentOnWithout);
        }
    }

    /// Asks for the bytes and the place that the item will need. Must be called in item order where
    /// order is kept. With `patient` off, room that is not there at once is refused.
    pub(crate) fn ask(&self, envelope: Envelope<T>, patient: bool) -> Admission<T, U> {
        let number = envelope.number;
        catch_panic(|| self.ask_for(envelope, patient))
            .unwrap_or_else(|panic| Admission::Passed(self.stage.escaped(number, panic)))
    }

    fn ask_for(&self, envelope: Envelope<T>, patient: bool) -> Admission<T, U> {
        let (number, held) = (envelope.number, envelope.bytes);
        let item = match envelope.content {
            Content::Item(item) => item,
            Content::Gap(gap) => return self.without_item(number, Content::Gap(gap), held),
            Content::Failed(failure) => {
                return self.without_item(number, Content::Failed(failure), held);
            }
            Content::DoneBefore => return self.without_item(number, Content::DoneBefore, held),
        };
        let refused = |kind: FaultKind, error: BoxError| {
            let fault = self.stage.fault(number, kind, error);
            self.without_item(number, self.stage.after(fault), None)
        };
        let mut room = Granted::default();
        if let (Some(budget), Some(size)) = (&self.stage.enters, &self.work.reserve) {
            let need = match catch_panic(|| size(&item)) {
                Ok(need) => need,
                Err(panic) => return refused(FaultKind::Panic, panic.into()),
            };
            let ask = |before: &mut dyn FnMut()| match patient {
                true => budget.reserve(need, before),
                false => budget.try_reserve(need),
            };
            match self.watch.asks_for_room(Wait::Bytes, number, ask) {
                Ok(bytes) => room.bytes = Some(bytes),
                Err(Refused::Cancelled) => return Admission::Cancelled,
                Err(too_large) => return refused(FaultKind::TooLarge, too_large.into()),
            }
        }
        if let Some(slots) = &self.stage.slots {
            let ask = |before: &mut dyn FnMut()| match patient {
                true => slots.acquire(number, before),
                false => slots.try_acquire(number),
            };
            match self.watch.asks_for_room(Wait::Slot, number, ask) {
                Ok(slot) => room.slot = Some(slot),
                Err(NoSlot::Cancelled) => return Admission::Cancelled,
                // The consumer keeps all places: skipping items would not free one.
                Err(none) => {
                    let fault = self.stage.fault(number, FaultKind::Error, none);
                    return self.without_item(number, self.stage.stop(fault), None);
                }
            }
        }
        Admission::Admitted(number, item, room, held)
    }

    /// Nothing to work on. In a budget it still holds a reservation, of nothing: a group may wait for
    /// it, and others for the group's bytes.
    fn without_item(
        &self,
        number: u64,
        content: Content<U>,
        held: Option<Reservation>,
    ) -> Admission<T, U> {
        let bytes = match &self.stage.enters {
            Some(budget) => Some(budget.reserve_nothing()),
            None => held.filter(|_| self.stage.holds_on),
        };
        Admission::Passed(Envelope {
            bytes,
            ..Envelope::new(number, content)
        })
    }

    /// Runs the function if an item was admitted. `None`: the run was cancelled.
    pub(crate) fn process(&mut self, admission: Admission<T, U>) -> Option<Envelope<U>> {
        let (number, item, room, held) = match admission {
            Admission::Admitted(number, item, room, held) => (number, item, room, held),
            Admission::Passed(envelope) => {
                self.watch.passes();
                return Some(envelope);
            }
            Admission::Cancelled => return None,
        };
        let stage = Arc::clone(&self.stage);
        let envelope = catch_panic(|| self.process_in(number, item, room, held));
        Some(envelope.unwrap_or_else(|panic| stage.escaped(number, panic)))
    }

    fn process_in(
        &mut self,
        number: u64,
        item: T,
        room: Granted,
        held: Option<Reservation>,
    ) -> Envelope<U> {
        self.watch.item_begins();
        let outcome = self.run(number, item);
        let mut bytes = match (&self.stage.enters, self.stage.holds_on) {
            (Some(_), _) => room.bytes,
            (None, true) => held,
            // Left the budget: what it held goes when this function ends.
            (None, false) => None,
        };
        let fault = |kind, error: BoxError| self.stage.fault(number, kind, error);
        let outcome = outcome.and_then(|result| {
            if let (Some(keep), Some(bytes)) = (&self.work.keep, &mut bytes) {
                let size = catch_panic(|| keep(&result));
                let size = size.map_err(|panic| fault(FaultKind::Panic, panic.into()))?;
                let kept = bytes.shrink_to(size);
                kept.map_err(|error| fault(FaultKind::Outgrown, error.into()))?;
            }
            Ok(result)
        });
        self.watch.item_ends(number);
        match outcome {
            Ok(result) => Envelope {
                number,
                content: Content::Item(result),
                bytes,
                slot: room.slot.map(Slot::ready),
            },
            Err(fault) => {
                if let Some(bytes) = &mut bytes {
                    // It can only get less.
                    let _ = bytes.shrink_to(0);
                }
                Envelope {
                    bytes,
                    ..Envelope::new(number, self.stage.after(fault))
                }
            }
        }
    }

    fn run(&mut self, number: u64, item: T) -> Result<U, Arc<ItemFault>> {
        let mut item = Some(item);
        let mut tries_left = self.stage.on_error.retries;
        loop {
            let function = match &mut self.function {
                Ok(function) => function,
                Err(error) => {
                    let error = why_not(error);
                    return Err(self.stage.fault(number, FaultKind::Setup, error));
                }
            };
            let copy = match (self.work.copy, &item, tries_left) {
                (Some(copy), Some(item), 1..) => Some(copy(item)),
                _ => None,
            };
            let Some(this_try) = std::mem::replace(&mut item, copy) else {
                unreachable!("an item is kept for each try that is left")
            };
            match catch_panic(|| function(this_try)) {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) if item.is_some() => {
                    tries_left -= 1;
                    let fault = self.stage.fault(number, FaultKind::Error, error);
                    self.stage.report(&fault, FaultAction::Retried);
                }
                Ok(Err(error)) => return Err(self.stage.fault(number, FaultKind::Error, error)),
                Err(panic) => {
                    // Its state may be half changed.
                    self.function = make(&self.work);
                    return Err(self.stage.fault(number, FaultKind::Panic, panic));
                }
            }
        }
    }
}

/// Why a worker could not be set up; reported once.
fn why_not(error: &mut Option<BoxError>) -> BoxError {
    error.take().unwrap_or_else(|| "not set up".into())
}

/// A worker that cannot be set up reports it with the first item that it takes.
fn make<T, U>(work: &Work<T, U>) -> Result<Function<T, U>, Option<BoxError>> {
    let made = catch_panic(|| (work.make)());
    made.unwrap_or_else(|panic| Err(panic.into())).map_err(Some)
}
