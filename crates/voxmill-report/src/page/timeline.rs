//! The model device, what feeds it and how full the buffers were, as lanes over time.

use voxmill_analysis::history::{Bin, extremes};
use voxmill_analysis::profile::{SlowStep, slow_steps};
use voxmill_telemetry::stage::{StageId, is_part};

use super::chart::{Chart, Colour, Layer, PARTS, Row, at_time};
use super::markup::Html;
use super::scale::{Scale, Unit};
use super::single_steps;
use super::{Part, section, table};
use crate::format::{count, time};

/// Parts of the whole that bars are drawn for.
const BINS: usize = 400;
/// The slowest steps are marked and listed.
const SLOW_STEPS: usize = 20;

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let words = part.words;
    if part.run.history.steps.is_empty() {
        return;
    }
    let slow = slow_steps(&part.run.run.last_start(), SLOW_STEPS);
    section(page, words.timeline, |section| {
        section.words("p", &[("class", "note help")], words.zoom_help);
        chart(part, &slow).figure(section);
        single_steps::data(section, part);
        section.words("h3", &[], words.longest_waits);
        if slow.is_empty() {
            section.words("p", &[("class", "note")], words.nothing_waited);
            return;
        }
        let head = [
            words.slow_step,
            words.slow_at,
            words.slow_waited,
            words.slow_for,
            words.slow_clip,
        ];
        let rows: Vec<Vec<String>> = slow.iter().map(|slow| row(part, slow)).collect();
        table(section, &head, &rows);
    });
}

/// When a step of the last start began.
fn moment(part: &Part<'_>, step: u64) -> Option<f64> {
    let mut placed = part.run.history.steps.iter().rev();
    let placed = placed.find(|placed| placed.step.step == step)?;
    Some(placed.begin())
}

fn doing(slow: &SlowStep) -> String {
    let doing = slow.doing.as_ref();
    doing.map_or(String::new(), |doing| {
        format!("{}: {}, {}", doing.part, doing.item, time(doing.ms))
    })
}

fn row(part: &Part<'_>, slow: &SlowStep) -> Vec<String> {
    vec![
        count(slow.step),
        moment(part, slow.step).map_or(String::new(), at_time),
        time(slow.waited_ms),
        slow.stage.clone(),
        doing(slow),
    ]
}

pub(super) fn chart(part: &Part<'_>, slow: &[SlowStep]) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let x = Scale::new(0.0, history.end, Unit::Seconds);
    let bins = history.bins(BINS);
    let share = Scale::new(0.0, 1.0, Unit::Share);
    let mut model = Row {
        has_steps: true,
        ..Row::new(words.model_device, share, 70)
    };
    let stacked = |bottom: fn(&Bin) -> f64, top: fn(&Bin) -> f64| -> Vec<(f64, f64, f64, f64)> {
        let bar = |bin: &Bin| (bin.from, bin.to, bottom(bin).min(1.0), top(bin).min(1.0));
        bins.iter().map(bar).collect()
    };
    model.layers = vec![
        Layer::Bars(Colour::TRAIN, stacked(|_| 0.0, |bin| bin.train)),
        Layer::Bars(
            Colour::WAITED,
            stacked(|bin| bin.train, |bin| bin.train + bin.waited),
        ),
        Layer::Bars(
            Colour::GAP,
            stacked(
                |bin| bin.train + bin.waited,
                |bin| bin.train + bin.waited + bin.gap,
            ),
        ),
    ];
    let slow_marks = slow.iter().filter_map(|slow| {
        let text = format!(
            "{} {}: {} {} {} {} — {}",
            words.slow_step,
            count(slow.step),
            words.slow_waited,
            time(slow.waited_ms),
            words.slow_for,
            slow.stage,
            doing(slow)
        );
        Some((moment(part, slow.step)?, text))
    });
    model
        .layers
        .push(Layer::Marks(Colour::WAITED, slow_marks.collect()));
    model.layers.push(starts_and_checkpoints(part));
    let mut rows = vec![model];
    rows.extend(phases(part));
    rows.extend(stages(part));
    rows.extend(fills(part));
    Chart {
        title: words.timeline,
        note: words.timeline_note.to_owned(),
        x,
        x_name: words.time_axis,
        group: part.time_group(),
        rows,
        legend: vec![
            (Colour::TRAIN, words.train.to_owned()),
            (Colour::WAITED, words.waited.to_owned()),
            (Colour::GAP, words.gap.to_owned()),
        ],
    }
}

