//! What a person sees while a run trains: a line now and then, or the dashboard.

use std::path::Path;
use std::time::{Duration, Instant};
use voxmill_report::dashboard::{DashboardState, StepLine, WatchedRun, step_line};

use anyhow::Context as _;
use voxmill_telemetry::event::Event;
use voxmill_telemetry::log::LogFollower;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::{Best, Progress};
use voxmill_trainer::train::{RunLimits, Saved, StepReport, Validation};

use super::pulse::{Pulse, PulseLines};
use super::totals::{Pace, Totals};
use crate::commands;
use crate::dashboard::{BestValidation, Dashboard, DeviceLoad, Goal, StepTimes};
use crate::exit::Exit;
use crate::interrupt;
use voxmill_settings::TrainSettings;
use voxmill_settings::checks::Level;
use voxmill_settings::error::UserError;
use voxmill_settings::note::Note;
use voxmill_settings::run_folder::EVENTS;
use voxmill_telemetry::probes::status_bytes;

/// Lines are not printed more often than this.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

pub(in crate::commands::train) struct Screen {
    dashboard: Option<Dashboard>,
    /// Where there is no dashboard.
    lines: Option<PulseLines>,
    limits: RunLimits,
    last_line: Option<Instant>,
    /// Has each warning as well, for whoever reads the log.
    recorder: Recorder,
    /// Lines of warnings that were printed before the dashboard opened.
    warned_before: usize,
    host_cpu: HostCpu,
}

impl Screen {
    pub(super) fn open(
        settings: &TrainSettings,
        run: &Path,
        limits: RunLimits,
        pulse: Pulse,
        recorder: Recorder,
    ) -> anyhow::Result<Screen> {
        for Note { text, .. } in said_warnings() {
            recorder.record(Event::Warned { text });
        }
        let dashboard = dashboard(settings, run, limits, pulse.clone())?;
        let warned_before = dashboard.as_ref().map_or(0, show_start_warnings);
        let lines = match dashboard {
            Some(_) => None,
            None => Some(PulseLines::start(pulse)?),
        };
        Ok(Screen {
            dashboard,
            lines,
            limits,
            recorder,
            last_line: None,
            warned_before,
            host_cpu: HostCpu::default(),
        })
    }

    /// A message on the dashboard, or a line.
    pub(super) fn note(&self, text: &str) {
        match &self.dashboard {
            Some(dashboard) => dashboard.update(|state| state.note(text)),
            None => self.line(&format_args!("{text}")),
        }
    }

    pub(super) fn warn(&self, text: &str) {
        let text = text.to_owned();
        self.warn_of_recorded(&text);
        self.recorder.record(Event::Warned { text });
    }

    /// Of what another event has.
    pub(super) fn warn_of_recorded(&self, text: &str) {
        match &self.dashboard {
            Some(dashboard) => dashboard.update(|state| state.warn(text)),
            None => self.line(&format_args!("warning: {text}")),
        }
    }

