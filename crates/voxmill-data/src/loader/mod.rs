//! The loader: a pipeline from planned rows to batches.

mod batches;
mod epochs;
mod rows;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::batch::Batch;
use crate::batch_plan::{BatchPlan, BatchPlanError, BatchSettings, PlanClip, Position, Rank};
use crate::manifest::{Clip, Split};
use voxmill_audio::{AudioSettingsError, Effort, Framing};
use voxmill_format::size;
use voxmill_pipeline::group::Groups;
use voxmill_pipeline::plan::{AdaptPlan, AfterError, Order, Plan, Setting, SlotsPlan};
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::Running;
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::event::Nanos;
use voxmill_telemetry::recorder::{Lane, Recorder};
use voxmill_telemetry::stage::StageId;

use crate::featurize::{ClipFeaturizer, InjectedDelays};
use crate::store::FeatureStore;
pub use batches::Batches;
use epochs::Epochs;
use rows::{FeaturizedRow, RowSource};

/// The name of the budget, as it stands in messages.
const MEMORY: &str = "batches";

/// Stages of one worker: rows, keep, batch, collate, prepare.
const SINGLE_WORKERS: usize = 5;

/// How the work is spread, and how far ahead of the consumer it may run.
#[derive(Clone, Debug)]
pub struct LoaderSettings {
    /// Threads that compute features.
    pub workers: usize,
    /// Batches that wait on the host.
    pub buffer_size: usize,
    /// Bytes of rows and batches in the pipeline; not of what the store holds.
    pub ram_budget: u64,
    /// [`Order::Kept`] yields batches in plan order, [`Order::Free`] as they become ready.
    pub order: Order,
    /// Whether batches are prepared while the consumer works.
    pub overlap: bool,
    /// Whether the adaptive controller may change workers and buffers.
    pub adapt: bool,
    /// Batches that the last stage may have ready ahead of the consumer.
    pub slots: usize,
    /// The longest that the consumer waits for full slots before its first batch.
    pub start_delay: Duration,
    /// Clips of more frames are in no batch: for clips that are trimmed, whose headers say more than they have.
    pub max_frames: Option<u32>,
    /// For tests that look for the cause of a delay.
    pub delays: Option<InjectedDelays>,
}

impl Default for LoaderSettings {
    /// One core is left to the consumer.
    fn default() -> LoaderSettings {
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
        LoaderSettings {
            workers: cores.saturating_sub(1).max(1),
            buffer_size: 8,
            ram_budget: 1 << 30,
            order: Order::Kept,
            overlap: true,
            adapt: false,
            slots: 2,
            start_delay: Duration::ZERO,
            max_frames: None,
            delays: None,
        }
    }
}

/// Why batches cannot be made, found before the first one.
#[derive(Debug, thiserror::Error)]
pub enum LoaderError {
    #[error(transparent)]
    Plan(#[from] BatchPlanError),
    #[error(
        "one batch takes up to {} while it is prepared, and {} are for batches",
        size(*.needed),
        size(*.budget)
    )]
    TooLittleMemory { needed: u64, budget: u64 },
    #[error("cannot start the workers")]
    Start(#[from] StartError),
}

/// The batches of one split.
#[derive(Clone, Debug)]
pub struct Loader {
    rows: Arc<RowSource>,
    settings: LoaderSettings,
}

impl Loader {
    /// Plans the batches of a split; clips whose text cannot be read aloud are left out.
    pub fn new(
        store: &Arc<FeatureStore>,
        split: Split,
        batch_settings: BatchSettings,
        settings: LoaderSettings,
    ) -> Result<Loader, LoaderError> {
        Loader::planned(store, split, batch_settings, settings, None)
    }

    /// The same batches with samples in place of log-mel frames: for a device that computes frames itself.
    pub fn of_waveforms(
        store: &Arc<FeatureStore>,
        split: Split,
        batch_settings: BatchSettings,
        settings: LoaderSettings,
    ) -> Result<Loader, LoaderError> {
        let framing = Some(store.recipe().audio.framing());
        Loader::planned(store, split, batch_settings, settings, framing)
    }

    fn planned(
        store: &Arc<FeatureStore>,
        split: Split,
        batch_settings: BatchSettings,
        settings: LoaderSettings,
        framing: Option<Framing>,
    ) -> Result<Loader, LoaderError> {
        let clips = store.clips().iter().enumerate();
        let of_split = clips.filter(|(_, clip)| clip.split == split);
        let planned = of_split.filter_map(|(number, clip)| {
            let planned = PlanClip {
                id: clip.id.to_string(),
                frames: store.planned_frames(number),
                tokens: store.token_count(number)?,
                speaker: clip.speaker,
            };
            Some((planned, number))
        });
        let mut members: Vec<(PlanClip, usize)> = planned.collect();
        let all = members.len();
        let most = settings.max_frames.unwrap_or(u32::MAX);
        members.retain(|(clip, _)| clip.frames <= most);
        let too_long = all - members.len();
        // The plan numbers its clips by the order of their ids.
        members.sort_unstable_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let (clips, numbers): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let plan = Arc::new(BatchPlan::new(clips, batch_settings)?);
        let rows = RowSource {
            store: Arc::clone(store),
            epochs: Epochs::new(Arc::clone(&plan)),
            plan,
            numbers: numbers.into(),
            framing,
            too_long,
        };
        let (budget, rows) = (settings.ram_budget, Arc::new(rows));
        let loader = Loader { rows, settings };
        let needed = loader.most_bytes();
        if needed > budget {
            return Err(LoaderError::TooLittleMemory { needed, budget });
        }
        Ok(loader)
    }

