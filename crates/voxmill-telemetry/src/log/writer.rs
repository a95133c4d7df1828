//! Adds lines to a log, and to nothing that is not one.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde::Deserialize;

use super::{LONGEST_LINE, LogError};
use crate::event::Stamped;

/// Lines are written out at the latest when they take this many bytes.
const ENOUGH_TO_WRITE: usize = 1 << 18;

/// Adds lines to a log.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
}

impl LogWriter {
    /// A new log, or the end of the one that is there. No other writer may have it open, and a file
    /// that is not a log is not touched.
    pub fn append(path: impl Into<PathBuf>) -> Result<LogWriter, LogError> {
        let path = path.into();
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let failed = |source| LogError::Open {
            path: path.clone(),
            source,
        };
        let mut file = opened.map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() && is_locked(&file) {
            return Err(LogError::InUse { path });
        }
        let mut pending = Vec::new();
        if file.metadata().map_err(failed)?.len() > 0 {
            if !begins_as_a_log(&mut file).map_err(failed)? {
                return Err(LogError::NotALog { path });
            }
            if last_byte(&mut file).map_err(failed)? != b'\n' {
                // A killed process left a line half written; the next must not be glued to it.
                pending.push(b'\n');
            }
        }
        Ok(LogWriter {
            path,
            file,
            pending,
        })
    }

    /// Into a file that is open already, whatever it is.
    #[cfg(test)]
    pub(crate) fn into_open(path: impl Into<PathBuf>, file: File) -> LogWriter {
        LogWriter {
            path: path.into(),
            file,
            pending: Vec::new(),
        }
    }

    /// The line is safe from a kill of this process after [`LogWriter::flush`].
    pub fn write(&mut self, stamped: &Stamped) -> Result<(), LogError> {
        self.keep(stamped)?;
        if self.pending.len() >= ENOUGH_TO_WRITE {
            self.flush()?;
        }
        Ok(())
    }

    /// For the next [`LogWriter::flush`], whatever it takes in memory until then.
    pub(crate) fn keep(&mut self, stamped: &Stamped) -> Result<(), LogError> {
        let before = self.pending.len();
        if let Err(cause) = serde_json::to_writer(&mut self.pending, stamped) {
            self.pending.truncate(before);
            return Err(self.failed(cause.into()));
        }
        self.pending.push(b'\n');
        Ok(())
    }

    /// Bytes that are not in the file yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What could not be written stays for the next attempt, which continues in the middle of a line where this one
    /// ended there.
    pub fn flush(&mut self) -> Result<(), LogError> {
        let mut done = 0;
        let written = loop {
            if done == self.pending.len() {
                break Ok(());
            }
            match self.file.write(&self.pending[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => break Err(cause),
            }
        };
        self.pending.drain(..done);
        written.map_err(|cause| self.failed(cause))
    }

    /// Safe from a power cut too.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.flush()?;
        match self.file.sync_data() {
            // Pipes and the like cannot be synced, and need not.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(|cause| self.failed(cause)),
        }
    }

    fn failed(&self, source: io::Error) -> LogError {
        LogError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

/// Whether somebody else holds the file; from now on we do, until it is closed. File systems that
/// know no locks have none that are taken.
#[cfg(unix)]
pub(crate) fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// Elsewhere a lock would keep readers out too, and a log may be read while it is written.
#[cfg(not(unix))]
pub(crate) fn is_locked(_: &File) -> bool {
    false
}

/// Whether the first line is an event, or as much of one as a kill in the first write leaves.
fn begins_as_a_log(file: &mut File) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut start = BufReader::new(&mut *file).take(LONGEST_LINE as u64);
    start.read_until(b'\n', &mut line)?;
    let whole = line.last() == Some(&b'\n');
    let head = &b"{\"at\":"[..];
    let cut = !whole && (line.starts_with(head) || head.starts_with(&line));
    Ok(cut || serde_json::from_slice::<AnyLine>(&line).is_ok())
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0])
}

/// As much of a line as any version writes.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only whether they are there is of interest")]
struct AnyLine {
    at: u64,
    event: String,
}
