//! Runs side by side, as text.

use std::collections::BTreeSet;

use voxmill_analysis::bottleneck::thresholds;
use voxmill_analysis::compare::{
    Against, Comparison, Differing, HeldOut, Judgement, LEAST_STEPS, Loss, LossAt, Matched,
    Measure, RunState, Side, Verdict,
};
use voxmill_analysis::resampling::Change;
use voxmill_analysis::timing::WARM_UP_STEPS;

use super::page::Page;
use super::{Mark, Paint};
use crate::format::{
    Table, count, counted, elapsed, given_percent, loss, measured_percent, percent, short_percent,
    signed, size, time, truncate_left, whole,
};

/// Runs in one table; more go into a further table.
const RUNS_IN_A_TABLE: usize = 3;
/// The widest cell of a name or a setting.
const WIDEST: usize = 18;
const INTERVAL: &str = "90 % interval";

/// What `compare` prints.
pub fn comparison_text(comparison: &Comparison, paint: Paint) -> String {
    let mut page = Page::new(0, paint);
    runs(&mut page, comparison);
    measures(&mut page, comparison);
    for (number, against) in (2..).zip(&comparison.against_first) {
        one_against(&mut page, against, number, first_run(comparison));
    }
    settings(&mut page, comparison);
    verdicts(&mut page, comparison);
    page.text()
}

fn first_run(comparison: &Comparison) -> &str {
    comparison.runs.first().map_or("", |side| &side.name)
}

fn runs(page: &mut Page, comparison: &Comparison) {
    page.heading("Runs");
    for (number, side) in (1..).zip(&comparison.runs) {
        let last = side.last_step;
        let (mark, state) = match side.state {
            RunState::Finished => (Mark::Good, "finished".to_owned()),
            RunState::Interrupted => (Mark::Good, "was interrupted".to_owned()),
            RunState::Failed => (Mark::Bad, "failed".to_owned()),
            RunState::InProgress => (
                Mark::Warn,
                format!("is still running: this is up to step {last}"),
            ),
            RunState::Killed => (
                Mark::Warn,
                format!("was killed: its log ends at step {last}, and what is there is used"),
            ),
        };
        let mut text = format!("{}, {}; {state}", side.name, counted(side.steps, "step"));
        if side.starts > 1 {
            text += &format!("; started {} times", side.starts);
        }
        page.point(&format!("  {number}  "), mark, text);
        if let Some(others) = disturbed(side) {
            let text = format!(
                "other programs took {} of the cores meanwhile: its times are not its own pace",
                short_percent(others)
            );
            page.point("     ", Mark::Warn, text);
        }
        if side.lost > 0 {
            let lost = counted(side.lost, "event");
            let text = format!("{lost} are missing from its log, or cannot be read");
            page.point("     ", Mark::Warn, text);
        }
    }
}

/// The share of the cores that others took, where it is too large to be ignored.
fn disturbed(side: &Side) -> Option<f64> {
    side.others.filter(|others| *others > thresholds::RIVALS)
}

fn heading(number: usize, run: &str) -> String {
    format!("{number} {}", truncate_left(run, WIDEST))
}

fn measures(page: &mut Page, comparison: &Comparison) {
    let numbered: Vec<(usize, &Side)> = (1..).zip(&comparison.runs).collect();
    let known = |bytes: Option<u64>| bytes.map_or("not known".to_owned(), size);
    for part in numbered.chunks(RUNS_IN_A_TABLE) {
        page.heading("Measured");
        let headings = part
            .iter()
            .map(|(number, side)| heading(*number, &side.name));
        let mut table = Table::new(2).left([""]).right(headings);
        let mut row = |name: &str, cell: &dyn Fn(&Side) -> String| {
            let cells = part.iter().map(|(_, side)| cell(side));
            table.row(std::iter::once(name.to_owned()).chain(cells));
        };
        row("total time", &|side| elapsed(side.total_seconds));
        row("step time", &|side| {
            format!("{} ± {}", time(side.step_ms.mean), time(side.step_ms.std))
        });
        row("  p95", &|side| time(side.step_ms.p95));
        row("throughput", &|side| {
            format!("{} frames/s", whole(side.frames_per_second))
        });
        if comparison
            .runs
            .iter()
            .any(|side| side.best_held_out_mel.is_some())
        {
            row("held-out mel", &|side| match side.best_held_out_mel {
                Some((step, mel)) => format!("{} at {}", loss(mel), count(step)),
                None => "not known".to_owned(),
            });
        }
        row("busy", &|side| percent(side.busy));
        row("stall", &|side| percent(side.stall));
        row("variation", &|side| measured_percent(side.variation));
        row("host memory", &|side| known(side.process_memory));
        let devices = comparison
            .runs
            .iter()
            .flat_map(|side| side.device_memory.keys());
        for device in devices.collect::<BTreeSet<_>>() {
            let name = format!("memory of {}", truncate_left(device.as_str(), WIDEST));
            row(&name, &|side| {
                known(side.device_memory.get(device).copied())
            });
        }
        page.table(&table);
    }
    if comparison.runs.iter().any(|side| side.warm_up_steps > 0) {
        let text = format!(
            "the first {WARM_UP_STEPS} steps of each start are only in the total time: they pay for what is done once"
        );
        page.wrapped("  ", text);
    }
}

