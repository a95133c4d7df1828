//! Our frames against librosa's, case by case (fixtures made by `tools/python/mel_golden.py`).

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde::Deserialize;

use crate::{AudioSettings, Featurizer, LogMel, decode_mono, read_header};

#[derive(Deserialize)]
struct Case {
    name: String,
    frames: usize,
    settings: CaseSettings,
}

#[derive(Deserialize)]
struct CaseSettings {
    sample_rate: u32,
    n_fft: usize,
    hop_length: usize,
    n_mels: usize,
    f_min: f32,
    f_max: f32,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fixtures/audio/mel")
}

fn cases() -> Vec<(Case, AudioSettings)> {
    let index = std::fs::read_to_string(fixtures().join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&index).unwrap();
    assert_eq!(cases.len(), 12);
    let with_settings = |case: Case| {
        let settings = AudioSettings {
            sample_rate: case.settings.sample_rate,
            n_fft: case.settings.n_fft,
            hop_length: case.settings.hop_length,
            n_mels: case.settings.n_mels,
            f_min: case.settings.f_min,
            f_max: case.settings.f_max,
            ..AudioSettings::default()
        };
        (case, settings)
    };
    cases.into_iter().map(with_settings).collect()
}

fn expected(case: &Case) -> Vec<f32> {
    let bytes = std::fs::read(fixtures().join(format!("{}.mel.f32", case.name))).unwrap();
    let (values, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    values
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}

#[test]
fn equals_librosa_within_1e_4_everywhere() {
    for (case, settings) in cases() {
        let path = fixtures().join(format!("{}.wav", case.name));
        let featurized = Featurizer::new(&settings).unwrap().featurize(&path);
        if case.name == "silence" {
            // Its frames are tested below; as a clip it is of no use.
            assert_eq!(featurized.unwrap_err().kind(), "silent audio");
            continue;
        }
        let features = featurized.unwrap();
        let header = read_header(&path).unwrap();
        assert_eq!(features.frames(), case.frames, "{}", case.name);
        assert_eq!(
            settings.frames_for_header(&header),
            case.frames,
            "{}",
            case.name
        );
        let expected = expected(&case);
        assert_eq!(features.mel.len(), expected.len(), "{}", case.name);
        let worst = features
            .mel
            .iter()
            .zip(&expected)
            .map(|(ours, theirs)| (ours - theirs).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-4, "{}: off by {worst}", case.name);
    }
}

#[test]
fn silence_is_the_logarithm_of_the_floor() {
    let mut frames = Vec::new();
    let mut log_mel = LogMel::new(&AudioSettings::default()).unwrap();
    log_mel.log_mel(&[0.0; 3000], &mut frames);
    assert_eq!(frames.len(), 12 * 80);
    assert!(
        frames
            .iter()
            .all(|&value| (value - 1e-5_f32.ln()).abs() < 2e-6)
    );
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
        let mut frames = Vec::new();
        LogMel::new(&settings).unwrap().log_mel(&samples, &mut frames);
        prop_assert_eq!(frames.len(), n_mels * settings.frames_for(samples.len() as u64));
        prop_assert!(frames.iter().all(|value| value.is_finite()));
    }
}
