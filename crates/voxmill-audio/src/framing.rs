//! Where frames lie in samples: how many there are, and which samples each of them sees.

use std::ops::Range;

/// Frame `t` is the window of `n_fft` samples that begins at sample `t * hop`. Both are at least 1.
///
/// The frames of a clip are centred, so those at its ends reach beyond it; [`Framing::lay_out`] puts
/// there what the clip is padded with, and then the plain rule above holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    pub n_fft: usize,
    pub hop: usize,
}

impl Framing {
    /// Frames of a clip, before anything is laid out.
    pub fn frames_of_clip(&self, samples: usize) -> usize {
        match samples {
            0 => 0,
            samples => 1 + samples / self.hop,
        }
    }

    /// Hops that one window stretches over.
    pub fn overlap(&self) -> usize {
        self.n_fft.div_ceil(self.hop)
    }

    /// Samples of the whole hops that hold this many frames: rows of this width can be cut at every hop.
    pub fn row_width(&self, frames: usize) -> usize {
        (frames + self.overlap() - 1) * self.hop
    }

    /// Whole frames in a number of samples that are laid out.
    pub fn frames_in(&self, samples: usize) -> usize {
        samples
            .checked_sub(self.n_fft)
            .map_or(0, |rest| 1 + rest / self.hop)
    }

    /// The samples that some frames see, out of those that are laid out.
    pub fn under<'a, T>(&self, laid_out: &'a [T], frames: Range<usize>) -> &'a [T] {
        &laid_out[self.samples_under(frames)]
    }

    /// The samples that some frames of a clip see: its own on both sides, reflected ones where it ends.
    pub fn lay_out(&self, clip: &[f32], frames: Range<usize>) -> Vec<f32> {
        let under = self.samples_under(frames);
        match inside(clip, under.clone(), self.n_fft / 2) {
            Some(inside) => inside.to_vec(),
            None => reflected(clip, under, self.n_fft / 2).collect(),
        }
    }

    fn samples_under(&self, frames: Range<usize>) -> Range<usize> {
        let start = frames.start * self.hop;
        match frames.len() {
            0 => start..start,
            count => start..start + (count - 1) * self.hop + self.n_fft,
        }
    }
}

/// Some samples of a clip that is padded by reflection at its first and last sample; only those that
/// reach into the padding are copied. Places are counted from the beginning of the padding.
pub(super) fn centred<'a>(
    samples: &'a [f32],
    places: Range<usize>,
    padding: usize,
    buffer: &'a mut Vec<f32>,
) -> &'a [f32] {
    if let Some(inside) = inside(samples, places.clone(), padding) {
        return inside;
    }
    buffer.clear();
    buffer.extend(reflected(samples, places, padding));
    buffer
}

/// `None`: some places are not the clip's own.
fn inside(samples: &[f32], places: Range<usize>, padding: usize) -> Option<&[f32]> {
    let start = places.start.checked_sub(padding)?;
    samples.get(start..start + places.len())
}

/// A clip shorter than the padding is reflected to and fro, and a single sample repeated, as numpy
/// does.
fn reflected(
    samples: &[f32],
    places: Range<usize>,
    padding: usize,
) -> impl Iterator<Item = f32> + '_ {
    let last = samples.len().saturating_sub(1);
    let period = (2 * last).max(1);
    places.map(move |place| {
        let distance = place.abs_diff(padding);
        if distance <= last {
            return samples[distance];
        }
        let place = distance % period;
        samples[place.min(period - place).min(last)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AudioSettings, LogMel};

    const SMALL: Framing = Framing { n_fft: 4, hop: 3 };

    #[test]
    fn frames_are_counted_as_they_lie() {
        let of_clip = [0, 1, 2, 3, 6].map(|n| SMALL.frames_of_clip(n));
        assert_eq!(of_clip, [0, 1, 1, 2, 3]);
        let laid_out = [0, 3, 4, 6, 7, 10].map(|n| SMALL.frames_in(n));
        assert_eq!(laid_out, [0, 0, 1, 1, 2, 3]);
        assert_eq!((SMALL.overlap(), SMALL.row_width(5)), (2, 18));
        for frames in 0..9 {
            assert!(SMALL.frames_in(SMALL.row_width(frames)) >= frames);
        }
    }

    #[test]
    fn only_what_lies_beyond_the_clip_is_reflected() {
        let clip = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(SMALL.lay_out(&clip, 0..1), [2.0, 1.0, 0.0, 1.0]);
        assert_eq!(SMALL.lay_out(&clip, 1..2), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(SMALL.lay_out(&clip, 1..3)[3..], [4.0, 5.0, 6.0, 5.0]);
        assert_eq!(SMALL.lay_out(&[7.0], 0..1), [7.0; 4]);
        assert!(SMALL.lay_out(&[], 0..0).is_empty());
        let whole = SMALL.lay_out(&clip, 0..3);
        assert_eq!(SMALL.frames_in(whole.len()), SMALL.frames_of_clip(7));
        assert_eq!(SMALL.under(&whole, 1..3), SMALL.lay_out(&clip, 1..3));
        assert!(SMALL.under(&whole, 2..2).is_empty());
    }

    #[test]
    fn laid_out_samples_give_the_frames_of_the_clip() {
        for (n_fft, hop_length) in [(1024, 256), (400, 160), (64, 64)] {
            let settings = AudioSettings {
                n_fft,
                hop_length,
                n_mels: 8,
                ..AudioSettings::default()
            };
            let framing = settings.framing();
            let mut log_mel = LogMel::new(&settings).unwrap();
            for samples in [1, 100, 5_000, 9_999] {
                let sample = |at| (at as f32 * at as f32 * 1e-4).sin() * 0.3;
                let clip: Vec<f32> = (0..samples).map(sample).collect();
                let (mut whole, mut part) = (Vec::new(), Vec::new());
                log_mel.log_mel(&clip, &mut whole);
                let frames = framing.frames_of_clip(samples);
                for range in [0..frames, frames / 3..frames, 0..frames.div_ceil(2)] {
                    let laid_out = framing.lay_out(&clip, range.clone());
                    log_mel.log_mel_as_laid_out(&laid_out, &mut part);
                    let same = &whole[range.start * 8..range.end * 8];
                    assert_eq!(part.len(), same.len());
                    assert!(part.iter().zip(same).all(|(a, b)| (a - b).abs() < 1e-5));
                }
            }
        }
    }
}
