//! What is due between steps and after the last one: reporting, validating, saving, samples. Here the host
//! waits for the device. It does not wait for a checkpoint to be written, but for the one before it.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::report::{NotSaved, Observer, Saved, StepReport, Stopped, Summary, Validation};
use super::{Began, Feed, RunContext, TrainError, Trainer, caught, validate};
use crate::checkpoint::{Best, CheckpointFacts, NotWritten, Snapshot, TrainingState, Written};
use crate::optimizer::{LossScale, with_mean_weights};
use crate::synthesis::TrainedVoice;

/// A voice that can be heard to learn soon is worth more than one at a round number of steps.
const FIRST_SAMPLE_SECONDS: f64 = 60.0;

/// While it waits for room, it looks this often whether it is to stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

impl Trainer {
    /// What is due after a step.
    pub(super) fn between_steps<F: Feed>(
        &mut self,
        run: &mut RunContext<'_, F>,
    ) -> Result<(), TrainError> {
        let written = run.checkpoints.outcome();
        self.note_written(written, run.observer)?;
        let (step, options) = (self.progress.step, &self.options);
        let every = |n: Option<u64>| n.is_some_and(|n| step.is_multiple_of(n));
        let validate = every(options.validate_every);
        let due = every(options.checkpoint_every) || validate;
        let save = self.unsaved.is_time(due, Instant::now());
        let is_first = !self.has_sampled && self.progress.seconds >= FIRST_SAMPLE_SECONDS;
        let sample = options.sample_every.is_some() && (every(options.sample_every) || is_first);
        // The first step shows where the voice began.
        let begins = step == 1 && options.validate_every.is_some();
        if every(Some(options.log_every)) || validate || save {
            self.report(run.observer)?;
            self.give_up_if_bad(run)?;
        }
        if validate || begins {
            self.validate(run, validate)?;
        }
        let is_best = validate && self.progress.best.is_some_and(|best| best.step == step);
        if save || is_best {
            self.save(run)?;
        }
        if sample && !run.is_asked_to_stop() {
            self.sample(run.observer)?;
        }
        Ok(())
    }

    /// After the last step, or the one that failed.
    pub(super) fn finish<F: Feed>(
        mut self,
        outcome: Result<Stopped, TrainError>,
        start: Began,
        mut run: RunContext<'_, F>,
    ) -> Result<Summary, TrainError> {
        let device = self.device.clone();
        let outcome = outcome.and_then(|stopped| {
            let end = || self.end(stopped, start.step, &mut run);
            caught(&device, end).map(|left_out| (stopped, left_out))
        });
        // An error may have come before what was being written was waited for.
        let written = self.written(&mut run);
        let outcome = outcome.and_then(|ended| written.map(|_| ended));
        let unsaved = self.progress.step > self.saved_at.unwrap_or(start.step);
        match outcome {
            Ok((stopped, left_out)) => Ok(Summary {
                stopped,
                left_out,
                first_step: start.step,
                step: self.progress.step,
                seconds: start.at.elapsed(),
                progress: self.progress,
                voice: self.voice,
            }),
            Err(error) => {
                // The steps since the last checkpoint are good. If they cannot be reported or saved either, the
                // first error is still the one to report.
                let _ = caught(&device, || self.report(run.observer));
                if unsaved && !matches!(error, TrainError::Checkpoint(_)) {
                    let _ = caught(&device, || self.save(&mut run));
                    let _ = self.written(&mut run);
                }
                Err(error)
            }
        }
    }

    /// What is due after the last step. Whether some of it was left out, because somebody did not want to wait for it.
    fn end<F: Feed>(
        &mut self,
        stopped: Stopped,
        first_step: u64,
        run: &mut RunContext<'_, F>,
    ) -> Result<bool, TrainError> {
        self.report(run.observer)?;
        self.written(run)?;
        let step = self.progress.step;
        if step == 0 && stopped == Stopped::FeedEnded {
            return Err(TrainError::NoBatches);
        }
        if step == first_step {
            return Ok(false);
        }
        self.give_up_if_bad(run)?;
        let validates = self.options.validate_every.is_some() && stopped != Stopped::Interrupted;
        let validate = validates && self.validated_at != Some(step);
        if validate && !run.is_asked_to_stop() {
            self.validate(run, true)?;
        }
        let left_out = validate && run.is_asked_to_stop() && self.validated_at != Some(step);
        if validate && !left_out || self.saved_at != Some(step) {
            self.save_at_last(run)?;
        }
        Ok(left_out)
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
        self.save_at_last(run)?;
        let saved = self.progress.step;
        Err(TrainError::TooManyBadSteps { bad, saved })
    }

