//! A checkpoint that cannot be written is tried again: a disk that is full for a minute must not end days of
//! work.

use std::time::{Duration, Instant};

use crate::checkpoint::Best;

/// From the first failure to the next attempt. It doubles with every failure after that.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// An attempt reads all weights from the device: it may cost a second in five minutes, not more.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Attempts to save that failed since the last one that went well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unsaved {
    failures: u32,
    again_at: Option<Instant>,
    /// Nobody waits for another attempt.
    pub(super) is_last: bool,
    /// The best of all checkpoints that were written.
    best: Option<Best>,
}

impl Unsaved {
    /// With a best checkpoint that is there already.
    pub(super) fn after(best: Option<Best>) -> Self {
        Self {
            best,
            ..Self::default()
        }
    }

    /// Whether to save. `is_due`: by the run's own interval, which does not count while something is wrong.
    pub(super) fn is_time(&self, is_due: bool, now: Instant) -> bool {
        self.again_at.map_or(is_due, |at| now >= at)
    }

    /// Counts a failure; how many there were in a row, and how long to wait. An attempt that was made before its
    /// time does not count: many in one second say no more than one.
    pub(super) fn failed(&mut self, now: Instant) -> (u32, Duration) {
        if let Some(at) = self.again_at.filter(|at| now < *at) {
            return (self.failures, at - now);
        }
        let doubled = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        let pause = doubled.min(LONGEST_PAUSE);
        self.failures += 1;
        self.again_at = Some(now + pause);
        (self.failures, pause)
    }

    pub(super) fn saved(&mut self, best: Option<Best>) {
        *self = Self::after(best);
    }

    /// The best that can be found again.
    pub(super) fn best(&self) -> Option<Best> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_and_begin_anew_after_a_success() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut unsaved = Unsaved::default();
        assert!(unsaved.is_time(true, at(0)) && !unsaved.is_time(false, at(0)));
        let mut now = 0;
        let mut pauses = Vec::new();
        for failure in 1..=12 {
            let (failures, pause) = unsaved.failed(at(now));
            assert_eq!(failures, failure);
            assert!(!unsaved.is_time(true, at(now)), "not again at once");
            // Out of turn, as for a best voice.
            assert_eq!(unsaved.failed(at(now)), (failure, pause));
            now += pause.as_secs();
            assert!(unsaved.is_time(false, at(now)), "sooner than the interval");
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let best = Best { step: 3, loss: 0.5 };
        unsaved.saved(Some(best));
        assert!(!unsaved.is_time(false, at(now)));
        assert_eq!(unsaved.failed(at(now)), (1, FIRST_PAUSE));
        assert_eq!(unsaved.best(), Some(best));
    }
}
