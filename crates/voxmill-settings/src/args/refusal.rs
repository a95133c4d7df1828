//! A command line that cannot be read: what the parser says of it, with the next move as our other errors have it.

use std::error::Error as _;
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;
use crate::config::keys;

/// `verb` as it was typed. The text may hold what was typed, too.
pub fn refusal(error: &clap::Error, verb: Option<&str>) -> String {
    let text = error.render().to_string();
    let text = text.trim_end().replace("\n  tip: ", "\nhint: ");
    if let Some(what) = wrong_value(error) {
        let (_, rest) = text.split_once("\n\n").unwrap_or_default();
        return format!("error: {what}\n\n{rest}");
    }
    let Some(hint) = verb.and_then(|verb| hint(error, verb)) else {
        return text;
    };
    let (what, usage) = text.split_once("\n\nUsage").unwrap_or((&text, ""));
    format!("{what}\n\nhint: {hint}\n\nUsage{usage}")
}

/// What our own parsers say of a value, behind its flag.
fn wrong_value(error: &clap::Error) -> Option<String> {
    let (ErrorKind::ValueValidation, Some(ContextValue::String(flag))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let flag = flag.split(' ').next().unwrap_or(flag);
    Some(format!("{flag}: {}", error.source()?))
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn refused(line: &str) -> String {
        let words: Vec<&str> = ["voxmill"].into_iter().chain(line.split(' ')).collect();
        refusal(&Cli::try_parse_from(&words).unwrap_err(), Some(words[1]))
    }

    #[test]
    fn what_is_wrong_comes_first_and_then_the_next_move() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        for (line, begins) in [
            (
                "train --lr -3".to_owned(),
                "error: --lr: `-3` is not a number from 1e-9 to 1\n\nFor".to_owned(),
            ),
            (
                "train --bath-size 3".to_owned(),
                "error: unexpected argument '--bath-size' found\n\nhint: a similar".to_owned(),
            ),
            (
                format!("train {folder}"),
                format!(
                    "error: unexpected argument '{folder}' found\n\nhint: a dataset is given with \
                     --train-data: `voxmill train --train-data {folder}`\n\nUsage:"
                ),
            ),
        ] {
            let refused = refused(&line);
            assert!(refused.starts_with(&begins), "{refused}");
        }
        // What takes no dataset has no such hint.
        assert!(!refused(&format!("runs {folder}")).contains("hint"));
    }
}
