//! Batches for each phase of a profile.
//!
//! The run itself takes them from the pipeline, as `train` does. Before it comes one batch of every shape, so that
//! kernels are compiled and tuned. Between its blocks come batches that are on the device already, with the workers at
//! rest (the floor) or at work (interference): a thread then takes a batch off the pipeline for each that is trained on,
//! and discards it. With the workers at rest come batches without overlap, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use voxmill_data::batch::Batch;
use voxmill_data::batch_plan::{BatchPlan, Position};
use voxmill_pipeline::control::Control;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::prepare::ReadyBatch;
use voxmill_trainer::train::{Fed, Feed, FeedError};

use crate::session::feed::{after, in_memory, next_of};
use voxmill_analysis::phases::{BatchSource, Phases};
use voxmill_data::Loader;

/// Batches that are kept on the device for the floor, where its memory allows: those of a block of the run.
pub(super) const KEPT: usize = 24;

pub(super) struct ProfileFeed<'a> {
    batches: &'a Loader,
    phases: Phases,
    /// Batches to a step.
    accumulate: u64,
    recorder: Recorder,
    /// The same batches, one thing after another.
    one_by_one: &'a Loader,
    /// The last stage of both.
    prepare: Work<Batch, ReadyBatch>,
    /// Numbers of batches that have all shapes, the next one last.
    shapes: Vec<u64>,
    without_overlap: Option<Running<ReadyBatch>>,
    pipeline: Option<Running<ReadyBatch>>,
    drain: Option<Drain>,
    rest: Option<Rest>,
    given: u64,
    /// Batches of the floor and of interference, which begin with the same ones of those kept.
    given_ready: [usize; 2],
    source: Option<BatchSource>,
    announced: &'static str,
    /// For the floor: what the run had in its last block. Other batches of the same shapes would take another time.
    kept: Vec<ReadyBatch>,
    /// The run's last step was measured: its batch is among those kept.
    keeps_measured: bool,
    /// As many as the device has room for.
    keep: usize,
    late: Option<String>,
    /// An injected delay: the model takes so much longer, asleep.
    asleep: Option<Duration>,
}

impl<'a> ProfileFeed<'a> {
    /// `keep`: how many batches the device has room for, besides those of the run.
    pub(super) fn new(
        [batches, one_by_one]: [&'a Loader; 2],
        prepare: Work<Batch, ReadyBatch>,
        phases: Phases,
        (accumulate, keep): (u64, usize),
        recorder: Recorder,
        asleep: Option<Duration>,
    ) -> ProfileFeed<'a> {
        let mut shapes = of_each_shape(batches.plan());
        shapes.reverse();
        ProfileFeed {
            batches,
            phases,
            accumulate,
            recorder,
            one_by_one,
            prepare,
            shapes,
            without_overlap: None,
            pipeline: None,
            drain: None,
            rest: None,
            given: 0,
            given_ready: [0; 2],
            source: None,
            announced: "",
            kept: Vec::new(),
            keeps_measured: false,
            keep,
            late: None,
            asleep,
        }
    }

    /// What happens next to the steps is counted by the phase that was begun last. The sums are closed
    /// first; that takes a moment, so it is done one step early.
    fn announce_phase(&mut self, step: u64) {
        let Some(phase) = self.phases.to_announce(step) else {
            return;
        };
        if phase != self.announced {
            self.announced = phase;
            // A log that cannot be written is reported at the end.
            let _ = self.recorder.flush();
            self.recorder.record(Event::PhaseBegan {
                phase: phase.to_owned(),
            });
        }
    }

