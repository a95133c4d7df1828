//! Keeps a flood of faults from filling the disk: the first of a kind are written one by one, the
//! rest is counted by the second.

use std::collections::BTreeMap;

use crate::event::{Event, Fault, FaultAction, FaultKind, Nanos, Stamped};

/// Faults of one stage, kind and action that are written in full.
pub(super) const WRITTEN_IN_FULL: u64 = 1000;
const SECOND: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct FaultLimit {
    kinds: BTreeMap<(String, FaultKind, FaultAction), Count>,
}

#[derive(Debug, Default)]
struct Count {
    written: u64,
    /// Not yet reported.
    more: u64,
    /// The second in which the last line was written.
    reported: u64,
}

impl FaultLimit {
    /// Whether the event is to be written; if not, it is counted.
    pub(super) fn is_written(&mut self, event: &Event) -> bool {
        let Event::Fault(Fault {
            stage,
            kind,
            action,
            ..
        }) = event
        else {
            return true;
        };
        let count = (self.kinds)
            .entry((stage.clone(), *kind, *action))
            .or_default();
        let passes = count.written < WRITTEN_IN_FULL;
        if passes {
            count.written += 1;
        } else {
            count.more += 1;
        }
        passes
    }

    /// Whether there is nothing left to report.
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.values().all(|count| count.more == 0)
    }

    /// A line for each kind that has more to report, at most once a second or when all is asked for.
    pub(super) fn report(&mut self, now: Nanos, whole: bool, lines: &mut Vec<Stamped>) {
        let second = now.0 / SECOND;
        for ((stage, kind, action), count) in &mut self.kinds {
            if count.more == 0 || (second <= count.reported && !whole) {
                continue;
            }
            count.reported = second;
            let event = Event::MoreFaults {
                stage: stage.clone(),
                kind: *kind,
                action: *action,
                count: std::mem::take(&mut count.more),
            };
            lines.push(Stamped { at: now, event });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(stage: &str, action: FaultAction) -> Event {
        Event::Fault(Fault {
            stage: stage.to_owned(),
            item: 1,
            name: "clip".to_owned(),
            kind: FaultKind::Error,
            message: "no such file".to_owned(),
            action,
        })
    }

    fn flooded() -> (FaultLimit, Event) {
        let mut limit = FaultLimit::default();
        let flood = fault("read", FaultAction::Skipped);
        let passed = (0..5000).filter(|_| limit.is_written(&flood)).count() as u64;
        assert_eq!(passed, WRITTEN_IN_FULL);
        (limit, flood)
    }

    fn reported(limit: &mut FaultLimit, at_ms: u64) -> Vec<u64> {
        let mut lines = Vec::new();
        limit.report(Nanos(at_ms * 1_000_000), false, &mut lines);
        let counts = lines.into_iter().map(|line| match line.event {
            Event::MoreFaults { count, .. } => count,
            other => panic!("{other:?}"),
        });
        counts.collect()
    }

    #[test]
    fn after_the_first_thousand_there_is_one_line_a_second() {
        let (mut limit, flood) = flooded();
        assert!(!limit.is_empty());
        assert_eq!(reported(&mut limit, 1200), [4000]);
        limit.is_written(&flood);
        assert_eq!(reported(&mut limit, 1900), [] as [u64; 0]);
        limit.is_written(&flood);
        assert_eq!(reported(&mut limit, 2100), [2]);
        assert!(limit.is_empty());
    }

    #[test]
    fn a_flood_of_one_kind_does_not_hide_another() {
        let (mut limit, _) = flooded();
        assert!(limit.is_written(&fault("read", FaultAction::Stopped)));
        assert!(limit.is_written(&fault("write", FaultAction::Skipped)));
        assert!(limit.is_written(&Event::Lost {
            stage: String::new(),
            events: 1
        }));
    }
}
