//! Mean and deviation of the mel values, from some clips that stand for all.

use crate::draw::draw;
use crate::manifest::Split;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use voxmill_audio::AudioSettingsError;

use super::FeatureStore;
use crate::featurize::ClipFeaturizer;

/// Mean and standard deviation of all log-mel values: measured once before the first step, then
/// part of the voice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MelStatistics {
    pub mean: f32,
    pub deviation: f32,
}

/// Statistics and how many clips they come from; bad clips are skipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledStatistics {
    pub statistics: MelStatistics,
    pub clips: usize,
}

/// A dataset of silence has no deviation, and features are divided by it.
const LEAST_DEVIATION: f64 = 1e-3;

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    values: u64,
    sum: f64,
    squares: f64,
}

impl FeatureStore {
    /// Clips of a split chosen by a hash of (seed, id): others that come or go do not matter to one.
    pub fn sample_clips(&self, split: Split, count: usize, seed: u64) -> Vec<usize> {
        let clips = self.clips();
        let has_text = |&clip: &usize| self.token_count(clip).is_some();
        let mut drawn: Vec<usize> = (0..clips.len())
            .filter(|&clip| clips[clip].split == split)
            .filter(has_text)
            .collect();
        drawn.sort_by_cached_key(|&clip| {
            let id = &clips[clip].id;
            (draw(seed, 0, id, "mel statistics"), id)
        });
        drawn.truncate(count);
        drawn
    }

    /// In parallel on the current rayon pool; the same to the last bit on any number of threads. New
    /// features are kept. `None`: no clip could be read.
    pub fn mel_statistics(
        &self,
        clips: &[usize],
    ) -> Result<Option<SampledStatistics>, AudioSettingsError> {
        let audio = &self.recipe().audio;
        ClipFeaturizer::new(audio)?;
        let read = |featurizer: &mut Option<ClipFeaturizer>, &clip: &usize| {
            let featurizer = featurizer.as_mut()?;
            let (sums, new) = self.with_mel(clip, featurizer, sums_of).ok()?;
            self.keep(new.as_slice());
            Some(sums)
        };
        // Clips differ in length, and each portion needs a new featurizer.
        let portion = clips.len().div_ceil(4 * rayon::current_num_threads());
        let of_clips: Vec<_> = clips
            .par_iter()
            .with_min_len(portion.max(1))
            .map_init(|| ClipFeaturizer::new(audio).ok(), read)
            .collect();
        // One after the other in the clips' order: sums of floats depend on it.
        let mut all = Sums::default();
        let mut read = 0;
        for sums in of_clips.into_iter().flatten() {
            all.values += sums.values;
            all.sum += sums.sum;
            all.squares += sums.squares;
            read += 1;
        }
        Ok((all.values > 0).then(|| {
            let mean = all.sum / all.values as f64;
            let variance = all.squares / all.values as f64 - mean * mean;
            SampledStatistics {
                statistics: MelStatistics {
                    mean: mean as f32,
                    deviation: variance.max(0.0).sqrt().max(LEAST_DEVIATION) as f32,
                },
                clips: read,
            }
        }))
    }
}

fn sums_of(mel: &[f32]) -> Sums {
    let mut sums = Sums {
        values: mel.len() as u64,
        ..Sums::default()
    };
    for &value in mel {
        let value = f64::from(value);
        sums.sum += value;
        sums.squares += value * value;
    }
    sums
}