    fn line(&self, text: &std::fmt::Arguments<'_>) {
        commands::print_status(*text);
        if let Some(lines) = &self.lines {
            lines.printed();
        }
    }

    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        self.lines = None;
        let mut warnings = Vec::new();
        let finished = self
            .dashboard
            .take()
            .map(|dashboard| dashboard.finish(&mut warnings));
        // What was printed before it opened is on the screen again.
        for warning in warnings.iter().skip(self.warned_before) {
            commands::warning!("{warning}");
        }
        let finished = finished.transpose();
        finished.context("the terminal could not be restored")?;
        Ok(())
    }

    pub(super) fn steps(
        &mut self,
        last: &StepReport,
        progress: &Progress,
        totals: &Totals,
        sources: &Sources<'_>,
    ) {
        let pace = totals.pace();
        let left = self.time_left(progress, totals);
        if self.dashboard.is_some() {
            self.draw(last, progress, &pace, sources);
            return;
        }
        let last_line = self.last_line.map(|then| then.elapsed());
        if last_line.is_some_and(|since| since < BETWEEN_LINES) {
            return;
        }
        self.last_line = Some(Instant::now());
        let line = step_line(&StepLine {
            step: last.step,
            epoch: Some(progress.position.epoch as u32 + 1),
            loss: Some(last.losses.total),
            mel: Some(last.losses.mel),
            step_time: Some(pace.median),
            stall: Some(pace.stall),
            left,
        });
        self.line(&format_args!("{line}"));
    }

    /// The time that is left by the limits, at the pace so far.
    fn time_left(&self, progress: &Progress, totals: &Totals) -> Option<Duration> {
        let RunLimits { seconds, steps } = self.limits;
        let by_time = seconds.map(|most| (most - progress.seconds).max(0.0));
        let per_step = totals.began.elapsed().as_secs_f64() / totals.steps.max(1) as f64;
        let by_steps = steps.map(|most| most.saturating_sub(progress.step) as f64 * per_step);
        let least = by_time.into_iter().chain(by_steps).reduce(f64::min);
        least.map(Duration::from_secs_f64)
    }

    fn draw(&mut self, last: &StepReport, progress: &Progress, pace: &Pace, sources: &Sources<'_>) {
        let cpu = self.host_cpu.since_last(sources.recorder);
        let memory = sources.model_memory;
        if let Some(dashboard) = &self.dashboard {
            dashboard.update(|state| {
                state.step = state.step.max(last.step);
                state.epoch = Some(progress.position.epoch as u32 + 1);
                // A resumed run has one from the start.
                state.best_validation =
                    (progress.best).map(|Best { step, loss }| BestValidation { loss, step });
                state.learning_rate = Some(last.rate);
                state.gradient_norm = Some(last.gradient_norm);
                state.total_loss.push(last.step, last.losses.total);
                state.mel_loss.push(last.step, last.losses.mel);
                state.mean_loss.push(last.step, last.losses.mean);
                state.duration_loss.push(last.step, last.losses.duration);
                state.step_times = Some(StepTimes {
                    now: last.service,
                    median: pace.median,
                    p95: pace.p95,
                });
                state.stall_share = Some(pace.stall);
                state.frames_per_second = Some(pace.frames_per_second);
                // Its own time line: what part of it was training.
                state.devices = vec![DeviceLoad {
                    name: "model".to_owned(),
                    busy_share: Some(pace.busy),
                    memory_bytes: memory,
                }];
                state.host_cpu_share = cpu.map(|percent| percent / 100.0);
                state.resident_bytes = status_bytes("self", "VmRSS");
            });
        }
    }

    pub(super) fn validated(&self, found: &Validation) {
        if let Some(dashboard) = &self.dashboard {
            dashboard.update(|state| {
                state.validation_loss.push(found.step, found.losses.mel);
                if found.better {
                    // The same loss as the curve's.
                    state.best_validation = Some(BestValidation {
                        loss: found.losses.mel,
                        step: found.step,
                    });
                }
            });
        }
        let better = match found.better {
            true => "  the best so far",
            false => "",
        };
        self.note(&format!(
            "step {:>5}  held-out mel {:.4}  duration {:.3}{better}",
            found.step, found.losses.mel, found.losses.duration
        ));
    }

    pub(super) fn saved(&self, saved: &Saved) {
        if let Some(dashboard) = &self.dashboard {
            let name = saved.path.file_name();
            let name = name.map(|name| name.to_string_lossy().into_owned());
            dashboard.update(|state| state.last_checkpoint = name);
        }
    }
}

/// Where the dashboard's numbers come from, besides the steps.
pub(super) struct Sources<'a> {
    pub(super) recorder: &'a Recorder,
    pub(super) model_memory: Option<u64>,
}

