//! What happens to a run while it trains, handed to those who show, record or keep it.

mod clips;
mod place;
mod pulse;
mod samples;
mod saving;
mod screen;
mod tensorboard;
mod totals;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use voxmill_data::Loader;
use voxmill_pipeline::control::Control;
use voxmill_telemetry::event::{Event, Validated};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::{CheckpointError, Checkpoints, Progress, checkpoint_bytes};
use voxmill_trainer::device::without_panic;
use voxmill_trainer::schedule::PRIOR_STEPS;
use voxmill_trainer::synthesis::TrainedVoice;
use voxmill_trainer::train::{
    FeedError, NotSaved, Observer, RunLimits, Saved, StepReport, Stopped, Summary, TrainError,
    Validation,
};

use super::measures::Measures;
use super::output::RunOutput;
use crate::session::memory::DeviceWatch;
use crate::session::steps::{losses, split_warning, step_event};
use crate::session::{RunPlan, Session};
use clips::ClipWatch;
use place::{LogWatch, PlaceWatch};
use pulse::Pulse;
use samples::Samples;
use saving::SavingWatch;
use screen::{Screen, Sources};
use tensorboard::TensorBoard;
pub(super) use totals::Totals;
use voxmill_settings::checks::need::StepClips;
use voxmill_settings::error::of_library::{of_checkpoint, of_training};
use voxmill_settings::run_folder;

pub(super) struct RunObserver<'a> {
    pub(super) recorder: Recorder,
    control: Control,
    loader: &'a Loader,
    clips_of_a_step: StepClips,
    screen: Screen,
    tensorboard: TensorBoard,
    samples: Samples<'a>,
    clips: ClipWatch<'a>,
    place: PlaceWatch,
    saving: SavingWatch,
    log: LogWatch,
    pub(super) totals: Totals,
    /// The model device first.
    pub(super) memory: Vec<DeviceWatch>,
    pub(super) measures: Measures,
}

/// A run that is about to take its first step of this start.
pub(super) struct Starting<'a> {
    pub(super) output: &'a RunOutput,
    pub(super) parameters: usize,
    pub(super) progress: &'a Progress,
    pub(super) limits: RunLimits,
    pub(super) began: Instant,
    pub(super) recorder: Recorder,
    pub(super) control: Control,
    /// Batches of a step.
    pub(super) accumulate: u64,
    /// Batches that the trainer took.
    pub(super) taken: Arc<AtomicU64>,
}

/// What may refuse a run, made before anything of a run before it is changed.
pub(super) struct Prepared<'a> {
    samples: Samples<'a>,
    tensorboard: Option<TensorBoard>,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(session: &'a Session, folder: &Path) -> anyhow::Result<Prepared<'a>> {
        screen::wants_dashboard(&session.settings)?;
        Ok(Prepared {
            samples: Samples::new(session, folder.join(run_folder::SAMPLES))?,
            tensorboard: None,
        })
    }

    pub(super) fn open_curves(
        &mut self,
        session: &Session,
        folder: &Path,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let opened = TensorBoard::create(&session.settings, folder, progress)?;
        self.tensorboard = Some(opened);
        Ok(())
    }
}

impl<'a> RunObserver<'a> {
    pub(super) fn new(
        session: &'a Session,
        plan: &'a RunPlan,
        starting: Starting<'_>,
        prepared: Prepared<'a>,
    ) -> anyhow::Result<RunObserver<'a>> {
        let Starting {
            output, progress, ..
        } = starting;
        let folder = &*output.folder;
        let needed = checkpoint_bytes(starting.parameters);
        let settings = &session.settings;
        // An epoch after steps have become what they stay, every shape has come by.
        let settled = progress.step.max(PRIOR_STEPS) + plan.loader.plan().batches_per_epoch();
        let (pulse, recorder) = (Pulse::of(&starting), starting.recorder.clone());
        let screen = Screen::open(settings, folder, starting.limits, pulse, recorder)?;
        Ok(RunObserver {
            loader: &plan.loader,
            clips_of_a_step: StepClips::of(settings),
            tensorboard: prepared
                .tensorboard
                .map_or_else(TensorBoard::off, TensorBoard::stay),
            screen,
            samples: prepared.samples,
            place: PlaceWatch::new(output.place.clone()),
            log: LogWatch::default(),
            clips: ClipWatch::new(session, folder.join(run_folder::QUARANTINE)),
            saving: SavingWatch::new(output.checkpoints.folder().to_owned(), needed),
            totals: Totals::new(starting.began),
            memory: DeviceWatch::of_session(session, settled),
            measures: Measures::new(folder.join(run_folder::EVENTS)),
            recorder: starting.recorder,
            control: starting.control,
        })
    }

    /// The last samples, spoken by the best voice, or by the last one of a run that is interrupted. Then the terminal is the shell's again.
    pub(super) fn finish(
        &mut self,
        outcome: Result<Summary, TrainError>,
        folder: &Path,
        checkpoints: &Checkpoints,
        session: &Session,
    ) -> anyhow::Result<Summary> {
        let clips = self.clips_of_a_step;
        let outcome = outcome
            .map_err(|error| of_training(error, folder, checkpoints, clips))
            .and_then(|summary| {
                self.last_samples(&summary, checkpoints, session)?;
                Ok(summary)
            });
        self.screen.close()?;
        outcome
    }

    fn last_samples(
        &mut self,
        summary: &Summary,
        checkpoints: &Checkpoints,
        session: &Session,
    ) -> anyhow::Result<()> {
        let (found, name) = match summary.stopped {
            // Nobody who wants no samples waits for some.
            Stopped::Interrupted if session.settings.sample_every.is_none() => return Ok(()),
            Stopped::Interrupted if summary.step == summary.first_step => return Ok(()),
            Stopped::Interrupted => (checkpoints.newest(), format!("step-{:06}", summary.step)),
            _ => (checkpoints.best(), "final".to_owned()),
        };
        let found = found.map_err(of_checkpoint)?;
        // The training is over and saved: a device that fails now costs the samples alone.
        let spoken = without_panic(|| {
            let voice = TrainedVoice::load(&found.checkpoint, &session.devices.model)?;
            self.write_samples(&name, summary.step, &voice);
            Ok(())
        });
        match spoken {
            Ok(spoken) => spoken.map_err(of_checkpoint)?,
            Err(why) => self
                .screen
                .warn(&format!("the last samples could not be written: {why}")),
        }
        Ok(())
    }

    fn write_samples(&mut self, name: &str, step: u64, voice: &TrainedVoice) {
        if !self.is_in_place() {
            return;
        }
        let (screen, tensorboard) = (&self.screen, &mut self.tensorboard);
        let written = self.samples.write(name, step, voice, screen, tensorboard);
        self.totals.samples_left_out = written.left_out;
        self.totals.samples = written.paths;
    }

    pub(super) fn has_lost_its_folder(&self) -> bool {
        self.place.is_lost()
    }

    /// Whether the run's folder is still its own.
    fn is_in_place(&mut self) -> bool {
        if let Some(warning) = self.place.check() {
            self.screen.warn(&warning);
        }
        !self.place.is_lost()
    }

    fn record_step(&self, report: &StepReport) {
        let ended = self.recorder.now().since(report.ended.elapsed().into());
        self.recorder.record(Event::Step(step_event(report, ended)));
        // Overflows in f16 are how its scale is found, and no fault of the clips.
        if !report.counted && !report.overflowed() {
            let clips = report.clips.iter();
            let clips = clips.map(|&clip| self.loader.clip(clip).id.to_string());
            let clips: Vec<_> = clips.collect();
            self.screen.warn(&format!(
                "step {} was skipped: its loss or gradients are not finite; its clips: {}",
                report.step,
                clips.join(", ")
            ));
        }
        for split in &report.splits {
            self.screen
                .warn(&split_warning(split, self.clips_of_a_step));
        }
    }
}

