//! How far a difference between two sets of steps can be trusted: how far steps are from those like them is
//! resampled in blocks of neighbours (a block bootstrap), and nine in ten of the differences that result are
//! the interval.
//!
//! That is the noise within the two sets. What differs from one start of a program to the
//! next is in no interval of two runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::event::Step;
use voxmill_telemetry::shape::StepShape;

use crate::timing::{
    Ratio, by_shape, clips, from_few, interval, mean, padded_frames, step_time, valid_frames,
};

/// The sums that measures of many steps are computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepSums {
    pub steps: f64,
    /// Seconds of the model device: training, waits, and what lies between steps.
    pub seconds: f64,
    pub train: f64,
    pub waited: f64,
    pub frames: f64,
    pub padded_frames: f64,
    pub clips: f64,
}

impl StepSums {
    /// Of one step.
    pub fn of(step: &Step) -> StepSums {
        StepSums {
            steps: 1.0,
            seconds: (step.waited + step.service + step.overhead).seconds(),
            train: step.service.seconds(),
            waited: step.waited.seconds(),
            frames: valid_frames(step),
            padded_frames: padded_frames(step),
            clips: clips(step),
        }
    }

    /// Of several steps.
    pub fn all(steps: &[Step]) -> StepSums {
        let each = steps.iter().map(StepSums::of);
        each.fold(StepSums::default(), |sums, step| sums.plus(step, 1.0))
    }

    /// With `times` the other.
    fn plus(self, other: StepSums, times: f64) -> StepSums {
        StepSums {
            steps: self.steps + other.steps * times,
            seconds: self.seconds + other.seconds * times,
            train: self.train + other.train * times,
            waited: self.waited + other.waited * times,
            frames: self.frames + other.frames * times,
            padded_frames: self.padded_frames + other.padded_frames * times,
            clips: self.clips + other.clips * times,
        }
    }

    /// Valid frames.
    pub fn frames_per_second(&self) -> f64 {
        self.frames / self.seconds
    }

    /// The share of the time that is training.
    pub fn busy(&self) -> f64 {
        self.train / self.seconds
    }

    /// The share of the time that is waiting.
    pub fn stall(&self) -> f64 {
        self.waited / self.seconds
    }
}

/// By how much something changed, 0 being not at all, and how far that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub value: f64,
    /// The 90 % interval, by resampling.
    pub low: f64,
    pub high: f64,
}

