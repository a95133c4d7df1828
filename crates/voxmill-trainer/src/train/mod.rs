//! The training loop.
//!
//! It reads top to bottom in [`Training::run`]. What it costs is marked: the host reads from the
//! device only every `log_every` steps, when it saves or validates, and at the first batch of a shape.

mod alignments;
mod fitting;
mod options;
mod report;
mod settling;
mod styles;
#[cfg(test)]
mod tests;
mod validate;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use serde_json::Value;
use voxmill_speech::batch::Batch;
use voxmill_speech::batch_plan::Position;

pub use fitting::Split;
pub use options::{Limits, TrainOptions};
pub use report::{
    Losses, Observer, Saved, Shown, StepParts, StepReport, Stopped, Summary, Validation,
};
pub use settling::Settling;

use crate::checkpoint::{
    Best, CheckpointError, CheckpointFolder, Checkpoints, Facts, Progress, Snapshot, VoiceFacts,
};
use crate::device::{Precision, is_cpu, read};
use crate::loss::{pass, pass_with};
use crate::model::{ModelShape, Voice};
use crate::optimizer::{FlatGradients, LossScale, OptimizerState, with_mean_weights};
use crate::prepare::{Augment, Preparing, Ready};
use crate::schedule::prior_weight;
use crate::speak::Speaker;
use alignments::{Alignments, Stored};
use fitting::{Fitting, Passed, StepTask};
use report::Pending;
use styles::Styles;
pub(crate) use styles::style_of;

/// A batch and what to call when it has been trained on.
pub struct Fed {
    pub ready: Ready,
    /// Moves the feed's position past the batch and frees its slot; dropping it only frees.
    pub done: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Fed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fed")
            .field("batch", &self.ready.position)
            .finish_non_exhaustive()
    }
}

pub type FeedError = Box<dyn Error + Send + Sync>;

/// Where batches come from.
pub trait Feed {
    /// The next batch to train on; `None` after the last epoch.
    fn next(&mut self) -> Option<Result<Fed, FeedError>>;
    /// The position after a batch.
    fn after(&self, position: Position) -> Position;
    /// What a checkpoint must store to go on after the batches that are done.
    fn position(&self) -> Value;
    /// The stage that was late, if the last batch had to be waited for.
    fn late(&self) -> Option<String>;
    /// The held-out clips, always the same batches.
    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch, FeedError>> + '_>, FeedError>;
    /// Clips that are left out of this epoch, by id.
    fn quarantine(&self) -> Vec<String>;
}

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("the feed of batches failed")]
    Feed(#[source] FeedError),
    #[error("the feed has no batch to train on")]
    NoBatches,
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(
        "{bad} steps had losses or gradients that are not finite; they changed nothing, and the \
         rest is saved after step {saved}"
    )]
    TooManyBadSteps { bad: u64, saved: u64 },
    #[error("the device failed while training: {0}")]
    Device(String),
    #[error("the run was ended")]
    Observer(#[source] FeedError),
}

/// A run between two steps.
#[derive(Debug)]
pub struct Training {
    options: TrainOptions,
    device: Device,
    voice: VoiceFacts,
    settings: Value,
    speaker_names: Vec<String>,
    model: Voice,
    optimizer: OptimizerState,
    /// With f16 alone.
    loss_scale: Option<LossScale>,
    progress: Progress,
    /// Running sums of true and of predicted frames, on the device.
    lengths: Tensor<1>,
    styles: Styles,
    alignments: Alignments,
    fitting: Fitting,
    /// The last step of this start that was saved, and the last that was validated.
    saved_at: Option<u64>,
    validated_at: Option<u64>,
}

/// How fast the running sums forget.
const LENGTHS_KEEP: f32 = 0.98;

impl Training {
    /// A fresh run. `device` without gradients; `speakers` are named by their numbers in batches.
    pub fn new(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
    ) -> Self {
        let with_gradients = options.device_with_gradients(device);
        let model = Voice::new(
            &voice.shape,
            voice.vocabulary,
            options.seed,
            &with_gradients,
        );
        Self::with_model(options, voice, settings, speakers, device, model)
    }

