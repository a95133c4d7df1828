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
//! probe for each extension. Links are followed only where they stay inside the dataset folder or inside
//! what `wavs` is a link to ([`FollowedLinks`]), and nothing but a regular file is ever opened.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::contents_of;
use super::{Clip, ManifestError, QuarantineEntry, Reason, Row, Rows, Split};
use crate::cache::AudioStamp;
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
        use Extension::{Flac, Mp3, Ogg, Wav};
        let mut known = [("wav", Wav), ("flac", Flac), ("ogg", Ogg), ("mp3", Mp3)].into_iter();
        let found = known.find(|(name, _)| extension.eq_ignore_ascii_case(name));
        found.map(|(_, extension)| extension)
    }
}

/// A row's id field, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClipName {
    pub(super) id: Box<str>,
    pub(super) extension: Option<Extension>,
}

impl ClipName {
    /// `written` is trimmed and without NUL.
    pub(super) fn parse(written: &str) -> Result<ClipName, (Reason, String)> {
        let path = match written.contains(['/', '\\']) {
            true => Cow::Owned(below_wavs(written)?),
            false => Cow::Borrowed(written),
        };
        let parts = path.rsplit_once('.');
        let known = parts.and_then(|(id, extension)| Some((id, Extension::parse(extension)?)));
        let id = known.map_or(&*path, |(id, _)| id);
        // `..` alone would otherwise look for a file `...wav`; say what it is instead.
        if id == "." || id == ".." {
            return Err(outside(written));
        }
        if id.is_empty() || id.ends_with('/') {
            return Err((Reason::EMPTY_ID, "the row has no id".to_owned()));
        }
        let extension = known.map(|(_, extension)| extension);
        let id = id.into();
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
    let components = written.split(is_slash);
    let components: Vec<&str> = components
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    match components[..] {
        _ if components.contains(&"..") => Err(outside(written)),
        ["wavs", ref below @ ..] if !below.is_empty() => Ok(below.join("/")),
        _ => Ok(components.join("/")),
    }
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
    /// The dataset folder and `wavs`, without links: everything must stay below one of them.
    roots: [PathBuf; 2],
    links: FollowedLinks,
    listings: HashMap<Box<str>, FolderListing>,
}

/// Which links in `wavs/` are followed. A link that is `wavs` itself always is: who made the folder made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowedLinks {
    /// Those that stay inside.
    #[default]
    Inside,
    /// All of them, because the user said so.
    Everywhere,
}

