//! What a run sums up: over all steps of this start, and over the last ones.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use voxmill_trainer::train::StepReport;

/// Steps that "now" looks back on.
const RECENT: usize = 200;

/// Over all steps of this start.
#[derive(Clone, Debug)]
pub(in crate::commands::train) struct Totals {
    /// When the program was started.
    pub(super) began: Instant,
    pub(in crate::commands::train) steps: u64,
    pub(in crate::commands::train) frames: u64,
    pub(in crate::commands::train) waited: Duration,
    pub(in crate::commands::train) service: Duration,
    pub(in crate::commands::train) overhead: Duration,
    /// From the program's start to the end of the first step, where this start had it.
    pub(in crate::commands::train) first_step_after: Option<Duration>,
    pub(in crate::commands::train) first_validation: Option<f64>,
    pub(in crate::commands::train) samples: Vec<PathBuf>,
    /// Somebody did not want to wait for all of them.
    pub(in crate::commands::train) samples_left_out: bool,
    /// Attempts to write one.
    pub(in crate::commands::train) failed_checkpoints: u64,
    recent: VecDeque<StepReport>,
}

/// How fast the last steps were.
pub(super) struct Pace {
    pub(super) frames_per_second: f64,
    pub(super) stall: f64,
    pub(super) busy: f64,
    pub(super) median: Duration,
    pub(super) p95: Duration,
}

impl Totals {
    pub(super) fn new(began: Instant) -> Totals {
        Totals {
            began,
            steps: 0,
            frames: 0,
            waited: Duration::ZERO,
            service: Duration::ZERO,
            overhead: Duration::ZERO,
            first_step_after: None,
            first_validation: None,
            samples: Vec::new(),
            samples_left_out: false,
            failed_checkpoints: 0,
            recent: VecDeque::new(),
        }
    }

    /// Time on the model device.
    pub(in crate::commands::train) fn wall_seconds(&self) -> f64 {
        let wall = self.waited + self.service + self.overhead;
        wall.as_secs_f64().max(1e-9)
    }

    /// Steps that were reported together, in order.
    pub(super) fn add(&mut self, steps: &[StepReport]) {
        if self.steps == 0 && !steps.is_empty() {
            // Reported some steps later: their time is known and taken off.
            let later = steps[1..].iter();
            let since = later.map(|step| step.overhead + step.waited + step.service);
            self.first_step_after = Some(self.began.elapsed().saturating_sub(since.sum()));
        }
        for report in steps {
            self.steps += 1;
            self.frames += report.frames;
            self.waited += report.waited;
            self.service += report.service;
            self.overhead += report.overhead;
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(report.clone());
        }
    }

    pub(super) fn recent(&self) -> impl ExactSizeIterator<Item = &StepReport> {
        self.recent.iter()
    }

    pub(super) fn pace(&self) -> Pace {
        let sum = |of: fn(&StepReport) -> Duration| self.recent.iter().map(of).sum::<Duration>();
        let (waited, service) = (sum(|step| step.waited), sum(|step| step.service));
        let wall = waited + service + sum(|step| step.overhead);
        let wall = wall.as_secs_f64().max(1e-9);
        let frames: u64 = self.recent.iter().map(|step| step.frames).sum();
        let mut times: Vec<Duration> = self.recent.iter().map(|step| step.service).collect();
        times.sort();
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            let time = times.get((last as f64 * share) as usize);
            time.copied().unwrap_or_default()
        };
        Pace {
            frames_per_second: frames as f64 / wall,
            stall: waited.as_secs_f64() / wall,
            busy: service.as_secs_f64() / wall,
            median: at(0.5),
            p95: at(0.95),
        }
    }
}
