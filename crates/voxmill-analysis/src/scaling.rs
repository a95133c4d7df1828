//! One setting at several sizes: how much faster each is than the best before it, where that ends, and
//! what would not fit.

mod ended;

use crate::setting::AdvisedSetting;
pub use ended::{ran, unexplained};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use voxmill_telemetry::event::Step;
pub use voxmill_telemetry::event::{Failure, Shortage};

use crate::resampling::{StepSums, ratio};
use crate::timing::{Ratio, Spread, step_time, variation, warmed};

/// Grows when a reader of the JSON would misread it.
pub const SCALING_VERSION: u32 = 1;

/// A larger size that gains less than this is not worth it.
pub const WORTH_IT: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Swept {
    BatchSize,
    Workers,
    Prefetch,
}

impl Swept {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Swept::BatchSize => "batch size",
            Swept::Workers => "workers",
            Swept::Prefetch => "batches ahead",
        }
    }

    /// A size in words.
    pub fn of(self, size: u64) -> String {
        match (self, size) {
            (Swept::BatchSize, size) => format!("batch size {size}"),
            (Swept::Workers, 1) => "1 worker".to_owned(),
            (Swept::Workers, size) => format!("{size} workers"),
            (Swept::Prefetch, 1) => "1 batch ahead".to_owned(),
            (Swept::Prefetch, size) => format!("{size} batches ahead"),
        }
    }

    /// What is swept.
    pub fn setting(self) -> AdvisedSetting {
        match self {
            Swept::BatchSize => AdvisedSetting::BatchSize,
            Swept::Workers => AdvisedSetting::NumWorkers,
            Swept::Prefetch => AdvisedSetting::PrefetchBufferSize,
        }
    }
}

/// What came of one size.
#[derive(Clone, Debug)]
pub struct Tried {
    pub size: u64,
    pub outcome: SizeOutcome,
}

