//! The one thread that takes what was recorded, sums it up and writes it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::faults::FaultLimit;
use super::log_file::{LogFile, Logged};
use super::seconds::Seconds;
use super::{ItemEvent, LaneShared, RecordError, RecorderShared, lock};
use crate::event::{Event, Nanos, Stamped};
use crate::log::LogError;
use crate::trace::Trace;

/// How often lanes are emptied while there are any.
const TICK: Duration = Duration::from_millis(250);
/// A worker reads the clock and then records; this much later it has surely done so, and the second
/// can be closed. What is even later is counted in the next second.
const GRACE: Nanos = Nanos(100_000_000);

pub(super) struct Collector {
    shared: Arc<RecorderShared>,
    start: Instant,
    log: Option<LogFile>,
    trace: Option<Trace>,
    lanes: Vec<NumberedLane>,
    seconds: Seconds,
    /// Events that are too young to be written, in the order of time.
    rare: Vec<Stamped>,
    faults: FaultLimit,
    /// Everything up to here is written.
    horizon: Nanos,
    /// Reused in turn for what lies in the lanes.
    taken: Vec<ItemEvent>,
}

struct NumberedLane {
    lane: Arc<LaneShared>,
    /// The lane's number in the trace.
    number: u32,
}

/// What the inbox asked for.
#[derive(Clone, Copy)]
struct AskedFlush {
    /// When; rare events that come later have a later time.
    at: Nanos,
    flushes: u64,
    stop: bool,
    lost: u64,
}

