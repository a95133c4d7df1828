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
struct MelSums {
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

    /// The samples of a few clips of a split, from the shortest to the longest among those of at most `longest` frames.
    /// A clip that cannot be read is left out here, and listed as bad.
    pub fn waveforms_by_length(
        &self,
        split: Split,
        count: usize,
        longest: u32,
    ) -> Result<Vec<Vec<f32>>, AudioSettingsError> {
        let mut clips = self.sample_clips(split, usize::MAX, 0);
        clips.retain(|&clip| self.planned_frames(clip) <= longest);
        clips.sort_by_key(|&clip| self.planned_frames(clip));
        let steps = count.saturating_sub(1).max(1);
        let last = clips.len().saturating_sub(1);
        let mut places: Vec<usize> = (0..count).map(|n| (n * last).div_ceil(steps)).collect();
        places.dedup();
        let mut featurizer = ClipFeaturizer::new(&self.recipe().audio)?;
        let chosen = places.into_iter().filter_map(|place| clips.get(place));
        let read = |&clip| self.with_waveform(clip, &mut featurizer, <[f32]>::to_vec);
        Ok(chosen.map(read).filter_map(Result::ok).collect())
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
        let mut all = MelSums::default();
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

/// Of a clip's frames, those that are taken for its pauses: most recordings begin and end with some.
const QUIETEST: usize = 20;

impl FeatureStore {
    /// The mean log-mel frame of pauses: of the quietest twentieth of each clip's frames. `None`: no clip could be
    /// read.
    pub fn pause_frame(&self, clips: &[usize]) -> Result<Option<Vec<f32>>, AudioSettingsError> {
        let audio = &self.recipe().audio;
        let channels = audio.n_mels;
        let mut featurizer = ClipFeaturizer::new(audio)?;
        let mut sum = vec![0.0_f64; channels];
        let mut frames = 0_u32;
        for &clip in clips {
            let quiet = |mel: &[f32]| quietest(mel, channels);
            // A clip that cannot be read is found, and listed, by whoever trains on it.
            let Ok((quiet, new)) = self.with_mel(clip, &mut featurizer, quiet) else {
                continue;
            };
            self.keep(new.as_slice());
            for frame in quiet.chunks_exact(channels) {
                frames += 1;
                for (sum, &value) in sum.iter_mut().zip(frame) {
                    *sum += f64::from(value);
                }
            }
        }
        let mean = |sum: f64| (sum / f64::from(frames)) as f32;
        Ok((frames > 0).then(|| sum.into_iter().map(mean).collect()))
    }
}

/// The quietest twentieth of the frames, at least one where there is any.
fn quietest(mel: &[f32], channels: usize) -> Vec<f32> {
    let mut frames: Vec<&[f32]> = mel.chunks_exact(channels).collect();
    let level = |frame: &&[f32]| frame.iter().sum::<f32>();
    frames.sort_by(|a, b| level(a).total_cmp(&level(b)));
    frames.truncate(frames.len().div_ceil(QUIETEST));
    frames.concat()
}

fn sums_of(mel: &[f32]) -> MelSums {
    let mut sums = MelSums {
        values: mel.len() as u64,
        ..MelSums::default()
    };
    for &value in mel {
        let value = f64::from(value);
        sums.sum += value;
        sums.squares += value * value;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twentieth_of_the_frames_are_the_pauses() {
        let mut mel = vec![1.0; 2 * 40];
        mel[6..8].fill(-9.0);
        mel[20..22].fill(-8.0);
        assert_eq!(quietest(&mel, 2), [-9.0, -9.0, -8.0, -8.0]);
        assert_eq!(quietest(&[3.0, 4.0], 2), [3.0, 4.0]);
        assert!(quietest(&[], 2).is_empty());
    }
}
