//! One size: this program itself, as a child that trains for a few steps into a temporary folder.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use voxmill_telemetry::stage::StageId;

use anyhow::Context as _;
use voxmill_analysis::run::{Run, fact};
use voxmill_analysis::scaling::{Failure, SizeOutcome};
use voxmill_analysis::timing::until_warmed;

use crate::exit::Exit;
use crate::machine::status_bytes;
use crate::session::run_folder::EVENTS;
use voxmill_settings::MEASURED;
use voxmill_settings::error::FAILURE_FILE;

const BETWEEN_LOOKS: Duration = Duration::from_millis(30);
/// More than any run has: a length in a file does not hold for a few steps.
const NO_LIMIT: &str = "1000000";

#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    log: PathBuf,
    failure: PathBuf,
    stderr: Option<JoinHandle<String>>,
    /// That are wanted of it.
    steps: u64,
    /// Bytes of its memory, the most that were seen.
    peak: Option<u64>,
}

#[derive(Debug)]
pub(super) struct SizeEnded {
    pub(super) outcome: SizeOutcome,
    /// Bytes that were free for it, its own among them.
    pub(super) memory: Option<u64>,
}

impl Child {
    /// `typed`: the person's own flags for `train`. Steps that are measured, and the most that are not.
    pub(super) fn start(
        typed: &[OsString],
        (flag, size): (&str, u64),
        (steps, unmeasured): (u64, u64),
        folder: &Path,
    ) -> anyhow::Result<Child> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let failure = folder.with_extension("failure");
        let mut process = Command::new(program)
            .arg("train")
            .args(typed)
            .args([flag, &size.to_string()])
            .args(["--max-steps", &(steps + unmeasured).to_string()])
            .args(["--epochs", NO_LIMIT, "--max-minutes", NO_LIMIT])
            .args(["--no-evaluation", "--no-dashboard", "--sample-every", "0"])
            // A disk that is full says nothing of a size, and is not waited for.
            .args([
                "--checkpoint-every",
                NO_LIMIT,
                "--max-failed-checkpoints",
                "1",
            ])
            // Overrides a file: nothing of the user's is written or replaced.
            .arg("--run-dir")
            .arg(folder)
            .arg("--checkpoint-dir")
            .arg(folder.join("checkpoints"))
            .arg("--tensorboard-log-dir")
            .arg(folder)
            .env(FAILURE_FILE, &failure)
            .env(MEASURED, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start a run")?;
        // Read as it comes: a full pipe would stop the child.
        let stderr = process.stderr.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was printed until the pipe broke is what there is.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Child {
            process,
            log: folder.join(EVENTS),
            failure,
            stderr,
            steps,
            peak: None,
        })
    }

    /// Until it ends. `None` where this program is asked to stop: then the child is ended first.
    pub(super) fn wait(
        &mut self,
        stop: &AtomicBool,
        look: impl Fn(),
    ) -> anyhow::Result<Option<SizeEnded>> {
        let status = loop {
            if stop.load(Ordering::Relaxed) {
                self.end();
                return Ok(None);
            }
            if let Some(status) = self.process.try_wait().context("cannot wait for a run")? {
                break status;
            }
            self.peak = self.peak.max(peak_of(self.process.id()));
            look();
            std::thread::sleep(BETWEEN_LOOKS);
        };
        let stderr = self.stderr.take().and_then(|thread| thread.join().ok());
        let stderr = stderr.unwrap_or_default();
        // Ctrl-C reaches both, and the child may be faster.
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = Run::read(&self.log).ok();
        let memory = run.as_ref().and_then(|run| {
            let host = &run.stats.host;
            let own = self.peak.or(host.process_memory.peak().map(|b| b as u64));
            Some(host.least_memory_available? + own?)
        });
        let outcome = match run.filter(|_| status.success()) {
            Some(run) => ran(run, self.peak, self.steps),
            None => SizeOutcome::Died(
                self.reported_failure()
                    .unwrap_or_else(|| unexplained(status, &stderr)),
            ),
        };
        Ok(Some(SizeEnded { outcome, memory }))
    }

    /// The error that the child itself reported, if any.
    fn reported_failure(&self) -> Option<Failure> {
        serde_json::from_slice(&std::fs::read(&self.failure).ok()?).ok()
    }

    /// At once: there is nothing to save.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    /// Whatever ends this program in good order ends the child, too.
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

fn ran(run: Run, seen: Option<u64>, wanted: u64) -> SizeOutcome {
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

/// The most memory that a process had so far.
fn peak_of(id: u32) -> Option<u64> {
    status_bytes(&id.to_string(), "VmHWM")
}

const KILLED: i32 = 9;
const ABORTED: i32 = 6;

/// Why a run ended that could not say so itself.
fn unexplained(status: ExitStatus, stderr: &str) -> Failure {
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
        (_, code) if code == Exit::Interrupted.code() => "it was interrupted".to_owned(),
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