    /// Once at the beginning of each source.
    fn change_source(&mut self, source: BatchSource) -> Result<(), FeedError> {
        if let Some(drain) = self.drain.take() {
            let pipeline = drain.stop();
            self.pipeline = Some(pipeline.ok_or("the thread that discards batches panicked")?);
        }
        let workers_rest = matches!(source, BatchSource::Floor | BatchSource::OneByOne);
        match (&mut self.pipeline, workers_rest) {
            (Some(pipeline), true) if self.rest.is_none() => {
                self.rest = Some(Rest::begin(pipeline.control()));
            }
            (Some(pipeline), false) => {
                if let Some(rest) = self.rest.take() {
                    rest.end(pipeline);
                }
            }
            _ => {}
        }
        match source {
            BatchSource::OneByOne if self.without_overlap.is_none() => {
                // Its stages would be taken for those of the run.
                let off = Recorder::off();
                let begin = ResumePoint::default();
                let prepare = self.prepare.clone();
                let running = self.one_by_one.start_with(begin, None, prepare, off)?;
                self.without_overlap = Some(running);
            }
            BatchSource::Run if self.pipeline.is_none() => {
                // Behind the batches without overlap: clips that these have read must not be found in memory.
                let before = self.phases.steps_from(BatchSource::OneByOne) * self.accumulate;
                let from = ResumePoint::at(before);
                let (prepare, recorder) = (self.prepare.clone(), self.recorder.clone());
                self.pipeline = Some(self.batches.start_with(from, None, prepare, recorder)?);
            }
            BatchSource::Interference => self.drain = self.pipeline.take().map(Drain::start),
            BatchSource::Shapes | BatchSource::OneByOne | BatchSource::Run | BatchSource::Floor => {
            }
        }
        self.source = Some(source);
        Ok(())
    }

    fn take(&mut self) -> Option<Result<Fed, FeedError>> {
        let step = self.given / self.accumulate + 1;
        self.given += 1;
        self.announce_phase(step);
        let source = self.phases.source(step);
        if self.source != Some(source)
            && let Err(error) = self.change_source(source)
        {
            return Some(Err(error));
        }
        self.late = None;
        let pipeline = match source {
            BatchSource::OneByOne => self.without_overlap.as_mut(),
            BatchSource::Run => self.pipeline.as_mut(),
            BatchSource::Shapes => match self.shapes.pop() {
                Some(number) => return self.of_new_shape(number),
                None => None,
            },
            BatchSource::Interference | BatchSource::Floor => None,
        };
        let Some(pipeline) = pipeline else {
            if let (BatchSource::Interference, Some(drain)) = (source, &self.drain) {
                drain.one_more();
            }
            return self.of_kept(source, step);
        };
        let (fed, late) = next_of(pipeline)?;
        self.late = late;
        // Those of steps that are not measured make room for those that are.
        if let (Ok(fed), BatchSource::Run) = (&fed, source) {
            let is_measured = self.phases.of(step).is_none();
            if is_measured && !self.keeps_measured {
                self.kept.clear();
                self.given_ready = [0; 2];
            }
            self.keeps_measured = is_measured;
            if self.kept.len() < self.keep {
                self.kept.push(fed.ready.clone());
            }
        }
        Some(fed)
    }

    /// To settle, the last one: measured are the others from the first on, and the next block goes on behind them.
    fn of_kept(&mut self, source: BatchSource, step: u64) -> Option<Result<Fed, FeedError>> {
        let is_measured = self.phases.of(step) == Some(source.phase());
        let given = &mut self.given_ready[usize::from(source == BatchSource::Floor)];
        let number = match is_measured {
            true => *given % self.kept.len().max(1),
            false => self.kept.len().checked_sub(1)?,
        };
        *given += usize::from(is_measured);
        Some(Ok(in_memory(self.kept.get(number)?.clone())))
    }

    /// The batch of this number, whatever lies before it.
    fn of_new_shape(&mut self, number: u64) -> Option<Result<Fed, FeedError>> {
        let (from, prepare) = (ResumePoint::at(number), self.prepare.clone());
        let running = self
            .one_by_one
            .start_with(from, None, prepare, Recorder::off());
        let mut running = match running {
            Ok(running) => running,
            Err(error) => return Some(Err(error.into())),
        };
        let (fed, _) = next_of(&mut running)?;
        Some(fed.map(|fed| in_memory(fed.ready)))
    }
}

/// The first batch of each shape, by number.
fn of_each_shape(plan: &BatchPlan) -> Vec<u64> {
    let epoch = plan.epoch(0);
    let shapes = 0..epoch.shapes.len();
    let first = |shape| {
        let mut batches = epoch.batches.iter();
        batches.position(|batch| batch.shape == shape)
    };
    shapes.filter_map(first).map(|n| n as u64).collect()
}

impl Feed for ProfileFeed<'_> {
    fn next(&mut self) -> Option<Result<Fed, FeedError>> {
        let asleep = self.asleep;
        let fed = self.take()?;
        Some(fed.map(|Fed { ready, trained }| Fed {
            ready,
            trained: match asleep {
                None => trained,
                // Within the step: its batch is released afterwards.
                Some(asleep) => Box::new(move || {
                    std::thread::sleep(asleep);
                    trained()
                }),
            },
        }))
    }

    fn after(&self, position: Position) -> Position {
        after(self.batches, position)
    }

    fn position(&self) -> Value {
        Value::Null
    }

    fn late(&self) -> Option<String> {
        self.late.clone()
    }
}