#[derive(Debug)]
enum FolderListing {
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
    /// Lists the folder once, so that no row asks the file system for each extension.
    pub fn list(rows: &Rows, links: FollowedLinks) -> Result<AudioFolder, ManifestError> {
        let io_error = |path, source| ManifestError::Io { path, source };
        let (folder, wavs) = (rows.folder.clone(), rows.folder.join("wavs"));
        let root = fs::canonicalize(&folder).map_err(|e| io_error(folder.clone(), e))?;
        let own = fs::canonicalize(&wavs).unwrap_or_else(|_| root.join("wavs"));
        let roots = [root, own];
        let mut listings = HashMap::new();
        match list(&roots, links, "") {
            FolderListing::Missing => {
                let found = contents_of(&folder);
                return Err(ManifestError::MissingAudioFolder { folder, found });
            }
            FolderListing::Unreadable(source) => return Err(io_error(wavs, source)),
            listing => listings.insert(Box::from(""), listing),
        };
        for row in rows.rows.iter().flatten() {
            let subfolder = split_id(&row.id).0;
            if !listings.contains_key(subfolder) {
                listings.insert(subfolder.into(), list(&roots, links, subfolder));
            }
        }
        Ok(AudioFolder {
            roots,
            links,
            listings,
        })
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
        let facts = self.stat(&path).and_then(|metadata| {
            let header = read_header(&path);
            let header = header.map_err(|bad| (Reason::named(bad.kind), bad.detail))?;
            let (samples, rate, channels) = (header.samples, header.sample_rate, header.channels);
            if samples == 0 || rate == 0 || channels == 0 {
                let detail = format!(
                    "the header promises {samples} samples at {rate} Hz in {channels} channels"
                );
                return Err((Reason::EMPTY_AUDIO, detail));
            }
            Ok((AudioStamp::of(&metadata), header))
        });
        let (stamp, header) = facts.map_err(|fault| quarantine(&audio_file, fault))?;

        Ok(ResolvedClip {
            clip: Clip {
                id: row.id,
                text: row.text,
                speaker: 0,
                language: row.language,
                split: Split::Train,
                header,
                audio_file: audio_file.into(),
                audio_bytes: stamp.bytes,
                audio_mtime_ns: stamp.modified_ns,
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
            Some(FolderListing::Names { folder, names }) => {
                match choose(names, stem, row.extension) {
                    Choice::Name(name) => Ok((folder, name)),
                    Choice::Unsupported(name) => {
                        let detail = format!("`{name}` is none of .wav, .flac, .ogg, .mp3");
                        Err((Reason::UNSUPPORTED_AUDIO, detail))
                    }
                    Choice::Nothing => {
                        missing("no such file in wavs/ with .wav, .flac, .ogg or .mp3".to_owned())
                    }
                }
            }
            Some(FolderListing::Outside(target)) => {
                let detail = format!(
                    "`wavs/{subfolder}` is a link to `{}`; --follow-links allows it",
                    target.display()
                );
                Err((Reason::LINK_OUTSIDE, detail))
            }
            Some(FolderListing::Unreadable(error)) => {
                let detail = format!("`wavs/{subfolder}`: {error}");
                Err((Reason::UNREADABLE_AUDIO, detail))
            }
            Some(FolderListing::Missing) | None => missing(format!("no folder `wavs/{subfolder}`")),
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
            if !may_read(&self.roots, self.links, &target) {
                let detail = format!(
                    "the file is a link to `{}`; --follow-links allows it",
                    target.display()
                );
                return Err((Reason::LINK_OUTSIDE, detail));
            }
            metadata = fs::metadata(&target).map_err(unreadable)?;
        }
        let (reason, detail) = if metadata.is_dir() {
            (Reason::NOT_A_FILE, "it is a folder")
        } else if !metadata.is_file() {
            (Reason::NOT_A_FILE, "it is a pipe, a socket or a device")
        } else if metadata.len() == 0 {
            (Reason::EMPTY_AUDIO, "the file has 0 bytes")
        } else {
            return Ok(metadata);
        };
        Err((reason, detail.to_owned()))
    }
}

fn unreadable(error: io::Error) -> (Reason, String) {
    match error.kind() {
        io::ErrorKind::NotFound => (Reason::MISSING_AUDIO, error.to_string()),
        _ => (Reason::UNREADABLE_AUDIO, error.to_string()),
    }
}

/// Whether a place without links is one that the manifest may read.
fn may_read(roots: &[PathBuf; 2], links: FollowedLinks, target: &Path) -> bool {
    links == FollowedLinks::Everywhere || roots.iter().any(|root| target.starts_with(root))
}

fn list(roots: &[PathBuf; 2], links: FollowedLinks, subfolder: &str) -> FolderListing {
    let read = || {
        let folder = fs::canonicalize(roots[1].join(subfolder))?;
        if !may_read(roots, links, &folder) {
            return Ok(FolderListing::Outside(folder));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder)? {
            // Ids are UTF-8, so a name that is not cannot be asked for.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name.into_boxed_str());
            }
        }
        names.sort_unstable();
        Ok(FolderListing::Names { folder, names })
    };
    read().unwrap_or_else(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => FolderListing::Missing,
        _ => FolderListing::Unreadable(error),
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

#[cfg(test)]
mod tests;
