use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{LogMel, decode_mono};

pub(super) fn voice() -> Vec<f32> {
    let fixture = "data/fixtures/audio/mel/voice.wav";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
    decode_mono(&path).unwrap().samples
}

pub(super) fn log_mel(samples: &[f32]) -> Vec<f32> {
    let mut frames = Vec::new();
    LogMel::new(&AudioSettings::default())
        .unwrap()
        .log_mel(samples, &mut frames);
    frames
}

fn vocoder() -> GriffinLim {
    GriffinLim::new(&AudioSettings::default()).unwrap()
}

/// Mean distance of two clips' log-mel values, in natural logarithms.
pub(super) fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let sum: f32 = a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum();
    sum / a.len() as f32
}

/// The fixture is half a second long, and its edges weigh much: Griffin-Lim in numpy comes to 0.22
/// on it as well, and to 0.11 on whole sentences.
#[test]
fn a_reconstructed_voice_has_nearly_the_frames_it_was_computed_from() {
    let frames = log_mel(&voice());
    let copy = |iterations| log_mel(&vocoder().reconstruct(&frames, iterations));
    let random_phases = distance(&frames, &copy(0));
    let usual = distance(&frames, &copy(ITERATIONS));
    assert!(usual < 0.25, "{usual}");
    // The bound is one that a vocoder without phases does not reach.
    assert!(random_phases > 0.4, "{random_phases}");
}

#[test]
fn a_tone_keeps_its_pitch_and_loudness() {
    let turn = std::f32::consts::TAU * 440.0 / 22_050.0;
    let tone: Vec<f32> = (0..22_050).map(|n| 0.5 * (turn * n as f32).sin()).collect();
    let sound = vocoder().reconstruct(&log_mel(&tone), ITERATIONS);
    let middle = &sound[4_000..sound.len() - 4_000];
    let crossings = middle.windows(2).filter(|w| (w[0] < 0.0) != (w[1] < 0.0));
    let hz = crossings.count() as f32 / 2.0 / (middle.len() as f32 / 22_050.0);
    assert!((hz - 440.0).abs() < 15.0, "{hz}");
    let rms = (middle.iter().map(|s| s * s).sum::<f32>() / middle.len() as f32).sqrt();
    assert!((0.6..1.4).contains(&(rms / 0.5 * 2_f32.sqrt())), "{rms}");
}

#[test]
fn samples_are_one_hop_for_every_frame_after_the_first() {
    let mut vocoder = vocoder();
    let frames = log_mel(&voice());
    for count in [0, 1, 2, 3, 8, 9] {
        let sound = vocoder.reconstruct(&frames[..count * 80], 2);
        assert_eq!(sound.len(), count.saturating_sub(1) * 256, "{count}");
        assert!(sound.iter().all(|sample| sample.is_finite()));
    }
}

#[test]
fn the_same_frames_give_the_same_samples_whatever_came_before() {
    let frames = log_mel(&voice());
    let first = vocoder().reconstruct(&frames, 4);
    let mut used = vocoder();
    used.reconstruct(&frames[..33 * 80], 4);
    assert_eq!(first, used.reconstruct(&frames, 4));
}

#[test]
fn silence_stays_silent() {
    let sound = vocoder().reconstruct(&[1e-5_f32.ln(); 20 * 80], ITERATIONS);
    assert!(sound.iter().all(|sample| sample.abs() < 1e-4));
}

#[test]
#[should_panic(expected = "whole frames")]
fn half_a_frame_is_a_mistake_of_the_caller() {
    vocoder().reconstruct(&[0.0; 120], 1);
}

proptest! {
    #[test]
    fn any_valid_settings_give_finite_samples_of_the_promised_number(
        half_n_fft in 16_usize..300,
        hop_share in 0.0_f64..1.0,
        n_mels in 1_usize..100,
        frames in 0_usize..20,
        level in -12.0_f32..3.0,
    ) {
        let n_fft = 2 * half_n_fft;
        let hop_length = ((n_fft as f64 * hop_share) as usize).max(1);
        let settings = AudioSettings { n_fft, hop_length, n_mels, f_max: 11_025.0, ..AudioSettings::default() };
        let sound = GriffinLim::new(&settings).unwrap().reconstruct(&vec![level; frames * n_mels], 3);
        prop_assert_eq!(sound.len(), frames.saturating_sub(1) * hop_length);
        prop_assert!(sound.iter().all(|sample| sample.is_finite()));
    }
}
