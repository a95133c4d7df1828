//! A question about a run that was measured: how would it be with other settings, or in another world?
//!
//! What cannot be simulated from a log is refused by name, with what to do instead; nothing is ignored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{Pace, RunModel};
use super::setup::Order;

/// A change that was asked for, as it is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub name: String,
    pub value: String,
}

/// A question that cannot be answered, with the next move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    pub what: String,
    pub hint: String,
}

fn refusal(what: impl Into<String>, hint: impl Into<String>) -> Refusal {
    Refusal {
        what: what.into(),
        hint: hint.into(),
    }
}

/// What can be asked, with an example of each value and what it means.
pub const KNOWN: [(&str, &str, &str); 17] = [
    ("num_workers", "4", "threads that compute features"),
    ("buffer_size", "50", "batches ahead on the host"),
    ("prefetch_buffer_size", "8", "batches ahead on the device"),
    ("ram_budget", "2GB", "bytes of all batches on the host"),
    ("no_overlap", "true", "one stage after another"),
    ("unordered", "true", "clips overtake each other"),
    (
        "model_start_delay",
        "2",
        "seconds, the longest wait at the start",
    ),
    ("cache", "warm", "all features come from the cache"),
    ("cores", "8", "cores that the process may use"),
    ("disk", "2x", "reading files is so much faster"),
    ("decode", "2x", "decoding is so much faster"),
    ("resample", "2x", "resampling is so much faster"),
    ("mel", "2x", "computing frames is so much faster"),
    (
        "featurize",
        "2x",
        "all that computes features is so much faster",
    ),
    (
        "collate",
        "2x",
        "putting batches together is so much faster",
    ),
    (
        "transfer",
        "2x",
        "bringing batches to the device is so much faster",
    ),
    ("model", "2x", "training is so much faster; 0.5x is slower"),
];

/// Settings and worlds that a log cannot answer, and what can.
const REFUSED: [(&str, &str, &str); 13] = [
    (
        "batch_size",
        "a log has the step times of its own batches only",
        "measure it: voxmill scale --batch-sizes",
    ),
    (
        "grad_accum",
        "a log has the step times of its own batches only",
        "measure it: voxmill profile --grad-accum N",
    ),
    (
        "buckets",
        "other shapes have other step times, which the log does not have",
        "measure it: voxmill profile --buckets N",
    ),
    (
        "pad_to_fixed_length",
        "other shapes have other step times, which the log does not have",
        "measure it: voxmill profile --pad-to-fixed-length",
    ),
    (
        "prepare_on",
        "what the other place would take is not in the log",
        "measure both: voxmill profile --prepare-on host, and device",
    ),
    (
        "compute_threads",
        "what the model takes with other threads is not in the log",
        "measure it: voxmill profile --compute-threads N",
    ),
    (
        "mixed_precision",
        "what the model takes in sixteen bits is not in the log",
        "measure it: voxmill profile --mixed-precision",
    ),
    (
        "model_size",
        "what another model takes is not in the log",
        "measure it: voxmill profile --model-size, or ask model=0.5x",
    ),
    (
        "second_device",
        "what the other device would take is not in the log",
        "voxmill plan computes it from stage times that you state",
    ),
    (
        "gpus",
        "the link between devices is not in the log",
        "voxmill plan computes it from stage times that you state",
    ),
    (
        "waveform",
        "what computing frames on the device takes is not in the log",
        "measure both: voxmill profile --prepare-on host, and device",
    ),
    (
        "data_device",
        "what the other device would take is not in the log",
        "voxmill plan computes it from stage times that you state",
    ),
    (
        "model_device",
        "what the other device would take is not in the log",
        "ask model=2x for a device that is twice as fast",
    ),
];

/// Whether a setting of this name can be simulated.
pub fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, ..)| *known == name)
}

/// `num_workers=4, disk=2x`.
pub fn parse(question: &str) -> Result<Vec<Change>, Refusal> {
    let mut changes: Vec<Change> = Vec::new();
    for part in question.split(',').map(str::trim) {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            let what = format!("`{part}` is not a change");
            refusal(
                what,
                "write NAME=VALUE, and a comma between two: num_workers=4, disk=2x",
            )
        })?;
        let name = name.trim().trim_start_matches("--").replace('-', "_");
        let value = value.trim().to_owned();
        if changes.iter().any(|other| other.name == name) {
            let what = format!("`{name}` is changed twice");
            return Err(refusal(what, "ask one question at a time"));
        }
        if let Some((_, why, hint)) = REFUSED.iter().find(|(known, ..)| *known == name) {
            return Err(refusal(
                format!("`{name}` cannot be predicted: {why}"),
                *hint,
            ));
        }
        if !is_known(&name) {
            let names: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
            let what = format!("there is no change `{name}`");
            return Err(refusal(what, format!("give one of {}", names.join(", "))));
        }
        changes.push(Change { name, value });
    }
    Ok(changes)
}

