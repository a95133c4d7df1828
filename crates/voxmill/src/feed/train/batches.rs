//! The road from planned rows to batches.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use voxmill_pipeline::group::{Group, Groups};
use voxmill_pipeline::position::Position as RoadPosition;
use voxmill_pipeline::road::{Road, StartError};
use voxmill_pipeline::run::Running;
use voxmill_pipeline::stage::Work;
use voxmill_speech::audio::{AudioSettingsError, Framing};
use voxmill_speech::batch::{Batch, BatchForm, BatchRow, collate, crop, named_frames};
use voxmill_speech::batch_plan::{
    BatchPlan, BatchPlanError, BatchSettings, PlanClip, Position, Shape,
};
use voxmill_speech::language::Language;
use voxmill_speech::manifest::{Clip, Split};
use voxmill_telemetry::event::Nanos;
use voxmill_telemetry::plan::{AdaptPlan, AfterError, Order, Plan, Setting, SlotsPlan, StagePlan};
use voxmill_telemetry::recorder::{Lane, Recorder};

use super::super::build::{decoding_bytes, largest_bytes, lost};
use super::super::{Effort, Hindrance, Maker, compute_for};
use super::epochs::{Epochs, PlacedRow};
use super::keeper::{NewAudio, mel_bytes};
use super::shelf::{IsBad, Shelf};

/// The name of the budget, as it stands in messages.
const MEMORY: &str = "host memory";

/// What a row takes beside its values.
const ROW_BYTES: u64 = 256;

/// Stages of one worker: rows, keep, batch, collate, prepare.
const SINGLE_WORKERS: usize = 5;

/// How the work is spread, and how far ahead of the consumer it may run.
#[derive(Clone, Debug)]
pub(crate) struct FeedSettings {
    pub(crate) workers: usize,
    /// Batches that wait on the host.
    pub(crate) buffer_size: usize,
    /// Bytes of rows and batches on the road; not of what the shelf holds.
    pub(crate) ram_budget: u64,
    pub(crate) order: Order,
    pub(crate) overlap: bool,
    pub(crate) adapt: bool,
    /// Batches that the last stage may have ready ahead of the consumer.
    pub(crate) slots: usize,
    /// The longest that the consumer waits for full slots before its first batch.
    pub(crate) start_delay: Duration,
    /// Batches that the consumer holds at the same time.
    pub(crate) held_at_once: usize,
    /// Nothing, but for one who wants to see what is found.
    pub(crate) hindrance: Hindrance,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error(transparent)]
    Plan(#[from] BatchPlanError),
    #[error(
        "one batch takes up to {needed} bytes while it is made, and {budget} are given to batches"
    )]
    TooLittleMemory { needed: u64, budget: u64 },
    #[error("cannot start the workers")]
    Start(#[from] StartError),
}

/// The batches of one split.
#[derive(Clone, Debug)]
pub(crate) struct BatchFeed {
    rows: Arc<Rows>,
    settings: FeedSettings,
}

impl BatchFeed {
    /// Plans the batches of a split; clips whose text says nothing are left out.
    pub(crate) fn new(
        shelf: &Arc<Shelf>,
        split: Split,
        batch_settings: BatchSettings,
        settings: FeedSettings,
    ) -> Result<BatchFeed, FeedError> {
        BatchFeed::of(shelf, split, batch_settings, settings, None)
    }

    /// The same batches with samples in place of log-mel frames: for a device that makes frames itself.
    pub(crate) fn of_waveforms(
        shelf: &Arc<Shelf>,
        split: Split,
        batch_settings: BatchSettings,
        settings: FeedSettings,
    ) -> Result<BatchFeed, FeedError> {
        let framing = Some(shelf.recipe().audio.framing());
        BatchFeed::of(shelf, split, batch_settings, settings, framing)
    }

