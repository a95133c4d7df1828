//! The training loop, top to bottom: wait → forward → align → backward, once or several times → update → report.
//!
//! Special cases are in other files: the first batch of a shape and batches that do not fit in `fitting`,
//! scores that are read a step behind in `alignments`, validation, checkpoints and what is saved after a
//! failure in `between`.

use std::time::Instant;

use super::gradients::{BatchGradients, StepSum, StepTask};
use super::lengths::lengths_of;
use super::report::{StepParts, StepReport, Stopped, SubmittedBatch, Summary};
use super::timeline::HostTimes;
use super::{Began, Fed, Feed, RunContext, TrainError, Trainer, caught};
use crate::align::Durations;
use crate::device::is_cpu;
use crate::loss::{pass, pass_with};
use crate::optimizer::{FlatGradients, LossScale};
use crate::prepare::{Counts, ReadyBatch};

/// How many batches a GPU may have before it when the next one is waited for: enough to keep it at work, and no more
/// memory than that takes.
const BATCHES_AHEAD: usize = 1;

impl Trainer {
    pub(super) fn run_steps<F: Feed>(
        mut self,
        mut run: RunContext<'_, F>,
    ) -> Result<Summary, TrainError> {
        let (options, device) = (self.options.clone(), self.device.clone());
        let start = Began::new(&self.progress);
        self.reports.begin(start.at);
        let outcome = 'run: loop {
            let step = self.progress.step;
            let rate = options.rate(step, self.progress.seconds);
            let task = StepTask {
                step,
                prior_weight: options.prior_weight(step),
                divisors: Counts::default(),
                loss_scale: self.loss_scale.as_ref().map(LossScale::factor),
            };
            let (report, lengths) = (StepReport::new(step + 1, rate), self.lengths.clone());
            let mut sum = StepSum::new(task, report, lengths, options.accumulate);
            let mut done = Vec::new();

            // The effective batch: one batch, or several that come one after another and whose gradients add up.
            let (asked, trained) = loop {
                // First of the two: what is over cannot be resumed, whoever asked for what.
                if let Some(reached) = self.limit_reached() {
                    break 'run Ok(reached);
                }
                if run.is_asked_to_stop() {
                    break 'run Ok(Stopped::Interrupted);
                }
                let asked = Instant::now();
                let Fed { ready, trained } = match run.feed.next() {
                    Some(Ok(fed)) => fed,
                    Some(Err(error)) => break 'run Err(TrainError::Feed(error)),
                    None if sum.is_empty() => break 'run Ok(Stopped::FeedEnded),
                    None => break (SubmittedBatch::for_nothing(asked), None),
                };
                let began = Instant::now();
                let (host, late) = (HostTimes { asked, began }, run.feed.late());
                let asked = SubmittedBatch { host, late };

                // Forward, align, backward. Nothing here reads from the device but the alignment search, and the
                // first batch of each shape.
                if let Err(error) = caught(&device, || self.add_batch(&mut sum, ready)) {
                    break 'run Err(error);
                }
                if sum.is_whole() {
                    break (asked, Some(trained));
                }
                // By now the device is at work on this batch. The host waits for the one before.
                let followed = caught(&device, || {
                    self.reports.push_batch(|| sum.mark(), asked);
                    self.reports.follow(BATCHES_AHEAD);
                    Ok(())
                });
                if let Err(error) = followed {
                    break 'run Err(error);
                }
                done.push(trained());
            };

            // Update. Where gradients are not finite, the optimizer leaves the weights as they are.
            let optimizing = Instant::now();
            let made = sum.finished(&self.model).expect("at least one batch");
            let gradients = made.gradients.scaled_by(sum.task.loss_scale.clone());
            let adam = options.optimizer;
            let (model, optimizer, taken) = adam.step(self.model, self.optimizer, gradients, rate);
            (self.model, self.optimizer) = (model, optimizer);
            let total = made.losses.clone().narrow(0, 0, 1);
            let scale = self.loss_scale;
            self.loss_scale = scale.map(|scale| scale.after(&taken.counted, total));
            let parts = StepParts {
                optimizer: optimizing.elapsed(),
                ..made.spent
            };
            let mut report = sum.report;
            report.parts = is_cpu(&device).then_some(parts);
            let last = *report.positions.last().expect("at least one batch");
            let scale = sum.task.loss_scale;
            (self.reports).push_step(made.losses, taken, scale, asked, report);

            // The host waits for the batch before the last, and for what the step before found.
            self.reports.follow(BATCHES_AHEAD);
            self.alignments.take_over(sum.task.prior_weight);

            // The step is done: the feed may forget its batches.
            self.lengths = sum.lengths;
            self.progress.position = run.feed.after(last);
            done.extend(trained.map(|trained| trained()));
            done.into_iter().for_each(|done| done());
            self.progress.step += 1;
            self.progress.seconds = start.seconds + start.at.elapsed().as_secs_f64();

            // Report, validate, save, where that is due.
            if let Err(error) = caught(&device, || self.between_steps(&mut run)) {
                break Err(error);
            }
        };
        // A step that was begun and not finished does not count: a resumed run gets its batches again.
        self.alignments.drop_step();
        self.finish(outcome, start, run)
    }

    /// Forward, align, backward over the next batch of a step, which is then released.
    fn add_batch(&mut self, sum: &mut StepSum, batch: ReadyBatch) -> Result<(), TrainError> {
        let batch = batch.adopted();
        sum.expect(&batch);
        let (gradients, split) = self.gradients_of_batch(&batch, &sum.task)?;
        sum.add(gradients);
        sum.report.splits.extend(split);
        self.styles.add(&batch);
        Ok(())
    }

    /// Forward, align, backward over a batch, or a part of one. `known`: the alignment to train it with,
    /// if there is one; else the batch is aligned by the model as it is now.
    pub(super) fn forward_backward(
        &mut self,
        batch: &ReadyBatch,
        known: Option<Durations>,
        task: &StepTask,
    ) -> BatchGradients {
        let begin = Instant::now();
        let (model, prepared) = (&self.model, &batch.prepared);
        let is_due = self.alignments.are_due(batch);
        let (made, scores) = match known {
            Some(known) => pass_with(model, prepared, known, is_due, task.divisors),
            None => {
                let made = pass(model, prepared, task.prior_weight, task.divisors);
                self.alignments.found(batch, &made.durations);
                (made, None)
            }
        };
        let total = made.losses.total();
        let losses = made.losses.together(&total);
        let lengths = lengths_of(&made);
        let forward = begin.elapsed();
        let scaled = match &task.loss_scale {
            Some(scale) => total * scale.clone(),
            None => total,
        };
        let gradients = FlatGradients::collect(model, scaled.backward());
        // Behind the passes in the order of the device's work, so that neither waits for the reading.
        if let Some(scores) = scores {
            self.alignments.read_later(batch, scores);
        }
        BatchGradients {
            losses,
            lengths,
            gradients,
            spent: StepParts {
                forward,
                backward: begin.elapsed() - forward,
                ..StepParts::default()
            },
        }
    }
}
