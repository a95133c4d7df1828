//! What comes out when the trained voice speaks.

use voxmill_text::language::Language;

use super::*;

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

fn with_length_scale(speaker: &TrainedVoice, scale: f64) -> TrainedVoice {
    let mut facts = speaker.facts().clone();
    facts.length_scale = scale;
    // A model cannot be had from a speaker; the same seed gives the same fresh one.
    let model = Voice::new(&facts.shape, facts.vocabulary, 1, &device());
    TrainedVoice::new(model, facts, device())
}

#[test]
fn there_are_as_many_frames_as_the_durations_say() {
    let (speaker, _) = trained();
    let style = speaker.style_named("one").unwrap();
    for rate in [0.5, 1.0, 2.0] {
        let spoken = speaker.speak(&TOKENS, Language::English, style, rate);
        assert_eq!(spoken.durations.len(), TOKENS.len());
        assert_eq!(spoken.frames() as u32, spoken.durations.iter().sum::<u32>());
        assert_eq!(spoken.mel.len(), spoken.frames() * 80);
        assert!(spoken.mel.iter().all(|value| value.is_finite()));
        assert!(spoken.durations.iter().all(|&frames| frames > 0));
    }
    let one = speaker.speak(&[4], Language::Persian, style, 1.0);
    assert_eq!(one.durations.len(), 1);
}

#[test]
fn twice_the_rate_takes_half_the_frames() {
    let (speaker, _) = trained();
    let style = speaker.style_named("one").unwrap();
    let frames = |rate| {
        speaker
            .speak(&TOKENS, Language::English, style, rate)
            .frames() as f64
    };
    let (slow, usual, fast) = (frames(0.5), frames(1.0), frames(2.0));
    assert!(
        (fast / usual - 0.5).abs() < 0.1,
        "{usual} frames, then {fast}"
    );
    assert!(
        (slow / usual - 2.0).abs() < 0.1,
        "{usual} frames, then {slow}"
    );
}

#[test]
fn speech_is_as_long_as_the_recordings() {
    let (speaker, clips) = trained();
    let scale = speaker.facts().length_scale;
    assert!((0.5..=2.0).contains(&scale) && scale != 1.0, "{scale}");
    let style = speaker.style_named("one").unwrap();
    let spoken = speaker.speak(&clips[0].tokens, Language::English, style, 1.0);
    let share = spoken.frames() as f64 / 40.0;
    assert!(
        (0.7..1.4).contains(&share),
        "{} frames of 40",
        spoken.frames()
    );

    let frames = |scale| {
        let speaker = with_length_scale(&speaker, scale);
        let long = [TOKENS; 4].concat();
        speaker.speak(&long, Language::English, style, 0.2).frames() as f64
    };
    let ratio = frames(1.6) / frames(0.8);
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
}

#[test]
fn speakers_who_sound_different_have_different_styles() {
    let (speaker, [low, high]) = trained();
    let named = |name| speaker.style_named(name).unwrap().to_vec();
    let (one, two) = (named("one"), named("two"));
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
        squares.sum::<f32>().sqrt()
    };
    assert!(distance(&one, &two) > 0.1, "{one:?} {two:?}");
    for (clip, own, other) in [(low, &one, &two), (high, &two, &one)] {
        let heard = speaker.style_of(clip.mel);
        assert!(
            distance(&heard, own) < 0.5 * distance(&heard, other),
            "{heard:?}"
        );
    }
    let said = |style: &[f32]| speaker.speak(&TOKENS, Language::English, style, 1.0).mel;
    assert_ne!(said(&one), said(&two));
    assert!(speaker.style_named("nobody").is_none());
}
