//! What log-mel frames are computed with, as plain tables: for devices that do it by matrix products.

use super::{FLOOR, MelFilterbank, half_hann};
use crate::AudioSettings;

/// Samples of a frame times `cosines` and `sines` are its spectrum; magnitudes times `filters`, not
/// below `floor`, and their natural logarithm are its log-mel values.
#[derive(Clone, Debug)]
pub struct MelTables {
    pub n_fft: usize,
    /// Bins of the spectrum that any filter uses.
    pub bins: usize,
    pub n_mels: usize,
    /// n_fft × bins, with the window in them.
    pub cosines: Vec<f32>,
    pub sines: Vec<f32>,
    /// bins × n_mels.
    pub filters: Vec<f32>,
    pub floor: f32,
}

impl MelTables {
    /// Computes them once for all clips.
    pub fn new(settings: &AudioSettings) -> MelTables {
        let n_fft = settings.n_fft;
        let bank = MelFilterbank::new(settings);
        let used = bank.first_bin..bank.end_bin;
        let window: Vec<f64> = half_hann(n_fft).iter().map(|half| 2.0 * half).collect();
        let turn = std::f64::consts::TAU / n_fft as f64;
        let wave = |shape: fn(f64) -> f64| -> Vec<f32> {
            let rows = window.iter().enumerate();
            rows.flat_map(|(sample, window)| {
                // Whole turns are taken out first: the angle stays exact.
                let angle = move |bin: usize| turn * ((sample * bin) % n_fft) as f64;
                used.clone()
                    .map(move |bin| (window * shape(angle(bin))) as f32)
            })
            .collect()
        };
        MelTables {
            n_fft,
            bins: used.len(),
            n_mels: settings.n_mels,
            cosines: wave(f64::cos),
            sines: wave(f64::sin),
            filters: bank.dense(),
            floor: FLOOR,
        }
    }
}
