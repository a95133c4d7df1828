//! From counters to measures: what the pipeline did while one setting was in force, and how sure that is.

use std::time::Duration;

use super::settings::Settings;
use crate::counters::{RunSnapshot, StageCounters};

/// A difference of this many standard errors is no chance, however often it is checked.
pub(super) const CERTAIN: f64 = 4.0;
/// A slice holds this many items of the consumer, or lasts [`LONG_SLICE`] with at least one.
const SLICE_ITEMS: u64 = 8;
const SHORT_SLICE: Duration = Duration::from_millis(60);
const LONG_SLICE: Duration = Duration::from_millis(2500);
/// A measurement may be judged from four slices and 30 items on, or after 10 s with six items.
const FEWEST_SLICES: usize = 4;
const WINDOW_ITEMS: u64 = 30;
const LONG_WINDOW: Duration = Duration::from_secs(10);
const FEWEST_ITEMS: u64 = 6;
/// Nobody waits longer for a measurement than this, however little came through.
const LONGEST_WINDOW: Duration = Duration::from_secs(60);
/// After this many items or this time, more of the same is not worth waiting for.
const ENOUGH_ITEMS: u64 = 960;
const ENOUGH_TIME: Duration = Duration::from_secs(20);
/// A load is watched in windows of at least so many items and so much time.
const LASTING_ITEMS: u64 = 8 * WINDOW_ITEMS;
const LASTING_TIME: Duration = Duration::from_secs(2);
/// A rate known this well need not be measured longer.
const SMALL_ERROR: f64 = 0.01;
/// A buffer that filled or drained by more than this share of the items that passed hides the
/// stage behind or before it: the measurement begins again, but not endlessly.
const DRIFT: f64 = 0.2;
const MOST_RESTARTS: usize = 8;
/// Slices are put together into at most so many groups, since neighbours resemble each other.
const GROUPS: usize = 10;
/// Where an item that is counted whole lies between two snapshots is chance: its variance, for the
/// two ends together. It does not grow with the number of slices.
const COUNTING_VARIANCE: f64 = 1.0 / 6.0;

/// A mean and its standard error as a share of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// By more than this share, and not by chance.
    pub(super) fn differs_from(self, then: Estimate, by: f64) -> bool {
        let change = (self.value / then.value - 1.0).abs();
        then.value > 0.0 && change > by.max(CERTAIN * self.error.hypot(then.error))
    }
}

/// Snapshots of one setting, cut into slices.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    cuts: Vec<RunSnapshot>,
}

/// Takes snapshots, leaves out what still belongs to the setting before, and knows when there is
/// enough to judge.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasureWindow {
    measurement: Measurement,
    /// The first snapshot after the last change, while the pipeline gets used to it.
    settling: Option<RunSnapshot>,
    settled_in: bool,
    restarts: usize,
}

impl MeasureWindow {
    /// Adds a snapshot. True when the measurement has grown and may be judged.
    pub(super) fn add(&mut self, snapshot: &RunSnapshot, asked: &Settings) -> bool {
        if !self.settled_in {
            let first = self.settling.get_or_insert_with(|| snapshot.clone());
            let items = passed(first, snapshot);
            let took = snapshot.at.saturating_sub(first.at);
            let flushed = items >= asked.total_workers() as u64 + SLICE_ITEMS;
            let done = flushed && took >= SHORT_SLICE && asked.are_in_force(snapshot);
            // A setting that the engine does not reach is judged as it is. Before the first item
            // there is nothing to judge: the consumer may not have begun.
            if done || (took >= LONG_WINDOW && items > 0) {
                self.settled_in = true;
                self.measurement.cuts.push(snapshot.clone());
            }
            return false;
        }
        if !self.measurement.cut(snapshot) || !self.measurement.is_full() {
            return false;
        }
        if self.measurement.drifts() && self.restarts < MOST_RESTARTS {
            self.restarts += 1;
            self.measurement.cuts = vec![snapshot.clone()];
            return false;
        }
        true
    }

    pub(super) fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// A setting was changed: what comes next is of the new one, after a while.
    pub(super) fn after_change(&mut self) {
        *self = MeasureWindow::default();
    }

    /// Nothing was changed: a new measurement follows the last one without a gap.
    pub(super) fn again(&mut self) {
        let last = self.measurement.cuts.pop();
        self.measurement.cuts = last.into_iter().collect();
        self.restarts = 0;
    }
}

impl Measurement {
    fn cut(&mut self, snapshot: &RunSnapshot) -> bool {
        let Some(last) = self.cuts.last() else {
            self.cuts.push(snapshot.clone());
            return false;
        };
        let items = passed(last, snapshot);
        let took = snapshot.at.saturating_sub(last.at);
        let cut = items >= SLICE_ITEMS && took >= SHORT_SLICE
            || items > 0 && took >= LONG_SLICE
            || took >= LONGEST_WINDOW;
        if cut {
            self.cuts.push(snapshot.clone());
        }
        cut
    }

    fn is_full(&self) -> bool {
        let slices = self.cuts.len() - 1;
        let (items, took) = (self.items(), self.took());
        slices >= FEWEST_SLICES
            && (items >= WINDOW_ITEMS || took >= LONG_WINDOW && items >= FEWEST_ITEMS)
            || took >= LONGEST_WINDOW
    }

