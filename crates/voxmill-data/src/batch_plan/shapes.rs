//! The few shapes that all clips are padded to.
//!
//! Two steps. Dynamic programming finds the lengths to which clips, sorted by length, are padded
//! with the fewest frames wasted. Then each bucket gives the clips that do not fill a batch to the
//! next longer one, because a dozen partial batches cost more than the twelfth shape saves.
//!
//! Where clips are few, empty rows and merged buckets can cost more than random batches waste. Then the fewest
//! shapes are looked for that do not, with empty rows counted in.

use std::ops::RangeInclusive;

#[doc(inline)]
pub use voxmill_telemetry::shape::Shape;

use super::waste::PaddingWaste;
use super::{BatchSettings, PlanClip, ShapeChoice};

/// The clips that share a shape, in every epoch the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub shape: Shape,
    /// Numbers of the clips, ascending.
    pub clips: Vec<usize>,
}

impl Bucket {
    /// In an epoch, of all ranks.
    pub fn batches(&self) -> u64 {
        (self.clips.len() as u64).div_ceil(u64::from(self.shape.rows))
    }
}

/// Divides all clips into buckets. `clips` are sorted by id, checked and not empty.
pub(super) fn buckets(clips: &[PlanClip], settings: &BatchSettings) -> Vec<Bucket> {
    let mut by_length: Vec<usize> = (0..clips.len()).collect();
    by_length.sort_unstable_by_key(|&clip| (clips[clip].frames, clip));
    let multiple = settings.frame_multiple.get();
    let rounded = |&clip: &usize| clips[clip].frames.next_multiple_of(multiple);
    let lengths: Vec<u32> = by_length.iter().map(rounded).collect();

    let sized = if settings.pad_to_fixed_length {
        let rows = (lengths.len() as u64).min(settings.batch_size.get().into());
        vec![(lengths.len(), rows)]
    } else {
        let budget = FrameBudget::new(settings, clips);
        let ends = worthwhile_ends(&lengths, settings, &budget);
        let first = whole_batches(&lengths, &ends, &budget);
        match settings.shape_choice {
            ShapeChoice::NoWorseThanRandom if lengths.len() <= FEW_CLIPS => {
                let random = PaddingWaste::of_random_batches(clips, settings)
                    .frames
                    .padded;
                no_worse_than(random, first, &lengths, settings, &budget)
            }
            _ => first,
        }
    };

    let mut start = 0;
    let bucket = |(end, rows): (usize, u64)| {
        let mut members = by_length[start..end].to_vec();
        members.sort_unstable();
        start = end;
        let tokens = members.iter().map(|&clip| clips[clip].tokens).max();
        let tokens = tokens.expect("a bucket ends after it starts");
        let shape = Shape {
            frames: lengths[end - 1],
            tokens: tokens.next_multiple_of(settings.token_multiple.get()),
            rows: u32::try_from(rows).expect("rows are capped to 32 bits"),
        };
        let clips = members;
        Bucket { shape, clips }
    };
    sized.into_iter().map(bucket).collect()
}

/// The padded frames that a batch of any shape should come near to: batch size × mean length,
/// kept as a fraction so that nothing is rounded before the rows are.
struct FrameBudget {
    frames: u128,
    clips: u128,
}

impl FrameBudget {
    fn new(settings: &BatchSettings, clips: &[PlanClip]) -> Self {
        let total: u128 = clips.iter().map(|clip| u128::from(clip.frames)).sum();
        Self {
            frames: u128::from(settings.batch_size.get()) * total,
            clips: clips.len() as u128,
        }
    }

    /// The row count whose frames are nearest to the budget.
    fn rows(&self, frames: u32) -> u64 {
        let per_row = u128::from(frames) * self.clips;
        let nearest = (2 * self.frames + per_row) / (2 * per_row);
        // Where that is beyond 32 bits there are not that many clips either.
        nearest.clamp(1, u32::MAX.into()) as u64
    }

    /// Whether a batch is more than twice as many frames.
    fn is_over_twice(&self, frames: u64) -> bool {
        2 * u128::from(frames) * self.clips < self.frames
    }
}