fn said_warnings() -> impl Iterator<Item = Note> {
    let said = commands::said().into_iter();
    said.filter(|note| note.level == Level::Warning)
}

/// What was said before the dashboard covered it. The number of lines that warn.
fn show_start_warnings(dashboard: &Dashboard) -> usize {
    let mut warnings = 0;
    dashboard.update(|state| {
        for Note { level, text } in commands::said() {
            match level {
                Level::Warning => state.warn(text),
                _ => state.note(text),
            }
        }
        warnings = state
            .messages
            .iter()
            .filter(|shown| shown.is_warning)
            .count();
    });
    warnings
}

/// Whether it is drawn, or that it cannot be.
pub(super) fn wants_dashboard(settings: &TrainSettings) -> anyhow::Result<bool> {
    let on_a_terminal = commands::can_redraw();
    match settings.dashboard {
        Some(true) if !on_a_terminal => {
            let what = "--dashboard needs a terminal that can draw, and standard error is none";
            let hint = "leave it out: progress is then printed in lines";
            Err(UserError::new(what, hint).into())
        }
        asked => Ok(asked.unwrap_or(on_a_terminal)),
    }
}

/// `None` where progress is printed in lines.
fn dashboard(
    settings: &TrainSettings,
    run: &Path,
    limits: RunLimits,
    pulse: Pulse,
) -> anyhow::Result<Option<Dashboard>> {
    let first_step = pulse.first_step();
    if !wants_dashboard(settings)? {
        return Ok(None);
    }
    let leave = || Exit::Interrupted.leave();
    let tick = move |state: &mut _| pulse.tick(state);
    let dashboard = Dashboard::start(interrupt::request_stop, leave, tick)
        .context("the dashboard cannot be drawn; --no-dashboard does without")?;
    let devices = settings.devices.devices;
    let before = earlier(run, first_step);
    dashboard.update(|state| {
        state.step = first_step;
        state.total_loss = before.total_loss;
        state.mel_loss = before.mel_loss;
        state.mean_loss = before.mean_loss;
        state.duration_loss = before.duration_loss;
        state.validation_loss = before.validation_loss;
        state.best_validation = before.best_validation;
        state.last_checkpoint = before.last_checkpoint;
        let name = run.file_name();
        state.run_name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        state.model_size = settings.model_size.name().to_owned();
        state.device = devices.model().to_string();
        let mode = if devices.is_pair() {
            "two devices"
        } else {
            "one device"
        };
        state.mode = mode.to_owned();
        state.goal = match (limits.steps, limits.seconds) {
            (Some(steps), None) => Goal::Steps(steps),
            (_, Some(seconds)) => Goal::Time(Duration::from_secs_f64(seconds)),
            (None, None) => Goal::Open,
        };
    });
    Ok(Some(dashboard))
}

/// What earlier sessions of the run left in its log, up to the step that this one begins after: its curves, its best and
/// last checkpoint. Steps after that were lost, and come again.
fn earlier(run: &Path, first_step: u64) -> DashboardState {
    let mut before = WatchedRun::default();
    let is_kept = |event: &Event| match event {
        Event::Step(step) => step.step <= first_step,
        Event::Validated(found) => found.step <= first_step,
        Event::Checkpoint { position, .. } => *position <= first_step,
        _ => false,
    };
    // Without them the dashboard shows less, and the run is the same. Who writes the log says what is wrong with it.
    let log = (first_step > 0).then(|| LogFollower::open(&run.join(EVENTS)).ok());
    let Some(mut log) = log.flatten() else {
        return before.state;
    };
    while let Ok(events) = log.read() {
        if events.is_empty() && log.is_at_end() {
            break;
        }
        let kept = events.iter().filter(|stamped| is_kept(&stamped.event));
        kept.for_each(|stamped| before.add(stamped));
    }
    before.state
}

/// The mean of the host's readings since the last one taken.
#[derive(Debug, Default)]
struct HostCpu {
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
