//! What a person, a log and TensorBoard get to see of a run.

mod samples;
mod shown;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use voxmill_pipeline::control::Control;
use voxmill_report::picture::{Mel, alignment_png, two_mels_png};
use voxmill_report::tensorboard::{EventFileError, EventWriter, Moment};
use voxmill_speech::batch_plan::Shape;
use voxmill_speech::manifest::Quarantine;
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind, Nanos, Step};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::speak::Speaker;
use voxmill_trainer::train::{FeedError, Limits, Observer, Saved, Split, StepReport, Validation};

use super::measures::Measures;
use super::memory::MemoryWatch;
use super::sentences::Sentence;
use crate::checks::need::ClipsOfAStep;
use crate::commands::tell;
use crate::dashboard::{BestValidation, Dashboard};
use crate::feed::train::{BatchFeed, Shelf};
use crate::speech::Mouth;
pub(super) use shown::{HostCpu, short_time};

/// Steps that "now" looks back on.
const RECENT: usize = 200;

pub(super) struct Watching<'a> {
    pub(super) recorder: Recorder,
    pub(super) control: Control,
    pub(super) batches: &'a BatchFeed,
    pub(super) shelf: &'a Shelf,
    pub(super) limits: Limits,
    pub(super) clips: ClipsOfAStep,
    pub(super) dashboard: Option<Dashboard>,
    pub(super) tensorboard: Option<EventWriter>,
    pub(super) samples: PathBuf,
    pub(super) sentences: &'a [Sentence],
    pub(super) mouth: Mouth<'a>,
    pub(super) begin: Instant,
    pub(super) last_line: Option<Instant>,
    pub(super) recent: VecDeque<StepReport>,
    pub(super) sums: Sums,
    /// Notes of the cache that were told.
    pub(super) notes_told: usize,
    pub(super) host_cpu: HostCpu,
    /// The model device first.
    pub(super) memory: Vec<MemoryWatch>,
    pub(super) measures: Measures,
    /// Every bad clip so far, and how many of the shelf's were told.
    pub(super) all_bad: Quarantine,
    pub(super) bad_told: usize,
    /// Rows of the manifest, and the share of them that may be bad.
    pub(super) rows: usize,
    pub(super) max_bad: f64,
    pub(super) quarantine_file: PathBuf,
}

/// Over all steps of this start.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) steps: u64,
    pub(super) frames: u64,
    pub(super) waited: Duration,
    pub(super) service: Duration,
    pub(super) overhead: Duration,
    /// From the program's start to the end of the first step, where this start had it.
    pub(super) first_step_after: Option<Duration>,
    pub(super) first_validation: Option<f64>,
    pub(super) saving: Duration,
    pub(super) validating: Duration,
    pub(super) samples: Vec<PathBuf>,
}

