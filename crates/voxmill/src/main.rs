//! The program: parse what was typed, run the verb, print what went wrong, pick the exit code.

mod args;
mod commands;
mod complaint;
mod config;
mod dashboard;
mod dataset;
mod demo_folder;
mod feed;
mod interrupt;
mod progress;
mod recording;
mod settings;
mod speech;

use std::process::ExitCode;

use clap::Parser as _;

/// A step allocates and frees hundreds of large buffers of a few dozen sizes, on several threads. The
/// system's allocator lets memory grow by a third over 2,000 steps of that; this one stays level.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match args::Cli::parse().verb {
        args::Verb::Prepare(args) => commands::prepare::run(*args),
        args::Verb::Synthesize(args) => commands::synthesize::run(*args),
        args::Verb::Train(args) => commands::train::run(*args),
        args::Verb::Text(args) => commands::text::run(args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        commands::tell(&complaint::describe(&error));
        ExitCode::FAILURE
    })
}
