//! A step as the log has it, and the warning about one that had to be split.

use std::collections::BTreeMap;
use std::time::Duration;

use voxmill_telemetry::event::{Nanos, Step};
use voxmill_telemetry::shape::StepShape;
use voxmill_trainer::train::{BatchParts, Losses, StepReport};

use voxmill_settings::checks::need::StepClips;

pub(crate) fn split_warning(split: &BatchParts, clips: StepClips) -> String {
    let smaller = clips.in_parts(split.parts);
    format!(
        "batches of {} clips of {} frames do not fit ({}): they are trained in {} parts, which add up to the same step; --batch-size {} with --grad-accum {} does without",
        split.shape.rows,
        split.shape.frames,
        split.why,
        split.parts,
        smaller.batch_size,
        smaller.accumulate
    )
}

/// By the names that the log has for them.
pub(crate) fn losses(losses: &Losses) -> BTreeMap<String, f64> {
    let values = [
        ("loss", losses.total),
        ("mel", losses.mel),
        ("mean", losses.mean),
        ("duration", losses.duration),
    ];
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

pub(crate) fn step_event(report: &StepReport, ended: Nanos) -> Step {
    let values = [
        ("gradient_norm", report.gradient_norm),
        ("learning_rate", report.rate),
        ("frames", report.frames as f64),
        ("clips", report.clips.len() as f64),
    ];
    let epoch = report.positions.last();
    let epoch = epoch.map(|position| ("epoch", position.epoch as f64 + 1.0));
    let scale = report.loss_scale.map(|scale| ("loss_scale", scale));
    let (shape, padded) = match &report.shapes[..] {
        [] => (None, None),
        [shape] => (Some(StepShape::Batch(*shape)), None),
        shapes => {
            let frames: u64 = shapes.iter().map(|shape| shape.padded_frames()).sum();
            let padded = ("padded_frames", frames as f64);
            (Some(StepShape::Batches(shapes.len() as u64)), Some(padded))
        }
    };
    Step {
        step: report.step,
        waited: nanos(report.waited),
        late: report.late.clone(),
        service: nanos(report.service),
        overhead: nanos(report.overhead),
        shape,
        ended: Some(ended),
        phase: None,
        parts: BTreeMap::new(),
        values: (values.into_iter().chain(epoch).chain(scale).chain(padded))
            .map(|(name, value)| (name.to_owned(), value))
            .chain(losses(&report.losses))
            .collect(),
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}
