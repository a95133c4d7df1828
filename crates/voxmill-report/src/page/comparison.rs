//! Several runs side by side, as `compare` has them: with intervals.

use voxmill_analysis::compare::{
    Against, Comparison, Judgement, Loss, Matched, Measure, RunState, Side,
};
use voxmill_analysis::resampling::Change;

use super::markup::Html;
use super::words::Words;
use super::{section, table};
use crate::format::{
    count, counted, elapsed, measured_percent, percent, signed, size, time, whole,
};

pub(super) fn part(page: &mut Html, comparison: &Comparison, words: &Words) {
    section(page, words.comparison, |section| {
        section.words("p", &[("class", "note")], words.comparison_note);
        sides(section, comparison, words);
        for against in &comparison.against_first {
            let first = comparison.runs.first().map_or("", |side| &side.name);
            let heading = format!("{} {} {first}", against.run, words.against);
            section.words("h3", &[], &heading);
            changes(section, against, words);
        }
        if !comparison.differing.is_empty() {
            section.words("h3", &[], words.differing);
            let rows = comparison.differing.iter().map(|differing| {
                let values = differing.values.iter();
                let values = values.map(|value| value.clone().unwrap_or_else(|| "–".to_owned()));
                std::iter::once(differing.name.clone())
                    .chain(values)
                    .collect()
            });
            let rows: Vec<Vec<String>> = rows.collect();
            table(section, &head(comparison, words.name), &rows);
        }
    });
}

fn head<'a>(comparison: &'a Comparison, first: &'a str) -> Vec<&'a str> {
    let names = comparison.runs.iter().map(|side| &*side.name);
    std::iter::once(first).chain(names).collect()
}

fn sides(page: &mut Html, comparison: &Comparison, words: &Words) {
    let known = |bytes: Option<u64>| bytes.map_or("–".to_owned(), size);
    let state = |side: &Side| {
        let state = match side.state {
            RunState::Finished => words.finished,
            RunState::Interrupted => words.interrupted,
            RunState::Failed => words.failed,
            RunState::InProgress => words.running,
            RunState::Killed => words.killed,
        };
        format!("{}; {state}", counted(side.steps, "step"))
    };
    type Cell<'a> = &'a dyn Fn(&Side) -> String;
    let cells: [(&str, Cell<'_>); 9] = [
        (words.state, &state),
        (words.total_time, &|side| elapsed(side.total_seconds)),
        (words.distribution_axis, &|side| {
            format!("{} ± {}", time(side.step_ms.mean), time(side.step_ms.std))
        }),
        (words.p95, &|side| time(side.step_ms.p95)),
        (words.throughput, &|side| {
            format!(
                "{} {}",
                whole(side.frames_per_second),
                words.frames_per_second
            )
        }),
        (words.busy_word, &|side| percent(side.busy)),
        (words.stall, &|side| percent(side.stall)),
        (words.variation, &|side| measured_percent(side.variation)),
        (words.host_memory, &|side| known(side.process_memory)),
    ];
    let row = |(name, cell): &(&str, Cell<'_>)| {
        let cells = comparison.runs.iter().map(cell);
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    table(page, &head(comparison, words.measure), &rows);
}

fn judgement(judgement: Judgement, words: &Words) -> &'static str {
    match judgement {
        Judgement::Better => words.better,
        Judgement::Worse => words.worse,
        Judgement::NoDifference => words.no_difference,
        Judgement::NotMeasured => words.not_measured,
    }
}

fn interval(change: &Change, scale: f64, places: usize) -> String {
    let [low, high] = [change.low, change.high].map(|value| signed(scale * value, places));
    format!("{low} … {high}")
}

fn changes(page: &mut Html, against: &Against, words: &Words) {
    let rows = against.differences.iter().map(|difference| {
        let (name, unit) = match (difference.measure, against.steps_matched) {
            (Measure::StepTime, Matched::ByShape) => (words.distribution_axis, "%"),
            (Measure::StepTime, Matched::ByFrame) => (words.time_of_a_frame, "%"),
            (Measure::Throughput, _) => (words.throughput, "%"),
            (Measure::Busy, _) => (words.busy_word, "pp"),
            (Measure::Stall, _) => (words.stall, "pp"),
            (Measure::Variation, _) => (words.variation, "pp"),
        };
        let (value, within) = difference.change.map_or_else(Default::default, |change| {
            let value = format!("{} {unit}", signed(100.0 * change.value, 1));
            (value, interval(&change, 100.0, 1))
        });
        let word = judgement(difference.judgement, words);
        vec![name.to_owned(), word.to_owned(), value, within]
    });
    let head = [words.measure, "", words.change, words.interval];
    table(page, &head, &rows.collect::<Vec<_>>());
    if against.steps_matched == Matched::ByFrame {
        page.words("p", &[("class", "note")], words.too_few_alike);
    }
    match &against.loss {
        None => page.words("p", &[("class", "note")], words.no_common_losses),
        Some(loss) if loss.same_to_the_last_bit => page.words("p", &[], words.same_losses),
        Some(loss) => losses(page, loss, words),
    }
}

fn losses(page: &mut Html, loss: &Loss, words: &Words) {
    let rows = loss.at.iter().map(|at| {
        let word = match loss.same_dataset {
            Some(false) => words.not_comparable,
            _ => judgement(at.judgement, words),
        };
        vec![
            count(at.step),
            word.to_owned(),
            format!("{:.4} → {:.4}", at.first, at.this),
            match at.judgement {
                Judgement::NotMeasured => String::new(),
                _ => interval(&at.change, 1.0, 4),
            },
        ]
    });
    let head = [words.loss_at, "", words.change, words.interval];
    table(page, &head, &rows.collect::<Vec<_>>());
}
