use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn no_limits() -> Limits {
    Limits {
        min_seconds: 0.0,
        ..Limits::default()
    }
}

fn changed(id: &str, change: impl FnOnce(&mut ResolvedClip)) -> ResolvedClip {
    let mut resolved = resolved(id);
    change(&mut resolved);
    resolved
}

fn resolved(id: &str) -> ResolvedClip {
    ResolvedClip {
        clip: Clip {
            id: id.into(),
            text: "Hello.".into(),
            speaker: 0,
            language: None,
            split: Split::Train,
            header: AudioHeader {
                sample_rate: 44_100,
                channels: 2,
                samples: 441_000,
            },
            audio_file: format!("wavs/{id}.wav").into(),
            audio_bytes: 1,
            audio_mtime_ns: 1,
            source: Arc::new(ManifestFile {
                folder: "set".into(),
                shown: "set/metadata.csv".into(),
            }),
            row: 1,
        },
        speaker: DEFAULT_SPEAKER.into(),
        split: None,
    }
}

fn splits_of<'a>(ids: impl IntoIterator<Item = &'a str>, fraction: f64) -> BTreeMap<String, Split> {
    let resolved = ids.into_iter().map(|id| Ok(resolved(id)));
    let manifest = Manifest::assemble(resolved, &no_limits(), fraction);
    let clips = manifest.clips.into_iter();
    clips.map(|clip| (clip.id.into(), clip.split)).collect()
}

fn validation(splits: &BTreeMap<String, Split>) -> impl Iterator<Item = &str> {
    let held_out = splits
        .iter()
        .filter(|(_, split)| **split == Split::Validation);
    held_out.map(|(id, _)| id.as_str())
}

#[test]
fn clips_are_filtered_by_length_and_counted_apart() {
    let limits = Limits {
        // 10 seconds at 22,050 Hz are 861.3 hops: 862 frames.
        max_mel_frames: Some(862),
        max_text_length: Some(6),
        min_seconds: 0.5,
        ..no_limits()
    };
    let of_length = |id, samples| changed(id, |r| r.clip.header.samples = samples);
    let of_text = |id, text: &str| changed(id, |r| r.clip.text = text.into());
    let all = [
        resolved("fits"),
        of_length("long", 441_000 + 2 * 256),
        of_length("hours", 3 * 3600 * 44_100),
        of_length("absurd", u64::MAX),
        of_length("short", 22_049),
        of_text("wordy", "Hello!!"),
        of_text("novel", &"x".repeat(100_000)),
        // 6 characters in 10 bytes.
        of_text("persian", "سلام !"),
    ];
    let manifest = Manifest::assemble(all.map(Ok), &limits, 0.0);
    let kept: Vec<_> = manifest.clips.iter().map(|clip| &*clip.id).collect();
    assert_eq!(kept, ["fits", "persian"]);
    let expected = Filtered {
        audio_too_long: 3,
        audio_too_short: 1,
        text_too_long: 2,
    };
    assert_eq!(manifest.filtered, expected);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filtered.csv");
    write_filtered(&path, &manifest.filtered_clips).unwrap();
    let listed = std::fs::read_to_string(path).unwrap();
    let rows: Vec<_> = listed.lines().collect();
    assert_eq!(rows.len(), 7);
    assert_eq!(rows[1], "long,audio too long,863,862,frames");
    assert_eq!(rows[4], "short,audio too short,0.49997732426303854,0.5,s");
    assert_eq!(rows[5], "wordy,text too long,7,6,characters");
    assert_eq!(manifest.rows(), 8);
    assert_eq!(manifest.too_many_bad(0.0), None);
}

#[test]
fn bad_rows_are_counted_against_all_rows() {
    let entry = |id| Err(resolved(id).clip.quarantine(Reason::EMPTY_TEXT, "nothing"));
    let all = (0..19).map(|_| Ok(resolved("a"))).chain([entry("b")]);
    let manifest = Manifest::assemble(all, &no_limits(), 0.0);
    assert_eq!(manifest.rows(), 20);
    assert_eq!(manifest.too_many_bad(0.05), None);
    assert_eq!(manifest.too_many_bad(0.049).unwrap().bad, 1);
}

#[test]
fn speakers_are_numbered_by_name_and_only_those_with_clips() {
    let by = |id, speaker: &str| changed(id, |clip| clip.speaker = speaker.into());
    let mut long = by("c", "gone");
    long.clip.text = "Too many words".into();
    let mut persian = by("d", "zoe");
    persian.clip.language = Some(Language::Persian);
    let mut german = by("e", "bob");
    german.clip.language = Some("de".parse().unwrap());
    let limits = Limits {
        max_text_length: Some(6),
        ..no_limits()
    };
    let all = [by("a", "zoe"), by("b", "ann"), long, persian, german];
    let manifest = Manifest::assemble(all.map(Ok), &limits, 0.0);
    assert_eq!(manifest.speakers, ["ann", "bob", "zoe"]);
    let names = manifest.clips.iter().map(|clip| manifest.speaker(clip));
    assert_eq!(Vec::from_iter(names), ["zoe", "ann", "zoe", "bob"]);
    let codes: Vec<_> = manifest.languages.iter().map(|l| l.code()).collect();
    assert_eq!(codes, ["de", "fa"]);
}