fn starts_and_checkpoints(part: &Part<'_>) -> Layer {
    let (words, history) = (part.words, &part.run.history);
    let starts = history.starts.iter().skip(1);
    let starts = starts.map(|start| (start.at, words.new_start.to_owned()));
    let saved = history.checkpoints.iter().map(|(at, position)| {
        let text = format!("{} {}", words.checkpoint, count(position));
        (*at, text)
    });
    // Of many checkpoints the marks would cover everything.
    let saved = saved.take(if history.checkpoints.len() > 50 {
        0
    } else {
        50
    });
    Layer::Marks(Colour(4), starts.chain(saved).collect())
}

fn phases(part: &Part<'_>) -> Option<Row> {
    let phases = &part.run.history.phases;
    if phases.is_empty() {
        return None;
    }
    let names: std::collections::BTreeSet<&str> =
        phases.iter().map(|span| span.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let label = format!("{}: {}", part.words.other_phases, names.join(", "));
    let scale = Scale {
        from: 0.0,
        to: 1.0,
        unit: Unit::Plain,
    };
    let mut row = Row::new(label, scale, 22);
    for (number, name) in names.iter().enumerate() {
        let spans = phases.iter().filter(|span| span.name == *name);
        let bars = spans.map(|span| (span.from, span.to, 0.0, 1.0)).collect();
        row = row.with(Layer::Bars(Colour(number + 1), bars));
    }
    Some(row)
}

/// Stages of the plan, in its order; parts of one, and stages that hardly worked, are left to the profile.
fn stages(part: &Part<'_>) -> Vec<Row> {
    let (words, history) = (part.words, &part.run.history);
    let stages = &part.run.profile.stages;
    let two = part.run.profile.data_device_busy.is_some();
    let whole = stages.iter().filter(|stage| !is_part(&stage.name));
    whole
        .map(|stage| {
            let label = match *stage.name == StageId::Prepare && two {
                true => words.data_device.to_owned(),
                false => format!("{} {}, {}", words.stage, stage.name, words.workers_busy),
            };
            let busy = history.busy(&stage.name, stage.workers as f64, BINS);
            let width = history.end / BINS as f64;
            let bar = |(n, busy): (usize, &f64)| {
                let from = n as f64 * width;
                (from, from + width, 0.0, busy.min(1.0))
            };
            let bars = busy.iter().enumerate().map(bar).collect();
            let share = Scale::new(0.0, 1.0, Unit::Share);
            Row::new(label, share, 34).with(Layer::Bars(Colour(2), bars))
        })
        .collect()
}

/// How full each buffer was, as a share of its capacity at the time.
fn fills(part: &Part<'_>) -> Vec<Row> {
    let (words, history) = (part.words, &part.run.history);
    let buffers = history.buffers.iter();
    buffers
        .map(|(name, levels)| {
            let share = |level: &voxmill_analysis::history::Level| {
                let limit = level.limit.unwrap_or(level.value).max(1);
                (level.at, level.value as f64 / limit as f64)
            };
            let points: Vec<(f64, f64)> = levels.iter().map(share).collect();
            let points = extremes(&points, (0.0, history.end), PARTS);
            let label = format!("{} {name}, {}", words.buffer, words.fill);
            let scale = Scale::new(0.0, 1.0, Unit::Share);
            Row::new(label, scale, 34).with(Layer::Line(Colour(5), points))
        })
        .collect()
}
