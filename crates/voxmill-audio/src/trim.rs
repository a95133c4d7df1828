//! Cutting silence at a clip's ends.

use std::ops::Range;

use super::AudioSettings;

/// The part of a clip from its first to its last frame that is at most `trim_db` quieter than its
/// loudest one. Frames are those of the features; a clip of digital silence stays whole, for there
/// is nothing to keep instead.
pub(crate) fn trim_silence(
    samples: &[f32],
    trim_db: f32,
    settings: &AudioSettings,
) -> Range<usize> {
    let half = settings.n_fft / 2;
    let energy = |frame: usize| {
        let centre = frame * settings.hop_length;
        let end = (centre + half).min(samples.len());
        let window = &samples[centre.saturating_sub(half).min(end)..end];
        window.iter().map(|&s| f64::from(s) * f64::from(s)).sum()
    };
    let frames = 0..settings.frames_for(samples.len() as u64);
    let energies: Vec<f64> = frames.map(energy).collect();
    let loudest = energies.iter().copied().fold(0.0, f64::max);
    let quietest_kept = loudest * 10_f64.powf(-f64::from(trim_db) / 10.0);
    if loudest == 0.0 {
        return 0..samples.len();
    }
    let kept = |energy: &f64| *energy > quietest_kept;
    let first = energies.iter().position(kept).unwrap_or(0);
    let last = energies.iter().rposition(kept);
    let last = last.unwrap_or(energies.len() - 1);
    let end = ((last + 1) * settings.hop_length).min(samples.len());
    // The centred last frame may start where the samples end.
    let start = (first * settings.hop_length).min(end.saturating_sub(1));
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn silence_is_cut_to_within_a_window() {
        let settings = AudioSettings::default();
        let mut samples = vec![0.0001; 30_000];
        for (n, sample) in samples[10_000..20_000].iter_mut().enumerate() {
            *sample = (n as f32 * 0.2).sin();
        }
        let kept = trim_silence(&samples, 40.0, &settings);
        assert!((10_000 - 512..=10_000).contains(&kept.start), "{kept:?}");
        assert!((20_000..=20_000 + 768).contains(&kept.end), "{kept:?}");
    }

    #[test]
    fn digital_silence_stays() {
        let settings = AudioSettings::default();
        assert_eq!(trim_silence(&[0.0; 4000], 40.0, &settings), 0..4000);
    }

    proptest! {
        #[test]
        fn something_is_always_left(
            samples in prop::collection::vec(-1.0_f32..1.0, 1..3000),
            trim_db in 0.001_f32..200.0,
        ) {
            let kept = trim_silence(&samples, trim_db, &AudioSettings::default());
            prop_assert!(!kept.is_empty() && kept.end <= samples.len());
        }
    }
}
