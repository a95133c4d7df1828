//! Sums the events of single items up, second by second, into lines for the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ItemEvent, LaneStage};
use crate::event::{
    Event, Nanos, SlotSecond, SlotState, SlowItem, StageSecond, Stamped, Wait, WaitSum,
};
use crate::stats::Histogram;

const SECOND: u64 = 1_000_000_000;
/// Items of a stage and second that are named.
const SLOWEST: usize = 3;
/// Of a name, in characters; a path is rarely longer.
const LONGEST_NAME: usize = 200;

/// The seconds that are not yet written.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    open: BTreeMap<u64, Second>,
    /// Earlier ones are written; what comes too late for its second goes to the next.
    oldest: u64,
    /// The state of each place and since when.
    places: BTreeMap<u32, (SlotState, Nanos)>,
}

#[derive(Debug, Default)]
struct Second {
    stages: BTreeMap<u64, StageSum>,
    moves: Vec<Move>,
}

/// Moves of a place at the same moment are in the order of items, then of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Move {
    at: Nanos,
    item: u64,
    to: SlotState,
    place: u32,
}

#[derive(Debug)]
struct StageSum {
    stage: Arc<LaneStage>,
    service: Histogram,
    waits: BTreeMap<Wait, WaitSum>,
    /// Slowest first.
    slowest: Vec<(Nanos, u64)>,
    lost: u64,
}

impl StageSum {
    fn new(stage: Arc<LaneStage>) -> StageSum {
        StageSum {
            stage,
            service: Histogram::default(),
            waits: BTreeMap::new(),
            slowest: Vec::with_capacity(SLOWEST + 1),
            lost: 0,
        }
    }

    fn add_item(&mut self, item: u64, service: Nanos) {
        self.service.record(service);
        let place = self.slowest.partition_point(|&(known, _)| known >= service);
        if place < SLOWEST {
            self.slowest.insert(place, (service, item));
            self.slowest.truncate(SLOWEST);
        }
    }

    fn write(self, at: Nanos, lines: &mut Vec<Stamped>) {
        let name = &self.stage.name;
        if self.lost > 0 {
            let event = Event::Lost {
                stage: name.clone(),
                events: self.lost,
            };
            lines.push(Stamped { at, event });
        }
        if self.service.is_empty() && self.waits.is_empty() {
            return;
        }
        let slow = |(service, item)| SlowItem {
            item,
            name: shortened(self.stage.item_name(item)),
            service,
        };
        let mut service = self.service;
        service.coarsen();
        let event = Event::StageSecond(StageSecond {
            stage: name.clone(),
            service,
            waits: self.waits,
            slowest: self.slowest.into_iter().map(slow).collect(),
        });
        lines.push(Stamped { at, event });
    }
}

/// The end of a long name is more useful than its beginning.
fn shortened(name: String) -> String {
    let too_long = name.chars().count().saturating_sub(LONGEST_NAME);
    if too_long == 0 {
        return name;
    }
    let end: String = name.chars().skip(too_long + 1).collect();
    format!("…{end}")
}

impl Seconds {
    /// What one worker of a stage recorded since the last call, and how much of it was lost.
    pub(super) fn add(&mut self, stage: &Arc<LaneStage>, events: &[ItemEvent], lost: u64) {
        // A worker records in the order of time: a second is looked up once, not for each event.
        for events in events.chunk_by(|a, b| a.end().0 / SECOND == b.end().0 / SECOND) {
            let second = self.open_second(events[0].end().0 / SECOND);
            let moves = &mut second.moves;
            let sum = (second.stages.entry(stage.number))
                .or_insert_with(|| StageSum::new(Arc::clone(stage)));
            for &event in events {
                match event {
                    ItemEvent::Item { item, service, .. } => sum.add_item(item, service),
                    ItemEvent::Wait { wait, waited, .. } => {
                        sum.waits.entry(wait).or_default().add(waited);
                    }
                    ItemEvent::Slot {
                        place,
                        item,
                        at,
                        to,
                    } => moves.push(Move {
                        at,
                        item,
                        to,
                        place,
                    }),
                    ItemEvent::Level { .. } => {}
                }
            }
        }
        if lost > 0 {
            let last = self.open.keys().next_back().copied();
            let second = self.open_second(last.unwrap_or_default());
            (second.stages.entry(stage.number))
                .or_insert_with(|| StageSum::new(Arc::clone(stage)))
                .lost += lost;
        }
    }

