//! How often which time span occurred, in little room and with a known error.
//!
//! Spans below 16 ns have a bucket each; above, every doubling is cut into 16 buckets of equal
//! width, so the middle of a bucket is at most 1/32 (3.1 %) away from anything in it. Twice as many
//! would make busy logs larger than 50 MB an hour. For the same reason a line of the log has room for
//! about 64 buckets ([`Histogram::coarsen`]): where spans spread wider, neighbours are put together, two, four or
//! more of them, and quantiles are that much coarser ([`Histogram::quantile_error`]). Count, sum,
//! sum of squares, smallest and largest are always exact. All of them are whole numbers: histograms
//! added in any order are equal.

use serde::{Deserialize, Serialize};

use crate::event::Nanos;

/// A doubling is cut into `2^SUB_BITS` buckets.
const SUB_BITS: u32 = 4;
const SUBS: u64 = 1 << SUB_BITS;
/// For the buckets of one line in the log.
const MOST_ROOM: usize = 66;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUBS as usize;

/// How often spans of each length came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "WrittenHistogram", try_from = "WrittenHistogram")]
pub struct Histogram {
    /// By bucket, up to the last that is not empty.
    counts: Vec<u64>,
    /// Each of them is `2^coarse` buckets of the finest kind.
    coarse: u32,
    count: u64,
    sum: u64,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < SUBS {
        return nanos as usize;
    }
    let doubling = nanos.ilog2() - SUB_BITS;
    let sub = (nanos >> doubling) - SUBS;
    (u64::from(doubling + 1) * SUBS + sub) as usize
}

/// The smallest and the largest span of a bucket.
fn ends_of(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < SUBS {
        return (bucket, bucket);
    }
    let doubling = bucket / SUBS - 1;
    let low = (SUBS + bucket % SUBS) << doubling;
    (low, low + ((1u64 << doubling) - 1))
}

fn middle_of(bucket: usize, coarse: u32) -> u64 {
    let first = bucket << coarse;
    let last = (first + (1 << coarse) - 1).min(BUCKETS - 1);
    let (low, high) = (ends_of(first).0, ends_of(last).1);
    low + (high - low) / 2
}

impl Histogram {
    /// The middle of a bucket of the finest kind is at most this share away from any span in it.
    pub const ERROR: f64 = 1.0 / (2 * SUBS) as f64;
    /// A bucket for each doubling. From nanoseconds to hours they fit into a line, wherever there
    /// are gaps.
    const COARSEST: u32 = SUB_BITS;

    /// Puts neighbouring buckets together until the rest fits into a line of the log.
    pub(crate) fn coarsen(&mut self) {
        while self.room() > MOST_ROOM && self.coarse < Self::COARSEST {
            self.coarsen_to(self.coarse + 1);
        }
    }

    /// What the written form takes: a run's brackets and number are as long as two counts.
    fn room(&self) -> usize {
        let full = self.runs().filter(|run| run[0] > 0);
        full.map(|run| run.len() + 2).sum()
    }

    /// Neighbouring buckets that are all empty or all not.
    fn runs(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunk_by(|a, b| (*a > 0) == (*b > 0))
    }

    fn coarsen_to(&mut self, coarse: u32) {
        if coarse > self.coarse {
            let pairs = self.counts.chunks(1 << (coarse - self.coarse));
            let sum = |counts: &[u64]| counts.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
            self.counts = pairs.map(sum).collect();
            self.coarse = coarse;
        }
    }

    /// How far, at most, a quantile is from the exact one, as a share of it. A run's histogram is
    /// as coarse as the coarsest second that is in it.
    pub fn quantile_error(&self) -> f64 {
        Self::ERROR * f64::from(1u32 << self.coarse)
    }

    /// One span more.
    pub fn record(&mut self, span: Nanos) {
        let Nanos(nanos) = span;
        let bucket = bucket_of(nanos) >> self.coarse;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        let square = u128::from(nanos) * u128::from(nanos);
        self.add_exact(1, nanos, square, nanos, nanos);
    }

    fn add_exact(&mut self, count: u64, sum: u64, squares: u128, min: u64, max: u64) {
        self.min = match self.count {
            0 => min,
            _ => self.min.min(min),
        };
        self.max = self.max.max(max);
        // Beyond centuries sums stop at the largest number, which keeps them free of order.
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(squares);
    }

    /// All spans of the other, too.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        self.coarsen_to(other.coarse);
        let finer = self.coarse - other.coarse;
        let len = ((other.counts.len() - 1) >> finer) + 1;
        if self.counts.len() < len {
            self.counts.resize(len, 0);
        }
        for (bucket, theirs) in other.counts.iter().enumerate() {
            let mine = &mut self.counts[bucket >> finer];
            *mine = mine.saturating_add(*theirs);
        }
        let squares = other.sum_of_squares;
        self.add_exact(other.count, other.sum, squares, other.min, other.max);
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together.
    pub fn sum(&self) -> Nanos {
        Nanos(self.sum)
    }

    /// Zero when nothing was recorded, as with all that follow.
    pub fn min(&self) -> Nanos {
        Nanos(self.min)
    }

