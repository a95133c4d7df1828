//! Starts a process for each target, and says what ended one of them.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use voxmill_fuzz::{FuzzFolder, Target};

use crate::{Asked, bounds, child};

/// Beyond the seconds asked for, on the wall: something waits that nobody will wake.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(asked: &Asked) -> anyhow::Result<()> {
    if let Some(folder) = &asked.write_seeds {
        return write_seeds(asked, folder);
    }
    let waiting = Mutex::new(asked.targets.iter().copied());
    let failures = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.next();
    let work = || {
        while let Some(target) = next() {
            if let Err(error) = run_target(asked, target) {
                eprintln!("{}: {error:#}", target.name);
                failures
                    .lock()
                    .expect("nobody panics with it")
                    .push(target.name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..asked.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().expect("nobody panicked with it");
    ensure!(failures.is_empty(), "failed: {}", failures.join(", "));
    Ok(())
}

fn run_target(asked: &Asked, target: Target) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let said = folder.path().join("said");
    let seconds = asked.seconds.as_secs().to_string();
    let mut command = Command::new(std::env::current_exe()?);
    command.args([target.name, "--seconds", &seconds]);
    command.args(["--seed", &asked.seed.to_string(), "--child"]);
    command.arg(folder.path());
    if let Some(input) = &asked.input {
        command.arg("--input").arg(input);
    }
    // Each thread's own heap would take address space, which is what is bounded.
    command.env("MALLOC_ARENA_MAX", "1");
    let mut process = command.stderr(File::create(&said)?).spawn()?;
    let until = Instant::now() + asked.seconds + PATIENCE;
    let status = loop {
        match process.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                process.kill()?;
                break process.wait()?;
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(&said).unwrap_or_default();
    let said: Vec<&str> = said.lines().rev().take(12).collect();
    for line in said.iter().rev() {
        eprintln!("| {line}");
    }
    let kept = keep(target, &folder.path().join(child::IN_HAND))?;
    let (name, kept) = (target.name, kept.display());
    bail!(
        "{}; the input is {kept}\n\nhint: repeat it with `cargo xtask fuzz {name} --input {kept}`; once mended, \
         put it into fuzz/corpus/{name}",
        why(status),
    )
}

fn why(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(bounds::TOO_LONG), _) => "an input took too long".to_owned(),
        (Some(101), _) => "an input caused a panic".to_owned(),
        (Some(code), _) => format!("it failed with code {code}"),
        // An allocation that fails aborts, and so does a full stack.
        (_, Some(signal)) => format!("an input ended the process by signal {signal}"),
        _ => "it ended".to_owned(),
    }
}

/// Copies an input that failed to where it stays.
fn keep(target: Target, input: &Path) -> anyhow::Result<PathBuf> {
    let bytes = fs::read(input).context("it left no input")?;
    let mut folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    folder.extend(["fuzz", target.name]);
    fs::create_dir_all(&folder)?;
    let hash = blake3::hash(&bytes).to_hex();
    let path = folder.join(&hash[..16]);
    fs::write(&path, bytes)?;
    Ok(path)
}

fn write_seeds(asked: &Asked, folder: &Path) -> anyhow::Result<()> {
    let place = FuzzFolder::new()?;
    for target in &asked.targets {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, input) in target.inputs(&place)? {
            fs::write(folder.join(name.replace(' ', "-")), input)?;
        }
    }
    Ok(())
}
