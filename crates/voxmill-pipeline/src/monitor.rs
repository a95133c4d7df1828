//! The thread that looks at a run from time to time: it records how full buffers and budgets are, and
//! lets the controller change what it finds wanting.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use voxmill_telemetry::event::Event;

use crate::counters::Snapshot;
use crate::run::Control;

const LEVELS_EVERY: Duration = Duration::from_secs(1);

/// Ends its thread when dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    pub(crate) fn start(control: &Control) -> io::Result<Option<Monitor>> {
        let plan = control.plan();
        if !plan.overlap || (plan.adapt.is_none() && !control.recorder().is_on()) {
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
    while !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(LEVELS_EVERY);
        record_levels(control, &control.snapshot());
    }
}

fn record_levels(control: &Control, snapshot: &Snapshot) {
    let recorder = control.recorder();
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
