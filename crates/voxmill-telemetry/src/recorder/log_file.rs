//! The log as the collecting thread has it: one that fails is tried again.

use std::path::PathBuf;

use crate::event::{Nanos, Stamped};
use crate::log::{LogError, LogWriter};

/// A disk that was full is full for a while; asking it costs little, but not nothing.
const PAUSE: Nanos = Nanos(60_000_000_000);

#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    state: FileState,
}

#[derive(Debug)]
enum FileState {
    Open(LogWriter),
    Failed {
        /// When it was tried last.
        at: Nanos,
        lost_lines: u64,
    },
}

impl LogFile {
    pub(super) fn open(path: PathBuf) -> Result<LogFile, LogError> {
        let state = FileState::Open(LogWriter::append(&path)?);
        Ok(LogFile { path, state })
    }

    /// Safe from a kill then, and from a power cut where that is asked for. While it fails, lines
    /// are counted.
    pub(super) fn write(
        &mut self,
        lines: &[Stamped],
        sync: bool,
        now: Nanos,
    ) -> Result<(), LogError> {
        let writer = match &mut self.state {
            FileState::Open(writer) => writer,
            FileState::Failed { lost_lines, .. } => {
                *lost_lines += lines.len() as u64;
                return Ok(());
            }
        };
        for (index, line) in lines.iter().enumerate() {
            if let Err(error) = writer.write(line) {
                let never_tried = (lines.len() - index - 1) as u64;
                self.state = FileState::Failed {
                    at: now,
                    lost_lines: writer.lost_lines() + never_tried,
                };
                return Err(error);
            }
        }
        let written = if sync { writer.sync() } else { writer.flush() };
        if written.is_err() {
            self.state = FileState::Failed {
                at: now,
                lost_lines: writer.lost_lines(),
            };
        }
        written
    }

    /// Opens a log that failed, at most once a minute unless it is now or never; how many lines it
    /// lacks, if that went well.
    pub(super) fn reopen(&mut self, now: Nanos, at_once: bool) -> Option<u64> {
        let FileState::Failed { at, lost_lines } = &mut self.state else {
            return None;
        };
        if now.since(*at) < PAUSE && !at_once {
            return None;
        }
        *at = now;
        let writer = LogWriter::append(&self.path).ok()?;
        let lost = *lost_lines;
        self.state = FileState::Open(writer);
        Some(lost)
    }
}
