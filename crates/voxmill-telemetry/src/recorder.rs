//! How the threads that do the work record what happened, at little cost.
//!
//! A worker has a [`Lane`] of its own: recording an event is a push into memory that nobody else
//! touches, except for the moment in which the one collecting thread takes what is there. That thread
//! sums single items up for each second, writes the log, and keeps the detail for a trace.

mod collector;
mod faults;
mod lane;
mod log_file;
mod seconds;
#[cfg(test)]
mod size;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::event::{Event, Nanos, Stamped};
use crate::log::LogError;
use crate::stats::Stats;
use crate::trace::{Trace, TraceError, TraceOptions};

use collector::Collector;
use log_file::LogFile;

pub use lane::Lane;
pub(crate) use lane::{ItemEvent, LaneShared, LaneStage};

/// More faults, levels and samples than these, within a quarter of a second, are only counted.
const MOST_OF_A_FLOOD: usize = 1 << 16;
/// All other events together; what a report cannot do without never gives way to a flood. So many
/// only wait when the collecting thread is stuck for hours.
const MOST_OF_THE_REST: usize = 1 << 20;

/// The run's clock and the place where events go. Clones are the same recorder; dropping the last
/// one finishes it.
#[derive(Clone, Debug)]
pub struct Recorder {
    start: Instant,
    /// `None`: only a clock.
    running: Option<Arc<CollectorThread>>,
}

/// The name of an item, by its number.
pub type Naming = Arc<dyn Fn(u64) -> String + Send + Sync>;

/// Where a recorder writes to.
#[derive(Clone, Debug, Default)]
pub struct RecorderOptions {
    /// A log, which is continued when it is there.
    pub log: Option<PathBuf>,
    /// Every single item too, in a file for a trace viewer.
    pub trace: Option<TraceOptions>,
}

/// Why a record is not complete.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Log(Arc<LogError>),
    #[error(transparent)]
    Trace(Arc<TraceError>),
    #[error("the log and the trace cannot both be {}", path.display())]
    SamePath { path: PathBuf },
    #[error("cannot start the telemetry thread")]
    Thread { source: Arc<io::Error> },
    #[error("the telemetry thread panicked; what it had not written is lost")]
    Panicked,
    /// See [`RecordError::each`].
    #[error("{}", listed(.0))]
    Several(Vec<RecordError>),
}

impl RecordError {
    /// Every single thing that went wrong.
    pub fn each(&self) -> &[RecordError] {
        match self {
            RecordError::Several(all) => all,
            one => std::slice::from_ref(one),
        }
    }

    fn of(mut problems: Vec<RecordError>) -> Option<RecordError> {
        match problems.len() {
            0 | 1 => problems.pop(),
            _ => Some(RecordError::Several(problems)),
        }
    }
}

fn listed(errors: &[RecordError]) -> String {
    let texts: Vec<String> = errors.iter().map(RecordError::to_string).collect();
    texts.join("; ")
}

impl From<LogError> for RecordError {
    fn from(error: LogError) -> RecordError {
        RecordError::Log(Arc::new(error))
    }
}

impl From<TraceError> for RecordError {
    fn from(error: TraceError) -> RecordError {
        RecordError::Trace(Arc::new(error))
    }
}

impl Recorder {
    /// A clock that records nothing.
    pub fn off() -> Recorder {
        Recorder {
            start: Instant::now(),
            running: None,
        }
    }

