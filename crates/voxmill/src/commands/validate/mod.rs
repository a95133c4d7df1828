//! `voxmill validate`: settings, dataset and machine against each other, before a run.
//!
//! Reads the file, resolves the settings as `train` would, scans the dataset, plans an epoch, and
//! gives all that to [`voxmill_settings::checks`]. Nothing is trained and nothing is left on disk but the copy
//! that `--fix` asks for.

mod examine;
mod fix;
mod probe;
mod report;

use std::path::{Path, PathBuf};

use voxmill_report::terminal::validation_text;

use super::{paint, print_result, show_settings};
use crate::exit::Exit;
use crate::session::voice::take_size_of_other_voice;
use examine::examine;
use fix::Fixed;
use probe::ProbedMachine;
use voxmill_settings::TrainSettings;
use voxmill_settings::args::ValidateArgs;
use voxmill_settings::config::file::ConfigFile;

/// A configuration file in memory.
#[derive(Clone, Debug)]
struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn read(path: &Path) -> anyhow::Result<File> {
        Ok(File {
            path: path.to_owned(),
            text: ConfigFile::text_of(path)?,
        })
    }
}

pub(crate) fn run(args: ValidateArgs) -> anyhow::Result<Exit> {
    let mut train = args.of_train();
    let json = args.result.json;
    if args.flags.show_settings {
        show_settings(&TrainSettings::resolve(train)?.resolved, json)?;
        return Ok(Exit::Done);
    }
    let path = args.flags.config.as_deref();
    let file = path.map(File::read).transpose()?;
    // Of a file with faults only these are reported.
    let is_whole = |file: &File| ConfigFile::examine(&file.text, &file.path).1.is_empty();
    if file.as_ref().is_none_or(is_whole) {
        take_size_of_other_voice(&mut train)?;
    }
    let machine = ProbedMachine::detect();
    let examined = examine(&train, file.as_ref(), &machine);
    let fixed = match (&file, args.result.fix) {
        (Some(file), true) => {
            let output = args.result.output.as_deref();
            Some(fix::fix(file, output, &train, &examined, &machine)?)
        }
        _ => None,
    };
    let last = match &fixed {
        Some(Fixed {
            left: Some(left), ..
        }) => left,
        _ => &examined,
    };
    let result = report::result(file.as_ref(), &examined, fixed.as_ref(), last, &machine);
    print_result(&result, json, |found| validation_text(found, paint()))?;
    Ok(match result.ready {
        true => Exit::Done,
        false => Exit::Failed,
    })
}
