//! Times of steps and of stages as numbers: how they are spread, where the model device's time went, and
//! how two sets of steps compare.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::event::{Nanos, Step};
use voxmill_telemetry::shape::StepShape;
use voxmill_telemetry::stats::Histogram;

/// How values are spread, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    pub count: u64,
    pub mean: f64,
    pub std: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub min: f64,
    pub max: f64,
}

/// In milliseconds.
pub fn milliseconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e6
}

impl Spread {
    /// Nothing gives zeros.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return Spread::default();
        }
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let mean = mean(&values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread {
            count: values.len() as u64,
            mean,
            std: (squares / (count - 1.0).max(1.0)).sqrt(),
            p50: quantile(&values, 0.50),
            p95: quantile(&values, 0.95),
            p99: quantile(&values, 0.99),
            min: values[0],
            max: values[values.len() - 1],
        }
    }

    pub(crate) fn of_histogram(times: &Histogram) -> Spread {
        if times.is_empty() {
            return Spread::default();
        }
        Spread {
            count: times.count(),
            mean: times.mean_nanos() / 1e6,
            std: times.std_nanos() / 1e6,
            p50: milliseconds(times.p50()),
            p95: milliseconds(times.p95()),
            p99: milliseconds(times.p99()),
            min: milliseconds(times.min()),
            max: milliseconds(times.max()),
        }
    }
}

/// Of sorted values, between the two nearest.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let within = at - below as f64;
    sorted[below] * (1.0 - within) + sorted[above] * within
}

/// What a step took without what lies between steps: the time that a batch costs.
pub fn step_time(step: &Step) -> f64 {
    milliseconds(step.waited + step.service)
}

/// Frames of a step's batches, padding and all; 0 where it has no shape. Of several batches the log has the sum.
pub fn padded_frames(step: &Step) -> f64 {
    if let Some(sum) = step.values.get("padded_frames") {
        return *sum;
    }
    match step.shape {
        Some(StepShape::Batch(shape)) => shape.padded_frames() as f64,
        _ => 0.0,
    }
}

/// Frames that are not padding.
pub(crate) fn valid_frames(step: &Step) -> f64 {
    step.values.get("frames").copied().unwrap_or(0.0)
}

/// Clips that were trained on; rows of the shape where the log does not have them.
pub fn clips(step: &Step) -> f64 {
    let rows = match step.shape {
        Some(StepShape::Batch(shape)) => f64::from(shape.rows),
        _ => 0.0,
    };
    step.values.get("clips").copied().unwrap_or(rows)
}

/// The first steps of a start pay for what is done once: kernels, buffers, the first use of memory.
pub const WARM_UP_STEPS: usize = 3;

/// Whether each step of a run counts: not the first ones, nor the first of a shape, which compiles its kernels.
fn are_warm(steps: &[Step]) -> impl Iterator<Item = bool> {
    let mut seen = BTreeSet::new();
    let numbered = steps.iter().enumerate();
    numbered.map(move |(number, step)| {
        let is_first_of_shape = seen.insert(step.shape);
        number >= WARM_UP_STEPS && !is_first_of_shape
    })
}

/// Without the first steps and the first of each shape.
pub fn warmed(steps: &[Step]) -> Vec<Step> {
    let warm = steps.iter().zip(are_warm(steps));
    let warm = warm.filter(|(_, is_warm)| *is_warm);
    warm.map(|(step, _)| step.clone()).collect()
}

/// As many steps as it takes for `count` of them to be warm; all where they are fewer.
pub(crate) fn until_warmed(mut steps: Vec<Step>, count: usize) -> Vec<Step> {
    let mut warm = are_warm(&steps).enumerate().filter(|(_, is_warm)| *is_warm);
    let last = count.checked_sub(1).and_then(|before| warm.nth(before));
    let last = last.map(|(number, _)| number);
    drop(warm);
    if let Some(last) = last {
        steps.truncate(last + 1);
    }
    steps
}

/// Without the first steps of each start. All of them where hardly any would be left.
pub(crate) fn without_warm_up(steps: &[Step]) -> Vec<Step> {
    let mut since_start = 0;
    let mut before = None;
    let warm = steps.iter().filter(|step| {
        // Each start has a clock of its own: where it runs backwards, another one began.
        if step.ended.is_some() && step.ended < before {
            since_start = 0;
        }
        before = step.ended.or(before);
        since_start += 1;
        since_start > WARM_UP_STEPS
    });
    let warm: Vec<Step> = warm.cloned().collect();
    match 2 * warm.len() > steps.len() {
        true => warm,
        false => steps.to_vec(),
    }
}