    /// Files are opened here, so a path that cannot be written is known before the work begins.
    pub fn start(options: RecorderOptions) -> Result<Recorder, RecordError> {
        let start = Instant::now();
        if let (Some(log), Some(trace)) = (&options.log, &options.trace)
            && trace.overwrites(log)
        {
            return Err(RecordError::SamePath { path: log.clone() });
        }
        // The trace first: unlike a log, it leaves nothing behind when the other cannot be opened.
        let trace = options.trace.map(Trace::create).transpose()?;
        let log = options.log.map(LogFile::open).transpose()?;
        let shared = Arc::new(RecorderShared {
            detailed: trace.is_some(),
            ..RecorderShared::default()
        });
        let collector = Collector::new(Arc::clone(&shared), start, log, trace);
        let thread = std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || collector.run())
            .map_err(|source| RecordError::Thread {
                source: Arc::new(source),
            })?;
        Ok(Recorder {
            start,
            running: Some(Arc::new(CollectorThread {
                shared,
                thread: Mutex::new(Some(thread)),
            })),
        })
    }

    /// By the run's own clock.
    pub fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    /// Something that happens rarely: it is written with its own time, which is now.
    pub fn record(&self, event: Event) {
        let Some(shared) = self.shared() else {
            return;
        };
        let mut inbox = shared.inbox();
        if inbox.stop {
            return;
        }
        if !inbox.has_room(&event) {
            inbox.lost += 1;
            return;
        }
        // The time is taken under the lock, so the log is in the order of time.
        let at = self.now();
        inbox.rare.push(Stamped { at, event });
        if inbox.flood == MOST_OF_A_FLOOD / 2 {
            inbox.hurry = true;
        }
        if inbox.idle || inbox.hurry {
            shared.wake.notify_one();
        }
    }

    /// The lane of one worker of one stage.
    pub fn lane(&self, stage: &str, worker: usize) -> Lane {
        let Some(shared) = self.shared() else {
            return Lane { shared: None };
        };
        let stage = Arc::clone(shared.stages().of(stage));
        let mut inbox = shared.inbox();
        if inbox.stop {
            return Lane { shared: None };
        }
        let worker = u32::try_from(worker).unwrap_or(u32::MAX);
        let lane = Arc::new(LaneShared::new(stage, worker, Arc::clone(shared)));
        inbox.lanes.push(Arc::clone(&lane));
        if inbox.idle {
            shared.wake.notify_one();
        }
        let shared = Some(lane);
        Lane { shared }
    }

    /// How the items of a stage are named where they are shown. It is called for few of them, on
    /// the collecting thread. Lanes that were created before a second call keep the first names.
    pub fn name_items(&self, stage: &str, naming: Naming) {
        if let Some(shared) = self.shared() {
            shared.stages().name(stage, naming);
        }
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Whether single items are kept, for a trace. Buffer levels are then wanted at every move.
    pub fn is_detailed(&self) -> bool {
        self.shared().is_some_and(|shared| shared.detailed)
    }

    /// The statistics of everything that is written by now, up to a second behind.
    pub fn stats(&self) -> Stats {
        let stats = self.shared().map(|shared| lock(&shared.stats).clone());
        stats.unwrap_or_default()
    }

    /// Why the record has a gap, or ends, as soon as that is so: worth a warning, not a stop.
    pub fn problem(&self) -> Option<RecordError> {
        self.shared().and_then(|shared| shared.inbox().problem())
    }

    /// What is worth knowing about the record, though nothing went wrong. Complete after
    /// [`Recorder::finish`].
    pub fn notes(&self) -> Vec<String> {
        let notes = self.shared().map(|shared| shared.inbox().notes.clone());
        notes.unwrap_or_default()
    }

    /// Waits until everything that was recorded before is in the log on disk.
    pub fn flush(&self) -> Result<(), RecordError> {
        let Some(shared) = self.shared() else {
            return Ok(());
        };
        let mut inbox = shared.inbox();
        inbox.flushes_asked += 1;
        let asked = inbox.flushes_asked;
        shared.wake.notify_one();
        while inbox.flushes_done < asked && !inbox.ended {
            inbox = shared
                .done
                .wait(inbox)
                .unwrap_or_else(PoisonError::into_inner);
        }
        inbox.problem().map_or(Ok(()), Err)
    }

    /// Writes what is left, and the trace, and ends the collecting thread. Later events are
    /// ignored. The error is all that kept the record from being complete, each time it is called.
    pub fn finish(&self) -> Result<(), RecordError> {
        self.running
            .as_ref()
            .map_or(Ok(()), |running| running.finish())
    }

    fn shared(&self) -> Option<&Arc<RecorderShared>> {
        self.running.as_ref().map(|running| &running.shared)
    }
}

