//! What is wrong, costly or worth knowing about a run before it begins. Pure: facts in, findings out.
//!
//! `validate` shows all of it, `train` the warnings. A figure in here was measured or computed from
//! the facts; where a cost can only be measured by training, none is named.

mod batches;
mod dataset;
mod devices;
mod disk;
mod feeding;
mod length;
pub mod memory;
pub mod need;
#[cfg(test)]
mod tests;
mod threads;
mod write;

use voxmill_data::batch_plan::BatchPlan;
use voxmill_data::manifest::Filtered;
use voxmill_telemetry::probes::topology::GpuFacts;

use crate::config::file::Place;
use crate::config::keys::Key;
use crate::{Origin, TrainSettings};

pub use batches::waste;
pub use disk::{DiskFacts, Reading, Room};
pub use need::Needs;
use voxmill_report::format::counted as count;
pub use voxmill_report::format::{count as thousands, short_percent as percent, size, span};
pub use voxmill_report::results::validate::CheckLevel as Level;
pub use write::Line;

/// One finding.
#[derive(Clone, Debug)]
pub struct Check {
    pub level: Level,
    /// The setting that it is about; `None`: the file as a whole, the machine or the data.
    pub key: Option<&'static Key>,
    pub place: Where,
    pub what: String,
    /// Measured or computed.
    pub costs: Option<String>,
    /// What would fix it, in the file or as flags.
    pub write: Vec<Line>,
    /// The next move where no setting fixes it.
    pub hint: Option<String>,
}

/// Where the thing that a finding is about was said.
#[derive(Clone, Debug, PartialEq)]
pub enum Where {
    File(Place),
    /// With its value, where that is known.
    Flag(Option<String>),
    /// Nobody said it.
    Usual {
        value: String,
        why: Option<&'static str>,
        /// Whether there is a file that could have said it.
        file: bool,
    },
    /// It is no setting.
    Elsewhere,
}

/// All that is looked at.
#[derive(Debug)]
pub struct Facts<'a> {
    pub settings: &'a TrainSettings,
    /// Whether there is a configuration file.
    pub file: bool,
    pub cores: usize,
    /// Bytes of host memory that this process may use.
    pub memory: Option<u64>,
    /// The cards as the machine's buses show them, used or not.
    pub cards: &'a [GpuFacts],
    pub model_card: Option<&'a GpuFacts>,
    pub data_card: Option<&'a GpuFacts>,
    /// `None`: the dataset could not be read, which is told apart.
    pub data: Option<DataFacts<'a>>,
    /// `None`: not looked at.
    pub disk: Option<DiskFacts>,
}

/// What headers, texts and the plan of an epoch say.
#[derive(Debug)]
pub struct DataFacts<'a> {
    pub plan: &'a BatchPlan,
    pub rows: usize,
    pub bad: usize,
    pub filtered: Filtered,
    /// What limits would leave no clip out; `None`: not looked at.
    pub longest: Option<Longest>,
    pub held_out: usize,
    /// Of the clips to train on.
    pub audio_seconds: f64,
    /// Bytes of host memory that the largest batch takes while it is made.
    pub making: u64,
    /// What of `ram_budget` is for batches.
    pub batch_budget: u64,
    pub needs: Needs,
}

/// Of all clips, those left out included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Longest {
    pub frames: u32,
    pub characters: u32,
}

/// Everything that there is to say, the gravest first.
pub fn check(facts: &Facts<'_>) -> Vec<Check> {
    let parts = [
        threads::check,
        feeding::check,
        devices::check,
        memory::check,
        dataset::check,
        batches::check,
        length::check,
        disk::check,
    ];
    let mut all: Vec<Check> = parts.iter().flat_map(|part| part(facts)).collect();
    all.sort_by_key(|check| check.level);
    all
}

impl<'a> Facts<'a> {
    /// A finding about a setting.
    fn about(&self, level: Level, key: &'static Key, what: impl Into<String>) -> Check {
        Check {
            level,
            key: Some(key),
            place: self.place(key),
            what: what.into(),
            costs: None,
            write: Vec::new(),
            hint: None,
        }
    }

    fn place(&self, key: &Key) -> Where {
        let mut shown = self.settings.shown.iter();
        match shown.find(|line| line.key.name == key.name) {
            None => Where::Elsewhere,
            Some(line) => match &line.origin {
                Origin::File(place) => Where::File(place.clone()),
                Origin::Flag => Where::Flag(Some(line.value.clone())),
                Origin::Auto(why) => Where::Usual {
                    value: line.value.clone(),
                    why: Some(why),
                    file: self.file,
                },
                Origin::Default => Where::Usual {
                    value: line.value.clone(),
                    why: None,
                    file: self.file,
                },
            },
        }
    }

    /// Whether a flag or the file says it.
    fn given(&self, key: &Key) -> bool {
        matches!(self.place(key), Where::File(_) | Where::Flag(_))
    }

    /// The key of the model device that was said, for pointing at.
    fn model_key(&self) -> &'static Key {
        use crate::config::keys;
        let said = [&keys::MODEL_GPU, &keys::MODEL_DEVICE];
        let said = said.into_iter().find(|key| self.given(key));
        said.unwrap_or(&keys::DEVICE)
    }
}

impl Check {
    fn costs(mut self, costs: impl Into<String>) -> Check {
        self.costs = Some(costs.into());
        self
    }

    fn write(mut self, key: &'static Key, value: impl ToString) -> Check {
        let value = Some(value.to_string());
        self.write.push(Line { key, value });
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Check {
        self.hint = Some(hint.into());
        self
    }

    /// In one line, for `train`: there flags are what one types next.
    pub fn line(&self) -> String {
        let mut text = self.what.clone();
        if let Some(costs) = &self.costs {
            text += &format!("; {costs}");
        }
        let flags: Vec<String> = self.write.iter().filter_map(Line::flag).collect();
        if !flags.is_empty() {
            text += &format!("; try {}", flags.join(" "));
        } else if let Some(hint) = &self.hint {
            text += &format!("; {hint}");
        }
        text
    }
}
