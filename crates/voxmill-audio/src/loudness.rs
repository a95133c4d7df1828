//! Bringing a clip to a given integrated loudness (EBU R 128, gated).

use ebur128::{EbuR128, Mode};

use super::AudioError;

/// The standard measures in blocks of this length.
const BLOCK_SECONDS: f64 = 0.4;

/// Changes a clip's gain to reach `lufs`, but never so far that its peak exceeds full scale.
/// Returns the gain. A clip too quiet to have a loudness (below -70 LUFS) stays as it is: it would
/// become noise. A clip shorter than the standard's block is measured as if it went on repeating.
pub fn normalize_loudness(
    samples: &mut [f32],
    sample_rate: u32,
    lufs: f32,
) -> Result<f32, AudioError> {
    let loudness = integrated_loudness(samples, sample_rate);
    let loudness = loudness.map_err(|source| AudioError::Processing {
        step: "measure the loudness",
        source: source.into(),
    })?;
    let peak = peak(samples);
    if !loudness.is_finite() || peak == 0.0 {
        return Ok(1.0);
    }
    let wanted = 10_f64.powf((f64::from(lufs) - loudness) / 20.0) as f32;
    // A peak above full scale, as float files may have, is brought down to it.
    let gain = wanted.min(1.0 / peak);
    for sample in samples {
        *sample *= gain;
    }
    Ok(gain)
}

/// The integrated loudness of a clip in LUFS; `None` for one that is too quiet to have any.
pub fn loudness(samples: &[f32], sample_rate: u32) -> Option<f32> {
    let lufs = integrated_loudness(samples, sample_rate).ok()?;
    lufs.is_finite().then_some(lufs as f32)
}

fn peak(samples: &[f32]) -> f32 {
    samples
        .iter()
        .fold(0.0, |peak, sample| peak.max(sample.abs()))
}

fn integrated_loudness(samples: &[f32], sample_rate: u32) -> Result<f64, ebur128::Error> {
    let mut meter = EbuR128::new(1, sample_rate, Mode::I)?;
    let block = (BLOCK_SECONDS * f64::from(sample_rate)).ceil() as usize;
    let mut measured = 0;
    while measured < block && !samples.is_empty() {
        meter.add_frames_f32(samples)?;
        measured += samples.len();
    }
    meter.loudness_global()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 22_050;

    fn sine(amplitude: f32, samples: usize) -> Vec<f32> {
        let step = std::f32::consts::TAU * 997.0 / RATE as f32;
        let sample = |n| amplitude * (n as f32 * step).sin();
        (0..samples).map(sample).collect()
    }

    #[test]
    fn a_sine_of_1_khz_reads_as_the_standard_says() {
        // EBU Tech 3341: a full-scale sine near 1 kHz in one channel reads -3.01 LUFS.
        let loudness = integrated_loudness(&sine(1.0, 44_100), RATE).unwrap();
        assert!((loudness + 3.01).abs() < 0.1, "{loudness}");
    }

    #[test]
    fn silence_has_no_loudness() {
        assert_eq!(loudness(&[0.0; 44_100], RATE), None);
        let lufs = loudness(&sine(0.1, 44_100), RATE).unwrap();
        assert!((lufs + 23.01).abs() < 0.1, "{lufs}");
    }

    #[test]
    fn pauses_do_not_count() {
        let mut spoken = sine(0.1, 44_100);
        spoken.resize(3 * 44_100, 0.0);
        let loudness = integrated_loudness(&spoken, RATE).unwrap();
        assert!((loudness + 23.01).abs() < 0.5, "{loudness}");
    }

    #[test]
    fn the_target_is_reached() {
        for samples in [44_100, 3_000, 100] {
            let mut clip = sine(0.01, samples);
            normalize_loudness(&mut clip, RATE, -23.0).unwrap();
            let loudness = integrated_loudness(&clip, RATE).unwrap();
            assert!((loudness + 23.0).abs() < 0.1, "{samples}: {loudness}");
        }
    }

    #[test]
    fn the_peak_limits_the_gain() {
        let mut clip = sine(0.1, 44_100);
        clip[100] = 0.9;
        normalize_loudness(&mut clip, RATE, -3.0).unwrap();
        let peak = peak(&clip);
        assert!((0.999..=1.0).contains(&peak), "{peak}");
    }

    #[test]
    fn silence_stays_silence() {
        for mut clip in [vec![0.0; 22_050], vec![1e-6; 22_050], vec![]] {
            assert_eq!(normalize_loudness(&mut clip, RATE, -23.0).unwrap(), 1.0);
        }
    }
}
