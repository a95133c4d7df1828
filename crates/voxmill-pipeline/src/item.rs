//! What moves through a pipeline: an item with its number and what it holds, or why there is none.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use voxmill_telemetry::event::FaultKind;

use crate::budget::Reservation;
use crate::slots::{Ready, Slot};

/// What a stage's function may fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A number on the pipeline and what is there for it.
#[derive(Debug)]
pub(crate) struct Envelope<T> {
    pub(crate) number: u64,
    pub(crate) content: Content<T>,
    pub(crate) bytes: Option<Reservation>,
    pub(crate) slot: Option<Slot<Ready>>,
}

#[derive(Debug)]
pub(crate) enum Content<T> {
    Item(T),
    Gap(Gap),
    /// The run ends here.
    Failed(RunFailure),
    /// Done before the run was resumed: skipped in silence, it only keeps the count.
    DoneBefore,
}

impl<T> Envelope<T> {
    pub(crate) fn new(number: u64, content: Content<T>) -> Envelope<T> {
        Envelope {
            number,
            content,
            bytes: None,
            slot: None,
        }
    }
}

/// An item that was skipped: its number is used up, so that counts stay equal everywhere.
#[derive(Clone, Debug)]
pub struct Gap {
    pub number: u64,
    pub fault: Arc<ItemFault>,
}

/// What went wrong with one item.
#[derive(Debug)]
pub struct ItemFault {
    pub stage: String,
    /// The item's number in that stage.
    pub item: u64,
    pub name: String,
    pub kind: FaultKind,
    pub error: BoxError,
}

impl fmt::Display for ItemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            FaultKind::Error | FaultKind::TooLarge | FaultKind::Outgrown => "failed",
            FaultKind::Panic => "panicked",
            FaultKind::Setup => "could not start a worker",
        };
        write!(f, "stage `{}` {what} at {}", self.stage, self.name)
    }
}

impl Error for ItemFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.error.as_ref())
    }
}

/// Why a run ended before its items did.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunFailure {
    #[error(transparent)]
    Item(Arc<ItemFault>),
    #[error("{skipped} items were skipped, and at most {most} may be; the last one: {last}")]
    TooManySkipped {
        skipped: u64,
        most: u64,
        #[source]
        last: Arc<ItemFault>,
    },
}

/// Runs the caller's code; an error is the message of its panic.
pub(crate) fn catch_panic<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|&message| message.into());
        message
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}
