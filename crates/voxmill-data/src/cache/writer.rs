//! Writing a cache: one process at a time, whole shards at a time.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow_schema::ArrowError;

use super::arrow_file::map;
use super::clip::ClipView;
use super::error::CacheError;
use super::fingerprint::{AudioStamp, FeatureSettings, Fingerprint};
use super::index;
use super::layout::{self, Listing};
use super::lock::WriteLock;
use super::reader::{Cache, refuse_newer};
use super::room::{FILE_BYTES, index_row_bytes};
use super::shard::{Shard, ShardDraft};

const LOCK_FILE: &str = "lock";
/// How often a waiting writer tries again.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// How large shards and the whole cache become.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// A shard is finished when it reaches this size...
    pub shard_bytes: u64,
    /// ... or this number of clips. What a kill can lose is one unfinished shard.
    pub shard_clips: usize,
    /// Bound on the folder's size; `None` is unbounded.
    pub budget_bytes: Option<u64>,
}

impl Default for WriterOptions {
    /// 64 MiB are some 370 clips of LJ Speech.
    fn default() -> Self {
        WriterOptions {
            shard_bytes: 64 << 20,
            shard_clips: 4096,
            budget_bytes: None,
        }
    }
}

/// What became of a clip that was offered to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Stored,
    /// The clip is not cached, all before it are. A smaller one may still fit.
    BudgetReached {
        budget: u64,
        needed: u64,
    },
}

/// Holds the folder's lock. What was added counts once its shard is finished, at the latest on
/// [`CacheWriter::commit`]; dropping without commit gives up the unfinished shard, as a kill would.
#[derive(Debug)]
pub struct CacheWriter {
    pub(super) cache: Cache,
    pub(super) settings: Arc<FeatureSettings>,
    pub(super) options: WriterOptions,
    draft: Option<ShardDraft>,
    /// Entries differ from the index on disk.
    pub(super) dirty: bool,
    /// Size of the index as it would be written now, rounded up.
    index_bytes: u64,
    _lock: WriteLock,
}

impl CacheWriter {
    /// Takes the lock or fails with [`CacheError::Locked`].
    pub fn open(
        dir: &Path,
        settings: FeatureSettings,
        options: WriterOptions,
    ) -> Result<Self, CacheError> {
        Self::open_waiting(dir, settings, options, |_| ControlFlow::Break(()))
    }

    /// Waits for the lock, and asks `on_wait` every 50 ms, with the process id of the holder as far
    /// as it is known, whether to continue waiting.
    pub fn open_waiting(
        dir: &Path,
        settings: FeatureSettings,
        options: WriterOptions,
        mut on_wait: impl FnMut(Option<u32>) -> ControlFlow<()>,
    ) -> Result<Self, CacheError> {
        let io_error = |error| CacheError::writing(dir, error);
        // Before the lock: a cache of a newer version gets not even that file from us.
        refuse_newer(dir, &Listing::read(dir).map_err(io_error)?)?;
        fs::create_dir_all(dir).map_err(io_error)?;
        let lock = loop {
            match WriteLock::attempt(&dir.join(LOCK_FILE)).map_err(io_error)? {
                Ok(lock) => break lock,
                Err(holder) if on_wait(holder).is_break() => {
                    let dir = dir.to_owned();
                    return Err(CacheError::Locked { dir, holder });
                }
                Err(_) => thread::sleep(LOCK_POLL),
            }
        };
        let mut cache = Cache::open(dir)?;
        for file in std::mem::take(&mut cache.leftovers.files) {
            layout::remove(&file).map_err(io_error)?;
        }
        let dirty = cache.leftovers.outdated;
        let mut writer = CacheWriter {
            cache,
            settings: Arc::new(settings),
            options,
            draft: None,
            dirty,
            index_bytes: 0,
            _lock: lock,
        };
        writer.index_bytes = writer.measure_index();
        Ok(writer)
    }

    /// The cache as committed so far (not the unfinished shard).
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Stores a clip under the writer's settings, superseding what there was.
    pub fn add(
        &mut self,
        id: &str,
        fingerprint: &Fingerprint,
        clip: ClipView<'_>,
    ) -> Result<Added, CacheError> {
        clip.check_fit(id)?;
        if let Some(budget) = self.options.budget_bytes {
            let needed = self.bytes_with(id, &clip);
            if needed > budget {
                return Ok(Added::BudgetReached { budget, needed });
            }
        }
        let settings = Arc::clone(&self.settings);
        let appended = self.append(id, fingerprint, &clip, &settings);
        appended.map_err(|error| self.failed(error))?;
        Ok(Added::Stored)
    }

