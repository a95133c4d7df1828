//! How far a run has come, so that another can go on from there.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use voxmill_sync::lock;

/// Everything before `next` is done, and besides it what is listed in `beyond`.
///
/// Numbers are those of the consumer (groups, where the pipeline groups items). Neither the number of
/// workers nor the sizes of buffers matter to it. Where order is kept and the consumer finishes one
/// item before it takes the next, `beyond` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub next: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub beyond: BTreeSet<u64>,
}

impl Position {
    pub fn at(next: u64) -> Position {
        Position {
            next,
            beyond: BTreeSet::new(),
        }
    }

    pub fn is_done(&self, number: u64) -> bool {
        number < self.next || self.beyond.contains(&number)
    }

    pub fn mark_done(&mut self, number: u64) {
        if number == self.next {
            self.next += 1;
            while self.beyond.remove(&self.next) {
                self.next += 1;
            }
        } else if number > self.next {
            self.beyond.insert(number);
        }
    }
}

/// The position of a run that is going on.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<Position>);

impl Progress {
    pub(crate) fn from(position: Position) -> Progress {
        Progress(Mutex::new(position))
    }

    pub(crate) fn mark_done(&self, number: u64) {
        lock(&self.0).mark_done(number);
    }

    pub(crate) fn position(&self) -> Position {
        lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_out_of_order_waits_beyond_until_the_gap_closes() {
        let mut position = Position::at(3);
        position.mark_done(4);
        position.mark_done(6);
        assert_eq!(position.next, 3);
        assert!(position.is_done(4) && !position.is_done(5));
        position.mark_done(3);
        assert_eq!((position.next, position.beyond.len()), (5, 1));
        position.mark_done(5);
        assert_eq!(position, Position::at(7));
    }

    #[test]
    fn a_position_is_small_and_readable_on_disk() {
        let json = serde_json::to_string(&Position::at(812)).unwrap();
        assert_eq!(json, r#"{"next":812}"#);
        assert_eq!(
            serde_json::from_str::<Position>(&json).unwrap(),
            Position::at(812)
        );
    }
}
