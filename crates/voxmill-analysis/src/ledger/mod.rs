//! What was predicted, and what became of it.
//!
//! Each prediction that is printed is an [`Entry`] in a file next to the runs, and so is the measurement of a later run
//! that made the change ([`RunKey::realises`]). Nothing in it names a path, a voice or a person: it can be shown as it is.

mod file;
mod run_key;
mod score;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use file::{Ledger, LedgerError};
pub use run_key::RunKey;
pub use score::{Count, LedgerReport, Scored, report};

use crate::run::{CoreLoad, Run};
use crate::simulate::model::{LEAST_STEPS, Pace, measured_steps};
use crate::simulate::what_if::{Likely, Prediction};

/// Grows when a reader would misread an entry.
pub const LEDGER_VERSION: u32 = 1;

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    Predicted(Box<Forecast>),
    Measured(Realised),
}

/// A prediction that was printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    pub version: u32,
    /// Of the run and the changes: the same question to the same log is one prediction.
    pub id: String,
    pub unix_seconds: f64,
    pub program: String,
    /// What printed it, such as `profile`.
    pub verb: String,
    pub run: RunKey,
    /// Such as `num_workers=4`.
    pub changes: Vec<String>,
    pub measured_step_ms: f64,
    pub step_ms: Likely,
    pub gain: Likely,
    /// Of the replay's step time, how far it was from the measured one.
    pub replay_error: f64,
    /// Other programs took the cores while the run was measured.
    pub crowded: bool,
}

/// What a run measured that made a predicted change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Realised {
    /// The [`Forecast::id`].
    pub forecast: String,
    pub unix_seconds: f64,
    pub program: String,
    pub steps: u64,
    pub step_ms: f64,
    pub crowded: bool,
}

impl Forecast {
    /// `None` where the log does not say enough of the run to know another one like it.
    pub fn new(
        run: &Run,
        prediction: &Prediction,
        verb: &str,
        unix_seconds: f64,
    ) -> Option<Forecast> {
        let key = RunKey::of(run)?;
        let started = run.stats.started.as_ref()?;
        let log = started.unix_seconds.to_string();
        let changes = prediction.changes.clone();
        let asked = changes.iter().map(String::as_str);
        Some(Forecast {
            version: LEDGER_VERSION,
            id: run_key::digest([log.as_str()].into_iter().chain(asked)),
            unix_seconds,
            program: started.program.clone(),
            verb: verb.to_owned(),
            run: key,
            changes,
            measured_step_ms: prediction.measured.step_ms,
            step_ms: prediction.step_ms,
            gain: prediction.gain,
            replay_error: prediction.replay_error,
            crowded: is_crowded(run),
        })
    }

    /// What this run says of the prediction, if it is like the one that was asked about except for the changes.
    pub fn measured_by(&self, run: &Run) -> Option<Realised> {
        let started = run.stats.started.as_ref()?;
        let is_later = started.unix_seconds > self.unix_seconds;
        let key = RunKey::of(run).filter(|key| is_later && self.run.realises(&self.changes, key));
        key?;
        let steps = measured_steps(&run.last_start());
        (steps.len() >= LEAST_STEPS).then(|| Realised {
            forecast: self.id.clone(),
            unix_seconds: started.unix_seconds,
            program: started.program.clone(),
            steps: steps.len() as u64,
            step_ms: Pace::of_steps(&steps).step_ms,
            crowded: is_crowded(run),
        })
    }
}

fn is_crowded(run: &Run) -> bool {
    run.core_load().is_some_and(CoreLoad::is_oversubscribed)
}

#[cfg(test)]
mod tests;