fn one_against(page: &mut Page, against: &Against, number: usize, first: &str) {
    let (this, first) = (heading(number, &against.run), heading(1, first));
    page.heading(&format!("{this} compared with {first}"));
    let mut table = Table::new(2).left(["", ""]).right(["change", INTERVAL]);
    for difference in &against.differences {
        let (name, unit) = match (difference.measure, against.steps_matched) {
            (Measure::StepTime, Matched::ByShape) => ("step time", "%"),
            (Measure::StepTime, Matched::ByFrame) => ("time of a frame", "%"),
            (Measure::Throughput, _) => ("throughput", "%"),
            (Measure::Busy, _) => ("busy", "points"),
            (Measure::Stall, _) => ("stall", "points"),
            (Measure::Variation, _) => ("variation", "points"),
        };
        let (value, within) = difference.change.map_or_else(Default::default, |change| {
            let value = signed(100.0 * change.value, 1);
            (format!("{value} {unit}"), interval(&change, 100.0, 1))
        });
        let judgement = judgement(difference.judgement, page.paint);
        table.row([name.to_owned(), judgement, value, within]);
    }
    page.table(&table);
    if against.steps_matched == Matched::ByFrame {
        let text = "too few of their steps have the same shape: the time of a frame, padding and all, is compared";
        page.wrapped("  ", text);
    }
    match &against.loss {
        Some(loss) => losses(page, loss),
        None => page.push("  loss: the two have no step with a loss in common"),
    }
    if let Some(found) = &against.held_out {
        held_out(page, found);
    }
}

fn judgement(judgement: Judgement, paint: Paint) -> String {
    let (mark, word) = match judgement {
        Judgement::Better => (Mark::Good, "better"),
        Judgement::Worse => (Mark::Bad, "worse"),
        Judgement::NoDifference => (Mark::Open, "no significant difference"),
        Judgement::NotMeasured => (Mark::Open, "not measured"),
    };
    format!("{} {word}", paint.mark(mark))
}

fn interval(change: &Change, scale: f64, places: usize) -> String {
    let [low, high] = [change.low, change.high].map(|value| signed(scale * value, places));
    format!("{low} to {high}")
}

/// Empty where one would say nothing.
fn loss_interval(at: &LossAt) -> String {
    match at.judgement {
        Judgement::NotMeasured => String::new(),
        _ => interval(&at.change, 1.0, 4),
    }
}

fn losses(page: &mut Page, loss: &Loss) {
    if loss.same_to_the_last_bit {
        let text = format!(
            "the losses of all {} in common are the same to the last bit",
            counted(loss.common_steps, "step")
        );
        return page.point("  ", Mark::Good, text);
    }
    page.blank();
    let mut table = Table::new(2)
        .left(["loss at", ""])
        .right(["1 → this", INTERVAL]);
    for at in &loss.at {
        table.row([
            count(at.step),
            match loss.same_dataset {
                Some(false) => format!("{} not comparable", page.paint.mark(Mark::Open)),
                _ => judgement(at.judgement, page.paint),
            },
            format!("{:.4} → {:.4}", at.first, at.this),
            loss_interval(at),
        ]);
    }
    page.table(&table);
    let averaged = || loss.at.iter().map(|at| at.averaged);
    let (least, most) = (averaged().min(), averaged().max().unwrap_or(0));
    if most > 1 {
        let of = if least == Some(most) {
            "the"
        } else {
            "at most"
        };
        let text = format!("each loss is the mean of {of} {most} steps up to that one");
        page.wrapped("  ", text);
    }
    if loss.at.iter().any(|at| at.averaged < LEAST_STEPS as u64) {
        let text = format!(
            "of fewer than {LEAST_STEPS} steps a difference cannot be told from chance: not measured"
        );
        page.wrapped("  ", text);
    }
    if loss.same_dataset == Some(false) {
        let text =
            "the two were trained on different datasets: neither loss is better than the other";
        page.point("  ", Mark::Warn, text);
    }
    if !loss.same_amount_of_data {
        let text =
            "at equal steps the two have not seen equally much: their batches differ in size";
        page.point("  ", Mark::Warn, text);
    }
}

