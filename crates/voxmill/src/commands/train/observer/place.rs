//! Whether the run's folder is still there, and its log can be written.

use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::KnownFolder;

use voxmill_settings::error::of_library::with_cause;

/// A folder may be moved, removed or replaced under a run. Then nothing more is written by its path: what is there may
/// be somebody else's.
pub(super) struct PlaceWatch {
    folder: KnownFolder,
    is_lost: bool,
}

impl PlaceWatch {
    pub(super) fn new(folder: KnownFolder) -> PlaceWatch {
        PlaceWatch {
            folder,
            is_lost: false,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// What to warn of: once, and again only if it was there in between.
    pub(super) fn check(&mut self) -> Option<String> {
        let found = self.folder.check();
        let was_lost = std::mem::replace(&mut self.is_lost, found.is_err());
        let error = found.err().filter(|_| !was_lost)?;
        Some(format!(
            "the run's folder `{}` is not there any more: {error}; until it is back, no samples and lists are written, \
             nor checkpoints that belong there",
            self.folder.path().display()
        ))
    }
}

/// Says while the run lives what its end would say too late: somebody could still make room.
#[derive(Default)]
pub(super) struct LogWatch {
    known: usize,
}

impl LogWatch {
    pub(super) fn check(&mut self, recorder: &Recorder) -> Option<String> {
        let problem = recorder.problem();
        let all = problem.as_ref().map_or(&[][..], |problem| problem.each());
        let is_new = all.len() > std::mem::replace(&mut self.known, all.len());
        let newest = all.last().filter(|_| is_new)?;
        Some(format!(
            "the record of the run falls behind: {}; lines of the log are kept until there is room",
            with_cause(newest)
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_warned_of_once() {
        let home = tempfile::tempdir().unwrap();
        let [run, aside] = ["run", "aside"].map(|name| home.path().join(name));
        fs::create_dir(&run).unwrap();
        let mut watch = PlaceWatch::new(KnownFolder::find(&run).unwrap());
        assert!(watch.check().is_none() && !watch.is_lost());
        for _ in 0..2 {
            fs::rename(&run, &aside).unwrap();
            let warning = watch.check().unwrap();
            assert!(warning.contains("it was moved to"), "{warning}");
            assert!(watch.check().is_none() && watch.is_lost());
            fs::rename(&aside, &run).unwrap();
            assert!(watch.check().is_none() && !watch.is_lost());
        }
    }
}
