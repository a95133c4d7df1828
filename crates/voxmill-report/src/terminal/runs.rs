//! The list of runs, as text.

use super::Paint;
use crate::format::{COLUMNS, Table, count, elapsed, loss, size, truncate_left, width};
use crate::results::runs::{ListedRun, ListedState, RunList};

/// The narrowest that a name may be cut to.
const NARROWEST: usize = 16;

/// What `runs` prints.
pub fn runs_text(list: &RunList, paint: Paint) -> String {
    if list.runs.is_empty() {
        return format!("no runs in `{}`", list.runs_dir.display());
    }
    // What the other columns leave of a line.
    let whole = table(list, usize::MAX, paint);
    let widest = whole.lines().map(width).max().unwrap_or(0);
    if widest <= COLUMNS {
        return whole;
    }
    let names = list.runs.iter().map(|run| width(&run.name));
    let name = names.max().unwrap_or(0);
    table(
        list,
        name.saturating_sub(widest - COLUMNS).max(NARROWEST),
        paint,
    )
}

fn table(list: &RunList, name: usize, paint: Paint) -> String {
    let mut table = Table::new(0)
        .left(["run", "state"].map(|heading| paint.heading(heading)))
        .right(["steps", "best mel", "time", "size"].map(|heading| paint.heading(heading)));
    for run in &list.runs {
        let best = run.best_held_out;
        table.row([
            truncate_left(&run.name, name),
            state(run).to_owned(),
            count(run.step),
            best.map_or("–".to_owned(), |best| loss(best.mel)),
            elapsed(run.seconds),
            size(run.bytes),
        ]);
    }
    table.text()
}

fn state(run: &ListedRun) -> &'static str {
    match run.state {
        ListedState::Running => "running",
        ListedState::Stopped if run.killed => "stopped (killed)",
        ListedState::Stopped => "stopped",
        ListedState::Finished => "finished",
        ListedState::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::runs::{BestHeldOut, VERSION};

    #[test]
    fn the_list_fits_and_says_how_each_run_stands() {
        let run = |name: &str, state, killed, best| ListedRun {
            name: name.to_owned(),
            path: name.into(),
            verb: None,
            state,
            killed,
            step: 12_000,
            best_held_out: best,
            started_unix_seconds: None,
            seconds: 3_900.0,
            bytes: 412_000_000,
        };
        let best = Some(BestHeldOut {
            step: 9_000,
            mel: 0.412,
        });
        let list = |name: &str| RunList {
            version: VERSION,
            runs_dir: "runs".into(),
            runs: vec![
                run(name, ListedState::Finished, false, best),
                run("b", ListedState::Stopped, true, None),
                run("c", ListedState::Running, false, None),
            ],
        };
        let short = runs_text(&list("20261118-200921-my-voice"), Paint::plain());
        assert!(
            short.contains("20261118-200921-my-voice  finished"),
            "{short}"
        );
        assert!(
            short.contains("stopped (killed)") && short.contains("0.412"),
            "{short}"
        );
        let long = runs_text(&list(&"x".repeat(90)), Paint::plain());
        assert!(long.lines().all(|line| width(line) <= COLUMNS), "{long}");
        assert!(long.contains('…'));
    }
}
