//! `--fix`: a copy of the file with what the checks suggest, checked again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use voxmill_report::results::validate::ChangedLine;

use super::File;
use super::examine::{Examined, examine};
use super::probe::ProbedMachine;
use voxmill_settings::args::TrainArgs;
use voxmill_settings::checks::{Check, Level, Where};
use voxmill_settings::config::edit::{Edit, apply};
use voxmill_settings::config::file::ConfigFile;
use voxmill_settings::error::UserError;

/// What was written.
#[derive(Debug)]
pub(super) struct Fixed {
    /// `None`: there was nothing to write.
    pub(super) path: Option<PathBuf>,
    pub(super) changes: Vec<ChangedLine>,
    /// What is found in the copy; `None` where there is none.
    pub(super) left: Option<Examined>,
}

/// A change may bring up what was hidden behind it; more than this comes to an end by itself.
const ROUNDS: usize = 10;

/// How a file begins that may be written over.
const MARK: &str = "# Written by `voxmill validate --fix`";

pub(super) fn fix(
    file: &File,
    output: Option<&Path>,
    args: &TrainArgs,
    first: &Examined,
    machine: &ProbedMachine,
) -> anyhow::Result<Fixed> {
    let path = place_of_copy(file, output)?;
    let mut copy = File {
        path: path.clone(),
        text: marked(file),
    };
    let shifted = copy.text.lines().count() != file.text.lines().count();
    let mut done: HashSet<&'static str> = HashSet::new();
    let mut changes = Vec::new();
    let mut left: Option<Examined> = None;
    for _ in 0..ROUNDS {
        let found = left.as_ref().unwrap_or(first);
        let ahead = usize::from(left.is_none() && shifted);
        let before = changes.len();
        for stage in STAGES {
            for edit in edits(found, stage, ahead, &mut done) {
                if let Some((text, change)) = applied(&copy.text, &edit) {
                    copy.text = text;
                    changes.push(change);
                }
            }
            if changes.len() > before {
                break;
            }
        }
        if changes.len() == before {
            break;
        }
        let mut of_copy = args.clone();
        of_copy.flags.config = Some(path.clone());
        left = Some(examine(&of_copy, Some(&copy), machine));
    }
    changes.sort_by_key(|change| change.line);
    let path = (!changes.is_empty()).then_some(path);
    if path.is_some() {
        write(&copy)?;
    }
    Ok(Fixed {
        path,
        changes,
        left,
    })
}

/// What hides or decides other things is fixed first, and all is checked again after it: a batch
/// size that was misspelt, or worked out for a quarter of the clips, would be the wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FixStage {
    Faults,
    Errors,
    Warnings,
}

const STAGES: [FixStage; 3] = [FixStage::Faults, FixStage::Errors, FixStage::Warnings];

/// What a stage asks for, each setting once; notes are left to the person.
fn edits(
    found: &Examined,
    stage: FixStage,
    ahead: usize,
    done: &mut HashSet<&'static str>,
) -> Vec<Edit> {
    if stage == FixStage::Faults {
        let mut edits = found.file_fixes.clone();
        for edit in &mut edits {
            if let Edit::Rename { line, .. } | Edit::CommentOut { line } = edit {
                *line += ahead;
            }
        }
        return edits;
    }
    let of_stage = |check: &&Check| match stage {
        FixStage::Faults => false,
        FixStage::Errors => check.level == Level::Error,
        FixStage::Warnings => check.level == Level::Warning,
    };
    let mut edits = Vec::new();
    // A flag beats the file: writing there would change nothing.
    let in_file = |check: &&Check| !matches!(check.place, Where::Flag(_));
    for check in found.checks.iter().filter(of_stage).filter(in_file) {
        let suggestions = &check.suggestions;
        if suggestions.iter().any(|one| done.contains(one.key.name)) {
            continue;
        }
        done.extend(suggestions.iter().map(|one| one.key.name));
        edits.extend(suggestions.iter().cloned().map(Edit::Set));
    }
    edits
}

fn applied(text: &str, edit: &Edit) -> Option<(String, ChangedLine)> {
    apply(text, edit).or_else(|| match edit {
        // The key that was meant is there already.
        Edit::Rename { line, .. } => apply(text, &Edit::CommentOut { line: *line }),
        _ => None,
    })
}

fn marked(file: &File) -> String {
    if file.text.starts_with(MARK) {
        return file.text.clone();
    }
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let text = &file.text;
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    format!("{MARK} from {name}: it may be written over.{end}{text}")
}

fn place_of_copy(file: &File, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match output {
        Some(path) => path.to_owned(),
        None => {
            let stem = file.path.file_stem().unwrap_or_default().to_string_lossy();
            file.path.with_file_name(format!("{stem}.fixed.yaml"))
        }
    };
    let same = |a: &Path, b: &Path| {
        let (a, b) = (a.canonicalize(), b.canonicalize());
        a.is_ok_and(|a| b.is_ok_and(|b| a == b))
    };
    if same(&path, &file.path) {
        let what = format!(
            "`{}` is the file itself: --fix writes a copy",
            path.display()
        );
        let hint = "give another file to --output";
        return Err(UserError::new(what, hint).into());
    }
    let theirs = ConfigFile::text_of(&path).map_or(path.exists(), |text| !text.starts_with(MARK));
    if output.is_none() && theirs {
        let what = format!(
            "there is a file `{}`, and --fix did not write it",
            path.display()
        );
        let hint = "move it away, or say with --output where the copy goes";
        return Err(UserError::new(what, hint).into());
    }
    Ok(path)
}

/// Whole or not at all.
fn write(copy: &File) -> anyhow::Result<()> {
    let temporary = copy
        .path
        .with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&temporary, &copy.text)
        .and_then(|()| std::fs::rename(&temporary, &copy.path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        let what = format!("cannot write `{}`", copy.path.display());
        let hint = "say with --output where the copy goes";
        UserError::new(what, hint).because(error).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &Path, name: &str, text: &str) -> File {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        File {
            path,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_file_of_somebody_else_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let config = file(dir.path(), "my.yaml", "data:\n");
        let copy = dir.path().join("my.fixed.yaml");
        assert_eq!(place_of_copy(&config, None).unwrap(), copy);
        std::fs::write(&copy, "data:\n").unwrap();
        let refused = place_of_copy(&config, None).unwrap_err().to_string();
        assert!(refused.contains("--fix did not write it"), "{refused}");
        assert!(
            place_of_copy(&config, Some(&copy)).is_ok(),
            "it was asked for"
        );
        std::fs::write(&copy, marked(&config)).unwrap();
        assert!(place_of_copy(&config, None).is_ok(), "it is our own");
        let itself = place_of_copy(&config, Some(&config.path))
            .unwrap_err()
            .to_string();
        assert!(itself.contains("is the file itself"), "{itself}");
    }

    #[test]
    fn the_mark_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let config = file(dir.path(), "my.yaml", "data:\n  seed: 1\n");
        let once = marked(&config);
        assert!(once.ends_with("over.\ndata:\n  seed: 1\n"), "{once}");
        let again = file(dir.path(), "my.fixed.yaml", &once);
        assert_eq!(marked(&again), once);
    }
}
