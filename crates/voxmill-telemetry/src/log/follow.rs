//! A log that grows while it is read, as the run writes it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use voxmill_untrusted::file;

use super::{LONGEST_LINE, LogError, check_version};
use crate::event::Stamped;

/// Bytes taken at a time: a long log is shown while it is read.
const AT_ONCE: u64 = 4 << 20;

/// Gives what is new in a log. Lines that cannot be read are left out: who wants to know of them reads the whole log.
#[derive(Debug)]
pub struct LogFollower {
    path: PathBuf,
    file: File,
    /// What was read of it.
    at: u64,
    /// A line whose end is not written yet.
    begun: Vec<u8>,
    lines: u64,
}

impl LogFollower {
    /// From its first line on.
    pub fn open(path: &Path) -> Result<LogFollower, LogError> {
        let path = path.to_owned();
        match file::open(&path) {
            Ok(file) => Ok(LogFollower {
                path,
                file,
                at: 0,
                begun: Vec::new(),
                lines: 0,
            }),
            Err(source) => Err(LogError::Open { path, source }),
        }
    }

    /// Events of some of the lines that were completed since the last call; none when there is nothing new.
    pub fn read(&mut self) -> Result<Vec<Stamped>, LogError> {
        let mut bytes = Vec::new();
        let taken = self.take(&mut bytes).map_err(|source| LogError::Read {
            path: self.path.clone(),
            source,
        })?;
        self.at += taken as u64;
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.last() != Some(&b'\n') {
                // So long a line is damage: its rest is another one.
                if self.begun.len() > LONGEST_LINE {
                    self.begun.clear();
                }
                continue;
            }
            self.lines += 1;
            let line = std::mem::take(&mut self.begun);
            if let Ok(Stamped { at, event }) = serde_json::from_slice(&line) {
                let event = Stamped::modernised(at, event);
                check_version(&event, &self.path, self.lines)?;
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Whether everything that is written now was read.
    pub fn is_at_end(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() <= self.at)
    }

    fn take(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(self.at))?;
        (&self.file).take(AT_ONCE).read_to_end(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::event::{Event, Nanos, Outcome};

    #[test]
    fn what_is_written_comes_once_and_half_a_line_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let line = |at: u64| {
            let outcome = Outcome::Finished;
            let event = Event::RunEnded { outcome };
            let at = Nanos(at);
            serde_json::to_string(&Stamped { at, event }).unwrap() + "\n"
        };
        let mut log = File::create(&path).unwrap();
        let mut follower = LogFollower::open(&path).unwrap();
        assert!(follower.read().unwrap().is_empty());
        let (whole, half) = (line(1), line(2));
        let (begun, rest) = half.split_at(10);
        write!(log, "{whole}{begun}").unwrap();
        let times = |events: Vec<Stamped>| -> Vec<u64> { events.iter().map(|e| e.at.0).collect() };
        assert!(!follower.is_at_end());
        assert_eq!(times(follower.read().unwrap()), [1]);
        assert!(follower.is_at_end() && follower.read().unwrap().is_empty());
        write!(log, "{rest}damaged\n{}", line(3)).unwrap();
        assert_eq!(times(follower.read().unwrap()), [2, 3]);
    }
}
