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

use voxmill_data::batch_plan::BatchPlan;
use voxmill_data::manifest::{Filtered, SourceFormat};
use voxmill_telemetry::probes::topology::GpuFacts;

use crate::config::file::Place;
use crate::config::keys::{self, Key};
use crate::{Origin, TrainSettings};

pub use batches::waste;
pub use disk::{DiskFacts, ReadSpeed};
pub use need::Needs;
use voxmill_report::format::counted as count;
pub use voxmill_report::format::{count as thousands, short_percent as percent, size, span};
pub use voxmill_report::results::validate::CheckLevel as Level;

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
    pub suggestions: Vec<Suggestion>,
    /// The next move where no setting fixes it.
    pub hint: Option<String>,
}

/// A setting as it should be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    pub key: &'static Key,
    /// `None`: leave it out.
    pub value: Option<String>,
}

impl Suggestion {
    /// `num_workers: 1`
    pub fn in_file(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(format!("{}: {value}", self.key.name))
    }

    /// `--num-workers 1`
    pub fn flag(&self) -> Option<String> {
        Some(self.key.flag_with(self.value.as_deref()?))
    }
}

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq)]
pub enum Where {
    File(Place),
    /// With its value, where that is known.
    Flag(Option<String>),
    /// Nowhere.
    Default {
        value: String,
        why: Option<&'static str>,
        /// Whether there is a configuration file.
        file: bool,
    },
    /// It is no setting.
    Elsewhere,
}

/// All that is checked.
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
    /// `None`: the dataset could not be read, which is another finding.
    pub data: Option<DataFacts<'a>>,
    /// `None`: not checked.
    pub disk: Option<DiskFacts>,
}

/// What headers, texts and the plan of an epoch say.
#[derive(Debug)]
pub struct DataFacts<'a> {
    pub plan: &'a BatchPlan,
    pub rows: usize,
    pub bad: usize,
    pub filtered: Filtered,
    /// How long clips are; `None`: not known.
    pub lengths: Option<ClipLengths>,
    /// Of the clips to train on and those held out.
    pub sources: Vec<SourceFormat>,
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
pub struct ClipLengths {
    pub longest: Length,
    /// What 99 % of the clips have at the most.
    pub usual: Length,
}

/// How long a clip is, as its limits count it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    pub frames: u32,
    pub characters: u32,
}

/// All findings, the most severe first.
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

/// Runs the checks of one file, in this order.
macro_rules! all_of {
    ($($check:ident),* $(,)?) => {
        pub(super) fn check(facts: &Facts<'_>) -> Vec<Check> {
            [$($check(facts)),*].into_iter().flatten().collect()
        }
    };
}
use all_of;

impl<'a> Facts<'a> {
    /// A finding about a setting.
    fn about(&self, level: Level, key: &'static Key, what: impl Into<String>) -> Check {
        Check {
            level,
            key: Some(key),
            place: self.place(key),
            what: what.into(),
            costs: None,
            suggestions: Vec::new(),
            hint: None,
        }
    }

    fn error(&self, key: &'static Key, what: impl Into<String>) -> Check {
        self.about(Level::Error, key, what)
    }

    fn warning(&self, key: &'static Key, what: impl Into<String>) -> Check {
        self.about(Level::Warning, key, what)
    }

    fn note(&self, key: &'static Key, what: impl Into<String>) -> Check {
        self.about(Level::Note, key, what)
    }

    /// Where a setting was given.
    pub fn place(&self, key: &Key) -> Where {
        let mut settings = self.settings.resolved.iter();
        let Some(setting) = settings.find(|setting| setting.key == key) else {
            return Where::Elsewhere;
        };
        let (value, file) = (setting.value.clone(), self.file);
        let why = match &setting.origin {
            Origin::File(place) => return Where::File(place.clone()),
            Origin::Flag => return Where::Flag(Some(value)),
            Origin::Auto(why) => Some(*why),
            Origin::Default => None,
        };
        Where::Default { value, why, file }
    }

    /// Whether a flag or the file says it.
    fn given(&self, key: &Key) -> bool {
        matches!(self.place(key), Where::File(_) | Where::Flag(_))
    }

    /// The key that names the model device.
    fn model_key(&self) -> &'static Key {
        let given = [&keys::MODEL_GPU, &keys::MODEL_DEVICE];
        let given = given.into_iter().find(|key| self.given(key));
        given.unwrap_or(&keys::DEVICE)
    }
}

impl Check {
    fn costs(mut self, costs: impl Into<String>) -> Check {
        self.costs = Some(costs.into());
        self
    }

    fn suggest(mut self, key: &'static Key, value: impl ToString) -> Check {
        let value = Some(value.to_string());
        self.suggestions.push(Suggestion { key, value });
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
        let flags: Vec<String> = self
            .suggestions
            .iter()
            .filter_map(Suggestion::flag)
            .collect();
        if !flags.is_empty() {
            text += &format!("; try {}", flags.join(" "));
        } else if let Some(hint) = &self.hint {
            text += &format!("; {hint}");
        }
        text
    }
}
