//! The disturbances: each one starts the program, does something to it, lets it come to its end and checks.

mod damage;
mod disk;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};

use super::checks::{self, Undisturbed};
use super::dataset;
use super::draws::Draws;
use super::program::{Running, Signal, Verb, Voxmill};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    KillTrain,
    KillPrepare,
    Pause,
    TwoTrain,
    TwoPrepare,
    DamageCache,
    DamageCheckpoint,
    DamageLog,
    FullDisk,
    ClockJump,
}

/// How a round came to its end, if nothing was wrong.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    Well,
    /// It cannot be had here.
    Skipped(String),
}

/// What was done to processes that were still running.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    killed: u64,
    terminated: u64,
    interrupted: u64,
    /// Pauses, second starts, damaged files, full disks, clocks.
    pub(crate) others: u64,
}

impl Counts {
    pub(crate) fn kills(&self) -> u64 {
        self.killed + self.terminated + self.interrupted
    }

    pub(crate) fn add(&mut self, more: &Counts) {
        self.killed += more.killed;
        self.terminated += more.terminated;
        self.interrupted += more.interrupted;
        self.others += more.others;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            killed,
            terminated,
            interrupted,
            others,
        } = self;
        write!(
            f,
            "{killed} SIGKILL, {terminated} SIGTERM, {interrupted} SIGINT, {others} others"
        )
    }
}

/// All that a round works with.
struct Round<'a> {
    program: &'a Voxmill,
    undisturbed: &'a Undisturbed,
    folder: &'a Path,
    draws: &'a mut Draws,
    counts: &'a mut Counts,
}

impl Disturbance {
    #[rustfmt::skip]
    const ALL: [(Disturbance, &'static str); 10] = [
        (Disturbance::KillTrain, "kill-train"),
        (Disturbance::KillPrepare, "kill-prepare"),
        (Disturbance::Pause, "pause"),
        (Disturbance::TwoTrain, "two-train"),
        (Disturbance::TwoPrepare, "two-prepare"),
        (Disturbance::DamageCache, "damage-cache"),
        (Disturbance::DamageCheckpoint, "damage-checkpoint"),
        (Disturbance::DamageLog, "damage-log"),
        (Disturbance::FullDisk, "full-disk"),
        (Disturbance::ClockJump, "clock-jump"),
    ];

    pub(crate) fn named(name: &str) -> anyhow::Result<Disturbance> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        let names = Self::ALL.map(|(_, name)| name).join(", ");
        match found {
            Some((disturbance, _)) => Ok(*disturbance),
            None => bail!("no such disturbance: {name}; there are {names}"),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(known, _)| *known == self);
        found.map_or("", |(_, name)| name)
    }

    /// Kills are half of all rounds.
    pub(crate) fn draw(draws: &mut Draws) -> Disturbance {
        match draws.below(6) {
            0 | 1 => Disturbance::KillTrain,
            2 => Disturbance::KillPrepare,
            _ => draws.one(&Self::ALL[2..]).0,
        }
    }

    pub(crate) fn run(
        self,
        program: &Voxmill,
        undisturbed: &Undisturbed,
        folder: &Path,
        draws: &mut Draws,
        counts: &mut Counts,
    ) -> anyhow::Result<Ended> {
        dataset::write(&folder.join("data"))?;
        let mut round = Round {
            program,
            undisturbed,
            folder,
            draws,
            counts,
        };
        match self {
            Disturbance::KillTrain => round.kill_train()?,
            Disturbance::KillPrepare => round.kill_prepare()?,
            Disturbance::Pause => round.pause()?,
            Disturbance::TwoTrain => round.two_train()?,
            Disturbance::TwoPrepare => round.two_prepare()?,
            Disturbance::DamageCache => round.damage_cache()?,
            Disturbance::DamageCheckpoint => round.damage_checkpoint()?,
            Disturbance::DamageLog => round.damage_log()?,
            Disturbance::FullDisk => return round.full_disk(),
            Disturbance::ClockJump => return round.clock_jump(),
        }
        Ok(Ended::Well)
    }
}

