//! How much of what the device computes is padding.
//!
//! Beside the plan's own waste stand three measures of the same clips that put it in proportion:
//! batches at random, everything padded to the longest, and the best that any number of shapes
//! could do if batches always came out full.

use serde::{Deserialize, Serialize};

use super::shapes::LeastPadding;
use super::{BatchPlan, EpochPlan, PlanClip};
use crate::draw::draw;

/// Of what a batch holds, how much is data. Masked rows count as padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padded {
    pub valid: u64,
    pub padded: u64,
}

impl Padded {
    /// 1 − valid / padded. 0: no padding at all; 0.5: half of the work is thrown away.
    pub fn waste(self) -> f64 {
        if self.padded == 0 {
            return 0.0;
        }
        1.0 - self.valid as f64 / self.padded as f64
    }
}

/// Frames are what training costs; tokens are shown beside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaddingWaste {
    pub frames: Padded,
    pub tokens: Padded,
}

impl PaddingWaste {
    /// Counted batch by batch, masked rows and last batches included. It is the same in every
    /// epoch of a plan.
    pub fn of_epoch(plan: &BatchPlan, epoch: &EpochPlan) -> Self {
        let mut waste = Self::default();
        for batch in &epoch.batches {
            let shape = epoch.shape(batch);
            waste.frames.padded += u64::from(shape.rows) * u64::from(shape.frames);
            waste.tokens.padded += u64::from(shape.rows) * u64::from(shape.tokens);
            for row in &batch.rows {
                waste.frames.valid += u64::from(plan.clips()[row.clip].frames);
                waste.tokens.valid += u64::from(plan.clips()[row.clip].tokens);
            }
        }
        waste
    }

    /// Shuffled clips, `batch_size` at a time, each batch padded to its own longest clip:
    /// what a plain data loader does.
    pub fn of_random_batches(clips: &[PlanClip], batch_size: usize, seed: u64) -> Self {
        let mut order: Vec<_> = clips
            .iter()
            .map(|clip| (draw(seed, 0, &clip.id, "clip order"), clip))
            .collect();
        order.sort_unstable_by(|a, b| (a.0, &a.1.id).cmp(&(b.0, &b.1.id)));
        let mut waste = Self::default();
        for batch in order.chunks(batch_size.max(1)) {
            waste.add_padded_to_longest(batch.iter().map(|(_, clip)| *clip));
        }
        waste
    }

    /// Every clip padded to the longest of all.
    pub fn of_longest(clips: &[PlanClip]) -> Self {
        let mut waste = Self::default();
        waste.add_padded_to_longest(clips.iter());
        waste
    }

    fn add_padded_to_longest<'a>(&mut self, clips: impl Iterator<Item = &'a PlanClip>) {
        let (mut count, mut frames, mut tokens) = (0, 0, 0);
        for clip in clips {
            count += 1;
            frames = frames.max(u64::from(clip.frames));
            tokens = tokens.max(u64::from(clip.tokens));
            self.frames.valid += u64::from(clip.frames);
            self.tokens.valid += u64::from(clip.tokens);
        }
        self.frames.padded += count * frames;
        self.tokens.padded += count * tokens;
    }
}

/// The fewest frames that padding to at most `shapes` lengths can take, with no length rounded
/// and no batch ever partial: no plan can do better.
pub fn least_padded_frames(clips: &[PlanClip], shapes: usize) -> Padded {
    let mut lengths: Vec<u32> = clips.iter().map(|clip| clip.frames).collect();
    lengths.sort_unstable();
    if lengths.is_empty() {
        return Padded::default();
    }
    let mut padding = LeastPadding::new(&lengths);
    for _ in 1..shapes {
        if !padding.add_shape() {
            break;
        }
    }
    Padded {
        valid: lengths.iter().map(|&frames| u64::from(frames)).sum(),
        padded: padding.padded_frames(),
    }
}
