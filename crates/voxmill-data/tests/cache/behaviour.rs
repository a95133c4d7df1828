//! One promise a test.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{TempDir, tempdir};
use voxmill_data::cache::{
    Added, Cache, CacheError, CacheWriter, ClipView, Freshness, Hash128, RebuildReason,
    WriterOptions, clip_bytes,
};

use super::{
    Synthetic, add, assert_all_hold, assert_holds, files, open, settings, small_shards, try_writer,
    writer,
};

fn id(number: usize) -> String {
    format!("clip-{number:03}")
}

fn fill(writer: &mut CacheWriter, count: usize, version: i64) {
    for number in 0..count {
        add(writer, &id(number), version, 5);
    }
    writer.commit().unwrap();
}

/// A cache of `count` clips of version 1, in shards of four.
fn filled(count: usize) -> TempDir {
    let dir = tempdir().unwrap();
    fill(&mut writer(&dir, 4), count, 1);
    dir
}

fn rebuild_reason(cache: &Cache, id: &str, clip: &Synthetic) -> Option<RebuildReason> {
    match cache.freshness(id, &clip.fingerprint, &settings()) {
        Freshness::Reuse => None,
        Freshness::Rebuild { reason, .. } => Some(reason),
    }
}

#[test]
fn what_was_added_is_read_back_bit_for_bit() {
    let dir = filled(10);
    let cache = open(&dir);
    assert_eq!(cache.len(), 10);
    assert_eq!(files(&dir, "shard-").len(), 3);
    for (id, entry) in cache.entries() {
        let added = Synthetic::new(id, 1, 5);
        assert_eq!(rebuild_reason(&cache, id, &added), None);
        let clip = cache.get(id).unwrap().unwrap();
        assert_eq!(clip.frames(), 5);
        assert_eq!(clip.mel.as_ptr().align_offset(4), 0);
        assert_eq!(entry.fingerprint, added.fingerprint);
        assert_eq!(entry.levels, added.audio.levels);
        assert_eq!(entry.token_count as usize, added.text.tokens.len());
        assert_eq!(clip, added.view());
        assert_eq!(clip.to_audio(), added.audio);
    }
    assert!(cache.get("nobody").unwrap().is_none());
    assert_eq!(cache.warnings(), []);
}

#[test]
fn a_clip_without_frames_tokens_or_text_is_a_clip() {
    let dir = tempdir().unwrap();
    let mut empty = Synthetic::new("empty", 1, 0);
    empty.text.tokens.clear();
    empty.text.normalized.clear();
    let mut writer = writer(&dir, 4);
    let added = writer.add("empty", &empty.fingerprint, empty.view());
    added.unwrap();
    writer.commit().unwrap();
    let clip = writer.cache().get("empty").unwrap().unwrap();
    assert_eq!(clip.frames(), 0);
    assert_eq!((clip.tokens, clip.normalized), (&[][..], ""));
}

#[test]
fn features_that_could_not_be_read_back_are_refused() {
    let dir = tempdir().unwrap();
    let mut writer = writer(&dir, 4);
    for (length, channels) in [(81, 80), (80, 0)] {
        let mut clip = Synthetic::new("a", 1, 1);
        clip.audio.mel.resize(length, 0.0);
        clip.audio.mel_channels = channels;
        let refused = writer.add("a", &clip.fingerprint, clip.view());
        assert!(matches!(refused, Err(CacheError::UnfitFeatures { .. })));
    }
}

#[test]
fn one_changed_clip_rebuilds_one_clip() {
    let dir = filled(10);
    let changed = Synthetic::new("clip-003", 2, 7);
    let cache = open(&dir);
    let reason = |id| rebuild_reason(&cache, id, &changed);
    assert_eq!(reason("clip-003"), Some(RebuildReason::AudioChanged));
    assert_eq!(reason("clip-999"), Some(RebuildReason::New));

    let mut writer = writer(&dir, 4);
    add(&mut writer, "clip-003", 2, 7);
    writer.commit().unwrap();
    let cache = open(&dir);
    assert_eq!(cache.len(), 10);
    assert_holds(&cache, "clip-003", 2, 7);
    assert_holds(&cache, "clip-002", 1, 5);
}