    /// A fresh run that begins with another run's voice: weights that fit are taken over, symbols
    /// are matched by name, and what is new begins as in a fresh run.
    pub fn from_voice(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        from: &CheckpointFolder,
    ) -> Result<Self, CheckpointError> {
        let with_gradients = options.device_with_gradients(device);
        let fresh = Voice::new(
            &voice.shape,
            voice.vocabulary,
            options.seed,
            &with_gradients,
        );
        let old = from.voice(&with_gradients)?;
        let model = fresh.taking_over(old, &from.facts().voice.symbols, &voice.symbols);
        let mut training = Self::with_model(options, voice, settings, speakers, device, model);
        training.voice.speakers = from.facts().voice.speakers.clone();
        Ok(training)
    }

    fn with_model(
        options: TrainOptions,
        voice: VoiceFacts,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        model: Voice,
    ) -> Self {
        let optimizer = OptimizerState::new(&model, device);
        Self {
            model: (model.recomputing(options.recompute)).computing_in(options.precision),
            optimizer,
            loss_scale: (options.precision == Precision::F16).then(|| LossScale::new(device)),
            progress: Progress {
                step: 0,
                seconds: 0.0,
                position: Position::default(),
                feed: Value::Null,
                validation: None,
                best: None,
                since_best: 0,
                bad_steps: 0,
            },
            lengths: Tensor::zeros([2], device),
            styles: Styles::new(speakers.len()),
            alignments: Alignments::new(!is_cpu(device), Stored::default()),
            fitting: Fitting::default(),
            saved_at: None,
            validated_at: None,
            device: device.clone(),
            speaker_names: speakers,
            options,
            voice,
            settings,
        }
    }