fn number(change: &Change, least: u64) -> Result<u64, Refusal> {
    let value = change.value.parse().ok().filter(|value| *value >= least);
    value.ok_or_else(|| {
        let Change { name, value } = change;
        let what = format!("`{name}={value}`: `{value}` is not a number from {least} on");
        refusal(what, format!("such as {name}={}", example(name)))
    })
}

fn seconds(change: &Change) -> Result<f64, Refusal> {
    let value = change.value.parse().ok();
    let value = value.filter(|value: &f64| (0.0..=1e6).contains(value));
    value.ok_or_else(|| {
        let Change { name, value } = change;
        let what = format!("`{name}={value}`: `{value}` is not a number of seconds");
        refusal(what, format!("such as {name}={}", example(name)))
    })
}

/// `2x`: so many times as fast.
fn times(change: &Change) -> Result<f64, Refusal> {
    let text = change.value.strip_suffix(['x', '×']);
    let value = text.and_then(|text| text.trim().parse::<f64>().ok());
    let value = value.filter(|value| value.is_finite() && (1e-3..=1e3).contains(value));
    value.ok_or_else(|| {
        let Change { name, value } = change;
        let what = format!("`{name}={value}`: `{value}` is not a factor from 0.001x to 1000x");
        refusal(
            what,
            format!("write {name}=2x for twice as fast, {name}=0.5x for half as fast"),
        )
    })
}

pub(crate) fn switch(change: &Change) -> Result<bool, Refusal> {
    match change.value.as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        value => {
            let what = format!(
                "`{}={value}`: `{value}` is neither true nor false",
                change.name
            );
            Err(refusal(
                what,
                format!("write {}=true or {}=false", change.name, change.name),
            ))
        }
    }
}

pub(crate) fn bytes(change: &Change) -> Result<u64, Refusal> {
    let text = change.value.to_ascii_uppercase();
    let text = text.trim_end_matches('B');
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, text.len() - 1),
        None => (text, text.len()),
    };
    let unit = match &text[unit..] {
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => 1.0,
    };
    let value = digits.trim().parse::<f64>().ok();
    let value = value.filter(|value| value.is_finite() && *value > 0.0);
    value.map(|value| (value * unit) as u64).ok_or_else(|| {
        let Change { name, value } = change;
        let what = format!("`{name}={value}`: `{value}` is not a size");
        refusal(what, format!("such as {name}={}", example(name)))
    })
}

fn example(name: &str) -> &'static str {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    known.map_or("1", |(_, example, _)| example)
}

impl WhatIfError {
    /// The next move.
    pub fn hint(&self) -> &str {
        match self {
            WhatIfError::Refused(refusal) => &refusal.hint,
            WhatIfError::Model(error) => error.hint(),
            WhatIfError::NotUnderstood { .. } => {
                "measure for longer, on a machine with nothing else to do: voxmill profile --num-steps 200"
            }
        }
    }
}

impl RunModel {
    /// Makes the change. What it takes for granted is added to `assumes`.
    pub fn apply(&mut self, change: &Change, assumes: &mut Vec<String>) -> Result<(), Refusal> {
        let Change { name, value } = change;
        match name.as_str() {
            "num_workers" => self.stage(change, "featurize")?.workers = number(change, 1)? as usize,
            "buffer_size" => self.stage(change, "collate")?.buffer = number(change, 1)? as usize,
            "prefetch_buffer_size" => self.setup.slots_ahead = Some(number(change, 1)? as usize),
            "ram_budget" => {
                let (bytes, peak) = (bytes(change)?, self.facts.peak_bytes);
                if bytes < peak {
                    let what = format!(
                        "`{name}={value}` cannot be predicted: up to {peak} bytes were in use, and the log does not have the sizes of items"
                    );
                    return Err(refusal(what, "measure it: voxmill profile --ram-budget"));
                }
                assumes.push("the budget never bound, so more of it changes nothing".to_owned());
            }
            "no_overlap" => self.setup.overlap = !switch(change)?,
            "unordered" => {
                self.setup.order = match switch(change)? {
                    true => Order::Free,
                    false => Order::Kept,
                }
            }
            "model_start_delay" => self.setup.start_delay = (seconds(change)? * 1e9) as u64,
            "cache" => self.cache(value, assumes)?,
            "cores" => {
                let cores = number(change, 1)?;
                if self.setup.cores.is_none() {
                    return Err(refusal(
                        "`cores` cannot be predicted: the log does not say how many there were",
                        "measure again with this version: voxmill profile",
                    ));
                }
                self.setup.cores = Some(cores as f64);
                if self.facts.on_cpu {
                    assumes.push("the model keeps its compute threads: more cores only end the competition for them".to_owned());
                }
            }
            "disk" => self.part(change, "read", times(change)?)?,
            "model" => self.model_factor = 1.0 / times(change)?,
            "featurize" => {
                let by = times(change)?;
                for part in ["read", "decode", "resample", "mel", "rest"] {
                    self.part(change, part, by)?;
                }
            }
            part => self.part(change, part, times(change)?)?,
        }
        Ok(())
    }

