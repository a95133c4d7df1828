//! A disk that fills up in the middle of a shard.
//!
//! The limit on file size stands in for the disk: it needs no root, and fails in the same place.

use voxmill_data::cache::CacheError;

use super::{Synthetic, add, assert_holds, child, child_dir, files, open, writer};

#[test]
fn a_full_disk_costs_the_unfinished_shard_only() {
    let dir = tempfile::tempdir().unwrap();
    let inner = child("full_disk::writes_until_there_is_no_room", dir.path());
    // Exceeding the limit kills by default; ignored signals stay ignored in the program executed.
    let script = r#"trap "" XFSZ; ulimit -f 1000; exec "$0" "$@""#;
    // Its output through a pipe: a log of ours that is longer than the limit could not be written to either.
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env(super::CHILD_DIR, dir.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
}

#[test]
#[ignore = "the child process of a_full_disk_costs_the_unfinished_shard_only"]
fn writes_until_there_is_no_room() {
    let dir = child_dir();
    let mut writer = writer(&dir, 10_000);
    add(&mut writer, "early", 1, 5);
    writer.commit().unwrap();

    let failure = (0..2000).find_map(|number| {
        let id = format!("clip-{number}");
        let clip = Synthetic::new(&id, 1, 500);
        writer.add(&id, &clip.fingerprint, clip.view()).err()
    });
    let no_room = matches!(failure, Some(CacheError::NoRoom { .. }));
    assert!(no_room, "{failure:?}");
    assert!(files(&dir, ".writing-").is_empty());
    assert_eq!(writer.cache().len(), 1);

    // The writer continues with what does fit.
    add(&mut writer, "late", 1, 5);
    writer.commit().unwrap();
    let cache = open(&dir);
    assert_eq!((cache.len(), cache.warnings()), (2, vec![]));
    assert_holds(&cache, "early", 1, 5);
    assert_holds(&cache, "late", 1, 5);
}
