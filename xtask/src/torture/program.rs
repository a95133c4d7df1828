//! The program, started, signalled and waited for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use xtask::{python, tell};

use super::checks::STEPS;

/// Nothing here takes a tenth of this, even on a busy machine. Whoever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// `voxmill`, and the example that prints what a cache holds.
#[derive(Clone, Debug)]
pub(crate) struct Voxmill {
    program: PathBuf,
    cache_content: PathBuf,
}

impl Voxmill {
    pub(crate) fn at(program: &Path) -> anyhow::Result<Voxmill> {
        let program = program.canonicalize().context("there is no such program")?;
        let folder = program.parent().context("a program lies in a folder")?;
        let cache_content = folder.join("examples/cache_content");
        ensure!(
            cache_content.exists(),
            "there is no {}\n\nhint: build it with `cargo build -p voxmill-data --example cache_content`",
            cache_content.display()
        );
        Ok(Voxmill {
            program,
            cache_content,
        })
    }

    /// The build that the tests run from: after `cargo xtask test` it is there.
    pub(crate) fn build(root: &Path, build: &[&str]) -> anyhow::Result<Voxmill> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let what = ["--bin", "voxmill", "--example", "cache_content"];
        let args = [&["build"], build, &what].concat();
        tell(&format!("cargo {}", args.join(" ")));
        let status = Command::new(cargo).args(args).current_dir(root).status();
        ensure!(
            status.context("cannot start cargo")?.success(),
            "the program does not build"
        );
        Voxmill::at(&python::target_dir(root).join("debug/voxmill"))
    }

    /// A start of the program, with these words as arguments.
    pub(crate) fn start(&self, verb: &Verb) -> anyhow::Result<Running> {
        let path = verb.folder.join("output.txt");
        let output = File::options().create(true).append(true).open(path)?;
        let mut command = Command::new(&self.program);
        command
            .args(&verb.args)
            .envs(verb.env.iter().map(|(name, value)| (name, value)))
            // The same device everywhere: losses are compared to the bit.
            .env("VK_LOADER_DRIVERS_DISABLE", "*")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let process = command.spawn().context("cannot start the program")?;
        Ok(Running {
            process,
            began: Instant::now(),
            // The rest is the same in all rounds.
            args: [&verb.args[..1], &verb.args[verb.args.len() - 4..]]
                .concat()
                .join(" "),
        })
    }

    /// What a cache holds, a line for each clip.
    pub(crate) fn content(&self, cache: &Path) -> anyhow::Result<String> {
        let output = Command::new(&self.cache_content).arg(cache).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the cache cannot be read: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A verb with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Verb {
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// Where its output goes.
    folder: PathBuf,
}

impl Verb {
    fn new(folder: &Path, args: &str) -> Verb {
        let args = args.split_whitespace().map(str::to_owned);
        Verb {
            args: args.collect(),
            env: Vec::new(),
            folder: folder.to_owned(),
        }
    }

    /// Resumed where there is a checkpoint.
    pub(crate) fn train(folder: &Path) -> Verb {
        // Steps in the log say which checkpoints the run can fall back to.
        let found = super::checks::checkpoints(&folder.join("run"));
        match found.is_ok_and(|found| !found.is_empty()) {
            true => Verb::train_by(folder, "--resume"),
            false => Verb::train_anew(folder),
        }
    }

    /// Whatever is there.
    pub(crate) fn train_anew(folder: &Path) -> Verb {
        Verb::train_by(folder, "--run-dir")
    }

    /// On one thread each, with a log of every step.
    fn train_by(folder: &Path, place: &str) -> Verb {
        let run = folder.join("run");
        let args = format!(
            "--batch-size 4 --model-size nano --device cpu --compute-threads 1 --num-workers 1 --max-steps {STEPS} \
             --checkpoint-every 3 --evaluation-interval 12 --keep 3 --log-every 1 --sample-every 0 --no-dashboard"
        );
        let verb = Verb::new(folder, &format!("train {args}"));
        let verb = verb.with_path("--train-data", &folder.join("data"));
        verb.with_path(place, &run)
    }

    pub(crate) fn prepare(folder: &Path) -> Verb {
        let verb = Verb::new(folder, "prepare --num-workers 1");
        verb.with_path("--train-data", &folder.join("data"))
    }

    pub(crate) fn with(mut self, more: &str) -> Verb {
        let more = more.split_whitespace().map(str::to_owned);
        self.args.extend(more);
        self
    }

    pub(crate) fn with_path(mut self, flag: &str, path: &Path) -> Verb {
        self.args
            .extend([flag.to_owned(), path.display().to_string()]);
        self
    }

    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Verb {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Kill,
    Terminate,
    Interrupt,
    Stop,
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Kill => "KILL",
            Signal::Terminate => "TERM",
            Signal::Interrupt => "INT",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
        }
    }
}

/// A process of the program. It never outlives its round.
#[derive(Debug)]
pub(crate) struct Running {
    process: Child,
    began: Instant,
    args: String,
}

impl Running {
    /// Waits until so much time has passed since the start; whether it still runs then.
    pub(crate) fn runs_after(&mut self, moment: Duration) -> anyhow::Result<bool> {
        self.runs_until(|passed| passed >= moment)
    }

    /// Waits until something is so, asked again and again with the time since the start; whether it still runs then.
    pub(crate) fn runs_until(
        &mut self,
        mut is_so: impl FnMut(Duration) -> bool,
    ) -> anyhow::Result<bool> {
        loop {
            if self.process.try_wait()?.is_some() {
                return Ok(false);
            }
            if is_so(self.began.elapsed()) {
                return Ok(true);
            }
            self.check_patience()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", signal.name(), &id])
            .output();
        // It may have ended in between; it was not waited for, so the number is still its own.
        sent.context("cannot start `kill`").map(drop)
    }

    pub(crate) fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            self.check_patience()?;
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The end of a start that nobody disturbed.
    pub(crate) fn expect(&mut self, code: i32) -> anyhow::Result<()> {
        let status = self.wait()?;
        ensure!(
            status.code() == Some(code),
            "ended with {status} instead of exit code {code}: voxmill {}",
            self.args
        );
        Ok(())
    }

    fn check_patience(&mut self) -> anyhow::Result<()> {
        if self.began.elapsed() < PATIENCE {
            return Ok(());
        }
        self.process.kill()?;
        bail!("hangs: voxmill {}", self.args)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do where it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
