//! Predictions and what became of them, as text.

use voxmill_analysis::ledger::LedgerReport;

use super::page::{LABEL, Page};
use super::{Mark, Paint};
use crate::format::{Table, counted, percent, signed, three_digits, truncate};

/// Of those that wait, as many are listed.
const MOST_WAITING: usize = 5;
/// Rows of the table.
const NEWEST: usize = 12;
/// Fewer say little of how often intervals hold.
const ENOUGH: usize = 10;
/// Of a question in a table.
const QUESTION: usize = 26;

pub fn ledger_text(report: &LedgerReport, paint: Paint) -> String {
    let mut page = Page::new(LABEL, paint);
    if report.predictions == 0 {
        let hint = "no predictions yet: `voxmill profile` keeps those that it prints";
        page.wrapped("", hint);
        return page.text();
    }
    page.heading("Predictions and outcomes");
    let kept = counted(report.predictions as u64, "prediction");
    let scored = report.scored.len();
    let waiting = report.waiting.len();
    let mut parts = vec![format!("{scored} scored"), format!("{waiting} waiting")];
    if report.never > 0 {
        parts.push(format!("{} that no setting can make true", report.never));
    }
    if report.crowded > 0 {
        let crowded = report.crowded;
        parts.push(format!(
            "{crowded} measured next to busy programs, not scored"
        ));
    }
    page.wrapped("  ", format!("{kept}: {}", parts.join(", ")));
    if let Some(error) = report.mean_absolute_error {
        page.wrapped(
            "  ",
            format!("mean absolute error of the step time: {}", percent(error)),
        );
        let signs = report.right_signs;
        if signs.of > 0 {
            let text = format!(
                "right sign: {} of {} (changes too small to be told from noise left out)",
                signs.hits, signs.of
            );
            page.wrapped("  ", text);
        }
        let inside = report.inside;
        let text = format!("within the interval: {} of {}", inside.hits, inside.of);
        let few = match inside.of < ENOUGH {
            true => "; 90 % are asked, and so few say little",
            false => "; 90 % are asked",
        };
        page.wrapped("  ", text + few);
        page.blank();
        page.table(&scored_table(report));
        if let Some(worst) = report.worst.first().map(|number| &report.scored[*number]) {
            let changes = worst.forecast.changes.join(", ");
            let off = signed(100.0 * worst.error, 1);
            page.wrapped("  ", format!("furthest off: {changes} ({off} %)"));
        }
    }
    if waiting > 0 {
        page.heading("Waiting for a run that makes the change");
        for forecast in report.waiting.iter().rev().take(MOST_WAITING) {
            let changes = forecast.changes.join(", ");
            let step = three_digits(forecast.step_ms.value);
            let verb = &forecast.run.verb;
            let text = format!("{changes}: a step of `{verb}` takes {step} ms");
            page.point("  ", Mark::Open, text);
        }
        if waiting > MOST_WAITING {
            page.wrapped(
                "  ",
                format!("and {} more (--json)", waiting - MOST_WAITING),
            );
        }
    }
    if report.unread > 0 {
        let lines = counted(report.unread as u64, "line");
        page.blank();
        page.point(
            "",
            Mark::Warn,
            format!("{lines} of the ledger cannot be read"),
        );
    }
    page.text()
}

fn scored_table(report: &LedgerReport) -> Table {
    let mut table = Table::new(2).left(["change"]).right([
        "before",
        "predicted",
        "measured",
        "off",
        "interval",
    ]);
    let newest = report.scored.len().saturating_sub(NEWEST);
    for it in &report.scored[newest..] {
        let changes = it.forecast.changes.join(", ");
        let held = match it.inside {
            true => "held",
            false => "missed",
        };
        table.row([
            truncate(&changes, QUESTION),
            three_digits(it.forecast.measured_step_ms),
            three_digits(it.forecast.step_ms.value),
            three_digits(it.realised.step_ms),
            format!("{} %", signed(100.0 * it.error, 1)),
            held.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_analysis::ledger::{Count, Forecast, Realised, RunKey, Scored};
    use voxmill_analysis::simulate::what_if::Likely;

    fn forecast(changes: &str, step_ms: f64) -> Forecast {
        let likely = |value: f64| Likely {
            value,
            low: 0.95 * value,
            high: 1.05 * value,
        };
        Forecast {
            version: 1,
            id: changes.to_owned(),
            unix_seconds: 0.0,
            program: "voxmill".to_owned(),
            verb: "profile".to_owned(),
            run: RunKey {
                verb: "train".to_owned(),
                dataset: String::new(),
                machine: String::new(),
                values: Default::default(),
            },
            changes: changes.split(", ").map(str::to_owned).collect(),
            measured_step_ms: 200.0,
            step_ms: likely(step_ms),
            gain: likely(1.0 - step_ms / 200.0),
            replay_error: 0.0,
            crowded: false,
        }
    }

    fn scored(changes: &str, predicted: f64, measured: f64) -> Scored {
        let forecast = forecast(changes, predicted);
        let realised = Realised {
            forecast: forecast.id.clone(),
            unix_seconds: 1.0,
            program: "voxmill".to_owned(),
            steps: 40,
            step_ms: measured,
            crowded: false,
        };
        Scored::new(&forecast, &realised)
    }

    #[test]
    fn outcomes_stand_next_to_predictions() {
        let report = LedgerReport {
            version: 1,
            predictions: 6,
            waiting: vec![forecast("buffer_size=20", 180.0)],
            never: 2,
            crowded: 1,
            scored: vec![
                scored("num_workers=4", 120.0, 123.0),
                scored("num_workers=4, prefetch_buffer_size=8", 110.0, 140.0),
            ],
            mean_absolute_error: Some(0.119),
            right_signs: Count { hits: 2, of: 2 },
            inside: Count { hits: 1, of: 2 },
            worst: vec![1, 0],
            unread: 1,
        };
        let text = ledger_text(&report, Paint::plain());
        assert!(text.lines().all(|line| crate::format::width(line) <= 80));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn an_empty_ledger_says_how_it_is_filled() {
        let report = LedgerReport::default();
        assert!(ledger_text(&report, Paint::plain()).contains("`voxmill profile`"));
    }
}