    fn of(
        shelf: &Arc<Shelf>,
        split: Split,
        batch_settings: BatchSettings,
        settings: FeedSettings,
        framing: Option<Framing>,
    ) -> Result<BatchFeed, FeedError> {
        let audio = &shelf.recipe().audio;
        let mut members: Vec<(PlanClip, usize)> = Vec::new();
        for (number, clip) in shelf.clips().iter().enumerate() {
            if clip.split != split {
                continue;
            }
            if let Some(tokens) = shelf.token_count(number) {
                let frames = audio.frames_for_header(&clip.header);
                let planned = PlanClip {
                    id: clip.id.to_string(),
                    frames: u32::try_from(frames).unwrap_or(u32::MAX),
                    tokens,
                    speaker: clip.speaker,
                };
                members.push((planned, number));
            }
        }
        // The plan numbers its clips by the order of their ids.
        members.sort_unstable_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let (clips, numbers): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let plan = Arc::new(BatchPlan::new(clips, batch_settings)?);
        let rows = Rows {
            shelf: Arc::clone(shelf),
            epochs: Epochs::new(Arc::clone(&plan)),
            plan,
            numbers,
            framing,
        };
        let needed = rows.most_for_a_batch() * settings.held_at_once.max(1) as u64;
        if needed > settings.ram_budget {
            return Err(FeedError::TooLittleMemory {
                needed,
                budget: settings.ram_budget,
            });
        }
        Ok(BatchFeed {
            rows: Arc::new(rows),
            settings,
        })
    }

    /// Batches ready ahead of those that the consumer holds.
    pub(crate) fn slots_ahead(&self) -> usize {
        let held = self.settings.held_at_once.max(1);
        (self.settings.slots + 1).saturating_sub(held).max(1)
    }

    /// With fewer batches ready ahead of the consumer.
    pub(crate) fn with_slots(mut self, slots: usize) -> BatchFeed {
        self.settings.slots = slots;
        self
    }