    /// A run that goes on after a checkpoint.
    pub fn resume(
        options: TrainOptions,
        settings: Value,
        speakers: Vec<String>,
        device: &Device,
        from: &CheckpointFolder,
    ) -> Result<Self, CheckpointError> {
        let restored = from.restore(&options.device_with_gradients(device))?;
        let lengths = restored.lengths;
        let same_plan = restored.facts.settings.get("plan") == settings.get("plan");
        let model = restored.model.recomputing(options.recompute);
        let loss_scale = (options.precision == Precision::F16).then(|| match restored.loss_scale {
            Some(stored) => LossScale::from_stored(stored, device),
            None => LossScale::new(device),
        });
        Ok(Self {
            model: model.computing_in(options.precision),
            optimizer: restored.optimizer,
            loss_scale,
            // Bad steps are counted anew: what was wrong may have been mended.
            progress: Progress {
                bad_steps: 0,
                ..restored.facts.progress
            },
            voice: restored.facts.voice,
            lengths: Tensor::from_floats(lengths, device),
            styles: Styles::new(speakers.len()),
            alignments: Alignments::new(
                !is_cpu(device),
                match same_plan {
                    true => Stored {
                        known: restored.facts.alignments,
                        pending: restored.facts.pending_durations,
                        settling: restored.facts.settling,
                    },
                    // Its numbers are other clips'.
                    false => Stored::default(),
                },
            ),
            fitting: Fitting::default(),
            saved_at: None,
            validated_at: None,
            device: device.clone(),
            speaker_names: speakers,
            options,
            settings,
        })
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    pub fn shape(&self) -> &ModelShape {
        &self.voice.shape
    }

    pub fn parameters(&self) -> usize {
        self.model.parameters()
    }

    /// How batches come to this run's device, by way of another one or not.
    pub fn preparing(&self, data: &Device, augment: Augment) -> Preparing {
        Preparing {
            data: data.clone().inner(),
            model: self.device.clone().inner(),
            statistics: self.voice.mel_statistics,
            audio: self.voice.audio.clone(),
            augment,
            seed: self.options.seed,
        }
    }

    /// Trains until a limit is reached, the feed ends, or `stop` is set.
    pub fn run(
        mut self,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let options = self.options.clone();
        let first_step = self.progress.step;
        let seconds_before = self.progress.seconds;
        let begin = Instant::now();
        let mut pending = Pending::default();
        let mut line_end = begin;
        let outcome = loop {
            let step = self.progress.step;
            if stop.load(Ordering::Relaxed) {
                break Ok(Stopped::Interrupted);
            }
            if let Some(reached) = self.limit_reached() {
                break Ok(reached);
            }

            // Wait for the effective batch: one batch, or several whose gradients add up.
            let asked = Instant::now();
            let mut fed = Vec::with_capacity(options.accumulate);
            let mut trouble = None;
            while fed.len() < options.accumulate && trouble.is_none() {
                match feed.next() {
                    Some(Ok(batch)) => fed.push(batch),
                    Some(Err(error)) => trouble = Some(TrainError::Feed(error)),
                    None => break,
                }
            }
            if let Some(trouble) = trouble {
                break Err(trouble);
            }
            if fed.is_empty() {
                break Ok(Stopped::FeedEnded);
            }
            let began = Instant::now();
            let late = feed.late();

            // Forward and backward. Nothing here reads from the device but the alignment search, and the
            // first batch of each shape.
            let task = StepTask {
                step,
                prior_weight: prior_weight(step),
                counts: fed.iter().map(|fed| fed.ready.counts).sum(),
                loss_scale: self.loss_scale.as_ref().map(LossScale::factor),
            };
            let rate = options.rate(step, self.progress.seconds);
            let mut passed: Option<Passed> = None;
            let mut positions = Vec::with_capacity(fed.len());
            let mut done = Vec::with_capacity(fed.len());
            let mut splits = Vec::new();
            let mut lengths = self.lengths.clone();
            for Fed {
                ready,
                done: is_done,
            } in fed
            {
                let (of_batch, split) = match self.pass_over(&ready, &task) {
                    Ok(passed) => passed,
                    Err(failed) => {
                        trouble = Some(failed);
                        break;
                    }
                };
                lengths = self.lengths_after(lengths, &of_batch);
                passed = Some(match passed {
                    Some(before) => before.add(of_batch),
                    None => of_batch,
                });
                self.styles.hear(&ready);
                pending.add(&ready);
                splits.extend(split);
                positions.push(ready.position);
                done.push(is_done);
            }
            if let Some(trouble) = trouble {
                self.alignments.back_to(0);
                break Err(trouble);
            }
            self.lengths = lengths;
            let Passed {
                losses,
                gradients,
                mut spent,
                ..
            } = passed.expect("at least one batch");
            let optimizing = Instant::now();
            let gradients = gradients.scaled_by(task.loss_scale.clone());
            let (model, optimizer, taken) =
                options
                    .optimizer
                    .step(self.model, self.optimizer, gradients, rate);
            (self.model, self.optimizer) = (model, optimizer);
            let total = losses.clone().narrow(0, 0, 1);
            self.loss_scale = self
                .loss_scale
                .map(|scale| scale.after(&taken.counted, total));
            spent.optimizer = optimizing.elapsed();
            // By now the device is at work on this step; what the step before found is ready.
            self.alignments.take_over(task.prior_weight);

            // The step is done: the feed may forget its batches.
            let last = *positions.last().expect("at least one batch");
            self.progress.position = feed.after(last);
            done.into_iter().for_each(|done| done());
            self.progress.step += 1;
            let ended = Instant::now();
            self.progress.seconds = seconds_before + begin.elapsed().as_secs_f64();
            let scale = task.loss_scale;
            let scale = scale.unwrap_or_else(|| Tensor::zeros([1], &self.device));
            pending.end(
                Tensor::cat(vec![losses, taken.norm, taken.counted, scale], 0),
                StepReport {
                    step: self.progress.step,
                    positions,
                    shapes: Vec::new(),
                    clips: Vec::new(),
                    waited: began - asked,
                    late: late.filter(|_| began - asked > NOT_LATE),
                    service: ended - began,
                    parts: is_cpu(&self.device).then_some(spent),
                    ended,
                    overhead: asked - line_end,
                    frames: task.counts.frames,
                    splits,
                    rate,
                    losses: Losses::default(),
                    gradient_norm: 0.0,
                    counted: true,
                    loss_scale: None,
                },
            );
            line_end = ended;

            if let Err(trouble) = self.between_steps(&mut pending, feed, checkpoints, observer) {
                break Err(trouble);
            }
        };
        let outcome = outcome.and_then(|stopped| {
            self.end(
                stopped,
                first_step,
                &mut pending,
                feed,
                checkpoints,
                observer,
            )?;
            Ok(stopped)
        });
        let unsaved = self.progress.step > self.saved_at.unwrap_or(first_step);
        match outcome {
            Ok(stopped) => Ok(Summary {
                stopped,
                first_step,
                step: self.progress.step,
                seconds: begin.elapsed(),
                progress: self.progress,
                voice: self.voice,
            }),
            Err(trouble) => {
                // The steps since the last checkpoint are good. If they cannot be saved either, the
                // first trouble is still the one to tell.
                if unsaved && !matches!(trouble, TrainError::Checkpoint(_)) {
                    let _ = self.save(feed, checkpoints, observer);
                }
                Err(trouble)
            }
        }
    }

    /// Forward and backward over a batch, or a part of one.
    fn pass_over_part(&mut self, batch: &Ready, task: &StepTask) -> Passed {
        let begin = Instant::now();
        let due = self.alignments.are_due(batch);
        let made = match self.alignments.of(batch, task.prior_weight) {
            Some(known) => {
                let (made, scores) =
                    pass_with(&self.model, &batch.prepared, known, due, task.counts);
                match scores {
                    Some(scores) => self.alignments.read_later(batch, scores),
                    None => self.alignments.follow(made.losses.mel.clone().inner()),
                }
                made
            }
            None => {
                let made = pass(&self.model, &batch.prepared, task.prior_weight, task.counts);
                self.alignments.found(batch, &made.durations);
                made
            }
        };
        let lengths = self.lengths_of(&made);
        let total = made.losses.total();
        let crate::loss::Losses {
            mel,
            mean,
            duration,
        } = made.losses;
        let parts = [total.clone(), mel, mean, duration];
        let losses = Tensor::cat(parts.map(Tensor::inner).to_vec(), 0);
        let forward = begin.elapsed();
        let scaled = match &task.loss_scale {
            Some(scale) => total * scale.clone(),
            None => total,
        };
        let gradients = FlatGradients::collect(&self.model, scaled.backward());
        Passed {
            losses,
            lengths,
            gradients,
            spent: StepParts {
                forward,
                backward: begin.elapsed() - forward,
                optimizer: Duration::ZERO,
            },
        }
    }

    /// The limit that ends the run here, if any.
    pub fn limit_reached(&self) -> Option<Stopped> {
        let (progress, options) = (&self.progress, &self.options);
        let patience = options.patience;
        if patience.is_some_and(|most| progress.since_best >= most) {
            return Some(Stopped::NoLongerBetter);
        }
        options.limits.reached(progress.step, progress.seconds)
    }

    /// What is due after a step: here the host waits for the device.
    fn between_steps(
        &mut self,
        pending: &mut Pending,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let (step, options) = (self.progress.step, &self.options);
        let every = |n: Option<u64>| n.is_some_and(|n| step.is_multiple_of(n));
        let validate = every(options.validate_every);
        let save = every(options.checkpoint_every) || validate;
        let sample = every(options.sample_every);
        // The first step tells where the voice began.
        let begins = step == 1 && options.validate_every.is_some();
        if every(Some(options.log_every)) || save {
            self.tell(pending, observer)?;
            self.give_up_if_bad(feed, checkpoints, observer)?;
        }
        if validate || begins {
            self.validate(feed, observer, validate)?;
        }
        if save {
            self.save(feed, checkpoints, observer)?;
        }
        if sample {
            self.let_hear(observer)?;
        }
        Ok(())
    }

    /// What is due after the last step.
    fn end(
        &mut self,
        stopped: Stopped,
        first_step: u64,
        pending: &mut Pending,
        feed: &mut impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        self.tell(pending, observer)?;
        let step = self.progress.step;
        if step == 0 && stopped == Stopped::FeedEnded {
            return Err(TrainError::NoBatches);
        }
        if step == first_step {
            return Ok(());
        }
        self.give_up_if_bad(feed, checkpoints, observer)?;
        let validates = self.options.validate_every.is_some() && stopped != Stopped::Interrupted;
        let validate = validates && self.validated_at != Some(step);
        if validate {
            self.validate(feed, observer, true)?;
        }
        if validate || self.saved_at != Some(step) {
            self.save(feed, checkpoints, observer)?;
        }
        Ok(())
    }

    /// True and predicted frames of a batch.
    fn lengths_of(&self, made: &crate::loss::Pass) -> Tensor<1> {
        let (_, mask) = made.durations.logs_and_mask();
        let device = &self.device;
        let shape = made.encoded.log_durations.dims();
        let mask = Tensor::<2>::from_data(burn::tensor::TensorData::new(mask, shape), device);
        let predicted = (made.encoded.log_durations.clone().inner().exp() * mask).sum();
        let real: u32 = made.durations.all().iter().sum();
        let real = Tensor::from_floats([real as f32], device);
        Tensor::cat(vec![real, predicted], 0)
    }

    /// The running sums with a batch more. One that is not finite must not spoil them for good.
    fn lengths_after(&self, sums: Tensor<1>, passed: &Passed) -> Tensor<1> {
        let both = passed.lengths.clone();
        let fine = both.clone().is_finite().all().expand([2]);
        let next = sums.clone() * LENGTHS_KEEP + both;
        sums.mask_where(fine, next)
    }

    fn tell(
        &mut self,
        pending: &mut Pending,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let reports = pending.read();
        if reports.is_empty() {
            return Ok(());
        }
        let bad = |report: &&StepReport| !report.counted && !report.overflowed();
        self.progress.bad_steps += reports.iter().filter(bad).count() as u64;
        observer
            .steps(&reports, &self.progress)
            .map_err(TrainError::Observer)
    }

    /// Ends a run of too many bad steps, with a checkpoint.
    fn give_up_if_bad(
        &mut self,
        feed: &impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let bad = self.progress.bad_steps;
        if bad <= self.options.max_bad_steps {
            return Ok(());
        }
        let (_, saved) = self.save(feed, checkpoints, observer)?;
        Err(TrainError::TooManyBadSteps { bad, saved })
    }

    fn speaker(&self) -> Speaker {
        let model = with_mean_weights(&self.model, &self.optimizer);
        Speaker::new(model, self.voice.clone(), self.device.clone())
    }

    fn let_hear(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.refresh_voice();
        let speaker = self.speaker();
        observer
            .sample(self.progress.step, &speaker)
            .map_err(TrainError::Observer)
    }

    /// Brings what is known of the voice beside its weights up to date.
    fn refresh_voice(&mut self) {
        let [real, predicted] = self.length_sums();
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

    fn length_sums(&self) -> [f32; 2] {
        let values = read(self.lengths.clone());
        std::array::from_fn(|n| values.get(n).copied().unwrap_or(0.0))
    }

    /// `may_be_best`: a checkpoint is saved right after it, so that the best can be found again.
    fn validate(
        &mut self,
        feed: &mut impl Feed,
        observer: &mut dyn Observer,
        may_be_best: bool,
    ) -> Result<(), TrainError> {
        let begin = Instant::now();
        let model = with_mean_weights(&self.model, &self.optimizer);
        let statistics = self.voice.mel_statistics;
        let batches = feed.validation().map_err(TrainError::Feed)?;
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
        observer
            .validated(&validation, &self.progress)
            .map_err(TrainError::Observer)
    }

    fn save(
        &mut self,
        feed: &impl Feed,
        checkpoints: &Checkpoints,
        observer: &mut dyn Observer,
    ) -> Result<(std::path::PathBuf, u64), TrainError> {
        let begin = Instant::now();
        self.refresh_voice();
        self.progress.feed = feed.position();
        let Stored {
            known: alignments,
            pending: pending_durations,
            settling,
        } = self.alignments.stored();
        let facts = Facts {
            voice: self.voice.clone(),
            progress: self.progress.clone(),
            settings: self.settings.clone(),
            quarantine: feed.quarantine(),
            alignments,
            pending_durations,
            settling,
            prepare_on: self.options.prepare_on,
            precision: self.options.precision,
        };
        let (path, bytes) = checkpoints.save(&Snapshot {
            facts: &facts,
            model: &self.model,
            optimizer: &self.optimizer,
            lengths: self.length_sums(),
            loss_scale: self.loss_scale.as_ref().map(LossScale::stored),
        })?;
        let saved = Saved {
            step: self.progress.step,
            path: path.clone(),
            bytes,
            took: begin.elapsed(),
        };
        self.saved_at = Some(self.progress.step);
        observer.saved(&saved).map_err(TrainError::Observer)?;
        Ok((path, self.progress.step))
    }
}

/// A batch that came within this was there.
const NOT_LATE: Duration = Duration::from_micros(200);