    /// The longest one, exactly.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The mean, exactly; 0 where nothing was recorded.
    pub fn mean_nanos(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The standard deviation of everything recorded (not an estimate for a larger population).
    pub fn std_nanos(&self) -> f64 {
        let count = u128::from(self.count);
        let square_of_sum = u128::from(self.sum) * u128::from(self.sum);
        // The difference of two large numbers: exact as long as it fits.
        let spread = match count.checked_mul(self.sum_of_squares) {
            Some(squares) => squares.saturating_sub(square_of_sum) as f64,
            None => (count as f64 * self.sum_of_squares as f64 - square_of_sum as f64).max(0.0),
        };
        spread.sqrt() / self.count.max(1) as f64
    }

    /// Standard deviation over mean. Near 0: steady. Above 0.3: users are warned.
    pub fn variation(&self) -> f64 {
        let mean = self.mean_nanos();
        if mean > 0.0 {
            self.std_nanos() / mean
        } else {
            0.0
        }
    }

    /// Shortest first: between which two spans, in nanoseconds, how many lie.
    pub fn spans(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let full = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        full.map(|(bucket, &count)| {
            let first = bucket << self.coarse;
            let last = (first + (1 << self.coarse) - 1).min(BUCKETS - 1);
            let within = |nanos: u64| nanos.clamp(self.min, self.max) as f64;
            (within(ends_of(first).0), within(ends_of(last).1), count)
        })
    }

    /// The span that a share `q` of all spans does not exceed, to within
    /// [`Histogram::quantile_error`].
    pub fn quantile(&self, q: f64) -> Nanos {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let rank = rank.clamp(1, self.count.max(1));
        let mut seen = 0u64;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return Nanos(middle_of(bucket, self.coarse).clamp(self.min, self.max));
            }
        }
        Nanos(self.max)
    }

    /// The median.
    pub fn p50(&self) -> Nanos {
        self.quantile(0.50)
    }

    /// What one in twenty is longer than.
    pub fn p95(&self) -> Nanos {
        self.quantile(0.95)
    }

    /// What one in a hundred is longer than.
    pub fn p99(&self) -> Nanos {
        self.quantile(0.99)
    }
}

/// The form in the log: runs of buckets that are not empty, each `[first bucket, count, count, …]`.
#[derive(Serialize, Deserialize)]
struct WrittenHistogram {
    #[serde(default)]
    sum: u64,
    /// In digits: JSON readers, and serde behind a tag, stop at 64 bits.
    #[serde(default)]
    squares: String,
    #[serde(default)]
    min: u64,
    #[serde(default)]
    max: u64,
    /// Absent for the finest.
    #[serde(default, skip_serializing_if = "is_finest")]
    coarse: u32,
    #[serde(default)]
    buckets: Vec<Vec<u64>>,
}

fn is_finest(coarse: &u32) -> bool {
    *coarse == 0
}

impl From<Histogram> for WrittenHistogram {
    fn from(histogram: Histogram) -> WrittenHistogram {
        let mut buckets: Vec<Vec<u64>> = Vec::new();
        let mut first = 0;
        for run in histogram.runs() {
            if run[0] > 0 {
                buckets.push([&[first][..], run].concat());
            }
            first += run.len() as u64;
        }
        WrittenHistogram {
            sum: histogram.sum,
            squares: histogram.sum_of_squares.to_string(),
            min: histogram.min,
            max: histogram.max,
            coarse: histogram.coarse,
            buckets,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum BadHistogram {
    #[error("a histogram's bucket {bucket} is none of {BUCKETS}")]
    NoSuchBucket { bucket: u64 },
    #[error("a histogram is coarser than any: {0}")]
    TooCoarse(u32),
    #[error("a histogram's buckets are out of order or empty")]
    BadRun,
    #[error("a histogram's smallest and largest are not in its first and last bucket")]
    BadRange,
    #[error("a histogram's sum of squares is not a number: `{0}`")]
    BadSquares(String),
}

impl TryFrom<WrittenHistogram> for Histogram {
    type Error = BadHistogram;

    fn try_from(written: WrittenHistogram) -> Result<Histogram, BadHistogram> {
        let coarse = written.coarse;
        if coarse > Histogram::COARSEST {
            return Err(BadHistogram::TooCoarse(coarse));
        }
        let mut counts = Vec::new();
        for run in &written.buckets {
            let Some((&first, run)) = run.split_first() else {
                return Err(BadHistogram::BadRun);
            };
            let last = first.saturating_add(run.len() as u64);
            if last > (BUCKETS as u64).div_ceil(1 << coarse) {
                return Err(BadHistogram::NoSuchBucket { bucket: last });
            }
            if (first as usize) < counts.len() || run.is_empty() || run.contains(&0) {
                return Err(BadHistogram::BadRun);
            }
            counts.resize(first as usize, 0);
            counts.extend_from_slice(run);
        }
        let count = counts.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        if count == 0 {
            return Ok(Histogram::default());
        }
        let first = counts.iter().position(|&n| n > 0);
        let bucket = |nanos| bucket_of(nanos) >> coarse;
        let in_order = written.min <= written.max;
        let in_first = first == Some(bucket(written.min));
        if !in_order || !in_first || counts.len() != bucket(written.max) + 1 {
            return Err(BadHistogram::BadRange);
        }
        let Ok(sum_of_squares) = written.squares.parse() else {
            return Err(BadHistogram::BadSquares(written.squares));
        };
        Ok(Histogram {
            counts,
            coarse,
            count,
            sum: written.sum,
            sum_of_squares,
            min: written.min,
            max: written.max,
        })
    }
}

#[cfg(test)]
mod tests;
