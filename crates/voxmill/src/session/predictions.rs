//! Predictions that were printed, kept in the ledger next to the runs. A ledger that cannot be read or written costs a
//! warning: nothing else depends on it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use voxmill_analysis::ledger::{Forecast, Ledger, LedgerError};
use voxmill_analysis::run::Run;
use voxmill_analysis::simulate::what_if::Prediction;
use voxmill_settings::args::runs_dir;

use crate::commands::{status, warning};
use voxmill_settings::run_folder::EVENTS;

/// Keeps what is about to be printed of a run.
pub(crate) fn keep(of: &Path, run: &Run, predictions: &[Prediction], verb: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    let forecasts = predictions.iter();
    let forecasts = forecasts.filter_map(|it| Forecast::new(run, it, verb, now));
    let forecasts: Vec<Forecast> = forecasts.collect();
    if forecasts.is_empty() {
        return;
    }
    let ledger = Ledger::open(&ledger_folder(of));
    let kept = ledger.and_then(|mut ledger| {
        let mut forecasts = forecasts.into_iter();
        forecasts.try_for_each(|forecast| ledger.predict(forecast))
    });
    warn_of(kept);
}

/// Scores the predictions that a run which has just ended made true or false.
pub(crate) fn score(folder: &Path) {
    let scored = || -> Result<usize, LedgerError> {
        let mut ledger = Ledger::open(&ledger_folder(folder))?;
        if !ledger.is_waiting() {
            return Ok(0);
        }
        // A log that cannot be read was reported by whoever needs it.
        match Run::read(&folder.join(EVENTS)) {
            Ok(run) => ledger.measure(&run),
            Err(_) => Ok(0),
        }
    };
    match scored() {
        Ok(0) => {}
        Ok(_) => status!("ledger    this run shows how good a prediction was: voxmill ledger"),
        Err(error) => warn_of(Err(error)),
    }
}

fn warn_of(done: Result<(), LedgerError>) {
    if let Err(error) = done {
        warning!("{:#}: predictions are not kept", anyhow::Error::from(error));
    }
}

/// Where the run is kept, or where runs are usually kept if this is a log without a folder of its own.
fn ledger_folder(of: &Path) -> PathBuf {
    let folder = match of.is_dir() {
        true => Some(of),
        false => of.parent().filter(|_| of.ends_with(EVENTS)),
    };
    let whole = folder.and_then(|folder| folder.canonicalize().ok());
    let parent = whole.as_deref().and_then(Path::parent);
    parent.map_or_else(|| runs_dir(None), Path::to_owned)
}
