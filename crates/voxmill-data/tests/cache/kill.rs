//! kill -9 at any moment, again and again.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use voxmill_data::cache::Cache;

use super::{Made, child, child_dir, files, writer};

const KILLS: u64 = 20;
const CLIPS: usize = 40;
const FRAMES: usize = 40;

fn id(number: usize) -> String {
    format!("clip-{number:03}")
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
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
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
        caught_writing += usize::from(!files(dir.path(), ".writing-").is_empty());

        let cache = Cache::open(dir.path()).unwrap();
        assert_eq!(cache.warnings(), []);
        assert!(promised < 0 || cache.len() == CLIPS);
        for (id, entry) in cache.entries() {
            let version = entry.fingerprint.audio.modified_ns;
            assert!(
                version >= promised,
                "{id} is of pass {version}, {promised} was committed"
            );
            let made = Made::new(id, version, FRAMES);
            assert_eq!(cache.get(id).unwrap().unwrap(), made.view());
            assert_eq!(entry.fingerprint, made.fingerprint);
        }
    }
    assert!(
        caught_writing > 0,
        "no kill fell into a write: the test shows nothing"
    );
    assert!(
        promised > 0,
        "no pass was ever finished: the test shows nothing"
    );

    // The rerun, to its end.
    let mut writer = writer(dir.path(), 7);
    for number in 0..CLIPS {
        let made = Made::new(&id(number), 0, FRAMES);
        writer
            .add(&id(number), &made.fingerprint, made.view())
            .unwrap();
    }
    writer.gc(|_| true).unwrap();
    assert!(files(dir.path(), ".writing-").is_empty());
    let cache = Cache::open(dir.path()).unwrap();
    assert_eq!((cache.len(), cache.warnings()), (CLIPS, vec![]));
    for number in 0..CLIPS {
        let made = Made::new(&id(number), 0, FRAMES);
        assert_eq!(cache.get(&id(number)).unwrap().unwrap(), made.view());
    }
}

#[test]
#[ignore = "the child process of nothing_committed_is_lost_to_kill_9"]
fn rewrites_all_clips_until_killed() {
    let mut writer = writer(&child_dir(), 7);
    let highest =
        |(_, entry): (&str, &voxmill_data::cache::Entry)| entry.fingerprint.audio.modified_ns;
    let mut version = writer.cache().entries().map(highest).max().unwrap_or(0);
    loop {
        version += 1;
        for number in 0..CLIPS {
            let made = Made::new(&id(number), version, FRAMES);
            writer
                .add(&id(number), &made.fingerprint, made.view())
                .unwrap();
            println!("added {number}");
        }
        writer.commit().unwrap();
        println!("committed {version}");
        if version % 3 == 0 {
            writer.gc(|_| true).unwrap();
        }
    }
}
