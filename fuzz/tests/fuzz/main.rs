//! The runner on stable: gives inputs to targets, each target in a process of its own, and reports what one of them
//! could not take: a panic, an abort, a full stack, too much memory or too much time.
//!
//! ```text
//! cargo test -p voxmill-fuzz --test fuzz                              every input of the corpus, once
//! cargo test -p voxmill-fuzz --test fuzz -- wav --seconds 60          and changed ones, for a minute
//! cargo test -p voxmill-fuzz --test fuzz -- wav --input FILE          one input
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it reports to the person who runs it"
)]

mod bounds;
mod changes;
mod child;
mod parent;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use voxmill_fuzz::{TARGETS, Target};

/// What was asked for.
#[derive(Clone, Debug)]
struct Asked {
    targets: Vec<Target>,
    /// How long changed inputs are tried; zero: only those of the corpus.
    seconds: Duration,
    seed: u64,
    /// Targets at the same time.
    jobs: usize,
    /// One input, in place of all others.
    input: Option<PathBuf>,
    /// Where the inputs to begin with are written, for another program that makes inputs.
    write_seeds: Option<PathBuf>,
    /// Within a process of its own: where it puts what the other one reads.
    child: Option<PathBuf>,
}

impl Asked {
    /// Arguments of Rust's own test runner may be among them: filters choose targets, the rest has no meaning here.
    fn parse(args: impl Iterator<Item = String>) -> anyhow::Result<Asked> {
        let mut asked = Asked {
            targets: Vec::new(),
            seconds: Duration::ZERO,
            seed: 1,
            jobs: 1,
            input: None,
            write_seeds: None,
            child: None,
        };
        let mut filters = Vec::new();
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match &*arg {
                "--seconds" => asked.seconds = Duration::from_secs(value()?.parse()?),
                "--seed" => asked.seed = value()?.parse()?,
                "--jobs" => asked.jobs = value()?.parse()?,
                "--input" => asked.input = Some(value()?.into()),
                "--write-seeds" => asked.write_seeds = Some(value()?.into()),
                "--child" => asked.child = Some(value()?.into()),
                "--skip" | "--test-threads" => drop(value()?),
                option if option.starts_with("--") => {}
                filter => filters.push(filter.to_owned()),
            }
        }
        let is_chosen =
            |target: &Target| filters.is_empty() || filters.iter().any(|name| name == target.name);
        asked.targets = TARGETS.into_iter().filter(is_chosen).collect();
        // `cargo test NAME` goes through all test programs: then there is nothing to do here.
        if asked.targets.is_empty() && asked.seconds > Duration::ZERO {
            let names = TARGETS.map(|target| target.name).join(", ");
            bail!("no such target: {}; there are {names}", filters.join(" "));
        }
        let one = asked.targets.len() == 1;
        ensure!(
            one || asked.input.is_none(),
            "--input needs the name of one target"
        );
        Ok(asked)
    }
}

fn main() -> ExitCode {
    let done = Asked::parse(std::env::args().skip(1)).and_then(|asked| match &asked.child {
        Some(folder) => child::run(&asked, folder),
        None => parent::run(&asked),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}
