//! Every single step in a few bytes, for the script to draw when few enough are in view.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use voxmill_analysis::history::PlacedStep;
use voxmill_telemetry::event::Nanos;
use voxmill_telemetry::shape::StepShape;

use super::Part;
use super::markup::Html;

/// More shapes have no name on the page.
const MOST_SHAPES: usize = 250;

pub(super) fn data(page: &mut Html, part: &Part<'_>) {
    let steps = &part.run.history.steps;
    let shapes = shapes(steps);
    let names: Vec<String> = shapes.keys().map(ToString::to_string).collect();
    let group = format!("time-{}", part.number);
    let attributes = [
        ("class", "steps"),
        // No script: the browser takes it for text.
        ("type", "text/plain"),
        ("data-group", &*group),
        ("data-shapes", &names.join(" · ")),
    ];
    let encoded = STANDARD.encode(encode(steps, &shapes));
    page.words("script", &attributes, &encoded);
}

fn shapes(steps: &[PlacedStep]) -> BTreeMap<StepShape, u64> {
    let shapes = steps.iter().filter_map(|placed| placed.step.shape);
    let shapes: std::collections::BTreeSet<StepShape> = shapes.collect();
    shapes.into_iter().take(MOST_SHAPES).zip(1..).collect()
}

/// Tenths of a millisecond.
fn tenths(span: Nanos) -> u64 {
    (span.0 + 50_000) / 100_000
}

/// For each step: milliseconds from the end of the one before, tenths of a millisecond of gap, wait and training,
/// the number after the one before, and the shape. Each is written in as few bytes as it takes.
fn encode(steps: &[PlacedStep], shapes: &BTreeMap<StepShape, u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * steps.len());
    let (mut ended, mut number) = (0_i64, 0_i64);
    for placed in steps {
        let step = &placed.step;
        let end = (placed.end * 1e3).round() as i64;
        push(&mut bytes, folded(end - ended));
        push(&mut bytes, tenths(step.overhead));
        push(&mut bytes, tenths(step.waited));
        push(&mut bytes, tenths(step.service));
        push(&mut bytes, folded(step.step as i64 - number - 1));
        let shape = step.shape.and_then(|shape| shapes.get(&shape));
        push(&mut bytes, shape.copied().unwrap_or(0));
        (ended, number) = (end, step.step as i64);
    }
    bytes
}

/// Small numbers of either sign as small ones.
fn folded(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_telemetry::event::Step;

    #[test]
    fn a_step_takes_few_bytes_and_nothing_is_lost() {
        let step = |number: u64, end: f64, waited: u64| PlacedStep {
            end,
            step: Step {
                step: number,
                waited: Nanos(waited * 1_000_000),
                service: Nanos(480_000_000),
                shape: "8x100x20".parse().ok(),
                ..Step::default()
            },
        };
        // The second was done again after a kill.
        let steps = [step(1, 0.5, 0), step(2, 1.0, 3), step(2, 1.5, 0)];
        let shapes = shapes(&steps);
        let bytes = encode(&steps, &shapes);
        assert!(bytes.len() <= 8 * steps.len());
        let mut at = bytes.iter();
        let mut next = || {
            let (mut value, mut shift) = (0_u64, 0);
            loop {
                let byte = *at.next().unwrap();
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        let read: Vec<[u64; 6]> = (0..3).map(|_| [(); 6].map(|()| next())).collect();
        let expected = [
            [1_000, 0, 0, 4_800, 0, 1],
            [1_000, 0, 30, 4_800, 0, 1],
            // One number back: folded, that is 1.
            [1_000, 0, 0, 4_800, 1, 1],
        ];
        assert_eq!(read, expected);
    }
}
