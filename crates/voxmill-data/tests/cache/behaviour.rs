//! One promise a test.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use voxmill_data::cache::{
    Added, Cache, CacheError, CacheWriter, Freshness, Reason, WriterOptions, clip_bytes,
};

use super::{Made, files, settings, small_shards, writer};

fn fill(writer: &mut CacheWriter, count: usize, version: i64) {
    for number in 0..count {
        let id = format!("clip-{number:03}");
        let clip = Made::new(&id, version, 5);
        writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
    }
    writer.commit().unwrap();
}

fn rebuild_reason(cache: &Cache, id: &str, made: &Made) -> Option<Reason> {
    match cache.freshness(id, &made.fingerprint, &settings()) {
        Freshness::Reuse => None,
        Freshness::Rebuild { reason, .. } => Some(reason),
    }
}

#[test]
fn what_was_added_is_read_back_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 10, 1);
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(cache.len(), 10);
    assert_eq!(files(dir.path(), "shard-").len(), 3);
    for (id, entry) in cache.entries() {
        let made = Made::new(id, 1, 5);
        let clip = cache.get(id).unwrap().unwrap();
        assert_eq!(
            (clip.to_text(), clip.to_audio()),
            (made.text.clone(), made.audio.clone())
        );
        assert_eq!(clip.frames(), 5);
        assert_eq!(clip.mel.as_ptr().align_offset(4), 0);
        assert_eq!(entry.fingerprint, made.fingerprint);
        assert_eq!(entry.levels, made.audio.levels);
        assert_eq!(entry.token_count as usize, made.text.tokens.len());
        assert_eq!(rebuild_reason(&cache, id, &made), None);
    }
    assert!(cache.get("nobody").unwrap().is_none());
    assert_eq!(cache.warnings(), []);
}

#[test]
fn a_clip_without_frames_tokens_or_text_is_a_clip() {
    let dir = tempfile::tempdir().unwrap();
    let mut empty = Made::new("empty", 1, 0);
    empty.text.tokens.clear();
    empty.text.normalized.clear();
    let mut writer = writer(dir.path(), 4);
    writer
        .add("empty", &empty.fingerprint, empty.view())
        .unwrap();
    writer.commit().unwrap();
    let clip = writer.cache().get("empty").unwrap().unwrap();
    assert_eq!(
        (clip.frames(), clip.tokens, clip.normalized),
        (0, &[][..], "")
    );
}

#[test]
fn features_that_could_not_be_read_back_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 4);
    for (length, channels) in [(81, 80), (80, 0)] {
        let mut made = Made::new("a", 1, 1);
        made.audio.mel.resize(length, 0.0);
        made.audio.mel_channels = channels;
        let refused = writer.add("a", &made.fingerprint, made.view());
        assert!(matches!(refused, Err(CacheError::UnfitFeatures { .. })));
    }
}

#[test]
fn one_changed_clip_rebuilds_one_clip() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 10, 1);
    let changed = Made::new("clip-003", 2, 7);
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(
        rebuild_reason(&cache, "clip-003", &changed),
        Some(Reason::AudioChanged)
    );
    assert_eq!(
        rebuild_reason(&cache, "clip-999", &changed),
        Some(Reason::New)
    );

    let mut writer = writer(dir.path(), 4);
    writer
        .add("clip-003", &changed.fingerprint, changed.view())
        .unwrap();
    writer.commit().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(cache.len(), 10);
    assert_eq!(cache.get("clip-003").unwrap().unwrap(), changed.view());
    assert_eq!(
        cache.get("clip-002").unwrap().unwrap(),
        Made::new("clip-002", 1, 5).view()
    );
}

#[test]
fn when_only_the_text_changed_the_mel_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 1, 1);
    let cache = Cache::open(dir.path()).unwrap();
    let old = Made::new("clip-000", 1, 5);
    let new_text = Made::new("clip-000", 2, 5).text;
    let mut print = old.fingerprint;
    print.text = voxmill_data::cache::Hash128::of_text("other", None);
    assert_eq!(
        cache.freshness("clip-000", &print, &settings()),
        Freshness::Rebuild {
            reason: Reason::TextChanged,
            audio_fresh: true
        }
    );
    let mut writer = writer(dir.path(), 4);
    let stored = cache.get("clip-000").unwrap().unwrap();
    writer
        .add("clip-000", &print, stored.with_text(&new_text))
        .unwrap();
    writer.commit().unwrap();
    let clip = writer.cache().get("clip-000").unwrap().unwrap();
    assert_eq!((clip.to_text(), clip.to_audio()), (new_text, old.audio));
}

