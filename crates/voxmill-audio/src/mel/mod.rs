//! Log-mel frames, equal to librosa's (Slaney scale, magnitudes, reflected edges, natural log).
//!
//! The Fourier transform runs in double precision, as librosa's does. In single precision the
//! rounding of a loud vowel drowns its quiet treble: clips of LJ Speech then differ by more than
//! 3e-4 where 1e-4 is promised. To pay for that, two frames share one complex transform, eight
//! frames share one pass over the filterbank, and only bins that a filter uses are read.
//! (A real transform of half the length for each frame, untangled bin by bin, measured no faster.)
//!
//! The transform picks its instructions by what the processor offers, so two kinds of machine may
//! differ in a value's last bit; one machine always gives the same bits, on any thread.

mod filterbank;
#[cfg(test)]
mod golden;
mod natural_log;
mod tables;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::debug_fields;
use super::framing::{Framing, centred};
use super::settings::{AudioSettings, AudioSettingsError};
use super::vectors::with_wide_vectors;
pub(super) use filterbank::{LANES, MelFilterbank, empty_filters};
pub use tables::MelTables;

/// Mel magnitudes below this are silence.
const FLOOR: f32 = 1e-5;
const PAIRS: usize = LANES / 2;

/// Computes log-mel frames; keeps its tables and buffers between clips.
pub struct LogMel {
    framing: Framing,
    n_mels: usize,
    window: Aligned<f64>,
    fft: Arc<dyn Fft<f64>>,
    filterbank: MelFilterbank,
    /// The samples under eight frames, where they reach over an edge of the clip.
    reflected: Vec<f32>,
    /// Two frames, one as real and one as imaginary parts, and after the transform their spectra.
    frames: Aligned<Complex<f64>>,
    fft_scratch: Aligned<Complex<f64>>,
    /// Spectra of eight frames, bin after bin.
    spectrum: Vec<[f32; LANES]>,
    mel: Vec<[f32; LANES]>,
}

debug_fields!(LogMel: framing, n_mels);

impl LogMel {
    /// Refuses settings that contradict each other.
    pub fn new(settings: &AudioSettings) -> Result<Self, AudioSettingsError> {
        settings.validate()?;
        let n_fft = settings.n_fft;
        let fft = FftPlanner::new().plan_fft_forward(n_fft);
        let filterbank = MelFilterbank::new(settings);
        Ok(Self {
            framing: settings.framing(),
            n_mels: settings.n_mels,
            window: Aligned::new(&half_hann(n_fft)),
            reflected: Vec::new(),
            frames: Aligned::new(&vec![Complex::default(); n_fft]),
            fft_scratch: Aligned::new(&vec![Complex::default(); fft.get_inplace_scratch_len()]),
            spectrum: vec![[0.0; LANES]; filterbank.end_bin - filterbank.first_bin],
            mel: vec![[0.0; LANES]; settings.n_mels],
            fft,
            filterbank,
        })
    }

    /// Replaces `out` by the frames of a clip, frame after frame: `1 + samples / hop_length` of
    /// them, or none of a clip without samples.
    pub fn log_mel(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let frames = self.framing.frames_of_clip(samples.len());
        self.frames_of(samples, self.framing.n_fft / 2, frames, out);
    }

    /// The same of samples that [`Framing::lay_out`] has padded already: as many frames as lie in
    /// them.
    pub fn log_mel_as_laid_out(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let frames = self.framing.frames_in(samples.len());
        self.frames_of(samples, 0, frames, out);
    }

    fn frames_of(&mut self, samples: &[f32], padding: usize, frames: usize, out: &mut Vec<f32>) {
        out.clear();
        out.resize(frames * self.n_mels, 0.0);
        for (eight, out) in out.chunks_mut(LANES * self.n_mels).enumerate() {
            self.eight_frames(samples, padding, eight * LANES, out);
        }
    }

    with_wide_vectors!(LogMel: eight_frames = eight_frames_on_any_machine(
        samples: &[f32], padding: usize, first_frame: usize, out: &mut [f32]
    ));