impl Collector {
    pub(super) fn new(
        shared: Arc<RecorderShared>,
        start: Instant,
        log: Option<LogFile>,
        trace: Option<Trace>,
    ) -> Collector {
        Collector {
            shared,
            start,
            log,
            trace,
            lanes: Vec::new(),
            seconds: Seconds::default(),
            rare: Vec::new(),
            faults: FaultLimit::default(),
            horizon: Nanos(0),
            taken: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let _ended = ReportsItsEnd(Arc::clone(&self.shared));
        let mut flushed = 0;
        loop {
            let asked = self.sleep(flushed);
            self.empty_lanes(asked.stop);
            let whole = asked.stop || asked.flushes > flushed;
            self.write(asked.at, whole, asked.lost);
            flushed = asked.flushes;
            if asked.stop {
                self.write_trace(asked.at);
            }
            self.shared.inbox().flushes_done = flushed;
            self.shared.done.notify_all();
            if asked.stop {
                return;
            }
        }
    }

    /// Sleeps until the next tick or until there is a reason not to, and takes what is in the inbox.
    fn sleep(&mut self, flushed: u64) -> AskedFlush {
        let deadline = Instant::now() + TICK;
        let mut inbox = self.shared.inbox();
        while !inbox.stop && !inbox.hurry && inbox.flushes_asked == flushed {
            let nothing = self.lanes.is_empty()
                && self.seconds.is_empty()
                && self.rare.is_empty()
                && self.faults.is_empty()
                && !self.log.as_ref().is_some_and(LogFile::is_behind)
                && inbox.lanes.is_empty()
                && inbox.rare.is_empty();
            if nothing {
                inbox.idle = true;
                inbox = (self.shared.wake)
                    .wait(inbox)
                    .unwrap_or_else(PoisonError::into_inner);
                inbox.idle = false;
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inbox = (self.shared.wake)
                .wait_timeout(inbox, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        inbox.hurry = false;
        self.rare.append(&mut inbox.rare);
        inbox.flood = 0;
        let trace = &mut self.trace;
        let numbered = |lane: Arc<LaneShared>| NumberedLane {
            number: trace.as_mut().map_or(0, |trace| trace.lane(&lane)),
            lane,
        };
        self.lanes.extend(inbox.lanes.drain(..).map(numbered));
        AskedFlush {
            at: self.start.elapsed().into(),
            flushes: inbox.flushes_asked,
            stop: inbox.stop,
            lost: std::mem::take(&mut inbox.lost),
        }
    }

    fn empty_lanes(&mut self, last_time: bool) {
        let Collector {
            lanes,
            seconds,
            trace,
            taken,
            ..
        } = self;
        lanes.retain(|NumberedLane { lane, number }| {
            // Checked before the lane is emptied, so that the worker's last events are not missed.
            let in_use = Arc::strong_count(lane) > our_references(trace);
            let lost = lane.take(taken);
            if let Some(trace) = trace {
                trace.add(*number, taken, lost);
            }
            seconds.add(&lane.stage, taken, lost);
            taken.clear();
            if last_time || !in_use {
                lane.close();
            }
            in_use && !last_time
        });
    }

    /// Writes what is old enough, or all of it, in the order of time.
    fn write(&mut self, now: Nanos, whole: bool, lost: u64) {
        let horizon = if whole { now } else { now.since(GRACE) };
        let horizon = horizon.max(self.horizon);
        self.horizon = horizon;
        let mut sums = Vec::new();
        if whole {
            self.seconds.close_all(horizon, &mut sums);
        } else {
            self.seconds.close(horizon, &mut sums);
        }
        let ripe = if whole {
            self.rare.len()
        } else {
            self.rare.partition_point(|stamped| stamped.at <= horizon)
        };
        let mut lines: Vec<Stamped> = self.rare.drain(..ripe).collect();
        if let Some(trace) = &mut self.trace {
            trace.add_rare(&lines);
        }
        lines.retain(|line| self.faults.is_written(&line.event));
        self.faults.report(horizon, whole, &mut sums);
        if lost > 0 {
            sums.push(lost_line(horizon, lost));
        }
        lines.append(&mut sums);
        // Stable: at the same time, an event comes before the sum of its second.
        lines.sort_by_key(|stamped| stamped.at);
        self.write_lines(&lines, whole, now);
    }

    /// The statistics fold the very lines that the log gets.
    fn write_lines(&mut self, lines: &[Stamped], sync: bool, now: Nanos) {
        if !lines.is_empty() {
            let mut stats = lock(&self.shared.stats);
            lines.iter().for_each(|line| stats.absorb(line));
        }
        let Some(log) = &mut self.log else {
            return;
        };
        match log.write(lines, sync, now) {
            Logged::Fine => {}
            Logged::Behind(error) | Logged::NotSynced(error) => self.fail(error.into()),
            Logged::CaughtUp { after, dropped: 0 } => {
                let seconds = after.seconds();
                let note = format!(
                    "the log could not be written for {seconds:.0} s; its lines were kept and are written now"
                );
                let mut inbox = self.shared.inbox();
                inbox.problems.retain(|known| !is_unwritten(known));
                inbox.notes.push(note);
            }
            Logged::CaughtUp { dropped, .. } => {
                let error = log.dropped(dropped);
                let mut inbox = self.shared.inbox();
                inbox.problems.retain(|known| !is_unwritten(known));
                inbox.problems.push(error.into());
                drop(inbox);
                // After everything that was kept, before everything that is to come.
                self.write_lines(&[lost_line(self.horizon, dropped)], sync, now);
            }
        }
    }

    fn write_trace(&mut self, now: Nanos) {
        let Some(trace) = self.trace.take() else {
            return;
        };
        self.shared.inbox().notes.extend(trace.note());
        if let Err(error) = trace.write(now) {
            self.fail(error.into());
        }
    }

    fn fail(&self, error: RecordError) {
        self.shared.inbox().fail(error);
    }
}

/// Whether it says that lines wait for room.
fn is_unwritten(problem: &RecordError) -> bool {
    matches!(problem, RecordError::Log(error) if matches!(**error, LogError::Write { .. }))
}

fn lost_line(at: Nanos, events: u64) -> Stamped {
    let stage = String::new();
    let event = Event::Lost { stage, events };
    Stamped { at, event }
}

/// References to a lane that are not its worker's.
fn our_references(trace: &Option<Trace>) -> usize {
    if trace.is_some() { 2 } else { 1 }
}

/// Whatever ends the thread, nobody waits for it in vain.
struct ReportsItsEnd(Arc<RecorderShared>);

impl Drop for ReportsItsEnd {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox();
        if std::thread::panicking() {
            inbox.fail(RecordError::Panicked);
        }
        inbox.ended = true;
        inbox.stop = true;
        inbox.rare = Vec::new();
        for lane in inbox.lanes.drain(..) {
            lane.close();
        }
        drop(inbox);
        self.0.done.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::LaneStage;
    use super::*;
    use crate::event::{GateReason, Wait};
    use crate::log::{LogWriter, RunLog, replay};

    const MILLI: u64 = 1_000_000;

    fn gate(at_ms: u64) -> Stamped {
        Stamped {
            at: Nanos(at_ms * MILLI),
            event: Event::GateOpened {
                reason: GateReason::Full,
                waited: Nanos(0),
                ready: at_ms,
            },
        }
    }

    fn wait(end_ms: u64) -> ItemEvent {
        ItemEvent::Wait {
            wait: Wait::Input,
            item: Some(0).into(),
            start: Nanos(end_ms * MILLI - 1),
            waited: Nanos(1),
        }
    }

    fn logging(path: &std::path::Path) -> (Collector, Arc<RecorderShared>) {
        let log = LogFile::open(path.to_owned()).unwrap();
        let shared = Arc::new(RecorderShared::default());
        let collector = Collector::new(Arc::clone(&shared), Instant::now(), Some(log), None);
        (collector, shared)
    }

    /// Times of the lines in the log, in milliseconds, and what they are.
    fn lines(path: &std::path::Path) -> Vec<(u64, &'static str)> {
        let log = RunLog::read(path).unwrap();
        let line = |stamped: &Stamped| match stamped.event {
            Event::GateOpened { .. } => (stamped.at.0 / MILLI, "event"),
            Event::StageSecond(_) => (stamped.at.0 / MILLI, "sum"),
            _ => (stamped.at.0 / MILLI, "lost"),
        };
        log.events().map(line).collect()
    }

    #[test]
    fn events_and_sums_are_written_in_the_order_of_time_once_they_are_old_enough() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let (mut collector, shared) = logging(&path);
        let stage = Arc::new(LaneStage::new(0, "read"));
        let at = |ms: u64| Nanos(ms * MILLI);

        collector.rare = [500, 1000, 1500, 1980, 2040].map(gate).into();
        collector.seconds.add(&stage, &[700, 1700].map(wait), 0);
        // By the clock second 1 is over, but some worker may still be about to record in it.
        collector.write(at(2050), false, 0);
        let first = [
            (500, "event"),
            (1000, "event"),
            (1000, "sum"),
            (1500, "event"),
        ];
        assert_eq!(lines(&path), first);

        collector.seconds.add(&stage, &[1990, 2010].map(wait), 0);
        collector.write(at(2150), false, 3);
        let second = [
            (1980, "event"),
            (2000, "sum"),
            (2040, "event"),
            (2050, "lost"),
        ];
        assert_eq!(lines(&path)[first.len()..], second);

        // Asked for all of it, it does not wait for the second's end, nor go back before it later.
        collector.rare = vec![gate(2155)];
        collector.write(at(2160), true, 0);
        collector.seconds.add(&stage, &[wait(2158)], 1);
        collector.write(at(2170), false, 2);
        collector.write(at(3200), false, 0);
        let rest = [
            (2155, "event"),
            (2160, "sum"),
            (2160, "lost"),
            (3000, "lost"),
            (3000, "sum"),
        ];
        assert_eq!(lines(&path)[first.len() + second.len()..], rest);
        assert_eq!(replay(&path).unwrap().0, [lock(&shared.stats).clone()]);
    }

    /// A disk without room, which is read to make some.
    #[cfg(unix)]
    fn full(
        most_kept: usize,
    ) -> (
        Collector,
        Arc<RecorderShared>,
        std::os::unix::net::UnixStream,
    ) {
        use std::os::fd::OwnedFd;
        use std::os::unix::net::UnixStream;
        let (ours, disk) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        disk.set_nonblocking(true).unwrap();
        let path = std::path::PathBuf::from("events.jsonl");
        let file = std::fs::File::from(OwnedFd::from(ours));
        let writer = LogWriter::into_open(&path, file);
        let log = LogFile::with(path, writer, most_kept);
        let shared = Arc::new(RecorderShared::default());
        let collector = Collector::new(Arc::clone(&shared), Instant::now(), Some(log), None);
        (collector, shared, disk)
    }

    /// Gates of every millisecond until one does not fit; how many.
    #[cfg(unix)]
    fn fill(collector: &mut Collector, shared: &RecorderShared) -> u64 {
        for at in 1..1_000_000 {
            collector.rare = vec![gate(at)];
            collector.write(Nanos(at * MILLI), false, 0);
            collector.write(Nanos(at * MILLI), true, 0);
            if shared.inbox().problem().is_some() {
                return at;
            }
        }
        panic!("there is always room");
    }

    #[cfg(unix)]
    fn on(disk: &mut std::os::unix::net::UnixStream) -> Vec<u8> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        // It says that there is no more for now.
        let _ = disk.read_to_end(&mut bytes);
        bytes
    }

    #[cfg(unix)]
    fn read(bytes: &[u8]) -> RunLog {
        RunLog::collect(crate::log::LogReader::new("events.jsonl", bytes)).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn lines_that_find_no_room_are_written_when_there_is_some() {
        let (mut collector, shared, mut disk) = full(1 << 20);
        let filled = fill(&mut collector, &shared);
        for at in filled + 1..=filled + 50 {
            collector.rare = vec![gate(at)];
            collector.write(Nanos(at * MILLI), true, 0);
        }
        let mut written = on(&mut disk);
        assert!(read(&written).events().count() < filled as usize + 50);
        let at = Nanos((filled + 60) * MILLI);
        collector.write(at, false, 0);
        assert!(
            shared.inbox().problem().is_some(),
            "it is tried once a second"
        );
        collector.write(Nanos((filled + 2000) * MILLI), false, 0);
        written.extend(on(&mut disk));
        let log = read(&written);
        let times: Vec<u64> = log.events().map(|line| line.at.0 / MILLI).collect();
        assert_eq!(
            times,
            Vec::from_iter(1..=filled + 50),
            "each once, in order"
        );
        assert_eq!(log.flaws, Default::default());
        assert!(shared.inbox().problem().is_none(), "nothing is missing");
        let notes = shared.inbox().notes.join("\n");
        assert!(notes.contains("could not be written for"), "{notes}");
    }

    #[test]
    #[cfg(unix)]
    fn lines_that_find_no_room_in_memory_either_are_counted() {
        let (mut collector, shared, mut disk) = full(2_000);
        let filled = fill(&mut collector, &shared);
        for at in filled + 1..=filled + 100 {
            collector.rare = vec![gate(at)];
            collector.write(Nanos(at * MILLI), true, 0);
        }
        let mut written = on(&mut disk);
        collector.rare = vec![gate(filled + 2000)];
        collector.write(Nanos((filled + 2000) * MILLI), true, 0);
        collector.rare = vec![gate(filled + 2001)];
        collector.write(Nanos((filled + 2001) * MILLI), true, 0);
        written.extend(on(&mut disk));
        let log = read(&written);
        let lost: Vec<u64> = { log.events() }
            .filter_map(|line| match line.event {
                Event::Lost { events, .. } => Some(events),
                _ => None,
            })
            .collect();
        let [lost] = lost[..] else {
            panic!("{lost:?}");
        };
        assert!(lost > 50, "{lost}");
        let there = log.events().count() as u64 - 1;
        assert_eq!(there + lost, filled + 102, "each is there or counted");
        let times: Vec<u64> = log.events().map(|line| line.at.0).collect();
        assert!(times.is_sorted(), "{times:?}");
        let problem = shared.inbox().problem().unwrap().to_string();
        let said = format!("{lost} lines of the log events.jsonl were dropped");
        assert!(problem.contains(&said), "{problem}");
    }

    #[test]
    fn a_panic_is_reported_to_whoever_waits() {
        let shared = Arc::new(RecorderShared::default());
        let ends = ReportsItsEnd(Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            let _ends = ends;
            panic!("on purpose");
        });
        let recorder = super::super::Recorder {
            start: Instant::now(),
            running: Some(Arc::new(super::super::CollectorThread {
                shared,
                thread: std::sync::Mutex::new(Some(thread)),
            })),
        };
        assert!(matches!(recorder.flush(), Err(RecordError::Panicked)));
        assert!(matches!(recorder.finish(), Err(RecordError::Panicked)));
    }
}
