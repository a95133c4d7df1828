//! Damage: found by a look at some shards in every run, and cleared away by the next writer.

use std::hash::{BuildHasher, RandomState};

use super::columns::Entry;
use super::error::Warning;
use super::reader::Cache;
use super::shard::Shard;
use super::writer::CacheWriter;

/// What [`Cache::check_some`] reads, and at least one shard: some 40 ms. Caches of up to an hour of audio are
/// checked whole in every run.
const SAMPLE_BYTES: u64 = 128 << 20;

impl Cache {
    /// Checks the content of some shards, others in each run; sizes are always known from opening.
    pub fn check_some(&self) {
        let draw = RandomState::new();
        let mut shards: Vec<&Shard> = self.shards.values().collect();
        shards.sort_by_cached_key(|shard| draw.hash_one(shard.record.name.number));
        let mut bytes = 0;
        for shard in shards {
            if bytes >= SAMPLE_BYTES {
                break;
            }
            bytes += shard.record.bytes;
            // The outcome stays in the shard.
            let _ = shard.content();
        }
    }

    /// Reads and checks every shard (for `--verify`); afterwards [`Cache::freshness`] knows all
    /// damage, and [`Cache::warnings`] reports it. Costs the reading of the whole cache.
    pub fn check_shards(&self) {
        for shard in self.shards.values() {
            // The outcome stays in the shard.
            let _ = shard.content();
        }
    }

    /// What is wrong, as far as it is known by now. All of it is repaired by a writer that commits after
    /// [`CacheWriter::drop_damaged`].
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.warnings.clone();
        for (number, shard) in &self.shards {
            if let Some(damage) = shard.known_damage() {
                let lost = |entry: &&Entry| entry.place.shard == *number;
                let clips = self.entries.values().filter(lost).count();
                // A spare index may name a shard that was superseded since.
                if clips > 0 {
                    warnings.push(Warning::DamagedShard(damage.clone(), clips));
                }
            }
        }
        warnings
    }
}

impl CacheWriter {
    /// Believes what another look at the same cache has found damaged.
    pub fn learn_damage(&self, from: &Cache) {
        for (number, shard) in &from.shards {
            let ours = self.cache.shards.get(number);
            let ours = ours.filter(|ours| ours.record.name == shard.record.name);
            if let (Some(ours), Some(damage)) = (ours, shard.known_damage()) {
                ours.believe(damage);
            }
        }
    }

    /// Drops all clips of shards that are known to be damaged; with the next commit the files go.
    pub fn drop_damaged(&mut self) {
        let shards = &self.cache.shards;
        let is_whole = |entry: &Entry| {
            let shard = shards.get(&entry.place.shard);
            shard.is_none_or(|shard| shard.known_damage().is_none())
        };
        let before = self.cache.entries.len();
        self.cache.entries.retain(|_, entry| is_whole(entry));
        self.dirty |= self.cache.entries.len() < before;
    }
}