fn held_out(page: &mut Page, found: &HeldOut) {
    let HeldOut {
        step, first, this, ..
    } = *found;
    let step = count(step);
    let values = format!("held-out mel at step {step}: {first:.4} → {this:.4}");
    match found.same_clips {
        Some(false) => {
            let text = format!("{values}; other clips were held out, so neither is better");
            page.point("  ", Mark::Warn, text);
        }
        _ if first.to_bits() == this.to_bits() => {
            page.point(
                "  ",
                Mark::Good,
                format!("{values}, the same to the last bit"),
            );
        }
        _ => {
            let word = if this < first { "lower" } else { "higher" };
            let text = format!("{values}, {word}; of one value each, noise is not known");
            page.point("  ", Mark::Open, text);
        }
    }
}

fn settings(page: &mut Page, comparison: &Comparison) {
    page.heading("Settings and facts that differ");
    for side in comparison.runs.iter().filter(|side| !side.settings_known) {
        let text = format!(
            "{} has no settings.yaml next to its log: its settings are not known",
            side.name
        );
        page.point("  ", Mark::Open, text);
    }
    if comparison.differing.is_empty() {
        return page.push("  none known");
    }
    let numbered: Vec<usize> = (0..comparison.runs.len()).collect();
    for part in numbered.chunks(RUNS_IN_A_TABLE) {
        let headings = part
            .iter()
            .map(|run| heading(run + 1, &comparison.runs[*run].name));
        let mut table = Table::new(2).left([""]).left(headings);
        for Differing { name, values } in &comparison.differing {
            let cells = part.iter().map(|run| match values.get(*run) {
                Some(Some(value)) => truncate_left(value, WIDEST),
                _ => "–".to_owned(),
            });
            table.row(std::iter::once(name.clone()).chain(cells));
        }
        page.table(&table);
    }
}

fn verdicts(page: &mut Page, comparison: &Comparison) {
    page.blank();
    page.wrapped(
        "",
        "The intervals hold the noise from step to step. A run that is started again may differ by more: \
         compare two equal runs to see by how much.",
    );
    if comparison.runs.iter().any(|side| disturbed(side).is_some()) {
        let text = "Other programs ran at the same time: they may be why a time is better or worse. Measure again when they \
                    are done.";
        page.point("", Mark::Warn, text);
    }
    let Some(limit) = comparison.fail_above.map(given_percent) else {
        return;
    };
    page.blank();
    let first = first_run(comparison);
    let steps = comparison.runs.iter().map(|side| side.step_ms.count);
    let base = steps.clone().next().unwrap_or(0);
    for (against, steps) in comparison.against_first.iter().zip(steps.skip(1)) {
        let run = &against.run;
        let mut differences = against.differences.iter();
        let step_time = differences.find(|difference| difference.measure == Measure::StepTime);
        let change = step_time.and_then(|difference| difference.change);
        let percents = |value: f64| format!("{} %", signed(100.0 * value, 1));
        let (mark, text) = match (against.verdict, change) {
            (Some(Verdict::Worse), Some(Change { value, low, .. })) => (
                Mark::Bad,
                format!(
                    "too slow: {run} takes {} time a step compared with {first}, at least {}: above {limit}",
                    percents(value),
                    percents(low)
                ),
            ),
            (Some(Verdict::Uncertain), Some(Change { value, low, .. })) => (
                Mark::Warn,
                format!(
                    "not certain: {run} takes {} time a step compared with {first}, above {limit}, but it may be {}",
                    percents(value),
                    percents(low)
                ),
            ),
            (Some(Verdict::Within), Some(_)) => (
                Mark::Good,
                format!("{run} is not slower than {first} by more than {limit}"),
            ),
            _ if steps.min(base) < LEAST_STEPS as u64 => (
                Mark::Open,
                format!(
                    "too few steps: {run} cannot be compared with {first}; give both {LEAST_STEPS} steps or more beyond \
                     the first {WARM_UP_STEPS}"
                ),
            ),
            _ => (
                Mark::Open,
                format!("{run} could not be compared with {first}"),
            ),
        };
        page.point("", mark, text);
    }
}

#[cfg(test)]
mod tests;
