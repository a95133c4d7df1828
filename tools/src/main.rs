//! Makes what the repository keeps and nobody should make by hand: the demo corpus, the
//! letter-to-sound model, the benchmark records.

mod bench;
mod demo;
mod letter_to_sound;

use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Makes the data and the records that the repository keeps")]
struct Tools {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Measure the data side compared with what a user would pick instead, and record the run
    Bench(bench::BenchArgs),
    /// Make the built-in demo corpus (needs flite, espeak-ng and oggenc)
    Demo(demo::DemoArgs),
    /// Train the letter-to-sound model on the pronouncing dictionary and measure it
    LetterToSound(letter_to_sound::LetterToSoundArgs),
}

fn main() -> anyhow::Result<()> {
    match Tools::parse().tool {
        Tool::Bench(args) => bench::run(args),
        Tool::Demo(args) => demo::run(args),
        Tool::LetterToSound(args) => letter_to_sound::run(args),
    }
}

/// What a program printed, where it succeeded.
pub(crate) fn output_of(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let program = command.get_program().to_owned();
    let program = program.display();
    let output = command.output();
    let output = output.with_context(|| format!("cannot start {program}; is it installed?"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} failed ({}): {}",
        output.status,
        errors.trim()
    );
    Ok(output.stdout)
}
