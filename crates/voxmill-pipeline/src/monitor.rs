//! The thread that samples a run from time to time: it records how full buffers and budgets are, and
//! lets the controller change workers and buffers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use voxmill_telemetry::event::{DecidedChange, Decision, Event};

use crate::adapt::Controller;
use crate::control::Control;
use crate::counters::RunSnapshot;

const LEVELS_EVERY: Duration = Duration::from_secs(1);

/// Ends its thread when dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    pub(crate) fn start(control: &Control) -> io::Result<Option<Monitor>> {
        let plan = &control.shared.plan;
        if !plan.overlap || (plan.adapt.is_none() && !control.shared.recorder.is_on()) {
            return Ok(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, control) = (Arc::clone(&stop), control.clone());
        let thread = Builder::new()
            .name("monitor".to_owned())
            .spawn(move || watch(&control, &stopped))?;
        Ok(Some(Monitor {
            stop,
            thread: Some(thread),
        }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(control: &Control, stop: &AtomicBool) {
    let mut controller = Controller::new(&control.shared.plan, &control.shared.single);
    let sample_after = |controller: &Option<Controller>| {
        let wait = controller.as_ref().map(Controller::next_snapshot);
        Instant::now() + wait.unwrap_or(LEVELS_EVERY)
    };
    let mut next_levels = Instant::now() + LEVELS_EVERY;
    let mut next_sample = sample_after(&controller);
    loop {
        let next = next_levels.min(next_sample);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Acquire) {
            return;
        }
        let now = Instant::now();
        let snapshot = control.snapshot();
        if now >= next_levels {
            next_levels = now + LEVELS_EVERY;
            record_levels(control, &snapshot);
        }
        if now >= next_sample {
            for decision in controller.iter_mut().flat_map(|it| it.observe(&snapshot)) {
                carry_out(control, decision);
            }
            next_sample = sample_after(&controller);
        }
    }
}

fn carry_out(control: &Control, mut decision: Decision) {
    use DecidedChange::{Capacity, CapacityBack, Reopened, Settled, Workers, WorkersBack};
    let stage = &decision.subject;
    let done = match decision.change {
        Workers { to, .. } | WorkersBack { to, .. } => control.set_workers(stage, to as usize),
        Capacity { to, .. } | CapacityBack { to, .. } => control.set_capacity(stage, to as usize),
        Settled | Reopened => Ok(()),
    };
    if let Err(error) = done {
        // The controller sees from the next snapshot that nothing changed.
        decision.reason = format!("{}; but it could not be done: {error}", decision.reason);
    }
    control.shared.recorder.record(Event::Decision(decision));
}

/// How full buffers and budgets are now.
pub(crate) fn record_levels(control: &Control, snapshot: &RunSnapshot) {
    let recorder = &control.shared.recorder;
    for stage in snapshot.stages.iter().filter(|stage| stage.capacity > 0) {
        recorder.record(Event::BufferLevel {
            buffer: stage.name.clone(),
            items: stage.buffered as u64,
            capacity: stage.capacity as u64,
        });
    }
    for budget in &snapshot.budgets {
        recorder.record(Event::BudgetLevel {
            budget: budget.name.clone(),
            bytes: budget.in_use,
            limit: budget.limit,
            peak: budget.peak,
        });
    }
}
