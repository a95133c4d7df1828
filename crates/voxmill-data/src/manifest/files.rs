//! Which files of a folder are its manifest, and what an error reports when there is none.
//!
//! What is read:
//! - `metadata_train.csv` and `metadata_eval.csv` where both exist: the split is given. A
//!   `metadata.csv` next to them is what people made them from, and is left unread, with a note;
//! - else `metadata.csv`;
//! - else `metadata_train.csv` alone, divided as if it were `metadata.csv`, with a note;
//! - when the caller gives the split (`--val-data`), all of the above are that split's, and a lone
//!   `metadata_eval.csv` will do.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::layouts::Layout;
use super::{ManifestError, Split};

/// The manifest files with the split of their rows; `None` is to be divided by hash.
pub(super) fn choose_files(
    folder: &Path,
    given: Option<Split>,
    notes: &mut Vec<String>,
) -> Result<Vec<(PathBuf, Option<Split>)>, ManifestError> {
    let owned = || folder.to_owned();
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(ManifestError::NotAFolder { folder: owned() }),
        Err(source) => {
            let path = owned();
            return Err(match source.kind() {
                io::ErrorKind::NotFound => ManifestError::MissingFolder { folder: path },
                _ => ManifestError::Io { path, source },
            });
        }
    }
    let mut note = |what: &str| notes.push(format!("`{}`{what}", folder.display()));
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
                note(" has metadata_train.csv and metadata_eval.csv: its metadata.csv is not read");
            }
            if given == Some(Split::Train) {
                note(": metadata_eval.csv is not read, since another folder is for validation");
                return Ok(vec![(train, given)]);
            }
            vec![
                (train, given.or(Some(Split::Train))),
                (eval, given.or(Some(Split::Validation))),
            ]
        }
        (Some(whole), train, eval) => {
            for (path, present, missing) in [(train, "train", "eval"), (eval, "eval", "train")] {
                if path.is_some() {
                    note(&format!(
                        " has metadata_{present}.csv but no metadata_{missing}.csv: metadata.csv is \
                         read instead"
                    ));
                }
            }
            vec![(whole, given)]
        }
        (None, Some(train), None) => {
            if given.is_none() {
                note(
                    " has metadata_train.csv but no metadata_eval.csv: some of its clips are set \
                     aside for validation",
                );
            }
            vec![(train, given)]
        }
        (None, None, Some(eval)) if given.is_some() => vec![(eval, given)],
        (None, None, Some(_)) => {
            return Err(ManifestError::EvalWithoutTrain { folder: owned() });
        }
        (None, None, None) => {
            if let Some(layout) = Layout::of(folder) {
                let folder = owned();
                return Err(ManifestError::ForeignLayout { folder, layout });
            }
            return Err(ManifestError::MissingManifest {
                folder: owned(),
                found: contents_of(folder),
                nearby: nearby_dataset(folder),
            });
        }
    })
}

/// A manifest may be a link to anywhere (the user put it there), but opening a FIFO would wait
/// for ever, so it has to be a file.
pub(super) fn open(path: &Path) -> Result<BufReader<File>, ManifestError> {
    let file = path.to_owned();
    let opened = match fs::metadata(path).map(|metadata| metadata.is_file()) {
        Ok(false) => return Err(ManifestError::NotAFile { file }),
        is_file => is_file.and_then(|_| File::open(path)),
    };
    let opened = opened.map_err(|source| ManifestError::Io { path: file, source })?;
    Ok(BufReader::with_capacity(1 << 16, opened))
}

/// A few names of what is in a folder, for the message that misses something there.
pub(super) fn contents_of(folder: &Path) -> String {
    const SHOWN: usize = 6;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return format!("what cannot be listed ({error})"),
    };
    let names = entries.filter_map(Result::ok).map(|entry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        entry.file_name().to_string_lossy().into_owned() + slash
    });
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    match (names.join(", "), more) {
        (names, _) if names.is_empty() => "nothing".to_owned(),
        (names, 0) => names,
        (names, more) => format!("{names} and {more} more"),
    }
}

/// The dataset that was probably meant: the folder above, or one just below.
fn nearby_dataset(folder: &Path) -> Option<PathBuf> {
    let has_manifest = |candidate: &PathBuf| {
        let mut names = ["metadata.csv", "metadata_train.csv"].iter();
        names.any(|name| candidate.join(name).is_file())
    };
    let whole = fs::canonicalize(folder).ok();
    let above = whole.and_then(|path| path.parent().map(Path::to_owned));
    above.filter(has_manifest).or_else(|| {
        let below = fs::read_dir(folder).ok()?.filter_map(Result::ok);
        let below = below.map(|entry| entry.path()).filter(has_manifest);
        below.min()
    })
}