    /// Measuring longer would not add much.
    pub(super) fn is_sure(&self) -> bool {
        self.rate().error <= SMALL_ERROR
            || self.items() >= ENOUGH_ITEMS
            || self.took() >= ENOUGH_TIME
    }

    /// As `is_sure`, and long enough not to take a brief fluctuation for a change.
    pub(super) fn is_lasting(&self) -> bool {
        let lasts = self.items() >= LASTING_ITEMS && self.took() >= LASTING_TIME;
        self.is_sure() && (lasts || self.took() >= ENOUGH_TIME)
    }

    fn drifts(&self) -> bool {
        let (first, last) = self.ends();
        let stages = first.stages.iter().zip(&last.stages);
        stages.into_iter().any(|(before, after)| {
            let moved = before.buffered.abs_diff(after.buffered) as f64;
            moved > (DRIFT * after.items.saturating_sub(before.items) as f64).max(3.0)
        })
    }

    fn ends(&self) -> (&RunSnapshot, &RunSnapshot) {
        (&self.cuts[0], &self.cuts[self.cuts.len() - 1])
    }

    pub(super) fn took(&self) -> Duration {
        let (first, last) = self.ends();
        last.at.saturating_sub(first.at)
    }

    pub(super) fn items(&self) -> u64 {
        let (first, last) = self.ends();
        passed(first, last)
    }

    /// Items of the consumer in a second.
    pub(super) fn rate(&self) -> Estimate {
        let items = |before: &_, after: &_| passed(before, after) as f64;
        self.ratio(items, seconds, COUNTING_VARIANCE)
    }

    /// The share of its time in which the consumer did not wait.
    pub(super) fn fed(&self) -> Estimate {
        let starved = |snapshot: &RunSnapshot| consumer(snapshot).starved.as_secs_f64();
        let fed = |before: &RunSnapshot, after: &RunSnapshot| {
            seconds(before, after) - (starved(after) - starved(before))
        };
        self.ratio(fed, seconds, 0.0)
    }

    /// Seconds that an item of the stage is in a worker's hands.
    pub(super) fn service(&self, stage: usize) -> Estimate {
        let working = |before: &RunSnapshot, after: &RunSnapshot| {
            let (before, after) = (&before.stages[stage], &after.stages[stage]);
            after.working.saturating_sub(before.working).as_secs_f64()
        };
        let items = |before: &RunSnapshot, after: &RunSnapshot| {
            let (before, after) = (&before.stages[stage], &after.stages[stage]);
            after.items.saturating_sub(before.items) as f64
        };
        self.ratio(working, items, 0.0)
    }

    /// The share of all its workers' time that a stage spent in one way, between 0 and 1.
    pub(super) fn share(&self, stage: usize, way: impl Fn(&StageCounters) -> Duration) -> f64 {
        let (first, last) = self.ends();
        let spent = way(&last.stages[stage]).saturating_sub(way(&first.stages[stage]));
        let workers = last.stages[stage].workers.max(1) as f64;
        let all = self.took().as_secs_f64() * workers;
        if all > 0.0 {
            (spent.as_secs_f64() / all).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The ratio of two sums over slices, with the error that the slices' scatter shows.
    fn ratio(
        &self,
        above: impl Fn(&RunSnapshot, &RunSnapshot) -> f64,
        below: impl Fn(&RunSnapshot, &RunSnapshot) -> f64,
        counting_variance: f64,
    ) -> Estimate {
        let unknown = Estimate {
            value: 0.0,
            error: f64::INFINITY,
        };
        let slices = self.cuts.len() - 1;
        let groups = slices.min(GROUPS);
        if groups < 2 {
            return unknown;
        }
        let edges: Vec<usize> = (0..=groups).map(|group| group * slices / groups).collect();
        let sums: Vec<(f64, f64)> = edges
            .windows(2)
            .map(|edge| (&self.cuts[edge[0]], &self.cuts[edge[1]]))
            .map(|(before, after)| (above(before, after), below(before, after)))
            .collect();
        let (top, bottom) = sums
            .iter()
            .fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        if top <= 0.0 || bottom <= 0.0 {
            return unknown;
        }
        let value = top / bottom;
        let groups = groups as f64;
        let scatter = sums
            .iter()
            .map(|(x, y)| (x - value * y).powi(2))
            .sum::<f64>();
        let scatter = (scatter / (groups - 1.0) - counting_variance).max(0.0);
        let error = (scatter * groups + counting_variance).sqrt() / top;
        Estimate { value, error }
    }
}

/// Items of the consumer between two snapshots. Counters are read while workers count, so nothing
/// here relies on their order.
fn passed(before: &RunSnapshot, after: &RunSnapshot) -> u64 {
    consumer(after).items.saturating_sub(consumer(before).items)
}

fn seconds(before: &RunSnapshot, after: &RunSnapshot) -> f64 {
    after.at.saturating_sub(before.at).as_secs_f64()
}

fn consumer(snapshot: &RunSnapshot) -> &StageCounters {
    &snapshot.stages[snapshot.stages.len() - 1]
}
