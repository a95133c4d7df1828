//! Run logs: what `profile --replay` and `compare` make of them.

use voxmill_analysis::compare::{Candidate, compare};
use voxmill_analysis::profile::profile;
use voxmill_analysis::run::Run;
use voxmill_analysis::scorecard::scorecard;
use voxmill_report::terminal::{Paint, comparison_text, profile_text};
use voxmill_telemetry::log::{LogReader, RunLog, replay};

use crate::{FuzzFolder, kind, size};

pub(crate) fn read_log(place: &FuzzFolder, bytes: &[u8]) -> String {
    let path = place.put("events.jsonl", bytes);
    let whole = RunLog::collect(LogReader::new("events.jsonl", bytes));
    let replayed = replay(&path);
    let run = match Run::read(&path) {
        Ok(run) => run,
        Err(error) => return kind(&error),
    };
    let (Ok(whole), Ok((starts, flaws))) = (whole, replayed) else {
        panic!("three readers of one log do not agree");
    };
    assert_eq!(whole.starts.len(), starts.len());
    assert_eq!(whole.flaws, flaws);
    let profile = profile(&run);
    let shown = profile_text(&profile, Paint::plain());
    let card = scorecard(&profile).len();
    let candidate = |name: &str| Candidate {
        name: name.to_owned(),
        run: run.clone(),
        in_progress: false,
        settings: None,
    };
    let comparison = compare(&[candidate("a"), candidate("b")], Some(0.05));
    let compared = comparison_text(&comparison, Paint::plain());
    let (steps, phases) = (size(run.steps.len()), run.phases.len());
    let (shown, compared) = (size(shown.lines().count()), size(compared.lines().count()));
    format!(
        "{} {steps} {phases} {} {} {} {card} {shown} {compared}",
        starts.len(),
        flaws.damaged.min(2),
        flaws.unknown.min(2),
        flaws.truncated
    )
}
