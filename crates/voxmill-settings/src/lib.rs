//! Settings: flags and the configuration file, resolved into what a verb does.
//!
//! - [`config::keys`] is the table: every setting with its kind, range, default and help. Flags, keys of
//!   the file, the example file, the flag reference and the editor's schema come from it.
//! - [`args`] are the verbs and their flags, [`config::file`] reads the file.
//! - [`TrainSettings`] and its siblings are resolved by flag > file > auto > default and valid as a whole:
//!   what contradicts itself or cannot be had is refused here, before any work.
//! - [`checks`] compares settings, data and machine: `validate` shows all of it, `train` the warnings.
//! - [`error::UserError`] is an error with its hint; [`error::of_library`] gives one to the errors of the libraries.
//! - [`run_folder`] and [`recorded`] are what runs leave behind, [`results`] what verbs found.
//!
//! A verb's settings are made in one pass over its keys, in the order in which `--show-settings` lists
//! them. Nothing here prints.

pub mod advice;
pub mod args;
pub mod checks;
pub mod config;
mod data;
pub mod demo_folder;
mod devices;
pub mod error;
pub mod inject;
pub mod note;
mod optimization;
mod prepare;
pub mod recorded;
mod resolver;
pub mod results;
pub mod run_folder;
mod scale;
pub mod sentences;
mod synthesize;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod train;
pub mod unwanted;

use std::fmt;

pub use data::DataSettings;
pub use devices::{
    AvailableDevices, DeviceChoice, DeviceFlags, DeviceSettings, Devices, FoundDevices, Identities,
    NoCard, USABLE_SHARE, open_device,
};
pub use optimization::Optimization;
pub(crate) use optimization::{for_each_size, steps_between_checkpoints, steps_between_samples};
pub use prepare::{PrepareSettings, hint_for_bad, no_room_for_cache};
pub use resolver::Repairs;
pub use scale::{MEASURED, ScaleSettings, for_train};
pub use synthesize::{Output, SynthesizeSettings, TextSource, VoiceChoice};
pub use text::TextSettings;
pub use threads::oversubscribed;
pub(crate) use train::{LEAST_SLOTS_OF_A_PAIR, usual_slots};
pub use train::{RunFolder, Start, TrainSettings};
pub use voxmill_telemetry::probes::cores;
pub use voxmill_trainer::model::ModelSize;

use crate::config::file::Place;
use crate::config::keys::Key;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    Flag,
    File(Place),
    /// Worked out from the machine or from other settings, for the reason given.
    Auto(&'static str),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::File(place) => write!(
                f,
                "{}:{}:{}",
                place.file.display(),
                place.line,
                place.column
            ),
            Origin::Auto(why) => write!(f, "auto ({why})"),
            Origin::Default => f.write_str("default"),
        }
    }
}

fn origin<'a>(settings: &'a [ResolvedSetting], key: &Key) -> Option<&'a Origin> {
    let line = settings.iter().find(|line| line.key.name == key.name)?;
    Some(&line.origin)
}

fn is_given(settings: &[ResolvedSetting], key: &Key) -> bool {
    matches!(origin(settings, key), Some(Origin::Flag | Origin::File(_)))
}

/// A setting as it is used: one line of `--show-settings`.
#[derive(Clone, Debug)]
pub struct ResolvedSetting {
    pub key: &'static Key,
    pub value: String,
    pub origin: Origin,
}
