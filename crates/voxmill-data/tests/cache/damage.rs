//! Bytes that are not what was written: reported, rebuilt, never believed.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use voxmill_data::cache::{Cache, CacheWriter, Freshness, RebuildReason, Warning};

use super::{Synthetic, add, assert_holds, fast_dir, files, open, settings, writer};

const IDS: [&str; 4] = ["a", "b", "c", "d"];

/// Two shards of two clips.
fn filled() -> TempDir {
    let dir = fast_dir();
    add_all(&mut writer(&dir, 2), &IDS);
    dir
}

fn add_all(writer: &mut CacheWriter, ids: &[&str]) {
    for id in ids {
        add(writer, id, 1, 5);
    }
    writer.commit().unwrap();
}

fn nth(dir: &TempDir, prefix: &str, position: usize) -> PathBuf {
    dir.path().join(&files(dir, prefix)[position])
}

fn flip(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn freshness(cache: &Cache, id: &str) -> Freshness {
    let print = Synthetic::new(id, 1, 5).fingerprint;
    cache.freshness(id, &print, &settings())
}

const DAMAGED: Freshness = Freshness::Rebuild {
    reason: RebuildReason::DamagedShard,
    audio_fresh: false,
};

fn readable(cache: &Cache) -> Vec<&str> {
    let mut whole = Vec::new();
    for (id, _) in cache.entries() {
        if cache.get(id).is_ok() {
            assert_holds(cache, id, 1, 5);
            whole.push(id);
        }
    }
    whole
}

#[test]
fn any_flipped_byte_of_a_shard_is_noticed_and_costs_that_shard_only() {
    let dir = filled();
    let path = nth(&dir, "shard-", 0);
    let length = fs::read(&path).unwrap().len();
    for position in (0..length).step_by(97).chain([length - 1]) {
        flip(&path, position);
        let cache = open(&dir);
        assert_eq!(freshness(&cache, "a"), Freshness::Reuse);
        assert_eq!(readable(&cache), ["c", "d"]);
        assert_eq!(freshness(&cache, "a"), DAMAGED);
        let warnings = cache.warnings();
        let damaged = matches!(&warnings[..], [Warning::DamagedShard(_, 2)]);
        assert!(damaged, "byte {position}: {warnings:?}");
        flip(&path, position);
    }
}

#[test]
fn a_truncated_or_missing_shard_is_known_on_opening() {
    let dir = filled();
    let path = nth(&dir, "shard-", 1);
    let whole = fs::read(&path).unwrap();
    let check = || {
        let cache = open(&dir);
        assert_eq!(freshness(&cache, "c"), DAMAGED);
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
    let dir = filled();
    flip(&nth(&dir, "shard-", 0), 100);
    let cache = open(&dir);
    assert_eq!(cache.warnings(), []);
    cache.check_shards();
    let warnings = cache.warnings();
    assert_eq!(warnings.len(), 1);
    let message = warnings[0].to_string();
    let file = "the cache's file shard-v1-000000-";
    assert!(message.starts_with(file), "{message}");
    assert!(message.ends_with("; 2 clips are rebuilt"), "{message}");
}

#[test]
fn some_shards_are_looked_at_in_every_run_and_a_writer_drops_the_damaged_ones() {
    let dir = filled();
    let path = nth(&dir, "shard-", 0);
    flip(&path, 100);
    let cache = open(&dir);
    cache.check_some();
    assert_eq!(
        cache.warnings().len(),
        1,
        "a small cache is looked at whole"
    );
    let mut writer = writer(&dir, 2);
    assert_eq!(writer.cache().warnings(), []);
    writer.learn_damage(&cache);
    assert_eq!(freshness(writer.cache(), "a"), DAMAGED);
    writer.drop_damaged();
    writer.commit().unwrap();
    assert!(!path.exists());
    let cache = open(&dir);
    assert_eq!(readable(&cache), ["c", "d"]);
    assert_eq!(cache.warnings(), []);
}

#[test]
fn rebuilding_its_clips_removes_a_damaged_shard() {
    let dir = filled();
    let path = nth(&dir, "shard-", 0);
    fs::write(&path, b"not arrow").unwrap();
    add_all(&mut writer(&dir, 2), &["a", "b"]);
    assert!(!path.exists());
    let cache = open(&dir);
    assert_eq!(readable(&cache), IDS);
    assert_eq!(cache.warnings(), []);
}

#[test]
fn collection_drops_clips_of_a_damaged_shard_it_must_rewrite() {
    let dir = filled();
    let path = nth(&dir, "shard-", 0);
    fs::write(&path, b"not arrow").unwrap();
    let mut writer = writer(&dir, 2);
    let collected = writer.gc(|_| true).unwrap();
    assert_eq!((collected.clips_removed, collected.clips_damaged), (0, 2));
    assert!(!path.exists());
    assert_eq!(readable(writer.cache()), ["c", "d"]);
}

#[test]
fn a_damaged_index_falls_back_to_the_spare_and_later_shards() {
    let dir = filled();
    fs::write(nth(&dir, "index-", 1), b"").unwrap();
    let cache = open(&dir);
    assert_eq!(readable(&cache), IDS);
    let warnings = cache.warnings();
    assert!(matches!(&warnings[..], [Warning::DamagedIndex { .. }]));
    writer(&dir, 2).commit().unwrap();
    let cache = open(&dir);
    assert_eq!((readable(&cache), cache.warnings()), (IDS.to_vec(), vec![]));
}

#[test]
fn a_damaged_index_is_replaced_though_its_spare_says_all() {
    let dir = filled();
    // The newest says nothing that its spare does not.
    let mut again = writer(&dir, 2);
    let mut stamp = Synthetic::new("a", 1, 5).fingerprint.audio;
    stamp.modified_ns += 1;
    again.restamp("a", stamp);
    again.commit().unwrap();
    drop(again);
    let damaged = nth(&dir, "index-", 1);
    fs::write(&damaged, b"").unwrap();
    writer(&dir, 2).commit().unwrap();
    assert!(!damaged.exists());
    assert_eq!(files(&dir, "index-").len(), 2, "there is a spare again");
    assert_eq!(open(&dir).warnings(), []);
}

#[test]
fn without_any_index_the_shards_restore_all() {
    let dir = filled();
    for name in files(&dir, "index-") {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let cache = open(&dir);
    assert_eq!(readable(&cache), IDS);
    assert_eq!(freshness(&cache, "a"), Freshness::Reuse);

    // A damaged shard that no index describes: its clips are unknown, thus new.
    let path = nth(&dir, "shard-", 0);
    flip(&path, 70);
    let cache = open(&dir);
    assert_eq!(readable(&cache), ["c", "d"]);
    let warnings = cache.warnings();
    assert!(matches!(&warnings[..], [Warning::DamagedShard(_, 0)]));
    drop(writer(&dir, 2));
    assert!(!path.exists(), "a writer clears it away");
}

#[test]
fn a_shard_the_index_does_not_know_yet_is_adopted() {
    let dir = filled();
    // As after a kill between the renaming of the second shard and that of its index.
    fs::remove_file(nth(&dir, "index-", 1)).unwrap();
    let cache = open(&dir);
    assert_eq!((readable(&cache), cache.warnings()), (IDS.to_vec(), vec![]));
}

#[test]
fn a_shard_the_index_gave_up_does_not_come_back() {
    let dir = filled();
    let path = nth(&dir, "shard-", 0);
    let bytes = fs::read(&path).unwrap();
    let mut first = writer(&dir, 2);
    first.remove("a");
    first.remove("b");
    first.commit().unwrap();
    drop(first);
    assert!(!path.exists());
    // As after a kill between the new index and the unlinking.
    fs::write(&path, bytes).unwrap();
    assert_eq!(readable(&open(&dir)), ["c", "d"]);
    drop(writer(&dir, 2));
    assert!(!path.exists());
}