    /// Clips that are left out by `max_frames`.
    pub fn too_long(&self) -> usize {
        self.rows.too_long
    }

    /// The batches of one of several ranks: every n-th, dealt from a position on, which must be the same on
    /// all ranks. All ranks get equally many; where the last round has none left, a batch is all masked.
    #[must_use]
    pub fn for_rank(&self, rank: Rank, from: Position) -> Loader {
        let rows = &self.rows;
        let rows = Arc::new(RowSource {
            store: Arc::clone(&rows.store),
            epochs: Epochs::of_rank(Arc::clone(&rows.plan), rank, from),
            plan: Arc::clone(&rows.plan),
            numbers: Arc::clone(&rows.numbers),
            framing: rows.framing,
            too_long: rows.too_long,
        });
        let settings = self.settings.clone();
        Loader { rows, settings }
    }

    /// Batches ready ahead of the one that the consumer holds.
    pub fn slots_ahead(&self) -> usize {
        self.settings.slots.max(1)
    }

    /// With fewer batches ready ahead of the consumer.
    pub fn with_slots(mut self, slots: usize) -> Loader {
        self.settings.slots = slots;
        self
    }

    /// What a batch takes while it is computed.
    pub fn most_bytes(&self) -> u64 {
        self.rows.most_for_a_batch()
    }

    /// Of all clips of the plan, as their headers say.
    pub fn audio_seconds(&self) -> f64 {
        let clips = 0..self.rows.numbers.len();
        clips.map(|clip| self.clip(clip).header.seconds()).sum()
    }

    /// Which clips are in which batch.
    pub fn plan(&self) -> &BatchPlan {
        &self.rows.plan
    }

    #[cfg(test)]
    pub(super) fn epoch(&self, epoch: u64) -> crate::batch_plan::EpochPlan {
        self.rows.epochs.epoch(epoch).plan.clone()
    }

    /// The clip behind a number in [`Batch::clips`], which are those of the plan.
    pub fn clip(&self, plan_clip: usize) -> &Clip {
        self.rows.clip(plan_clip)
    }

    /// A position of the plan as the pipeline counts it: the batches of this rank before it, through all
    /// epochs.
    pub fn batches_before(&self, position: Position) -> u64 {
        self.rows.epochs.batches_before(position)
    }

    /// The opposite of [`Loader::batches_before`].
    pub fn position(&self, batches_done: u64) -> Position {
        self.rows.epochs.position(batches_done)
    }

    /// The split once, in the order of epoch 0: the same batches each time. May run alongside others.
    pub fn one_pass(&self, recorder: Recorder) -> Result<Running<Batch>, LoaderError> {
        self.start(ResumePoint::default(), Some(1), recorder)
    }

    /// As [`Loader::batches`], with the pipeline itself: from a position that it reported, with a run log.
    pub fn start(
        &self,
        from: ResumePoint,
        epochs: Option<u64>,
        recorder: Recorder,
    ) -> Result<Running<Batch>, LoaderError> {
        self.start_with(from, epochs, Work::new(Ok::<_, Infallible>), recorder)
    }

