//! A disk that fills up in the middle of a shard.
//!
//! The limit on file size stands in for the disk: it needs no root, and fails in the same place.

use voxmill_data::cache::{Cache, CacheError};

use super::{Made, child, child_dir, files, writer};

#[test]
fn a_full_disk_costs_the_unfinished_shard_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = child("full_disk::writes_until_there_is_no_room", dir.path());
    // Exceeding the limit kills by default; ignored signals stay ignored in the program executed.
    let script = r#"trap "" XFSZ; ulimit -f 1000; exec "$0" "$@""#;
    let status = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env(super::CHILD_DIR, dir.path())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "the child process of a_full_disk_costs_the_unfinished_shard_only"]
fn writes_until_there_is_no_room() {
    let dir = child_dir();
    let mut writer = writer(&dir, 10_000);
    let early = Made::new("early", 1, 5);
    writer
        .add("early", &early.fingerprint, early.view())
        .unwrap();
    writer.commit().unwrap();

    let failure = (0..2000).find_map(|number| {
        let id = format!("clip-{number}");
        let clip = Made::new(&id, 1, 500);
        writer.add(&id, &clip.fingerprint, clip.view()).err()
    });
    assert!(
        matches!(failure, Some(CacheError::NoRoom { .. })),
        "{failure:?}"
    );
    assert!(files(&dir, ".writing-").is_empty());
    assert_eq!(writer.cache().len(), 1);

    // The writer goes on with what does fit.
    let late = Made::new("late", 1, 5);
    writer.add("late", &late.fingerprint, late.view()).unwrap();
    writer.commit().unwrap();
    let cache = Cache::open(&dir).unwrap();
    assert_eq!((cache.len(), cache.warnings()), (2, vec![]));
    assert_eq!(cache.get("early").unwrap().unwrap(), early.view());
    assert_eq!(cache.get("late").unwrap().unwrap(), late.view());
}
