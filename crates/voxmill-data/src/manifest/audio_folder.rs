//! From a row's id to its audio file, without leaving the dataset folder.
//!
//! An id names a file below `wavs/`. It may be written with that prefix and with an extension
//! (`wavs/abc.wav`, as some exports do), with `\` for `/`, and with subfolders (`ann/abc`); the
//! clip's id is the path below `wavs/` without extension, so that all spellings are one clip.
//! Of several files the one whose extension the row names is taken, else the first of wav, flac,
//! ogg, mp3.
//!
//! Cost: each folder that rows name is listed once and its names are kept sorted; a row is then
//! one binary search and one `lstat`, which the cache's fingerprint needs anyway, instead of a
//! probe for each extension. Links are followed only where they stay inside the dataset folder,
//! and nothing but a regular file is ever opened.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::files::contents_of;
use super::{Clip, ManifestError, QuarantineEntry, Reason, Row, Rows, Split};
use voxmill_audio::AudioHeader;

/// In order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extension {
    Wav,
    Flac,
    Ogg,
    Mp3,
}

impl Extension {
    fn parse(extension: &str) -> Option<Extension> {
        [
            ("wav", Extension::Wav),
            ("flac", Extension::Flac),
            ("ogg", Extension::Ogg),
            ("mp3", Extension::Mp3),
        ]
        .into_iter()
        .find(|(name, _)| extension.eq_ignore_ascii_case(name))
        .map(|(_, extension)| extension)
    }
}

/// A row's id field, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClipName<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) extension: Option<Extension>,
}

impl<'a> ClipName<'a> {
    /// `written` is trimmed and without NUL.
    pub(super) fn parse(written: &'a str) -> Result<ClipName<'a>, (Reason, String)> {
        let path: Cow<'a, str> = if written.contains(['/', '\\']) {
            Cow::Owned(below_wavs(written)?)
        } else {
            Cow::Borrowed(written)
        };
        let (stem, extension) = match path.rsplit_once('.') {
            Some((stem, extension)) => match Extension::parse(extension) {
                Some(known) => (stem.len(), Some(known)),
                None => (path.len(), None),
            },
            None => (path.len(), None),
        };
        let id = match path {
            Cow::Borrowed(path) => Cow::Borrowed(&path[..stem]),
            Cow::Owned(mut path) => {
                path.truncate(stem);
                Cow::Owned(path)
            }
        };
        // `..` alone would otherwise look for a file `...wav`; say what it is instead.
        if id == "." || id == ".." {
            return Err(outside(written));
        }
        if id.is_empty() || id.ends_with('/') {
            return Err((Reason::EMPTY_ID, "the row has no id".to_owned()));
        }
        Ok(ClipName { id, extension })
    }
}

/// Plain components joined by `/`, without a leading `wavs/`.
fn below_wavs(written: &str) -> Result<String, (Reason, String)> {
    let is_slash = |c| c == '/' || c == '\\';
    let drive = written.as_bytes().get(1) == Some(&b':')
        && written.as_bytes()[0].is_ascii_alphabetic()
        && written[2..].starts_with(is_slash);
    if written.starts_with(is_slash) || drive {
        return Err(outside(written));
    }
    let mut path = String::with_capacity(written.len());
    for component in written.split(is_slash) {
        match component {
            "" | "." => continue,
            ".." => return Err(outside(written)),
            _ => {}
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(component);
    }
    if let Some(below) = path.strip_prefix("wavs/") {
        path = below.to_owned();
    }
    Ok(path)
}

fn outside(written: &str) -> (Reason, String) {
    let shown: String = written.chars().take(100).collect();
    let detail = format!("`{shown}` is not a path below wavs/");
    (Reason::OUTSIDE_FOLDER, detail)
}

/// Why a header could not be read: a short stable name, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAudio {
    pub kind: &'static str,
    pub detail: String,
}

/// A clip before it has its split and the number of its speaker.
#[derive(Clone, Debug)]
pub struct ResolvedClip {
    /// Its `split` and `speaker` are filled in by [`super::Manifest::assemble`].
    pub(super) clip: Clip,
    pub(super) speaker: Arc<str>,
    pub(super) split: Option<Split>,
}

/// The names in `wavs/` and those of its subfolders that rows mention.
#[derive(Debug)]
pub struct AudioFolder {
    /// The dataset folder without links, which everything must stay below.
    root: PathBuf,
    listings: HashMap<Box<str>, Listing>,
}