    /// What the batches that the consumer holds take while the last of them is made.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.rows.most_for_a_batch() * self.settings.held_at_once.max(1) as u64
    }

    /// Of all clips of the plan, as their headers say.
    pub(crate) fn audio_seconds(&self) -> f64 {
        let clips = 0..self.rows.numbers.len();
        clips.map(|clip| self.clip(clip).header.seconds()).sum()
    }

    pub(crate) fn plan(&self) -> &BatchPlan {
        &self.rows.plan
    }

    #[cfg(test)]
    pub(super) fn epoch(&self, epoch: u64) -> voxmill_speech::batch_plan::EpochPlan {
        self.rows.epochs.epoch(epoch).plan.clone()
    }

    /// The manifest's clip behind a clip number of the plan.
    pub(crate) fn clip(&self, plan_clip: usize) -> &Clip {
        self.rows.clip(plan_clip)
    }

    /// How many batches come before a position. The road numbers batches so, through all epochs.
    pub(crate) fn batches_before(&self, position: Position) -> u64 {
        self.rows.epochs.batches_before(position)
    }

    pub(crate) fn position(&self, batches_done: u64) -> Position {
        self.rows.epochs.position(batches_done)
    }

    /// The split once, in the order of epoch 0: the same batches each time. May run beside others.
    pub(crate) fn one_pass(&self, recorder: Recorder) -> Result<Running<Batch>, FeedError> {
        self.start(RoadPosition::default(), Some(1), recorder)
    }

    /// Batches from a position on, up to the end of so many epochs (counted from the first), or for ever.
    pub(crate) fn start(
        &self,
        from: RoadPosition,
        epochs: Option<u64>,
        recorder: Recorder,
    ) -> Result<Running<Batch>, FeedError> {
        self.start_with(from, epochs, Work::new(Ok::<_, Infallible>), recorder)
    }

    /// The same with a last stage, `prepare`, that brings batches to a device: its results are in slots.
    pub(crate) fn start_with<T: Send + 'static>(
        &self,
        from: RoadPosition,
        epochs: Option<u64>,
        prepare: Work<Batch, T>,
        recorder: Recorder,
    ) -> Result<Running<T>, FeedError> {
        let rows = &self.rows;
        let end = epochs.map_or(u64::MAX, |epochs| rows.epochs.end_of(epochs));
        let numbers = move |first: u64| (first..end).map(Ok::<_, Infallible>);
        let [named, reserved, made, first_rows, collated, batch_bytes] =
            std::array::from_fn(|_| Arc::clone(rows));
        let shelf = Arc::clone(&rows.shelf);
        let hindrance = self.settings.hindrance;
        let worker = AtomicUsize::new(0);
        let names = Arc::clone(rows);
        for part in PARTS {
            let names = Arc::clone(&names);
            recorder.name_items(part, Arc::new(move |number| names.name(number)));
        }
        let part_recorder = recorder.clone();
        let featurize = Work::with_state(move || {
            let mut maker = Maker::new(&made.shelf.recipe().audio)?.hindered(hindrance);
            let worker = worker.fetch_add(1, Ordering::Relaxed);
            let lanes = PARTS.map(|part| part_recorder.lane(part, worker));
            let (rows, clock) = (Arc::clone(&made), part_recorder.clone());
            Ok::<_, AudioSettingsError>(move |number: u64| {
                if number.is_multiple_of(UNEVEN) {
                    std::thread::sleep(hindrance.uneven);
                }
                let (row, efforts) = rows.make(number, &mut maker);
                tell_parts(&lanes, number, clock.now(), &efforts);
                Ok::<_, Infallible>(row)
            })
        });
        let keep = Work::new(move |mut row: Row| {
            shelf.keep(&row.new);
            row.new = Vec::new();
            row.new_bytes = 0;
            Ok::<_, Infallible>(row)
        });
        let collate = Work::new(move |group| {
            compute_for(hindrance.collate);
            Ok::<_, Infallible>(collated.collate(group))
        });
        let running = Road::source(self.road_plan(), "rows", numbers)
            .named(move |number| named.name(number))
            .resume_at(from)
            .stage(
                "featurize",
                featurize
                    .reserving(move |number| reserved.most_for_a_row(*number))
                    .keeping(Row::bytes),
            )
            .stage("keep", keep.keeping(Row::bytes))
            .batch(
                "batch",
                Groups::beginning_at(move |batch| first_rows.epochs.first_row(batch)),
            )
            .stage(
                "collate",
                collate.keeping(move |batch| batch_bytes.held_by(batch)),
            )
            .stage("prepare", prepare)
            .start(recorder)?;
        Ok(running)
    }

    /// The stages as plain data.
    pub(crate) fn road_plan(&self) -> Plan {
        let settings = &self.settings;
        let buckets = self.rows.plan.buckets();
        let shapes = buckets.iter().map(|bucket| bucket.shape);
        let most_rows = shapes.clone().map(|shape| shape.rows).max().unwrap_or(1) as usize;
        let largest = shapes.map(|shape| self.rows.form(Position::default(), shape).bytes());
        let stage = |name: &str| StagePlan::new(name).in_budget(MEMORY);
        let mut plan = Plan::new("batches", "train")
            .stage(StagePlan::new("rows").buffer(Setting::from(most_rows)))
            .stage(
                stage("featurize")
                    .workers(Setting {
                        value: settings.workers,
                        fixed: !settings.adapt,
                    })
                    .buffer(Setting::from(most_rows))
                    .on_error(0, AfterError::Skip),
            )
            .stage(stage("keep").buffer(Setting::from(most_rows)))
            .stage(stage("batch"))
            .stage(stage("collate").buffer(Setting {
                value: settings.buffer_size.max(1),
                fixed: !settings.adapt,
            }))
            .stage(stage("prepare"))
            .budget(MEMORY, settings.ram_budget);
        plan.slots = Some(SlotsPlan {
            // Fewer than the consumer holds, and it would wait for itself.
            ahead: Setting::fixed(settings.slots.max(settings.held_at_once).max(1)),
            bytes_each: largest.max().unwrap_or(0),
            budget: None,
        });
        plan.order = settings.order;
        plan.overlap = settings.overlap;
        plan.start_delay_seconds = settings.start_delay.as_secs_f64();
        plan.adapt = settings.adapt.then(|| AdaptPlan {
            most_workers: settings.workers + SINGLE_WORKERS,
            most_buffered: 4 * settings.buffer_size.max(most_rows),
        });
        plan
    }
}

/// The parts of `featurize`, as the log has them. Only files that are decoded have any: what comes from
/// the cache is one part, the stage itself.
const PARTS: [&str; 4] = [
    "featurize.read",
    "featurize.decode",
    "featurize.resample",
    "featurize.mel",
];

/// Of so many rows one is held up by [`Hindrance::uneven`].
const UNEVEN: u64 = 160;

/// The parts of one row, one after another up to `end`.
fn tell_parts(lanes: &[Lane; 4], number: u64, end: Nanos, efforts: &[Effort]) {
    let mut sums = [Duration::ZERO; 4];
    for effort in efforts {
        for (sum, (_, took)) in sums.iter_mut().zip(effort.parts()) {
            *sum += took;
        }
    }
    let whole: Duration = sums.iter().sum();
    let mut start = end.since(whole.into());
    for (lane, took) in lanes.iter().zip(sums) {
        if !took.is_zero() {
            lane.item(number, start, took.into());
            start = start + took.into();
        }
    }
}

