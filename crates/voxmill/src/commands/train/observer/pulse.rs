//! How far a run is between two reports. Losses are read every `--log-every` steps; a person wants to see every second
//! that it is alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use voxmill_pipeline::control::Control;
use voxmill_report::dashboard::{BudgetLevel, BufferLevel, DashboardState, doing};
use voxmill_report::format::clock;

use super::Starting;
use crate::commands::status;

/// Without a dashboard: a line after this much silence.
const SILENCE: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(super) struct Pulse {
    opened: Instant,
    /// Trained in earlier sessions.
    earlier: Duration,
    first_step: u64,
    accumulate: u64,
    taken: Arc<AtomicU64>,
    control: Control,
}

impl Pulse {
    pub(super) fn of(starting: &Starting<'_>) -> Pulse {
        Pulse {
            opened: Instant::now(),
            earlier: Duration::from_secs_f64(starting.progress.seconds),
            first_step: starting.progress.step,
            accumulate: starting.accumulate.max(1),
            taken: Arc::clone(&starting.taken),
            control: starting.control.clone(),
        }
    }

    pub(super) fn first_step(&self) -> u64 {
        self.first_step
    }

    /// Of this session. A batch that was taken is in training: those before it are done.
    fn steps_done(&self) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        taken.saturating_sub(1) / self.accumulate
    }

    pub(super) fn tick(&self, state: &mut DashboardState) {
        let done = self.steps_done();
        state.step = state.step.max(self.first_step + done);
        state.doing = (done == 0).then(|| self.doing());
        state.tick(self.opened.elapsed(), self.earlier, done);
        let snapshot = self.control.snapshot();
        // The model itself has nothing behind it.
        let stages = snapshot.stages.iter().filter(|stage| stage.capacity > 0);
        state.buffers = stages
            .map(|stage| BufferLevel {
                name: stage.name.clone(),
                items: stage.buffered,
                capacity: stage.capacity,
            })
            .collect();
        state.budget = snapshot.budgets.first().map(|budget| BudgetLevel {
            used_bytes: budget.in_use,
            limit_bytes: budget.limit,
        });
    }

    /// What is being done, for a line.
    fn line(&self) -> String {
        format!("{}, for {}", self.doing(), clock(self.opened.elapsed()))
    }

    fn doing(&self) -> String {
        let taken = self.taken.load(Ordering::Relaxed);
        let step = self.first_step + self.steps_done() + 1;
        let all = self.accumulate;
        match taken {
            0 => "waiting for the first batch".to_owned(),
            _ if all == 1 => doing(step, None),
            _ => doing(step, Some(((taken - 1) % all + 1, all))),
        }
    }
}

/// Prints a line where nothing else was printed for a while.
pub(super) struct PulseLines {
    shared: Arc<LastLine>,
    printer: Option<JoinHandle<()>>,
}

struct LastLine {
    began: Instant,
    /// Milliseconds after `began`.
    at: AtomicU64,
    finished: AtomicBool,
}

impl PulseLines {
    pub(super) fn start(pulse: Pulse) -> std::io::Result<PulseLines> {
        let shared = Arc::new(LastLine {
            began: Instant::now(),
            at: AtomicU64::new(0),
            finished: AtomicBool::new(false),
        });
        let of_printer = Arc::clone(&shared);
        let printer = thread::Builder::new().name("progress".to_owned());
        let printer = printer.spawn(move || {
            while !of_printer.finished.load(Ordering::Acquire) {
                thread::park_timeout(BETWEEN_LOOKS);
                let last = Duration::from_millis(of_printer.at.load(Ordering::Relaxed));
                if of_printer.began.elapsed().saturating_sub(last) >= SILENCE {
                    of_printer.printed();
                    status!("{}", pulse.line());
                }
            }
        })?;
        Ok(PulseLines {
            shared,
            printer: Some(printer),
        })
    }

    pub(super) fn printed(&self) {
        self.shared.printed();
    }
}

impl LastLine {
    fn printed(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.at.store(now, Ordering::Relaxed);
    }
}

impl Drop for PulseLines {
    fn drop(&mut self) {
        self.shared.finished.store(true, Ordering::Release);
        if let Some(printer) = self.printer.take() {
            printer.thread().unpark();
            // It prints and nothing else: a panic of it has been printed.
            let _ = printer.join();
        }
    }
}