impl Watching<'_> {
    /// A message for the person, wherever they look.
    pub(super) fn tell(&self, text: &str) {
        match &self.dashboard {
            Some(dashboard) => dashboard.update(|state| state.tell(text)),
            None => tell(text),
        }
    }

    pub(super) fn warn(&self, text: &str) {
        match &self.dashboard {
            Some(dashboard) => dashboard.update(|state| state.warn(text)),
            None => tell(&format!("warning: {text}")),
        }
    }

    /// Clips that failed since the last look: their rows are masked. Too many end the run.
    fn tell_of_bad_clips(&mut self) -> Result<(), FeedError> {
        let bad = self.shelf.bad();
        if bad.len() == self.bad_told {
            return Ok(());
        }
        self.bad_told = bad.len();
        for entry in bad {
            if self.all_bad.entries().contains(&entry) {
                continue;
            }
            self.warn(&format!(
                "`{}` is left out: {}: {}",
                entry.clip, entry.reason, entry.detail
            ));
            self.recorder.record(Event::Fault(Fault {
                stage: "featurize".to_owned(),
                item: 0,
                name: entry.clip.to_string(),
                kind: FaultKind::Error,
                message: format!("{}: {}", entry.reason, entry.detail),
                action: FaultAction::Skipped,
            }));
            self.all_bad.extend([entry]);
        }
        if let Err(error) = self.all_bad.write_csv(&self.quarantine_file) {
            self.warn(&with_cause(&error));
        }
        match self.all_bad.too_many(self.rows, self.max_bad) {
            Some(too_many) => Err(format!(
                "{too_many}; they are listed in `{}`, and --max-bad allows more",
                self.quarantine_file.display()
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Writes for TensorBoard. What cannot be written costs a warning, not the run.
    fn for_tensorboard(
        &mut self,
        write: impl FnOnce(&mut EventWriter) -> Result<(), EventFileError>,
    ) {
        if let Some(writer) = &mut self.tensorboard
            && let Err(error) = write(writer)
        {
            self.tensorboard = None;
            self.warn(&format!(
                "no more files for TensorBoard: {}",
                with_cause(&error)
            ));
        }
    }
}

impl Observer for Watching<'_> {
    fn steps(&mut self, steps: &[StepReport], progress: &Progress) -> Result<(), FeedError> {
        for report in steps {
            if self.sums.steps == 0 {
                // Reported some steps later: their time is known and taken off.
                let since: Duration = steps
                    .iter()
                    .skip(1)
                    .map(|step| step.overhead + step.waited + step.service)
                    .sum();
                self.sums.first_step_after = Some(self.begin.elapsed().saturating_sub(since));
            }
            self.sums.steps += 1;
            self.sums.frames += report.frames;
            self.sums.waited += report.waited;
            self.sums.service += report.service;
            self.sums.overhead += report.overhead;
            let ended = self.recorder.now().since(report.ended.elapsed().into());
            self.recorder.record(Event::Step(step_event(report, ended)));
            // Overflows in f16 are how its scale is found, and no fault of the clips.
            if !report.counted && !report.overflowed() {
                let clips: Vec<_> = report
                    .clips
                    .iter()
                    .map(|&clip| self.batches.clip(clip).id.to_string())
                    .collect();
                self.warn(&format!(
                    "step {} was left out: its loss or gradients are not finite; its clips: {}",
                    report.step,
                    clips.join(", ")
                ));
            }
            for split in &report.splits {
                self.warn(&split_words(split, self.clips));
            }
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(report.clone());
        }
        let notes = self.shelf.notes();
        for note in notes.iter().skip(self.notes_told) {
            self.warn(note);
        }
        self.notes_told = notes.len();
        self.tell_of_bad_clips()?;
        let looks = self.memory.iter_mut();
        let grown: Result<Vec<_>, _> = looks
            .map(|watch| watch.look(progress.step, &self.recorder))
            .collect();
        for growth in grown?.into_iter().flatten() {
            self.warn(&growth);
        }
        if let Some(warning) = self.measures.look(self.recent.iter(), &self.recorder) {
            self.warn(&warning);
        }
        let Some(last) = steps.last() else {
            return Ok(());
        };
        let pace = self.pace();
        let values = [
            ("loss/total", last.losses.total as f32),
            ("loss/mel", last.losses.mel as f32),
            ("loss/mean", last.losses.mean as f32),
            ("loss/duration", last.losses.duration as f32),
            ("optimiser/learning_rate", last.rate as f32),
            ("optimiser/gradient_norm", last.gradient_norm as f32),
            ("speed/frames_per_second", pace.frames_per_second as f32),
            ("speed/step_ms", (pace.median.as_secs_f64() * 1e3) as f32),
            ("speed/stall_share", pace.stall as f32),
        ];
        self.for_tensorboard(|writer| writer.scalars(moment(last.step), &values));
        if let Some(scale) = last.loss_scale {
            let value = [("optimiser/loss_scale", scale as f32)];
            self.for_tensorboard(|writer| writer.scalars(moment(last.step), &value));
        }
        self.show(last, progress);
        Ok(())
    }

    fn validated(&mut self, found: &Validation, _: &Progress) -> Result<(), FeedError> {
        self.sums.validating += found.took;
        self.sums.first_validation.get_or_insert(found.losses.mel);
        let values = [
            ("validation/total", found.losses.total as f32),
            ("validation/mel", found.losses.mel as f32),
            ("validation/mean", found.losses.mean as f32),
            ("validation/duration", found.losses.duration as f32),
        ];
        self.for_tensorboard(|writer| {
            let at = moment(found.step);
            writer.scalars(at, &values)?;
            if let Some(shown) = &found.shown {
                let real = Mel::new(&shown.real, shown.channels);
                let made = Mel::new(&shown.made, shown.channels);
                let both = two_mels_png(real, made);
                writer.picture(at, "held out: recording above, model below", &both)?;
                let alignment = alignment_png(&shown.durations);
                writer.picture(at, "held out: alignment", &alignment)?;
            }
            writer.flush()
        });
        if let Some(dashboard) = &self.dashboard {
            dashboard.update(|state| {
                state.validation_loss.push(found.step, found.losses.total);
                if found.better {
                    // The same loss as the curve's.
                    state.best_validation = Some(BestValidation {
                        loss: found.losses.total,
                        step: found.step,
                    });
                }
            });
        }
        let better = if found.better {
            "  the best so far"
        } else {
            ""
        };
        self.tell(&format!(
            "step {:>5}  held-out mel {:.4}  duration {:.3}{better}",
            found.step, found.losses.mel, found.losses.duration
        ));
        Ok(())
    }

    fn saved(&mut self, saved: &Saved) -> Result<(), FeedError> {
        self.sums.saving += saved.took;
        self.recorder.record(Event::Checkpoint {
            position: saved.step,
            path: saved.path.display().to_string(),
            bytes: saved.bytes,
            took: nanos(saved.took),
        });
        if let Some(dashboard) = &self.dashboard {
            let name = saved
                .path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            dashboard.update(|state| state.last_checkpoint = name);
        }
        Ok(())
    }

    fn sample(&mut self, step: u64, speaker: &Speaker) -> Result<(), FeedError> {
        let written = self.say_samples(&format!("step-{step:06}"), Some(step), speaker);
        if let Some(first) = written.first() {
            let folder = first.parent().unwrap_or(first).display().to_string();
            self.tell(&format!("step {step:>5}  samples in {folder}"));
        }
        Ok(())
    }
}

/// An error with what lies behind it, in one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

pub(in crate::commands) fn split_words(split: &Split, clips: ClipsOfAStep) -> String {
    let smaller = clips.in_parts(split.parts);
    format!(
        "batches of {} clips of {} frames do not fit ({}): they are trained in {} parts, which add up to the same step; --batch-size {} with --grad-accum {} does without",
        split.shape.rows,
        split.shape.frames,
        split.why,
        split.parts,
        smaller.batch_size,
        smaller.accumulate
    )
}

pub(in crate::commands) fn step_event(report: &StepReport, ended: Nanos) -> Step {
    let losses = report.losses;
    let values = [
        ("loss", losses.total),
        ("mel", losses.mel),
        ("mean", losses.mean),
        ("duration", losses.duration),
        ("gradient_norm", report.gradient_norm),
        ("learning_rate", report.rate),
        ("frames", report.frames as f64),
        ("clips", report.clips.len() as f64),
    ];
    let scale = report.loss_scale.map(|scale| ("loss_scale", scale));
    // Gradients of several batches: hardly two steps have the same shapes.
    let (shape, padded) = match &report.shapes[..] {
        [] => (None, None),
        [shape] => (Some(shape_name(shape)), None),
        shapes => {
            let frames = shapes
                .iter()
                .map(|s| f64::from(s.rows) * f64::from(s.frames));
            let padded = ("padded_frames", frames.sum());
            (Some(format!("{} batches", shapes.len())), Some(padded))
        }
    };
    Step {
        step: report.step,
        waited: nanos(report.waited),
        late: report.late.clone(),
        service: nanos(report.service),
        overhead: nanos(report.overhead),
        shape,
        ended: Some(ended),
        phase: None,
        parts: BTreeMap::new(),
        values: (values.into_iter().chain(scale).chain(padded))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

fn shape_name(shape: &Shape) -> String {
    format!("{}x{}x{}", shape.rows, shape.frames, shape.tokens)
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}

pub(super) fn moment(step: u64) -> Moment {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    Moment {
        wall_seconds: since_1970.map_or(0.0, |since| since.as_secs_f64()),
        step,
    }
}
