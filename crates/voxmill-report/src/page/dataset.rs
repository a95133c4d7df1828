//! What was trained on: how long clips are, which batches they form, and what was left out.

use voxmill_telemetry::facts::DatasetFacts;

use super::chart::{Chart, Colour, Layer, Row};
use super::markup::Html;
use super::scale::{Scale, Unit};
use super::{Part, section, table};
use crate::format::count;

pub(super) fn part(page: &mut Html, part: &Part<'_>) {
    let words = part.words;
    let Some(dataset) = &part.run.history.dataset else {
        return;
    };
    section(page, words.dataset, |section| {
        let counts = [
            (dataset.rows, words.rows_of_manifest),
            (dataset.clips, words.clips_to_train),
            (dataset.validation, words.clips_held_out),
        ];
        let counts = counts.map(|(number, what)| format!("{} {what}", count(number)));
        section.words("p", &[], &counts.join(", "));
        let lengths = lengths(dataset, part);
        if lengths.has_data() {
            lengths.figure(section);
        }
        section.words("h3", &[], words.buckets);
        let rows = dataset.buckets.iter().map(|bucket| {
            let shape = bucket.shape;
            let [frames, tokens, rows] = [shape.frames, shape.tokens, shape.rows].map(count);
            let [clips, batches] = [bucket.clips, bucket.batches].map(count);
            vec![frames, tokens, rows, clips, batches]
        });
        let head = [
            words.frames,
            words.tokens,
            words.rows,
            words.clips,
            words.batches,
        ];
        table(section, &head, &rows.collect::<Vec<_>>());
        section.words("h3", &[], words.quarantine);
        let lists = [
            (&dataset.quarantine, words.quarantined),
            (&dataset.filtered, words.filtered),
        ];
        let rows = lists.into_iter().flat_map(|(reasons, list)| {
            let row = move |(reason, number): (&String, &u64)| {
                vec![reason.clone(), list.to_owned(), count(number)]
            };
            reasons.iter().map(row)
        });
        let rows: Vec<Vec<String>> = rows.collect();
        match rows.is_empty() {
            true => section.words("p", &[], words.nothing_left_out),
            false => table(section, &[words.reason, "", words.rows], &rows),
        }
    });
}

fn lengths(dataset: &DatasetFacts, part: &Part<'_>) -> Chart {
    let words = part.words;
    let mut from = 0.0;
    let mut bars = Vec::new();
    for group in &dataset.lengths {
        bars.push((from, group.seconds, 0.0, group.count as f64));
        from = group.seconds;
    }
    let y = Scale::from_zero(bars.iter().map(|bar| bar.3), Unit::Count);
    Chart {
        title: words.lengths,
        note: words.lengths_note.to_owned(),
        x: Scale::new(0.0, from, Unit::Plain),
        x_name: words.length_axis,
        group: None,
        rows: vec![Row::new("", y, 120).with(Layer::Bars(Colour(2), bars))],
        legend: Vec::new(),
    }
}
