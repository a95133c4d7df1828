//! A process that is killed at any moment resumes where it was.
//!
//! The test starts itself again as a child that runs a pipeline and, as a trainer would, writes down what
//! it has done and stores its resume point from time to time. The parent kills it without warning, again
//! and again, until all is done.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::*;

const DIRECTORY: &str = "VOXMILL_KILL_TEST_DIRECTORY";
const BATCHES: u64 = 400;
const STORE_EVERY: usize = 7;

fn stored(directory: &Path) -> ResumePoint {
    match fs::read_to_string(directory.join("position.json")) {
        Ok(json) => serde_json::from_str(&json).unwrap(),
        Err(_) => ResumePoint::default(),
    }
}

fn done(directory: &Path) -> Vec<u64> {
    let lines = fs::read_to_string(directory.join("done")).unwrap_or_default();
    // The kill may have cut the last line.
    let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
    whole.lines().map(|line| line.parse().unwrap()).collect()
}

/// What runs in the child; nothing where it is called as one test of many.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let from = stored(&directory);
    let [kept, free] = orders(plan("kill"));
    let plan = match directory.ends_with("free") {
        true => free,
        false => kept,
    };
    // Another number each time.
    let workers = Setting::fixed(1 + from.next as usize % 4);
    let work = each(|number| std::thread::sleep(Duration::from_micros(number * 7919 % 200)));
    let pipeline = numbers(plan, 3 * BATCHES)
        .stage("work", work)
        .workers(workers)
        .batch("batch", Groups::of(3));
    let mut running = start(pipeline.resume_at(from));
    let mut log = fs::OpenOptions::new();
    log.create(true).append(true);
    let mut log = log.open(directory.join("done")).unwrap();
    let mut since_stored = 0;
    while let Some(delivery) = running.next() {
        let batch = item(delivery);
        assert_eq!(batch.members.len(), 3);
        log.write_all(format!("{}\n", batch.number()).as_bytes())
            .unwrap();
        batch.done();
        since_stored += 1;
        if since_stored == STORE_EVERY {
            since_stored = 0;
            store(&directory, &running.resume_point());
        }
    }
    store(&directory, &running.resume_point());
}

/// There is always a whole resume point on disk: the old one or the new one.
fn store(directory: &Path, point: &ResumePoint) {
    let new = directory.join("position.new");
    fs::write(&new, serde_json::to_string(point).unwrap()).unwrap();
    fs::rename(new, directory.join("position.json")).unwrap();
}

/// Kills and restarts until the child comes to its end; how often it was killed.
fn kill_until_done(directory: &Path, seed: u64) -> usize {
    let mut draw = seed;
    for kills in 0.. {
        let before = stored(directory);
        // A kill cuts a line; what follows must not be glued to it.
        let known = done(directory);
        let lines: String = known.iter().map(|number| format!("{number}\n")).collect();
        fs::write(directory.join("done"), lines).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Now and then while it starts; otherwise once it has done a few more.
        let more = match kills % 4 {
            3 => 0,
            _ => (draw >> 33) as usize % 40,
        };
        while done(directory).len() < known.len() + more && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros((draw >> 40) % 2000));
        let ended = child.try_wait().unwrap();
        // The child may also end between the two.
        let _ = child.kill();
        let status = child.wait().unwrap();
        let after = done(directory);
        let redone = &after[known.len()..];
        assert!(
            redone.iter().all(|number| !before.is_done(*number)),
            "done again although it was stored as done: {before:?}, {redone:?}"
        );
        if ended.is_some() || status.success() {
            assert!(status.success(), "the child failed by itself");
            return kills;
        }
    }
    unreachable!()
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_only_what_was_not_stored_is_done_again() {
    let mut all_kills = 0;
    for (order, seeds) in [("kept", [1, 2]), ("free", [3, 4])] {
        for seed in seeds {
            let _watched = watch(format!("kill, {order}, seed {seed}"));
            let directory = std::env::temp_dir()
                .join(format!("voxmill-kill-{}-{seed}", std::process::id()))
                .join(order);
            fs::create_dir_all(&directory).unwrap();
            let kills = kill_until_done(&directory, seed);
            all_kills += kills;
            let done = done(&directory);
            let once: BTreeSet<u64> = done.iter().copied().collect();
            assert_eq!(once, (0..BATCHES).collect());
            assert_eq!(stored(&directory), ResumePoint::at(BATCHES));
            // Each kill costs at most what was done since the last stored resume point.
            assert!(done.len() - once.len() <= kills * STORE_EVERY);
            fs::remove_dir_all(directory.parent().unwrap()).unwrap();
        }
    }
    assert!(all_kills > 0, "no child was there to be killed");
}