#[derive(Debug)]
enum Listing {
    Names {
        /// Without links.
        folder: PathBuf,
        names: Vec<Box<str>>,
    },
    Missing,
    Outside(PathBuf),
    Unreadable(io::Error),
}

impl AudioFolder {
    pub fn list(rows: &Rows) -> Result<AudioFolder, ManifestError> {
        let io_error = |path: &Path, source| ManifestError::Io {
            path: path.to_owned(),
            source,
        };
        let root = fs::canonicalize(&rows.folder).map_err(|e| io_error(&rows.folder, e))?;
        let wavs = rows.folder.join("wavs");
        let mut listings = HashMap::new();
        match list(&root, "") {
            Listing::Missing => {
                return Err(ManifestError::MissingAudioFolder {
                    folder: rows.folder.clone(),
                    found: contents_of(&rows.folder),
                });
            }
            Listing::Outside(target) => {
                return Err(ManifestError::AudioFolderOutside { link: wavs, target });
            }
            Listing::Unreadable(source) => return Err(io_error(&wavs, source)),
            listing => listings.insert(Box::from(""), listing),
        };
        for row in rows.rows.iter().flatten() {
            let subfolder = split_id(&row.id).0;
            if !listings.contains_key(subfolder) {
                listings.insert(subfolder.into(), list(&root, subfolder));
            }
        }
        Ok(AudioFolder { root, listings })
    }

    /// Finds a row's audio file and reads its header. Rows do not depend on one another: run as
    /// many at once as the disk likes.
    pub fn resolve(
        &self,
        row: Row,
        read_header: impl Fn(&Path) -> Result<AudioHeader, BadAudio>,
    ) -> Result<ResolvedClip, QuarantineEntry> {
        let quarantine = |audio_file: &str, (reason, detail): (Reason, String)| {
            QuarantineEntry::new(&row.source, row.row, &row.id, audio_file, reason, detail)
        };
        let (folder, name) = self.find(&row).map_err(|fault| quarantine("", fault))?;
        let (subfolder, _) = split_id(&row.id);
        let slash = if subfolder.is_empty() { "" } else { "/" };
        let audio_file = format!("wavs/{subfolder}{slash}{name}");

        let path = folder.join(name);
        let facts = self
            .stat(&path)
            .and_then(|metadata| {
                let mtime_ns = mtime_ns(&metadata).map_err(unreadable)?;
                let header =
                    read_header(&path).map_err(|bad| (Reason::named(bad.kind), bad.detail))?;
                if header.samples == 0 || header.sample_rate == 0 || header.channels == 0 {
                    let detail = format!(
                        "the header promises {} samples at {} Hz in {} channels",
                        header.samples, header.sample_rate, header.channels
                    );
                    return Err((Reason::EMPTY_AUDIO, detail));
                }
                Ok((metadata.len(), mtime_ns, header))
            })
            .map_err(|fault| quarantine(&audio_file, fault));
        let (audio_bytes, audio_mtime_ns, header) = facts?;

        Ok(ResolvedClip {
            clip: Clip {
                id: row.id,
                text: row.text,
                speaker: 0,
                language: row.language,
                split: Split::Train,
                header,
                audio_file: audio_file.into(),
                audio_bytes,
                audio_mtime_ns,
                source: row.source,
                row: row.row,
            },
            speaker: row.speaker,
            split: row.split,
        })
    }

    /// The folder (without links) and the name of a row's audio file.
    fn find(&self, row: &Row) -> Result<(&Path, &str), (Reason, String)> {
        let (subfolder, stem) = split_id(&row.id);
        let missing = |detail| Err((Reason::MISSING_AUDIO, detail));
        match self.listings.get(subfolder) {
            Some(Listing::Names { folder, names }) => match choose(names, stem, row.extension) {
                Choice::Name(name) => Ok((folder, name)),
                Choice::Unsupported(name) => Err((
                    Reason::UNSUPPORTED_AUDIO,
                    format!("`{name}` is none of .wav, .flac, .ogg, .mp3"),
                )),
                Choice::Nothing => {
                    missing("no such file in wavs/ with .wav, .flac, .ogg or .mp3".to_owned())
                }
            },
            Some(Listing::Outside(target)) => Err((
                Reason::OUTSIDE_FOLDER,
                format!("`wavs/{subfolder}` is a link to `{}`", target.display()),
            )),
            Some(Listing::Unreadable(error)) => Err((
                Reason::UNREADABLE_AUDIO,
                format!("`wavs/{subfolder}`: {error}"),
            )),
            Some(Listing::Missing) | None => missing(format!("no folder `wavs/{subfolder}`")),
        }
    }

