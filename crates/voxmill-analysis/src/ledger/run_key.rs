//! Which runs are alike: all that decides how fast a run is, without a name of anything.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::{Run, fact};
use crate::simulate::what_if::{Change, bytes, parse, switch};

/// The settings that decide how long a step takes. Their values are numbers, switches and names of ours; those that are
/// paths are not among them.
const PACE_SETTINGS: [&str; 34] = [
    "augment_gain_db",
    "augment_masks",
    "augment_noise_db",
    "auto_tune_performance",
    "batch_size",
    "buckets",
    "buffer_size",
    "compute_threads",
    "drop_suspicious",
    "enable_caching",
    "enable_gradient_checkpointing",
    "espeak",
    "f_max",
    "f_min",
    "gradient_accumulation_steps",
    "hop_length",
    "loudness_lufs",
    "max_mel_frames",
    "max_text_length",
    "min_snr",
    "mixed_precision",
    "model_start_delay",
    "n_fft",
    "n_mels",
    "no_overlap",
    "num_workers",
    "pad_to_fixed_length",
    "prefetch_buffer_size",
    "prepare_on",
    "ram_budget",
    "sample_rate",
    "size",
    "trim_db",
    "unordered",
];

/// Facts of a run that a change may be about, or that no setting says, by the names that they have here.
const PACE_FACTS: [(&str, &str); 6] = [
    (CACHE, fact::CACHE),
    (CORES, fact::CORES),
    ("device", fact::DEVICE),
    ("data_device", fact::DATA_DEVICE),
    ("precision", fact::PRECISION),
    ("injected", fact::INJECTED),
];
const CACHE: &str = "cache";
const CORES: &str = "cores";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunKey {
    /// `train` or `profile`: the steps of the one are not those of the other.
    pub verb: String,
    /// Of the clips' number and lengths.
    pub dataset: String,
    /// Of its processor and devices.
    pub machine: String,
    pub values: BTreeMap<String, PaceValue>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaceValue {
    pub value: String,
    /// By the program, which may choose another one once something else is changed.
    pub chosen: bool,
}

impl RunKey {
    /// `None` for logs of versions that did not record their dataset and settings.
    pub fn of(run: &Run) -> Option<RunKey> {
        let started = run.stats.started.as_ref()?;
        let dataset = run.dataset.as_ref()?;
        if started.settings.is_empty() {
            return None;
        }
        let lengths = dataset.lengths.iter();
        let lengths = lengths.map(|group| format!("{:.3}: {}", group.seconds, group.count));
        let lengths: Vec<String> = lengths.collect();
        let known = [fact::PROCESSOR, fact::MACHINE_CORES];
        let known = known.map(|name| run.fact(name).unwrap_or("").to_owned());
        let devices = started.devices.iter().map(|it| {
            let parts = [&it.model, &it.uuid].map(|part| part.as_deref().unwrap_or(""));
            format!("{} {}", it.device, parts.join(" "))
        });
        let machine: Vec<String> = known.into_iter().chain(devices).collect();
        let settings = started.settings.iter();
        let settings = settings.filter(|it| PACE_SETTINGS.contains(&it.name.as_str()));
        let settings = settings.map(|it| {
            let value = PaceValue {
                value: it.value.clone(),
                chosen: it.origin.starts_with("auto"),
            };
            (it.name.clone(), value)
        });
        let facts = PACE_FACTS.iter().filter_map(|(name, fact)| {
            let value = PaceValue {
                value: run.fact(fact)?.to_owned(),
                chosen: false,
            };
            Some(((*name).to_owned(), value))
        });
        Some(RunKey {
            verb: run.name().to_owned(),
            dataset: digest(lengths.iter().map(String::as_str)),
            machine: digest(machine.iter().map(String::as_str)),
            values: settings.chain(facts).collect(),
        })
    }

    /// Whether a run could ever make these changes: nobody makes a disk twice as fast by a setting.
    pub fn can_be_realised(changes: &[String]) -> bool {
        let parsed = parse(&changes.join(","));
        let can = |change: &Change| {
            let name = change.name.as_str();
            PACE_SETTINGS.contains(&name) || [CACHE, CORES].contains(&name)
        };
        parsed.is_ok_and(|changes| changes.iter().all(can))
    }

    /// Whether another run is this one with the changes made. What the program chooses for itself may follow them.
    pub fn realises(&self, changes: &[String], other: &RunKey) -> bool {
        let same = |of: fn(&RunKey) -> &String| of(self) == of(other);
        if !same(|key| &key.verb) || !same(|key| &key.dataset) || !same(|key| &key.machine) {
            return false;
        }
        if !RunKey::can_be_realised(changes) {
            return false;
        }
        let Ok(changes) = parse(&changes.join(",")) else {
            return false;
        };
        let made = |change: &Change| {
            let found = other.values.get(&change.name);
            found.is_some_and(|found| is_value(change, &found.value))
        };
        // Features come from a cache where there is one: that setting goes with the question.
        let is_changed = |name: &str| {
            let asked = |change: &Change| {
                change.name == name || (change.name == CACHE && name == "enable_caching")
            };
            changes.iter().any(asked)
        };
        let names = self.values.keys().chain(other.values.keys());
        let kept = |name: &String| {
            let (before, after) = (self.values.get(name), other.values.get(name));
            let value = |of: Option<&PaceValue>| of.map(|it| it.value.clone());
            value(before) == value(after) || after.is_some_and(|after| after.chosen)
        };
        changes.iter().all(made) && { names }.all(|name| is_changed(name) || kept(name))
    }
}

/// Whether what a run recorded is what a change asked for, in other words or units.
fn is_value(change: &Change, found: &str) -> bool {
    let recorded = Change {
        name: change.name.clone(),
        value: found.to_owned(),
    };
    if let (Ok(asked), Ok(found)) = (switch(change), switch(&recorded)) {
        return asked == found;
    }
    if let (Ok(asked), Ok(found)) = (bytes(change), bytes(&recorded)) {
        return asked == found;
    }
    change.value == found
}

/// Tells texts apart, and says nothing of what they are.
pub(super) fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(b"\0");
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
