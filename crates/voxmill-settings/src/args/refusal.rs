//! A command line that cannot be read: what the parser says of it, with the next move as our other errors have it.

use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::config::keys;

/// `verb` as it was typed. The text may hold what was typed, too.
pub fn refusal(error: &clap::Error, verb: Option<&str>) -> String {
    let text = error.render().to_string();
    let text = text.trim_end().replace("\n  tip: ", "\nhint: ");
    let Some(hint) = verb.and_then(|verb| hint(error, verb)) else {
        return text;
    };
    let (what, usage) = text.split_once("\n\nUsage").unwrap_or((&text, ""));
    format!("{what}\n\nhint: {hint}\n\nUsage{usage}")
}

/// A dataset is what people give without its flag.
fn hint(error: &clap::Error, verb: &str) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let command = Cli::command();
    let flag = keys::TRAIN_DATA.long();
    let takes_data = |arg: &clap::Arg| arg.get_long() == Some(&flag);
    let takes_data = (command.find_subcommand(verb)?)
        .get_arguments()
        .any(takes_data);
    let is_path = !typed.starts_with('-') && (typed.contains('/') || Path::new(typed).is_dir());
    (takes_data && is_path)
        .then(|| format!("a dataset is given with --{flag}: `voxmill {verb} --{flag} {typed}`"))
}
