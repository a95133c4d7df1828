//! Bytes that are not what was written: reported, rebuilt, never believed.

use std::fs;
use std::path::{Path, PathBuf};

use voxmill_data::cache::{Cache, Freshness, Reason, Warning};

use super::{Made, fast_dir, files, settings, writer};

const IDS: [&str; 4] = ["a", "b", "c", "d"];

/// Two shards of two clips.
fn filled(dir: &Path) {
    let mut writer = writer(dir, 2);
    for id in IDS {
        let clip = Made::new(id, 1, 5);
        writer.add(id, &clip.fingerprint, clip.view()).unwrap();
    }
    writer.commit().unwrap();
}

fn nth(dir: &Path, prefix: &str, position: usize) -> PathBuf {
    dir.join(&files(dir, prefix)[position])
}

fn readable(cache: &Cache) -> Vec<&str> {
    let mut whole = Vec::new();
    for (id, _) in cache.entries() {
        if let Ok(clip) = cache.get(id) {
            assert_eq!(clip.unwrap(), Made::new(id, 1, 5).view());
            whole.push(id);
        }
    }
    whole
}

#[test]
fn any_flipped_byte_of_a_shard_is_noticed_and_costs_that_shard_only() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 0);
    let whole = fs::read(&path).unwrap();
    for position in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let mut flipped = whole.clone();
        flipped[position] ^= 1;
        fs::write(&path, flipped).unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let print = Made::new("a", 1, 5).fingerprint;
        assert_eq!(cache.freshness("a", &print, &settings()), Freshness::Reuse);
        assert_eq!(readable(&cache), ["c", "d"]);
        assert_eq!(
            cache.freshness("a", &print, &settings()),
            Freshness::Rebuild {
                reason: Reason::DamagedShard,
                audio_fresh: false
            }
        );
        let warnings = cache.warnings();
        assert!(
            matches!(&warnings[..], [Warning::DamagedShard(_, 2)]),
            "{warnings:?}"
        );
    }
}

#[test]
fn a_truncated_or_missing_shard_is_known_on_opening() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 1);
    let whole = fs::read(&path).unwrap();
    let check = || {
        let cache = Cache::open(dir.path()).unwrap();
        let print = Made::new("c", 1, 5).fingerprint;
        assert!(matches!(
            cache.freshness("c", &print, &settings()),
            Freshness::Rebuild {
                reason: Reason::DamagedShard,
                ..
            }
        ));
        assert_eq!(readable(&cache), ["a", "b"]);
    };
    for length in [0, 1, 9, 10, 64, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        check();
    }
    fs::remove_file(&path).unwrap();
    check();
}

#[test]
fn verification_finds_damage_before_anything_is_read() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(cache.warnings(), []);
    cache.check_shards();
    let told: Vec<String> = cache.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("the cache's file shard-v1-000000-"),
        "{told:?}"
    );
    assert!(told[0].ends_with("; 2 clips are rebuilt"), "{told:?}");
}

#[test]
fn rebuilding_its_clips_removes_a_damaged_shard() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 0);
    fs::write(&path, b"not arrow").unwrap();
    let mut writer = writer(dir.path(), 2);
    for id in ["a", "b"] {
        let clip = Made::new(id, 1, 5);
        writer.add(id, &clip.fingerprint, clip.view()).unwrap();
    }
    writer.commit().unwrap();
    assert!(!path.exists());
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(readable(&cache), IDS);
    assert_eq!(cache.warnings(), []);
}

#[test]
fn collection_drops_clips_of_a_damaged_shard_it_must_rewrite() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 0);
    fs::write(&path, b"not arrow").unwrap();
    let mut writer = writer(dir.path(), 2);
    let collected = writer.gc(|_| true).unwrap();
    assert_eq!((collected.clips_removed, collected.clips_damaged), (0, 2));
    assert!(!path.exists());
    assert_eq!(readable(writer.cache()), ["c", "d"]);
}

#[test]
fn a_damaged_index_falls_back_to_the_spare_and_later_shards() {
    let dir = fast_dir();
    filled(dir.path());
    let index = nth(dir.path(), "index-", 1);
    fs::write(&index, b"").unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(readable(&cache), IDS);
    assert!(matches!(
        &cache.warnings()[..],
        [Warning::DamagedIndex { .. }]
    ));
    let mut writer = writer(dir.path(), 2);
    writer.commit().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!((readable(&cache), cache.warnings()), (IDS.to_vec(), vec![]));
}

#[test]
fn without_any_index_the_shards_tell_all() {
    let dir = fast_dir();
    filled(dir.path());
    for name in files(dir.path(), "index-") {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(readable(&cache), IDS);
    let print = Made::new("a", 1, 5).fingerprint;
    assert_eq!(cache.freshness("a", &print, &settings()), Freshness::Reuse);

    // A damaged shard that no index describes: its clips are unknown, thus new.
    let path = nth(dir.path(), "shard-", 0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 1;
    fs::write(&path, bytes).unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!(readable(&cache), ["c", "d"]);
    assert!(matches!(
        &cache.warnings()[..],
        [Warning::DamagedShard(_, 0)]
    ));
    drop(writer(dir.path(), 2));
    assert!(!path.exists(), "a writer clears it away");
}

#[test]
fn a_shard_the_index_does_not_know_yet_is_adopted() {
    let dir = fast_dir();
    filled(dir.path());
    // As after a kill between the renaming of the second shard and that of its index.
    fs::remove_file(nth(dir.path(), "index-", 1)).unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!((readable(&cache), cache.warnings()), (IDS.to_vec(), vec![]));
}

#[test]
fn a_shard_the_index_gave_up_does_not_come_back() {
    let dir = fast_dir();
    filled(dir.path());
    let path = nth(dir.path(), "shard-", 0);
    let bytes = fs::read(&path).unwrap();
    let mut first = writer(dir.path(), 2);
    first.remove("a");
    first.remove("b");
    first.commit().unwrap();
    drop(first);
    assert!(!path.exists());
    // As after a kill between the new index and the unlinking.
    fs::write(&path, bytes).unwrap();
    assert_eq!(readable(&Cache::open(dir.path()).unwrap()), ["c", "d"]);
    drop(writer(dir.path(), 2));
    assert!(!path.exists());
}