/// A worker's tools, and what it has made and spent on one row.
struct Making<'a> {
    maker: &'a mut Maker,
    new: Vec<NewAudio>,
    efforts: Vec<Effort>,
}

/// What the stages share.
#[derive(Debug)]
struct Rows {
    shelf: Arc<Shelf>,
    plan: Arc<BatchPlan>,
    epochs: Epochs,
    /// The shelf's number of each clip of the plan.
    numbers: Vec<usize>,
    /// Of the samples in the batches; `None`: log-mel frames are in them.
    framing: Option<Framing>,
}

/// A row between `featurize` and `collate`.
#[derive(Debug)]
struct Row {
    number: u64,
    /// `None`: nothing can be had of the clip.
    features: Option<RowFeatures>,
    new: Vec<NewAudio>,
    /// Of the row and of its part of the batch that it goes into.
    bytes: u64,
    /// Of what is new, as far as it was reserved: a clip that the cache seemed to have, in a shard that
    /// proves damaged, comes unforeseen and must not be lost for that.
    new_bytes: u64,
}

#[derive(Debug)]
struct RowFeatures {
    tokens: Vec<u16>,
    language: Language,
    /// Both as they lie in a batch.
    sound: Vec<f32>,
    reference: Vec<f32>,
}

impl Row {
    fn bytes(&self) -> u64 {
        self.bytes + self.new_bytes
    }
}

impl Rows {
    fn clip(&self, plan_clip: usize) -> &Clip {
        &self.shelf.clips()[self.numbers[plan_clip]]
    }

    fn form(&self, position: Position, shape: Shape) -> BatchForm {
        BatchForm {
            position,
            shape,
            mel_channels: self.shelf.recipe().audio.n_mels as u16,
            reference_frames: self.plan.settings().reference_frames.get(),
            framing: self.framing,
        }
    }

    /// What a row is called where it is slow or fails: its clip, with what makes one slow.
    fn name(&self, number: u64) -> String {
        let clip = self.clip(self.epochs.row(number).row.clip);
        let kilohertz = f64::from(clip.header.sample_rate) / 1e3;
        format!(
            "{} ({:.1} s, {kilohertz} kHz)",
            clip.id,
            clip.header.seconds()
        )
    }

    fn make(&self, number: u64, maker: &mut Maker) -> (Row, Vec<Effort>) {
        let placed = self.epochs.row(number);
        // Not more than was reserved, for clips come into the cache and never leave it.
        let reserved =
            self.making_bytes(placed.row.clip) + self.making_bytes(placed.row.reference.clip);
        let mut making = Making {
            maker,
            new: Vec::new(),
            efforts: Vec::new(),
        };
        let features = self.features(&placed, &mut making).ok();
        let Making { new, efforts, .. } = making;
        let new_bytes: u64 = new.iter().map(|new| mel_bytes(&new.audio)).sum();
        let row = Row {
            number,
            features,
            new,
            new_bytes: new_bytes.min(reserved),
            bytes: self.row_bytes(placed.shape) + self.share(&placed),
        };
        (row, efforts)
    }

    fn features(&self, placed: &PlacedRow, making: &mut Making<'_>) -> Result<RowFeatures, IsBad> {
        let (row, shape) = (placed.row, placed.shape);
        let layout = self.form(placed.position, shape).layout();
        let number = self.numbers[row.clip];
        // A file that changed since its header was read may be longer.
        let fitting = |there: usize| 0..there.min(shape.frames as usize);
        let sound = self.stretch(number, layout, fitting, making)?;
        let (language, mut tokens) = self.shelf.tokens(number)?;
        tokens.truncate(shape.tokens as usize);
        let other = self.numbers[row.reference.clip];
        let of_itself = || crop(&sound, layout, row.reference).to_vec();
        let reference = if other == number {
            of_itself()
        } else {
            let named = |there| named_frames(row.reference, there);
            self.stretch(other, layout, named, making)
                // The voice is the same: what a speaker's only clip does, this one can do.
                .unwrap_or_else(|IsBad| of_itself())
        };
        Ok(RowFeatures {
            tokens,
            language,
            sound,
            reference,
        })
    }

