//! Writes each step with its phase into the log, and shows how far the profile is.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::synthesis::TrainedVoice;
use voxmill_trainer::train::{FeedError, Observer, Saved, StepReport, Validation};

use super::phases::Phases;
use crate::commands::status;
use crate::session::steps::{split_warning, step_event};
use voxmill_settings::checks::need::StepClips;

const BETWEEN_LINES: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Profiling {
    recorder: Recorder,
    phases: Phases,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    last_line: Instant,
    clips: StepClips,
}

impl Profiling {
    pub(super) fn new(recorder: Recorder, phases: Phases, clips: StepClips) -> Profiling {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} steps  {msg}  ETA {eta}");
            let bar = ProgressBar::new(phases.steps());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Profiling {
            recorder,
            phases,
            bar,
            last_line: Instant::now(),
            clips,
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Profiling {
    fn steps(&mut self, steps: &[StepReport], _: &Progress) -> Result<(), FeedError> {
        for report in steps {
            for split in &report.splits {
                status!("warning: {}", split_warning(split, self.clips));
            }
            let ended = self.recorder.now().since(report.ended.elapsed().into());
            let mut event = step_event(report, ended);
            event.phase = self.phases.of(report.step).map(str::to_owned);
            if let Some(parts) = report.parts {
                let parts = [
                    ("forward", parts.forward),
                    ("backward", parts.backward),
                    ("optimizer", parts.optimizer),
                ];
                event.parts = parts
                    .map(|(name, took)| (name.to_owned(), took.into()))
                    .into();
            }
            self.recorder.record(Event::Step(event));
        }
        let Some(last) = steps.last() else {
            return Ok(());
        };
        let phase = self.phases.of(last.step).unwrap_or("the run itself");
        match &self.bar {
            Some(bar) => {
                bar.set_message(phase.to_owned());
                bar.set_position(last.step);
            }
            None if self.last_line.elapsed() > BETWEEN_LINES => {
                self.last_line = Instant::now();
                status!("step {} of {}: {phase}", last.step, self.phases.steps());
            }
            None => {}
        }
        Ok(())
    }

    fn validated(&mut self, _: &Validation, _: &Progress) -> Result<(), FeedError> {
        Ok(())
    }

    fn saved(&mut self, _: &Saved) -> Result<(), FeedError> {
        Ok(())
    }

    fn sample(&mut self, _: u64, _: &TrainedVoice) -> Result<(), FeedError> {
        Ok(())
    }
}