#[derive(Debug)]
struct CollectorThread {
    shared: Arc<RecorderShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl CollectorThread {
    fn finish(&self) -> Result<(), RecordError> {
        self.shared.inbox().stop = true;
        self.shared.wake.notify_one();
        // Held while joining: another caller of `finish` waits too.
        let mut thread = lock(&self.thread);
        let ended = thread.take().map_or(Ok(()), JoinHandle::join);
        let mut inbox = self.shared.inbox();
        if ended.is_err() {
            inbox.fail(RecordError::Panicked);
        }
        inbox.problem().map_or(Ok(()), Err)
    }
}

impl Drop for CollectorThread {
    fn drop(&mut self) {
        // Whoever wants to know of an error calls `finish` before.
        let _ = self.finish();
    }
}

/// What the recorder, its lanes and the collecting thread have in common.
#[derive(Debug, Default)]
struct RecorderShared {
    detailed: bool,
    inbox: Mutex<Inbox>,
    wake: Condvar,
    done: Condvar,
    stages: Mutex<Stages>,
    stats: Mutex<Stats>,
}

impl RecorderShared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        lock(&self.stages)
    }
}

/// What waits for the collecting thread, and what that thread reports.
#[derive(Debug, Default)]
struct Inbox {
    rare: Vec<Stamped>,
    /// How many of these may give way.
    flood: usize,
    /// Rare events that found no room.
    lost: u64,
    /// Lanes that are new.
    lanes: Vec<Arc<LaneShared>>,
    /// A lane fills up faster than usual.
    hurry: bool,
    flushes_asked: u64,
    flushes_done: u64,
    stop: bool,
    /// The collecting thread sleeps until it is woken.
    idle: bool,
    /// It is gone, by its own will or not.
    ended: bool,
    /// Each once.
    problems: Vec<RecordError>,
    notes: Vec<String>,
}

impl Inbox {
    /// Counts the event where it is one of many.
    fn has_room(&mut self, event: &Event) -> bool {
        match event {
            Event::RunStarted(_) | Event::RunEnded { .. } => true,
            Event::Fault(_)
            | Event::BufferLevel { .. }
            | Event::BudgetLevel { .. }
            | Event::DeviceMemory(_)
            | Event::DeviceSample(_)
            | Event::HostSample(_) => {
                let room = self.flood < MOST_OF_A_FLOOD;
                self.flood += usize::from(room);
                room
            }
            _ => self.rare.len() - self.flood < MOST_OF_THE_REST,
        }
    }

    fn fail(&mut self, error: RecordError) {
        let text = error.to_string();
        if !self.problems.iter().any(|known| known.to_string() == text) {
            self.problems.push(error);
        }
    }

    fn problem(&self) -> Option<RecordError> {
        RecordError::of(self.problems.clone())
    }
}

/// The newest of each name. Lanes hold on to theirs, with its naming, as long as they need it.
#[derive(Debug, Default)]
struct Stages {
    by_name: HashMap<String, Arc<LaneStage>>,
    created: u64,
}

impl Stages {
    fn of(&mut self, name: &str) -> &Arc<LaneStage> {
        let created = &mut self.created;
        self.by_name.entry(name.to_owned()).or_insert_with(|| {
            *created += 1;
            Arc::new(LaneStage::new(*created, name))
        })
    }

    fn name(&mut self, stage: &str, naming: Naming) {
        if self.of(stage).naming.set(naming.clone()).is_err() {
            self.by_name.remove(stage);
            // The new one has no naming yet, so this takes.
            let _ = self.of(stage).naming.set(naming);
        }
    }
}

/// A panic under one of our locks leaves nothing half done that matters more than the record.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