/// The model device's time, in seconds: `train + waited + gap` is all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    pub seconds: f64,
    pub train: f64,
    /// By the stage that was late.
    pub waited: BTreeMap<String, f64>,
    /// Saving, validating, reading losses, reporting.
    pub gap: f64,
}

impl Line {
    /// Of these steps together.
    pub fn of(steps: &[Step]) -> Line {
        let mut line = Line::default();
        for step in steps {
            line.train += step.service.seconds();
            line.gap += step.overhead.seconds();
            let stage = step.late.as_deref().unwrap_or(UNNAMED);
            let waited = line.waited.entry(stage.to_owned()).or_default();
            *waited += step.waited.seconds();
        }
        line.seconds = line.train + line.gap + line.waited.values().sum::<f64>();
        line
    }

    /// Of the time that the line is long.
    pub fn share(&self, seconds: f64) -> f64 {
        match self.seconds > 0.0 {
            true => seconds / self.seconds,
            false => 0.0,
        }
    }

    /// The share of the time that the model waited for batches.
    /// Near 0: feeding is not the limit. Above 0.05: it is worth a finding.
    pub fn stall(&self) -> f64 {
        self.share(self.waited.values().sum())
    }

    /// The share of training.
    pub fn busy(&self) -> f64 {
        self.share(self.train)
    }

    /// The stage that was waited for most, and for how many seconds.
    pub(crate) fn latest_stage(&self) -> Option<(&str, f64)> {
        let named = self.waited.iter().filter(|(stage, _)| *stage != UNNAMED);
        named
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(stage, seconds)| (stage.as_str(), *seconds))
    }
}

/// Waits that are too short to ask which stage was late.
pub(crate) const UNNAMED: &str = "hand-over";

/// Standard deviation of the step time as a share of its mean, within each shape and over all of them.
/// Below 0.2: even. Above 0.3: something comes and goes. `None`: too few steps share a shape.
pub fn variation(steps: &[Step]) -> Option<f64> {
    let mut squares = 0.0;
    let mut degrees = 0.0;
    for times in by_shape(steps).into_values() {
        let mean = mean(&times);
        if times.len() > 1 && mean > 0.0 {
            squares += times.iter().map(|t| (t / mean - 1.0).powi(2)).sum::<f64>();
            degrees += times.len() as f64 - 1.0;
        }
    }
    (degrees >= LEAST_DEGREES).then(|| (squares / degrees).sqrt())
}

/// As five steps of one shape have: fewer say nothing of how others are spread.
const LEAST_DEGREES: f64 = 4.0;

/// The step times of each shape.
pub(crate) type Shapes = BTreeMap<Option<StepShape>, Vec<f64>>;

pub(crate) fn by_shape(steps: &[Step]) -> Shapes {
    let mut shapes = Shapes::new();
    for step in steps {
        let times = shapes.entry(step.shape).or_default();
        times.push(step_time(step));
    }
    shapes
}

/// A ratio and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    pub value: f64,
    /// The 90 % interval: a repeat lies within it nine times in ten.
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Whether the interval excludes this value.
    pub fn differs_from(&self, value: f64) -> bool {
        self.low > value || self.high < value
    }
}

const RESAMPLES: usize = 500;

/// How long `steps` took compared with `base`, shape by shape, so that it does not matter which shapes came up
/// how often. `None` without a shape in common.
pub(crate) fn matched_ratio(steps: &[Step], base: &[Step]) -> Option<Ratio> {
    let (ours, theirs) = (by_shape(steps), by_shape(base));
    let common = |shape: &Option<StepShape>| Some((ours.get(shape)?, theirs.get(shape)?));
    // How many of ours each of theirs stands for.
    let stands_for = |shape: &Option<StepShape>| {
        common(shape).map_or(0.0, |(ours, theirs)| {
            ours.len() as f64 / theirs.len() as f64
        })
    };
    let (took, would_take) = matched_times(&ours, &theirs);
    let is_common = |shape: &Option<StepShape>| f64::from(u8::from(common(shape).is_some()));
    let our_noise = noise(steps, &ours, is_common);
    let their_noise = noise(base, &theirs, stands_for);
    interval(took / would_take, ours.len(), |draws| {
        let mut drawn = |noise: &[f64]| draws.resample(noise).iter().sum::<f64>();
        (took + drawn(&our_noise)) / (would_take + drawn(&their_noise))
    })
}

