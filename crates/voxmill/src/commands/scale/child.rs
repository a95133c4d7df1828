//! One size: this program itself, as a child that trains for a few steps into a temporary folder.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use voxmill_analysis::run::Run;
use voxmill_analysis::scaling::{Failure, SizeOutcome, ran, unexplained};

use crate::exit::Exit;
use voxmill_settings::MEASURED;
use voxmill_settings::error::FAILURE_FILE;
use voxmill_settings::run_folder::EVENTS;
use voxmill_telemetry::probes::status_bytes;

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
            None => SizeOutcome::Died(self.failure(status, &stderr)),
        };
        Ok(Some(SizeEnded { outcome, memory }))
    }

    /// The error that the child itself reported, or what its end says.
    fn failure(&self, status: ExitStatus, stderr: &str) -> Failure {
        let file = std::fs::read(&self.failure).ok();
        let reported = file.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        reported.unwrap_or_else(|| match status.code() {
            Some(code) if code == Exit::Interrupted.code() => Failure {
                reason: "it was interrupted".to_owned(),
                shortage: None,
                out_of_memory: false,
            },
            _ => unexplained(status, stderr),
        })
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

/// The most memory that a process had so far.
fn peak_of(id: u32) -> Option<u64> {
    status_bytes(&id.to_string(), "VmHWM")
}
