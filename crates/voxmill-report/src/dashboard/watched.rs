//! The dashboard of a run that another process trains, or trained: its log is all there is.

use std::collections::VecDeque;
use std::time::Duration;

use voxmill_analysis::run::fact;
use voxmill_telemetry::event::{
    DecidedChange, Decision, Event, FaultAction, Nanos, Outcome, RunStarted, Stamped, Step,
};

use crate::format::{COLUMNS, clock, count, whole_percent, width};

use super::state::{
    BestValidation, BudgetLevel, BufferLevel, DashboardState, DeviceLoad, Goal, StepTimes, Watching,
};

/// Steps that "now" looks back on.
const RECENT: usize = 200;

/// A log as far as it was read.
#[derive(Debug, Default)]
pub struct WatchedRun {
    pub state: DashboardState,
    /// How the last start ended; `None` while it goes on, or where it was killed.
    pub outcome: Option<Outcome>,
    started: Option<RunStarted>,
    /// Of the starts before the last one.
    earlier: Duration,
    /// Of the last start's newest event.
    latest: Nanos,
    steps: u64,
    recent: VecDeque<Step>,
}

impl WatchedRun {
    pub fn add(&mut self, stamped: &Stamped) {
        if !matches!(stamped.event, Event::RunStarted(_)) {
            self.latest = self.latest.max(stamped.at);
        }
        let state = &mut self.state;
        match &stamped.event {
            Event::RunStarted(started) => self.start(started),
            Event::RunEnded { outcome } => {
                self.outcome = Some(*outcome);
            }
            Event::Step(step) => self.step(step),
            Event::Validated(found) => {
                if let Some(mel) = found.losses.get("mel").copied() {
                    let step = found.step;
                    state.validation_loss.push(step, mel);
                    if found.better {
                        state.best_validation = Some(BestValidation { loss: mel, step });
                    }
                    let better = match found.better {
                        true => "  the best so far",
                        false => "",
                    };
                    let duration = found.losses.get("duration");
                    let duration = duration.map(|value| format!("  duration {value:.3}"));
                    let duration = duration.unwrap_or_default();
                    state.note(format!(
                        "step {step:>5}  held-out mel {mel:.4}{duration}{better}"
                    ));
                }
            }
            Event::Checkpoint { path, .. } => {
                let name = path.rsplit('/').next().unwrap_or(path);
                state.last_checkpoint = Some(name.to_owned());
            }
            Event::BufferLevel {
                buffer,
                items,
                capacity,
            } => {
                let [items, capacity] = [*items, *capacity].map(|n| n as usize);
                let known = state.buffers.iter_mut().find(|known| known.name == *buffer);
                match known {
                    Some(known) => (known.items, known.capacity) = (items, capacity),
                    None => state.buffers.push(BufferLevel {
                        name: buffer.clone(),
                        items,
                        capacity,
                    }),
                }
            }
            Event::BudgetLevel { bytes, limit, .. } => {
                state.budget = Some(BudgetLevel {
                    used_bytes: *bytes,
                    limit_bytes: *limit,
                });
            }
            Event::DeviceMemory(memory) => {
                if let Some(device) = state.devices.first_mut()
                    && self.started.as_ref().is_some_and(|started| {
                        started.facts.get(fact::DEVICE).map(String::as_str)
                            == Some(memory.device.as_str())
                    })
                {
                    device.memory_bytes = Some(memory.bytes);
                }
            }
            Event::HostSample(sample) => {
                let cpu = sample.cpu_percent.map(|percent| percent / 100.0);
                state.host_cpu_share = cpu.or(state.host_cpu_share);
                state.resident_bytes = sample.process_memory.or(state.resident_bytes);
            }
            Event::Decision(decision) => {
                if let Some(text) = decided(decision) {
                    state.note(text);
                }
            }
            Event::Fault(fault) => {
                let action = match fault.action {
                    FaultAction::Retried => "tried again",
                    FaultAction::Skipped => "skipped",
                    FaultAction::Stopped => "the run stops",
                    FaultAction::WentOnWithout => "the others continue without it",
                };
                let (stage, name, message) = (&fault.stage, &fault.name, &fault.message);
                state.warn(format!("{stage}: {name}: {message} ({action})"));
            }
            Event::Warned { text } => state.warn(text.as_str()),
            Event::Lost { events, .. } => {
                state.warn(format!(
                    "{} missing from the log",
                    crate::format::counted(*events, "event")
                ));
            }
            Event::StageSecond(_)
            | Event::SlotSecond(_)
            | Event::GateOpened { .. }
            | Event::PhaseBegan { .. }
            | Event::DeviceSample(_)
            | Event::MoreFaults { .. }
            | Event::Dataset(_) => {}
        }
    }

