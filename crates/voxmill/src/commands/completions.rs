//! `voxmill completions`: what a shell reads to complete verbs and flags.

use std::io::Write as _;

use voxmill_settings::args::{CompletionsArgs, completions};

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(&completions(args.shell)) {
        // A reader that has gone (`| head`) is no error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
