//! What `compare` takes.

use std::path::PathBuf;

use clap::Args;

use crate::config::value::{Kind, Value};

const AFTER_HELP: &str = "\
The first run is what the others are held against. Step times are compared shape by shape, losses at equal
steps. A difference is told only where it is beyond the noise of the steps.

Examples:
  voxmill compare runs/a runs/b                     two runs, side by side
  voxmill compare runs/a runs/b --fail-above 5%     exit 1 when b's steps take over 5 % longer, noise left out
  voxmill compare a/events.jsonl b.jsonl --json     logs, for a program

Exit: 0 compared, 1 failed, or a run is worse than --fail-above";

#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompareArgs {
    /// Folders of runs, or their logs: two or more
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Exit 1 when a later run's steps take longer than the first's by more than this, and noise cannot be why
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) fail_above: Option<f64>,
    /// Print the comparison as JSON on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match Kind::Share.parse(text)? {
        Value::Number(share) => Ok(share),
        _ => Err(format!("`{text}` is not {}", Kind::Share.expects())),
    }
}
