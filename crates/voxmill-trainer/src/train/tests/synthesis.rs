//! What comes out when the trained voice speaks.

use voxmill_audio::{AudioSettings, loudness};
use voxmill_text::FrontEnd;
use voxmill_text::language::Language;

use super::*;
use crate::checkpoint::Recordings;
use crate::synthesis::{SpeakError, Synthesizer};

const TOKENS: [u16; 8] = [4, 9, 12, 30, 8, 7, 21, 5];

/// Clips of a low and of a high voice, with the same words.
fn two_voices() -> (Vec<Batch>, [TestClip; 2]) {
    let low = TestClip::new("words", 9, 40);
    let mut high = low.clone();
    for (at, value) in high.mel.iter_mut().enumerate() {
        *value += if at % 80 < 40 { -2.0 } else { 2.0 };
    }
    let mut batch = batch_of(&[Some(&low), Some(&high)], 10, 48, 32);
    batch.speakers = vec![0, 1];
    (vec![batch], [low, high])
}

/// A voice after some steps, as it is on disk.
fn trained() -> (TrainedVoice, [TestClip; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let (batches, clips) = two_voices();
    run(fresh(options(40)), TestFeed::new(batches), &folder);
    let best = checkpoints(&folder).best().unwrap().checkpoint;
    (TrainedVoice::load(&best, &device()).unwrap(), clips)
}

fn with_length_scale(voice: &TrainedVoice, scale: f64) -> TrainedVoice {
    let mut facts = voice.facts().clone();
    facts.length_scale = scale;
    // A model cannot be had from a trained voice; the same seed gives the same fresh one.
    let model = Voice::new(&facts.shape, facts.vocabulary, 1, &device());
    TrainedVoice::new(model, facts, device())
}

#[test]
fn there_are_as_many_frames_as_the_durations_say() {
    let (voice, _) = trained();
    let style = voice.style_named("one").unwrap();
    for rate in [0.5, 1.0, 2.0] {
        let spoken = voice.speak(&TOKENS, Language::English, style, rate);
        assert_eq!(spoken.durations.len(), TOKENS.len());
        assert_eq!(spoken.frames() as u32, spoken.durations.iter().sum::<u32>());
        assert_eq!(spoken.mel.len(), spoken.frames() * 80);
        assert!(spoken.mel.iter().all(|value| value.is_finite()));
        assert!(spoken.durations.iter().all(|&frames| frames > 0));
    }
    let one = voice.speak(&[4], Language::Persian, style, 1.0);
    assert_eq!(one.durations.len(), 1);
}

#[test]
fn twice_the_rate_takes_half_the_frames() {
    let (voice, _) = trained();
    let style = voice.style_named("one").unwrap();
    let frames = |rate| {
        let spoken = voice.speak(&TOKENS, Language::English, style, rate);
        spoken.frames() as f64
    };
    let usual = frames(1.0);
    for (rate, share) in [(0.5, 2.0), (2.0, 0.5)] {
        let changed = frames(rate);
        let off = (changed / usual - share).abs();
        assert!(off < 0.1, "{usual} frames, then {changed}");
    }
}

#[test]
fn speech_is_as_long_as_the_recordings() {
    let (voice, clips) = trained();
    let scale = voice.facts().length_scale;
    assert!((0.5..=2.0).contains(&scale) && scale != 1.0, "{scale}");
    let style = voice.style_named("one").unwrap();
    let spoken = voice.speak(&clips[0].tokens, Language::English, style, 1.0);
    let frames = spoken.frames() as f64;
    assert!((28.0..56.0).contains(&frames), "{frames} frames of 40");

    let frames = |scale| {
        let voice = with_length_scale(&voice, scale);
        let long = [TOKENS; 4].concat();
        voice.speak(&long, Language::English, style, 0.2).frames() as f64
    };
    let ratio = frames(1.6) / frames(0.8);
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
}

#[test]
fn speakers_who_sound_different_have_different_styles() {
    let (voice, [low, high]) = trained();
    let named = |name| voice.style_named(name).unwrap().to_vec();
    let (one, two) = (named("one"), named("two"));
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f32>().sqrt()
    };
    assert!(distance(&one, &two) > 0.1, "{one:?} {two:?}");
    for (clip, own, other) in [(low, &one, &two), (high, &two, &one)] {
        let heard = voice.style_of(clip.mel);
        let is_own = distance(&heard, own) < 0.5 * distance(&heard, other);
        assert!(is_own, "{heard:?}");
    }
    let said = |style: &[f32]| voice.speak(&TOKENS, Language::English, style, 1.0).mel;
    assert_ne!(said(&one), said(&two));
    assert!(voice.style_named("nobody").is_none());
}

/// Two sentences of a voice that knows how its recordings sound, or does not.
fn said(recordings: Option<Recordings>) -> Vec<f32> {
    let (voice, _) = trained();
    let mut facts = voice.facts().clone();
    facts.recordings = recordings;
    let model = Voice::new(&facts.shape, facts.vocabulary, 1, &device());
    let voice = TrainedVoice::new(model, facts, device());
    let front_end = FrontEnd::new(Default::default()).unwrap();
    let mut synthesizer = Synthesizer::new(&front_end, &voice.facts().audio, 2).unwrap();
    let reading = synthesizer
        .read(&voice, "One word. Two words.", None)
        .unwrap();
    assert_eq!(reading.sentences.len(), 2);
    let style = voice.style_named("one").unwrap();
    let mut done = 0;
    let speech = synthesizer
        .speak(&voice, &reading.sentences, |_| style, 1.0, || done += 1)
        .unwrap();
    assert_eq!(done, 2);
    speech.samples
}

/// The longest stretch of zeros.
fn longest_silence(samples: &[f32]) -> usize {
    let stretches = samples.split(|&sample| sample != 0.0);
    stretches.map(<[f32]>::len).max().unwrap_or(0)
}

#[test]
fn speech_is_as_loud_as_the_recordings_and_its_pauses_are_not_empty() {
    let rate = AudioSettings::default().sample_rate;
    for lufs in [-30.0, -40.0] {
        let recordings = Recordings {
            loudness_lufs: lufs,
            pause: vec![-8.0; 80],
        };
        let samples = said(Some(recordings));
        let heard = loudness(&samples, rate).unwrap();
        assert!((heard - lufs).abs() < 0.5, "{heard} instead of {lufs}");
        assert!(longest_silence(&samples) < 10);
    }
    // A voice of an older program: silence, as it always was.
    assert!(longest_silence(&said(None)) > 5_000);
}

/// Facts may be anybody's: numbers that are finite, and no speech. Silence would be taken for the voice's own.
#[test]
fn a_voice_that_makes_no_sound_says_so() {
    let (voice, _) = trained();
    let mut facts = voice.facts().clone();
    facts.mel_statistics.mean = 90.0;
    let style = facts.speakers["one"].clone();
    let audio = facts.audio.clone();
    let model = Voice::new(&facts.shape, facts.vocabulary, 1, &device());
    let voice = TrainedVoice::new(model, facts, device());
    let front_end = FrontEnd::new(Default::default()).unwrap();
    let mut synthesizer = Synthesizer::new(&front_end, &audio, 1).unwrap();
    let sentences = synthesizer.read(&voice, "Hello.", None).unwrap().sentences;
    let spoken = synthesizer.speak(&voice, &sentences, |_| &style, 1.0, || {});
    assert!(matches!(spoken, Err(SpeakError::NoSound(_))), "{spoken:?}");
}
