//! What can go wrong with a cache, and what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;

/// Why the cache as a whole could not be opened or written. Training continues without a cache after
/// any of these; a damaged shard is not among them, for it is data ([`DamagedShard`]).
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(
        "the cache in {} has format version {found}, this program knows versions up to {supported}",
        dir.display()
    )]
    NewerVersion {
        dir: PathBuf,
        found: u32,
        supported: u32,
    },
    #[error("the cache in {} is being written by {}", dir.display(), process(*holder))]
    Locked { dir: PathBuf, holder: Option<u32> },
    #[error("the cache folder {} is not writable", dir.display())]
    NotWritable { dir: PathBuf, source: io::Error },
    /// The disk, the quota or the process's file size limit is exhausted. What was committed
    /// before is intact; the clips of the unfinished shard are not cached.
    #[error("no room left to write the cache in {}", dir.display())]
    NoRoom { dir: PathBuf, source: io::Error },
    #[error("clip `{id}` cannot be cached: {why}")]
    UnfitFeatures { id: String, why: &'static str },
    #[error("cannot use the cache in {}", dir.display())]
    Io { dir: PathBuf, source: io::Error },
    #[error("cannot encode the cache in {}", dir.display())]
    Encode { dir: PathBuf, source: ArrowError },
}

impl CacheError {
    /// The next move, where there is one.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            CacheError::NewerVersion { .. } => {
                "update voxmill, or give another folder with `--cache-dir`"
            }
            CacheError::Locked { .. } => {
                "wait for it to end, or give another folder with `--cache-dir`"
            }
            CacheError::NotWritable { .. } => "give a folder of your own with `--cache-dir`",
            CacheError::NoRoom { .. } => {
                "free some space, run `voxmill prepare --gc`, or bound the cache with `--cache-budget`"
            }
            CacheError::UnfitFeatures { .. }
            | CacheError::Io { .. }
            | CacheError::Encode { .. } => return None,
        })
    }

    /// For errors of writing, of the file system or of Arrow.
    pub(super) fn writing(dir: &Path, error: impl Into<ArrowError>) -> Self {
        use io::ErrorKind::{
            FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let dir = dir.to_owned();
        let source = match error.into() {
            ArrowError::IoError(_, source) => source,
            source => return CacheError::Encode { dir, source },
        };
        match source.kind() {
            PermissionDenied | ReadOnlyFilesystem => CacheError::NotWritable { dir, source },
            StorageFull | QuotaExceeded | FileTooLarge => CacheError::NoRoom { dir, source },
            _ => CacheError::Io { dir, source },
        }
    }

    /// For errors of reading.
    pub(super) fn reading(dir: &Path, source: io::Error) -> Self {
        let dir = dir.to_owned();
        CacheError::Io { dir, source }
    }
}

fn process(holder: Option<u32>) -> String {
    holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
}

/// A shard whose bytes are not those that were written. Its clips are to be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache's file {file} is damaged: {why}")]
pub struct DamagedShard {
    pub file: String,
    pub why: String,
}

/// What a user should know about a cache that works nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("{0}; {clips} clips are rebuilt", clips = .1)]
    DamagedShard(DamagedShard, usize),
    #[error(
        "the cache's index {file} is damaged: {why}; it is restored from its spare or the shards"
    )]
    DamagedIndex { file: String, why: String },
}
