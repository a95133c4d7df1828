//! Clips that fail while the run trains, and what the cache has to say.

use std::path::PathBuf;

use voxmill_data::FeatureStore;
use voxmill_data::manifest::Quarantine;
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::train::FeedError;

use super::screen::Screen;
use crate::session::Session;
use voxmill_settings::error::of_library::with_cause;

pub(super) struct ClipWatch<'a> {
    store: &'a FeatureStore,
    /// Every bad clip so far, and how many of the store's were reported.
    bad: Quarantine,
    reported: usize,
    /// Notes of the store that were reported.
    notes: usize,
    /// Rows of the manifest, and the share of them that may be bad.
    rows: usize,
    max_bad: f64,
    list: PathBuf,
}

impl<'a> ClipWatch<'a> {
    pub(super) fn new(session: &'a Session, list: PathBuf) -> ClipWatch<'a> {
        ClipWatch {
            store: &session.store,
            bad: session.bad.clone(),
            reported: 0,
            notes: 0,
            rows: session.data.rows,
            max_bad: session.settings.data.max_bad,
            list,
        }
    }

    /// Reports clips that failed since the last check: their rows are masked. Too many end the run.
    /// `may_write`: the folder of the list is this run's.
    pub(super) fn check(
        &mut self,
        screen: &Screen,
        recorder: &Recorder,
        may_write: bool,
    ) -> Result<(), FeedError> {
        let notes = self.store.notes();
        for note in notes.iter().skip(self.notes) {
            screen.warn(note);
        }
        self.notes = notes.len();
        let bad = self.store.bad();
        if bad.len() == self.reported {
            return Ok(());
        }
        self.reported = bad.len();
        for entry in bad {
            if self.bad.entries().contains(&entry) {
                continue;
            }
            screen.warn_of_recorded(&format!(
                "`{}` is left out: {}: {}",
                entry.clip, entry.reason, entry.detail
            ));
            recorder.record(Event::Fault(Fault {
                stage: "featurize".to_owned(),
                item: 0,
                name: entry.clip.to_string(),
                kind: FaultKind::Error,
                message: format!("{}: {}", entry.reason, entry.detail),
                action: FaultAction::Skipped,
            }));
            self.bad.extend([entry]);
        }
        if may_write && let Err(error) = self.bad.write_csv(&self.list) {
            screen.warn(&with_cause(&error));
        }
        match self.bad.too_many(self.rows, self.max_bad) {
            Some(too_many) => Err(format!(
                "{too_many}; they are listed in `{}`, and --max-bad allows more",
                self.list.display()
            )
            .into()),
            None => Ok(()),
        }
    }
}