#[test]
fn a_touched_file_of_equal_content_is_restamped() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 1, 2);
    let mut made = Made::new("clip-000", 2, 5);
    assert!(made.fingerprint.audio.content.is_some());
    made.fingerprint.audio.modified_ns += 1;
    let mut writer = writer(dir.path(), 4);
    assert_eq!(rebuild_reason(writer.cache(), "clip-000", &made), None);
    assert!(writer.restamp("clip-000", made.fingerprint.audio));
    writer.commit().unwrap();
    made.fingerprint.audio.content = None;
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(rebuild_reason(&cache, "clip-000", &made), None);
}

#[test]
fn the_second_writer_is_told_who_is_first_and_a_reader_does_not_care() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = writer(dir.path(), 4);
    fill(&mut first, 3, 1);
    let refused = CacheWriter::open(dir.path(), settings(), small_shards(4));
    let Err(CacheError::Locked { holder, .. }) = refused else {
        panic!("two writers at once");
    };
    assert_eq!(holder, Some(std::process::id()));
    assert_eq!(Cache::open(dir.path()).unwrap().len(), 3);

    let mut first = Some(first);
    let mut waits = 0;
    let second = CacheWriter::open_waiting(dir.path(), settings(), small_shards(4), |_| {
        waits += 1;
        if waits == 2 {
            first = None;
        }
        ControlFlow::Continue(())
    });
    assert_eq!(second.unwrap().cache().len(), 3);
    assert_eq!(waits, 2);
}

#[test]
fn dropping_without_commit_loses_the_unfinished_shard_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 4);
    for number in 0..6 {
        let id = format!("clip-{number:03}");
        let clip = Made::new(&id, 1, 5);
        writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
    }
    drop(writer);
    assert_eq!(Cache::open(dir.path()).unwrap().len(), 4);
    assert!(files(dir.path(), ".writing-").is_empty());
}

#[test]
fn an_unchanged_cache_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 10, 1);
    let before = files(dir.path(), "");
    writer(dir.path(), 4).commit().unwrap();
    assert_eq!(files(dir.path(), ""), before);
}

#[test]
fn stale_temporary_files_go_with_the_next_writer() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(".writing-abc"), b"half a shard").unwrap();
    Cache::open(dir.path()).unwrap();
    assert_eq!(
        files(dir.path(), ".writing-").len(),
        1,
        "a reader writes nothing"
    );
    drop(writer(dir.path(), 4));
    assert_eq!(files(dir.path(), ".writing-").len(), 0);
}

#[test]
fn a_newer_cache_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("shard-v2-anything"), b"from the future").unwrap();
    let opened = Cache::open(dir.path());
    let Err(
        error @ CacheError::NewerVersion {
            found: 2,
            supported: 1,
            ..
        },
    ) = opened
    else {
        panic!("{opened:?}");
    };
    assert!(error.to_string().contains("version 2") && error.hint().is_some());
    let opened = CacheWriter::open(dir.path(), settings(), small_shards(4));
    assert!(matches!(opened, Err(CacheError::NewerVersion { .. })));
    assert_eq!(files(dir.path(), ""), ["shard-v2-anything"]);
}

#[test]
fn an_older_cache_is_rebuilt_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index-v0-1-x.arrow"), b"from the past").unwrap();
    let made = Made::new("a", 1, 5);
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(
        rebuild_reason(&cache, "a", &made),
        Some(Reason::VersionChanged { old: 0, new: 1 })
    );
    drop(writer(dir.path(), 4));
    assert!(files(dir.path(), "index-v0").is_empty());
}

