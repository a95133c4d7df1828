//! What was learnt: losses, held-out error, learning rate, gradient norm.

use std::collections::BTreeMap;

use voxmill_analysis::history::extremes;

use super::chart::{Chart, Colour, Layer, PARTS, Row};
use super::markup::Html;
use super::scale::{Scale, Unit};
use super::{Part, section};
use crate::format::count;

const LOSSES: [&str; 4] = ["loss", "mel", "mean", "duration"];

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let words = part.words;
    let charts = [
        losses(part),
        one(
            part,
            "learning_rate",
            words.learning_rate,
            words.learning_rate_note,
        ),
        one(
            part,
            "gradient_norm",
            words.gradient_norm,
            words.gradient_norm_note,
        ),
    ];
    if !charts.iter().any(Chart::has_data) {
        return;
    }
    section(page, words.learning, |section| {
        for chart in charts.into_iter().filter(Chart::has_data) {
            chart.figure(section);
        }
    });
}

/// By step, as they were done last; and how many were not finite.
fn series(part: &Part<'_>, name: &str) -> (Vec<(f64, f64)>, usize) {
    let steps = part.run.run.steps.iter();
    let values = steps.filter_map(|step| Some((step.step as f64, *step.values.get(name)?)));
    let all: Vec<(f64, f64)> = values.collect();
    let lost = all.iter().filter(|point| !point.1.is_finite()).count();
    (all, lost)
}

fn axis(part: &Part<'_>) -> Scale {
    let steps = &part.run.run.steps;
    let [first, last] =
        [steps.first(), steps.last()].map(|step| step.map_or(0.0, |step| step.step as f64));
    Scale::new(first, last, Unit::Count)
}

fn chart(part: &Part<'_>, title: &'static str, note: String, rows: Vec<Row>) -> Chart {
    Chart {
        title,
        note,
        x: axis(part),
        x_name: part.words.step_axis,
        group: part.step_group(),
        rows,
        legend: Vec::new(),
    }
}

fn losses(part: &Part<'_>) -> Chart {
    let words = part.words;
    let x = axis(part);
    let mut rows = Vec::new();
    let mut not_finite = 0;
    let held_out: BTreeMap<&str, Vec<(f64, f64)>> = LOSSES
        .into_iter()
        .map(|name| {
            let found = part.run.history.validations.iter();
            let values = found.filter_map(|v| Some((v.step as f64, *v.losses.get(name)?)));
            (name, values.collect())
        })
        .collect();
    for name in LOSSES {
        let (points, lost) = series(part, name);
        not_finite += lost;
        let validated = &held_out[name];
        if points.is_empty() && validated.is_empty() {
            continue;
        }
        let values = points.iter().chain(validated).map(|point| point.1);
        let y = Scale::around(values, Unit::Plain);
        let points = extremes(&points, (x.from, x.to), PARTS);
        let mut row = Row::new(name, y, 110).with(Layer::Line(Colour::TRAIN, points));
        if !validated.is_empty() {
            row = row
                .with(Layer::Line(Colour::WAITED, validated.clone()))
                .with(Layer::Dots(Colour::WAITED, validated.clone()));
        }
        rows.push(row);
    }
    let mut note = words.losses_note.to_owned();
    if not_finite > 0 {
        note += &format!(" {} {}.", count(not_finite), words.not_finite);
    }
    let has_held_out = held_out.values().any(|points| !points.is_empty());
    let mut chart = chart(part, words.losses, note, rows);
    chart.legend = vec![(Colour::TRAIN, words.train.to_owned())];
    if has_held_out {
        chart
            .legend
            .push((Colour::WAITED, words.held_out.to_owned()));
    }
    chart
}

fn one(part: &Part<'_>, name: &str, title: &'static str, note: &str) -> Chart {
    let (points, lost) = series(part, name);
    let x = axis(part);
    let mut note = note.to_owned();
    if lost > 0 {
        note += &format!(" {} {}.", count(lost), part.words.not_finite);
    }
    let y = Scale::from_zero(points.iter().map(|point| point.1), Unit::Plain);
    let points = extremes(&points, (x.from, x.to), PARTS);
    let rows = match points.is_empty() {
        true => Vec::new(),
        false => vec![Row::new("", y, 110).with(Layer::Line(Colour(2), points))],
    };
    chart(part, title, note, rows)
}
