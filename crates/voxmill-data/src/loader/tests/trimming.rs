//! Clips whose silence is trimmed: their headers say more than they have.

use super::*;

/// Tones between two silences of half a second, which trimming cuts.
fn between_silences() -> Tones {
    let mut data = Tones::new();
    for number in 0..CLIPS {
        let path = data.home.path().join(format!("wavs/c{number}.wav"));
        let tone = (0..4_000 + 900 * number).map(|at| (at as f32 / 10.0).sin() / 4.0);
        let silence = || std::iter::repeat_n(0.0, 11_025);
        let samples = silence().chain(tone).chain(silence());
        fs::write(path, wav_bytes(&Vec::from_iter(samples), 22_050)).unwrap();
    }
    let dataset = Dataset::open(data.home.path(), None, &Limits::default(), 0.0);
    data.clips = dataset.unwrap().manifest.clips;
    data
}

fn trimming(data: &Tones) -> FeatureStore {
    let audio = AudioSettings {
        trim_db: Some(40.0),
        ..AudioSettings::default()
    };
    let recipe = Recipe {
        audio: Arc::new(audio),
        ..Recipe::default()
    };
    let clips = data.clips.clone();
    FeatureStore::open(clips, recipe, data.cached(), ROOMY, Recorder::off())
}

#[test]
fn trimmed_lengths_decide_once_the_cache_has_them_and_a_resumed_run_keeps_its_own() {
    let data = between_silences();
    let cold = Arc::new(trimming(&data));
    assert_eq!(*cold.lengths(), PlannedLengths::default());
    let by_headers = training(&cold, settings(2));
    let audio = cold.recipe().audio.clone();
    let header = |id: &str| {
        let clip = data.clips.iter().find(|clip| &*clip.id == id);
        audio.frames_for_header(&clip.unwrap().header) as u32
    };
    let clips = by_headers.plan().clips().iter();
    assert!({ clips }.all(|clip| clip.frames == header(&clip.id)));
    two_epochs_of(&by_headers);
    let began_with = serde_json::to_value(cold.lengths()).unwrap();
    let before = by_headers.plan().fingerprint();
    let longest = by_headers
        .plan()
        .clips()
        .iter()
        .map(|clip| clip.frames)
        .max();
    drop((cold, by_headers));

    // A new run plans by what the clips really have.
    let warm = Arc::new(trimming(&data));
    assert!(warm.lengths().trimmed && warm.lengths().by_header.is_empty());
    let trimmed = training(&warm, settings(2));
    for batch in two_epochs_of(&trimmed) {
        for (clip, frames) in batch.clips.iter().zip(&batch.frame_counts) {
            let Some(clip) = clip else { continue };
            let planned = &trimmed.plan().clips()[*clip];
            assert_eq!(*frames, planned.frames, "{}", planned.id);
            assert!(planned.frames + 60 < header(&planned.id), "{}", planned.id);
        }
    }

    // The one that began with headers is resumed with them, whatever the cache has by now.
    let lengths = serde_json::from_value(began_with).unwrap();
    let resumed = Arc::new(trimming(&data).with_lengths(lengths));
    assert_eq!(training(&resumed, settings(2)).plan().fingerprint(), before);
    assert_ne!(trimmed.plan().fingerprint(), before);

    // A limit that leaves a clip out by its header takes it once its length is known.
    let limited = LoaderSettings {
        max_frames: longest.map(|frames| frames - 1),
        ..settings(2)
    };
    assert_eq!(training(&resumed, limited.clone()).too_long(), 1);
    assert_eq!(training(&warm, limited).too_long(), 0);
}

/// A clip that the cache cannot have (its file is bad) is planned by its header, and stays so.
#[test]
fn clips_that_the_cache_does_not_have_are_named() {
    let data = between_silences();
    let cold = Arc::new(trimming(&data));
    data.break_clip();
    two_epochs_of(&training(&cold, settings(2)));
    drop(cold);
    let warm = trimming(&data);
    assert!(warm.lengths().trimmed);
    let named: Vec<_> = warm.lengths().by_header.iter().collect();
    assert_eq!(named, ["c9"]);
}