/// Root may write into any folder of a disk, but not make one in `/sys`.
#[test]
fn a_folder_that_cannot_be_written_is_a_typed_error() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 3, 1);
    fs::remove_file(dir.path().join("lock")).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let read_only = fs::write(dir.path().join("probe"), b"").is_err();
    assert_eq!(Cache::open(dir.path()).unwrap().len(), 3);
    let place = match read_only {
        true => dir.path(),
        false => Path::new("/sys/voxmill-cache"),
    };
    let refused = CacheWriter::open(place, settings(), small_shards(4));
    assert!(
        matches!(refused, Err(CacheError::NotWritable { .. })),
        "{refused:?}"
    );
    // Or it could not be cleared away.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_file_that_cannot_be_opened_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 3, 1);
    // Neither missing nor damaged: a folder of that name cannot be mapped.
    let index = dir.path().join(&files(dir.path(), "index-")[0]);
    let aside = dir.path().join("aside");
    fs::rename(&index, &aside).unwrap();
    fs::create_dir(&index).unwrap();
    assert!(matches!(
        Cache::open(dir.path()),
        Err(CacheError::Io { .. })
    ));
    let opened = CacheWriter::open(dir.path(), settings(), small_shards(4));
    assert!(matches!(opened, Err(CacheError::Io { .. })));
    fs::remove_dir(&index).unwrap();
    fs::rename(&aside, &index).unwrap();
    assert_eq!(Cache::open(dir.path()).unwrap().len(), 3);
}

#[test]
fn a_cache_is_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Cache>();
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 4), 10, 1);
    let cache = Cache::open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (id, _) in cache.entries() {
                    assert_eq!(cache.get(id).unwrap().unwrap(), Made::new(id, 1, 5).view());
                }
            });
        }
    });
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    fs::write(&path, b"").unwrap();
    assert!(matches!(Cache::open(&path), Err(CacheError::Io { .. })));
    let missing = Cache::open(&dir.path().join("none")).unwrap();
    assert!(missing.is_empty() && missing.disk_bytes().unwrap() == 0);
    assert!(!dir.path().join("none").exists());
}

#[test]
fn the_budget_holds_and_what_fits_is_kept() {
    for budget in [60_000, 200_000, 1_000_000] {
        for shard_clips in [1, 3, 1000] {
            let dir = super::fast_dir();
            let options = WriterOptions {
                budget_bytes: Some(budget),
                ..small_shards(shard_clips)
            };
            let mut writer = CacheWriter::open(dir.path(), settings(), options).unwrap();
            let mut stored = 0;
            for number in 0..100 {
                let id = format!("clip-{number:03}");
                let clip = Made::new(&id, 1, 50);
                match writer.add(&id, &clip.fingerprint, clip.view()).unwrap() {
                    Added::Stored => stored += 1,
                    Added::BudgetReached {
                        budget: told,
                        needed,
                    } => {
                        assert_eq!(told, budget);
                        assert!(needed > budget);
                    }
                }
                assert!(writer.cache().disk_bytes().unwrap() <= budget);
            }
            writer.commit().unwrap();
            let used = writer.cache().disk_bytes().unwrap();
            assert!(
                used <= budget,
                "{used} > {budget} with {shard_clips} a shard"
            );
            assert_eq!(Cache::open(dir.path()).unwrap().len(), stored);
            // Not by refusing everything: with shards of a sensible size most of it is used.
            if shard_clips == 1000 && budget == 1_000_000 {
                assert!(used > budget * 8 / 10, "{used} of {budget}");
            }
        }
    }
}

#[test]
fn the_estimate_is_near_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 1000);
    let mut estimate = 0;
    for number in 0..40 {
        let id = format!("clip-{number:03}");
        let clip = Made::new(&id, 1, 500);
        let (tokens, text) = (clip.text.tokens.len(), clip.text.normalized.len());
        estimate += clip_bytes(500, 80, tokens as u64, text as u64);
        writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
    }
    writer.commit().unwrap();
    let used = writer.cache().disk_bytes().unwrap();
    assert!(
        used.abs_diff(estimate) * 100 < used * 2,
        "{estimate} of {used}"
    );
}