    fn sample(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.has_sampled = true;
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
        let stop = run.stop;
        let is_asked = || stop.load(Ordering::Relaxed);
        let found = validate::validate(&model, batches, statistics, is_asked);
        let Some((losses, shown)) = found.map_err(TrainError::Feed)? else {
            return Ok(());
        };
        let step = self.progress.step;
        // Whether the best so far can be found again is known once its checkpoint is there.
        self.written(run)?;
        self.forget_unsaved_best();
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

    /// Begins to write a checkpoint, once the one before has been written; [`Trainer::note_written`] hears what became of
    /// it. Where the one before failed, this one waits for its turn.
    fn save<F: Feed>(&mut self, run: &mut RunContext<'_, F>) -> Result<(), TrainError> {
        if self.written(run)?.is_none() {
            self.begin_to_save(run);
        }
        Ok(())
    }

    /// Nothing comes after this checkpoint, so it is waited for. Whoever asks to stop meanwhile gets one more attempt.
    fn save_at_last<F: Feed>(&mut self, run: &mut RunContext<'_, F>) -> Result<(), TrainError> {
        let was_asked = run.is_asked_to_stop();
        let mut again_in = self.written(run)?;
        loop {
            if let Some(pause) = again_in {
                let until = Instant::now() + pause;
                while Instant::now() < until && (was_asked || !run.is_asked_to_stop()) {
                    let left = until.saturating_duration_since(Instant::now());
                    thread::sleep(left.min(BETWEEN_LOOKS));
                }
                if !was_asked && run.is_asked_to_stop() {
                    self.unsaved.is_last = true;
                }
            }
            self.begin_to_save(run);
            again_in = self.written(run)?;
            if again_in.is_none() {
                return Ok(());
            }
        }
    }

    /// How long to wait, or the error that ends the run.
    fn not_saved(
        &mut self,
        NotWritten { step, why }: NotWritten,
        observer: &mut dyn Observer,
    ) -> Result<Duration, TrainError> {
        let (failures, pause) = self.unsaved.failed(Instant::now());
        let most = self.options.max_failed_checkpoints;
        let again_in = (failures < most && !self.unsaved.is_last).then_some(pause);
        observer.not_saved(&NotSaved {
            step,
            why: &why,
            failures,
            most,
            again_in,
        });
        again_in.ok_or(TrainError::Checkpoint(why))
    }

    /// A best voice that could not be written and is past would keep the next good one from being the best.
    fn forget_unsaved_best(&mut self) {
        let is_past = |best: Best| best.step < self.progress.step;
        if self.progress.best.is_some_and(is_past) {
            self.progress.best = self.unsaved.best();
        }
    }

    fn begin_to_save<F: Feed>(&mut self, run: &mut RunContext<'_, F>) {
        self.forget_unsaved_best();
        self.refresh_voice();
        self.progress.feed = run.feed.position();
        let facts = CheckpointFacts {
            voice: self.voice.clone(),
            progress: self.progress.clone(),
            settings: self.settings.clone(),
            quarantine: run.feed.quarantine(),
            alignments: self.alignments.stored(),
            prepare_on: self.options.prepare_on,
            precision: self.options.precision,
        };
        let state = TrainingState {
            model: &self.model,
            optimizer: &self.optimizer,
            lengths: self.lengths.read(),
            loss_scale: self.loss_scale.as_ref().map(LossScale::stored),
        };
        let snapshot = Snapshot::of(facts, &state);
        run.observer.saving();
        run.checkpoints.begin(snapshot);
    }

    /// Waits for the checkpoint that is being written, if there is one; if it failed, how long until the next attempt.
    fn written<F: Feed>(
        &mut self,
        run: &mut RunContext<'_, F>,
    ) -> Result<Option<Duration>, TrainError> {
        let written = run.checkpoints.wait();
        self.note_written(written, run.observer)
    }

    /// What became of a checkpoint: one that could not be written is tried again later, until too many have failed.
    fn note_written(
        &mut self,
        written: Option<Result<Written, NotWritten>>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Duration>, TrainError> {
        let Written {
            step,
            best,
            path,
            bytes,
            took,
            not_pruned,
        } = match written {
            None => return Ok(None),
            Some(Err(failed)) => return self.not_saved(failed, observer).map(Some),
            Some(Ok(written)) => written,
        };
        self.saved_at = Some(step);
        let saved = Saved {
            step,
            path,
            bytes,
            took,
        };
        self.unsaved.saved(best);
        observer.saved(&saved).map_err(TrainError::Observer)?;
        if let Some(why) = not_pruned {
            observer.not_pruned(&why);
        }
        Ok(None)
    }
}
