//! The cache folder: what files are called, what is in it, and how a file gets there whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use xxhash_rust::xxh3::Xxh3;

use super::FORMAT_VERSION;
use super::fingerprint::Hash128;

const TEMPORARY_PREFIX: &str = ".writing-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Index,
    Shard,
}

/// The name of a file of this version; it says all that is needed to check the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileName {
    pub(super) kind: FileKind,
    /// Counts up: the newest index is the true one, and a later shard's rows win.
    pub(super) number: u64,
    pub(super) hash: Hash128,
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FileKind::Index => "index",
            FileKind::Shard => "shard",
        };
        let Self { number, hash, .. } = self;
        write!(f, "{kind}-v{FORMAT_VERSION}-{number:06}-{hash}.arrow")
    }
}

impl FileName {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (kind, version, rest) = split_version(name)?;
        let (number, hash) = rest.strip_suffix(".arrow")?.split_once('-')?;
        let parsed = FileName {
            kind,
            number: number.parse().ok()?,
            hash: Hash128::parse(hash)?,
        };
        // One name, one file: `shard-v1-+7-…` or `…-0000007-…` are not ours.
        (version == FORMAT_VERSION && parsed.to_string() == name).then_some(parsed)
    }
}

/// The part of a name that all versions share.
fn split_version(name: &str) -> Option<(FileKind, u32, &str)> {
    let (kind, rest) = match name.split_once("-v")? {
        ("index", rest) => (FileKind::Index, rest),
        ("shard", rest) => (FileKind::Shard, rest),
        _ => return None,
    };
    let (version, rest) = rest.split_once('-')?;
    Some((kind, version.parse().ok()?, rest))
}

/// What a cache folder holds at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Newest first.
    pub(super) indexes: Vec<FileName>,
    pub(super) shards: BTreeMap<u64, FileName>,
    /// Files of older versions, and the newest of those versions.
    pub(super) older: Vec<PathBuf>,
    pub(super) older_version: Option<u32>,
    pub(super) newer_version: Option<u32>,
    pub(super) temporaries: Vec<PathBuf>,
}

impl Listing {
    /// A folder that does not exist is an empty cache.
    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        let mut listing = Listing::default();
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY_PREFIX) {
                listing.temporaries.push(entry.path());
            } else if let Some(file) = FileName::parse(name) {
                match file.kind {
                    FileKind::Index => listing.indexes.push(file),
                    FileKind::Shard => listing.shards.extend([(file.number, file)]),
                }
            } else if let Some((_, version, _)) = split_version(name) {
                if version > FORMAT_VERSION {
                    listing.newer_version = listing.newer_version.max(Some(version));
                } else if version < FORMAT_VERSION {
                    listing.older_version = listing.older_version.max(Some(version));
                    listing.older.push(entry.path());
                }
            }
        }
        listing.indexes.sort_by_key(|name| Reverse(name.number));
        Ok(listing)
    }
}

/// A file on its way: hashed while it is written, invisible to readers, gone when dropped.
pub(super) struct Draft {
    temporary: NamedTempFile,
    hasher: Xxh3,
    pub(super) bytes: u64,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("temporary", &self.temporary)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Draft {
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            // As far as the umask allows; a shared dataset folder is read by others.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)?;
        Ok(Draft {
            temporary,
            hasher: Xxh3::new(),
            bytes: 0,
        })
    }

    /// Syncs, renames, and syncs the folder: after this a power cut leaves the whole file.
    pub(super) fn publish(self, dir: &Path, kind: FileKind, number: u64) -> io::Result<FileName> {
        self.temporary.as_file().sync_all()?;
        let name = FileName {
            kind,
            number,
            hash: Hash128::finish(&self.hasher),
        };
        self.temporary.persist(dir.join(name.to_string()))?;
        File::open(dir)?.sync_all()?;
        Ok(name)
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.temporary.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_foreign_ones_are_not_ours() {
        let name = FileName {
            kind: FileKind::Shard,
            number: 7,
            hash: Hash128::of(b"x"),
        };
        let written = name.to_string();
        assert_eq!(FileName::parse(&written), Some(name));
        for foreign in [
            written.replace("-v1-", "-v2-"),
            written.replace("000007", "7"),
            written.replace("shard", "shards"),
            written.replace(".arrow", ".tmp"),
        ] {
            assert_eq!(FileName::parse(&foreign), None, "{foreign}");
        }
        let (_, version, _) = split_version("index-v12-whatever comes").unwrap();
        assert_eq!(version, 12);
    }

    #[test]
    fn a_dropped_draft_leaves_nothing_and_a_published_one_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let mut draft = Draft::create(dir.path()).unwrap();
        draft.write_all(b"abc").unwrap();
        assert_eq!(Listing::read(dir.path()).unwrap().temporaries.len(), 1);
        drop(draft);
        assert!(Listing::read(dir.path()).unwrap().temporaries.is_empty());

        let mut draft = Draft::create(dir.path()).unwrap();
        draft.write_all(b"abc").unwrap();
        let name = draft.publish(dir.path(), FileKind::Shard, 3).unwrap();
        assert_eq!(name.hash, Hash128::of(b"abc"));
        assert_eq!(fs::read(dir.path().join(name.to_string())).unwrap(), b"abc");
        assert_eq!(Listing::read(dir.path()).unwrap().shards[&3], name);
    }

    #[test]
    fn a_missing_folder_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let listing = Listing::read(&dir.path().join("none")).unwrap();
        assert!(listing.shards.is_empty() && listing.indexes.is_empty());
    }
}