    fn stage(&mut self, change: &Change, name: &str) -> Result<&mut super::setup::Stage, Refusal> {
        let found = self
            .setup
            .stages
            .iter_mut()
            .find(|stage| stage.name == name);
        found.ok_or_else(|| {
            let what = format!(
                "`{}` cannot be predicted: the run has no stage `{name}`",
                change.name
            );
            refusal(what, "give a run of `voxmill train` or `voxmill profile`")
        })
    }

    /// So many times as fast, in the stage that has such a part.
    fn part(&mut self, change: &Change, name: &str, by: f64) -> Result<(), Refusal> {
        let owner = match name {
            super::model::TRANSFER => "prepare",
            super::model::COLLATE => "collate",
            _ => "featurize",
        };
        let stages = self.setup.stages.iter().zip(&mut self.stages);
        let mut owners = stages.filter(|(stage, _)| stage.name == owner);
        let part = owners.next().and_then(|(_, model)| {
            let mut parts = model.parts.iter_mut();
            parts.find(|part| part.name == name)
        });
        let Some(part) = part else {
            let what = format!(
                "`{}` cannot be predicted: the run has no stage `{owner}`",
                change.name
            );
            return Err(refusal(
                what,
                "give a run of `voxmill train` or `voxmill profile`",
            ));
        };
        part.factor = 1.0 / by;
        Ok(())
    }

    fn cache(&mut self, value: &str, assumes: &mut Vec<String>) -> Result<(), Refusal> {
        match value {
            "warm" => {
                for part in ["read", "decode", "resample", "mel"] {
                    let nothing = Change {
                        name: "cache".to_owned(),
                        value: value.to_owned(),
                    };
                    self.part(&nothing, part, f64::INFINITY)?;
                }
                if self.facts.decoded > 0.9 {
                    assumes.push("reading features from the cache takes nothing: this log has hardly any that came from there".to_owned());
                }
                Ok(())
            }
            "cold" if self.facts.decoded > 0.9 => {
                assumes.push("the cache was cold already".to_owned());
                Ok(())
            }
            "cold" => Err(refusal(
                "`cache=cold` cannot be predicted: what decoding all files takes is not in this log",
                "measure it: voxmill profile --no-cache",
            )),
            _ => Err(refusal(
                format!("`cache={value}`: the cache is warm or cold"),
                "write cache=warm or cache=cold",
            )),
        }
    }
}

/// A value and where nine in ten of its resamples lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Likely {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The answer to a question, with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// What was changed, such as `num_workers=4`.
    pub changes: Vec<String>,
    pub measured: Pace,
    /// The run's own settings, simulated: how well it is understood.
    pub replayed: Pace,
    /// Of the replay's step time, how far it is from the measured one.
    pub replay_error: f64,
    pub predicted: Pace,
    pub step_ms: Likely,
    /// The share of a step's time that is saved; below 0, it takes longer.
    pub gain: Likely,
    /// What the run would be bound by: `train`, or the busiest stage where the model waits.
    pub bound_by: String,
    /// Batches on the host and on the device at the most, in bytes.
    pub batch_memory: u64,
    pub assumes: Vec<String>,
}

/// A replay that is further off says too little of what a change does.
const UNDERSTOOD: f64 = 0.10;
/// From here on the model waits for something.
const WAITS: f64 = 0.05;
const RESAMPLES: u64 = 40;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Model(#[from] super::model::ModelError),
    #[error(
        "the run is not understood: with its own settings the model takes {replayed:.1} ms a step, and {measured:.1} ms were measured"
    )]
    NotUnderstood { replayed: f64, measured: f64 },
}

