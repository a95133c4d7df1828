//! The mel filterbank (Slaney's scale, filters of equal area), kept as what it is: short bands.
//!
//! A frequency bin touches at most two filters, so the full matrix is nearly all zeros: with the
//! defaults 727 of 41,040 weights count.

use crate::AudioSettings;

/// Frames that are multiplied at once; a row of spectrum holds one bin of each.
pub(crate) const LANES: usize = 8;

#[derive(Debug)]
pub(crate) struct MelFilterbank {
    /// Spectrum bins that any filter uses: `first_bin..end_bin`.
    pub(crate) first_bin: usize,
    pub(crate) end_bin: usize,
    bands: Vec<Band>,
    weights: Vec<f32>,
}

#[derive(Debug)]
struct Band {
    /// First bin, counted from the bank's `first_bin`.
    start: usize,
    weights: std::ops::Range<usize>,
}

impl MelFilterbank {
    pub(crate) fn new(settings: &AudioSettings) -> Self {
        let bins = settings.n_fft / 2 + 1;
        let bin_hz = f64::from(settings.sample_rate) / settings.n_fft as f64;
        let edges = mel_edges_hz(settings);
        let mut weights = Vec::new();
        let mut bands = Vec::new();
        for edge in edges.windows(3) {
            let (low, peak, high) = (edge[0], edge[1], edge[2]);
            let area = 2.0 / (high - low);
            let weight = |bin: usize| {
                let hz = bin as f64 * bin_hz;
                let slope = ((hz - low) / (peak - low)).min((high - hz) / (high - peak));
                (slope.max(0.0) * area) as f32
            };
            // Low filters of a fine bank may fall between two bins; such a band is empty.
            let start = (0..bins).find(|&bin| weight(bin) > 0.0).unwrap_or(bins);
            let first_weight = weights.len();
            weights.extend((start..bins).map(weight).take_while(|&weight| weight > 0.0));
            bands.push(Band {
                start,
                weights: first_weight..weights.len(),
            });
        }
        let used = bands.iter().filter(|band| !band.weights.is_empty());
        let first_bin = used.clone().map(|band| band.start).min().unwrap_or(1);
        let end_bin = used
            .map(|band| band.start + band.weights.len())
            .max()
            .unwrap_or(1);
        for band in &mut bands {
            band.start = band.start.saturating_sub(first_bin);
        }
        // The lower slope of a filter is zero at its edge and no edge is below 0 Hz, so the mean
        // of the signal never counts.
        debug_assert!(first_bin >= 1);
        Self {
            first_bin,
            end_bin,
            bands,
            weights,
        }
    }

    /// Sums each filter over a spectrum that starts at `first_bin`.
    #[inline(always)]
    pub(crate) fn apply(&self, spectrum: &[[f32; LANES]], mel: &mut [[f32; LANES]]) {
        for (band, mel) in self.bands.iter().zip(mel) {
            let weights = &self.weights[band.weights.clone()];
            let mut sum = [0.0; LANES];
            if !weights.is_empty() {
                for (weight, bin) in weights.iter().zip(&spectrum[band.start..]) {
                    for (sum, value) in sum.iter_mut().zip(bin) {
                        *sum += weight * value;
                    }
                }
            }
            *mel = sum;
        }
    }

    /// As a matrix, used bins × filters.
    pub(super) fn dense(&self) -> Vec<f32> {
        let filters = self.bands.len();
        let mut matrix = vec![0.0; (self.end_bin - self.first_bin) * filters];
        for (filter, band) in self.bands.iter().enumerate() {
            for (at, weight) in self.weights[band.weights.clone()].iter().enumerate() {
                matrix[(band.start + at) * filters + filter] = *weight;
            }
        }
        matrix
    }

    /// The other way: gives each bin the sum of its filters' values, each times its weight.
    #[inline(always)]
    pub(crate) fn apply_transposed(&self, mel: &[[f32; LANES]], spectrum: &mut [[f32; LANES]]) {
        spectrum.fill([0.0; LANES]);
        for (band, mel) in self.bands.iter().zip(mel) {
            let weights = &self.weights[band.weights.clone()];
            if weights.is_empty() {
                continue;
            }
            for (weight, bin) in weights.iter().zip(&mut spectrum[band.start..]) {
                for (value, mel) in bin.iter_mut().zip(mel) {
                    *value += weight * mel;
                }
            }
        }
    }
}

/// Filters that lie between two bins of the spectrum: whatever the sound, they see nothing.
pub(crate) fn empty_filters(settings: &AudioSettings) -> usize {
    let bin_hz = f64::from(settings.sample_rate) / settings.n_fft as f64;
    let is_empty = |edge: &&[f64]| {
        let bin = (edge[0] / bin_hz).floor() + 1.0;
        bin * bin_hz >= edge[2] || bin > (settings.n_fft / 2) as f64
    };
    mel_edges_hz(settings).windows(3).filter(is_empty).count()
}

