//! The pipeline's batches as the trainer takes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use voxmill_data::batch_plan::Position;
use voxmill_pipeline::control::Control;
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::prepare::ReadyBatch;
use voxmill_trainer::train::{Done, Fed, Feed, FeedError};

use super::devices::PrepareRecipe;
use voxmill_data::Loader;

/// A wait shorter than this is none.
const NO_WAIT: Duration = Duration::from_micros(200);

/// The batches of held-out clips, and how they come to the model.
#[derive(Debug)]
pub(crate) struct HeldOut<'a> {
    pub(crate) loader: &'a Loader,
    pub(crate) recipe: PrepareRecipe,
}

/// The batches of a running pipeline, and the held-out ones.
#[derive(Debug)]
pub(crate) struct PipelineFeed<'a> {
    loader: &'a Loader,
    /// `None` once all batches were taken into memory.
    running: Option<Running<ReadyBatch>>,
    /// Batches taken into memory, last first.
    replayed: Vec<ReadyBatch>,
    validation: Option<HeldOut<'a>>,
    quarantine: Vec<String>,
    late: Option<String>,
    /// Batches that the trainer took.
    taken: Arc<AtomicU64>,
}

impl<'a> PipelineFeed<'a> {
    /// `quarantine`: clips that were bad when the run began, by id.
    pub(crate) fn new(
        loader: &'a Loader,
        running: Running<ReadyBatch>,
        validation: Option<HeldOut<'a>>,
        quarantine: Vec<String>,
    ) -> PipelineFeed<'a> {
        PipelineFeed {
            loader,
            running: Some(running),
            replayed: Vec::new(),
            validation,
            quarantine,
            late: None,
            taken: Arc::default(),
        }
    }

    /// Counts the batches that the trainer takes, for who shows how far it is between two reports.
    pub(crate) fn counting(self, taken: Arc<AtomicU64>) -> PipelineFeed<'a> {
        PipelineFeed { taken, ..self }
    }

    /// Takes `count` batches into memory and ends the pipeline: what is then measured is the model alone.
    pub(crate) fn take_all(&mut self, count: u64) -> Result<(), FeedError> {
        for _ in 0..count {
            match self.next() {
                Some(fed) => self.replayed.push(fed?.ready),
                None => break,
            }
        }
        self.replayed.reverse();
        self.running = None;
        self.taken.store(0, Ordering::Relaxed);
        Ok(())
    }
}

impl Feed for PipelineFeed<'_> {
    fn next(&mut self) -> Option<Result<Fed, FeedError>> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(running) = &mut self.running else {
            return self.replayed.pop().map(|ready| Ok(in_memory(ready)));
        };
        let (fed, late) = next_of(running)?;
        self.late = late;
        Some(fed)
    }

    fn after(&self, position: Position) -> Position {
        after(self.loader, position)
    }

    fn position(&self) -> Value {
        let position = self.running.as_ref().map(Running::resume_point);
        serde_json::to_value(position).unwrap_or(Value::Null)
    }

    fn late(&self) -> Option<String> {
        self.late.clone()
    }

    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<ReadyBatch, FeedError>> + '_>, FeedError> {
        let Some(validation) = &self.validation else {
            return Ok(Box::new(std::iter::empty()));
        };
        let running = validation.loader.one_pass(Recorder::off())?;
        // On the model's thread: its tensors are the only ones at work there, and it ends with the pass.
        let mut preparing = validation.recipe.alongside();
        Ok(Box::new(running.filter_map(
            move |delivery| match delivery {
                Ok(Delivery::Item(batch)) => {
                    let (batch, receipt) = batch.into_parts();
                    let ready = preparing.prepare(batch);
                    receipt.done();
                    Some(ready.map_err(Into::into))
                }
                Ok(Delivery::Gap(_)) => None,
                Err(failure) => Some(Err(failure.into())),
            },
        )))
    }

    fn quarantine(&self) -> Vec<String> {
        self.quarantine.clone()
    }
}

/// A batch that no pipeline waits for.
pub(crate) fn in_memory(ready: ReadyBatch) -> Fed {
    Fed {
        ready,
        trained: Box::new(|| Box::new(|| {})),
    }
}

/// The next batch, and the stage that was late if it had to be waited for.
pub(crate) fn next_of(
    running: &mut Running<ReadyBatch>,
) -> Option<(Result<Fed, FeedError>, Option<String>)> {
    // Asked before: once the batch is there, its stages have moved on.
    let late = late_stage(&running.control());
    let asked = Instant::now();
    let next = loop {
        match running.next()? {
            Ok(Delivery::Item(batch)) => break Ok(batch),
            // A batch is made of what there is; only a panic in collating leaves a gap.
            Ok(Delivery::Gap(_)) => {}
            Err(failure) => break Err(failure.into()),
        }
    };
    let late = late.filter(|_| asked.elapsed() > NO_WAIT);
    let fed = next.map(|delivered| {
        let (ready, mut receipt) = delivered.into_parts();
        let trained = Box::new(move || -> Done {
            receipt.release();
            Box::new(move || receipt.done())
        });
        Fed { ready, trained }
    });
    Some((fed, late))
}

/// The position after a batch.
pub(crate) fn after(loader: &Loader, position: Position) -> Position {
    loader.position(loader.batches_before(position) + 1)
}

/// The stage that the model had to wait for: from the last stage upwards, the first that has
/// something to work on.
fn late_stage(control: &Control) -> Option<String> {
    let mut stages = control.snapshot().stages;
    // The last one is the model itself.
    stages.pop();
    let mut late = stages.first()?.name.clone();
    for pair in stages.windows(2).rev() {
        if pair[0].buffered > 0 {
            late = pair[1].name.clone();
            break;
        }
    }
    Some(late)
}
