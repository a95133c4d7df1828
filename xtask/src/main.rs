//! Chores of the project: what a person would otherwise do by hand and get wrong.

mod bench;
mod demo;
mod letter_to_sound;
mod python;
mod test;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Chores of the Voxmill project")]
struct Chores {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Format, lints and all tests, with the Python packages that they read our files with
    Test(test::TestArgs),
    /// Measure the data side against what a user would pick instead, and record the run
    Bench(bench::BenchArgs),
    /// Make the built-in demo corpus anew (needs flite, espeak-ng and oggenc)
    Demo(demo::DemoArgs),
    /// Train the letter-to-sound model on the pronouncing dictionary and measure it
    LetterToSound(letter_to_sound::LetterToSoundArgs),
}

fn main() -> anyhow::Result<()> {
    match Chores::parse().chore {
        Chore::Test(args) => test::run(args),
        Chore::Bench(args) => bench::run(args),
        Chore::Demo(args) => demo::run(args),
        Chore::LetterToSound(args) => letter_to_sound::run(args),
    }
}

fn project_root() -> PathBuf {
    // This crate lies one folder below the workspace.
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

#[expect(
    clippy::print_stderr,
    reason = "a chore talks to the person who runs it"
)]
fn tell(line: &str) {
    eprintln!("xtask: {line}");
}
