//! Batches from memory, over and over, and an observer that keeps what the loop reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[derive(Debug)]
pub(crate) struct TestFeed {
    batches: Vec<Batch>,
    /// The number of the next batch, counted over all epochs.
    next: u64,
    done: Arc<AtomicU64>,
    /// Batches that were not released yet, and the most at a time.
    alive: Arc<AtomicU64>,
    most_alive: u64,
    /// The feed ends before this batch.
    end: Option<u64>,
    pub(crate) held_out: Vec<Batch>,
    /// What to do to the held-out clips as time goes by.
    pub(crate) spoil: Option<fn(&mut Batch, u64)>,
    stop_after: Option<u64>,
    /// Asks the loop to stop with this held-out batch of any pass, counted from 1.
    pub(crate) stop_validating: Option<u64>,
    /// Held-out batches that were given.
    pub(crate) validated: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    /// Where batches are prepared, and where they are trained on.
    devices: [Device; 2],
}

impl TestFeed {
    /// Clip n of batch b has the number 100 b + n.
    pub(crate) fn new(mut batches: Vec<Batch>) -> Self {
        for (at, batch) in batches.iter_mut().enumerate() {
            for (row, clip) in batch.clips.iter_mut().enumerate() {
                *clip = clip.map(|_| 100 * at + row);
            }
        }
        Self {
            batches,
            next: 0,
            done: Arc::default(),
            alive: Arc::default(),
            most_alive: 0,
            end: None,
            held_out: Vec::new(),
            spoil: None,
            stop_after: None,
            stop_validating: None,
            validated: Arc::default(),
            stop: Arc::default(),
            devices: [device(), device()],
        }
    }

    /// Batches come to other devices than the CPU.
    pub(crate) fn on(mut self, data: &Device, model: &Device) -> Self {
        self.devices = [data.clone(), model.clone()];
        self
    }

    /// As a resumed run begins it: with what the checkpoint stored.
    pub(crate) fn from(mut self, position: &Value) -> Self {
        self.next = position.as_u64().unwrap();
        self.done = Arc::new(self.next.into());
        self
    }

    pub(crate) fn ending(mut self, end: u64) -> Self {
        self.end = Some(end);
        self
    }

    pub(crate) fn held_out(mut self, batches: Vec<Batch>) -> Self {
        self.held_out = batches;
        self
    }

    /// Asks the loop to stop while it trains on this batch, counted from 1.
    pub(crate) fn interrupting(mut self, batch: u64) -> Self {
        self.stop_after = Some(batch);
        self
    }

    /// Batches that were taken from it.
    pub(crate) fn given(&self) -> u64 {
        self.next
    }

    /// The most batches that were held at a time.
    pub(crate) fn most_alive(&self) -> u64 {
        self.most_alive
    }

    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }
}

impl Feed for TestFeed {
    fn next(&mut self) -> Option<Result<Fed, FeedError>> {
        if self.end.is_some_and(|end| self.next >= end) {
            return None;
        }
        let many = self.batches.len() as u64;
        let mut batch = self.batches[(self.next % many) as usize].clone();
        batch.position = Position {
            epoch: self.next / many,
            batch: self.next % many,
        };
        self.next += 1;
        if self.stop_after == Some(self.next) {
            self.stop.store(true, Ordering::Relaxed);
        }
        let (done, alive) = (self.done.clone(), self.alive.clone());
        let held = alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_alive = self.most_alive.max(held);
        Some(Ok(Fed {
            ready: prepared_on(batch, &self.devices),
            trained: Box::new(move || {
                alive.fetch_sub(1, Ordering::Relaxed);
                Box::new(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                })
            }),
        }))
    }

    fn after(&self, position: Position) -> Position {
        let next = position.epoch * self.batches.len() as u64 + position.batch + 1;
        Position {
            epoch: next / self.batches.len() as u64,
            batch: next % self.batches.len() as u64,
        }
    }

    fn position(&self) -> Value {
        json!(self.done.load(Ordering::Relaxed))
    }

    fn validation(
        &mut self,
    ) -> Result<Box<dyn Iterator<Item = Result<ReadyBatch, FeedError>> + '_>, FeedError> {
        let (spoil, now, devices) = (self.spoil, self.next, &self.devices);
        let (stop, stop_validating) = (self.stop.clone(), self.stop_validating);
        let validated = self.validated.clone();
        Ok(Box::new(self.held_out.iter().map(move |batch| {
            let mut batch = batch.clone();
            if Some(validated.fetch_add(1, Ordering::Relaxed) + 1) == stop_validating {
                stop.store(true, Ordering::Relaxed);
            }
            if let Some(spoil) = spoil {
                spoil(&mut batch, now);
            }
            Ok(prepared_on(batch, devices))
        })))
    }

    fn quarantine(&self) -> Vec<String> {
        vec!["a-broken-clip".to_owned()]
    }
}

/// On the CPU, with the statistics of the small voice.
pub(crate) fn prepared(batch: Batch) -> ReadyBatch {
    prepared_on(batch, &[device(), device()])
}

pub(crate) fn prepared_on(batch: Batch, [data, model]: &[Device; 2]) -> ReadyBatch {
    preparation(data, model).preparer().prepare(batch)
}

/// All that the loop reported.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) steps: Vec<StepReport>,
    pub(crate) validations: Vec<Validation>,
    pub(crate) saved: Vec<Saved>,
    pub(crate) sampled: Vec<u64>,
    pub(crate) not_pruned: u64,
}

impl Observer for Recorded {
    fn steps(&mut self, steps: &[StepReport], _: &Progress) -> Result<(), FeedError> {
        self.steps.extend_from_slice(steps);
        Ok(())
    }

    fn validated(&mut self, validation: &Validation, _: &Progress) -> Result<(), FeedError> {
        self.validations.push(validation.clone());
        Ok(())
    }

    fn saved(&mut self, saved: &Saved) -> Result<(), FeedError> {
        self.saved.push(saved.clone());
        Ok(())
    }

    fn not_pruned(&mut self, _: &CheckpointError) {
        self.not_pruned += 1;
    }

    fn sample(&mut self, step: u64, voice: &TrainedVoice) -> Result<(), FeedError> {
        assert!(voice.style_named("one").is_some());
        self.sampled.push(step);
        Ok(())
    }
}
