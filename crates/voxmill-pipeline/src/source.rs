//! Where a pipeline begins: items get their numbers, and what was done before is skipped.

use std::sync::Arc;

use voxmill_telemetry::event::FaultKind;

use crate::group::{EmptyGroup, Groups};
use crate::item::{BoxError, Content, Envelope, catch_panic};
use crate::resume::ResumePoint;
use crate::stage::Stage;

/// The items of a source.
pub(crate) type Items<T> = Box<dyn Iterator<Item = Result<T, BoxError>> + Send>;

/// Numbers the items of a source.
pub(crate) struct NumberedSource<T> {
    pub(crate) stage: Arc<Stage>,
    pub(crate) items: Items<T>,
    pub(crate) next: u64,
    pub(crate) done_before: DoneBefore,
    pub(crate) ended: bool,
}

impl<T> NumberedSource<T> {
    pub(crate) fn next(&mut self) -> Option<Envelope<T>> {
        if self.ended {
            return None;
        }
        let number = self.next;
        self.next += 1;
        // What panicked in the middle of a step cannot be asked for the next one.
        catch_panic(|| self.item(number)).unwrap_or_else(|panic| {
            self.ended = true;
            Some(self.stage.escaped(number, panic))
        })
    }

    fn item(&mut self, number: u64) -> Option<Envelope<T>> {
        let fault = |kind, error: BoxError| self.stage.fault(number, kind, error);
        let item = self.items.next();
        let content = match (item, self.done_before.contains(number)) {
            (None, _) => {
                self.ended = true;
                return None;
            }
            (Some(_), Err(error)) => self.stage.stop(fault(FaultKind::Error, error.into())),
            (Some(_), Ok(true)) => Content::DoneBefore,
            (Some(Ok(item)), _) => Content::Item(item),
            (Some(Err(error)), _) => self.stage.after(fault(FaultKind::Error, error)),
        };
        self.ended = matches!(content, Content::Failed(_));
        Some(Envelope::new(number, content))
    }
}

/// Which items of the source went into what was done beyond the resume point of a run.
#[derive(Clone, Debug)]
pub(crate) struct DoneBefore {
    point: ResumePoint,
    /// From the source's items to the consumer's numbers, with the group that was found last.
    groups: Vec<(Groups, u64)>,
}

impl DoneBefore {
    pub(crate) fn new(point: &ResumePoint, groups: Vec<Groups>, firsts: &[u64]) -> DoneBefore {
        let firsts = firsts[1..].iter().copied();
        DoneBefore {
            point: point.clone(),
            groups: groups.into_iter().zip(firsts).collect(),
        }
    }

    fn contains(&mut self, item: u64) -> Result<bool, EmptyGroup> {
        if self.point.beyond.is_empty() {
            return Ok(false);
        }
        let mut number = item;
        for (groups, found) in &mut self.groups {
            *found = groups.find(number, *found)?;
            number = *found;
        }
        Ok(self.point.is_done(number))
    }
}