/// `n_mels + 2` frequencies, evenly spaced in mels: each filter's lower edge, peak and upper edge.
fn mel_edges_hz(settings: &AudioSettings) -> Vec<f64> {
    let low = hz_to_mel(f64::from(settings.f_min));
    let high = hz_to_mel(f64::from(settings.f_max));
    let step = (high - low) / (settings.n_mels + 1) as f64;
    (0..settings.n_mels + 2)
        .map(|edge| mel_to_hz(low + step * edge as f64))
        .collect()
}

// Slaney's scale: linear up to 1000 Hz, then 27 mels for each factor of 6.4.
const HZ_PER_MEL: f64 = 200.0 / 3.0;
const BREAK_HZ: f64 = 1000.0;
const BREAK_MEL: f64 = BREAK_HZ / HZ_PER_MEL;

fn log_step() -> f64 {
    6.4_f64.ln() / 27.0
}

fn hz_to_mel(hz: f64) -> f64 {
    if hz < BREAK_HZ {
        hz / HZ_PER_MEL
    } else {
        BREAK_MEL + (hz / BREAK_HZ).ln() / log_step()
    }
}

fn mel_to_hz(mel: f64) -> f64 {
    if mel < BREAK_MEL {
        mel * HZ_PER_MEL
    } else {
        BREAK_HZ * (log_step() * (mel - BREAK_MEL)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_inverts() {
        for hz in [0.0, 440.0, 999.9, 1000.0, 1000.1, 8000.0] {
            assert!((mel_to_hz(hz_to_mel(hz)) - hz).abs() < 1e-9, "{hz}");
        }
    }

    #[test]
    fn a_flat_spectrum_gives_filters_of_equal_area() {
        let settings = AudioSettings::default();
        let bank = MelFilterbank::new(&settings);
        let spectrum = vec![[1.0; LANES]; bank.end_bin - bank.first_bin];
        let mut mel = vec![[0.0; LANES]; settings.n_mels];
        bank.apply(&spectrum, &mut mel);
        let bin_hz = 22_050.0 / 1024.0;
        for row in mel {
            assert!(row.iter().all(|&value| value == row[0]));
            assert!((f64::from(row[0]) * bin_hz - 1.0).abs() < 0.2, "{row:?}");
        }
    }

    #[test]
    fn a_product_can_be_taken_from_either_side() {
        let settings = AudioSettings::default();
        let bank = MelFilterbank::new(&settings);
        let bins = bank.end_bin - bank.first_bin;
        let spectrum: Vec<[f32; LANES]> = (0..bins).map(|bin| [(bin % 7) as f32; LANES]).collect();
        let mel: Vec<[f32; LANES]> = (0..80).map(|row| [(row % 5) as f32; LANES]).collect();
        let (mut forth, mut back) = (vec![[0.0; LANES]; 80], vec![[1.0; LANES]; bins]);
        bank.apply(&spectrum, &mut forth);
        bank.apply_transposed(&mel, &mut back);
        let dot = |a: &[[f32; LANES]], b: &[[f32; LANES]]| -> f32 {
            a.iter().zip(b).map(|(a, b)| a[0] * b[0]).sum()
        };
        let (left, right) = (dot(&forth, &mel), dot(&spectrum, &back));
        assert!((left - right).abs() < 1e-4 * left, "{left} {right}");
    }

    proptest::proptest! {
        #[test]
        fn empty_filters_are_those_without_weights(
            half_n_fft in 16_usize..600,
            n_mels in 1_usize..300,
            f_min in 0.0_f32..7999.0,
        ) {
            let settings = AudioSettings { n_fft: 2 * half_n_fft, n_mels, f_min, ..AudioSettings::default() };
            let bands = MelFilterbank::new(&settings).bands;
            let empty = bands.iter().filter(|band| band.weights.is_empty()).count();
            proptest::prop_assert_eq!(empty_filters(&settings), empty);
        }
    }

    #[test]
    fn a_filter_between_two_bins_is_empty() {
        let settings = AudioSettings {
            n_fft: 64,
            n_mels: 128,
            ..AudioSettings::default()
        };
        let bank = MelFilterbank::new(&settings);
        assert!(bank.bands.iter().any(|band| band.weights.is_empty()));
        let spectrum = vec![[1.0; LANES]; bank.end_bin - bank.first_bin];
        bank.apply(&spectrum, &mut [[0.0; LANES]; 128]);
    }
}