#[test]
fn the_fraction_is_about_met_and_the_sets_are_those_of_earlier_versions() {
    let ids: Vec<String> = (0..10_000).map(|n| format!("LJ{n:05}")).collect();
    let splits = splits_of(ids.iter().map(String::as_str), 0.05);
    let count = validation(&splits).count();
    assert!((430..570).contains(&count), "{count}");
    // The set of a run must not change with a release: these are the first three of it.
    let first = Vec::from_iter(validation(&splits).take(3));
    assert_eq!(first, ["LJ00001", "LJ00018", "LJ00019"]);
}

#[test]
fn small_sets_have_one_clip_of_each_kind() {
    assert_eq!(validation(&splits_of(["a"], 0.5)).count(), 0);
    for ids in [["a", "b"], ["c", "d"], ["e", "f"]] {
        for (fraction, expected) in [(1e-9, 1), (1.0, 1), (0.0, 0), (f64::NAN, 0)] {
            let count = validation(&splits_of(ids, fraction)).count();
            assert_eq!(count, expected, "{fraction} of {ids:?}");
        }
    }
    assert!(splits_of([], 0.5).is_empty());
    // The first clip of all moves when it is the one of two to hold back.
    assert_eq!(splits_of(["f"], 0.45)["f"], Split::Train);
    assert_eq!(splits_of(["d", "f"], 0.45)["f"], Split::Validation);
}

#[test]
fn a_split_that_is_given_is_kept() {
    let given = |id, split| Ok(changed(id, |clip| clip.split = Some(split)));
    let all = [given("a", Split::Train), given("b", Split::Train)];
    let manifest = Manifest::assemble(all, &no_limits(), 1.0);
    assert!(manifest.clips.iter().all(|clip| clip.split == Split::Train));
    let all = [given("a", Split::Validation)];
    let manifest = Manifest::assemble(all, &no_limits(), 0.5);
    assert_eq!(manifest.clips[0].split, Split::Validation);
}

proptest! {
    /// At most the one clip that stands in for an empty set moves when others come. Two clips at
    /// least: a lone one is trained on, and may be the one to hold back once there is a choice.
    #[test]
    fn adding_clips_moves_no_other(
        old in prop::collection::btree_set("[a-z]{1,6}", 2..60),
        new in prop::collection::btree_set("[a-z]{1,6}", 0..60),
        fraction in 0.0..1.0f64,
    ) {
        let before = splits_of(old.iter().map(String::as_str), fraction);
        let after = splits_of(old.union(&new).map(String::as_str), fraction);
        let moved = before.iter().filter(|(id, split)| after[*id] != **split).count();
        let own = |id: &str| crate::draw::unit(split::split_draw(&resolved(id).clip)) < fraction;
        let stand_ins = before
            .iter()
            .filter(|(id, split)| own(id) != (**split == Split::Validation))
            .count();
        prop_assert!(stand_ins <= 1);
        prop_assert!(moved <= stand_ins);
    }
}

/// A folder as LJ Speech has it: three columns, no header, and one audio file for each row.
#[test]
fn a_folder_like_ljspeech_is_read_in_full() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    std::fs::create_dir(folder.join("wavs")).unwrap();
    let mut manifest = String::new();
    for n in 1..=32 {
        manifest +=
            &format!("MY001-{n:04}|Mill No. {n}, the last.|Mill number so and so, the last.\n");
        std::fs::write(folder.join(format!("wavs/MY001-{n:04}.wav")), "RIFF").unwrap();
    }
    std::fs::write(folder.join("metadata.csv"), manifest).unwrap();
    let rows = read_rows(folder, None).unwrap();
    let audio = AudioFolder::list(&rows, FollowedLinks::Inside).unwrap();
    let header = resolved("any").clip.header;
    let resolve = |row| audio.resolve(row, |_| Ok(header));
    let resolved = rows.rows.into_iter().map(|row| row.and_then(resolve));
    let manifest = Manifest::assemble(resolved, &no_limits(), 0.1);
    assert_eq!((manifest.clips.len(), manifest.quarantine.len()), (32, 0));
    assert_eq!(manifest.speakers, [DEFAULT_SPEAKER]);
    let is_normalized = |clip: &Clip| &*clip.text == "Mill number so and so, the last.";
    assert!(manifest.clips.iter().all(is_normalized));
}
