//! What the end of one run of a sweep says: its log where it ended well, else its signal, exit code and last words.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use voxmill_telemetry::stage::StageId;

use super::{Failure, SizeOutcome};
use crate::run::{Run, fact};
use crate::timing::until_warmed;

/// What a run that ended well says of its size: `seen` of its memory from outside, the `wanted` steps of its log.
pub fn ran(run: Run, seen: Option<u64>, wanted: u64) -> SizeOutcome {
    let stats = &run.stats;
    let count = |stage: StageId| {
        stats
            .stage(stage.name())
            .map_or(0, |stage| stage.service.count())
    };
    let sampled = stats.host.process_memory.peak().map(|bytes| bytes as u64);
    // The library's own pools where it reports them, else what the driver reports of the model's card.
    let pools = stats.device_memory.values().map(|memory| memory.peak).max();
    let card = run.fact(fact::DEVICE).and_then(|model| run.identity(model));
    let card = card.and_then(|model| stats.devices.get(model.sampled_as.as_ref()?));
    let driver = card.and_then(|card| card.memory_used.peak());
    let driver = driver.map(|bytes| bytes as u64);
    SizeOutcome::Ran {
        host_memory: seen.max(sampled),
        device_memory: pools.or(driver),
        decoded: count(StageId::Decode) as f64 / count(StageId::Featurize).max(1) as f64,
        others: run.others(),
        steps: until_warmed(run.steps, wanted as usize),
    }
}

const KILLED: i32 = 9;
const ABORTED: i32 = 6;

/// Why a run ended that could not say so itself.
pub fn unexplained(status: ExitStatus, stderr: &str) -> Failure {
    let out_of_memory = match status.signal() {
        Some(KILLED) => true,
        Some(ABORTED) => failed_allocation(stderr).is_some(),
        _ => false,
    };
    Failure {
        reason: reason(status, stderr),
        shortage: None,
        out_of_memory,
    }
}

/// The last words of Rust's allocator.
fn failed_allocation(stderr: &str) -> Option<&str> {
    let mut lines = stderr.lines();
    lines.find(|line| line.contains("memory allocation of"))
}

/// The same in one line.
fn reason(status: ExitStatus, stderr: &str) -> String {
    let allocation = failed_allocation(stderr);
    let mut lines = stderr.lines();
    let panic = lines
        .by_ref()
        .skip_while(|line| !line.contains("panicked at"))
        .nth(1);
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    match (status.signal(), status.code().unwrap_or_default()) {
        (Some(KILLED), _) => {
            "it was killed (signal 9), as the system does where memory runs out".to_owned()
        }
        (Some(ABORTED), _) if allocation.is_some() => {
            format!("memory ran out: {}", allocation.unwrap_or_default())
        }
        (Some(signal), _) => format!("it was ended by signal {signal}"),
        (_, code) => match panic {
            Some(what) => format!("it panicked: {what}"),
            None => format!("exit {code}: {}", last.unwrap_or("it printed nothing")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn an_end_that_the_child_could_not_explain_is_explained_by_its_signal_or_last_line() {
        let stderr = "\nthread 'main' panicked at src/a.rs:1:2:\nno such thing\n";
        assert_eq!(reason(exit(101), stderr), "it panicked: no such thing");
        assert_eq!(reason(exit(3), "one\ntwo\n\n"), "exit 3: two");
        assert_eq!(reason(exit(3), ""), "exit 3: it printed nothing");
        assert!(reason(ExitStatus::from_raw(9), "").contains("memory runs out"));
        let stderr = "memory allocation of 800 bytes failed\n";
        assert!(reason(ExitStatus::from_raw(6), stderr).contains("of 800 bytes"));
        let signal = reason(ExitStatus::from_raw(11), stderr);
        assert_eq!(signal, "it was ended by signal 11");
        let of_memory = |signal| unexplained(ExitStatus::from_raw(signal), stderr).out_of_memory;
        assert_eq!([9, 6, 11].map(of_memory), [true, true, false]);
    }
}
