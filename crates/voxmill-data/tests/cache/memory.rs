//! Memory of our own (RssAnon) does not grow with the cache, neither writing nor reading.

use super::{add, child, child_dir, open, writer};

const CLIPS: usize = 400;
const FRAMES: usize = 800;
/// 100 MB of mel in all; a writer's portion of 4 MB and the allocator's habits fit well below.
const ALLOWED_KB: u64 = 24 << 10;

#[test]
fn memory_is_flat_in_the_number_of_clips() {
    let dir = tempfile::tempdir().unwrap();
    let status = child("memory::writes_and_reads_100_megabytes", dir.path()).status();
    assert!(status.unwrap().success());
}

#[test]
#[ignore = "the child process of memory_is_flat_in_the_number_of_clips"]
fn writes_and_reads_100_megabytes() {
    let dir = child_dir();
    let before = anonymous_kb();
    let mut peak = before;
    let mut writer = writer(&dir, 10_000);
    for number in 0..CLIPS {
        add(&mut writer, &format!("clip-{number}"), 1, FRAMES);
        peak = peak.max(anonymous_kb());
    }
    writer.commit().unwrap();
    drop(writer);
    let cache = open(&dir);
    assert_eq!(cache.len(), CLIPS);
    let mut values = 0;
    for (id, _) in cache.entries() {
        let clip = cache.get(id).unwrap().unwrap();
        values += clip.mel.iter().filter(|value| value.is_finite()).count();
        peak = peak.max(anonymous_kb());
    }
    assert_eq!(values, CLIPS * FRAMES * 80);
    println!("anonymous memory grew by {} kB", peak - before);
    assert!(peak - before < ALLOWED_KB, "grew by {} kB", peak - before);
}

fn anonymous_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("RssAnon:")?.strip_suffix(" kB"));
    value.unwrap().trim().parse().unwrap()
}
