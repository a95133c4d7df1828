//! How far a run has come, so that another can resume from there.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Everything before `next` is done, and so is what `beyond` lists.
///
/// Numbers are those of the consumer (groups, where the pipeline groups items). Neither the number of
/// workers nor the sizes of buffers matter to it. Where order is kept and the consumer finishes one
/// item before it takes the next, `beyond` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumePoint {
    pub next: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub beyond: BTreeSet<u64>,
}

impl ResumePoint {
    /// Everything before this number is done, and nothing else.
    pub fn at(next: u64) -> ResumePoint {
        ResumePoint {
            next,
            beyond: BTreeSet::new(),
        }
    }

    /// Whether an item need not come again.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_out_of_order_waits_beyond_until_the_gap_closes() {
        let mut point = ResumePoint::at(3);
        point.mark_done(4);
        point.mark_done(6);
        assert_eq!(point.next, 3);
        assert!(point.is_done(4) && !point.is_done(5));
        point.mark_done(3);
        assert_eq!((point.next, point.beyond.len()), (5, 1));
        point.mark_done(5);
        assert_eq!(point, ResumePoint::at(7));
    }

    #[test]
    fn a_resume_point_is_small_and_readable_on_disk() {
        let point = ResumePoint::at(812);
        let json = serde_json::to_string(&point).unwrap();
        assert_eq!(json, r#"{"next":812}"#);
        assert_eq!(serde_json::from_str::<ResumePoint>(&json).unwrap(), point);
    }
}
