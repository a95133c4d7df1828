//! What was found, for programs.

use serde::Serialize;
use serde_json::{Value, json};

use super::File;
use super::busy::Busy;
use super::examine::Examined;
use super::fix::Fixed;
use super::look::Here;
use crate::checks::{Check, Level, Line, Room, Where};

/// Grows when a program that reads it would misread it.
const VERSION: u32 = 1;

/// The dataset and the plan of an epoch in plain numbers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Dataset {
    pub(super) folder: String,
    pub(super) demo: bool,
    pub(super) rows: usize,
    pub(super) to_train_on: usize,
    pub(super) held_out: usize,
    pub(super) bad: usize,
    pub(super) left_out_for_length: usize,
    pub(super) audio_seconds: f64,
    /// The longest clips, with their seconds.
    pub(super) longest: Vec<(String, f64)>,
    pub(super) batch_size: u32,
    pub(super) batches_an_epoch: u64,
    pub(super) shapes: usize,
    pub(super) padding_waste: f64,
    pub(super) padding_waste_of_padding_to_the_longest: f64,
    /// Rows, frames, tokens of the batch that needs the most.
    pub(super) largest_batch: [u32; 3],
    pub(super) model_device_bytes: u64,
    pub(super) weights_bytes: u64,
    pub(super) training_bytes: u64,
    pub(super) waiting_bytes: u64,
    pub(super) waiting_batches: usize,
    pub(super) data_device_bytes: u64,
    pub(super) making_bytes: u64,
    pub(super) batch_budget_bytes: u64,
    pub(super) cached_clips: usize,
    pub(super) all_clips: usize,
}

pub(super) fn json(
    file: Option<&File>,
    examined: &Examined,
    fixed: Option<&Fixed>,
    last: &Examined,
    here: &Here,
) -> Value {
    let host = &here.host;
    let fixed = fixed.map(|fixed| {
        let left = fixed.left.as_ref().map(|left| checks(&left.checks));
        json!({
            "file": fixed.path,
            "changes": fixed.changes.iter().map(|change| json!({
                "line": change.line,
                "before": change.before,
                "after": change.after,
            })).collect::<Vec<_>>(),
            "checks": left,
        })
    });
    json!({
        "version": VERSION,
        "ready": last.is_ready(),
        "passed": last.is_ready() && last.count(Level::Warning) == 0,
        "config": file.map(|file| file.path.display().to_string()),
        "errors": last.count(Level::Error),
        "warnings": last.count(Level::Warning),
        "notes": last.count(Level::Note),
        "checks": checks(&examined.checks),
        "machine": {
            "cpu": host.cpu,
            "cores": host.cores,
            "memory_bytes": host.memory,
            "memory_available_bytes": host.memory_available,
        },
        "model_device": examined.devices.first(),
        "data_device": examined.devices.last(),
        "dataset": examined.data,
        "disk": examined.disk.as_ref().map(|disk| json!({
            "read_bytes_per_second": disk.reading.map(|reading| reading.bytes_a_second()),
            "read_files": disk.reading.map(|reading| reading.files),
            "read_bytes": disk.reading.map(|reading| reading.bytes),
            "page_cache_may_hold_them": true,
            "checkpoints": room(&disk.checkpoints),
            "cache": room(&disk.cache),
        })),
        "busy": last.busy.as_ref().map(busy),
        "fixed": fixed,
    })
}

fn busy(busy: &Busy) -> Value {
    json!({
        "share": busy.share,
        "run": busy.run,
        "steps": busy.steps,
        "seconds_per_step": busy.seconds_a_step,
    })
}

fn room(room: &Room) -> Value {
    json!({
        "folder": room.folder,
        "needed_bytes": room.needed,
        "free_bytes": room.free,
        "writable": room.writable,
    })
}

fn checks(checks: &[Check]) -> Vec<Value> {
    checks.iter().map(check).collect()
}

fn check(check: &Check) -> Value {
    let place = match &check.place {
        Where::File(place) => json!({
            "file": place.file.display().to_string(),
            "line": place.line,
            "column": place.column,
        }),
        Where::Flag(value) => json!({"flag": check.key.map(crate::checks::flag), "value": value}),
        Where::Usual { value, why, .. } => json!({"default": value, "why": why}),
        Where::Elsewhere => Value::Null,
    };
    json!({
        "level": check.level.name(),
        "key": check.key.map(|key| key.name),
        "section": check.key.map(|key| key.section.name()),
        "place": place,
        "what": check.what,
        "costs": check.costs,
        "write": check.write.iter().map(line).collect::<Vec<_>>(),
        "hint": check.hint,
    })
}

fn line(line: &Line) -> Value {
    json!({
        "section": line.key.section.name(),
        "key": line.key.name,
        "value": line.value,
        "line": line.in_file(),
        "flag": line.flag(),
    })
}
