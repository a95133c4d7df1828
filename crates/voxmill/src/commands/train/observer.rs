//! What a person, a log and TensorBoard get to see of a run.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use voxmill_pipeline::control::Control;
use voxmill_report::picture::{Mel, alignment_png, mel_png, two_mels_png};
use voxmill_report::tensorboard::{EventFileError, EventWriter, Moment, Sound as SoundEvent};
use voxmill_speech::audio::wav_bytes;
use voxmill_speech::batch_plan::Shape;
use voxmill_speech::manifest::Quarantine;
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind, Nanos, Step};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::Progress;
use voxmill_trainer::speak::Speaker;
use voxmill_trainer::train::{FeedError, Limits, Observer, Saved, StepReport, Validation};

use super::measures::Measures;
use super::memory::MemoryWatch;
use super::sentences::Sentence;
use crate::commands::tell;
use crate::dashboard::{BestValidation, Budget, BufferLevel, Dashboard, DeviceLoad, StepTimes};
use crate::feed::train::{BatchFeed, Shelf};
use crate::speech::Mouth;

/// Plain lines are not told more often than this.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// Steps that "now" looks back on.
const RECENT: usize = 200;

pub(super) struct Watching<'a> {
    pub(super) recorder: Recorder,
    pub(super) control: Control,
    pub(super) batches: &'a BatchFeed,
    pub(super) shelf: &'a Shelf,
    pub(super) limits: Limits,
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
    pub(super) memory: MemoryWatch,
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

    fn warn(&self, text: &str) {
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

    /// The time that is left by the limits, at the pace so far.
    fn time_left(&self, progress: &Progress) -> Option<Duration> {
        let by_time = self
            .limits
            .seconds
            .map(|most| (most - progress.seconds).max(0.0));
        let per_step = self.begin.elapsed().as_secs_f64() / self.sums.steps.max(1) as f64;
        let by_steps = self
            .limits
            .steps
            .map(|most| most.saturating_sub(progress.step) as f64 * per_step);
        let least = match (by_time, by_steps) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        least.map(Duration::from_secs_f64)
    }

    fn pace(&self) -> Pace {
        let sum = |of: fn(&StepReport) -> Duration| self.recent.iter().map(of).sum::<Duration>();
        let (waited, service, overhead) = (
            sum(|step| step.waited),
            sum(|step| step.service),
            sum(|step| step.overhead),
        );
        let wall = (waited + service + overhead).as_secs_f64().max(1e-9);
        let frames: u64 = self.recent.iter().map(|step| step.frames).sum();
        let mut times: Vec<Duration> = self.recent.iter().map(|step| step.service).collect();
        times.sort();
        let at = |share: f64| {
            let last = times.len().saturating_sub(1);
            times
                .get((last as f64 * share) as usize)
                .copied()
                .unwrap_or_default()
        };
        Pace {
            frames_per_second: frames as f64 / wall,
            stall: waited.as_secs_f64() / wall,
            busy: service.as_secs_f64() / wall,
            median: at(0.5),
            p95: at(0.95),
        }
    }

    fn show(&mut self, last: &StepReport, progress: &Progress) {
        let pace = self.pace();
        let left = self.time_left(progress);
        if self.dashboard.is_some() {
            self.show_on_dashboard(last, progress, &pace, left);
            return;
        }
        if self
            .last_line
            .is_some_and(|then| then.elapsed() < BETWEEN_LINES)
        {
            return;
        }
        self.last_line = Some(Instant::now());
        let left = left.map_or(String::new(), |left| format!("  {} left", short_time(left)));
        tell(&format!(
            "step {:>5}  epoch {:>3}  loss {:.3}  mel {:.3}  {:>4.0} ms/step  waits {:>4.1} %  {:>6.0} frames/s{left}",
            last.step,
            progress.position.epoch + 1,
            last.losses.total,
            last.losses.mel,
            pace.median.as_secs_f64() * 1e3,
            pace.stall * 100.0,
            pace.frames_per_second,
        ));
    }

    fn show_on_dashboard(
        &mut self,
        last: &StepReport,
        progress: &Progress,
        pace: &Pace,
        left: Option<Duration>,
    ) {
        let cpu = self.host_cpu.since_last(&self.recorder);
        let memory = self.memory.now();
        if let Some(dashboard) = &self.dashboard {
            let snapshot = self.control.snapshot();
            let reports: Vec<_> = self.recent.iter().rev().take(1).cloned().collect();
            dashboard.update(|state| {
                state.step = last.step;
                state.epoch = progress.position.epoch as u32 + 1;
                state.elapsed = Duration::from_secs_f64(progress.seconds);
                state.time_left = left;
                state.learning_rate = Some(last.rate);
                state.gradient_norm = Some(last.gradient_norm);
                for step in &reports {
                    state.total_loss.push(step.step, step.losses.total);
                    state.mel_loss.push(step.step, step.losses.mel);
                    state.prior_loss.push(step.step, step.losses.mean);
                    state.duration_loss.push(step.step, step.losses.duration);
                }
                state.step_times = Some(StepTimes {
                    now: last.service,
                    median: pace.median,
                    p95: pace.p95,
                });
                state.stall_share = Some(pace.stall);
                state.frames_per_second = Some(pace.frames_per_second);
                state.buffers = snapshot
                    .stages
                    .iter()
                    // The model itself has nothing behind it.
                    .filter(|stage| stage.capacity > 0)
                    .map(|stage| BufferLevel {
                        name: stage.name.clone(),
                        items: stage.buffered,
                        capacity: stage.capacity,
                    })
                    .collect();
                state.budget = snapshot.budgets.first().map(|budget| Budget {
                    used_bytes: budget.in_use,
                    limit_bytes: budget.limit,
                });
                // Its own time line: what part of it was training.
                state.devices = vec![DeviceLoad {
                    name: "model".to_owned(),
                    busy_share: Some(pace.busy),
                    memory_bytes: memory,
                }];
                state.host_cpu_share = cpu.map(|percent| percent / 100.0);
                state.resident_bytes = resident_bytes();
            });
        }
    }
}

