//! The persistent cache of features: what a clip cost to compute is paid once.
//!
//! A cache folder holds two kinds of Arrow IPC files, uncompressed and aligned to 64 bytes, so that
//! pyarrow, pandas and polars read them and we map them without copying:
//!
//! ```text
//! shard-v1-000007-<hash>.arrow   rows of clips: text, tokens, mel and the clip's fingerprint
//! index-v1-000012-<hash>.arrow   which clip is in which row of which shard; the newest is true
//! lock                           held by the one writer, with its process id
//! ```
//!
//! Every file is written under a temporary name, synced, and renamed to a name that holds the hash
//! of its content; it never changes afterwards. From this the rest follows:
//!
//! - Reading needs neither the lock nor a writable folder, and a reader's mapping outlives the
//!   unlinking of its file.
//! - A shard is checked against its name on first read, its size on opening, and some are read in
//!   every run ([`Cache::check_some`]). A damaged one is reported, and its clips are rebuilt.
//! - A writer killed between a shard and the index that names it loses nothing: shards numbered
//!   beyond the index are adopted by the next one who opens the folder. The index before the last
//!   stays as a spare; with both lost, the shards alone restore all. The next writer replaces a
//!   damaged index.
//! - The format's version is in the file names, and stays there in all versions to come, so that an
//!   old program recognises a new cache without parsing it, and leaves it alone.
//!
//! A folder serves one set of settings at a time: a run with other settings rebuilds, naming the
//! setting, and supersedes what was there. To alternate between two sets, keep two folders.
//! A superseded or removed row stays on disk until [`CacheWriter::gc`], or until its shard has no
//! live row left. Readers outside this program take the live rows from the index
//! (`xtask/python/read_cache.py` shows how).

mod arrow_file;
mod clip;
mod columns;
mod error;
mod fingerprint;
mod gc;
mod index;
mod layout;
mod lock;
mod reader;
mod repair;
mod room;
mod shard;
mod writer;

pub use clip::ClipView;
pub use columns::Entry;
pub use error::{CacheError, DamagedShard, Warning};
pub use fingerprint::{
    AudioStamp, FeatureSettings, Fingerprint, Freshness, Hash128, RebuildReason,
};
pub use gc::Collected;
pub use lock::{Holder, WriteLock};
pub use reader::Cache;
pub use room::{clip_bytes, free_space, may_write};
pub use writer::{Added, CacheWriter, WriterOptions};

/// Version of the layout and of the columns. Settings and front-ends have their own fingerprints;
/// this changes only when an old reader would misread a new file.
pub const FORMAT_VERSION: u32 = 1;
