//! Writes each step with its phase into the log, and shows how far the profile is.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::synthesis::TrainedVoice;
use voxmill_trainer::train::{FeedError, Observer, Saved, StepReport, Validation};

use crate::commands::{can_redraw, status, warning};
use crate::progress::bar_style;
use crate::session::steps::{split_warning, step_event};
use voxmill_analysis::phases::Phases;
use voxmill_report::format::{clock, counted};
use voxmill_settings::checks::need::StepClips;

const BETWEEN_LINES: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Profiling {
    recorder: Recorder,
    phases: Phases,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    began: Instant,
    last_line: Option<Instant>,
    clips: StepClips,
}

impl Profiling {
    pub(super) fn new(recorder: Recorder, phases: Phases, clips: StepClips) -> Profiling {
        let bar = can_redraw().then(|| {
            // How long it takes is not known before the first are reported.
            let style = bar_style("{bar:30} {pos}/{len} steps  {msg}");
            let bar = ProgressBar::new(phases.steps()).with_message("the first steps");
            let bar = bar.with_style(style);
            // Steps are reported some at a time.
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        if bar.is_none() {
            status!("profile   {}", counted(phases.steps(), "step"));
        }
        Profiling {
            recorder,
            phases,
            bar,
            began: Instant::now(),
            last_line: None,
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
                warning!("{}", split_warning(split, self.clips));
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
        let (done, all) = (last.step, self.phases.steps());
        let share = all.saturating_sub(done) as f64 / done.max(1) as f64;
        let left = clock(self.began.elapsed().mul_f64(share));
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{phase}  ETA {left}"));
                bar.set_position(done);
            }
            None if (self.last_line).is_none_or(|line| line.elapsed() > BETWEEN_LINES) => {
                self.last_line = Some(Instant::now());
                status!("step {done} of {all}: {phase}  ETA {left}");
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