/// Predicts how the run would be with these changes.
pub fn predict(model: &RunModel, changes: &[Change]) -> Result<Prediction, WhatIfError> {
    let mut assumes = Vec::new();
    let mut changed = model.clone();
    for change in changes {
        changed.apply(change, &mut assumes)?;
    }
    if model.facts.crowded {
        assumes.push("other programs go on taking as many cores as they did".to_owned());
    }
    let own = Pace::of_simulated(&model.simulate()?.steps);
    let replay_error = own.step_ms / model.measured.step_ms.max(1e-9) - 1.0;
    if replay_error.abs() > UNDERSTOOD {
        return Err(WhatIfError::NotUnderstood {
            replayed: own.step_ms,
            measured: model.measured.step_ms,
        });
    }
    let simulated = changed.simulate()?;
    let predicted = Pace::of_simulated(&simulated.steps);
    let mut ratios = Vec::new();
    for number in 1..=RESAMPLES {
        let base = model.resampled(number);
        let mut with = base.clone();
        for change in changes {
            with.apply(change, &mut Vec::new())?;
        }
        let of = |model: &RunModel| -> Result<f64, super::model::ModelError> {
            Ok(Pace::of_simulated(&model.simulate()?.steps).step_ms)
        };
        let (base, with): (f64, f64) = (
            of(&base)?,
            of(&with).map_err(|error: super::model::ModelError| error)?,
        );
        ratios.push((with / base.max(1e-9), with));
    }
    let ratio = predicted.step_ms / own.step_ms.max(1e-9);
    // As much of a change as the replay gets wrong of the whole.
    let off = match ratio == 1.0 {
        true => 0.0,
        false => BETWEEN_RUNS.hypot(replay_error * (1.0 - ratio)),
    };
    let of_ratio = spread(ratios.iter().map(|(ratio, _)| *ratio), ratio, off);
    // What the replay gets wrong it gets wrong with the change as well.
    let step_ms = model.measured.step_ms * ratio;
    let scale = step_ms / predicted.step_ms.max(1e-9);
    let steps = ratios.iter().map(|(_, with)| with * scale);
    let step_ms = spread(steps, step_ms, replay_error.hypot(BETWEEN_RUNS));
    let bound_by = bound_by(&changed, &simulated, predicted.stall);
    let slots = changed.setup.slots_ahead.map_or(0, |ahead| ahead + 1);
    let ahead = changed.setup.stages.iter().zip(&simulated.stages);
    let ahead = ahead.filter(|(stage, _)| stage.name == "collate");
    let ahead: usize = ahead.map(|(_, sums)| sums.most_buffered).sum();
    Ok(Prediction {
        changes: changes
            .iter()
            .map(|it| format!("{}={}", it.name, it.value))
            .collect(),
        measured: model.measured,
        replayed: own,
        replay_error,
        predicted: Pace {
            step_ms: step_ms.value,
            ..predicted
        },
        step_ms,
        gain: Likely {
            value: 1.0 - of_ratio.value,
            low: 1.0 - of_ratio.high,
            high: 1.0 - of_ratio.low,
        },
        bound_by,
        batch_memory: (ahead + slots) as u64 * model.batch_bytes,
        assumes,
    })
}

/// Half of what nine in ten repeats of a run lie within, as a share of its step time: what differs from one start of a
/// program to the next is in no log. From the sleeping stages of `benches/records/predictions.md`.
pub(crate) const BETWEEN_RUNS: f64 = 0.03;

/// Nine in ten lie within; what the model may be wrong by, as a share of the value, is added to either side.
fn spread(values: impl Iterator<Item = f64>, value: f64, off: f64) -> Likely {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let off = value * off.abs();
    let side = |share: f64| crate::timing::quantile(&values, share);
    let below = (value - side(0.05)).max(0.0).hypot(off);
    let above = (side(0.95) - value).max(0.0).hypot(off);
    Likely {
        value,
        low: value - below,
        high: value + above,
    }
}

fn bound_by(model: &RunModel, simulated: &super::engine::Simulated, stall: f64) -> String {
    if stall < WAITS {
        return "train".to_owned();
    }
    let stages = model.setup.stages.iter().zip(&simulated.stages);
    let load = |(stage, sums): &(&super::setup::Stage, &super::engine::StageSums)| {
        sums.worked as f64 / stage.workers as f64
    };
    let busiest = stages.max_by(|a, b| load(a).total_cmp(&load(b)));
    busiest.map_or(String::new(), |(stage, _)| stage.name.clone())
}
