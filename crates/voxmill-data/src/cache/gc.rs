//! Collection: the space of rows that nobody will read again is released.

use std::sync::Arc;

use super::columns::Entry;
use super::error::CacheError;
use super::shard::Shard;
use super::writer::CacheWriter;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Clips dropped since nobody wants them any more.
    pub clips_removed: usize,
    /// Clips dropped since their shard turned out damaged.
    pub clips_damaged: usize,
    pub shards_before: usize,
    pub shards_after: usize,
    pub bytes_freed: u64,
}

impl CacheWriter {
    /// Drops the clips that `keep` does not want, then rewrites the shards of which more than half
    /// is dead, and merges small ones. Others keep their dead rows: rewriting them would cost more
    /// than it gives back.
    ///
    /// Sources are deleted as soon as the shard that replaces them is finished, so at no time is
    /// there more than one shard twice. A failure in between loses nothing.
    pub fn gc(&mut self, keep: impl Fn(&str) -> bool) -> Result<Collected, CacheError> {
        self.commit()?;
        let bytes_before = self.disk_bytes()?;
        let clips_before = self.cache.len();
        let mut collected = Collected {
            shards_before: self.cache.shards.len(),
            ..Collected::default()
        };
        self.cache.entries.retain(|id, _| keep(id));
        collected.clips_removed = clips_before - self.cache.len();
        self.dirty |= collected.clips_removed > 0;

        for number in self.worth_rewriting() {
            collected.clips_damaged += self.rewrite(number)?;
        }
        self.commit()?;
        collected.shards_after = self.cache.shards.len();
        collected.bytes_freed = bytes_before.saturating_sub(self.disk_bytes()?);
        Ok(collected)
    }

    fn worth_rewriting(&self) -> Vec<u64> {
        let live = self.cache.live_rows();
        // A shard with no live row needs no rewriting: the next commit deletes it.
        let shards = live.iter();
        let shards = shards.filter_map(|(n, live)| Some((self.cache.shards.get(n)?, *live)));
        let shards: Vec<(&Shard, u32)> = shards.collect();
        let small = |shard: &Shard| shard.record.bytes < self.options.shard_bytes / 4;
        let mergeable = |shard: &Shard| {
            let alike = |other: &Shard| {
                small(other)
                    && other.record.name != shard.record.name
                    && other.record.settings == shard.record.settings
            };
            small(shard) && shards.iter().any(|(other, _)| alike(other))
        };
        let worth =
            |(shard, live): &&(&Shard, u32)| live * 2 < shard.record.rows || mergeable(shard);
        let worth = shards.iter().filter(worth);
        worth.map(|(shard, _)| shard.record.name.number).collect()
    }

    /// Copies a shard's live rows into the shard being written, under the settings they were computed
    /// with. Returns how many clips were lost to damage.
    fn rewrite(&mut self, number: u64) -> Result<usize, CacheError> {
        let Some(shard) = self.cache.shards.get(&number) else {
            return Ok(0);
        };
        let settings = Arc::clone(&shard.record.settings);
        // Our own reference: the shard may go from the cache while the last of its rows is copied.
        let content = shard.content().map(Arc::clone);
        let in_shard = |(_, entry): &(&str, &Entry)| entry.place.shard == number;
        let rows = self.cache.entries().filter(in_shard);
        let mut rows: Vec<_> = rows.map(|(id, entry)| (id.to_owned(), *entry)).collect();
        rows.sort_by_key(|(_, entry)| entry.place.row);
        let mut damaged = 0;
        for (id, entry) in rows {
            let content = content.as_ref().ok();
            match content.and_then(|content| content.clip(&id, &entry)) {
                Some(clip) => {
                    let appended = self.append(&id, &entry.fingerprint, &clip, &settings);
                    appended.map_err(|error| self.failed(error))?;
                }
                None => {
                    self.remove(&id);
                    damaged += 1;
                }
            }
        }
        Ok(damaged)
    }

    fn disk_bytes(&self) -> Result<u64, CacheError> {
        let bytes = self.cache.disk_bytes();
        bytes.map_err(|error| CacheError::reading(&self.cache.dir, error))
    }
}