    fn start(&mut self, started: &RunStarted) {
        self.earlier += self.latest.duration();
        self.latest = Nanos(0);
        self.outcome = None;
        self.steps = 0;
        self.recent.clear();
        let fact = |name: &str| started.facts.get(name).cloned();
        let number = |name: &str| fact(name)?.parse::<f64>().ok();
        let state = &mut self.state;
        state.model_size = fact(fact::MODEL_SIZE).unwrap_or_default();
        state.device = fact(fact::DEVICE).unwrap_or_default();
        state.mode = fact(fact::MODE).unwrap_or_default();
        let seconds = number(fact::MOST_SECONDS).map(Duration::try_from_secs_f64);
        state.goal = match (number(fact::LAST_STEP), seconds) {
            (_, Some(Ok(time))) => Goal::Time(time),
            (Some(steps), _) => Goal::Steps(steps as u64),
            _ => Goal::Open,
        };
        state.buffers.clear();
        if self.started.replace(started.clone()).is_some() {
            state.note(format!("step {:>5}  started again", state.step));
        }
    }

    fn step(&mut self, step: &Step) {
        self.steps += 1;
        let state = &mut self.state;
        state.step = step.step;
        let value = |name: &str| step.values.get(name).copied();
        state.epoch = value("epoch").map(|epoch| epoch as u32).or(state.epoch);
        state.learning_rate = value("learning_rate").or(state.learning_rate);
        state.gradient_norm = value("gradient_norm").or(state.gradient_norm);
        let curves = [
            ("loss", &mut state.total_loss),
            ("mel", &mut state.mel_loss),
            ("mean", &mut state.mean_loss),
            ("duration", &mut state.duration_loss),
        ];
        for (name, curve) in curves {
            if let Some(value) = value(name) {
                curve.push(step.step, value);
            }
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(step.clone());
    }

    /// How fast the last steps were; asked for once for each picture, not for each step.
    fn pace(&mut self) {
        let Some(now) = self.recent.back().map(|step| step.service.duration()) else {
            return;
        };
        let sum = |of: fn(&Step) -> Nanos| self.recent.iter().map(|s| of(s).seconds()).sum::<f64>();
        let (waited, service) = (sum(|step| step.waited), sum(|step| step.service));
        let wall = (waited + service + sum(|step| step.overhead)).max(1e-9);
        let frames = self.recent.iter();
        let frames: f64 = frames.filter_map(|step| step.values.get("frames")).sum();
        let mut times: Vec<Nanos> = self.recent.iter().map(|step| step.service).collect();
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].duration();
        let state = &mut self.state;
        state.step_times = Some(StepTimes {
            now,
            median: at(0.5),
            p95: at(0.95),
        });
        state.stall_share = Some(waited / wall);
        state.frames_per_second = (frames > 0.0).then_some(frames / wall);
        let memory_bytes = state.devices.first().and_then(|device| device.memory_bytes);
        state.devices = vec![DeviceLoad {
            name: "model".to_owned(),
            busy_share: Some(service / wall),
            memory_bytes,
        }];
    }

    /// The clock, and how the run stands. `is_written`: a process writes its log. `unix_seconds`: the date.
    pub fn tick(&mut self, unix_seconds: f64, is_written: bool) {
        self.pace();
        let since = self.started.as_ref().map(|started| started.unix_seconds);
        let watching = match self.outcome {
            Some(outcome) => Watching::Ended(outcome),
            None if is_written => Watching::Running,
            None => Watching::Killed,
        };
        let session = match (watching, since) {
            (Watching::Running, Some(since)) => {
                let session = Duration::try_from_secs_f64(unix_seconds - since);
                session.unwrap_or_default().max(self.latest.duration())
            }
            _ => self.latest.duration(),
        };
        let first = self.steps == 0 && watching == Watching::Running;
        self.state.doing = first.then(|| doing(self.state.step + 1, None));
        self.state.watching = Some(watching);
        self.state.tick(session, self.earlier, self.steps);
        if watching != Watching::Running {
            self.state.time_left = None;
        }
    }

    /// Whether there is an event in the log at all.
    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    /// For a person without a dashboard, as `train` prints it.
    pub fn line(&self) -> String {
        let state = &self.state;
        if self.steps == 0 {
            let clock = clock(state.elapsed);
            return format!(
                "step {:>5}  no steps of this session yet  {clock}",
                state.step
            );
        }
        step_line(&StepLine {
            step: state.step,
            epoch: state.epoch,
            loss: state.total_loss.last(),
            mel: state.mel_loss.last(),
            step_time: state.step_times.map(|times| times.median),
            stall: state.stall_share,
            left: state.time_left,
        })
    }
}

/// What a run does before the first step of its session has ended; which of the batches of that step.
pub fn doing(step: u64, batch: Option<(u64, u64)>) -> String {
    let batch = batch.map(|(batch, all)| format!(", batch {batch} of {all}"));
    let batch = batch.unwrap_or_default();
    format!("step {} is being computed{batch}", count(step))
}

