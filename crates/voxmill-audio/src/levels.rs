//! How loud a clip is, and whether its samples are usable at all.

use super::AudioError;

/// How loud a clip is, measured on the decoded samples before any loudness change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Largest absolute sample; 1.0 is full scale.
    pub peak: f32,
    /// Root mean square in dB below full scale; -inf for digital silence.
    pub rms_dbfs: f32,
    /// Share of samples that sit at full scale in runs of three or more: the mark of clipping.
    pub clipped_share: f32,
}

/// Samples this large touch the rails of any integer format from 16 bits up.
const FULL_SCALE: f32 = 0.9999;
/// A few dB beyond full scale happens in float files; this far is a wrong scale.
const ABSURD_PEAK: f32 = 1000.0;

/// Measures a clip's samples; an error where one of them is not a number, infinite or absurd.
pub(crate) fn measure_levels(samples: &[f32]) -> Result<Levels, AudioError> {
    // Sums of a block fit f32; the blocks' sums are added in f64. Eight sums side by side let the
    // compiler use vectors, and NaN or infinity anywhere stays visible in its block's sum.
    const LANES: usize = 8;
    let mut energy = 0.0_f64;
    let mut peak = 0.0_f32;
    for block in samples.chunks(1024) {
        let mut squares = [0.0_f32; LANES];
        let mut peaks = [0.0_f32; LANES];
        let (eights, rest) = block.as_chunks::<LANES>();
        for eight in eights {
            for lane in 0..LANES {
                let sample = eight[lane];
                squares[lane] += sample * sample;
                let magnitude = sample.abs();
                peaks[lane] = if magnitude > peaks[lane] {
                    magnitude
                } else {
                    peaks[lane]
                };
            }
        }
        for (lane, sample) in rest.iter().enumerate() {
            squares[lane] += sample * sample;
            peaks[lane] = peaks[lane].max(sample.abs());
        }
        let sum: f32 = squares.iter().sum();
        // A finite sample may overflow its square: that is absurd rather than infinite.
        if !sum.is_finite() && block.iter().any(|sample| !sample.is_finite()) {
            return Err(AudioError::NotFinite);
        }
        energy += f64::from(sum);
        peak = peaks.into_iter().fold(peak, f32::max);
    }
    if peak > ABSURD_PEAK {
        return Err(AudioError::BeyondFullScale { peak });
    }
    let mean_square = energy / samples.len().max(1) as f64;
    // Most clips stay below full scale, and need no second pass.
    let clipped = match peak < FULL_SCALE {
        true => 0,
        false => count_clipped(samples),
    };
    Ok(Levels {
        peak,
        rms_dbfs: (10.0 * mean_square.log10()) as f32,
        clipped_share: clipped as f32 / samples.len().max(1) as f32,
    })
}

/// Samples in runs of three or more at full scale, on one side: a lone peak may just reach it.
fn count_clipped(samples: &[f32]) -> usize {
    let rail = |sample: f32| (sample >= FULL_SCALE, sample <= -FULL_SCALE);
    let runs = samples.chunk_by(|a, b| rail(*a) == rail(*b));
    let clipped = runs.filter(|run| run.len() >= 3 && rail(run[0]) != (false, false));
    clipped.map(<[f32]>::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_sine_is_3_db_below_full_scale() {
        let sine: Vec<f32> = (0..22_050).map(|n| (n as f32 * 0.1).sin()).collect();
        let levels = measure_levels(&sine).unwrap();
        assert!((levels.rms_dbfs + 3.01).abs() < 0.01, "{levels:?}");
        assert!((levels.peak - 1.0).abs() < 1e-3);
        assert_eq!(levels.clipped_share, 0.0);
    }

    #[test]
    fn silence_has_no_level() {
        let levels = measure_levels(&[0.0; 5000]).unwrap();
        assert_eq!((levels.peak, levels.rms_dbfs), (0.0, f32::NEG_INFINITY));
    }

    #[test]
    fn only_runs_at_the_rail_are_clipping() {
        let mut samples = vec![0.0; 100];
        samples[3] = 1.0;
        samples[10..12].fill(-1.0);
        assert_eq!(measure_levels(&samples).unwrap().clipped_share, 0.0);
        samples[50..55].fill(32_767.0 / 32_768.0);
        assert_eq!(measure_levels(&samples).unwrap().clipped_share, 0.05);
    }

    #[test]
    fn unusable_samples_are_found_wherever_they_are() {
        let not_finite = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let not_finite = not_finite.map(|bad| (bad, "samples not finite"));
        for at in [0, 7, 1023, 1024, 2000, 2004] {
            for (bad, kind) in not_finite.into_iter().chain([(3e38, "beyond full scale")]) {
                let mut samples = vec![0.1; 2005];
                samples[at] = bad;
                let error = measure_levels(&samples).unwrap_err();
                assert_eq!(error.kind(), kind, "{bad} at {at}");
            }
        }
    }
}
