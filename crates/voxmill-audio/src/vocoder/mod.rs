//! From log-mel frames back to sound, without a trained model: fast Griffin-Lim.
//!
//! Log-mel frames hold no phases. Griffin-Lim begins with random ones and iterates: compute the
//! sound, take the phases that it really has, put the magnitudes back. A share
//! of the last change is added on top (Perraudin, Balazs and Søndergaard's "fast" variant), which
//! gets in 32 rounds where the plain one does not get in hundreds. Words survive; the voice sounds
//! phasey.
//!
//! One round is one pass over the clip: two frames share a complex transform forth and back, and
//! all that is kept of them is the last spectrum. Single precision is enough, for nothing here is
//! compared with another program's values. The first phases are a fixed function of frame and bin,
//! so one machine always computes the same samples from the same frames.

mod magnitudes;

use std::fmt;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::debug_fields;
use super::framing::centred;
use super::mel::{Aligned, LANES, half_hann};
use super::settings::{AudioSettings, AudioSettingsError};
use super::vectors::with_wide_vectors;
use magnitudes::MelInversion;

/// Rounds after which more are not heard.
pub const ITERATIONS: usize = 32;

const MOMENTUM: f32 = 0.99;
/// Where hardly any window reaches, nothing is divided by nearly nothing.
const LEAST_WINDOW_SUM: f32 = 1e-3;

/// Log-mel frames → samples, at the rate of the frames.
pub trait Vocoder: fmt::Debug + Send {
    /// `log_mel` is natural logarithms, not normalised, frame after frame.
    fn waveform(&mut self, log_mel: &[f32]) -> Vec<f32>;
}

/// Fast Griffin-Lim; keeps its tables and buffers between clips.
pub struct GriffinLim {
    iterations: usize,
    n_fft: usize,
    hop_length: usize,
    n_mels: usize,
    inversion: MelInversion,
    /// Halved, as in `LogMel`: sums of mirrored bins are twice the spectrum.
    analysis_window: Aligned<f32>,
    /// Divided by the transform's length.
    synthesis_window: Aligned<f32>,
    forward: Arc<dyn Fft<f32>>,
    inverse: Arc<dyn Fft<f32>>,
    /// Two frames, one as real and one as imaginary parts, or their spectra.
    pair: Aligned<Complex<f32>>,
    fft_scratch: Aligned<Complex<f32>>,
    /// The samples under two frames, where they reach over an edge of the clip.
    reflected: Vec<f32>,
    /// The spectra of the two frames, taken apart.
    spectra: [Spectrum; 2],
}

/// Real and imaginary parts of the bins in use, apart so that loops over them vectorise.
#[derive(Clone, Debug)]
struct Spectrum {
    re: Vec<f32>,
    im: Vec<f32>,
}

impl Spectrum {
    fn silent(bins: usize) -> Self {
        Self {
            re: vec![0.0; bins],
            im: vec![0.0; bins],
        }
    }
}

/// What is known of one clip between two rounds.
struct ClipState {
    /// Frame after frame; an odd last frame has a silent partner.
    magnitudes: Vec<f32>,
    /// The spectrum that each frame had in the round before.
    previous: Vec<Spectrum>,
    samples: Vec<f32>,
    /// Sums of windowed frames, half a window longer than the samples at either end.
    overlapped: Vec<f32>,
    /// What each sample's sum is to be multiplied by.
    gain: Vec<f32>,
}

debug_fields!(GriffinLim: n_fft, hop_length, n_mels);

impl Vocoder for GriffinLim {
    fn waveform(&mut self, log_mel: &[f32]) -> Vec<f32> {
        self.reconstruct(log_mel, self.iterations)
    }
}

impl GriffinLim {
    /// Refuses settings that contradict each other.
    pub fn new(settings: &AudioSettings) -> Result<Self, AudioSettingsError> {
        settings.validate()?;
        let n_fft = settings.n_fft;
        let mut planner = FftPlanner::new();
        let forward = planner.plan_fft_forward(n_fft);
        let inverse = planner.plan_fft_inverse(n_fft);
        let scratch = forward
            .get_inplace_scratch_len()
            .max(inverse.get_inplace_scratch_len());
        let half_hann = half_hann(n_fft);
        let scaled = |by: f64| -> Vec<f32> { half_hann.iter().map(|w| (w * by) as f32).collect() };
        let inversion = MelInversion::new(settings);
        let silent = Spectrum::silent(inversion.bins().len());
        Ok(Self {
            iterations: ITERATIONS,
            n_fft,
            hop_length: settings.hop_length,
            n_mels: settings.n_mels,
            inversion,
            analysis_window: Aligned::new(&scaled(1.0)),
            synthesis_window: Aligned::new(&scaled(2.0 / n_fft as f64)),
            forward,
            inverse,
            pair: Aligned::new(&vec![Complex::default(); n_fft]),
            fft_scratch: Aligned::new(&vec![Complex::default(); scratch]),
            reflected: Vec::new(),
            spectra: [silent.clone(), silent],
        })
    }

