//! Whether alignments still move from one visit of a clip to the next.
//!
//! Once they hardly do, their scores need not be made, brought to the host and searched in every epoch:
//! the durations that are known stay, and are searched again in one epoch of several.

use serde::{Deserialize, Serialize};

/// Below this share of frames that went to another token, alignments have settled. A run that kept them from
/// there on ended where one that never did ends (`benches/records/training.md`).
const STILL: f64 = 0.02;
/// Settled ones are searched again once in this many epochs. Chosen, not measured.
const SEARCH_AGAIN: u64 = 8;

/// Whether alignments still move, epoch by epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settling {
    /// That is being counted.
    epoch: u64,
    frames: u64,
    /// Of them, those that went to another token.
    moved: u64,
    settled: bool,
}

impl Settling {
    /// A clip's durations at its last visit, and now. What is left over from an epoch that was searched counts no
    /// more in one that is not.
    pub(super) fn count(&mut self, before: &[u32], now: &[u32]) {
        if !self.searches() {
            return;
        }
        let (mut old, mut new) = (0_u64, 0_u64);
        for (before, now) in before.iter().zip(now) {
            old += u64::from(*before);
            new += u64::from(*now);
            self.moved += old.abs_diff(new);
        }
        self.frames += new;
    }

    fn searches(&self) -> bool {
        !self.settled || self.epoch.is_multiple_of(SEARCH_AGAIN)
    }

    /// Whether the scores of an epoch's batches are worth having. To be asked for every batch, in their order.
    pub(super) fn is_due(&mut self, epoch: u64) -> bool {
        // In free order an epoch's last batches come after the next one's first.
        if epoch > self.epoch {
            if self.frames > 0 {
                self.settled = (self.moved as f64) < STILL * self.frames as f64;
            }
            *self = Settling {
                epoch,
                settled: self.settled,
                ..Settling::default()
            };
        }
        self.searches()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_went_to_another_token_are_counted() {
        let mut settling = Settling::default();
        settling.count(&[3, 3, 4], &[3, 3, 4]);
        assert_eq!((settling.moved, settling.frames), (0, 10));
        // One frame across the first boundary, two across the second.
        settling.count(&[3, 3, 4], &[4, 4, 2]);
        assert_eq!((settling.moved, settling.frames), (3, 20));
    }

    #[test]
    fn settled_alignments_are_searched_in_one_epoch_of_eight() {
        let mut settling = Settling::default();
        assert!(settling.is_due(0) && settling.is_due(1));
        settling.count(&[50, 50], &[40, 60]);
        assert!(settling.is_due(2), "a tenth has moved");
        settling.count(&[50, 50], &[49, 51]);
        assert!(!settling.is_due(3));
        let due: Vec<u64> = (4..=17).filter(|epoch| settling.is_due(*epoch)).collect();
        assert_eq!(due, [8, 16], "nothing is counted, so nothing changes");
        assert!(settling.is_due(24));
        settling.count(&[50, 50], &[49, 51]);
        assert!(!settling.is_due(25));
        // The last step of epoch 24 is known only now.
        settling.count(&[50, 50], &[40, 60]);
        assert!(!settling.is_due(26));
        assert!(settling.is_due(32));
        settling.count(&[50, 50], &[40, 60]);
        assert!(settling.is_due(33), "they have begun to move again");
    }
}