#[test]
fn when_only_the_text_changed_the_mel_is_copied() {
    let dir = filled(1);
    let cache = open(&dir);
    let old = Synthetic::new("clip-000", 1, 5);
    let new_text = Synthetic::new("clip-000", 2, 5).text;
    let mut print = old.fingerprint;
    print.text = Hash128::of_text("other", None);
    let freshness = cache.freshness("clip-000", &print, &settings());
    let (reason, audio_fresh) = (RebuildReason::TextChanged, true);
    let expected = Freshness::Rebuild {
        reason,
        audio_fresh,
    };
    assert_eq!(freshness, expected);
    let mut writer = writer(&dir, 4);
    let stored = cache.get("clip-000").unwrap().unwrap().to_audio();
    let with_new_text = ClipView::new(&new_text, &stored);
    writer.add("clip-000", &print, with_new_text).unwrap();
    writer.commit().unwrap();
    let clip = writer.cache().get("clip-000").unwrap().unwrap();
    assert_eq!(clip, ClipView::new(&new_text, &old.audio));
}

#[test]
fn a_touched_file_of_equal_content_is_restamped() {
    let dir = tempdir().unwrap();
    fill(&mut writer(&dir, 4), 1, 2);
    let mut clip = Synthetic::new("clip-000", 2, 5);
    assert!(clip.fingerprint.audio.content.is_some());
    clip.fingerprint.audio.modified_ns += 1;
    let mut writer = writer(&dir, 4);
    assert_eq!(rebuild_reason(writer.cache(), "clip-000", &clip), None);
    assert!(writer.restamp("clip-000", clip.fingerprint.audio));
    writer.commit().unwrap();
    clip.fingerprint.audio.content = None;
    assert_eq!(rebuild_reason(&open(&dir), "clip-000", &clip), None);
}

#[test]
fn the_second_writer_learns_who_is_first_and_a_reader_does_not_care() {
    let dir = tempdir().unwrap();
    let mut first = writer(&dir, 4);
    fill(&mut first, 3, 1);
    let Err(CacheError::Locked { holder, .. }) = try_writer(&dir, 4) else {
        panic!("two writers at once");
    };
    assert_eq!(holder, Some(std::process::id()));
    assert_eq!(open(&dir).len(), 3);

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
    let dir = tempdir().unwrap();
    let mut writer = writer(&dir, 4);
    for number in 0..6 {
        add(&mut writer, &id(number), 1, 5);
    }
    drop(writer);
    assert_eq!(open(&dir).len(), 4);
    assert!(files(&dir, ".writing-").is_empty());
}

#[test]
fn an_unchanged_cache_is_not_written() {
    let dir = filled(10);
    let before = files(&dir, "");
    writer(&dir, 4).commit().unwrap();
    assert_eq!(files(&dir, ""), before);
}

#[test]
fn stale_temporary_files_go_with_the_next_writer() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(".writing-abc"), b"half a shard").unwrap();
    open(&dir);
    let temporary = || files(&dir, ".writing-").len();
    assert_eq!(temporary(), 1, "a reader writes nothing");
    drop(writer(&dir, 4));
    assert_eq!(temporary(), 0);
}

#[test]
fn a_newer_cache_is_left_alone() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("shard-v2-anything"), b"from the future").unwrap();
    let error = Cache::open(dir.path()).unwrap_err();
    assert!(
        matches!(error, CacheError::NewerVersion { found, supported, .. } if (found, supported) == (2, 1)),
        "{error:?}"
    );
    assert!(error.to_string().contains("version 2") && error.hint().is_some());
    let opened = try_writer(&dir, 4);
    assert!(matches!(opened, Err(CacheError::NewerVersion { .. })));
    assert_eq!(files(&dir, ""), ["shard-v2-anything"]);
}