    /// The same with a last stage, `prepare`, that brings batches to a device: its results are in slots.
    pub fn start_with<T: Send + 'static>(
        &self,
        from: ResumePoint,
        epochs: Option<u64>,
        prepare: Work<Batch, T>,
        recorder: Recorder,
    ) -> Result<Running<T>, LoaderError> {
        for part in StageId::PARTS.map(StageId::name) {
            let names = Arc::clone(&self.rows);
            recorder.name_items(part, Arc::new(move |number| names.name(number)));
        }
        let pipeline = self.pipeline(epochs, prepare, recorder.clone());
        Ok(pipeline.resume_at(from).start(recorder)?)
    }

    /// The stages as plain data, before anything is started.
    pub fn pipeline_plan(&self) -> Plan {
        let pass = Work::new(Ok::<Batch, Infallible>);
        self.pipeline(None, pass, Recorder::off()).plan().clone()
    }

    fn pipeline<T: Send + 'static>(
        &self,
        epochs: Option<u64>,
        prepare: Work<Batch, T>,
        part_recorder: Recorder,
    ) -> Pipeline<T> {
        let (rows, settings) = (&self.rows, &self.settings);
        let ends = Arc::clone(rows);
        let numbers = move |first: u64| {
            let is_wanted =
                move |number: &u64| epochs.is_none_or(|end| ends.epochs.epoch_of(*number) < end);
            (first..).take_while(is_wanted).map(Ok::<_, Infallible>)
        };
        let [named, reserved, computed, first_rows, collated, batch_bytes] =
            std::array::from_fn(|_| Arc::clone(rows));
        let store = Arc::clone(&rows.store);
        let delays = settings.delays;
        let worker = AtomicUsize::new(0);
        let featurize = Work::with_state(move || {
            let audio = &computed.store.recipe().audio;
            let mut featurizer = ClipFeaturizer::new(audio)?;
            let worker = worker.fetch_add(1, Ordering::Relaxed);
            let lanes = StageId::PARTS.map(|part| part_recorder.lane(part.name(), worker));
            let (rows, clock) = (Arc::clone(&computed), part_recorder.clone());
            let compute = move |number| rows.compute(number, &mut featurizer);
            let mut compute: ComputeRow = match delays {
                None => Box::new(compute),
                Some(delays) => Box::new(delays.of_parts(compute)),
            };
            Ok::<_, AudioSettingsError>(move |number: u64| {
                let (row, efforts) = compute(number);
                record_parts(&lanes, number, clock.now(), &efforts);
                Ok::<_, Infallible>(row)
            })
        });
        let keep = Work::new(move |mut row: FeaturizedRow| {
            store.keep(&row.new);
            row.new = Vec::new();
            row.new_bytes = 0;
            Ok::<_, Infallible>(row)
        });
        let collate = Work::new(move |group| Ok::<_, Infallible>(collated.collate(group)));
        let buckets = rows.plan.buckets().iter();
        let most_rows = buckets.map(|bucket| bucket.shape.rows).max();
        let most_rows = most_rows.unwrap_or(1) as usize;
        let movable = |value: usize| Setting {
            value,
            fixed: !settings.adapt,
        };
        let (featurize, collate) = match delays {
            None => (featurize, collate),
            Some(delays) => (delays.of_rows(featurize), delays.of_collate(collate)),
        };
        let featurize = featurize
            .reserving(move |number| reserved.most_for_a_row(*number))
            .keeping(FeaturizedRow::bytes);
        let collate = collate.keeping(move |batch| batch_bytes.held_by(batch));
        let groups = Groups::beginning_at(move |batch| first_rows.epochs.first_row(batch));
        Pipeline::source(self.whole_run(most_rows), "rows", numbers)
            .named(move |number| named.name(number))
            .buffer(Setting::from(most_rows))
            .budget(MEMORY, settings.ram_budget)
            .stage(StageId::Featurize.name(), featurize)
            .workers(movable(settings.workers))
            .buffer(Setting::from(most_rows))
            .in_budget(MEMORY)
            .on_error(0, AfterError::Skip)
            .stage(StageId::Keep.name(), keep.keeping(FeaturizedRow::bytes))
            .buffer(Setting::from(most_rows))
            .in_budget(MEMORY)
            .batch(StageId::Batch.name(), groups)
            .in_budget(MEMORY)
            .stage(StageId::Collate.name(), collate)
            .buffer(movable(settings.buffer_size.max(1)))
            .in_budget(MEMORY)
            .stage(StageId::Prepare.name(), prepare)
            .in_budget(MEMORY)
    }

    /// What concerns all stages.
    fn whole_run(&self, most_rows: usize) -> Plan {
        let settings = &self.settings;
        let shapes = self.rows.plan.buckets().iter().map(|bucket| bucket.shape);
        let bytes = shapes.map(|shape| self.rows.form(Position::default(), shape).bytes());
        Plan {
            slots: Some(SlotsPlan {
                ahead: Setting::fixed(self.slots_ahead()),
                bytes_each: bytes.max().unwrap_or(0),
                budget: None,
            }),
            order: settings.order,
            overlap: settings.overlap,
            start_delay_seconds: settings.start_delay.as_secs_f64(),
            adapt: settings.adapt.then(|| AdaptPlan {
                most_workers: settings.workers + SINGLE_WORKERS,
                most_buffered: 4 * settings.buffer_size.max(most_rows),
            }),
            ..Plan::new("batches", "train")
        }
    }
}

/// A worker's function: a row, and what each of its clips that were decoded took.
type ComputeRow = Box<dyn FnMut(u64) -> (FeaturizedRow, Vec<Effort>) + Send>;

/// The parts of one row, one after another up to `end`. Only files that are decoded have any: what comes
/// from the cache is one part, the stage itself.
fn record_parts(lanes: &[Lane; 4], number: u64, end: Nanos, efforts: &[Effort]) {
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
