//! Batches for a plain loop: an iterator that knows where to resume.

use voxmill_pipeline::item::RunFailure;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::{Delivery, Receipt, Running};
use voxmill_telemetry::recorder::Recorder;

use super::{Loader, LoaderError};
use crate::batch::Batch;
use crate::batch_plan::Position;

/// A split's batches in plan order, made ahead on worker threads. Dropping it joins them.
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a Loader,
    running: Running<Batch>,
    /// Of the batch that the caller works on.
    handed_out: Option<Receipt>,
}

impl Loader {
    /// Batches from a position on: to the end of `epochs` epochs (counted from the first), or without end.
    pub fn batches(&self, from: Position, epochs: Option<u64>) -> Result<Batches<'_>, LoaderError> {
        let from = ResumePoint::at(self.batches_before(from));
        Ok(Batches {
            loader: self,
            running: self.start(from, epochs, Recorder::off())?,
            handed_out: None,
        })
    }
}

impl Batches<'_> {
    /// What to hand to [`Loader::batches`] to resume. A batch counts as done when the next one is asked for.
    /// In unordered mode it is the first batch that is not done.
    pub fn position(&self) -> Position {
        self.loader.position(self.running.resume_point().next)
    }

    /// The batch handed out last is done, though no further one is wanted now.
    pub fn finish_batch(&mut self) {
        if let Some(receipt) = self.handed_out.take() {
            receipt.done();
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, RunFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.finish_batch();
        loop {
            match self.running.next()? {
                Ok(Delivery::Item(delivered)) => {
                    let (batch, receipt) = delivered.into_parts();
                    self.handed_out = Some(receipt);
                    return Some(Ok(batch));
                }
                // Bad clips are masked rows; only a panic while collating leaves a gap.
                Ok(Delivery::Gap(_)) => {}
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}
