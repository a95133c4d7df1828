//! Our frames against librosa's, case by case (fixtures made by `tools/python/mel_golden.py`).

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde::Deserialize;

use super::empty_filters;
use crate::{AudioSettings, Featurizer, LogMel, decode_mono, read_header};

#[derive(Deserialize)]
struct Case {
    name: String,
    frames: usize,
    settings: AudioSettings,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fixtures/audio/mel")
}

fn cases() -> Vec<Case> {
    let index = std::fs::read_to_string(fixtures().join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&index).unwrap();
    assert_eq!(cases.len(), 12);
    cases
}

fn expected(case: &Case) -> Vec<f32> {
    let bytes = std::fs::read(fixtures().join(format!("{}.mel.f32", case.name))).unwrap();
    let (values, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    values.iter().copied().map(f32::from_le_bytes).collect()
}

#[test]
fn equals_librosa_within_1e_4_everywhere() {
    for case in cases() {
        let (name, settings) = (&case.name, &case.settings);
        let path = fixtures().join(format!("{name}.wav"));
        let featurized = Featurizer::new(settings).unwrap().featurize(&path);
        if name == "silence" {
            // Its frames are tested below; as a clip it is of no use.
            assert_eq!(featurized.unwrap_err().kind(), "silent audio");
            continue;
        }
        let features = featurized.unwrap();
        let header = read_header(&path).unwrap();
        let frames = settings.frames_for_header(&header);
        assert_eq!(features.frames(), case.frames, "{name}");
        assert_eq!(frames, case.frames, "{name}");
        let expected = expected(&case);
        assert_eq!(features.mel.len(), expected.len(), "{name}");
        let pairs = features.mel.iter().zip(&expected);
        let off = pairs.map(|(ours, theirs)| (ours - theirs).abs());
        let worst = off.fold(0.0, f32::max);
        assert!(worst < 1e-4, "{name}: off by {worst}");
    }
}

#[test]
fn silence_is_the_logarithm_of_the_floor() {
    let mut frames = Vec::new();
    let mut log_mel = LogMel::new(&AudioSettings::default()).unwrap();
    log_mel.log_mel(&[0.0; 3000], &mut frames);
    assert_eq!(frames.len(), 12 * 80);
    let is_floor = |&value: &f32| (value - 1e-5_f32.ln()).abs() < 2e-6;
    assert!(frames.iter().all(is_floor));
    log_mel.log_mel(&[], &mut frames);
    assert!(frames.is_empty());
}

#[test]
fn what_came_before_leaves_no_trace() {
    let mut log_mel = LogMel::new(&AudioSettings::default()).unwrap();
    let voice = decode_mono(&fixtures().join("voice.wav")).unwrap();
    let noise = decode_mono(&fixtures().join("loud_noise.wav")).unwrap();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    log_mel.log_mel(&voice.samples, &mut first);
    log_mel.log_mel(&noise.samples, &mut second);
    log_mel.log_mel(&voice.samples, &mut second);
    assert_eq!(first, second);
}

proptest! {
    #[test]
    fn any_valid_settings_and_length_give_the_promised_frames(
        half_n_fft in 16_usize..300,
        hop_share in 0.0_f64..1.0,
        n_mels in 1_usize..200,
        (f_min, f_max) in (0.0_f32..5000.0, 5001.0_f32..11_025.0),
        samples in prop::collection::vec(-1.0_f32..1.0, 1..3000),
    ) {
        let n_fft = 2 * half_n_fft;
        let hop_length = ((n_fft as f64 * hop_share) as usize).max(1);
        let settings = AudioSettings { n_fft, hop_length, n_mels, f_min, f_max, ..AudioSettings::default() };
        prop_assume!(empty_filters(&settings) < n_mels);
        let mut frames = Vec::new();
        LogMel::new(&settings).unwrap().log_mel(&samples, &mut frames);
        prop_assert_eq!(frames.len(), n_mels * settings.frames_for(samples.len() as u64));
        prop_assert!(frames.iter().all(|value| value.is_finite()));
    }
}