    /// Some of a clip's frames, as they lie in a batch; `which` of as many as there are.
    fn stretch(
        &self,
        number: usize,
        layout: Framing,
        which: impl FnOnce(usize) -> Range<usize>,
        making: &mut Making<'_>,
    ) -> Result<Vec<f32>, IsBad> {
        if self.framing.is_some() {
            let laid_out = self.shelf.with_waveform(number, making.maker, |samples| {
                layout.lay_out(samples, which(layout.frames_of_clip(samples.len())))
            })?;
            making.efforts.push(making.maker.effort());
            return Ok(laid_out);
        }
        let (frames, made) = self.shelf.with_mel(number, making.maker, |mel| {
            let frames = which(layout.frames_in(mel.len()));
            layout.under(mel, frames).to_vec()
        })?;
        if let Some(made) = made {
            making.efforts.push(made.audio.effort);
            making.new.push(made);
        }
        Ok(frames)
    }

    fn collate(&self, group: Group<Row>) -> Batch {
        let numbers = group.members.iter().map(|member| match member {
            Ok(row) => row.number,
            Err(hole) => hole.number,
        });
        let placed: Vec<PlacedRow> = numbers.map(|number| self.epochs.row(number)).collect();
        let first = placed.first().expect("a group has members");
        let form = self.form(first.position, first.shape);
        let rows = group.members.iter().zip(&placed).map(|(member, placed)| {
            let plan_clip = placed.row.clip;
            match member {
                Ok(row) => row.features.as_ref().map(|features| BatchRow {
                    clip: plan_clip,
                    tokens: &features.tokens,
                    sound: &features.sound,
                    language: features.language,
                    speaker: self.clip(plan_clip).speaker,
                    reference: &features.reference,
                }),
                Err(hole) => {
                    let why = lost(self.clip(plan_clip), &hole.fault);
                    self.shelf.add_bad(self.numbers[plan_clip], why);
                    None
                }
            }
        });
        collate(form, rows)
    }

    /// What a row takes until it is part of a batch.
    fn row_bytes(&self, shape: Shape) -> u64 {
        self.form(Position::default(), shape).sound_bytes_of_a_row()
            + u64::from(shape.tokens) * size_of::<u16>() as u64
            + ROW_BYTES
    }

    /// A row's part of the bytes of its batch.
    fn share(&self, placed: &PlacedRow) -> u64 {
        let batch = self.form(placed.position, placed.shape).bytes();
        batch.div_ceil(u64::from(placed.planned_rows.max(1)))
    }

    /// What the rows of a batch have reserved for it. One that failed in its stage gave its part back,
    /// so a batch with masked rows may hold less than it takes.
    fn held_by(&self, batch: &Batch) -> u64 {
        let position = self.epochs.batches_before(batch.position);
        let placed = self.epochs.row(self.epochs.first_row(position));
        let held = self.share(&placed) * batch.clip_count() as u64;
        held.min(batch.bytes())
    }

    /// What decoding and transforming a clip takes, unless the cache has it. It never has samples.
    fn making_bytes(&self, plan_clip: usize) -> u64 {
        if self.framing.is_some() {
            return decoding_bytes(self.clip(plan_clip), &self.shelf.recipe().audio);
        }
        if self.shelf.is_in_cache(self.numbers[plan_clip]) {
            return 0;
        }
        largest_bytes(self.clip(plan_clip), &self.shelf.recipe().audio)
    }

    fn most_for_a_row(&self, number: u64) -> u64 {
        let placed = self.epochs.row(number);
        let row = placed.row;
        self.row_bytes(placed.shape)
            + self.share(&placed)
            + self.making_bytes(row.clip)
            + self.making_bytes(row.reference.clip)
    }

    /// What the largest batch takes while its last row is made. Less would not do.
    fn most_for_a_batch(&self) -> u64 {
        let batch = |shape: Shape| {
            let rows = u64::from(shape.rows);
            // Each share is rounded up.
            rows * (self.row_bytes(shape) + 1) + self.form(Position::default(), shape).bytes()
        };
        let buckets = self.plan.buckets().iter();
        let largest = buckets.map(|bucket| batch(bucket.shape)).max().unwrap_or(0);
        let clips = 0..self.numbers.len();
        let making = clips.map(|clip| self.making_bytes(clip)).max().unwrap_or(0);
        largest + 2 * making
    }
}
