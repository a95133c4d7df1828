//! How long steps took, what the model device did meanwhile, and how much of it was padding.

use std::collections::BTreeMap;

use voxmill_analysis::history::{Bin, PlacedStep, extremes};
use voxmill_telemetry::shape::StepShape;

use super::chart::{Chart, Colour, Layer, PARTS, Row};
use super::markup::Html;
use super::scale::{Scale, Unit};
use super::{Part, section};
use crate::format::{counted, measured_percent, percent, time};

/// Shapes with a colour of their own; the rest share one.
const MOST_SHAPES: usize = 6;
const BINS: usize = 300;
const COLUMNS: usize = 60;

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    if part.run.history.steps.is_empty() {
        return;
    }
    section(page, part.words.step_times, |section| {
        step_time(part).figure(section);
        distribution(part).figure(section);
        let bins = part.run.history.bins(BINS);
        busy(part, &bins).figure(section);
        throughput(part, &bins).figure(section);
        if let Some(padding) = padding(part, &bins) {
            padding.figure(section);
        }
    });
}

/// The most frequent shapes, and what is left.
fn by_shape<'a>(part: &'a Part<'_>) -> Vec<(String, Vec<&'a PlacedStep>)> {
    let mut shapes: BTreeMap<Option<StepShape>, Vec<&PlacedStep>> = BTreeMap::new();
    for placed in &part.run.history.steps {
        shapes.entry(placed.step.shape).or_default().push(placed);
    }
    let mut shapes: Vec<_> = shapes.into_iter().collect();
    shapes.sort_by_key(|(_, steps)| std::cmp::Reverse(steps.len()));
    let rest = shapes.split_off(shapes.len().min(MOST_SHAPES));
    let name = |shape: Option<StepShape>| {
        shape.map_or(part.words.other_shapes.to_owned(), |shape| {
            shape.to_string()
        })
    };
    let mut named: Vec<(String, Vec<&PlacedStep>)> = shapes
        .into_iter()
        .map(|(shape, steps)| (name(shape), steps))
        .collect();
    let mut rest: Vec<&PlacedStep> = rest.into_iter().flat_map(|(_, steps)| steps).collect();
    if !rest.is_empty() {
        rest.sort_by(|a, b| a.end.total_cmp(&b.end));
        named.push((part.words.other_shapes.to_owned(), rest));
    }
    named
}

pub(super) fn step_time(part: &Part<'_>) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let range = (0.0, history.end);
    let times = history.steps.iter().map(PlacedStep::milliseconds);
    let y = Scale::from_zero(times, Unit::Milliseconds);
    let mut row = Row::new("", y, 220);
    let mut legend = Vec::new();
    let shapes = by_shape(part);
    let parts = PARTS / shapes.len().max(1);
    for (number, (name, steps)) in shapes.into_iter().enumerate() {
        let points = steps
            .iter()
            .map(|placed| (placed.end, placed.milliseconds()));
        let points: Vec<(f64, f64)> = points.collect();
        let colour = Colour(number);
        row = row.with(Layer::Dots(colour, extremes(&points, range, 2 * parts)));
        legend.push((colour, format!("{name} ({})", points.len())));
    }
    let spread = &part.run.profile.step_ms;
    let note = format!(
        "{} {} ± {}, p50 {}, p95 {}, p99 {}; {} {} ({})",
        words.step_time_note,
        time(spread.mean),
        time(spread.std),
        time(spread.p50),
        time(spread.p95),
        time(spread.p99),
        words.variation,
        measured_percent(part.run.profile.variation),
        counted(spread.count, "step"),
    );
    Chart {
        title: words.step_time,
        note,
        x: Scale::new(0.0, history.end, Unit::Seconds),
        x_name: words.time_axis,
        group: part.time_group(),
        rows: vec![row],
        legend,
    }
}

