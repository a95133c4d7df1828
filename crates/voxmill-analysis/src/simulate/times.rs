//! Service times as distributions, drawn by number: an item takes the same time in every simulation with the same seed,
//! so that two settings differ by the settings alone.

use voxmill_telemetry::stats::Histogram;

/// Equally likely times, from the shortest to the longest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// In nanoseconds.
    quantiles: Vec<f64>,
    mean: f64,
    /// Standard error of the mean, as a share of it.
    uncertain: f64,
}

/// Enough for the slowest item of some thousands.
const QUANTILES: usize = 4096;

impl Times {
    /// Always the same.
    pub fn even(nanos: u64) -> Times {
        Times {
            quantiles: vec![nanos as f64],
            mean: nanos as f64,
            uncertain: 0.0,
        }
    }

    /// Log-normal: what takes time in a computer has a long tail. `variation` is the standard deviation over the mean.
    pub fn uneven(mean_nanos: f64, variation: f64) -> Times {
        if variation <= 0.0 {
            return Times::even(mean_nanos.round() as u64);
        }
        let sigma = (1.0 + variation * variation).ln().sqrt();
        let of = |z: f64| mean_nanos * (sigma * z - sigma * sigma / 2.0).exp();
        Times::of_quantiles(|share| of(normal_quantile(share)), mean_nanos, 0.0)
    }

    /// As measured: its mean is exact, its quantiles are as fine as the histogram.
    pub fn measured(histogram: &Histogram) -> Option<Times> {
        if histogram.is_empty() {
            return None;
        }
        let spans: Vec<(f64, f64, u64)> = histogram.spans().collect();
        let (mut at, mut below) = (0, 0u64);
        let count = histogram.count() as f64;
        let of = |share: f64| {
            let wanted = share * count;
            while at + 1 < spans.len() && (below + spans[at].2) as f64 <= wanted {
                below += spans[at].2;
                at += 1;
            }
            let (low, high, items) = spans[at];
            let within = ((wanted - below as f64) / items.max(1) as f64).clamp(0.0, 1.0);
            low + (high - low) * within
        };
        let uncertain = histogram.variation() / count.sqrt();
        Some(Times::of_quantiles(of, histogram.mean_nanos(), uncertain))
    }

    fn of_quantiles(mut of: impl FnMut(f64) -> f64, mean: f64, uncertain: f64) -> Times {
        let shares = (0..QUANTILES).map(|n| (n as f64 + 0.5) / QUANTILES as f64);
        let drawn: Vec<f64> = shares.map(&mut of).collect();
        let sum: f64 = drawn.iter().sum();
        let scale = match sum > 0.0 {
            true => mean * QUANTILES as f64 / sum,
            false => 1.0,
        };
        Times {
            quantiles: drawn.into_iter().map(|nanos| nanos * scale).collect(),
            mean,
            uncertain,
        }
    }

    /// The time of an item, by a number that is the same for it in all simulations.
    pub fn of(&self, drawn: u64) -> f64 {
        let place = (u128::from(drawn) * self.quantiles.len() as u128) >> 64;
        self.quantiles.get(place as usize).copied().unwrap_or(0.0)
    }

    /// So many times in a random order whose distribution is exactly this one: where a few slow items are a good part
    /// of a run, drawing them one by one would have too many or too few of them.
    pub fn shuffled(&self, count: usize, seed: u64) -> Vec<f64> {
        let places = self.quantiles.len();
        let at = |n: usize| {
            self.quantiles
                .get((2 * n + 1) * places / (2 * count))
                .copied()
        };
        let mut all: Vec<f64> = (0..count).map(|n| at(n).unwrap_or(self.mean)).collect();
        let sum: f64 = all.iter().sum();
        let scale = if sum > 0.0 {
            self.mean * count as f64 / sum
        } else {
            1.0
        };
        all.iter_mut().for_each(|nanos| *nanos *= scale);
        for last in (1..count).rev() {
            let other = (u128::from(draw(seed, 3_000, last as u64)) * (last as u128 + 1)) >> 64;
            all.swap(last, other as usize);
        }
        all
    }