impl Observer for RunObserver<'_> {
    fn steps(&mut self, steps: &[StepReport], progress: &Progress) -> Result<(), FeedError> {
        self.totals.add(steps);
        for report in steps {
            self.record_step(report);
        }
        let in_place = self.is_in_place();
        (self.clips).check(&self.screen, &self.recorder, in_place)?;
        if let Some(warning) = self.log.check(&self.recorder) {
            self.screen.warn(&warning);
        }
        for watch in &mut self.memory {
            if let Some(warning) = watch.check_step(progress.step, &self.recorder)? {
                self.screen.warn(&warning);
            }
        }
        if let Some(warning) = self.measures.check(self.totals.recent(), &self.recorder) {
            self.screen.warn(&warning);
        }
        if let Some(warning) = self.saving.check() {
            self.screen.warn(&warning);
        }
        let Some(last) = steps.last() else {
            return Ok(());
        };
        let pace = self.totals.pace();
        self.tensorboard.step(&self.screen, last, &pace);
        let (control, memory) = (&self.control, &self.memory);
        (self.tensorboard).machine(&self.screen, last.step, &pace, control, memory);
        let sources = Sources {
            recorder: &self.recorder,
            model_memory: self.memory.first().and_then(DeviceWatch::now),
        };
        self.screen.steps(last, progress, &self.totals, &sources);
        Ok(())
    }

    fn validated(&mut self, found: &Validation, _: &Progress) -> Result<(), FeedError> {
        self.recorder.record(Event::Validated(Validated {
            step: found.step,
            losses: losses(&found.losses),
            better: found.better,
            took: found.took.into(),
        }));
        self.totals.first_validation.get_or_insert(found.losses.mel);
        let mut picture = Vec::new();
        if let Some(shown) = &found.shown {
            picture = self.samples.held_out_png(found.step, shown);
            if self.is_in_place() {
                self.samples.show_held_out(&picture, shown, &self.screen);
            }
        }
        self.tensorboard.validated(&self.screen, found, &picture);
        self.screen.validated(found);
        Ok(())
    }

    fn saving(&mut self) {
        self.saving.saving(&self.recorder);
    }

    fn not_pruned(&mut self, why: &CheckpointError) {
        if let Some(warning) = self.saving.not_pruned(why) {
            self.screen.warn(&warning);
        }
    }

    fn saved(&mut self, saved: &Saved) -> Result<(), FeedError> {
        self.recorder.record(Event::Checkpoint {
            position: saved.step,
            path: saved.path.display().to_string(),
            bytes: saved.bytes,
            took: saved.took.into(),
        });
        self.saving.saved(saved);
        self.screen.saved(saved);
        Ok(())
    }

    fn not_saved(&mut self, failed: &NotSaved<'_>) {
        self.totals.failed_checkpoints += 1;
        (self.saving).not_saved(failed, &self.screen, &self.recorder);
    }

    fn sample(&mut self, step: u64, voice: &TrainedVoice) -> Result<(), FeedError> {
        self.write_samples(&format!("step-{step:06}"), step, voice);
        if let Some(first) = self.totals.samples.first() {
            let folder = first.parent().unwrap_or(first).display();
            self.screen
                .note(&format!("step {step:>5}  samples in {folder}"));
        }
        Ok(())
    }
}
