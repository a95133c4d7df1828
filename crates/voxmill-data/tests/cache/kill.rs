//! kill -9 at any moment, again and again.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use voxmill_data::cache::{CacheWriter, Entry};

use super::{
    Synthetic, add, assert_all_hold, assert_holds, child, child_dir, files, next_random, open,
    writer,
};

const KILLS: u64 = 20;
const CLIPS: usize = 40;
const FRAMES: usize = 40;

fn add_all(writer: &mut CacheWriter, version: i64, mut added: impl FnMut(usize)) {
    for number in 0..CLIPS {
        add(writer, &format!("clip-{number:03}"), version, FRAMES);
        added(number);
    }
}

#[test]
fn nothing_committed_is_lost_to_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut promised: i64 = -1;
    let mut caught_writing = 0;
    let mut random: u64 = 1;
    for _ in 0..KILLS {
        let mut process = child("kill::rewrites_all_clips_until_killed", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        random = next_random(random);
        // The moment is arbitrary: somewhere in the first three passes, and then a little later.
        let last_line = (random >> 40) as usize % (3 * CLIPS);
        let delay = Duration::from_micros((random >> 33) % 4000);
        for (number, line) in lines.map_while(Result::ok).enumerate() {
            if let Some(version) = line.strip_prefix("committed ") {
                promised = version.parse().unwrap();
            }
            if number == last_line {
                std::thread::sleep(delay);
                process.kill().unwrap();
            }
        }
        let status = process.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "the child ended by itself");
        caught_writing += usize::from(!files(&dir, ".writing-").is_empty());

        let cache = open(&dir);
        assert_eq!(cache.warnings(), []);
        assert!(promised < 0 || cache.len() == CLIPS);
        for (id, entry) in cache.entries() {
            let version = entry.fingerprint.audio.modified_ns;
            let passes = format!("{id} is of pass {version}, {promised} was committed");
            assert!(version >= promised, "{passes}");
            assert_holds(&cache, id, version, FRAMES);
            let added = Synthetic::new(id, version, FRAMES);
            assert_eq!(entry.fingerprint, added.fingerprint);
        }
    }
    // Otherwise the test shows nothing.
    assert!(caught_writing > 0, "no kill fell into a write");
    assert!(promised > 0, "no pass was ever finished");

    // The rerun, to its end.
    let mut writer = writer(&dir, 7);
    add_all(&mut writer, 0, |_| {});
    writer.gc(|_| true).unwrap();
    assert!(files(&dir, ".writing-").is_empty());
    let cache = open(&dir);
    assert_eq!((cache.len(), cache.warnings()), (CLIPS, vec![]));
    assert_all_hold(&cache, 0, FRAMES);
}

#[test]
#[ignore = "the child process of nothing_committed_is_lost_to_kill_9"]
fn rewrites_all_clips_until_killed() {
    let mut writer = writer(child_dir(), 7);
    let version_of = |(_, entry): (&str, &Entry)| entry.fingerprint.audio.modified_ns;
    let versions = writer.cache().entries().map(version_of);
    let mut version = versions.max().unwrap_or(0);
    loop {
        version += 1;
        add_all(&mut writer, version, |number| println!("added {number}"));
        writer.commit().unwrap();
        println!("committed {version}");
        if version % 3 == 0 {
            writer.gc(|_| true).unwrap();
        }
    }
}
