//! Disturbs `prepare` and `train` in every way that a machine does, and compares what comes out with an undisturbed
//! run: equal losses to the bit, every step in the log, a cache with the same content.
//!
//! Round `n` of seed `s` always draws the same disturbances. When they hit depends on the machine.

mod checks;
mod dataset;
mod draws;
mod program;
mod rounds;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use xtask::{project_root, python, tell};

use checks::Undisturbed;
use draws::Draws;
use program::Voxmill;
use rounds::{Counts, Disturbance, Ended};

/// What to do, and how long.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    minutes: f64,
    seed: u64,
    /// This round alone.
    round: Option<u64>,
    /// This disturbance alone.
    only: Option<Disturbance>,
    /// A program that is built already, with the reader of caches next to it.
    program: Option<PathBuf>,
}

impl Asked {
    pub(crate) fn parse(args: &[&str]) -> anyhow::Result<Asked> {
        let mut asked = Asked {
            minutes: 2.0,
            seed: 1,
            round: None,
            only: None,
            program: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let value = *args
                .next()
                .with_context(|| format!("{arg} needs a value"))?;
            match *arg {
                "--minutes" => asked.minutes = value.parse()?,
                "--seed" => asked.seed = value.parse()?,
                "--round" => asked.round = Some(value.parse()?),
                "--only" => asked.only = Some(Disturbance::named(value)?),
                "--program" => asked.program = Some(value.into()),
                other => bail!("torture has no {other}\n\nhint: `cargo xtask --help` lists all"),
            }
        }
        ensure!(asked.minutes > 0.0, "--minutes is a positive number");
        Ok(asked)
    }
}

pub(crate) fn run(asked: &Asked, build: &[&str]) -> anyhow::Result<()> {
    let root = project_root();
    let program = match &asked.program {
        Some(program) => Voxmill::at(program)?,
        None => Voxmill::build(&root, build)?,
    };
    let home = Home::new()?;
    let home = home.0.as_path();
    let undisturbed = Undisturbed::new(&program, &home.join("undisturbed"))?;
    tell(&format!(
        "undisturbed: {} steps in {:.1} s; seed {}",
        undisturbed.steps(),
        undisturbed.train_took.as_secs_f64(),
        asked.seed
    ));
    let mut tally = Tally::default();
    let until = Instant::now() + Duration::from_secs_f64(60.0 * asked.minutes);
    let rounds = match asked.round {
        Some(round) => round..round + 1,
        None => 1..u64::MAX,
    };
    for round in rounds {
        if asked.round.is_none() && Instant::now() >= until {
            break;
        }
        let mut draws = Draws::new(asked.seed, round);
        let disturbance = asked.only.unwrap_or_else(|| Disturbance::draw(&mut draws));
        let folder = home.join(format!("round-{round}"));
        std::fs::create_dir_all(&folder)?;
        let began = Instant::now();
        let mut counts = Counts::default();
        let ended = disturbance.run(&program, &undisturbed, &folder, &mut draws, &mut counts);
        tally.add(
            asked,
            round,
            disturbance,
            &folder,
            ended,
            &counts,
            began.elapsed(),
        )?;
    }
    tally.report()
}

/// Where all rounds are: in memory, where nothing waits for a disk. Gone when dropped.
#[derive(Debug)]
struct Home(PathBuf);

impl Home {
    fn new() -> anyhow::Result<Home> {
        let memory = PathBuf::from("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory,
            false => std::env::temp_dir(),
        };
        let home = parent.join(format!("voxmill-torture-{}", std::process::id()));
        std::fs::create_dir_all(&home)?;
        Ok(Home(home))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tell(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}

/// Copies the folder of a round that failed to where it stays.
fn keep(folder: &Path, seed: u64, round: u64) -> anyhow::Result<PathBuf> {
    let kept =
        python::target_dir(&project_root()).join(format!("torture/seed-{seed}-round-{round}"));
    if kept.exists() {
        std::fs::remove_dir_all(&kept)?;
    }
    std::fs::create_dir_all(&kept)?;
    let status = Command::new("cp")
        .arg("-r")
        .arg(folder.join("."))
        .arg(&kept)
        .status();
    ensure!(
        status.context("cannot start `cp`")?.success(),
        "cannot copy {}",
        folder.display()
    );
    Ok(kept)
}

/// What became of all rounds.
#[derive(Debug, Default)]
struct Tally {
    ended: BTreeMap<(&'static str, &'static str), u64>,
    counts: Counts,
    failed: Vec<String>,
}

impl Tally {
    #[expect(
        clippy::too_many_arguments,
        reason = "all there is to say about a round"
    )]
    fn add(
        &mut self,
        asked: &Asked,
        round: u64,
        disturbance: Disturbance,
        folder: &Path,
        ended: anyhow::Result<Ended>,
        counts: &Counts,
        took: Duration,
    ) -> anyhow::Result<()> {
        let name = disturbance.name();
        let (word, more) = match &ended {
            Ok(Ended::Well) => ("ok", String::new()),
            Ok(Ended::Skipped(why)) => ("skipped", format!(": {why}")),
            Err(error) => ("FAILED", format!(": {error:#}")),
        };
        tell(&format!(
            "round {round:<4} {name:<18} {word}{more} ({counts}; {:.1} s)",
            took.as_secs_f64()
        ));
        *self.ended.entry((name, word)).or_default() += 1;
        self.counts.add(counts);
        if ended.is_err() {
            let seed = asked.seed;
            let kept = keep(folder, seed, round)?;
            tell(&format!(
                "  its folder is {}\n  repeat it with `cargo xtask torture --seed {seed} --round {round} --only {name}`",
                kept.display(),
            ));
            self.failed.push(format!("{round} ({name})"));
        }
        Ok(std::fs::remove_dir_all(folder)?)
    }

    fn report(&self) -> anyhow::Result<()> {
        for ((name, word), rounds) in &self.ended {
            tell(&format!("{name:<18} {word:<8} {rounds} rounds"));
        }
        tell(&format!("in all: {}", self.counts));
        ensure!(
            self.failed.is_empty(),
            "rounds failed: {}",
            self.failed.join(", ")
        );
        // A check in which nothing was hit has checked nothing.
        let hits = self.counts.kills() + self.counts.others;
        ensure!(hits > 0, "nothing was disturbed");
        Ok(())
    }
}