/// How a run of one size ended.
#[derive(Clone, Debug)]
pub enum SizeOutcome {
    Ran {
        steps: Vec<Step>,
        /// Bytes at most.
        host_memory: Option<u64>,
        device_memory: Option<u64>,
        /// The share of its clips whose features were computed while it ran.
        decoded: f64,
        /// The share of the cores that other programs took.
        others: Option<f64>,
    },
    Died(Failure),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scaling {
    #[schemars(extend("const" = SCALING_VERSION))]
    pub version: u32,
    pub swept: Swept,
    /// Its key in backticks, until the program that knows its flag puts that here.
    pub flag: String,
    /// In ascending order.
    pub sizes: Vec<SizeRow>,
    /// `None` where no size ran.
    pub knee: Option<Knee>,
    pub memory: MemoryLimit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeRow {
    pub size: u64,
    /// `None`: it died.
    pub measured: Option<Measured>,
    pub died: Option<String>,
    pub refused: Option<Shortage>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    pub steps: u64,
    pub frames_per_second: f64,
    pub clips_per_second: f64,
    pub step_ms: Spread,
    pub busy: f64,
    pub stall: f64,
    pub variation: Option<f64>,
    /// Throughput as a multiple of the best smaller size that ran; `None` for the first.
    pub gain: Option<Ratio>,
    pub host_memory: Option<u64>,
    pub device_memory: Option<u64>,
    pub decoded: f64,
    pub others: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "size")]
pub enum Knee {
    /// Only one size ran: there is no knee to find.
    OneSize(u64),
    /// The largest size that ran gained over all others: the knee is beyond it.
    StillRises(u64),
    /// The smallest size over which no other gains beyond noise what is worth it.
    At(u64),
}

impl Knee {
    /// The size to take.
    pub fn size(self) -> u64 {
        match self {
            Knee::OneSize(size) | Knee::StillRises(size) | Knee::At(size) => size,
        }
    }
}

/// What is known of the largest size that fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLimit {
    /// The first size that was refused or died.
    pub first_that_died: Option<u64>,
    /// Not measured: a straight line through the peaks that were.
    pub extrapolated: Option<Extrapolated>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extrapolated {
    /// Bytes of host memory for each one more.
    pub bytes_each: f64,
    pub available: u64,
    /// The first size whose peak would be above what is available.
    pub first_that_would_not_fit: u64,
}

/// `available`: bytes of the machine's memory that a run could have.
pub fn scaling(swept: Swept, mut tried: Vec<Tried>, available: Option<u64>) -> Scaling {
    tried.sort_by_key(|tried| tried.size);
    let mut sizes = Vec::new();
    let mut ran: Vec<(u64, Vec<Step>)> = Vec::new();
    for Tried { size, outcome } in tried {
        let mut row = SizeRow {
            size,
            measured: None,
            died: None,
            refused: None,
        };
        match outcome {
            SizeOutcome::Died(Failure {
                reason, shortage, ..
            }) => {
                (row.died, row.refused) = (Some(reason), shortage);
            }
            SizeOutcome::Ran {
                steps,
                host_memory,
                device_memory,
                decoded,
                others,
            } => {
                let steps = warmed(&steps);
                let sums = StepSums::all(&steps);
                if sums.seconds > 0.0 {
                    row.measured = Some(Measured {
                        steps: steps.len() as u64,
                        frames_per_second: sums.frames_per_second(),
                        clips_per_second: sums.clips / sums.seconds,
                        step_ms: Spread::of(steps.iter().map(step_time)),
                        busy: sums.busy(),
                        stall: sums.stall(),
                        variation: variation(&steps),
                        gain: best(&ran).and_then(|before| throughput(&steps, before)),
                        host_memory,
                        device_memory,
                        decoded,
                        others,
                    });
                    ran.push((size, steps));
                } else {
                    row.died = Some("it did no step after the first ones".to_owned());
                }
            }
        }
        sizes.push(row);
    }
    Scaling {
        version: SCALING_VERSION,
        swept,
        flag: swept.setting().to_string(),
        knee: knee(&ran),
        memory: MemoryLimit {
            first_that_died: (sizes.iter().find(|row| row.measured.is_none())).map(|row| row.size),
            extrapolated: match swept {
                Swept::BatchSize => available.and_then(|bytes| extrapolate(&sizes, bytes)),
                // Others take memory for batches that are bounded by a budget.
                Swept::Workers | Swept::Prefetch => None,
            },
        },
        sizes,
    }
}

fn throughput(steps: &[Step], base: &[Step]) -> Option<Ratio> {
    ratio(steps, base, StepSums::frames_per_second)
}

/// The steps of the size with the highest throughput.
fn best(ran: &[(u64, Vec<Step>)]) -> Option<&[Step]> {
    let rate = |steps: &[Step]| StepSums::all(steps).frames_per_second();
    let each = ran.iter().map(|(_, steps)| &**steps);
    each.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// The smallest size over which the best does not gain, beyond noise, what is worth it. Compared with its
/// neighbours alone, a size after a bad one would seem to gain, and small gains would never add up.
fn knee(ran: &[(u64, Vec<Step>)]) -> Option<Knee> {
    let (best, last) = (best(ran)?, ran.last()?.0);
    if ran.len() == 1 {
        return Some(Knee::OneSize(last));
    }
    let is_beaten =
        |steps: &[Step]| throughput(best, steps).is_some_and(|gain| gain.low > 1.0 + WORTH_IT);
    let (size, _) = ran.iter().find(|(_, steps)| !is_beaten(steps))?;
    Some(match *size == last {
        true => Knee::StillRises(last),
        false => Knee::At(*size),
    })
}

/// A straight line, by least squares, through the peaks of host memory. `None` where it does not rise.
fn extrapolate(rows: &[SizeRow], available: u64) -> Option<Extrapolated> {
    let peak = |row: &SizeRow| row.measured.as_ref()?.host_memory;
    let points = rows
        .iter()
        .filter_map(|row| Some((row.size as f64, peak(row)? as f64)));
    let points: Vec<(f64, f64)> = points.collect();
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let together: f64 = together.sum();
    let bytes_each = together / spread;
    let largest = points.iter().map(|point| point.0).fold(0.0, f64::max);
    // Beyond what ran: a size that was measured did fit.
    let first = (x + (available as f64 - y) / bytes_each).floor() + 1.0;
    (bytes_each > 0.0 && bytes_each.is_finite()).then(|| Extrapolated {
        bytes_each,
        available,
        first_that_would_not_fit: first.max(largest + 1.0) as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_telemetry::event::Nanos;

    /// Steps with `size` rows that take about `ms`, the first of them much longer.
    fn ran(size: u64, ms: u64, memory: u64) -> Tried {
        let step = |n: u64| Step {
            step: n,
            service: Nanos((ms + n * 7 % 5 + if n < 3 { 500 } else { 0 }) * 1_000_000),
            shape: format!("{size}x100x20").parse().ok(),
            values: [("frames".to_owned(), size as f64 * 90.0)].into(),
            ..Step::default()
        };
        Tried {
            size,
            outcome: SizeOutcome::Ran {
                steps: (0..33).map(step).collect(),
                host_memory: Some(memory),
                device_memory: None,
                decoded: 0.0,
                others: None,
            },
        }
    }

    fn died(size: u64, reason: &str) -> Tried {
        Tried {
            size,
            outcome: SizeOutcome::Died(Failure {
                reason: reason.to_owned(),
                shortage: None,
                out_of_memory: false,
            }),
        }
    }

    #[test]
    fn throughput_that_rises_to_the_end_has_no_knee() {
        // Larger batches for hardly more time.
        let tried = vec![ran(16, 120, 300), ran(8, 100, 200), ran(32, 150, 500)];
        let scaling = scaling(Swept::BatchSize, tried, None);
        let sizes: Vec<u64> = scaling.sizes.iter().map(|row| row.size).collect();
        assert_eq!(sizes, [8, 16, 32]);
        assert_eq!(scaling.knee, Some(Knee::StillRises(32)));
        let measured = scaling.sizes[1].measured.as_ref().unwrap();
        assert_eq!(measured.steps, 30, "warm-up is left out");
        assert!((measured.step_ms.mean - 122.0).abs() < 0.5);
        assert!((measured.clips_per_second - 16.0 / 0.122).abs() < 1.0);
        let gain = measured.gain.unwrap();
        assert!((gain.value - 2.0 * 102.0 / 122.0).abs() < 0.01, "{gain:?}");
        assert_eq!(scaling.memory, MemoryLimit::default());
    }

    #[test]
    fn the_knee_is_the_smallest_size_near_the_best() {
        let knee = |swept, sizes: &[(u64, u64)]| {
            let tried = sizes.iter().map(|(size, ms)| ran(*size, *ms, 0));
            scaling(swept, tried.collect(), None).knee
        };
        let bent = knee(
            Swept::BatchSize,
            &[(4, 100), (8, 110), (16, 218), (32, 436)],
        );
        assert_eq!(bent, Some(Knee::At(8)));
        let flat = knee(Swept::BatchSize, &[(4, 100), (8, 200)]);
        assert_eq!(flat, Some(Knee::At(4)));
        let dip = knee(Swept::Workers, &[(1, 100), (2, 333), (4, 400)]);
        assert_eq!(dip, Some(Knee::At(1)), "throughput of 100, 60, 100");
        let small_gains = [(1, 1_000), (2, 1_923), (4, 3_698), (8, 7_112)];
        let added_up = knee(Swept::Workers, &small_gains);
        assert_eq!(added_up, Some(Knee::At(4)), "three times 4 % are 12 %");
        let one = knee(Swept::Workers, &[(4, 100)]);
        assert_eq!(one, Some(Knee::OneSize(4)));
    }

    #[test]
    fn a_size_that_died_is_a_row_and_the_next_is_compared_with_the_one_before() {
        let tried = vec![ran(4, 100, 0), died(8, "killed"), ran(16, 120, 0)];
        let scaling = scaling(Swept::BatchSize, tried, None);
        assert_eq!(scaling.memory.first_that_died, Some(8));
        assert_eq!(scaling.sizes[1].died.as_deref(), Some("killed"));
        let gain = scaling.sizes[2].measured.as_ref().unwrap().gain.unwrap();
        assert!((gain.value - 4.0 * 102.0 / 122.0).abs() < 0.02, "{gain:?}");
        assert_eq!(scaling.knee, Some(Knee::StillRises(16)));
    }

    #[test]
    fn where_all_died_nothing_is_claimed() {
        let both = vec![died(8, "no"), died(16, "no")];
        let scaling = scaling(Swept::BatchSize, both, Some(1));
        assert_eq!(scaling.knee, None);
        assert_eq!(scaling.memory.first_that_died, Some(8));
        assert_eq!(scaling.memory.extrapolated, None);
        let mut short = ran(8, 100, 0);
        if let SizeOutcome::Ran { steps, .. } = &mut short.outcome {
            steps.truncate(2);
        }
        let none = super::scaling(Swept::Workers, vec![short], None);
        assert!(none.sizes[0].died.is_some(), "only warm-up");
    }

    #[test]
    fn memory_is_extrapolated_in_a_straight_line() {
        let extrapolated = |swept, peaks: &[(u64, u64)], available| {
            let tried = peaks.iter().map(|(size, peak)| ran(*size, 100, *peak));
            scaling(swept, tried.collect(), Some(available))
                .memory
                .extrapolated
        };
        let rising = [(8, 1_080), (16, 1_160), (32, 1_320)];
        let found = extrapolated(Swept::BatchSize, &rising, 2_005).unwrap();
        assert!((found.bytes_each - 10.0).abs() < 1e-9);
        assert_eq!(found.first_that_would_not_fit, 101);
        // What ran did fit, whatever the line predicts.
        let tight = extrapolated(Swept::BatchSize, &rising, 1_000).unwrap();
        assert_eq!(tight.first_that_would_not_fit, 33);
        assert_eq!(extrapolated(Swept::Workers, &rising, 2_005), None);
        let level = [(8, 1_000), (16, 1_000)];
        assert_eq!(extrapolated(Swept::BatchSize, &level, 2_005), None);
    }
}