    /// Follows a link only to a place inside the dataset, and lets only regular files pass:
    /// opening a FIFO would wait for ever, and opening a device may do anything.
    fn stat(&self, path: &Path) -> Result<Metadata, (Reason, String)> {
        let mut metadata = fs::symlink_metadata(path).map_err(unreadable)?;
        if metadata.is_symlink() {
            let target = fs::canonicalize(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => (
                    Reason::MISSING_AUDIO,
                    "the file is a link to nothing".to_owned(),
                ),
                _ => unreadable(error),
            })?;
            if !target.starts_with(&self.root) {
                let detail = format!("the file is a link to `{}`", target.display());
                return Err((Reason::OUTSIDE_FOLDER, detail));
            }
            metadata = fs::metadata(&target).map_err(unreadable)?;
        }
        if metadata.is_dir() {
            return Err((Reason::NOT_A_FILE, "it is a folder".to_owned()));
        }
        if !metadata.is_file() {
            let detail = "it is a pipe, a socket or a device".to_owned();
            return Err((Reason::NOT_A_FILE, detail));
        }
        if metadata.len() == 0 {
            return Err((Reason::EMPTY_AUDIO, "the file has 0 bytes".to_owned()));
        }
        Ok(metadata)
    }
}

fn unreadable(error: io::Error) -> (Reason, String) {
    match error.kind() {
        io::ErrorKind::NotFound => (Reason::MISSING_AUDIO, error.to_string()),
        _ => (Reason::UNREADABLE_AUDIO, error.to_string()),
    }
}

fn list(root: &Path, subfolder: &str) -> Listing {
    let read = || {
        let folder = fs::canonicalize(root.join("wavs").join(subfolder))?;
        if !folder.starts_with(root) {
            return Ok(Listing::Outside(folder));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            // Ids are UTF-8, so a name that is not cannot be asked for.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name.into_boxed_str());
            }
        }
        names.sort_unstable();
        Ok(Listing::Names { folder, names })
    };
    read().unwrap_or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Listing::Missing,
        _ => Listing::Unreadable(error),
    })
}

/// (subfolder of `wavs/`, file name without extension).
fn split_id(id: &str) -> (&str, &str) {
    id.rsplit_once('/').unwrap_or(("", id))
}

#[derive(Debug, PartialEq, Eq)]
enum Choice<'a> {
    Name(&'a str),
    /// There is a file of this name, in a format that we do not read.
    Unsupported(&'a str),
    Nothing,
}

fn choose<'a>(names: &'a [Box<str>], stem: &str, wanted: Option<Extension>) -> Choice<'a> {
    // In sorted order all names that begin with `stem.` are neighbours.
    let prefix = format!("{stem}.");
    let start = names.partition_point(|name| **name < *prefix);
    let mut best: Option<(bool, Extension, &str)> = None;
    let mut other = None;
    for name in &names[start..] {
        let Some(extension) = name.strip_prefix(&*prefix) else {
            break;
        };
        if let Some(extension) = Extension::parse(extension) {
            let candidate = (wanted != Some(extension), extension, &**name);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        } else if !extension.contains('.') {
            other = Some(&**name);
        }
    }
    // An id that comes with an extension which we do not know is a whole file name.
    let whole = || names.binary_search_by(|name| (**name).cmp(stem)).ok();
    match (best, other.or_else(|| whole().map(|at| &*names[at]))) {
        (Some((_, _, name)), _) => Choice::Name(name),
        (None, Some(name)) => Choice::Unsupported(name),
        (None, None) => Choice::Nothing,
    }
}

fn mtime_ns(metadata: &Metadata) -> io::Result<i64> {
    let nanos = match metadata.modified()?.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_nanos()),
        Err(before) => i128::try_from(before.duration().as_nanos()).map(|nanos| -nanos),
    };
    // 64 bits hold the years 1677 to 2262; a time outside is as good as the nearest of these.
    let nanos = nanos.unwrap_or(i128::MAX);
    Ok(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

#[cfg(test)]
mod tests;
