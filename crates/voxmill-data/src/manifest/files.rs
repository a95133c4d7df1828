//! Which files of a folder are its manifest, and what to say when there is none.
//!
//! What is read:
//! - `metadata_train.csv` and `metadata_eval.csv` where both exist: the split is given. A
//!   `metadata.csv` beside them is what people made them from, and is left unread, with a note;
//! - else `metadata.csv`;
//! - else `metadata_train.csv` alone, divided as if it were `metadata.csv`, with a note;
//! - when the caller gives the split (`--val-data`), all of the above are that split's, and a lone
//!   `metadata_eval.csv` will do.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::{ManifestError, Split};

/// The manifest files with the split of their rows; `None` is to be divided by hash.
pub(super) fn choose_files(
    folder: &Path,
    given: Option<Split>,
    notes: &mut Vec<String>,
) -> Result<Vec<(PathBuf, Option<Split>)>, ManifestError> {
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(ManifestError::NotAFolder {
                folder: folder.to_owned(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ManifestError::MissingFolder {
                folder: folder.to_owned(),
            });
        }
        Err(source) => {
            return Err(ManifestError::Io {
                path: folder.to_owned(),
                source,
            });
        }
    }
    // A dangling link counts as present: opening it then says what is wrong.
    let present = |name: &str| {
        let path = folder.join(name);
        fs::symlink_metadata(&path).is_ok().then_some(path)
    };
    let whole = present("metadata.csv");
    let train = present("metadata_train.csv");
    let eval = present("metadata_eval.csv");
    Ok(match (whole, train, eval) {
        (whole, Some(train), Some(eval)) => {
            if whole.is_some() {
                notes.push(format!(
                    "`{}` has metadata_train.csv and metadata_eval.csv: its metadata.csv is not read",
                    folder.display()
                ));
            }
            if given == Some(Split::Train) {
                notes.push(format!(
                    "`{}`: metadata_eval.csv is not read, since another folder is for validation",
                    folder.display()
                ));
                return Ok(vec![(train, given)]);
            }
            vec![
                (train, given.or(Some(Split::Train))),
                (eval, given.or(Some(Split::Validation))),
            ]
        }
        (Some(whole), train, eval) => {
            let pair = [
                (train, "metadata_train.csv", "metadata_eval.csv"),
                (eval, "metadata_eval.csv", "metadata_train.csv"),
            ];
            for (_, here, missing) in pair.iter().filter(|(path, ..)| path.is_some()) {
                notes.push(format!(
                    "`{}` has {here} but no {missing}: metadata.csv is read instead",
                    folder.display()
                ));
            }
            vec![(whole, given)]
        }
        (None, Some(train), None) => {
            if given.is_none() {
                notes.push(format!(
                    "`{}` has metadata_train.csv but no metadata_eval.csv: some of its clips are \
                     set aside for validation",
                    folder.display()
                ));
            }
            vec![(train, given)]
        }
        (None, None, Some(eval)) if given.is_some() => vec![(eval, given)],
        (None, None, Some(_)) => {
            return Err(ManifestError::EvalWithoutTrain {
                folder: folder.to_owned(),
            });
        }
        (None, None, None) => {
            return Err(ManifestError::MissingManifest {
                folder: folder.to_owned(),
                found: contents_of(folder),
                nearby: nearby_dataset(folder),
            });
        }
    })
}

/// A manifest may be a link to anywhere (the user put it there), but opening a FIFO would wait
/// for ever, so it has to be a file.
pub(super) fn open(path: &Path) -> Result<BufReader<File>, ManifestError> {
    let io_error = |source| ManifestError::Io {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(io_error)?.is_file() {
        return Err(ManifestError::NotAFile {
            file: path.to_owned(),
        });
    }
    let file = File::open(path).map_err(io_error)?;
    Ok(BufReader::with_capacity(1 << 16, file))
}

/// A few names of what is in a folder, for the message that misses something there.
pub(super) fn contents_of(folder: &Path) -> String {
    const SHOWN: usize = 6;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return format!("what cannot be listed ({error})"),
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            entry.file_name().to_string_lossy().into_owned() + slash
        })
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "nothing".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// The dataset that was probably meant: the folder above, or one just below.
fn nearby_dataset(folder: &Path) -> Option<PathBuf> {
    let has_manifest = |candidate: &Path| {
        ["metadata.csv", "metadata_train.csv"]
            .iter()
            .any(|name| candidate.join(name).is_file())
    };
    let above = fs::canonicalize(folder)
        .ok()
        .and_then(|path| path.parent().map(Path::to_owned))
        .filter(|above| has_manifest(above));
    above.or_else(|| {
        let mut below: Vec<PathBuf> = fs::read_dir(folder)
            .ok()?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| has_manifest(path))
            .collect();
        below.sort_unstable();
        below.into_iter().next()
    })
}
