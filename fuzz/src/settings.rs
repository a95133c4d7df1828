//! Configuration files.

use std::path::Path;

use voxmill_settings::args::TrainArgs;
use voxmill_settings::config::edit;
use voxmill_settings::config::file::ConfigFile;
use voxmill_settings::{AvailableDevices, Repairs, TrainSettings};

use crate::{FuzzFolder, kind, project_root, size};

pub(crate) fn read_config(place: &FuzzFolder, bytes: &[u8]) -> String {
    // As a file, which may be no text at all.
    let path = place.put("config.yaml", bytes);
    let read = ConfigFile::read(&path);
    let Ok(text) = std::str::from_utf8(bytes) else {
        return read.map_or_else(|error| kind(&format!("{error:#}")), |_| String::new());
    };
    let (config, faults) = ConfigFile::examine(text, Path::new("config.yaml"));
    assert_eq!(read.is_ok(), config.is_some() && faults.is_empty());
    let mut found = format!("{} ", size(faults.described.len()));
    for fault in faults.described.iter().take(20) {
        found.push_str(&kind(&fault.what));
        // What `validate --fix` does about it.
        let fixed = fault.fix.as_ref().and_then(|fix| edit::apply(text, fix));
        found.push(if fixed.is_some() { '+' } else { '-' });
    }
    if let Ok(config) = read {
        let (args, available) = (TrainArgs::default(), AvailableDevices::default());
        let resolved =
            TrainSettings::resolve_repaired(args, config, Repairs::default(), 2, &available);
        found.push_str(&resolved.map_or_else(|error| kind(&error), |_| "settings".to_owned()));
    }
    found
}

pub(crate) fn config_seeds(_: &FuzzFolder) -> Vec<Vec<u8>> {
    let example = std::fs::read(project_root().join("config.example.yaml"));
    example.into_iter().collect()
}
