//! What the kernel reports of this process's threads.
//!
//! Tests of one binary run side by side, so each names its stages with a prefix of its own. Names are
//! cut to 15 bytes.

use std::fs;

/// Names of threads that begin with `prefix`, and the CPU time each has used, in clock ticks.
pub(crate) fn named(prefix: &str) -> Vec<(String, u64)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| {
            let task = task.unwrap().path();
            // A thread may end meanwhile.
            let name = fs::read_to_string(task.join("comm")).ok()?;
            let name = name.trim_end().to_owned();
            let stat = fs::read_to_string(task.join("stat")).ok()?;
            // The name in parentheses may hold anything; what is behind it is numbers.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
            name.starts_with(prefix)
                .then(|| (name, ticks(11) + ticks(12)))
        })
        .collect()
}

/// Returns when there are as many as wanted; the watchdog is there for when that never is.
pub(crate) fn wait_for(prefix: &str, count: usize) {
    while named(prefix).len() != count {
        std::thread::yield_now();
    }
}