/// The mean of the host's readings between two looks.
#[derive(Debug, Default)]
pub(super) struct HostCpu {
    samples: u64,
    sum: f64,
    percent: Option<f64>,
}

impl HostCpu {
    fn since_last(&mut self, recorder: &Recorder) -> Option<f64> {
        let now = recorder.stats().host.cpu_percent;
        if now.samples > self.samples {
            self.percent = Some((now.sum - self.sum) / (now.samples - self.samples) as f64);
            (self.samples, self.sum) = (now.samples, now.sum);
        }
        self.percent
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

struct Pace {
    frames_per_second: f64,
    stall: f64,
    busy: f64,
    median: Duration,
    p95: Duration,
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
        if let Some(growth) = self.memory.look(progress.step, &self.recorder)? {
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

impl Watching<'_> {
    /// Says the sentences into wav files with a picture beside each. What cannot be said or written
    /// costs a warning, not the run.
    pub(super) fn say_samples(
        &mut self,
        name: &str,
        step: Option<u64>,
        speaker: &Speaker,
    ) -> Vec<PathBuf> {
        let mut written = Vec::new();
        for (number, sentence) in self.sentences.iter().enumerate() {
            match self.say_sample(name, number + 1, step, sentence, speaker) {
                Ok(path) => written.extend(path),
                Err(error) => self.warn(&format!("a sample could not be made: {error}")),
            }
        }
        self.for_tensorboard(EventWriter::flush);
        self.sums.samples.clone_from(&written);
        written
    }

    fn say_sample(
        &mut self,
        name: &str,
        number: usize,
        step: Option<u64>,
        sentence: &Sentence,
        speaker: &Speaker,
    ) -> Result<Option<PathBuf>, FeedError> {
        let facts = speaker.facts();
        let named = speaker.style_named(&sentence.speaker);
        let style = named.or_else(|| speaker.style_named(&facts.main_speaker));
        let Some(style) = style.map(<[f32]>::to_vec) else {
            return Ok(None);
        };
        let sound = self
            .mouth
            .say(speaker, &sentence.text, sentence.language, &style, 1.0)?;
        if sound.samples.is_empty() {
            return Ok(None);
        }
        std::fs::create_dir_all(&self.samples)?;
        let rate = facts.audio.sample_rate;
        let wav = wav_bytes(&sound.samples, rate);
        let png = mel_png(Mel::new(&sound.mel, facts.vocabulary.mel_channels));
        let path = self.samples.join(format!("{name}-{number}.wav"));
        write(&path, &wav)?;
        write(&path.with_extension("png"), &png)?;
        if let Some(step) = step {
            self.for_tensorboard(|writer| {
                let event = SoundEvent {
                    wav: &wav,
                    sample_rate_hz: rate,
                    samples: sound.samples.len() as u64,
                };
                writer.sound(moment(step), &format!("sample/{number}"), event)?;
                writer.picture(moment(step), &format!("sample/{number} mel"), &png)
            });
        }
        Ok(Some(path))
    }
}

/// An error with what lies behind it, in one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FeedError> {
    std::fs::write(path, bytes)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
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
    Step {
        step: report.step,
        waited: nanos(report.waited),
        late: report.late.clone(),
        service: nanos(report.service),
        overhead: nanos(report.overhead),
        shape: report.shapes.first().map(shape_name),
        ended: Some(ended),
        phase: None,
        parts: BTreeMap::new(),
        values: (values.into_iter().chain(scale))
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

/// `3 min 20 s`
pub(super) fn short_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3_600.0 => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {:02} min", s as u64 / 3_600, s as u64 / 60 % 60),
    }
}
