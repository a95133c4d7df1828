//! `voxmill ledger`: what was predicted, and what later runs measured.

use voxmill_analysis::ledger::{Ledger, report};
use voxmill_report::terminal::ledger_text;
use voxmill_settings::args::LedgerArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::run_folder::Staged;

use super::{paint, print_result, status};

pub(crate) fn run(args: &LedgerArgs) -> anyhow::Result<()> {
    let ledger = Ledger::open(&args.runs_dir()).map_err(|error| {
        let hint = "give the folder that runs are kept in with --runs-dir";
        UserError::new(error.to_string(), hint).because(error)
    })?;
    let report = report(&ledger);
    if let Some(path) = &args.export {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        let written = Staged::write(path, &text).and_then(Staged::put);
        written.map_err(|error| {
            let what = format!("cannot write `{}`", path.display());
            UserError::new(what, "give another file with --export").because(error)
        })?;
        status!("export    {}", path.display());
    }
    print_result(&report, args.json, |report| ledger_text(report, paint()))
}