impl Change {
    /// Whether the interval excludes no change.
    pub(crate) fn is_beyond_noise(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl From<Ratio> for Change {
    fn from(ratio: Ratio) -> Change {
        Change {
            value: ratio.value - 1.0,
            low: ratio.low - 1.0,
            high: ratio.high - 1.0,
        }
    }
}

/// `measure` of `steps` as a multiple of that of `base`. `None` where it is no number.
pub fn ratio(steps: &[Step], base: &[Step], measure: fn(&StepSums) -> f64) -> Option<Ratio> {
    both(steps, base, |ours, theirs| measure(ours) / measure(theirs))
}

/// `measure` of `steps` less that of `base`.
pub fn difference(steps: &[Step], base: &[Step], measure: fn(&StepSums) -> f64) -> Option<Change> {
    both(steps, base, |ours, theirs| measure(ours) - measure(theirs)).map(same_numbers)
}

fn both(steps: &[Step], base: &[Step], of: impl Fn(&StepSums, &StepSums) -> f64) -> Option<Ratio> {
    let (all_ours, all_theirs) = (StepSums::all(steps), StepSums::all(base));
    let (ours, theirs) = (noise(steps), noise(base));
    interval(of(&all_ours, &all_theirs), steps.len(), |draws| {
        let mut drawn = |all: StepSums, noise: &[StepSums]| {
            let places = draws.blocks(noise.len()).into_iter();
            places.fold(all, |sums, place| sums.plus(noise[place], 1.0))
        };
        of(&drawn(all_ours, &ours), &drawn(all_theirs, &theirs))
    })
}

/// Fewer steps of a shape than this show too little of their own noise.
pub(crate) const ENOUGH_OF_A_SHAPE: usize = 5;

/// How far each step is from those like it, in the order of the steps. How often a shape comes up is the plan's
/// doing and no noise, so a step is like those of its shape; where there are too few of each, like all.
fn noise(steps: &[Step]) -> Vec<StepSums> {
    let mut shapes: BTreeMap<Option<StepShape>, StepSums> = BTreeMap::new();
    for step in steps {
        let sums = shapes.entry(step.shape).or_default();
        *sums = sums.plus(StepSums::of(step), 1.0);
    }
    let all = StepSums::all(steps);
    let enough = steps.len() >= ENOUGH_OF_A_SHAPE * shapes.len();
    let of = |step: &Step| {
        let alike = if enough { shapes[&step.shape] } else { all };
        let from_mean = StepSums::of(step).plus(alike, -1.0 / alike.steps);
        StepSums::default().plus(from_mean, from_few(alike.steps as usize))
    };
    steps.iter().map(of).collect()
}

/// The step time's variation within shapes, less that of `base`.
pub(crate) fn variation_difference(steps: &[Step], base: &[Step]) -> Option<Change> {
    let (ours, theirs) = (squares(steps), squares(base));
    let value = mean(&ours).sqrt() - mean(&theirs).sqrt();
    let found = interval(value, ours.len(), |draws| {
        draws.resampled_mean(&ours).sqrt() - draws.resampled_mean(&theirs).sqrt()
    });
    found.map(same_numbers)
}

/// Each step's squared distance from its shape's mean, in the order of the steps, such that their mean is the
/// variation squared.
fn squares(steps: &[Step]) -> Vec<f64> {
    let shapes = by_shape(steps);
    let counts = |times: &&Vec<f64>| times.len() > 1 && mean(times) > 0.0;
    let counted = shapes.values().filter(counts);
    let degrees: f64 = counted.map(|times| times.len() as f64 - 1.0).sum();
    let square = |step: &Step| {
        let times = &shapes[&step.shape];
        counts(&times).then(|| (step_time(step) / mean(times) - 1.0).powi(2))
    };
    let squares: Vec<f64> = steps.iter().filter_map(square).collect();
    let scale = squares.len() as f64 / degrees;
    squares.into_iter().map(|square| square * scale).collect()
}

/// The mean of differences between pairs.
pub(crate) fn mean_of_pairs(differences: &[f64]) -> Option<Change> {
    let found = interval(mean(differences), differences.len(), |draws| {
        draws.resampled_mean(differences)
    });
    found.map(same_numbers)
}

/// An interval is one whatever it is of.
fn same_numbers(Ratio { value, low, high }: Ratio) -> Change {
    Change { value, low, high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::variation;
    use voxmill_telemetry::event::Nanos;

    fn steps(count: u64, service_ms: u64, waited_ms: u64) -> Vec<Step> {
        let one = |n: u64| Step {
            step: n,
            waited: Nanos((waited_ms + n % 3) * 1_000_000),
            service: Nanos((service_ms + n * 7 % 5) * 1_000_000),
            shape: "8x100x20".parse().ok(),
            values: [("frames".to_owned(), 700.0)].into(),
            ..Step::default()
        };
        (1..=count).map(one).collect()
    }

    #[test]
    fn what_is_twice_as_fast_is_found() {
        let (fast, slow) = (steps(30, 50, 0), steps(30, 100, 0));
        let faster = ratio(&fast, &slow, StepSums::frames_per_second).unwrap();
        assert!((faster.value - 1.94).abs() < 0.02, "{faster:?}");
        assert!(faster.low > 1.9 && faster.high < 2.0, "{faster:?}");
        let waits = difference(&steps(30, 100, 100), &slow, StepSums::stall).unwrap();
        assert!(waits.is_beyond_noise() && waits.value > 0.4, "{waits:?}");
    }

    #[test]
    fn a_machine_that_is_slow_for_a_while_widens_the_interval() {
        // A step in three is slow: scattered, or all at the end.
        let slow = |which: fn(u64) -> bool| -> Vec<Step> {
            let mut steps = steps(60, 100, 0);
            for step in steps.iter_mut().filter(|step| which(step.step)) {
                step.service = Nanos(130_000_000);
            }
            steps
        };
        let even = steps(60, 100, 0);
        let width = |steps: &[Step]| {
            let ratio = ratio(steps, &even, StepSums::frames_per_second).unwrap();
            ratio.high - ratio.low
        };
        let (scattered, drifting) = (slow(|n| n % 3 == 0), slow(|n| n > 40));
        assert!(width(&drifting) > 1.5 * width(&scattered));
        // Shapes that take turns do not hide it.
        let two_shapes = |mut steps: Vec<Step>| {
            for step in &mut steps {
                step.shape = format!("8x{}x20", 100 + step.step % 2).parse().ok();
            }
            steps
        };
        let (scattered, drifting) = (two_shapes(scattered), two_shapes(drifting));
        assert!(width(&drifting) > 1.5 * width(&scattered));
    }

    #[test]
    fn two_values_are_not_certain() {
        let change = mean_of_pairs(&[0.1, 0.3]).unwrap();
        assert!(change.high - change.low > 0.1, "{change:?}");
    }

    #[test]
    fn the_same_steps_are_no_difference() {
        let some = steps(30, 100, 0);
        for change in [
            difference(&some, &some, StepSums::busy).unwrap(),
            variation_difference(&some, &some).unwrap(),
            ratio(&some, &some, StepSums::frames_per_second)
                .unwrap()
                .into(),
        ] {
            let none = change.value.abs() < 1e-12 && !change.is_beyond_noise();
            assert!(none, "{change:?}");
        }
        assert!(ratio(&some, &[], StepSums::frames_per_second).is_none());
        assert!(variation_difference(&some, &[]).is_none());
        assert!(mean_of_pairs(&[]).is_none());
    }

    #[test]
    fn the_mean_of_the_squares_is_the_variation_squared() {
        let some = steps(31, 100, 0);
        let mean = mean(&squares(&some));
        assert!((mean.sqrt() - variation(&some).unwrap()).abs() < 1e-12);
    }
}