    /// In nanoseconds.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    pub(crate) fn uncertain(&self) -> f64 {
        self.uncertain
    }

    /// The same, all of it slower or faster.
    pub fn scaled(&self, by: f64) -> Times {
        Times {
            quantiles: self.quantiles.iter().map(|nanos| nanos * by).collect(),
            mean: self.mean * by,
            uncertain: self.uncertain,
        }
    }
}

/// A number for (seed, stage, item) that is spread over all 64 bits.
pub fn draw(seed: u64, stage: u64, number: u64) -> u64 {
    let mut bits = seed
        ^ stage.wrapping_mul(0xD6E8_FEB8_6659_FD93)
        ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for _ in 0..2 {
        bits ^= bits >> 32;
        bits = bits.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    bits ^ (bits >> 32)
}

/// Between 0 and 1, both left out.
pub fn uniform(drawn: u64) -> f64 {
    ((drawn >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Where this share of a normal distribution lies below, in standard deviations; found by halving, for it is not asked
/// for often.
pub(crate) fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-9.0, 9.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match normal_share(middle) < share {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// The share of a normal distribution below `z`: a series that converges for all `z` of interest.
fn normal_share(z: f64) -> f64 {
    let (mut term, mut sum, mut n) = (z, z, 1.0);
    while term.abs() > 1e-17 * sum.abs() && n < 400.0 {
        n += 2.0;
        term *= z * z / n;
        sum += term;
    }
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    (0.5 + sum * density).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use voxmill_telemetry::event::Nanos;

    use super::*;

    fn mean_of_draws(times: &Times) -> f64 {
        let draws = (0..100_000).map(|item| times.of(draw(7, 1, item)));
        draws.sum::<f64>() / 1e5
    }

    #[test]
    fn a_measured_distribution_keeps_its_mean_and_its_tail() {
        let mut histogram = Histogram::default();
        for item in 0..1_000u64 {
            let slow = if item % 100 == 0 { 90 } else { 0 };
            histogram.record(Nanos((10 + slow) * 1_000_000));
        }
        let times = Times::measured(&histogram).unwrap();
        assert!((times.mean() / 10.9e6 - 1.0).abs() < 1e-9);
        assert!((mean_of_draws(&times) / 10.9e6 - 1.0).abs() < 0.02);
        let draws = (0..100_000).map(|item| times.of(draw(7, 1, item)));
        let slow = draws.filter(|nanos| *nanos > 90e6).count();
        assert!((800..1_200).contains(&slow), "{slow} of 100,000");
        assert!(Times::measured(&Histogram::default()).is_none());
    }

    #[test]
    fn what_is_shuffled_is_exactly_the_distribution_in_another_order() {
        let times = Times::uneven(20e6, 1.5);
        let [one, other] = [1, 2].map(|seed| times.shuffled(100, seed));
        assert!((one.iter().sum::<f64>() / 2e9 - 1.0).abs() < 1e-9);
        assert_ne!(one, other);
        let sorted = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all
        };
        assert_eq!(sorted(one), sorted(other));
    }

    #[test]
    fn uneven_times_have_the_mean_and_the_variation_that_were_asked_for() {
        let times = Times::uneven(20e6, 0.5);
        assert!((mean_of_draws(&times) / 20e6 - 1.0).abs() < 0.01);
        let squares = (0..100_000).map(|item| (times.of(draw(3, 2, item)) / 20e6 - 1.0).powi(2));
        let variation = (squares.sum::<f64>() / 1e5).sqrt();
        assert!((variation - 0.5).abs() < 0.03, "{variation}");
        assert_eq!(Times::uneven(20e6, 0.0), Times::even(20_000_000));
    }

    #[test]
    fn quantiles_of_the_normal_distribution_are_known_ones() {
        for (share, z) in [(0.5, 0.0), (0.975, 1.959_964), (0.001, -3.090_232)] {
            assert!((normal_quantile(share) - z).abs() < 1e-5, "{share}");
        }
    }
}
