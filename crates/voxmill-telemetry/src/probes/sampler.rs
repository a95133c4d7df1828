//! The thread that samples the machine while the others work.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Probes;
use crate::event::{Event, Nanos};

/// A driver that has not answered by then may never do so, and the run must end all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Samples until it is dropped. The drop waits for the sample in hand, not for the interval, and not
/// for ever: a thread that hangs in a driver is left to itself.
#[derive(Debug)]
pub struct Sampler {
    /// Nothing is ever sent: its drop wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Nothing is ever received: the thread's end closes it.
    ended: Receiver<()>,
    patience: Duration,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Sampler {
    /// The log sums up items by the second; samples go with that.
    pub const INTERVAL: Duration = Duration::from_secs(1);

    /// Samples at once and then at every interval; `clock` is the run's, `deliver` gets the events.
    pub fn start(
        mut probes: Probes,
        interval: Duration,
        clock: impl Fn() -> Nanos + Send + 'static,
        mut deliver: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Sampler> {
        let (stop, stopped) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let notes = Arc::new(Mutex::new(probes.notes().to_vec()));
        let shared_notes = Arc::clone(&notes);
        let thread = thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || {
                let _ends: Sender<()> = ends;
                let mut reported = probes.notes().len();
                loop {
                    let began = Instant::now();
                    for event in probes.sample(clock()) {
                        deliver(event);
                    }
                    let new = &probes.notes()[reported..];
                    reported += new.len();
                    if !new.is_empty() {
                        lock(&shared_notes).extend_from_slice(new);
                    }
                    let left = interval.saturating_sub(began.elapsed());
                    if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                }
            })?;
        Ok(Sampler {
            stop: Some(stop),
            thread: Some(thread),
            ended,
            patience: PATIENCE,
            notes,
        })
    }

    /// See [`Probes::notes`].
    pub fn notes(&self) -> Vec<String> {
        lock(&self.notes).clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        if self.ended.recv_timeout(self.patience) == Err(RecvTimeoutError::Timeout) {
            return;
        }
        if let Some(thread) = self.thread.take() {
            // A panic can only come from `deliver`; it has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Notes are whole at every moment, so a panic elsewhere leaves them usable.
fn lock(notes: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::Roots;
    use super::*;

    #[test]
    fn a_driver_that_hangs_does_not_keep_the_run_from_ending() {
        // An empty machine except for memory, so that there is one event to deliver.
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("meminfo"), "MemTotal: 16 kB\n").unwrap();
        let roots = Roots {
            proc: home.path().to_owned(),
            sys: home.path().to_owned(),
            nvml_library: Some(home.path().join("none")),
        };
        let (hangs, is_hanging) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let deliver = move |_| {
            hangs.send(()).unwrap();
            let _ = released.recv();
        };
        let probes = Probes::find(&roots);
        let mut sampler = Sampler::start(probes, Sampler::INTERVAL, || Nanos(0), deliver).unwrap();
        sampler.patience = Duration::from_millis(1);
        is_hanging.recv().unwrap();
        drop(sampler);
        // It still hangs; only now is it let go.
        drop(release);
    }
}