#[test]
fn an_older_cache_is_rebuilt_and_says_so() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("index-v0-1-x.arrow"), b"from the past").unwrap();
    let reason = rebuild_reason(&open(&dir), "a", &Synthetic::new("a", 1, 5));
    assert_eq!(
        reason,
        Some(RebuildReason::VersionChanged { old: 0, new: 1 })
    );
    drop(writer(&dir, 4));
    assert!(files(&dir, "index-v0").is_empty());
}

/// Root may write into any folder of a disk, but not make one in `/sys`.
#[test]
fn a_folder_that_cannot_be_written_is_a_typed_error() {
    let dir = filled(3);
    fs::remove_file(dir.path().join("lock")).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let read_only = fs::write(dir.path().join("probe"), b"").is_err();
    assert_eq!(open(&dir).len(), 3);
    let place = match read_only {
        true => dir.path(),
        false => Path::new("/sys/voxmill-cache"),
    };
    let error = try_writer(place, 4).unwrap_err();
    assert!(matches!(error, CacheError::NotWritable { .. }), "{error:?}");
    // Or it could not be cleared away.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_file_that_cannot_be_opened_costs_nothing() {
    let dir = filled(3);
    // Neither missing nor damaged: a folder of that name cannot be mapped.
    let index = dir.path().join(&files(&dir, "index-")[0]);
    let aside = dir.path().join("aside");
    fs::rename(&index, &aside).unwrap();
    fs::create_dir(&index).unwrap();
    let refused = [
        Cache::open(dir.path()).map(drop),
        try_writer(&dir, 4).map(drop),
    ];
    for opened in refused {
        assert!(matches!(opened, Err(CacheError::Io { .. })), "{opened:?}");
    }
    fs::remove_dir(&index).unwrap();
    fs::rename(&aside, &index).unwrap();
    assert_eq!(open(&dir).len(), 3);
}

#[test]
fn a_cache_is_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Cache>();
    let dir = filled(10);
    let cache = open(&dir);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_all_hold(&cache, 1, 5));
        }
    });
}

#[test]
fn a_file_in_place_of_the_folder_is_an_error() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("cache");
    fs::write(&path, b"").unwrap();
    assert!(matches!(Cache::open(&path), Err(CacheError::Io { .. })));
    let missing = open(dir.path().join("none"));
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
                match add(&mut writer, &id(number), 1, 50) {
                    Added::Stored => stored += 1,
                    Added::BudgetReached {
                        budget: named,
                        needed,
                    } => assert!(named == budget && needed > budget, "{named} {needed}"),
                }
                assert!(writer.cache().disk_bytes().unwrap() <= budget);
            }
            writer.commit().unwrap();
            let used = writer.cache().disk_bytes().unwrap();
            let case = format!("{used} of {budget} with {shard_clips} a shard");
            assert!(used <= budget, "{case}");
            assert_eq!(open(&dir).len(), stored);
            // Not by refusing everything: with shards of a sensible size most of it is used.
            if shard_clips == 1000 && budget == 1_000_000 {
                assert!(used > budget * 8 / 10, "{case}");
            }
        }
    }
}

#[test]
fn the_estimate_is_near_the_truth() {
    let dir = tempdir().unwrap();
    let mut writer = writer(&dir, 1000);
    let mut estimate = 0;
    for number in 0..40 {
        let text = Synthetic::new(&id(number), 1, 500).text;
        let (tokens, text) = (text.tokens.len(), text.normalized.len());
        estimate += clip_bytes(500, 80, tokens as u64, text as u64);
        add(&mut writer, &id(number), 1, 500);
    }
    writer.commit().unwrap();
    let used = writer.cache().disk_bytes().unwrap();
    let off = used.abs_diff(estimate);
    assert!(off * 100 < used * 2, "{estimate} of {used}");
}