/// Ends (in clips) of the buckets, by dynamic programming. Shapes are added as long as the next
/// one saves at least half a batch an epoch: below that it is not worth its compilation, and its
/// few batches would bring the same clips together in every epoch.
fn worthwhile_ends(lengths: &[u32], settings: &BatchSettings, budget: &FrameBudget) -> Vec<usize> {
    let mut padding = LeastPadding::new(lengths);
    let mut count = 1;
    while count < usize::from(settings.bucket_count.get()) {
        let before = padding.padded_frames();
        // The saving shrinks with every shape, so the first that is too small ends the search.
        if !padding.add_shape() || budget.is_over_twice(before - padding.padded_frames()) {
            break;
        }
        count += 1;
    }
    padding.ends(count)
}

/// Gives each bucket (end, rows), with ends moved down to where batches are full.
///
/// What does not fill a batch goes up into the next bucket if padding it to that length costs no
/// more than a batch of its own; a bucket that does not fill one batch so merges into the next.
/// Otherwise (almost a full batch, or an outlier comes next) it stays, in a partial batch.
fn whole_batches(lengths: &[u32], ends: &[usize], budget: &FrameBudget) -> Vec<(usize, u64)> {
    let mut sized = Vec::with_capacity(ends.len());
    let mut start = 0;
    for pair in ends.windows(2) {
        let mut end = pair[0];
        let next = u64::from(lengths[pair[1] - 1]);
        while end > start {
            let clips = (end - start) as u64;
            let frames = lengths[end - 1];
            let rows = budget.rows(frames);
            let left_over = clips % rows;
            if left_over == 0 || left_over * next > rows * u64::from(frames) {
                sized.push((end, even_rows(clips, rows)));
                start = end;
                break;
            }
            // Without its longest clips a bucket may be shorter, and then hold more rows.
            end -= left_over as usize;
        }
    }
    let clips = (lengths.len() - start) as u64;
    let rows = budget.rows(lengths[lengths.len() - 1]);
    sized.push((lengths.len(), even_rows(clips, rows)));
    sized
}

/// With more clips than this the first way wastes far less than random batches do, and the search below, which is
/// quadratic, would be felt.
const FEW_CLIPS: usize = 1024;

/// `first`, unless it takes more padded frames than `most`: then the fewest shapes that take no more, and where
/// the settings do not allow as many as that needs, the best that they allow.
fn no_worse_than(
    most: u64,
    first: Vec<(usize, u64)>,
    lengths: &[u32],
    settings: &BatchSettings,
    budget: &FrameBudget,
) -> Vec<(usize, u64)> {
    let mut start = 0;
    let of_first = first.iter().map(|&(end, rows)| {
        let clips = (end - start) as u64;
        start = end;
        clips.div_ceil(rows) * rows * u64::from(lengths[end - 1])
    });
    let of_first: u64 = of_first.sum();
    if of_first <= most {
        return first;
    }
    let count = lengths.len();
    let most_rows: Vec<u64> = lengths.iter().map(|&length| budget.rows(length)).collect();
    let padded = |start: usize, end: usize| {
        let clips = (end - start) as u64;
        let rows = even_rows(clips, most_rows[end - 1]);
        clips.div_ceil(rows) * rows * u64::from(lengths[end - 1])
    };
    // best[j]: the fewest padded frames of the first j clips with the shapes so far; cuts: where the last begins.
    let mut best: Vec<u64> = (0..=count)
        .map(|j| if j == 0 { 0 } else { padded(0, j) })
        .collect();
    let mut cuts: Vec<Vec<usize>> = vec![vec![0; count + 1]];
    for _ in 1..settings.bucket_count.get() {
        if best[count] <= most {
            break;
        }
        let mut next = best.clone();
        let mut cut: Vec<usize> = vec![count; count + 1];
        for j in 1..=count {
            let frames = (1..j).map(|i| (best[i] + padded(i, j), i)).min();
            if let Some((frames, i)) = frames.filter(|(frames, _)| *frames < next[j]) {
                (next[j], cut[j]) = (frames, i);
            }
        }
        // One shape more may save nothing, and two a row.
        best = next;
        cuts.push(cut);
    }
    if best[count] >= of_first {
        return first;
    }
    let mut sized = Vec::new();
    let mut end = count;
    for cut in cuts.iter().rev() {
        // `count` stands for: one shape less does as well.
        let start = cut[end];
        if start == count {
            continue;
        }
        sized.push((end, even_rows((end - start) as u64, most_rows[end - 1])));
        end = start;
    }
    sized.reverse();
    sized
}

