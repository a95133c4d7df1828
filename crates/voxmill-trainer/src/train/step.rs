//! The training loop, top to bottom: wait → forward → align → backward → update → report.
//!
//! Special cases are in other files: the first batch of a shape and batches that do not fit in `fitting`,
//! scores that are read a step behind in `alignments`, validation, checkpoints and what is saved after a
//! failure in `between`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::gradients::{BatchGradients, StepTask};
use super::lengths::lengths_of;
use super::report::{StepParts, StepReport, Stopped, Summary};
use super::timeline::HostTimes;
use super::{Done, Fed, Feed, FeedError, RunContext, Split, Start, TrainError, Trainer, caught};
use crate::align::Durations;
use crate::device::is_cpu;
use crate::loss::{pass, pass_with};
use crate::optimizer::{FlatGradients, LossScale};
use crate::prepare::ReadyBatch;
use crate::schedule::prior_weight;

/// How many steps a GPU may have before it when the next batch is waited for: enough to keep it at work, and no more
/// memory than that takes.
const STEPS_AHEAD: usize = 1;

impl Trainer {
    pub(super) fn run_steps<F: Feed>(
        mut self,
        mut run: RunContext<'_, F>,
        stop: &AtomicBool,
    ) -> Result<Summary, TrainError> {
        let (options, device) = (self.options.clone(), self.device.clone());
        let start = Start::new(&self.progress);
        self.reports.begin(start.at);
        let outcome = loop {
            if stop.load(Ordering::Relaxed) {
                break Ok(Stopped::Interrupted);
            }
            if let Some(reached) = self.limit_reached() {
                break Ok(reached);
            }

            // Wait for the effective batch: one batch, or several whose gradients add up.
            let asked = Instant::now();
            let batches = std::iter::from_fn(|| run.feed.next()).take(options.accumulate);
            let batches = match batches.collect::<Result<Vec<Fed>, FeedError>>() {
                Ok(batches) if batches.is_empty() => break Ok(Stopped::FeedEnded),
                Ok(batches) => batches,
                Err(error) => break Err(TrainError::Feed(error)),
            };
            let began = Instant::now();

            // Forward, align, backward. Nothing here reads from the device but the alignment search, and
            // the first batch of each shape.
            let step = self.progress.step;
            let task = StepTask {
                step,
                prior_weight: prior_weight(step),
                counts: batches.iter().map(|fed| fed.ready.counts).sum(),
                loss_scale: self.loss_scale.as_ref().map(LossScale::factor),
            };
            let rate = options.rate(step, self.progress.seconds);
            let host = HostTimes { asked, began };
            let mut report = StepReport::new(step + 1, rate, &batches, run.feed.late());
            let last = *report.positions.last().expect("at least one batch");
            let computed = caught(&device, || {
                self.gradients_of_step(batches, &task, &mut report.splits)
            });
            let (sum, done) = match computed {
                Ok(computed) => computed,
                Err(error) => {
                    // No batch of this step counts.
                    self.alignments.back_to(0);
                    break Err(error);
                }
            };

            // Update. Where gradients are not finite, the optimizer leaves the weights as they are.
            let optimizing = Instant::now();
            let gradients = sum.gradients.scaled_by(task.loss_scale.clone());
            let adam = options.optimizer;
            let (model, optimizer, taken) = adam.step(self.model, self.optimizer, gradients, rate);
            (self.model, self.optimizer) = (model, optimizer);
            let total = sum.losses.clone().narrow(0, 0, 1);
            let scale = self.loss_scale;
            self.loss_scale = scale.map(|scale| scale.after(&taken.counted, total));
            let optimizer = optimizing.elapsed();
            let parts = StepParts {
                optimizer,
                ..sum.spent
            };
            report.parts = is_cpu(&device).then_some(parts);
            let scale = task.loss_scale;
            self.reports.push(sum.losses, taken, scale, host, report);

            // By now the device is at work on this step. The host waits for the one before, and what that found.
            self.reports.follow(STEPS_AHEAD);
            self.alignments.take_over(task.prior_weight);

            // The step is done: the feed may forget its batches.
            self.progress.position = run.feed.after(last);
            done.into_iter().for_each(|done| done());
            self.progress.step += 1;
            self.progress.seconds = start.seconds + start.at.elapsed().as_secs_f64();

            // Report, validate, save, where that is due.
            if let Err(error) = caught(&device, || self.between_steps(&mut run)) {
                break Err(error);
            }
        };
        self.finish(outcome, start, run)
    }

    /// Forward, align, backward over all batches of a step, whose gradients add up.
    fn gradients_of_step(
        &mut self,
        batches: Vec<Fed>,
        task: &StepTask,
        splits: &mut Vec<Split>,
    ) -> Result<(BatchGradients, Vec<Done>), TrainError> {
        let mut lengths = self.lengths.clone();
        let (mut sum, mut done) = (None::<BatchGradients>, Vec::new());
        for batch in batches {
            let (gradients, split) = self.gradients_of_batch(&batch.ready, task)?;
            lengths.add(gradients.lengths.clone());
            sum = Some(match sum {
                Some(sum) => sum.add(gradients),
                None => gradients,
            });
            self.styles.add(&batch.ready);
            splits.extend(split);
            done.push(batch.done);
        }
        self.lengths = lengths;
        Ok((sum.expect("at least one batch"), done))
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
            Some(known) => pass_with(model, prepared, known, is_due, task.counts),
            None => {
                let made = pass(model, prepared, task.prior_weight, task.counts);
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
