//! Batching: consecutive items become one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use voxmill_telemetry::event::FaultKind;

use crate::budget::Reservation;
use crate::item::{Content, Envelope, Gap, catch_panic};
use crate::resume::ResumePoint;
use crate::stage::Stage;

/// Which items belong together: group `g` begins with item `first_of(g)`.
///
/// Membership goes by number, so a gap counts like an item and a group of 16 stays one of 16. A group
/// has at least one member: what fills up a rank's last round is a member that stands for nothing.
#[derive(Clone)]
pub struct Groups {
    first_of: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Groups {
    /// Groups of the same size.
    pub fn of(size: usize) -> Groups {
        let size = size.max(1) as u64;
        Groups::beginning_at(move |group| group * size)
    }

    /// Groups of differing sizes. The function must rise with every group.
    pub fn beginning_at(first_of: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Groups {
        Groups {
            first_of: Arc::new(first_of),
        }
    }

    pub(crate) fn first_of(&self, group: u64) -> u64 {
        (self.first_of)(group)
    }

    /// The group of an item, looked for from group `from` on.
    pub(crate) fn find(&self, item: u64, from: u64) -> Result<u64, EmptyGroup> {
        let mut group = from;
        loop {
            let next = self.first_of(group + 1);
            if next <= self.first_of(group) {
                return Err(EmptyGroup { group });
            }
            if item < next {
                return Ok(group);
            }
            group += 1;
        }
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").finish_non_exhaustive()
    }
}

/// A function of group beginnings that does not rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("group {group} has no items")]
pub struct EmptyGroup {
    pub group: u64,
}

/// Items that belong together, in item order; those that were skipped are there as gaps.
#[derive(Debug)]
pub struct Group<T> {
    pub members: Vec<Result<T, Gap>>,
}

/// Collects members until their group is whole.
pub(crate) struct Batcher<T> {
    stage: Arc<Stage>,
    groups: Groups,
    finished: ResumePoint,
    open: BTreeMap<u64, OpenGroup<T>>,
}

struct OpenGroup<T> {
    members: Vec<(u64, Content<T>)>,
    bytes: Option<Reservation>,
}

impl<T> Batcher<T> {
    pub(crate) fn new(stage: Arc<Stage>, groups: Groups, first: u64) -> Batcher<T> {
        Batcher {
            stage,
            groups,
            finished: ResumePoint::at(first),
            open: BTreeMap::new(),
        }
    }

    /// The group, if this was its last member. A failure ends the collecting.
    pub(crate) fn add(&mut self, envelope: Envelope<T>) -> Option<Envelope<Group<T>>> {
        let member = envelope.number;
        let group = catch_panic(|| self.add_to_group(envelope));
        group.unwrap_or_else(|panic| {
            Some(Envelope {
                number: self.finished.next,
                ..self.stage.escaped(member, panic)
            })
        })
    }

    fn add_to_group(&mut self, envelope: Envelope<T>) -> Option<Envelope<Group<T>>> {
        let number = envelope.number;
        let group = match self.groups.find(number, self.finished.next) {
            Ok(group) => group,
            Err(error) => {
                let fault = self.stage.fault(number, FaultKind::Error, error);
                return Some(Envelope::new(self.finished.next, self.stage.stop(fault)));
            }
        };
        let bytes = envelope.bytes.filter(|_| self.stage.holds_on);
        if let Content::Failed(failure) = envelope.content {
            return Some(Envelope::new(group, Content::Failed(failure)));
        }
        let size = (self.groups.first_of(group + 1) - self.groups.first_of(group)) as usize;
        let open = self.open.entry(group).or_insert_with(|| OpenGroup {
            members: Vec::with_capacity(size),
            bytes: None,
        });
        open.members.push((number, envelope.content));
        if open.members.len() == size {
            return self.take(group, bytes);
        }
        if let Some(mut bytes) = bytes {
            bytes.set_parked(true);
            open.bytes = merged(open.bytes.take(), Some(bytes));
        }
        None
    }

    /// What is left when no more members come, lowest group first.
    pub(crate) fn take_rest(&mut self) -> Option<Envelope<Group<T>>> {
        let group = *self.open.keys().next()?;
        self.take(group, None)
    }

    fn take(&mut self, group: u64, last: Option<Reservation>) -> Option<Envelope<Group<T>>> {
        let OpenGroup { mut members, bytes } = self.open.remove(&group)?;
        let bytes = bytes.map(|mut bytes| {
            bytes.set_parked(false);
            bytes
        });
        let bytes = merged(bytes, last);
        self.finished.mark_done(group);
        // Where order is free they came as they were done.
        members.sort_by_key(|(number, _)| *number);
        let members = members.into_iter();
        let members = members.filter_map(|(_, content)| match content {
            Content::Item(item) => Some(Ok(item)),
            Content::Gap(gap) => Some(Err(gap)),
            Content::Failed(_) | Content::DoneBefore => None,
        });
        let members: Vec<_> = members.collect();
        let content = match members.is_empty() {
            true => Content::DoneBefore,
            false => Content::Item(Group { members }),
        };
        Some(Envelope {
            bytes,
            ..Envelope::new(group, content)
        })
    }
}

/// Both reservations as one, as parked as the first.
fn merged(first: Option<Reservation>, second: Option<Reservation>) -> Option<Reservation> {
    match (first, second) {
        (Some(mut sum), Some(other)) => {
            sum.merge(other);
            Some(sum)
        }
        (first, second) => first.or(second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_belongs_to_the_group_that_begins_at_or_before_it() {
        let groups_of = |groups: &Groups| -> Vec<u64> {
            let items = 0..10;
            items.map(|item| groups.find(item, 0).unwrap()).collect()
        };
        assert_eq!(groups_of(&Groups::of(4)), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]);
        let triangle = Groups::beginning_at(|group| group * (group + 1) / 2);
        assert_eq!(groups_of(&triangle), [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]);
        let found = triangle.find(7, 2);
        assert_eq!(found, Ok(3), "the search may begin at an earlier group");
    }

    #[test]
    fn groups_of_none_are_groups_of_one() {
        assert_eq!(Groups::of(0).find(5, 0), Ok(5));
    }

    #[test]
    fn a_function_that_does_not_rise_is_an_error_instead_of_an_endless_search() {
        let stuck = Groups::beginning_at(|group| group.min(3));
        assert_eq!(stuck.find(2, 0), Ok(2));
        assert_eq!(stuck.find(3, 0), Err(EmptyGroup { group: 3 }));
    }
}
