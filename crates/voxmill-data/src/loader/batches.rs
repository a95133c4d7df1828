//! Batches for a plain loop: an iterator that knows where to resume.

use voxmill_pipeline::item::RunFailure;
use voxmill_pipeline::resume::ResumePoint;
use voxmill_pipeline::run::{Delivery, Receipt, Running};
use voxmill_telemetry::recorder::Recorder;

use super::{Loader, LoaderError};
use crate::batch::Batch;
use crate::batch_plan::Position;

/// A split's batches in plan order, computed ahead on worker threads. Dropping it joins them.
///
/// An error means that the pipeline failed: nothing follows. Bad clips are masked rows, not errors.
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a Loader,
    running: Running<Batch>,
    /// Of the batch that the caller works on.
    handed_out: Option<Receipt>,
}

impl Loader {
    /// Batches from a position on, up to epoch number `epochs`: `Some(3)` ends after epochs 0, 1 and 2 of the
    /// plan, wherever it starts. `None` never ends.
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
    /// What to give to [`Loader::batches`] to resume: the first batch that is not done. A batch is done when
    /// the next one is asked for, or by [`Batches::finish_batch`].
    pub fn position(&self) -> Position {
        self.loader.position(self.running.resume_point().next)
    }

    /// Marks the last batch as done without asking for another: before a checkpoint, or at the end.
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
