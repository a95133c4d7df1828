//! The run's log on disk: one event a line, as JSON.
//!
//! A log is read by people, by other programs and by later versions of this one. Lines are only
//! ever added. A resumed run continues the same file: its [`RunStarted`] opens a new segment with
//! a clock of its own. A line that a killed process left half written is not counted as damage, and
//! neither keeps the rest from being read.

mod follow;
mod writer;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use voxmill_untrusted::file;

use crate::event::{Event, RunStarted, Stamped};
use crate::stats::Stats;

pub use follow::LogFollower;
pub use writer::LogWriter;
pub(crate) use writer::is_locked;

/// Grows when an old reader would misread a line. New kinds of events and new fields do not count:
/// readers skip the former and ignore the latter.
pub const LOG_VERSION: u32 = 1;

/// Damaged lines that are described; more are only counted.
const MOST_DESCRIBED: usize = 20;
/// No event is nearly as long: a longer line is damage, and is not held in memory.
const LONGEST_LINE: usize = 16 << 20;
/// Some ten million steps: no run is nearly as long.
const LONGEST_LOG: u64 = 16 << 30;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot open the log {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read the log {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the log {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{lines} lines of the log {} were dropped: it could not be written for longer than they can be kept",
        path.display()
    )]
    Dropped { path: PathBuf, lines: u64 },
    #[error("{} is not a log, and is left as it is: its first line is no event", path.display())]
    NotALog { path: PathBuf },
    #[error("another process writes the log {}", path.display())]
    InUse { path: PathBuf },
    #[error(
        "line {line} of the log {} is of version {found}; this program reads up to version {LOG_VERSION}",
        path.display()
    )]
    NewerVersion {
        path: PathBuf,
        line: u64,
        found: u32,
    },
}

/// What was wrong with a log, none of which keeps the rest from being used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    /// Lines that a killed process left half written: the last of the log, or of a segment.
    pub truncated: u64,
    pub damaged: u64,
    /// The first few damaged lines.
    pub described: Vec<DamagedLine>,
    /// Events of kinds that a later version may know.
    pub unknown: u64,
}

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedLine {
    /// From 1.
    pub line: u64,
    pub why: String,
}

impl Flaws {
    fn damage(&mut self, line: DamagedLine) {
        self.damaged += 1;
        if self.described.len() < MOST_DESCRIBED {
            self.described.push(line);
        }
    }
}

/// Gives the events of a log one by one. An error is the end of it.
#[derive(Debug)]
pub struct LogReader<R> {
    path: PathBuf,
    input: R,
    bytes: Vec<u8>,
    line: u64,
    ended: bool,
    /// Damaged, or cut by a kill? What follows decides.
    doubtful: Option<DamagedLine>,
    flaws: Flaws,
}

impl LogReader<BufReader<File>> {
    /// Opens a file. A line that is damaged is no error, but counted.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LogError> {
        let path = path.into();
        match file::open_at_most(&path, LONGEST_LOG) {
            Ok(file) => Ok(LogReader::new(path, BufReader::new(file))),
            Err(source) => Err(LogError::Open { path, source }),
        }
    }
}

impl<R: BufRead> LogReader<R> {
    /// The path is only for messages.
    pub fn new(path: impl Into<PathBuf>, input: R) -> LogReader<R> {
        LogReader {
            path: path.into(),
            input,
            bytes: Vec::new(),
            line: 0,
            ended: false,
            doubtful: None,
            flaws: Flaws::default(),
        }
    }

    /// What was wrong so far; all of it once the last event was given.
    pub fn flaws(&self) -> &Flaws {
        &self.flaws
    }

    fn next_event(&mut self) -> Result<Option<Stamped>, LogError> {
        while !self.ended {
            let cut = self.next_line().map_err(|source| LogError::Read {
                path: self.path.clone(),
                source,
            })?;
            if cut {
                self.settle(false);
                self.flaws.damage(DamagedLine {
                    line: self.line,
                    why: format!("the line is longer than {LONGEST_LINE} bytes"),
                });
                continue;
            }
            if self.bytes.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<Stamped>(&self.bytes) {
                Ok(Stamped { at, event }) => {
                    let stamped = Stamped::modernised(at, event);
                    self.settle(matches!(stamped.event, Event::RunStarted(_)));
                    check_version(&stamped, &self.path, self.line)?;
                    return Ok(Some(stamped));
                }
                Err(cause) => self.doubt(&cause),
            }
        }
        self.settle(false);
        Ok(None)
    }

