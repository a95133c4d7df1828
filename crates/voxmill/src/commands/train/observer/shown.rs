//! A run as it is shown: a line now and then, or the dashboard.

use std::time::{Duration, Instant};

use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::train::StepReport;

use super::Watching;
use crate::commands::tell;
use crate::commands::train::memory::MemoryWatch;
use crate::dashboard::{Budget, BufferLevel, DeviceLoad, StepTimes};

/// Plain lines are not told more often than this.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

impl Watching<'_> {
    /// The time that is left by the limits, at the pace so far.
    fn time_left(&self, progress: &Progress) -> Option<Duration> {
        let by_time = self
            .limits
            .seconds
            .map(|most| (most - progress.seconds).max(0.0));
        let per_step = self.begin.elapsed().as_secs_f64() / self.sums.steps.max(1) as f64;
        let by_steps = self
            .limits
            .steps
            .map(|most| most.saturating_sub(progress.step) as f64 * per_step);
        let least = match (by_time, by_steps) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        least.map(Duration::from_secs_f64)
    }

    pub(super) fn pace(&self) -> Pace {
        let sum = |of: fn(&StepReport) -> Duration| self.recent.iter().map(of).sum::<Duration>();
        let (waited, service, overhead) = (
            sum(|step| step.waited),
            sum(|step| step.service),
            sum(|step| step.overhead),
        );
        let wall = (waited + service + overhead).as_secs_f64().max(1e-9);
        let frames: u64 = self.recent.iter().map(|step| step.frames).sum();
        let mut times: Vec<Duration> = self.recent.iter().map(|step| step.service).collect();
        times.sort();
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            times
                .get((last as f64 * share) as usize)
                .copied()
                .unwrap_or_default()
        };
        Pace {
            frames_per_second: frames as f64 / wall,
            stall: waited.as_secs_f64() / wall,
            busy: service.as_secs_f64() / wall,
            median: at(0.5),
            p95: at(0.95),
        }
    }

    pub(super) fn show(&mut self, last: &StepReport, progress: &Progress) {
        let pace = self.pace();
        let left = self.time_left(progress);
        if self.dashboard.is_some() {
            self.show_on_dashboard(last, progress, &pace, left);
            return;
        }
        if self
            .last_line
            .is_some_and(|then| then.elapsed() < BETWEEN_LINES)
        {
            return;
        }
        self.last_line = Some(Instant::now());
        let left = left.map_or(String::new(), |left| format!("  {} left", short_time(left)));
        tell(&format!(
            "step {:>5}  epoch {:>3}  loss {:.3}  mel {:.3}  {:>4.0} ms/step  waits {:>4.1} %  {:>6.0} frames/s{left}",
            last.step,
            progress.position.epoch + 1,
            last.losses.total,
            last.losses.mel,
            pace.median.as_secs_f64() * 1e3,
            pace.stall * 100.0,
            pace.frames_per_second,
        ));
    }

    fn show_on_dashboard(
        &mut self,
        last: &StepReport,
        progress: &Progress,
        pace: &Pace,
        left: Option<Duration>,
    ) {
        let cpu = self.host_cpu.since_last(&self.recorder);
        let memory = self.memory.first().and_then(MemoryWatch::now);
        if let Some(dashboard) = &self.dashboard {
            let snapshot = self.control.snapshot();
            let reports: Vec<_> = self.recent.iter().rev().take(1).cloned().collect();
            dashboard.update(|state| {
                state.step = last.step;
                state.epoch = progress.position.epoch as u32 + 1;
                state.elapsed = Duration::from_secs_f64(progress.seconds);
                state.time_left = left;
                state.learning_rate = Some(last.rate);
                state.gradient_norm = Some(last.gradient_norm);
                for step in &reports {
                    state.total_loss.push(step.step, step.losses.total);
                    state.mel_loss.push(step.step, step.losses.mel);
                    state.prior_loss.push(step.step, step.losses.mean);
                    state.duration_loss.push(step.step, step.losses.duration);
                }
                state.step_times = Some(StepTimes {
                    now: last.service,
                    median: pace.median,
                    p95: pace.p95,
                });
                state.stall_share = Some(pace.stall);
                state.frames_per_second = Some(pace.frames_per_second);
                state.buffers = snapshot
                    .stages
                    .iter()
                    // The model itself has nothing behind it.
                    .filter(|stage| stage.capacity > 0)
                    .map(|stage| BufferLevel {
                        name: stage.name.clone(),
                        items: stage.buffered,
                        capacity: stage.capacity,
                    })
                    .collect();
                state.budget = snapshot.budgets.first().map(|budget| Budget {
                    used_bytes: budget.in_use,
                    limit_bytes: budget.limit,
                });
                // Its own time line: what part of it was training.
                state.devices = vec![DeviceLoad {
                    name: "model".to_owned(),
                    busy_share: Some(pace.busy),
                    memory_bytes: memory,
                }];
                state.host_cpu_share = cpu.map(|percent| percent / 100.0);
                state.resident_bytes = resident_bytes();
            });
        }
    }
}

/// The mean of the host's readings between two looks.
#[derive(Debug, Default)]
pub(in crate::commands::train) struct HostCpu {
    samples: u64,
    sum: f64,
    percent: Option<f64>,
}

impl HostCpu {
    fn since_last(&mut self, recorder: &Recorder) -> Option<f64> {
        let now = recorder.stats().host.cpu_percent;
        if now.samples > self.samples {
            self.percent = Some((now.sum - self.sum) / (now.samples - self.samples) as f64);
            (self.samples, self.sum) = (now.samples, now.sum);
        }
        self.percent
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

pub(super) struct Pace {
    pub(super) frames_per_second: f64,
    pub(super) stall: f64,
    busy: f64,
    pub(super) median: Duration,
    p95: Duration,
}

/// `3 min 20 s`
pub(in crate::commands::train) fn short_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3_600.0 => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {:02} min", s as u64 / 3_600, s as u64 / 60 % 60),
    }
}