/// The value of [`matched_ratio`] alone.
pub(crate) fn matched_value(steps: &[Step], base: &[Step]) -> Option<f64> {
    let (took, would_take) = matched_times(&by_shape(steps), &by_shape(base));
    Some(took / would_take).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

/// What ours took, and what they would have taken at the pace of theirs: of shapes that both have.
fn matched_times(ours: &Shapes, theirs: &Shapes) -> (f64, f64) {
    let (mut took, mut would_take) = (0.0, 0.0);
    for (shape, times) in ours {
        if let Some(base) = theirs.get(shape) {
            took += times.iter().sum::<f64>();
            would_take += times.len() as f64 * mean(base);
        }
    }
    (took, would_take)
}

/// How far each step is from the others of its shape, in the order of the steps: a machine that is slow is
/// slow for a while, whatever the shapes.
fn noise(steps: &[Step], shapes: &Shapes, weight: impl Fn(&Option<StepShape>) -> f64) -> Vec<f64> {
    let of = |step: &Step| {
        let alike = &shapes[&step.shape];
        weight(&step.shape) * from_few(alike.len()) * (step_time(step) - mean(alike))
    };
    steps.iter().map(of).collect()
}

/// By this factor few values lie nearer to their own mean than to the true one.
pub(crate) fn from_few(values: usize) -> f64 {
    let count = values as f64;
    (count / (count - 1.0).max(1.0)).sqrt()
}

/// How long a padded frame took in `steps` compared with `base`, whatever the shapes.
pub(crate) fn frame_time_ratio(steps: &[Step], base: &[Step]) -> Option<Ratio> {
    let pairs = |steps: &[Step]| -> Vec<(f64, f64)> {
        let of = |step: &Step| (step_time(step), padded_frames(step));
        steps.iter().map(of).collect()
    };
    let (ours, theirs) = (pairs(steps), pairs(base));
    let per_frame = |pairs: &[(f64, f64)]| {
        let time: f64 = pairs.iter().map(|pair| pair.0).sum();
        time / pairs.iter().map(|pair| pair.1).sum::<f64>()
    };
    let value = per_frame(&ours) / per_frame(&theirs);
    let found = interval(value, ours.len(), |draws| {
        per_frame(&draws.resample(&ours)) / per_frame(&draws.resample(&theirs))
    });
    found.filter(|ratio| ratio.value > 0.0)
}

/// A value and where nine in ten resamples of it lie. `None` where it is no number.
pub(crate) fn interval(
    value: f64,
    seed: usize,
    mut resample: impl FnMut(&mut Draws) -> f64,
) -> Option<Ratio> {
    if !value.is_finite() {
        return None;
    }
    let mut draws = Draws(seed as u64);
    let mut resampled: Vec<f64> = (0..RESAMPLES).map(|_| resample(&mut draws)).collect();
    resampled.retain(|ratio| ratio.is_finite());
    resampled.sort_by(f64::total_cmp);
    Some(Ratio {
        value,
        low: quantile(&resampled, 0.05).min(value),
        high: quantile(&resampled, 0.95).max(value),
    })
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Draws that are always the same, so that a log always gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * end as u128) >> 64) as usize
    }

    /// As many places as there are, drawn in blocks of neighbours: a machine that is slow is slow for a
    /// while, and places drawn one by one would take that for noise that evens out.
    pub(crate) fn blocks(&mut self, places: usize) -> Vec<usize> {
        let block = ((places as f64).sqrt() as usize).max(1);
        let mut drawn = Vec::with_capacity(places);
        while drawn.len() < places {
            let first = self.below(places);
            let length = block.min(places - drawn.len());
            drawn.extend((first..first + length).map(|place| place % places));
        }
        drawn
    }

    pub(crate) fn resample<T: Copy>(&mut self, values: &[T]) -> Vec<T> {
        let places = self.blocks(values.len()).into_iter();
        places.map(|place| values[place]).collect()
    }

    pub(crate) fn resampled_mean(&mut self, values: &[f64]) -> f64 {
        mean(&self.resample(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(shape: &str, waited_ms: u64, service_ms: u64) -> Step {
        Step {
            shape: shape.parse().ok(),
            waited: Nanos(waited_ms * 1_000_000),
            late: (waited_ms > 0).then(|| "featurize".to_owned()),
            service: Nanos(service_ms * 1_000_000),
            overhead: Nanos(1_000_000),
            ..Step::default()
        }
    }

    #[test]
    fn the_line_adds_up_and_charges_the_late_stage() {
        let steps = [step("8x100x20", 30, 100), step("8x100x20", 0, 100)];
        let line = Line::of(&steps);
        assert!((line.seconds - 0.232).abs() < 1e-9);
        assert!((line.busy() - 0.2 / 0.232).abs() < 1e-9);
        assert!((line.stall() - 0.03 / 0.232).abs() < 1e-9);
        assert_eq!(line.latest_stage(), Some(("featurize", 0.03)));
    }

    #[test]
    fn what_pays_for_what_is_done_once_is_left_out() {
        let (a, b, c) = ("8x100x20", "4x200x40", "2x400x80");
        let shapes = [a, a, b, a, b, c, a, c, b];
        let numbered = shapes.iter().enumerate();
        let steps = numbered.map(|(number, shape)| Step {
            step: number as u64,
            ..step(shape, 0, 100)
        });
        let steps: Vec<Step> = steps.collect();
        let numbers = |steps: &[Step]| steps.iter().map(|step| step.step).collect::<Vec<_>>();
        // Not the first three, nor the first of the last shape.
        assert_eq!(numbers(&warmed(&steps)), [3, 4, 6, 7, 8]);
        let enough = until_warmed(steps.clone(), 3);
        assert_eq!(numbers(&warmed(&enough)), [3, 4, 6]);
        assert_eq!(until_warmed(steps.clone(), 9), steps);
        assert_eq!(until_warmed(steps.clone(), 0), steps);
        assert!(warmed(&steps[..3]).is_empty());
    }

    #[test]
    fn padded_frames_are_those_of_the_shape_or_the_sum_of_several() {
        assert_eq!(padded_frames(&step("8x100x20", 0, 1)), 800.0);
        let mut of_two = step("2 batches", 0, 1);
        assert_eq!(padded_frames(&of_two), 0.0);
        of_two.values.insert("padded_frames".to_owned(), 1_600.0);
        assert_eq!(padded_frames(&of_two), 1_600.0);
    }

    #[test]
    fn shapes_of_different_size_are_no_variation() {
        let ten = |shape, ms| vec![step(shape, 0, ms); 10];
        let steady = [ten("8x100x20", 100), ten("2x400x80", 300)].concat();
        assert_eq!(variation(&steady), Some(0.0));
        let uneven = [ten("8x100x20", 50), ten("8x100x20", 150)].concat();
        assert!((variation(&uneven).unwrap() - 0.51).abs() < 0.02);
        // One step, or a few that each have a shape of their own, vary by nobody knows what.
        assert_eq!(variation(&uneven[..1]), None);
        assert_eq!(
            variation(&[step("8x100x20", 0, 1), step("2x4x8", 0, 9)]),
            None
        );
    }

    #[test]
    fn a_ratio_compares_like_with_like() {
        let base = vec![step("4x50x9", 0, 100); 10];
        let others = [
            vec![step("4x50x9", 0, 110); 10],
            vec![step("4x70x9", 0, 900); 50],
        ]
        .concat();
        let ratio = matched_ratio(&others, &base).unwrap();
        assert!((ratio.value - 1.1).abs() < 1e-9);
        assert!(ratio.differs_from(1.0));
        assert!(matched_ratio(&base, &[step("4x90x9", 0, 1)]).is_none());
    }

    #[test]
    fn noise_is_not_a_difference() {
        let noisy = |from: u64| -> Vec<Step> {
            let noise = (0..30).map(|n| (n * 37 + from) % 40);
            noise.map(|ms| step("4x50x9", 0, 100 + ms)).collect()
        };
        let ratio = matched_ratio(&noisy(0), &noisy(5)).unwrap();
        assert!(!ratio.differs_from(1.0), "{ratio:?}");
        assert_eq!(matched_ratio(&noisy(0), &noisy(5)), Some(ratio));
    }

    #[test]
    fn the_first_steps_of_each_start_are_warm_up() {
        let at = |ended: u64| Step {
            ended: Some(Nanos(ended)),
            ..step("4x50x9", 0, 100)
        };
        let steps: Vec<Step> = (10..20).chain(1..11).map(at).collect();
        assert_eq!(without_warm_up(&steps).len(), 14);
        let few = without_warm_up(&steps[..5]).len();
        assert_eq!(few, 5, "too few to leave out");
        let mut counted = step("8x100x20", 0, 1);
        assert_eq!(clips(&counted), 8.0);
        counted.values.insert("clips".to_owned(), 7.0);
        assert_eq!(clips(&counted), 7.0);
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.5);
        assert_eq!(quantile(&[], 0.5), 0.0);
        let spread = Spread::of((1..=101).map(f64::from));
        assert_eq!((spread.p50, spread.p99, spread.max), (51.0, 100.0, 101.0));
    }
}
