//! The log as the collecting thread has it: what cannot be written is kept for a while and tried again.

use std::path::PathBuf;

use crate::event::{Nanos, Stamped};
use crate::log::{LogError, LogWriter};

/// A disk that was full is full for a while; asking it costs little, but not nothing.
const PAUSE: Nanos = Nanos(1_000_000_000);
/// As much as a run writes in hours.
const MOST_KEPT: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    /// Open for as long as the run lives: what gets its name in the meantime is somebody else's.
    writer: LogWriter,
    behind: Option<Behind>,
    most_kept: usize,
}

/// Lines wait for room.
#[derive(Debug)]
struct Behind {
    since: Nanos,
    /// When it was tried last.
    tried: Nanos,
    /// Lines that found no room in memory either. All of them come after those that are kept.
    dropped: u64,
}

/// What became of the lines that were given to a log.
#[derive(Debug)]
pub(super) enum Logged {
    Fine,
    /// From now on they are kept. It is said once.
    Behind(LogError),
    /// All that was kept is written.
    CaughtUp {
        after: Nanos,
        dropped: u64,
    },
    /// Whether they outlive a power cut is not known.
    NotSynced(LogError),
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> Result<LogFile, LogError> {
        let writer = LogWriter::append(&path)?;
        Ok(LogFile::with(path, writer, MOST_KEPT))
    }

    pub(super) fn with(path: PathBuf, writer: LogWriter, most_kept: usize) -> LogFile {
        LogFile {
            path,
            writer,
            behind: None,
            most_kept,
        }
    }

    /// Whether lines wait for room.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Why some lines are not there.
    pub(super) fn dropped(&self, lines: u64) -> LogError {
        LogError::Dropped {
            path: self.path.clone(),
            lines,
        }
    }

    /// Safe from a kill then, and from a power cut where that is asked for.
    pub(super) fn write(&mut self, lines: &[Stamped], sync: bool, now: Nanos) -> Logged {
        let mut said = None;
        for line in lines {
            if let Some(behind) = &mut self.behind {
                let is_full = behind.dropped > 0 || self.writer.pending() >= self.most_kept;
                if is_full || self.writer.keep(line).is_err() {
                    behind.dropped += 1;
                }
            } else if let Err(error) = self.writer.write(line) {
                said = self.fell_behind(error, now);
            }
        }
        let is_early = (self.behind.as_ref()).is_some_and(|behind| now.since(behind.tried) < PAUSE);
        if is_early && !sync {
            return said.map_or(Logged::Fine, Logged::Behind);
        }
        if let Err(error) = self.writer.flush() {
            let said = said.or(self.fell_behind(error, now));
            return said.map_or(Logged::Fine, Logged::Behind);
        }
        if sync && let Err(error) = self.writer.sync() {
            return Logged::NotSynced(error);
        }
        match self.behind.take() {
            None => Logged::Fine,
            Some(Behind { since, dropped, .. }) => Logged::CaughtUp {
                after: now.since(since),
                dropped,
            },
        }
    }

    /// The error, if it is the first.
    fn fell_behind(&mut self, error: LogError, now: Nanos) -> Option<LogError> {
        if let Some(behind) = &mut self.behind {
            behind.tried = now;
            return None;
        }
        self.behind = Some(Behind {
            since: now,
            tried: now,
            dropped: 0,
        });
        Some(error)
    }
}
