//! From a file's rate to the target rate, in place and time exact.
//!
//! The filter is a long windowed sinc, applied by Fourier transform. Its delay is half a block, so
//! blocks are kept even: an odd one would shift the clip by half a sample.

use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{Fft, FixedSync, Resampler as _, WindowFunction};

use super::{AudioError, debug_fields};

/// Resamples clips to one rate; keeps a filter for each rate it has met lately.
pub struct Resampler {
    to_hz: u32,
    filters: Vec<(u32, Fft<f32>)>,
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// A dataset has one rate, or a few; more are not worth their memory.
const FILTERS_KEPT: usize = 4;

/// Input samples of a block: long enough that the filter passes 97 % of the band (tested).
const BLOCK_SAMPLES: usize = 2048;

debug_fields!(Resampler: to_hz);

impl Resampler {
    /// To this sample rate, from whichever rate a clip has.
    pub fn new(to_hz: u32) -> Self {
        Self {
            to_hz,
            filters: Vec::new(),
        }
    }

    /// Replaces `out` by the clip at the target rate: `ceil(samples * to / from)` samples.
    pub fn resample(
        &mut self,
        samples: &[f32],
        from_hz: u32,
        out: &mut Vec<f32>,
    ) -> Result<(), AudioError> {
        out.clear();
        if samples.is_empty() || from_hz == self.to_hz {
            out.extend_from_slice(samples);
            return Ok(());
        }
        self.filtered(samples, from_hz, out)
            .map_err(|source| AudioError::Processing {
                step: "resample",
                source,
            })
    }

    fn filtered(
        &mut self,
        samples: &[f32],
        from_hz: u32,
        out: &mut Vec<f32>,
    ) -> Result<(), BoxedError> {
        let exact = (samples.len() as u128 * u128::from(self.to_hz)).div_ceil(u128::from(from_hz));
        let filter = self.filter(from_hz)?;
        filter.reset();
        let room = filter.process_all_needed_output_len(samples.len());
        out.resize(room.max(exact as usize), 0.0);
        let room = out.len();
        let input = SequentialSlice::new(samples, 1, samples.len())?;
        let mut output = SequentialSlice::new_mut(out, 1, room)?;
        filter.process_all_into_buffer(&input, &mut output, samples.len(), None)?;
        out.truncate(exact as usize);
        Ok(())
    }

    fn filter(&mut self, from_hz: u32) -> Result<&mut Fft<f32>, BoxedError> {
        if let Some(at) = self.filters.iter().position(|(rate, _)| *rate == from_hz) {
            return Ok(&mut self.filters[at].1);
        }
        let smallest_block = (from_hz / greatest_common_divisor(from_hz, self.to_hz)) as usize;
        let smallest_blocks = BLOCK_SAMPLES.div_ceil(smallest_block).next_multiple_of(2);
        let filter = Fft::new_custom(
            from_hz as usize,
            self.to_hz as usize,
            smallest_blocks * smallest_block,
            1,
            1,
            WindowFunction::BlackmanHarris2,
            FixedSync::Both,
        )?;
        if self.filters.len() == FILTERS_KEPT {
            self.filters.remove(0);
        }
        self.filters.push((from_hz, filter));
        let (_, filter) = self.filters.last_mut().expect("one was just pushed");
        Ok(filter)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TARGET: u32 = 22_050;
    const RATES: [u32; 7] = [8_000, 11_025, 16_000, 24_000, 32_000, 44_100, 48_000];

    fn sine(rate: u32, hz: f64, samples: usize) -> Vec<f32> {
        let step = std::f64::consts::TAU * hz / f64::from(rate);
        (0..samples)
            .map(|n| (0.8 * (step * n as f64 + 0.3).sin()) as f32)
            .collect()
    }

    fn resampled(samples: &[f32], from_hz: u32) -> Vec<f32> {
        let mut out = Vec::new();
        Resampler::new(TARGET)
            .resample(samples, from_hz, &mut out)
            .unwrap();
        out
    }

    fn check_sine(rate: u32, hz: f64, tolerance: f32) {
        let out = resampled(&sine(rate, hz, rate as usize), rate);
        let expected = sine(TARGET, hz, out.len());
        // Near the ends the clip's sudden start and stop ring.
        for n in 2000..out.len() - 2000 {
            let error = (out[n] - expected[n]).abs();
            assert!(error < tolerance, "{rate} Hz, sample {n}: off by {error}");
        }
    }

    #[test]
    fn a_sine_keeps_frequency_phase_and_amplitude_up_to_the_edge_of_the_band() {
        for rate in RATES {
            check_sine(rate, 1000.0, 1e-4);
            check_sine(rate, 0.97 * f64::from(rate.min(TARGET)) / 2.0, 1e-3);
        }
    }

    #[test]
    fn an_impulse_stays_in_its_place() {
        for rate in RATES {
            let mut impulse = vec![0.0; rate as usize];
            // A moment that both rates sample: 1 / gcd of the rates divides it.
            let divisor = greatest_common_divisor(rate, TARGET);
            let [at_from, at_to] = [rate, TARGET].map(|rate| (rate / divisor * 40) as usize);
            impulse[at_from] = 1.0;
            let out = resampled(&impulse, rate);
            let largest = (0..out.len()).max_by(|&a, &b| out[a].abs().total_cmp(&out[b].abs()));
            assert_eq!(largest, Some(at_to), "{rate} Hz");
            let error = (out[at_to - 1] - out[at_to + 1]).abs();
            assert!(error < 1e-4, "{rate} Hz: lopsided by {error}");
        }
    }

    #[test]
    fn a_tone_above_the_new_band_vanishes() {
        for (rate, hz) in [(24_000, 11_800.0), (44_100, 12_000.0), (48_000, 15_000.0)] {
            let out = resampled(&sine(rate, hz, rate as usize), rate);
            let middle = &out[2000..out.len() - 2000];
            let peak = middle.iter().fold(0.0_f32, |peak, s| peak.max(s.abs()));
            assert!(peak < 1e-4, "{hz} Hz at {rate}: {peak} is left");
        }
    }

    #[test]
    fn the_same_clip_gives_the_same_bits_whatever_came_before() {
        let clip = sine(48_000, 440.0, 10_000);
        let mut resampler = Resampler::new(TARGET);
        let mut out = Vec::new();
        for rate in RATES {
            resampler.resample(&clip, rate, &mut out).unwrap();
        }
        resampler.resample(&clip, 48_000, &mut out).unwrap();
        assert_eq!(out, resampled(&clip, 48_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn the_length_is_exact(samples in 1_usize..6000, rate in 1_000_u32..30_000) {
            let out = resampled(&vec![0.5; samples], rate);
            let exact = (samples as u64 * u64::from(TARGET)).div_ceil(u64::from(rate));
            prop_assert_eq!(out.len() as u64, exact);
        }
    }
}
