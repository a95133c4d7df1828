//! Runs side by side, as text.

use std::fmt::Write as _;

use voxmill_analysis::bottleneck::thresholds;
use voxmill_analysis::compare::{
    Against, Comparison, Differing, Judgement, Loss, Matched, Measure, RunState, Side, Verdict,
};
use voxmill_analysis::resampling::Change;
use voxmill_analysis::timing::WARM_UP_STEPS;
use voxmill_telemetry::device::DeviceLabel;

use super::{Align, Mark, Paint, Table};
use crate::format::{percent, size, time, whole, wrap};

/// So many runs stand beside each other; more go into a further table.
const BESIDE: usize = 3;
/// The widest cell of a name or a setting.
const WIDEST: usize = 18;

pub fn comparison_text(comparison: &Comparison, paint: Paint) -> String {
    let mut out = String::new();
    heads(&mut out, comparison, paint);
    measures(&mut out, comparison, paint);
    let first = comparison.runs.first().map_or("", |side| &side.name);
    for (number, against) in comparison.against_first.iter().enumerate() {
        one_against(&mut out, against, number + 2, first, paint);
    }
    settings(&mut out, comparison, paint);
    verdicts(&mut out, comparison, paint);
    out.truncate(out.trim_end().len());
    out
}

fn heads(out: &mut String, comparison: &Comparison, paint: Paint) {
    let _ = writeln!(out, "{}", paint.heading("Runs"));
    for (number, side) in comparison.runs.iter().enumerate() {
        let (mark, state) = match side.state {
            RunState::Finished => (Mark::Good, "finished".to_owned()),
            RunState::Interrupted => (Mark::Good, "was interrupted".to_owned()),
            RunState::Failed => (Mark::Bad, "failed".to_owned()),
            RunState::InProgress => (
                Mark::Warn,
                format!("is still running: this is up to step {}", side.last_step),
            ),
            RunState::Killed => (
                Mark::Warn,
                format!(
                    "was killed: its log ends at step {}, and what is there is used",
                    side.last_step
                ),
            ),
        };
        let mut text = format!("{}, {}; {state}", side.name, of_steps(side.steps));
        if side.starts > 1 {
            let _ = write!(text, "; started {} times", side.starts);
        }
        let head = format!("  {}  {} ", number + 1, paint.mark(mark));
        let _ = writeln!(out, "{}", wrap(&head, &text));
        if let Some(others) = disturbed(side) {
            let text = format!(
                "other programs took {:.0} % of the cores meanwhile: its times are not its own pace",
                100.0 * others
            );
            let head = format!("     {} ", paint.mark(Mark::Warn));
            let _ = writeln!(out, "{}", wrap(&head, &text));
        }
        if side.lost > 0 {
            let text = format!(
                "{} events are missing from its log, or cannot be read",
                whole(side.lost as f64)
            );
            let head = format!("     {} ", paint.mark(Mark::Warn));
            let _ = writeln!(out, "{}", wrap(&head, &text));
        }
    }
}

/// The share of the cores that others took, where it is too large to be passed over.
fn disturbed(side: &Side) -> Option<f64> {
    side.others.filter(|others| *others > thresholds::RIVALS)
}

fn of_steps(steps: u64) -> String {
    match steps {
        1 => "1 step".to_owned(),
        steps => format!("{} steps", whole(steps as f64)),
    }
}

fn measures(out: &mut String, comparison: &Comparison, paint: Paint) {
    let numbered: Vec<(usize, &Side)> = (1..).zip(&comparison.runs).collect();
    for part in numbered.chunks(BESIDE) {
        let _ = writeln!(out, "\n{}", paint.heading("Measured"));
        let mut table = Table::new(2).column("", Align::Left);
        for (number, side) in part {
            let heading = format!("{number} {}", short(&side.name));
            table = table.column(&heading, Align::Right);
        }
        let mut row = |name: &str, cell: &dyn Fn(&Side) -> String| {
            let cells = part.iter().map(|(_, side)| cell(side));
            table.row(std::iter::once(name.to_owned()).chain(cells));
        };
        row("total time", &|side| seconds(side.total_seconds));
        row("step time", &|side| {
            format!("{} ± {}", time(side.step_ms.mean), time(side.step_ms.std))
        });
        row("  p95", &|side| time(side.step_ms.p95));
        row("throughput", &|side| {
            format!("{} frames/s", whole(side.frames_per_second))
        });
        row("busy", &|side| percent(side.busy));
        row("stall", &|side| percent(side.stall));
        row("variation", &|side| percent(side.variation));
        row("host memory", &|side| {
            side.process_memory.map_or("not known".to_owned(), size)
        });
        let mut devices: Vec<&DeviceLabel> = (comparison.runs.iter())
            .flat_map(|side| side.device_memory.keys())
            .collect();
        devices.sort();
        devices.dedup();
        for device in devices {
            row(&format!("memory of {}", short(device.as_str())), &|side| {
                let peak = side.device_memory.get(device);
                peak.map_or("not known".to_owned(), |peak| size(*peak))
            });
        }
        let _ = writeln!(out, "{}", table.text());
    }
    if comparison.runs.iter().any(|side| side.warm_up_steps > 0) {
        let text = format!(
            "the first {WARM_UP_STEPS} steps of each start are only in the total time: they pay for what is done once"
        );
        let _ = writeln!(out, "{}", wrap("  ", &text));
    }
}

