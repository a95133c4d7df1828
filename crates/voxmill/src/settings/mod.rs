//! What is meant: every setting resolved by flag > file > auto > default, and valid as a whole.

//!
//! A verb's settings are made in one pass over its keys, in the order in which `--show-settings`
//! lists them; what contradicts itself or cannot be had is refused here, before any work.

mod data;
mod devices;
mod optimization;
mod prepare;
mod resolver;
mod scale;
mod synthesize;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod train;

use std::fmt;

pub(crate) use data::DataSettings;
pub(crate) use devices::{DeviceName, DeviceSettings, Devices, Present, USABLE_SHARE};
pub(crate) use optimization::{
    Optimization, for_each_size, steps_between_checkpoints, steps_between_samples,
};
pub(crate) use prepare::{PrepareSettings, cores};
pub(crate) use resolver::Repairs;
pub(crate) use scale::{ScaleSettings, for_train};
pub(crate) use synthesize::{Output, SynthesizeSettings, TextSource, Voice};
pub(crate) use text::TextSettings;
pub(crate) use threads::crowd;
pub(crate) use train::{LEAST_SLOTS_OF_A_PAIR, RunFolder, Start, TrainSettings, usual_slots};
pub(crate) use voxmill_trainer::model::ModelSize;

use crate::config::file::Place;
use crate::config::keys::Key;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
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

fn origin<'a>(shown: &'a [Shown], key: &Key) -> Option<&'a Origin> {
    let line = shown.iter().find(|line| line.key.name == key.name)?;
    Some(&line.origin)
}

fn is_given(shown: &[Shown], key: &Key) -> bool {
    matches!(origin(shown, key), Some(Origin::Flag | Origin::File(_)))
}

/// One line of `--show-settings`.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) key: &'static Key,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}