    /// With another number of rounds than [`ITERATIONS`].
    #[must_use]
    pub fn with_iterations(self, iterations: usize) -> Self {
        Self { iterations, ..self }
    }

    /// The sound of log-mel frames (natural logarithms, not normalised, frame after frame), after
    /// this many rounds; [`ITERATIONS`] is the usual number.
    ///
    /// Gives `(frames - 1) * hop_length` samples, of which [`super::LogMel`] computes as many frames
    /// again; so no frame and a single frame give none. Samples may exceed 1.0 where the frames
    /// are louder than any recording.
    ///
    /// # Panics
    /// If `log_mel` does not consist of whole frames.
    pub fn reconstruct(&mut self, log_mel: &[f32], iterations: usize) -> Vec<f32> {
        assert!(log_mel.len().is_multiple_of(self.n_mels), "whole frames");
        let frames = log_mel.len() / self.n_mels;
        if frames < 2 {
            return Vec::new();
        }
        let mut clip = self.clip(log_mel, frames);
        for round in 0..=iterations {
            self.round(&mut clip, round == 0);
        }
        clip.samples
    }

    fn clip(&mut self, log_mel: &[f32], frames: usize) -> ClipState {
        let bins = self.inversion.bins().len();
        let even_frames = frames.next_multiple_of(2);
        let mut magnitudes = vec![0.0; even_frames * bins];
        let eights = log_mel.chunks(LANES * self.n_mels);
        for (log_mel, magnitudes) in eights.zip(magnitudes.chunks_mut(LANES * bins)) {
            self.inversion.eight_frames(log_mel, magnitudes);
        }

        let samples = (frames - 1) * self.hop_length;
        let overlapped = (even_frames - 1) * self.hop_length + self.n_fft;
        let mut window_sum = vec![0.0; overlapped];
        for frame in 0..frames {
            let sums = &mut window_sum[frame * self.hop_length..];
            for (sum, half) in sums.iter_mut().zip(&*self.analysis_window) {
                *sum += 4.0 * half * half;
            }
        }
        ClipState {
            magnitudes,
            previous: vec![Spectrum::silent(bins); even_frames],
            samples: vec![0.0; samples],
            overlapped: vec![0.0; overlapped],
            gain: window_sum[self.n_fft / 2..][..samples]
                .iter()
                .map(|sum: &f32| sum.max(LEAST_WINDOW_SUM).recip())
                .collect(),
        }
    }

    with_wide_vectors!(GriffinLim: round = round_on_any_machine(clip: &mut ClipState, first: bool));

    /// Phases of the present samples (in the first round: random ones) and the magnitudes of the
    /// clip make the next samples.
    #[inline(always)]
    fn round_on_any_machine(&mut self, clip: &mut ClipState, first: bool) {
        let bins = self.inversion.bins().len();
        clip.overlapped.fill(0.0);
        let magnitudes = clip.magnitudes.chunks_exact(2 * bins);
        let previous = clip.previous.chunks_exact_mut(2);
        for (pair, (magnitudes, previous)) in magnitudes.zip(previous).enumerate() {
            if !first {
                self.analyse(&clip.samples, pair);
            }
            let magnitudes = magnitudes.chunks_exact(bins);
            for (half, (magnitudes, previous)) in magnitudes.zip(previous).enumerate() {
                let spectrum = &mut self.spectra[half];
                if first {
                    random_phases(spectrum, magnitudes, 2 * pair + half);
                } else {
                    keep_phases(spectrum, magnitudes, previous);
                }
            }
            self.synthesise(&mut clip.overlapped, pair);
        }
        let inside = &clip.overlapped[self.n_fft / 2..];
        for ((sample, sum), gain) in clip.samples.iter_mut().zip(inside).zip(&clip.gain) {
            *sample = sum * gain;
        }
    }

