//! Readers next to a writer that commits and collects all the time.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{add, assert_holds, fast_dir, open, writer};

const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn a_reader_always_finds_everything_that_was_committed() {
    let dir = fast_dir();
    let mut writer = writer(&dir, 2);
    let mut write_all = |version| {
        for id in IDS {
            add(&mut writer, id, version, 3);
        }
        writer.gc(|_| true).unwrap();
    };
    write_all(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 1;
            while !done.load(Ordering::Relaxed) {
                write_all(version);
                version += 1;
            }
        });
        let mut versions = std::collections::BTreeSet::new();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..300 {
                let cache = open(&dir);
                assert_eq!(cache.warnings(), []);
                assert_eq!(cache.len(), IDS.len());
                for (id, entry) in cache.entries() {
                    let version = entry.fingerprint.audio.modified_ns;
                    versions.insert(version);
                    assert_holds(&cache, id, version, 3);
                }
            }
        }));
        // Before anything can fail: the writer must stop, or the scope never ends.
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
        assert!(versions.len() > 1, "the writer did not write meanwhile");
    });
}
