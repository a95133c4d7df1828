//! Checkpoints written by a thread of their own: the model is held up only while its weights are copied to the host.
//!
//! One is written at a time. What became of it comes back as a value, to whoever asks next; who may not go on without
//! it waits.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};

use super::{CheckpointError, Checkpoints, Snapshot, Written};
use crate::device::without_panic;

type WriteOutcome = Result<Written, NotWritten>;

/// A checkpoint that is not there, and why.
#[derive(Debug)]
pub(crate) struct NotWritten {
    pub(crate) step: u64,
    pub(crate) why: CheckpointError,
}

#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    checkpoints: Checkpoints,
    /// `None` once it is to end.
    snapshots: Option<Sender<Snapshot>>,
    outcomes: Receiver<WriteOutcome>,
    thread: Option<JoinHandle<()>>,
    /// The step that is being written, or whose outcome nobody has taken yet.
    under_way: Option<u64>,
}

impl CheckpointWriter {
    pub(crate) fn start(checkpoints: &Checkpoints) -> Self {
        let writes = checkpoints.clone();
        Self::with(checkpoints, move |snapshot| writes.write(snapshot))
    }

    fn with(
        checkpoints: &Checkpoints,
        mut write: impl FnMut(Snapshot) -> Result<Written, CheckpointError> + Send + 'static,
    ) -> Self {
        let (snapshots, queue) = channel::<Snapshot>();
        let (sender, outcomes) = channel();
        let writes = checkpoints.clone();
        let write_all = move || {
            for snapshot in queue {
                let step = snapshot.step();
                let written = without_panic(|| write(snapshot));
                let written = written.unwrap_or_else(|why| Err(writes.failed(step, why)));
                // Whoever asked may have gone: a run that failed.
                let _ = sender.send(written.map_err(|why| NotWritten { step, why }));
            }
        };
        let named = thread::Builder::new().name("checkpoints".to_owned());
        let thread = named.spawn(write_all).expect("a thread can be started");
        Self {
            checkpoints: checkpoints.clone(),
            snapshots: Some(snapshots),
            outcomes,
            thread: Some(thread),
            under_way: None,
        }
    }

    /// What became of the checkpoint before, once it has; nothing where none is under way.
    pub(crate) fn outcome(&mut self) -> Option<WriteOutcome> {
        self.under_way?;
        match self.outcomes.try_recv() {
            Err(TryRecvError::Empty) => None,
            came => self.take(came.ok()),
        }
    }

    /// The same, waited for.
    pub(crate) fn wait(&mut self) -> Option<WriteOutcome> {
        self.under_way?;
        let came = self.outcomes.recv().ok();
        self.take(came)
    }

    fn take(&mut self, came: Option<WriteOutcome>) -> Option<WriteOutcome> {
        let step = self.under_way.take()?;
        let ended = || {
            let why = "the thread that writes it has ended";
            let why = self.checkpoints.failed(step, why);
            Err(NotWritten { step, why })
        };
        Some(came.unwrap_or_else(ended))
    }

    /// Begins to write the next one. The one before is waited for and taken first.
    pub(crate) fn begin(&mut self, snapshot: Snapshot) {
        debug_assert_eq!(self.under_way, None, "its outcome would be lost");
        self.under_way = Some(snapshot.step());
        if let Some(snapshots) = &self.snapshots {
            // Without its thread there is no outcome, which says so.
            let _ = snapshots.send(snapshot);
        }
    }
}

/// What was begun is finished: half a checkpoint is no checkpoint.
impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Barrier};

    use super::super::tests::{facts, snapshot};
    use super::*;

    fn checkpoints(folder: &Path) -> Checkpoints {
        Checkpoints::new(folder, 3)
    }

    #[test]
    fn who_begins_goes_on_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let writes = checkpoints(folder.path());
        let gates = Arc::new(Barrier::new(2));
        let waits = gates.clone();
        let mut writer = CheckpointWriter::with(&checkpoints(folder.path()), move |snapshot| {
            waits.wait();
            writes.write(snapshot)
        });
        assert!(writer.outcome().is_none() && writer.wait().is_none());
        writer.begin(snapshot(&facts(3, None)));
        assert!(writer.outcome().is_none(), "it cannot be there yet");
        assert_eq!(checkpoints(folder.path()).list().unwrap().len(), 0);
        gates.wait();
        let written = writer.wait().unwrap().unwrap();
        assert_eq!(written.step, 3);
        assert!(written.path.join(super::super::JSON).is_file());
        assert!(writer.wait().is_none(), "it is reported once");
    }

    #[test]
    fn what_failed_comes_back_as_a_value_and_the_next_may_succeed() {
        let folder = tempfile::tempdir().unwrap();
        let writes = checkpoints(folder.path());
        let mut left = 2;
        let mut writer = CheckpointWriter::with(&checkpoints(folder.path()), move |snapshot| {
            left -= 1;
            match left {
                1 => Err(writes.failed(snapshot.step(), "the disk is full")),
                0 => panic!("out of luck"),
                _ => writes.write(snapshot),
            }
        });
        for why in ["the disk is full", "out of luck"] {
            writer.begin(snapshot(&facts(3, None)));
            let NotWritten { step, why: error } = writer.wait().unwrap().unwrap_err();
            assert_eq!(step, 3);
            let CheckpointError::Write { path, source } = error else {
                panic!("{error}");
            };
            assert!(path.ends_with("step-000000003"), "{path:?}");
            assert!(source.to_string().contains(why), "{source}");
        }
        writer.begin(snapshot(&facts(4, None)));
        assert_eq!(writer.wait().unwrap().unwrap().step, 4);
    }

    /// A run that fails, or is over, leaves no half a checkpoint behind.
    #[test]
    fn what_was_begun_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let all = checkpoints(folder.path());
        let mut writer = CheckpointWriter::start(&all);
        writer.begin(snapshot(&facts(5, None)));
        drop(writer);
        assert_eq!(all.newest().unwrap().checkpoint.facts().progress.step, 5);
    }
}