    fn open_second(&mut self, second: u64) -> &mut Second {
        self.open.entry(second.max(self.oldest)).or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Lines for the seconds that ended by `horizon`.
    pub(super) fn close(&mut self, horizon: Nanos, lines: &mut Vec<Stamped>) {
        let ended = horizon.0 / SECOND;
        while let Some(entry) = self.open.first_entry() {
            let &second = entry.key();
            if second >= ended {
                break;
            }
            let sums = entry.remove();
            let end = Nanos((second + 1).saturating_mul(SECOND));
            self.write(sums, end, lines);
        }
        self.oldest = self.oldest.max(ended);
    }

    /// Lines for everything there is; what is still to come of this second gets further lines.
    pub(super) fn close_all(&mut self, now: Nanos, lines: &mut Vec<Stamped>) {
        self.close(now, lines);
        for sums in std::mem::take(&mut self.open).into_values() {
            self.write(sums, now, lines);
        }
    }

    fn write(&mut self, second: Second, at: Nanos, lines: &mut Vec<Stamped>) {
        for sum in second.stages.into_values() {
            sum.write(at, lines);
        }
        let states = self.apply(second.moves);
        if !states.is_empty() {
            let event = Event::SlotSecond(SlotSecond { states });
            lines.push(Stamped { at, event });
        }
    }

    /// Workers and the consumer move a place in turn, each in its own lane; only by time do their
    /// moves make sense together.
    fn apply(&mut self, mut moves: Vec<Move>) -> BTreeMap<SlotState, WaitSum> {
        moves.sort_unstable();
        let mut states: BTreeMap<SlotState, WaitSum> = BTreeMap::new();
        for step in moves {
            let before = self.places.insert(step.place, (step.to, step.at));
            if let Some((state, since)) = before {
                states.entry(state).or_default().add(step.at.since(since));
            }
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str) -> Arc<LaneStage> {
        let stage = LaneStage::new(0, name);
        let named = stage.naming.set(Arc::new(|item| format!("clip {item}")));
        assert!(named.is_ok());
        Arc::new(stage)
    }

    /// An item that ended at that millisecond.
    fn item(item: u64, end_ms: u64, service_ms: u64) -> ItemEvent {
        ItemEvent::Item {
            item,
            start: Nanos((end_ms - service_ms) * 1_000_000),
            service: Nanos(service_ms * 1_000_000),
        }
    }

    fn slot(at_ms: u64, item: u64, to: SlotState) -> ItemEvent {
        ItemEvent::Slot {
            place: 0,
            item,
            at: Nanos(at_ms * 1_000_000),
            to,
        }
    }

    fn closed(seconds: &mut Seconds, horizon_ms: u64) -> Vec<Stamped> {
        let mut lines = Vec::new();
        seconds.close(Nanos(horizon_ms * 1_000_000), &mut lines);
        lines
    }

    #[test]
    fn a_second_is_written_once_it_is_over_with_its_slowest_items() {
        let mut seconds = Seconds::default();
        let events = [
            item(1, 100, 5),
            item(2, 200, 50),
            item(3, 300, 7),
            item(4, 999, 6),
            item(5, 1000, 90),
        ];
        seconds.add(&stage("read"), &events, 0);
        assert!(closed(&mut seconds, 999).is_empty());
        let lines = closed(&mut seconds, 1000);
        let [Stamped { at, event }] = &lines[..] else {
            panic!("one line: {lines:?}");
        };
        let Event::StageSecond(second) = event else {
            panic!("a stage's second: {event:?}");
        };
        assert_eq!(*at, Nanos(SECOND));
        assert_eq!((second.stage.as_str(), second.service.count()), ("read", 4));
        let slowest: Vec<&str> = second.slowest.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(slowest, ["clip 2", "clip 3", "clip 4"]);
        assert_eq!(closed(&mut seconds, 1999), []);
        assert_eq!(closed(&mut seconds, 2000).len(), 1);
        assert!(seconds.is_empty());
    }

    #[test]
    fn what_comes_too_late_is_counted_in_the_next_second() {
        let mut seconds = Seconds::default();
        assert_eq!(closed(&mut seconds, 5000), []);
        seconds.add(&stage("read"), &[item(1, 100, 5)], 0);
        let lines = closed(&mut seconds, 6000);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].at, Nanos(6 * SECOND));
    }

    #[test]
    fn the_moves_of_a_place_are_put_in_order_over_all_lanes() {
        use SlotState::*;
        let mut seconds = Seconds::default();
        // The consumer's lane is emptied first, though the worker moved first.
        let consumer = [
            slot(300, 1, Training),
            slot(400, 1, Free),
            slot(400, 2, Preparing),
        ];
        seconds.add(&stage("train"), &consumer, 0);
        seconds.add(
            &stage("transfer"),
            &[slot(100, 1, Preparing), slot(150, 1, Ready)],
            0,
        );
        let lines = closed(&mut seconds, 1000);
        let Event::SlotSecond(second) = &lines.last().unwrap().event else {
            panic!("a line of slots: {lines:?}");
        };
        let times: Vec<(SlotState, u64)> = (second.states.iter())
            .map(|(state, sum)| (*state, sum.total.0 / 1_000_000))
            .collect();
        assert_eq!(
            times,
            [(Preparing, 50), (Ready, 150), (Training, 100), (Free, 0)]
        );
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = "é".repeat(LONGEST_NAME);
        assert_eq!(shortened(name.clone()), name);
        let cut = shortened(format!("{name}é"));
        assert_eq!(cut.chars().count(), LONGEST_NAME);
        assert!(cut.starts_with("…é") && cut.ends_with('é'));
    }

    #[test]
    fn what_was_lost_is_reported() {
        let mut seconds = Seconds::default();
        seconds.add(&stage("read"), &[], 7);
        let event = Event::Lost {
            stage: "read".to_owned(),
            events: 7,
        };
        let at = Nanos(SECOND);
        assert_eq!(closed(&mut seconds, 1000), [Stamped { at, event }]);
    }
}