    #[inline(always)]
    fn analyse(&mut self, samples: &[f32], pair: usize) {
        let start = 2 * pair * self.hop_length;
        let under = start..start + self.hop_length + self.n_fft;
        let under = centred(samples, under, self.n_fft / 2, &mut self.reflected);
        let (a, b) = (&under[..self.n_fft], &under[self.hop_length..]);
        let window = &*self.analysis_window;
        for (((z, window), a), b) in self.pair.iter_mut().zip(window).zip(a).zip(b) {
            *z = Complex::new(window * a, window * b);
        }
        self.forward
            .process_with_scratch(&mut self.pair, &mut self.fft_scratch);
        take_apart(&self.pair, self.inversion.bins(), &mut self.spectra);
    }

    #[inline(always)]
    fn synthesise(&mut self, overlapped: &mut [f32], pair: usize) {
        self.pair.fill(Complex::default());
        put_together(&self.spectra, self.inversion.bins(), &mut self.pair);
        self.inverse
            .process_with_scratch(&mut self.pair, &mut self.fft_scratch);
        let window = &*self.synthesis_window;
        let a = &mut overlapped[2 * pair * self.hop_length..];
        for ((sum, z), window) in a.iter_mut().zip(&*self.pair).zip(window) {
            *sum += window * z.re;
        }
        let b = &mut a[self.hop_length..];
        for ((sum, z), window) in b.iter_mut().zip(&*self.pair).zip(window) {
            *sum += window * z.im;
        }
    }
}

/// A real signal's spectrum is symmetric and an imaginary one's antisymmetric, so sums and
/// differences of mirrored bins separate two frames.
#[inline(always)]
fn take_apart(pair: &[Complex<f32>], bins: std::ops::Range<usize>, spectra: &mut [Spectrum; 2]) {
    let mirrored = &pair[pair.len() - bins.end + 1..=pair.len() - bins.start];
    let [a, b] = spectra;
    let a = a.re.iter_mut().zip(&mut a.im);
    let b = b.re.iter_mut().zip(&mut b.im);
    let bins = pair[bins].iter().zip(mirrored.iter().rev());
    for (((z, mirror), (a_re, a_im)), (b_re, b_im)) in bins.zip(a).zip(b) {
        *a_re = z.re + mirror.re;
        *a_im = z.im - mirror.im;
        *b_re = z.im + mirror.im;
        *b_im = mirror.re - z.re;
    }
}

/// The opposite of [`take_apart`].
#[inline(always)]
fn put_together(spectra: &[Spectrum; 2], bins: std::ops::Range<usize>, pair: &mut [Complex<f32>]) {
    let length = pair.len();
    let [a, b] = spectra;
    let a = a.re.iter().zip(&a.im);
    let b = b.re.iter().zip(&b.im);
    for ((bin, (a_re, a_im)), (b_re, b_im)) in bins.zip(a).zip(b) {
        pair[bin] = Complex::new(a_re - b_im, a_im + b_re);
        pair[length - bin] = Complex::new(a_re + b_im, b_re - a_im);
    }
}

/// Gives the magnitudes the phases of the spectrum, carried further the way they were going.
#[inline(always)]
fn keep_phases(spectrum: &mut Spectrum, magnitudes: &[f32], previous: &mut Spectrum) {
    const CARRY: f32 = MOMENTUM / (1.0 + MOMENTUM);
    let now = spectrum.re.iter_mut().zip(&mut spectrum.im);
    let previous = previous.re.iter_mut().zip(&mut previous.im);
    for (((re, im), (previous_re, previous_im)), magnitude) in now.zip(previous).zip(magnitudes) {
        let ahead_re = *re - CARRY * *previous_re;
        let ahead_im = *im - CARRY * *previous_im;
        (*previous_re, *previous_im) = (*re, *im);
        let square = ahead_re * ahead_re + ahead_im * ahead_im;
        let scale = magnitude / square.max(f32::MIN_POSITIVE).sqrt();
        (*re, *im) = (scale * ahead_re, scale * ahead_im);
    }
}

/// The same for every clip: a frame's phases depend on its number alone.
fn random_phases(spectrum: &mut Spectrum, magnitudes: &[f32], frame: usize) {
    let mut state = frame as u64 * magnitudes.len() as u64;
    let now = spectrum.re.iter_mut().zip(&mut spectrum.im);
    for ((re, im), magnitude) in now.zip(magnitudes) {
        state += 1;
        let turns = (scrambled(state) >> 40) as f32 / (1u64 << 24) as f32;
        let (sin, cos) = (std::f32::consts::TAU * turns).sin_cos();
        (*re, *im) = (magnitude * cos, magnitude * sin);
    }
}

/// SplitMix64: consecutive numbers in, bits without pattern out.
fn scrambled(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