fn one_against(out: &mut String, against: &Against, number: usize, first: &str, paint: Paint) {
    let heading = format!(
        "{number} {} against 1 {}",
        short(&against.run),
        short(first)
    );
    let _ = writeln!(out, "\n{}", paint.heading(&heading));
    let mut table = Table::new(2)
        .column("", Align::Left)
        .column("", Align::Left)
        .column("change", Align::Right)
        .column("nine in ten within", Align::Right);
    for difference in &against.differences {
        let (name, unit) = match difference.measure {
            Measure::StepTime => (step_time_name(against.steps_matched), "%"),
            Measure::Throughput => ("throughput", "%"),
            Measure::Busy => ("busy", "points"),
            Measure::Stall => ("stall", "points"),
            Measure::Variation => ("variation", "points"),
        };
        let (value, within) = match &difference.change {
            Some(change) => numbers(change, unit),
            None => Default::default(),
        };
        table.row([
            name.to_owned(),
            told(difference.judgement, paint),
            value,
            within,
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
    if against.steps_matched == Matched::ByFrame {
        let text =
            "their batches have other shapes: the time of a frame, padding and all, is compared";
        let _ = writeln!(out, "{}", wrap("  ", text));
    }
    match &against.loss {
        Some(loss) => losses(out, loss, paint),
        None => {
            let _ = writeln!(out, "  loss: the two have no step with a loss in common");
        }
    }
}

fn step_time_name(matched: Matched) -> &'static str {
    match matched {
        Matched::ByShape => "step time",
        Matched::ByFrame => "time of a frame",
    }
}

fn told(told: Judgement, paint: Paint) -> String {
    let (mark, word) = match told {
        Judgement::Better => (Mark::Good, "better"),
        Judgement::Worse => (Mark::Bad, "worse"),
        Judgement::NoDifference => (Mark::Open, "no difference can be told"),
        Judgement::NotMeasured => (Mark::Open, "not measured"),
    };
    format!("{} {word}", paint.mark(mark))
}

fn numbers(change: &Change, unit: &str) -> (String, String) {
    let one = |value: f64| signed(100.0 * value, 1);
    (
        format!("{} {unit}", one(change.value)),
        format!("{} to {}", one(change.low), one(change.high)),
    )
}

/// With its sign, and no minus before nothing.
fn signed(value: f64, places: usize) -> String {
    let text = format!("{value:+.places$}");
    let nothing = !text.contains(|c: char| ('1'..='9').contains(&c));
    match nothing {
        true => text.replace(['+', '-'], ""),
        false => text.replace('-', "−"),
    }
}

fn losses(out: &mut String, loss: &Loss, paint: Paint) {
    if loss.same_to_the_last_bit {
        let text = format!(
            "the losses of all {} steps in common are the same to the last bit",
            whole(loss.common_steps as f64)
        );
        let head = format!("  {} ", paint.mark(Mark::Good));
        let _ = writeln!(out, "{}", wrap(&head, &text));
        return;
    }
    let _ = writeln!(out);
    let mut table = Table::new(2)
        .column("loss at", Align::Left)
        .column("", Align::Left)
        .column("1 → this", Align::Right)
        .column("nine in ten within", Align::Right);
    for at in &loss.at {
        table.row([
            whole(at.step as f64),
            told(at.judgement, paint),
            format!("{:.4} → {:.4}", at.first, at.this),
            format!(
                "{} to {}",
                signed(at.change.low, 4),
                signed(at.change.high, 4)
            ),
        ]);
    }
    let _ = writeln!(out, "{}", table.text());
    let averaged = loss.at.iter().map(|at| at.averaged).max().unwrap_or(0);
    if averaged > 1 {
        let text = format!("each loss is the mean of the {averaged} steps up to that one");
        let _ = writeln!(out, "{}", wrap("  ", &text));
    }
    if !loss.same_amount_of_data {
        let text =
            "at equal steps the two have not seen equally much: their batches differ in size";
        let head = format!("  {} ", paint.mark(Mark::Warn));
        let _ = writeln!(out, "{}", wrap(&head, text));
    }
}

fn settings(out: &mut String, comparison: &Comparison, paint: Paint) {
    let _ = writeln!(out, "\n{}", paint.heading("Settings and facts that differ"));
    for side in comparison.runs.iter().filter(|side| !side.settings_known) {
        let text = format!(
            "{} has no settings.yaml beside its log: its settings are not known",
            side.name
        );
        let head = format!("  {} ", paint.mark(Mark::Open));
        let _ = writeln!(out, "{}", wrap(&head, &text));
    }
    if comparison.differing.is_empty() {
        let _ = writeln!(out, "  none that is known of");
        return;
    }
    let numbered: Vec<usize> = (0..comparison.runs.len()).collect();
    for part in numbered.chunks(BESIDE) {
        let mut table = Table::new(2).column("", Align::Left);
        for run in part {
            let heading = format!("{} {}", run + 1, short(&comparison.runs[*run].name));
            table = table.column(&heading, Align::Left);
        }
        for Differing { name, values } in &comparison.differing {
            let cells = part.iter().map(|run| match values.get(*run) {
                Some(Some(value)) => short(value),
                _ => "–".to_owned(),
            });
            table.row(std::iter::once(name.clone()).chain(cells));
        }
        let _ = writeln!(out, "{}", table.text());
    }
}

/// The end of it: what differs tends to be there, in a path as in a list.
fn short(text: &str) -> String {
    let length = text.chars().count();
    match length <= WIDEST {
        true => text.to_owned(),
        false => format!(
            "…{}",
            text.chars().skip(length - WIDEST + 1).collect::<String>()
        ),
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 3_600.0 => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
        s => format!("{} h {:02} min", s as u64 / 3_600, s as u64 / 60 % 60),
    }
}

fn verdicts(out: &mut String, comparison: &Comparison, paint: Paint) {
    let _ = writeln!(out);
    let text = "The intervals hold the noise from step to step. A run that is started again may differ by more: \
                compare two equal runs to see by how much.";
    let _ = writeln!(out, "{}", wrap("", text));
    if comparison.runs.iter().any(|side| disturbed(side).is_some()) {
        let text = "Other programs had a part in these times: what is told better or worse may be their doing. Measure again \
                    when they are done.";
        let head = format!("{} ", paint.mark(Mark::Warn));
        let _ = writeln!(out, "{}", wrap(&head, text));
    }
    let Some(limit) = comparison.fail_above else {
        return;
    };
    let _ = writeln!(out);
    let first = comparison.runs.first().map_or("", |side| &side.name);
    let limit = format!("{} %", 100.0 * limit);
    for against in &comparison.against_first {
        let change = against
            .differences
            .iter()
            .find(|difference| difference.measure == Measure::StepTime)
            .and_then(|difference| difference.change);
        let percents = |value: f64| format!("{} %", signed(100.0 * value, 1));
        let (mark, text) = match (against.verdict, change) {
            (Some(Verdict::Worse), Some(change)) => (
                Mark::Bad,
                format!(
                    "too slow: {} takes {} time a step against {first}, at least {}: above {limit}",
                    against.run,
                    percents(change.value),
                    percents(change.low)
                ),
            ),
            (Some(Verdict::Uncertain), Some(change)) => (
                Mark::Warn,
                format!(
                    "not certain: {} takes {} time a step against {first}, above {limit}, but it may be {}",
                    against.run,
                    percents(change.value),
                    percents(change.low)
                ),
            ),
            (Some(Verdict::Within), Some(_)) => (
                Mark::Good,
                format!(
                    "{} is not slower than {first} by more than {limit}",
                    against.run
                ),
            ),
            _ => (
                Mark::Open,
                format!("{} could not be compared with {first}", against.run),
            ),
        };
        let head = format!("{} ", paint.mark(mark));
        let _ = writeln!(out, "{}", wrap(&head, &text));
    }
}

#[cfg(test)]
mod tests;