    /// Takes the next line into memory, or skips one that is too long: then true.
    fn next_line(&mut self) -> io::Result<bool> {
        self.bytes.clear();
        self.line += 1;
        let mut too_long = false;
        loop {
            let room = LONGEST_LINE - self.bytes.len();
            let mut part = (&mut self.input).take(room as u64);
            let read = part.read_until(b'\n', &mut self.bytes)?;
            self.ended = read == 0 && room > 0;
            if self.ended || self.bytes.last() == Some(&b'\n') {
                return Ok(too_long);
            }
            if self.bytes.len() == LONGEST_LINE {
                too_long = true;
                self.bytes.clear();
            }
        }
    }

    fn doubt(&mut self, cause: &serde_json::Error) {
        self.settle(false);
        if self.ended {
            // A kill leaves no line break; a whole line that cannot be read is damage.
            self.flaws.truncated += 1;
            return;
        }
        if let Ok(kind) = serde_json::from_slice::<EventKind>(&self.bytes)
            && !Event::KINDS.contains(&kind.event.as_str())
        {
            self.flaws.unknown += 1;
            return;
        }
        self.doubtful = Some(DamagedLine {
            line: self.line,
            why: cause.to_string(),
        });
    }

    /// Decides what the doubtful line was, now that it is known what came after it.
    fn settle(&mut self, cut: bool) {
        match self.doubtful.take() {
            Some(_) if cut => self.flaws.truncated += 1,
            Some(line) => self.flaws.damage(line),
            None => {}
        }
    }
}

fn check_version(stamped: &Stamped, path: &Path, line: u64) -> Result<(), LogError> {
    match &stamped.event {
        Event::RunStarted(started) if started.log_version > LOG_VERSION => {
            Err(LogError::NewerVersion {
                path: path.to_owned(),
                line,
                found: started.log_version,
            })
        }
        _ => Ok(()),
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<Stamped, LogError>;

    fn next(&mut self) -> Option<Result<Stamped, LogError>> {
        let next = self.next_event();
        if next.is_err() {
            self.ended = true;
            self.bytes.clear();
        }
        next.transpose()
    }
}

/// As much of a line as any version writes.
#[derive(Deserialize)]
struct EventKind {
    event: String,
}

/// Whether a process writes this log now. Where the system has no locks, none does.
pub fn is_being_written(path: &Path) -> bool {
    file::open(path).is_ok_and(|file| is_locked(&file))
}

/// A start of a run and what happened until its end, a kill or the next start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoggedStart {
    /// `None` when the line was damaged.
    pub started: Option<RunStarted>,
    /// Times are on its own clock. [`Event::RunStarted`] is among them.
    pub events: Vec<Stamped>,
}

/// A whole log in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunLog {
    pub starts: Vec<LoggedStart>,
    pub flaws: Flaws,
}

impl RunLog {
    /// Reads a file to its end.
    pub fn read(path: impl AsRef<Path>) -> Result<RunLog, LogError> {
        RunLog::collect(LogReader::open(path.as_ref())?)
    }

    /// Takes what is left of a reader.
    pub fn collect<R: BufRead>(reader: LogReader<R>) -> Result<RunLog, LogError> {
        let (starts, flaws) = by_start(reader, |start: &mut LoggedStart, stamped| {
            if let Event::RunStarted(started) = &stamped.event {
                start.started = Some(started.clone());
            }
            start.events.push(stamped);
        })?;
        Ok(RunLog { starts, flaws })
    }

    /// Of all starts, one after another.
    pub fn events(&self) -> impl Iterator<Item = &Stamped> {
        self.starts.iter().flat_map(|start| &start.events)
    }
}

/// The statistics of each start in a log, without holding its events, and what was wrong with it.
pub fn replay(path: impl AsRef<Path>) -> Result<(Vec<Stats>, Flaws), LogError> {
    let reader = LogReader::open(path.as_ref())?;
    by_start(reader, |stats: &mut Stats, stamped| stats.absorb(&stamped))
}

/// One value for each start in a log, to which its events are added.
fn by_start<R: BufRead, T: Default>(
    mut reader: LogReader<R>,
    add: impl Fn(&mut T, Stamped),
) -> Result<(Vec<T>, Flaws), LogError> {
    let mut starts: Vec<T> = Vec::new();
    for stamped in &mut reader {
        let stamped = stamped?;
        if starts.is_empty() || matches!(stamped.event, Event::RunStarted(_)) {
            starts.push(T::default());
        }
        if let Some(start) = starts.last_mut() {
            add(start, stamped);
        }
    }
    Ok((starts, reader.flaws))
}

#[cfg(test)]
mod tests;
