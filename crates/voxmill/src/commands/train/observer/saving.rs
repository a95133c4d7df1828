//! Whether checkpoints can be written: attempts that failed, and a disk that fills up.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use voxmill_data::cache::free_space;
use voxmill_report::format::{elapsed, size};
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::CheckpointError;
use voxmill_trainer::train::{NotSaved, Saved};

use super::screen::Screen;
use voxmill_settings::error::of_library::with_cause;

/// Asking costs little, but may go over a network.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

pub(super) struct SavingWatch {
    folder: PathBuf,
    /// What the next checkpoint takes, which is written before an old one goes.
    needed: u64,
    checked: Option<Instant>,
    is_short: bool,
    /// One is being written: what it takes is not free, and an old one goes afterwards.
    is_writing: bool,
    /// Old ones could not be removed the last time.
    is_unpruned: bool,
    was_unpruned: bool,
}

impl SavingWatch {
    /// `needed`: by calculation, until one is there.
    pub(super) fn new(folder: PathBuf, needed: u64) -> SavingWatch {
        SavingWatch {
            folder,
            needed,
            checked: None,
            is_short: false,
            is_writing: false,
            is_unpruned: false,
            was_unpruned: false,
        }
    }

    /// What to warn of, before the next checkpoint fails.
    pub(super) fn check(&mut self) -> Option<String> {
        let is_early = (self.checked).is_some_and(|then| then.elapsed() < BETWEEN_CHECKS);
        if is_early || self.is_writing {
            return None;
        }
        self.checked = Some(Instant::now());
        // A folder that says nothing shows what is wrong with it when it is written to.
        self.judge(free_space(&self.folder).ok()?)
    }

    /// Once, and again only if there was room in between.
    fn judge(&mut self, free: u64) -> Option<String> {
        let was_short = std::mem::replace(&mut self.is_short, free < self.needed);
        (self.is_short && !was_short).then(|| {
            format!(
                "the next checkpoint needs {} in `{}`, where {} are free: it will not fit",
                size(self.needed),
                self.folder.display(),
                size(free)
            )
        })
    }

    /// One is about to appear. Steps that a run does not repeat which resumes from it must be in the log by then,
    /// whatever ends this one.
    pub(super) fn saving(&mut self, recorder: &Recorder) {
        // A log that cannot be written is reported as such.
        let _ = recorder.flush();
        self.is_writing = true;
    }

    pub(super) fn saved(&mut self, saved: &Saved) {
        self.is_writing = false;
        self.needed = saved.bytes;
        self.was_unpruned = std::mem::take(&mut self.is_unpruned);
    }

    /// What to warn of, once until it goes well again: the checkpoint itself is there.
    pub(super) fn not_pruned(&mut self, why: &CheckpointError) -> Option<String> {
        self.is_unpruned = true;
        let why = with_cause(why);
        (!self.was_unpruned)
            .then(|| format!("an old checkpoint stays: {why}; the new one is saved"))
    }

    pub(super) fn not_saved(
        &mut self,
        failed: &NotSaved<'_>,
        screen: &Screen,
        recorder: &Recorder,
    ) {
        self.is_writing = false;
        let NotSaved {
            step,
            failures,
            most,
            ..
        } = *failed;
        let why = with_cause(failed.why);
        let next = match failed.again_in {
            Some(pause) => format!("the next attempt is in {}", elapsed(pause.as_secs_f64())),
            None => "the run ends".to_owned(),
        };
        let free = free_space(&self.folder).map(|free| format!(", {} are free", size(free)));
        let free = free.unwrap_or_default();
        screen.warn(&format!(
            "the checkpoint after step {step} is not saved: {why} ({} are needed{free}); failure {failures} of \
             {most} in a row, {next}",
            size(self.needed),
        ));
        recorder.record(Event::Fault(Fault {
            stage: "checkpoint".to_owned(),
            item: step,
            name: self.folder.display().to_string(),
            kind: FaultKind::Error,
            message: why,
            action: match failed.again_in {
                Some(_) => FaultAction::Retried,
                None => FaultAction::Stopped,
            },
        }));
    }
}

#[cfg(test)]
mod tests {
    use voxmill_telemetry::recorder::RecorderOptions;

    use super::*;

    #[test]
    fn a_disk_that_fills_up_is_warned_of_once() {
        let mut watch = SavingWatch::new("kept".into(), 5_000_000);
        assert_eq!(watch.judge(5_000_000), None);
        let warning = watch.judge(4_000_000).unwrap();
        assert!(
            warning.contains("needs 5 MB in `kept`, where 4 MB are free"),
            "{warning}"
        );
        assert_eq!(watch.judge(3_000_000), None);
        assert_eq!(watch.judge(9_000_000), None);
        assert!(watch.judge(0).is_some());
    }

    /// The trainer says so before the checkpoint appears. Whoever resumes from that does not repeat these steps.
    #[test]
    fn what_came_before_a_checkpoint_is_in_the_log_before_it_appears() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("events.jsonl");
        let recorder = Recorder::start(RecorderOptions {
            log: Some(log.clone()),
            trace: None,
        });
        let recorder = recorder.unwrap();
        let mut watch = SavingWatch::new(folder.path().to_owned(), 1);
        // More than once: by itself the log is written four times a second.
        for position in 1..=20 {
            recorder.record(Event::Checkpoint {
                position,
                path: "step".to_owned(),
                bytes: 1,
                took: Duration::ZERO.into(),
            });
            watch.saving(&recorder);
            let text = std::fs::read_to_string(&log).unwrap();
            assert_eq!(text.lines().count() as u64, position);
        }
    }

    #[test]
    fn an_old_checkpoint_that_stays_is_warned_of_once() {
        let mut watch = SavingWatch::new("kept".into(), 1);
        let saved = Saved {
            step: 1,
            path: "kept/step-1".into(),
            bytes: 1,
            took: Duration::ZERO,
        };
        let why = CheckpointError::None("kept/step-0".into());
        for is_said in [true, false, false] {
            watch.saved(&saved);
            assert_eq!(watch.not_pruned(&why).is_some(), is_said);
        }
        watch.saved(&saved);
        watch.saved(&saved);
        assert!(watch.not_pruned(&why).is_some(), "it went well in between");
    }

    #[test]
    fn nothing_is_said_of_a_disk_that_is_being_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = SavingWatch::new(folder.path().to_owned(), u64::MAX);
        watch.saving(&Recorder::off());
        assert_eq!(watch.check(), None);
        watch.is_writing = false;
        assert!(watch.check().is_some());
    }
}
