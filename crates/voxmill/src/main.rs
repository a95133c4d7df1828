//! The program: parse what was typed, run the verb, print what went wrong, pick the exit code.

mod commands;
mod dashboard;
mod exit;
mod hang_up;
mod interrupt;
mod progress;
mod session;

use std::io::Write as _;

use clap::Parser as _;
use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as MissingVerb;

use exit::Exit;
use voxmill_settings::{args, demo_folder, error};

/// A step allocates and frees hundreds of large buffers of a few dozen sizes, on several threads. The
/// system's allocator lets memory grow by a third over 2,000 steps of that; this one stays level.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The allocator's number for the milliseconds after which freed memory is returned to the system.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// What one step frees the next one wants again. Giving it back in between makes memory go up and down
/// by a fifth with the shapes of the batches, and costs page faults.
#[expect(unsafe_code, reason = "the allocator's settings are a C function")]
fn keep_freed_memory() {
    // SAFETY: sets a number; the allocator allows it at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) };
}

/// Where no desktop set it, a library below the GPU's driver complains of that on the terminal, several times.
#[expect(
    unsafe_code,
    reason = "other threads could read the environment meanwhile"
)]
fn name_runtime_folder() {
    const NAME: &str = "XDG_RUNTIME_DIR";
    if std::env::var_os(NAME).is_none() {
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var(NAME, "/nonexistent") };
    }
}

fn main() {
    name_runtime_folder();
    keep_freed_memory();
    let cli = args::Cli::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() || error.kind() == MissingVerb {
            error.exit()
        }
        error::write_failure(&error::command_line_failure(&error));
        let verb = std::env::args_os().nth(1);
        let verb = verb.as_deref().and_then(|verb| verb.to_str());
        commands::print_lines(&args::refusal(&error, verb));
        std::process::exit(error.exit_code())
    });
    if let Some(cache) = demo_folder::cache_home() {
        voxmill_trainer::device::keep_kernels_in(&cache.join("voxmill").join("kernels"));
    }
    let outcome = match cli.verb {
        args::Verb::Compare(args) => commands::compare::run(args),
        args::Verb::Report(args) => commands::report::run(args),
        args::Verb::Prepare(args) => commands::prepare::run(*args),
        args::Verb::Scale(args) => commands::scale::run(*args),
        args::Verb::Analyze(args) => commands::analyze::run(*args),
        args::Verb::Profile(args) => commands::profile::run(*args),
        args::Verb::Synthesize(args) => commands::synthesize::run(*args),
        args::Verb::Train(args) => commands::train::run(*args),
        args::Verb::Validate(args) => commands::validate::run(*args),
        args::Verb::Selftest(args) => commands::selftest::run(&args),
        args::Verb::Devices(args) => commands::devices::run(&args).map(|()| Exit::Done),
        args::Verb::Runs(args) => commands::runs::run(&args).map(|()| Exit::Done),
        args::Verb::Watch(args) => commands::watch::run(&args).map(|()| Exit::Done),
        args::Verb::Completions(args) => commands::completions::run(&args).map(|()| Exit::Done),
        args::Verb::Ledger(args) => commands::ledger::run(&args).map(|()| Exit::Done),
        args::Verb::Plan(args) => commands::plan::run(&args).map(|()| Exit::Done),
        args::Verb::Text(args) => commands::text::run(args).map(|()| Exit::Done),
    };
    let exit = outcome.unwrap_or_else(|error| {
        commands::print_lines(&error::describe(&error));
        error::write_failure(&error::failure(&error));
        Exit::Failed
    });
    // What stays unwritten here could not be written, and there is nowhere left to report it.
    let _ = std::io::stdout().flush();
    exit.leave()
}