    #[inline(always)]
    fn eight_frames_on_any_machine(
        &mut self,
        samples: &[f32],
        padding: usize,
        first_frame: usize,
        out: &mut [f32],
    ) {
        let Framing { n_fft, hop } = self.framing;
        let frames = out.len() / self.n_mels;
        let start = first_frame * hop;
        let under = start..start + (frames - 1) * hop + n_fft;
        let samples = centred(samples, under, padding, &mut self.reflected);
        for pair in 0..frames.div_ceil(2) {
            let a = 2 * pair;
            // An odd last frame is its own partner.
            let b = (a + 1).min(frames - 1);
            let [a, b] = [a, b].map(|frame| &samples[frame * hop..][..n_fft]);
            window_pair(&self.window, a, b, &mut self.frames);
            self.fft
                .process_with_scratch(&mut self.frames, &mut self.fft_scratch);
            let bins = self.filterbank.first_bin..self.filterbank.end_bin;
            power_of_pair(&self.frames, bins, &mut self.spectrum, pair);
        }
        for value in self.spectrum.as_flattened_mut() {
            *value = value.sqrt();
        }
        self.filterbank.apply(&self.spectrum, &mut self.mel);
        natural_log::ln_at_least(FLOOR, self.mel.as_flattened_mut());
        for (frame, out) in out.chunks_exact_mut(self.n_mels).enumerate() {
            for (out, mel) in out.iter_mut().zip(&self.mel) {
                *out = mel[frame];
            }
        }
    }
}

/// The periodic Hann window, halved: the sums of mirrored bins in `power_of_pair` are twice the
/// spectrum, and halving is exact.
pub(super) fn half_hann(length: usize) -> Vec<f64> {
    let turn = std::f64::consts::TAU / length as f64;
    (0..length)
        .map(|n| 0.25 - 0.25 * (turn * n as f64).cos())
        .collect()
}

#[inline(always)]
fn window_pair(window: &[f64], a: &[f32], b: &[f32], frames: &mut [Complex<f64>]) {
    for (((frame, window), a), b) in frames.iter_mut().zip(window).zip(a).zip(b) {
        *frame = Complex::new(window * f64::from(*a), window * f64::from(*b));
    }
}

/// The squared magnitudes of both frames of a pair. A real signal's spectrum is symmetric and an
/// imaginary one's antisymmetric, so sums and differences of mirrored bins separate them.
#[inline(always)]
fn power_of_pair(
    spectra: &[Complex<f64>],
    bins: std::ops::Range<usize>,
    power: &mut [[f32; LANES]],
    pair: usize,
) {
    assert!(pair < PAIRS);
    let bin = &spectra[bins.clone()];
    let mirrored = &spectra[spectra.len() - bins.end + 1..=spectra.len() - bins.start];
    for ((power, z), mirror) in power.iter_mut().zip(bin).zip(mirrored.iter().rev()) {
        // The loud frame of a pair cancels out of the quiet one here, so this needs double
        // precision; what comes after does not.
        let sum = [(z.re + mirror.re) as f32, (z.im + mirror.im) as f32];
        let difference = [(z.re - mirror.re) as f32, (z.im - mirror.im) as f32];
        power[2 * pair] = sum[0] * sum[0] + difference[1] * difference[1];
        power[2 * pair + 1] = sum[1] * sum[1] + difference[0] * difference[0];
    }
}

/// A buffer that starts on a cache line: the transform's vectors of 32 bytes then never straddle
/// two lines, where the allocator's 16 bytes would let every other one do so.
pub(super) struct Aligned<T> {
    values: Vec<T>,
    start: usize,
}

impl<T: Copy + Default> Aligned<T> {
    pub(super) fn new(values: &[T]) -> Self {
        const LINE_BYTES: usize = 64;
        let spare = LINE_BYTES / size_of::<T>();
        let mut aligned: Vec<T> = Vec::with_capacity(values.len() + spare);
        // Where the allocation cannot be aligned, it is slower but no less right.
        let start = aligned.as_ptr().align_offset(LINE_BYTES).min(spare);
        aligned.resize(start, T::default());
        aligned.extend_from_slice(values);
        Self {
            values: aligned,
            start,
        }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.start..]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..]
    }
}