#[test]
fn deleted_clips_are_collected() {
    let dir = tempdir().unwrap();
    // No shard counts as small here, so that only death decides.
    let options = WriterOptions {
        shard_bytes: 100_000,
        ..small_shards(10)
    };
    let mut writer = CacheWriter::open(dir.path(), settings(), options).unwrap();
    for number in 0..40 {
        add(&mut writer, &id(number), 1, 50);
    }
    writer.commit().unwrap();
    let reader = open(&dir);
    let before = reader.disk_bytes().unwrap();
    let shards = files(&dir, "shard-").len();
    // Of the first shards all die, further on two in three, at the end none.
    let keep = |id: &str| {
        let number: usize = id[5..].parse().unwrap();
        number >= 30 || (number >= 12 && number.is_multiple_of(3))
    };
    let collected = writer.gc(keep).unwrap();
    assert_eq!((collected.clips_removed, collected.clips_damaged), (24, 0));
    assert_eq!(collected.shards_before, shards);
    assert_eq!(collected.shards_after, files(&dir, "shard-").len());
    assert!(collected.shards_after < collected.shards_before);
    let after = writer.cache().disk_bytes().unwrap();
    assert_eq!(before - after, collected.bytes_freed);
    assert!(collected.bytes_freed > 20 * 16_000);

    let cache = open(&dir);
    assert_eq!(cache.len(), 16);
    assert!(cache.entries().all(|(id, _)| keep(id)));
    assert_all_hold(&cache, 1, 50);
    // A reader that opened it before still reads what there was.
    assert_all_hold(&reader, 1, 50);
    let again = writer.gc(keep).unwrap();
    assert_eq!((again.clips_removed, again.bytes_freed), (0, 0));
}

#[test]
fn many_small_shards_become_one() {
    let dir = tempdir().unwrap();
    for number in 0..6 {
        let mut writer = writer(&dir, 100);
        add(&mut writer, &id(number), 1, 5);
        writer.commit().unwrap();
    }
    assert_eq!(files(&dir, "shard-").len(), 6);
    let mut writer = writer(&dir, 100);
    writer.gc(|_| true).unwrap();
    assert_eq!(files(&dir, "shard-").len(), 1);
    for number in 0..6 {
        assert_holds(writer.cache(), &id(number), 1, 5);
    }
    let names = files(&dir, "");
    writer.gc(|_| true).unwrap();
    assert_eq!(files(&dir, ""), names, "the second time nothing is to do");
}

#[test]
fn collection_keeps_the_settings_of_stale_rows() {
    let dir = tempdir().unwrap();
    fill(&mut writer(&dir, 2), 4, 1);
    let mut other = settings();
    let hop = ("hop_length".to_owned(), "300".to_owned());
    other.audio.extend([hop]);
    let mut writer = CacheWriter::open(dir.path(), other.clone(), small_shards(100)).unwrap();
    add(&mut writer, "clip-000", 1, 5);
    writer.gc(|_| true).unwrap();
    let cache = open(&dir);
    let fresh = |id: &str| {
        let print = Synthetic::new(id, 1, 5).fingerprint;
        cache.freshness(id, &print, &other)
    };
    assert_eq!(fresh("clip-000"), Freshness::Reuse);
    assert!(matches!(
        fresh("clip-001"),
        Freshness::Rebuild { reason: RebuildReason::SettingChanged { name, .. }, audio_fresh: false } if name == "hop_length"
    ));
    assert_holds(&cache, "clip-001", 1, 5);
}

#[test]
fn removed_clips_are_gone_and_their_shard_with_the_last() {
    let dir = tempdir().unwrap();
    let mut writer = writer(&dir, 2);
    fill(&mut writer, 4, 1);
    assert!(writer.remove("clip-000") && writer.remove("clip-001"));
    assert!(!writer.remove("clip-000"));
    add(&mut writer, "late", 1, 5);
    assert!(writer.remove("late"), "also before its shard is finished");
    writer.commit().unwrap();
    let cache = open(&dir);
    let ids: Vec<&str> = cache.entries().map(|(id, _)| id).collect();
    assert_eq!(ids, ["clip-002", "clip-003"]);
    assert_eq!(files(&dir, "shard-").len(), 1);
}