/// Columns of equal width; the last one holds all that is longer.
fn distribution(part: &Part<'_>) -> Chart {
    let words = part.words;
    let spread = &part.run.profile.step_ms;
    let times: Vec<f64> = part
        .run
        .run
        .last_start()
        .steps
        .iter()
        .map(voxmill_analysis::timing::step_time)
        .collect();
    // One step in a thousand may be a hundred times longer than the others: they would be a line at the left.
    let longest = spread.max.min(3.0 * spread.p99).max(1e-6);
    let x = Scale::new(0.0, 1.02 * longest, Unit::Milliseconds);
    let width = (x.to - x.from) / COLUMNS as f64;
    let mut counts = vec![0_u64; COLUMNS];
    let mut beyond = 0_u64;
    for time in &times {
        let column = (time / width) as usize;
        beyond += u64::from(column >= COLUMNS);
        if let Some(count) = counts.get_mut(column) {
            *count += 1;
        }
    }
    let y = Scale::from_zero(counts.iter().map(|count| *count as f64), Unit::Count);
    let bars = counts.iter().enumerate().map(|(n, count)| {
        let from = n as f64 * width;
        (from, from + 0.92 * width, 0.0, *count as f64)
    });
    let mut note = words.step_distribution_note.to_owned();
    if beyond > 0 {
        let longer = counted(beyond, "step");
        note += &format!(
            " {longer} > {}: {} {}.",
            time(x.to),
            words.to,
            time(spread.max)
        );
    }
    Chart {
        title: words.step_distribution,
        note,
        x,
        x_name: words.distribution_axis,
        group: None,
        rows: vec![Row::new("", y, 140).with(Layer::Bars(Colour::TRAIN, bars.collect()))],
        legend: Vec::new(),
    }
}

fn middle(bin: &Bin) -> f64 {
    (bin.from + bin.to) / 2.0
}

fn busy(part: &Part<'_>, bins: &[Bin]) -> Chart {
    let (words, history) = (part.words, &part.run.history);
    let share = Scale::new(0.0, 1.0, Unit::Share);
    let of = |value: fn(&Bin) -> f64| -> Vec<(f64, f64)> {
        bins.iter()
            .map(|bin| (middle(bin), value(bin).min(1.0)))
            .collect()
    };
    let mut row = Row::new("", share, 160)
        .with(Layer::Line(Colour::TRAIN, of(|bin| bin.train)))
        .with(Layer::Line(Colour::WAITED, of(|bin| bin.waited)));
    let mut legend = vec![
        (Colour::TRAIN, words.busy_word.to_owned()),
        (Colour::WAITED, words.stall.to_owned()),
    ];
    // Only of cards that are the run's, where the log says which these are.
    let run = &part.run.run;
    let of_run = |device: &&voxmill_telemetry::device::DeviceLabel| {
        let identities = run
            .stats
            .started
            .iter()
            .flat_map(|started| &started.devices);
        !run.knows_its_devices()
            || identities
                .into_iter()
                .any(|known| known.sampled_as.as_ref() == Some(*device))
    };
    let mut colour = 4;
    for device in history.devices.keys().filter(of_run) {
        let samples = history.devices[device].iter();
        let points: Vec<(f64, f64)> = samples
            .filter_map(|(at, sample)| Some((*at, sample.utilisation_percent? / 100.0)))
            .collect();
        if points.is_empty() {
            continue;
        }
        let points = extremes(&points, (0.0, history.end), PARTS);
        row = row.with(Layer::Line(Colour(colour), points));
        legend.push((Colour(colour), format!("{} {device}", words.utilisation)));
        colour += 1;
    }
    let mut note = words.busy_note.to_owned();
    if colour == 4 {
        note = format!("{note} {}", words.busy_no_driver);
    }
    Chart {
        title: words.busy,
        note,
        x: Scale::new(0.0, history.end, Unit::Seconds),
        x_name: words.time_axis,
        group: part.time_group(),
        rows: vec![row],
        legend,
    }
}

fn throughput(part: &Part<'_>, bins: &[Bin]) -> Chart {
    let words = part.words;
    let points: Vec<(f64, f64)> = bins
        .iter()
        .map(|bin| (middle(bin), bin.frames_per_second()))
        .collect();
    let y = Scale::from_zero(points.iter().map(|point| point.1), Unit::Count);
    Chart {
        title: words.throughput,
        note: words.throughput_note.to_owned(),
        x: Scale::new(0.0, part.run.history.end, Unit::Seconds),
        x_name: words.time_axis,
        group: part.time_group(),
        rows: vec![Row::new("", y, 130).with(Layer::Line(Colour(2), points))],
        legend: Vec::new(),
    }
}

fn padding(part: &Part<'_>, bins: &[Bin]) -> Option<Chart> {
    let words = part.words;
    let points = bins
        .iter()
        .filter_map(|bin| Some((middle(bin), bin.padding()?)));
    let points: Vec<(f64, f64)> = points.collect();
    let y = Scale::from_zero(points.iter().map(|point| point.1), Unit::Share);
    let whole = percent(part.run.profile.padding_waste);
    (!points.is_empty()).then(|| Chart {
        title: words.padding,
        note: format!("{} {whole}", words.padding_note),
        x: Scale::new(0.0, part.run.history.end, Unit::Seconds),
        x_name: words.time_axis,
        group: part.time_group(),
        rows: vec![Row::new("", y, 110).with(Layer::Line(Colour(1), points))],
        legend: Vec::new(),
    })
}
