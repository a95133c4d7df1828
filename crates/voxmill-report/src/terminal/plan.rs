//! A planned run as text: tables, and a bar for each way to run it.

use voxmill_analysis::plan::{Planned, Way};

use super::page::Page;
use super::what_if::what_if;
use super::{Mark, Paint};
use crate::format::{Table, bar, count, percent, three_digits};

/// Columns of the longest bar.
const BAR: usize = 24;

/// What `plan` prints.
pub fn plan_text(planned: &Planned, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    let steps = count(planned.steps);
    page.heading(&format!("A run of {steps} steps"));
    ways(&mut page, planned);
    if let Some(prediction) = &planned.prediction {
        what_if(&mut page, prediction);
    }
    if !planned.parts.is_empty() {
        page.heading("What each part takes, with all its workers");
        let longest = planned.parts.iter().map(|part| part.batch_ms);
        let longest = longest.fold(0.0, f64::max);
        let mut table = Table::new(2).left([""]).right(["ms a batch"]);
        for part in &planned.parts {
            let bar = bar(part.batch_ms / longest.max(1e-9), BAR);
            table.row([part.name.clone(), three_digits(part.batch_ms), bar]);
        }
        page.table(&table);
    }
    if !planned.buffers.is_empty() {
        page.heading("Batches ahead, with times as uneven as stated");
        let mut table = Table::new(2).right(["ahead", "ms a step", "stall"]);
        for row in &planned.buffers {
            let cells = [row.ahead.to_string(), three_digits(row.step_ms)];
            table.row(cells.into_iter().chain([percent(row.stall)]));
        }
        page.table(&table);
    }
    if let Some(placed) = &planned.placement {
        page.heading("A second device");
        let mut table = Table::new(2).left([""]).right(["ms a batch"]);
        for (name, ms) in [
            ("none", placed.one_device_ms),
            ("for data", placed.for_data_ms),
            ("for training", placed.for_training_ms),
        ] {
            table.row([name.to_owned(), three_digits(ms)]);
        }
        page.table(&table);
        let advice = match placed.advice.as_str() {
            "neither" => "neither gains enough: what limits is not on a device",
            "data" => "use it for data",
            _ => "use it for training",
        };
        page.point("  ", Mark::Good, advice);
    }
    if !planned.notes.is_empty() {
        page.heading("What follows");
        for note in &planned.notes {
            page.point("  ", Mark::Open, note);
        }
    }
    page.text()
}

fn ways(page: &mut Page, planned: &Planned) {
    let longest = planned.ways.iter().map(|way| way.pace.step_ms);
    let longest = longest.fold(0.0, f64::max).max(1e-9);
    let mut table = Table::new(2)
        .left([""])
        .right(["ms a step", "busy", "stall", "device hours"]);
    for way in &planned.ways {
        table.row([
            way.name.clone(),
            three_digits(way.pace.step_ms),
            percent(way.pace.busy),
            percent(way.pace.stall),
            three_digits(way.device_hours),
        ]);
    }
    page.table(&table);
    page.blank();
    page.push("  a step: █ training, ░ waiting for a batch");
    for way in &planned.ways {
        page.push(&format!("  {}", picture(way, longest)));
        page.wrapped("    ", format!("{}: bound by {}", way.name, way.bound_by));
    }
}

/// As long as its step, next to the longest.
fn picture(way: &Way, longest: f64) -> String {
    const COLUMNS: f64 = 60.0;
    let columns = way.pace.step_ms / longest * COLUMNS;
    let within = (way.pace.busy + way.pace.stall).max(1e-9);
    let waits = (columns * way.pace.stall / within).round() as usize;
    let trains = (columns.round() as usize).saturating_sub(waits);
    format!("{}{}", "░".repeat(waits), "█".repeat(trains))
}

#[cfg(test)]
mod tests {
    use voxmill_analysis::plan::{Each, PlannedRun, PlannedStage, Timed, With, plan};

    use super::super::tests::fits;
    use super::*;

    #[test]
    fn what_a_person_sees_of_a_plan() {
        let stage = |name: &str, milliseconds, spread, with| PlannedStage {
            name: name.to_owned(),
            time: Timed {
                milliseconds,
                spread,
            },
            each: Each::Batch,
            workers: 1,
            buffer: 2,
            with,
            on_device: false,
        };
        let run = PlannedRun {
            steps: 100_000,
            clips: 16,
            stages: vec![
                stage("load", 20.0, 0.0, With::Any),
                stage("preprocess", 10.0, 0.0, With::TwoDevices),
                stage("transfer", 15.0, 0.0, With::TwoDevices),
            ],
            train: Timed {
                milliseconds: 150.0,
                spread: 0.0,
            },
            slots: 2,
            exchange: Some(Timed {
                milliseconds: 12.0,
                spread: 0.0,
            }),
        };
        insta::assert_snapshot!(fits(plan_text(&plan(&run).unwrap(), Paint::plain())));
        let uneven = PlannedRun {
            stages: vec![stage("load", 135.0, 1.0, With::Any)],
            exchange: None,
            ..run
        };
        insta::assert_snapshot!(fits(plan_text(&plan(&uneven).unwrap(), Paint::plain())));
    }
}
