//! Mean and deviation of the mel values, from some clips that stand for all.

use rayon::prelude::*;
use voxmill_speech::audio::AudioSettingsError;
use voxmill_speech::draw::draw;
use voxmill_speech::manifest::Split;

use super::super::Maker;
use super::shelf::Shelf;

/// Over all values of all clips together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MelStatistics {
    pub(crate) mean: f64,
    pub(crate) standard_deviation: f64,
    /// Clips that were looked at; bad ones are passed over.
    pub(crate) clips: usize,
    pub(crate) values: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    values: u64,
    sum: f64,
    squares: f64,
}

impl Shelf {
    /// Clips of a split chosen by a hash of (seed, id): others that come or go do not matter to one.
    pub(crate) fn sample_clips(&self, split: Split, count: usize, seed: u64) -> Vec<usize> {
        let mut drawn: Vec<_> = self
            .clips()
            .iter()
            .enumerate()
            .filter(|(number, clip)| clip.split == split && self.token_count(*number).is_some())
            .map(|(number, clip)| (draw(seed, 0, &clip.id, "mel statistics"), &clip.id, number))
            .collect();
        drawn.sort_unstable();
        drawn.truncate(count);
        drawn.into_iter().map(|(_, _, number)| number).collect()
    }

    /// In parallel on the current rayon pool; the same to the last bit on any number of threads. What
    /// is made for it is kept. `None`: no clip could be read.
    pub(crate) fn mel_statistics(
        &self,
        clips: &[usize],
    ) -> Result<Option<MelStatistics>, AudioSettingsError> {
        let audio = &self.recipe().audio;
        Maker::new(audio)?;
        let of_clips: Vec<_> = clips
            .par_iter()
            // Clips differ in length, and a worker is asked for a new maker with each stretch.
            .with_min_len(
                clips
                    .len()
                    .div_ceil(4 * rayon::current_num_threads())
                    .max(1),
            )
            .map_init(
                || Maker::new(audio).ok(),
                |maker, &clip| {
                    let maker = maker.as_mut()?;
                    let (sums, new) = self.with_mel(clip, maker, sums_of).ok()?;
                    self.keep(new.as_slice());
                    Some(sums)
                },
            )
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
            MelStatistics {
                mean,
                standard_deviation: variance.max(0.0).sqrt(),
                clips: read,
                values: all.values,
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