#[test]
fn deleted_clips_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = CacheWriter::open(
        dir.path(),
        settings(),
        // No shard counts as small here, so that only death decides.
        WriterOptions {
            shard_bytes: 100_000,
            ..small_shards(10)
        },
    )
    .unwrap();
    for number in 0..40 {
        let id = format!("clip-{number:03}");
        let clip = Made::new(&id, 1, 50);
        writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
    }
    writer.commit().unwrap();
    let reader = Cache::open(dir.path()).unwrap();
    let before = reader.disk_bytes().unwrap();
    let shards = files(dir.path(), "shard-").len();
    // Of the first shards all die, further on two in three, at the end none.
    let keep = |id: &str| {
        let number: usize = id[5..].parse().unwrap();
        number >= 30 || (number >= 12 && number.is_multiple_of(3))
    };
    let collected = writer.gc(keep).unwrap();
    assert_eq!(collected.clips_removed, 24);
    assert_eq!(collected.clips_damaged, 0);
    assert_eq!(collected.shards_before, shards);
    assert_eq!(collected.shards_after, files(dir.path(), "shard-").len());
    assert!(collected.shards_after < collected.shards_before);
    let after = writer.cache().disk_bytes().unwrap();
    assert_eq!(before - after, collected.bytes_freed);
    assert!(collected.bytes_freed > 20 * 16_000);

    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(cache.len(), 16);
    for (id, _) in cache.entries() {
        assert!(keep(id));
        assert_eq!(cache.get(id).unwrap().unwrap(), Made::new(id, 1, 50).view());
    }
    // Who opened it before still reads what there was.
    for (id, _) in reader.entries() {
        assert_eq!(
            reader.get(id).unwrap().unwrap(),
            Made::new(id, 1, 50).view()
        );
    }
    let again = writer.gc(keep).unwrap();
    assert_eq!((again.clips_removed, again.bytes_freed), (0, 0));
}

#[test]
fn many_small_shards_become_one() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..6 {
        let mut writer = writer(dir.path(), 100);
        let id = format!("clip-{number}");
        let clip = Made::new(&id, 1, 5);
        writer.add(&id, &clip.fingerprint, clip.view()).unwrap();
        writer.commit().unwrap();
    }
    assert_eq!(files(dir.path(), "shard-").len(), 6);
    let mut writer = writer(dir.path(), 100);
    writer.gc(|_| true).unwrap();
    assert_eq!(files(dir.path(), "shard-").len(), 1);
    for number in 0..6 {
        let id = format!("clip-{number}");
        assert_eq!(
            writer.cache().get(&id).unwrap().unwrap(),
            Made::new(&id, 1, 5).view()
        );
    }
    let names = files(dir.path(), "");
    writer.gc(|_| true).unwrap();
    assert_eq!(
        files(dir.path(), ""),
        names,
        "a second collection finds nothing to do"
    );
}

#[test]
fn collection_keeps_the_settings_of_stale_rows() {
    let dir = tempfile::tempdir().unwrap();
    fill(&mut writer(dir.path(), 2), 4, 1);
    let mut other = settings();
    other
        .audio
        .insert("hop_length".to_owned(), "300".to_owned());
    let mut writer = CacheWriter::open(dir.path(), other.clone(), small_shards(100)).unwrap();
    let made = Made::new("clip-000", 1, 5);
    writer
        .add("clip-000", &made.fingerprint, made.view())
        .unwrap();
    writer.gc(|_| true).unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    let fresh = |id: &str| {
        let made = Made::new(id, 1, 5);
        cache.freshness(id, &made.fingerprint, &other)
    };
    assert_eq!(fresh("clip-000"), Freshness::Reuse);
    assert!(matches!(
        fresh("clip-001"),
        Freshness::Rebuild { reason: Reason::SettingChanged { name, .. }, audio_fresh: false } if name == "hop_length"
    ));
    assert_eq!(
        cache.get("clip-001").unwrap().unwrap(),
        Made::new("clip-001", 1, 5).view()
    );
}

#[test]
fn removed_clips_are_gone_and_their_shard_with_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 2);
    fill(&mut writer, 4, 1);
    assert!(writer.remove("clip-000") && writer.remove("clip-001"));
    assert!(!writer.remove("clip-000"));
    let late = Made::new("late", 1, 5);
    writer.add("late", &late.fingerprint, late.view()).unwrap();
    assert!(writer.remove("late"), "also before its shard is finished");
    writer.commit().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    let ids: Vec<&str> = cache.entries().map(|(id, _)| id).collect();
    assert_eq!(ids, ["clip-002", "clip-003"]);
    assert_eq!(files(dir.path(), "shard-").len(), 1);
}