/// The rows that divide clips evenly over the batches they need: 17 clips in batches of at most 16
/// make 9 + 8, not 16 + 1, with one masked row instead of 15.
fn even_rows(clips: u64, rows: u64) -> u64 {
    clips.div_ceil(clips.div_ceil(rows))
}

/// The fewest padded frames for 1, 2, 3 … shapes.
///
/// With lengths l₁ < … < lₙ and c(i) clips of the first i lengths,
/// best(k, j) = min over i < j of best(k − 1, i) + (c(j) − c(i)) · lⱼ.
/// The cost has the quadrangle property, so the best i grows with j and divide and conquer
/// fills a layer in O(n log n) instead of O(n²).
pub(super) struct LeastPadding {
    lengths: Vec<u32>,
    clips_before: Vec<u64>,
    /// best(k, j) for the last k; 0 shapes hold 0 lengths.
    best: Vec<u64>,
    /// For each k, the best i for each j.
    cuts: Vec<Vec<usize>>,
}

impl LeastPadding {
    /// Starts with one shape. `sorted` must not be empty.
    pub(super) fn new(sorted: &[u32]) -> Self {
        let mut lengths = Vec::new();
        let mut clips_before = vec![0];
        for same in sorted.chunk_by(|a, b| a == b) {
            lengths.push(same[0]);
            clips_before.push(clips_before[lengths.len() - 1] + same.len() as u64);
        }
        let mut best = vec![0];
        best.extend((1..=lengths.len()).map(|j| clips_before[j] * u64::from(lengths[j - 1])));
        let cuts = vec![vec![0; lengths.len() + 1]];
        Self {
            lengths,
            clips_before,
            best,
            cuts,
        }
    }

    pub(super) fn padded_frames(&self) -> u64 {
        self.best[self.lengths.len()]
    }

    /// Adds a shape; false, and no change, when each length has its own already.
    pub(super) fn add_shape(&mut self) -> bool {
        let fewest = self.cuts.len() + 1;
        let most = self.lengths.len();
        if fewest > most {
            return false;
        }
        // Entries below `fewest` would leave a shape empty; they are never read.
        let mut layer = vec![(0, 0); most + 1];
        self.fill(&mut layer, fewest..=most, fewest - 1..=most - 1);
        let (best, cuts) = layer.into_iter().unzip();
        self.best = best;
        self.cuts.push(cuts);
        true
    }

    /// Fills (best, cut) for a range of j whose best cuts lie in `cuts`.
    fn fill(
        &self,
        layer: &mut [(u64, usize)],
        js: RangeInclusive<usize>,
        cuts: RangeInclusive<usize>,
    ) {
        if js.is_empty() {
            return;
        }
        let (low, high) = js.into_inner();
        let (first, last) = cuts.into_inner();
        let j = low.midpoint(high);
        let length = u64::from(self.lengths[j - 1]);
        let padded =
            |i: usize| self.best[i] + (self.clips_before[j] - self.clips_before[i]) * length;
        let best = (first..=last.min(j - 1)).map(|i| (padded(i), i)).min();
        let best = best.expect("the cut of a shorter prefix lies before this one");
        layer[j] = best;
        self.fill(layer, low..=j - 1, first..=best.1);
        self.fill(layer, j + 1..=high, best.1..=last);
    }

    /// Where each of `count` shapes ends, in clips; `count` of the shapes added so far.
    pub(super) fn ends(&self, count: usize) -> Vec<usize> {
        let mut ends = vec![0; count];
        let mut j = self.lengths.len();
        for k in (0..count).rev() {
            ends[k] = self.clips_before[j] as usize;
            j = self.cuts[k][j];
        }
        ends
    }
}