/// Takes batches off the pipeline and discards them, one for each call.
struct Drain {
    control: Control,
    asks: Option<Sender<()>>,
    /// What was asked for and did not come yet is not waited for.
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<Running<ReadyBatch>>>,
}

impl Drain {
    fn start(mut pipeline: Running<ReadyBatch>) -> Drain {
        let (asks, asked): (Sender<()>, Receiver<()>) = channel();
        let control = pipeline.control();
        let stops = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stops);
        let thread = std::thread::spawn(move || {
            for () in asked {
                // The model's own batches are there: an error harms nothing that is measured now.
                if is_over.load(Ordering::Relaxed) || !discard(&mut pipeline) {
                    break;
                }
            }
            pipeline
        });
        Drain {
            control,
            asks: Some(asks),
            stops,
            thread: Some(thread),
        }
    }

    fn one_more(&self) {
        if let Some(asks) = &self.asks {
            let _ = asks.send(());
        }
    }

    /// The pipeline as it is; `None` where the thread panicked.
    fn stop(mut self) -> Option<Running<ReadyBatch>> {
        self.stops.store(true, Ordering::Relaxed);
        self.asks = None;
        self.thread.take()?.join().ok()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.control.cancel();
        self.asks = None;
        let _ = thread.join();
    }
}

/// Takes a batch and lets it go; false at the end.
fn discard(pipeline: &mut Running<ReadyBatch>) -> bool {
    match pipeline.next() {
        Some(Ok(Delivery::Item(batch))) => {
            batch.done();
            true
        }
        Some(Ok(Delivery::Gap(_))) => true,
        Some(Err(_)) | None => false,
    }
}

/// Workers that rest, with as much ahead as there was: the run must not find more batches ready afterwards than it had
/// before. Buffers get no more room than is filled; only slots fill up, and what came into them is discarded.
struct Rest {
    control: Control,
    capacities: Vec<(String, usize)>,
    ready: usize,
}

impl Rest {
    fn begin(control: Control) -> Rest {
        let stages = control.snapshot().stages;
        let buffered = stages.iter().filter(|stage| stage.capacity > 0);
        let mut capacities = Vec::new();
        for stage in buffered {
            let filled = stage.buffered.max(1);
            // Slots have no capacity to change, nor has what runs without threads.
            if control.set_capacity(&stage.name, filled).is_ok() {
                capacities.push((stage.name.clone(), stage.capacity));
            }
        }
        let rest = Rest {
            ready: ready(&control),
            capacities,
            control,
        };
        until_idle(&rest.control);
        rest
    }

    fn end(self, pipeline: &mut Running<ReadyBatch>) {
        let more = ready(&self.control).saturating_sub(self.ready);
        for _ in 0..more {
            if !discard(pipeline) {
                break;
            }
        }
        for (stage, capacity) in &self.capacities {
            // It was changed before, so it can be.
            let _ = self.control.set_capacity(stage, *capacity);
        }
    }
}

/// Batches that wait for the model.
fn ready(control: &Control) -> usize {
    let stages = control.snapshot().stages;
    // The last one is the model itself.
    let last = stages.len().checked_sub(2);
    last.map_or(0, |last| stages[last].buffered)
}

/// Workers are idle when none of them has worked for a moment. It is short: while the model waits, other programs take its
/// cores and caches, and the floor would pay for that.
fn until_idle(control: &Control) {
    const LONGEST: Duration = Duration::from_secs(30);
    const INTERVAL: Duration = Duration::from_millis(5);
    const STILL: u32 = 2;
    let done = || {
        let mut stages = control.snapshot().stages;
        // The last one is the model itself.
        stages.pop();
        let done = stages
            .iter()
            .map(|stage| (stage.items, stage.buffered, stage.working));
        done.collect::<Vec<_>>()
    };
    let begin = Instant::now();
    let (mut last, mut still) = (done(), 0);
    while still < STILL && begin.elapsed() < LONGEST {
        std::thread::sleep(INTERVAL);
        let now = done();
        still = if now == last { still + 1 } else { 0 };
        last = now;
    }
}
