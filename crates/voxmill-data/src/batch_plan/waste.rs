//! How much of what the device computes is padding.
//!
//! Three measures of the same clips put the plan's own waste in proportion: batches at random,
//! everything padded to the longest, and the best that any number of shapes could do if batches
//! always came out full.

use serde::{Deserialize, Serialize};

use super::shapes::LeastPadding;
use super::{BatchPlan, BatchSettings, EpochPlan, PlanClip};
use crate::draw::draw;

/// Of what a batch holds, how much is data. Masked rows count as padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padded {
    pub valid: u64,
    pub padded: u64,
}

impl Padded {
    /// 1 − valid / padded. 0: no padding at all; 0.5: half of the work is discarded.
    pub fn waste(self) -> f64 {
        match self.padded {
            0 => 0.0,
            padded => 1.0 - self.valid as f64 / padded as f64,
        }
    }

    /// Adds lengths that are all padded to the longest of them, rounded up.
    fn add(&mut self, lengths: impl ExactSizeIterator<Item = u32>, multiple: u32) {
        let (count, mut longest) = (lengths.len() as u64, 0);
        for length in lengths.map(u64::from) {
            self.valid += length;
            longest = longest.max(length);
        }
        self.padded += count * longest.next_multiple_of(u64::from(multiple));
    }
}

/// Frames are what training costs; tokens are shown next to them.
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

    /// Shuffled clips, `batch_size` at a time, each batch padded to its own longest clip, rounded as the plan
    /// rounds: what a plain data loader does.
    pub fn of_random_batches(clips: &[PlanClip], settings: &BatchSettings) -> Self {
        let (batch_size, seed) = (settings.batch_size.get() as usize, settings.seed);
        let [frames, tokens] = [settings.frame_multiple.get(), settings.token_multiple.get()];
        let mut order: Vec<&PlanClip> = clips.iter().collect();
        order.sort_by_cached_key(|clip| (draw(seed, 0, &clip.id, "clip order"), &clip.id));
        let mut waste = Self::default();
        for batch in order.chunks(batch_size) {
            waste
                .frames
                .add(batch.iter().map(|clip| clip.frames), frames);
            waste
                .tokens
                .add(batch.iter().map(|clip| clip.tokens), tokens);
        }
        waste
    }

    /// Every clip padded to the longest of all, rounded as the plan rounds.
    pub fn of_longest(clips: &[PlanClip], settings: &BatchSettings) -> Self {
        let [frames, tokens] = [settings.frame_multiple.get(), settings.token_multiple.get()];
        let mut waste = Self::default();
        waste
            .frames
            .add(clips.iter().map(|clip| clip.frames), frames);
        waste
            .tokens
            .add(clips.iter().map(|clip| clip.tokens), tokens);
        waste
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
    let mut count = 1;
    while count < shapes && padding.add_shape() {
        count += 1;
    }
    Padded {
        valid: lengths.into_iter().map(u64::from).sum(),
        padded: padding.padded_frames(),
    }
}