    /// Largest size the folder will have once this clip, too, is committed.
    fn bytes_with(&self, id: &str, clip: &ClipView<'_>) -> u64 {
        let shards: u64 = self.cache.shards.values().map(|s| s.record.bytes).sum();
        let draft = self.draft.as_ref();
        let draft_bytes = draft.map_or(0, ShardDraft::bytes);
        let draft_rows = draft.map_or(0, |draft| draft.index_bytes);
        let index = self.index_bytes + draft_rows + index_row_bytes(id);
        // While an index is being written, there are its predecessor and the spare as well.
        shards + draft_bytes + clip.bytes() + FILE_BYTES + 3 * index
    }

    /// Appends to the shard being written, or starts one where settings differ or there is none.
    pub(super) fn append(
        &mut self,
        id: &str,
        fingerprint: &Fingerprint,
        clip: &ClipView<'_>,
        settings: &Arc<FeatureSettings>,
    ) -> Result<(), ArrowError> {
        let is_other = |draft: &ShardDraft| draft.settings != *settings;
        if self.draft.as_ref().is_some_and(is_other) {
            self.try_commit()?;
        }
        let (dir, number) = (&self.cache.dir, self.cache.next_shard);
        let mut draft = match self.draft.take() {
            Some(draft) => draft,
            None => ShardDraft::create(dir, number, Arc::clone(settings))?,
        };
        // On an error the draft is dropped and its temporary file removed: a file with half a row
        // cannot be continued.
        draft.add(id, fingerprint, clip)?;
        let full = draft.bytes() >= self.options.shard_bytes
            || draft.rows.len() >= self.options.shard_clips;
        self.draft = Some(draft);
        if full { self.try_commit() } else { Ok(()) }
    }

    /// Drops a clip. Its row stays on disk until its shard is collected.
    pub fn remove(&mut self, id: &str) -> bool {
        let in_draft = self.draft.as_mut().is_some_and(|draft| draft.remove(id));
        let in_index = self.cache.entries.remove(id).is_some();
        self.dirty |= in_index;
        in_draft || in_index
    }

    /// Notes a new stamp for audio that proved unchanged by its content (touched, copied, moved),
    /// so that the next run need not read it again to know.
    pub fn restamp(&mut self, id: &str, stamp: AudioStamp) -> bool {
        let Some(entry) = self.cache.entries.get_mut(id) else {
            return false;
        };
        self.dirty |= entry.fingerprint.audio != stamp;
        entry.fingerprint.audio = stamp;
        true
    }

    /// Finishes the shard being written, then the index: after this, all that was added survives
    /// whatever happens. Without changes, nothing is written.
    pub fn commit(&mut self) -> Result<(), CacheError> {
        self.try_commit().map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, error: ArrowError) -> CacheError {
        CacheError::writing(&self.cache.dir, error)
    }

    fn try_commit(&mut self) -> Result<(), ArrowError> {
        let cache = &mut self.cache;
        if let Some(draft) = self.draft.take() {
            let (record, rows) = draft.publish(&cache.dir)?;
            let mapping = map(&cache.dir.join(record.name.to_string()))?;
            let number = record.name.number;
            let shard = Shard::new(record, Some(mapping));
            cache.shards.insert(number, shard);
            cache.next_shard = number + 1;
            cache.entries.extend(rows);
            self.dirty = true;
        }
        if self.dirty {
            self.write_index()?;
        }
        Ok(())
    }

    fn write_index(&mut self) -> Result<(), ArrowError> {
        let cache = &mut self.cache;
        let live = cache.live_rows();
        let records = cache.shards.values().map(|shard| shard.record.clone());
        let (records, emptied): (Vec<_>, Vec<_>) =
            records.partition(|record| live.contains_key(&record.name.number));
        index::write(cache, &records)?;
        cache.next_generation += 1;
        self.dirty = false;
        // Only now: until the new index is on disk, the old one needs them. The spare stays: for a reader
        // who is listing the folder now, and for a damaged index.
        let superseded = Listing::read(&cache.dir)?.indexes.into_iter().skip(2);
        cache.shards.retain(|number, _| live.contains_key(number));
        for name in superseded.chain(emptied.into_iter().map(|record| record.name)) {
            layout::remove(&cache.dir.join(name.to_string()))?;
        }
        self.index_bytes = self.measure_index();
        Ok(())
    }

    fn measure_index(&self) -> u64 {
        let ids = self.cache.entries.keys();
        let rows: u64 = ids.map(|id| index_row_bytes(id)).sum();
        rows + 256 * self.cache.shards.len() as u64 + FILE_BYTES
    }
}
