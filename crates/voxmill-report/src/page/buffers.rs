//! Buffers, slots and memory against their limits, and what the controller decided.

use voxmill_analysis::history::{Level, extremes};
use voxmill_telemetry::event::{DecidedChange, Decision};

use super::chart::{Chart, Colour, Layer, PARTS, Row, at_time};
use super::markup::Html;
use super::scale::{Scale, Unit};
use super::{Part, section, table};

/// More are counted.
const MOST_DECISIONS: usize = 200;
const LIMIT: Colour = Colour(6);

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let (words, history) = (part.words, &part.run.history);
    let (buffers, memory) = (buffers(part), memory(part));
    if !buffers.has_data() && !memory.has_data() && history.decisions.is_empty() {
        return;
    }
    section(page, words.buffers, |section| {
        for chart in [buffers, slots(part), memory] {
            if chart.has_data() {
                chart.figure(section);
            }
        }
        if history.decisions.is_empty() {
            return;
        }
        section.words("h3", &[], words.decisions);
        let row = |(at, decision): &(f64, Decision)| {
            vec![
                at_time(*at),
                decision.subject.clone(),
                change(decision, part),
                decision.reason.clone(),
            ]
        };
        let head = [words.when, words.subject, words.change, words.reason];
        let shown = history.decisions.iter().take(MOST_DECISIONS);
        let rows: Vec<Vec<String>> = shown.map(row).collect();
        table(section, &head, &rows);
        let more = history.decisions.len().saturating_sub(MOST_DECISIONS);
        if more > 0 {
            section.words("p", &[("class", "note")], &format!("+ {more}"));
        }
    });
}

fn change(decision: &Decision, part: &Part<'_>) -> String {
    let words = part.words;
    match decision.change {
        DecidedChange::Workers { from, to } => format!("{}: {from} → {to}", words.workers),
        DecidedChange::Capacity { from, to } => format!("{}: {from} → {to}", words.capacity),
        DecidedChange::WorkersBack { from, to } => {
            format!("{}: {from} → {to} ({})", words.workers, words.taken_back)
        }
        DecidedChange::CapacityBack { from, to } => {
            format!("{}: {from} → {to} ({})", words.capacity, words.taken_back)
        }
        DecidedChange::Settled => words.settled.to_owned(),
        DecidedChange::Reopened => words.reopened.to_owned(),
    }
}

fn time_chart(part: &Part<'_>, title: &'static str, note: &'static str, rows: Vec<Row>) -> Chart {
    Chart {
        title,
        note: note.to_owned(),
        x: Scale::new(0.0, part.run.history.end, Unit::Seconds),
        x_name: part.words.time_axis,
        group: part.time_group(),
        rows,
        legend: Vec::new(),
    }
}

/// Levels with their limit, in one row.
fn levels(part: &Part<'_>, label: String, levels: &[Level], unit: Unit, height: u32) -> Row {
    let range = (0.0, part.run.history.end);
    let values: Vec<(f64, f64)> = levels.iter().map(|l| (l.at, l.value as f64)).collect();
    let limits = levels.iter().filter_map(|l| Some((l.at, l.limit? as f64)));
    let limits: Vec<(f64, f64)> = limits.collect();
    let most = values.iter().chain(&limits).map(|point| point.1);
    let y = Scale::from_zero(most, unit);
    Row::new(label, y, height)
        .with(Layer::Line(LIMIT, extremes(&limits, range, PARTS / 4)))
        .with(Layer::Line(Colour(0), extremes(&values, range, PARTS)))
}

pub(super) fn buffers(part: &Part<'_>) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let decided = |name: &str| -> Layer {
        let about = history
            .decisions
            .iter()
            .filter(|(_, decision)| decision.subject == name || decision.subject.is_empty());
        let marks = about.take(MOST_DECISIONS).map(|(at, decision)| {
            let text = format!("{}: {}", change(decision, part), decision.reason);
            (*at, text)
        });
        Layer::Marks(Colour(4), marks.collect())
    };
    let rows = history.buffers.iter().map(|(name, of_buffer)| {
        let label = format!("{name}, {}", words.items);
        levels(part, label, of_buffer, Unit::Count, 60).with(decided(name))
    });
    time_chart(
        part,
        words.buffers_chart,
        words.buffers_note,
        rows.collect(),
    )
}

fn slots(part: &Part<'_>) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let points = history.ready.clone();
    let points = extremes(&points, (0.0, history.end), PARTS);
    let y = Scale::from_zero(points.iter().map(|point| point.1), Unit::Count);
    let row = Row::new("", y, 80).with(Layer::Line(Colour(0), points));
    time_chart(part, words.slots, words.slots_note, vec![row])
}

fn memory(part: &Part<'_>) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let mut rows = Vec::new();
    let process = history.host.iter().filter_map(|(at, sample)| {
        Some(Level {
            at: *at,
            value: sample.process_memory?,
            limit: sample.memory_total,
        })
    });
    let process: Vec<Level> = process.collect();
    if !process.is_empty() {
        let label = words.process_memory.to_owned();
        rows.push(levels(part, label, &process, Unit::Bytes, 60));
    }
    for (name, of_budget) in &history.budgets {
        let label = format!("{} {name}", words.budget);
        rows.push(levels(part, label, of_budget, Unit::Bytes, 60));
    }
    for (device, pools) in &history.device_memory {
        let label = format!("{} {device}", words.memory_of);
        rows.push(levels(part, label, pools, Unit::Bytes, 60));
    }
    for (device, samples) in &history.devices {
        let used = samples.iter().filter_map(|(at, sample)| {
            Some(Level {
                at: *at,
                value: sample.memory_used?,
                limit: sample.memory_total,
            })
        });
        let used: Vec<Level> = used.collect();
        if !used.is_empty() {
            let label = format!("{} {device}", words.memory_of);
            rows.push(levels(part, label, &used, Unit::Bytes, 60));
        }
    }
    time_chart(part, words.memory, words.memory_note, rows)
}
