//! How busy the model device was in the newest run like this one: the only share that may be named,
//! for it was measured.

use std::path::PathBuf;

use crate::commands::recorded;
use crate::settings::TrainSettings;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Busy {
    pub(super) run: PathBuf,
    /// Of the model thread's time in its steps, what was the step itself and not waiting.
    pub(super) share: f64,
    pub(super) steps: u64,
    pub(super) seconds_a_step: f64,
}

pub(super) fn newest_like(settings: &TrainSettings) -> Option<Busy> {
    let (run, profile) = recorded::newest_like(settings)?;
    Some(Busy {
        run,
        share: profile.busy,
        steps: profile.steps,
        seconds_a_step: profile.seconds / profile.steps.max(1) as f64,
    })
}