impl Round<'_> {
    fn run(&self) -> PathBuf {
        self.folder.join("run")
    }

    /// In which moments are drawn. Not up to the end: another time, the machine may be faster.
    fn train_span(&self) -> Duration {
        self.undisturbed.train_took.mul_f64(0.7)
    }

    /// What is over cannot be resumed.
    fn is_over(&self) -> anyhow::Result<bool> {
        let last = checks::checkpoints(&self.run())?.pop();
        Ok(last.is_some_and(|path| path.ends_with(checks::last_checkpoint())))
    }

    fn start_train(&self) -> anyhow::Result<Running> {
        self.program.start(&Verb::train(self.folder))
    }

    /// To its end, and everything about it is right.
    fn finish_train(&mut self) -> anyhow::Result<()> {
        if !self.is_over()? {
            self.start_train()?.expect(0)?;
        }
        self.undisturbed.check_run(&self.run())
    }

    fn finish_prepare(&mut self, more: &str) -> anyhow::Result<()> {
        let verb = Verb::prepare(self.folder).with(more);
        self.program.start(&verb)?.expect(0)?;
        self.undisturbed.check_cache(self.program, self.folder)
    }

    /// Ends a process by a signal at some moment, while something is on its way to the disk, or right after a checkpoint
    /// has become visible; whether it was hit.
    fn kill(&mut self, running: &mut Running, span: Duration) -> anyhow::Result<bool> {
        let moment = self.draws.within(span);
        let short = self.draws.within(Duration::from_millis(30));
        let signals = [
            Signal::Kill,
            Signal::Kill,
            Signal::Terminate,
            Signal::Interrupt,
        ];
        let signal = self.draws.one(&signals);
        let aim = self.draws.below(3);
        let (run, cache) = (self.run(), checks::cache(self.folder));
        let mut before = None;
        let mut is_seen = || match aim {
            0 => false,
            1 => [&run.join("checkpoints"), &cache].map(|path| is_written(path)) != [false; 2],
            _ => {
                let now = checks::checkpoints(&run).unwrap_or_default();
                *before.get_or_insert_with(|| now.clone()) != now
            }
        };
        // Not always the first of them.
        let from = moment.mul_f64(0.7);
        let is_time = |passed: Duration| passed >= moment || passed >= from && is_seen();
        if !running.runs_until(is_time)? {
            running.expect(0)?;
            return Ok(false);
        }
        if aim == 1 {
            std::thread::sleep(short);
        }
        running.signal(signal)?;
        let status = running.wait()?;
        match signal {
            Signal::Kill => self.counts.killed += 1,
            Signal::Terminate => self.counts.terminated += 1,
            _ => self.counts.interrupted += 1,
        }
        // Killed it has no code. It may just have been done, or not have got as far as to wait for signals.
        ensure!(
            matches!(status.code(), None | Some(0 | 130)),
            "ended with {status} after {signal:?}"
        );
        Ok(true)
    }

    fn kill_train(&mut self) -> anyhow::Result<()> {
        for _ in 0..=self.draws.below(4) {
            if self.is_over()? {
                break;
            }
            let mut running = self.start_train()?;
            let span = self.train_span();
            self.kill(&mut running, span)?;
        }
        self.finish_train()?;
        self.undisturbed.check_cache(self.program, self.folder)
    }

    fn kill_prepare(&mut self) -> anyhow::Result<()> {
        for _ in 0..=self.draws.below(3) {
            let mut running = self.program.start(&Verb::prepare(self.folder))?;
            self.kill(&mut running, self.undisturbed.prepare_took)?;
        }
        self.finish_prepare("")?;
        self.finish_prepare("--verify")
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        let mut running = self.start_train()?;
        for _ in 0..3 {
            let moment = self.draws.within(self.train_span());
            let length = self.draws.within(Duration::from_secs(1));
            if running.runs_after(moment)? {
                running.signal(Signal::Stop)?;
                self.counts.others += 1;
                std::thread::sleep(length);
                running.signal(Signal::Continue)?;
            }
        }
        running.expect(0)?;
        self.undisturbed.check_run(&self.run())
    }

    fn two_train(&mut self) -> anyhow::Result<()> {
        match self.draws.below(8) {
            0 | 1 => self.both_at_once(),
            2..=4 => self.refused_late(),
            _ => self.refused_while_another_runs(),
        }
    }

    /// Whoever comes second is refused and touches nothing, also where it wants to replace the run.
    fn refused_while_another_runs(&mut self) -> anyhow::Result<()> {
        let mut first = self.start_train()?;
        let settings = self.run().join("settings.yaml");
        let moment = self.draws.within(self.train_span());
        let began = first.runs_until(|passed| passed >= moment && settings.exists())?;
        let more = self
            .draws
            .one(&["--seed 9", "--reset-training", "--reset-training --seed 9"]);
        let resumes = self.draws.chance(4);
        let verb = match resumes {
            true => Verb::train(self.folder),
            false => Verb::train_anew(self.folder).with(more),
        };
        let before = std::fs::read(&settings).ok();
        let mut second = self.program.start(&verb)?;
        let second_ended = second.wait()?;
        if !began || !first.runs_after(Duration::ZERO)? {
            // The first was over: the second may have replaced it, as it was asked to.
            first.expect(0)?;
            return Ok(());
        }
        self.counts.others += 1;
        ensure!(
            second_ended.code() == Some(1),
            "the second start ended with {second_ended} while the first one was running"
        );
        let after = std::fs::read(&settings).ok();
        ensure!(before == after, "the second start changed settings.yaml");
        first.expect(0)?;
        self.undisturbed.check_run(&self.run())
    }

    /// A start that would replace a stopped run, and that something refuses after it has the folder to itself: the run is
    /// as it was, and continues.
    fn refused_late(&mut self) -> anyhow::Result<()> {
        let mut first = self.start_train()?;
        let span = self.train_span();
        self.kill(&mut first, span)?;
        for _ in 0..=self.draws.below(2) {
            if !self.run().join("settings.yaml").exists() {
                break;
            }
            let verb = Verb::train_anew(self.folder).with("--reset-training --seed 9");
            let nowhere = self.folder.join("nowhere");
            let manifest = self.folder.join("data/metadata.csv");
            let verb = match self.draws.below(4) {
                0 => verb.with_path("--trace", &nowhere.join("trace.json")),
                1 => verb.with_path("--trace", &checks::log(&self.run())),
                2 => verb.with_path("--tensorboard-log-dir", &manifest),
                _ => verb.with("--dashboard"),
            };
            let before = checks::contents(&self.run())?;
            self.program.start(&verb)?.expect(1)?;
            let after = checks::contents(&self.run())?;
            let changed = { before.keys().chain(after.keys()) }
                .find(|path| before.get(*path) != after.get(*path));
            ensure!(
                changed.is_none(),
                "a start that was refused changed {changed:?}"
            );
            self.counts.others += 1;
        }
        self.finish_train()
    }

    /// Either may be first, or both run one after another; one of them does it all.
    fn both_at_once(&mut self) -> anyhow::Result<()> {
        let mut first = self.start_train()?;
        let mut second = self.program.start(&Verb::train(self.folder))?;
        let (first_ended, second_ended) = (first.wait()?, second.wait()?);
        self.counts.others += 1;
        ensure!(
            [first_ended, second_ended]
                .iter()
                .any(|status| status.success()),
            "both starts ended without success: {first_ended}, {second_ended}"
        );
        self.undisturbed.check_run(&self.run())
    }

    fn two_prepare(&mut self) -> anyhow::Result<()> {
        let mut first = self.program.start(&Verb::prepare(self.folder))?;
        let moment = self.draws.within(self.undisturbed.prepare_took);
        self.counts.others += u64::from(first.runs_after(moment)?);
        let mut second = self.program.start(&Verb::prepare(self.folder))?;
        // One of them may be killed in the middle of it.
        if self.draws.chance(2) {
            self.kill(&mut first, self.undisturbed.prepare_took.mul_f64(2.0))?;
        } else {
            first.expect(0)?;
        }
        second.expect(0)?;
        self.undisturbed.check_cache(self.program, self.folder)?;
        self.finish_prepare("--verify")
    }

    /// Each start believes to be at another time.
    fn clock_jump(&mut self) -> anyhow::Result<Ended> {
        let Some(library) = fake_clock() else {
            return Ok(Ended::Skipped("libfaketime is not installed".to_owned()));
        };
        for last in [false, false, true] {
            if self.is_over()? {
                break;
            }
            let days = self.draws.below(800) as i64 - 400;
            let verb = Verb::train(self.folder)
                .with_env("LD_PRELOAD", &library.display().to_string())
                // Waits and timeouts follow the real clock: a wall clock that jumps is what is tried.
                .with_env("DONT_FAKE_MONOTONIC", "1")
                .with_env("FAKETIME", &format!("{days:+}d"));
            let mut running = self.program.start(&verb)?;
            self.counts.others += 1;
            let ended = match last {
                true => running.expect(0),
                false => self.kill(&mut running, self.train_span()).map(drop),
            };
            // The library leaves them behind when its process does not end in C's way.
            for name in ["faketime_shm_", "sem.faketime_sem_"] {
                let _ = std::fs::remove_file(format!("/dev/shm/{name}{}", running.id()));
            }
            ended?;
        }
        self.undisturbed.check_run(&self.run())?;
        self.finish_prepare("--verify")?;
        Ok(Ended::Well)
    }
}

/// Whether a file or folder is being written that has not got its name yet.
fn is_written(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name());
    names.any(|name| name.to_string_lossy().starts_with('.'))
}

/// Debian's package `libfaketime`.
fn fake_clock() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    places.find(|library| library.exists())
}
