//! The thread that looks at the machine while the others work.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Probes;
use crate::event::{Event, Nanos};

/// Samples until it is dropped. The drop waits for the sample in hand, not for the interval.
#[derive(Debug)]
pub struct Sampler {
    /// Nothing is ever sent: its drop wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
        let notes = Arc::new(Mutex::new(probes.notes().to_vec()));
        let shared_notes = Arc::clone(&notes);
        let thread = thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || {
                let mut told = probes.notes().len();
                loop {
                    let began = Instant::now();
                    for event in probes.sample(clock()) {
                        deliver(event);
                    }
                    let new = &probes.notes()[told..];
                    told += new.len();
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
