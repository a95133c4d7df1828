//! Rates from counters that only grow.

use crate::event::Nanos;

/// The last reading of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    last: Option<(Nanos, u64)>,
}

impl Counter {
    /// How fast the counter grew since the reading before, a second. None at the first reading,
    /// after a missing one, and where the counter went back: it began anew, nobody knows where.
    pub(super) fn per_second(&mut self, now: Nanos, value: Option<u64>) -> Option<f64> {
        let last = self.last;
        self.last = value.map(|value| (now, value));
        let ((before, from), to) = (last?, value?);
        let seconds = now.since(before).seconds();
        if seconds <= 0.0 {
            return None;
        }
        Some(to.checked_sub(from)? as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_rate_needs_two_readings() {
        let mut counter = Counter::default();
        assert_eq!(counter.per_second(Nanos(0), Some(100)), None);
        assert_eq!(counter.per_second(Nanos(2 * SECOND), Some(150)), Some(25.0));
        assert_eq!(counter.per_second(Nanos(3 * SECOND), None), None);
        assert_eq!(counter.per_second(Nanos(4 * SECOND), Some(200)), None);
        assert_eq!(counter.per_second(Nanos(5 * SECOND), Some(200)), Some(0.0));
    }

    #[test]
    fn a_counter_that_goes_back_or_a_clock_that_stands_gives_none() {
        let mut counter = Counter::default();
        counter.per_second(Nanos(0), Some(100));
        assert_eq!(counter.per_second(Nanos(SECOND), Some(99)), None);
        assert_eq!(counter.per_second(Nanos(SECOND), Some(150)), None);
    }
}
