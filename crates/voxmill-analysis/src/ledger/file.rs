//! The ledger on disk: one entry a line, only ever added to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use voxmill_untrusted::file::read_text;

use super::{Entry, Forecast, LEDGER_VERSION, Realised};
use crate::run::Run;

/// In the folder of the runs.
const NAME: &str = "ledger.jsonl";
/// Some hundred thousand predictions.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("cannot read the ledger `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the ledger `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// All entries of a folder of runs.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
    pub forecasts: Vec<Forecast>,
    pub realised: Vec<Realised>,
    /// Lines that are damaged, or of a later version.
    pub unread: usize,
}

impl Ledger {
    /// The ledger of a folder of runs; without a file it is empty.
    pub fn open(runs_dir: &Path) -> Result<Ledger, LedgerError> {
        let path = runs_dir.join(NAME);
        let mut ledger = Ledger {
            path,
            forecasts: Vec::new(),
            realised: Vec::new(),
            unread: 0,
        };
        let text = match read_text(&ledger.path, MOST_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ledger),
            Err(source) => {
                let path = ledger.path;
                return Err(LedgerError::Read { path, source });
            }
        };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Entry::Predicted(forecast)) if forecast.version <= LEDGER_VERSION => {
                    ledger.forecasts.push(*forecast);
                }
                Ok(Entry::Measured(realised)) => ledger.realised.push(realised),
                _ => ledger.unread += 1,
            }
        }
        Ok(ledger)
    }

    /// Whether nothing was measured yet for one of the predictions.
    pub fn is_waiting(&self) -> bool {
        self.forecasts.iter().any(|it| !self.is_measured(it))
    }

    fn is_measured(&self, forecast: &Forecast) -> bool {
        let mut measured = self.realised.iter();
        measured.any(|realised| realised.forecast == forecast.id)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a prediction. The same question to the same log is kept once.
    pub fn predict(&mut self, forecast: Forecast) -> Result<(), LedgerError> {
        if self.forecasts.iter().any(|known| known.id == forecast.id) {
            return Ok(());
        }
        self.add(&Entry::Predicted(Box::new(forecast.clone())))?;
        self.forecasts.push(forecast);
        Ok(())
    }

    /// Keeps what a run measured for each prediction that nothing was measured for. How many these were.
    pub fn measure(&mut self, run: &Run) -> Result<usize, LedgerError> {
        let waiting = self.forecasts.iter().filter(|it| !self.is_measured(it));
        let found: Vec<_> = waiting.filter_map(|it| it.measured_by(run)).collect();
        for realised in &found {
            self.add(&Entry::Measured(realised.clone()))?;
        }
        let count = found.len();
        self.realised.extend(found);
        Ok(count)
    }

    /// In one piece, so that two programs do not write into each other's lines.
    fn add(&self, entry: &Entry) -> Result<(), LedgerError> {
        let write = || -> io::Result<()> {
            let mut line = serde_json::to_string(entry)?;
            line.push('\n');
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            // What is no file there may never take a byte.
            if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
                return Err(io::Error::other("it is not a regular file"));
            }
            let mut options = OpenOptions::new();
            let mut file = options.create(true).append(true).open(&self.path)?;
            file.write_all(line.as_bytes())
        };
        write().map_err(|source| LedgerError::Write {
            path: self.path.clone(),
            source,
        })
    }
}
