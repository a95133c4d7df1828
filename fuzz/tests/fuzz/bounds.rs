//! What one input may cost.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

/// More than the process had before: an allocation beyond it fails, and the process ends.
pub(crate) const MOST_MEMORY: u64 = 512 << 20;

/// Of CPU time, so that a busy machine makes no difference.
pub(crate) const MOST_SECONDS: u64 = 10;

/// With this code a process ends that worked for too long.
pub(crate) const TOO_LONG: i32 = 97;

/// Clock ticks in a second, as `/proc` counts on Linux.
const TICKS: u64 = 100;

/// From now on. The address space is what is bounded: also memory that is asked for and never touched counts.
pub(crate) fn limit_memory() -> anyhow::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = size.and_then(|size| size.trim().strip_suffix(" kB"));
    let kilobytes: u64 = size.unwrap_or_default().trim().parse()?;
    let limit = Some((kilobytes << 10) + MOST_MEMORY);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    Ok(setrlimit(Resource::As, limit)?)
}

/// The number of the input in hand; who begins another one counts it up.
pub(crate) static INPUT: AtomicU64 = AtomicU64::new(0);

/// Ends the process when one input takes too much CPU time.
pub(crate) fn watch_time() {
    thread::spawn(|| {
        let mut since = (0, 0);
        loop {
            thread::sleep(Duration::from_millis(250));
            let (input, now) = (INPUT.load(Ordering::Relaxed), cpu_ticks());
            if input != since.0 {
                since = (input, now);
            } else if now > since.1 + MOST_SECONDS * TICKS {
                eprintln!("one input took more than {MOST_SECONDS} s of CPU time");
                std::process::exit(TOO_LONG);
            }
        }
    });
}

/// Of all threads of this process.
fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields are counted from behind the name, which may have anything in it.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}