/// What a line says of a step.
#[derive(Debug, Clone, Copy)]
pub struct StepLine {
    pub step: u64,
    pub epoch: Option<u32>,
    pub loss: Option<f64>,
    pub mel: Option<f64>,
    pub step_time: Option<Duration>,
    pub stall: Option<f64>,
    pub left: Option<Duration>,
}

/// A step without a dashboard, within the page.
pub fn step_line(of: &StepLine) -> String {
    let parts = [
        Some(format!("step {:>5}", of.step)),
        of.epoch.map(|epoch| format!("epoch {epoch}")),
        of.loss.map(|value| format!("loss {value:.3}")),
        of.mel.map(|value| format!("mel {value:.3}")),
        (of.step_time).map(|time| format!("{:.0} ms/step", time.as_secs_f64() * 1e3)),
        of.stall
            .map(|stall| format!("stall {}", whole_percent(stall))),
        of.left.map(|left| format!("ETA {}", clock(left))),
    ];
    let joined = |parts: &[Option<String>], between| {
        let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
        parts.join(between)
    };
    let line = joined(&parts, "  ");
    match width(&line) > COLUMNS {
        // The epoch matters least.
        true => [&parts[..1], &parts[2..]]
            .map(|parts| joined(parts, " "))
            .join(" "),
        false => line,
    }
}

/// In words: `finished at step 1,200`.
pub fn ended(outcome: Outcome, step: u64) -> String {
    let how = match outcome {
        Outcome::Finished => "finished",
        Outcome::Interrupted => "was interrupted",
        Outcome::Failed => "failed",
    };
    format!("the run {how} at step {}", count(step))
}

fn decided(decision: &Decision) -> Option<String> {
    let Decision {
        subject, reason, ..
    } = decision;
    let (what, from, to) = match decision.change {
        DecidedChange::Workers { from, to } | DecidedChange::WorkersBack { from, to } => {
            ("workers", from, to)
        }
        DecidedChange::Capacity { from, to } | DecidedChange::CapacityBack { from, to } => {
            ("buffer", from, to)
        }
        DecidedChange::Settled | DecidedChange::Reopened => return None,
    };
    Some(format!("{subject}: {what} {from} → {to}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, event: Event) -> Stamped {
        let at = Nanos(seconds * 1_000_000_000);
        Stamped { at, event }
    }

    fn started(unix_seconds: f64) -> Event {
        let facts = [
            (fact::MODEL_SIZE, "tiny"),
            (fact::DEVICE, "cpu"),
            (fact::LAST_STEP, "100"),
        ];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Event::RunStarted(RunStarted {
            unix_seconds,
            facts: facts.into(),
            ..RunStarted::default()
        })
    }

    fn step(step: u64) -> Event {
        let values = [("loss", 2.0), ("frames", 800.0), ("epoch", 3.0)];
        Event::Step(Step {
            step,
            waited: Nanos(100_000_000),
            service: Nanos(900_000_000),
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Step::default()
        })
    }

    #[test]
    fn the_line_of_a_long_run_fits_the_page() {
        let long = step_line(&StepLine {
            step: 1_234_567,
            epoch: Some(1_234),
            loss: Some(12.345),
            mel: Some(10.123),
            step_time: Some(Duration::from_millis(12_345)),
            stall: Some(1.0),
            left: Some(Duration::from_secs(400_000)),
        });
        assert!(width(&long) <= COLUMNS, "{long}");
    }

    #[test]
    fn the_clock_of_a_running_run_goes_on_and_that_of_an_ended_one_stands() {
        let mut run = WatchedRun::default();
        run.add(&at(0, started(1_000.0)));
        (1..=10).for_each(|n| run.add(&at(n, step(n))));
        run.tick(1_020.0, true);
        assert_eq!(run.state.watching, Some(Watching::Running));
        assert_eq!(run.state.elapsed.as_secs(), 20);
        assert_eq!(run.state.time_left.unwrap().as_secs(), 180);
        assert_eq!(run.state.epoch, Some(3));
        assert!((run.state.stall_share.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(run.state.frames_per_second.map(f64::round), Some(800.0));
        run.tick(1_030.0, false);
        assert_eq!(run.state.watching, Some(Watching::Killed));
        assert_eq!(run.state.elapsed.as_secs(), 10);
        // Started again, and finished.
        run.add(&at(0, started(2_000.0)));
        run.add(&at(5, step(11)));
        let outcome = Outcome::Finished;
        run.add(&at(6, Event::RunEnded { outcome }));
        run.tick(9_000.0, false);
        assert_eq!(run.state.watching, Some(Watching::Ended(outcome)));
        assert_eq!(run.state.elapsed.as_secs(), 16);
        assert_eq!(run.state.time_left, None);
        assert!(
            run.line().starts_with("step    11  epoch 3  loss 2.000"),
            "{}",
            run.line()
        );
    }
}
