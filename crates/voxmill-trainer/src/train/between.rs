//! What is due between steps and after the last one: reporting, validating, saving, samples. Here the host
//! waits for the device.

use std::time::Instant;

use super::report::{Observer, Saved, StepReport, Stopped, Summary, Validation};
use super::{Feed, RunContext, Start, TrainError, Trainer, caught, validate};
use crate::checkpoint::{Best, Facts, Snapshot};
use crate::optimizer::{LossScale, with_mean_weights};
use crate::synthesis::TrainedVoice;

impl Trainer {
    /// What is due after a step.
    pub(super) fn between_steps<F: Feed>(
        &mut self,
        run: &mut RunContext<'_, F>,
    ) -> Result<(), TrainError> {
        let (step, options) = (self.progress.step, &self.options);
        let every = |n: Option<u64>| n.is_some_and(|n| step.is_multiple_of(n));
        let validate = every(options.validate_every);
        let save = every(options.checkpoint_every) || validate;
        let sample = every(options.sample_every);
        // The first step shows where the voice began.
        let begins = step == 1 && options.validate_every.is_some();
        if every(Some(options.log_every)) || save {
            self.report(run.observer)?;
            self.give_up_if_bad(run)?;
        }
        if validate || begins {
            self.validate(run, validate)?;
        }
        if save {
            self.save(run)?;
        }
        if sample {
            self.sample(run.observer)?;
        }
        Ok(())
    }

    /// After the last step, or the one that failed.
    pub(super) fn finish<F: Feed>(
        mut self,
        outcome: Result<Stopped, TrainError>,
        start: Start,
        mut run: RunContext<'_, F>,
    ) -> Result<Summary, TrainError> {
        let device = self.device.clone();
        let outcome = outcome.and_then(|stopped| {
            let end = || self.end(stopped, start.step, &mut run);
            caught(&device, end).map(|()| stopped)
        });
        let unsaved = self.progress.step > self.saved_at.unwrap_or(start.step);
        match outcome {
            Ok(stopped) => Ok(Summary {
                stopped,
                first_step: start.step,
                step: self.progress.step,
                seconds: start.at.elapsed(),
                progress: self.progress,
                voice: self.voice,
            }),
            Err(error) => {
                // The steps since the last checkpoint are good. If they cannot be saved either, the
                // first error is still the one to report.
                if unsaved && !matches!(error, TrainError::Checkpoint(_)) {
                    let _ = caught(&device, || self.report(run.observer));
                    let _ = caught(&device, || self.save(&mut run));
                }
                Err(error)
            }
        }
    }

    /// What is due after the last step.
    fn end<F: Feed>(
        &mut self,
        stopped: Stopped,
        first_step: u64,
        run: &mut RunContext<'_, F>,
    ) -> Result<(), TrainError> {
        self.report(run.observer)?;
        let step = self.progress.step;
        if step == 0 && stopped == Stopped::FeedEnded {
            return Err(TrainError::NoBatches);
        }
        if step == first_step {
            return Ok(());
        }
        self.give_up_if_bad(run)?;
        let validates = self.options.validate_every.is_some() && stopped != Stopped::Interrupted;
        let validate = validates && self.validated_at != Some(step);
        if validate {
            self.validate(run, true)?;
        }
        if validate || self.saved_at != Some(step) {
            self.save(run)?;
        }
        Ok(())
    }

    fn report(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let reports = self.reports.read();
        if reports.is_empty() {
            return Ok(());
        }
        let bad = |report: &&StepReport| !report.counted && !report.overflowed();
        self.progress.bad_steps += reports.iter().filter(bad).count() as u64;
        let reported = observer.steps(&reports, &self.progress);
        reported.map_err(TrainError::Observer)
    }

    /// Ends a run of too many bad steps, with a checkpoint.
    fn give_up_if_bad<F: Feed>(&mut self, run: &mut RunContext<'_, F>) -> Result<(), TrainError> {
        let bad = self.progress.bad_steps;
        if bad <= self.options.max_bad_steps {
            return Ok(());
        }
        self.save(run)?;
        let saved = self.progress.step;
        Err(TrainError::TooManyBadSteps { bad, saved })
    }

    fn sample(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.refresh_voice();
        let model = with_mean_weights(&self.model, &self.optimizer);
        let voice = TrainedVoice::new(model, self.voice.clone(), self.device.clone());
        let sampled = observer.sample(self.progress.step, &voice);
        sampled.map_err(TrainError::Observer)
    }

    /// Brings what is known of the voice, apart from its weights, up to date.
    fn refresh_voice(&mut self) {
        let [real, predicted] = self.lengths.read();
        if real > 0.0 && predicted > 0.0 {
            self.voice.length_scale = f64::from(real / predicted).clamp(0.5, 2.0);
        }
        let model = with_mean_weights(&self.model, &self.optimizer);
        let styles = self.styles.means(&model, &self.device);
        for (speaker, style) in styles {
            let name = self.speaker_names[speaker].clone();
            self.voice.speakers.insert(name, style);
        }
    }

    /// `may_be_best`: a checkpoint is saved right after it, so that the best can be found again.
    fn validate<F: Feed>(
        &mut self,
        run: &mut RunContext<'_, F>,
        may_be_best: bool,
    ) -> Result<(), TrainError> {
        let begin = Instant::now();
        let model = with_mean_weights(&self.model, &self.optimizer);
        let statistics = self.voice.mel_statistics;
        let batches = run.feed.validation().map_err(TrainError::Feed)?;
        let found = validate::validate(&model, batches, statistics, &self.device);
        let Some((losses, shown)) = found.map_err(TrainError::Feed)? else {
            return Ok(());
        };
        let step = self.progress.step;
        self.validated_at = Some(step);
        self.progress.validation = Some(losses.mel);
        // Nothing is below a loss that is not a number: it would stay the best for good.
        let better = may_be_best
            && losses.mel.is_finite()
            && self.progress.best.is_none_or(|best| losses.mel < best.loss);
        if better {
            self.progress.best = Some(Best {
                step,
                loss: losses.mel,
            });
            self.progress.since_best = 0;
        } else if may_be_best {
            self.progress.since_best += 1;
        }
        let validation = Validation {
            step,
            losses,
            better,
            took: begin.elapsed(),
            shown,
        };
        let reported = run.observer.validated(&validation, &self.progress);
        reported.map_err(TrainError::Observer)
    }

    fn save<F: Feed>(&mut self, run: &mut RunContext<'_, F>) -> Result<(), TrainError> {
        let begin = Instant::now();
        self.refresh_voice();
        self.progress.feed = run.feed.position();
        let facts = Facts {
            voice: self.voice.clone(),
            progress: self.progress.clone(),
            settings: self.settings.clone(),
            quarantine: run.feed.quarantine(),
            alignments: self.alignments.stored(),
            prepare_on: self.options.prepare_on,
            precision: self.options.precision,
        };
        run.observer.saving();
        let (path, bytes) = run.checkpoints.save(&Snapshot {
            facts: &facts,
            model: &self.model,
            optimizer: &self.optimizer,
            lengths: self.lengths.read(),
            loss_scale: self.loss_scale.as_ref().map(LossScale::stored),
        })?;
        let saved = Saved {
            step: self.progress.step,
            path,
            bytes,
            took: begin.elapsed(),
        };
        self.saved_at = Some(saved.step);
        run.observer.saved(&saved).map_err(TrainError::Observer)
    }
}
