//! Reading a cache: no lock, no write, no copy.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::FORMAT_VERSION;
use super::arrow_file::map;
use super::clip::ClipView;
use super::columns::Entry;
use super::error::{CacheError, DamagedShard, Warning};
use super::fingerprint::{FeatureSettings, Fingerprint, Freshness, RebuildReason, compare};
use super::index::{self, Index};
use super::layout::{FileName, Listing};
use super::shard::Shard;

/// A writer may replace index and shards between our listing them and opening them; then we list them
/// again, until nothing moves. The bound is for a folder that never comes to rest.
const ATTEMPTS: usize = 100;

/// A cache as it was when it was opened; what others write later is seen by opening it again.
///
/// Shared between threads by reference: looking up takes no lock, apart from the first who reads a
/// shard and checks it.
#[derive(Debug)]
pub struct Cache {
    pub(super) dir: PathBuf,
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) shards: BTreeMap<u64, Shard>,
    pub(super) next_shard: u64,
    pub(super) next_generation: u64,
    older_version: Option<u32>,
    pub(super) warnings: Vec<Warning>,
    pub(super) leftovers: Leftovers,
}

/// What a writer puts in order, and a reader leaves.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// The newest index does not say all: shards count that are not in it yet, or it is damaged.
    pub(super) outdated: bool,
    /// Files of no use: of killed writers, of older versions, damaged beyond knowing what they were.
    pub(super) files: Vec<PathBuf>,
}

impl Cache {
    /// Opens a cache for reading. A folder that does not exist is an empty cache.
    pub fn open(dir: &Path) -> Result<Self, CacheError> {
        let io_error = |source| CacheError::reading(dir, source);
        let mut before = None;
        let mut attempt = 1;
        loop {
            let listing = Listing::read(dir).map_err(io_error)?;
            refuse_newer(dir, &listing)?;
            // Missing in an unchanged folder means lost, not replaced.
            let at_rest = before.as_ref() == Some(&listing) || attempt == ATTEMPTS;
            let no_index = listing.indexes.is_empty() && !listing.shards.is_empty();
            // Taking in all shards reads them all, so that is not done on suspicion.
            if at_rest || !no_index {
                let (cache, missed) = Cache::from_listing(dir, &listing).map_err(io_error)?;
                if at_rest || !missed {
                    return Ok(cache);
                }
            }
            before = Some(listing);
            attempt += 1;
        }
    }

    /// Also says whether files were missed that a running writer may have replaced meanwhile.
    ///
    /// A file that cannot be opened is an error, not damage: too many open files, say, will pass,
    /// and must not cost the cache its index.
    fn from_listing(dir: &Path, listing: &Listing) -> io::Result<(Self, bool)> {
        let mut warnings = Vec::new();
        let mut files = [&listing.temporaries[..], &listing.older[..]].concat();
        let newest = listing.indexes.first().map_or(0, |name| name.number + 1);
        let mut missed = false;
        let mut found = None;
        for name in &listing.indexes {
            let Some(bytes) = map_listed(dir, name)? else {
                missed = true;
                continue;
            };
            match index::read(name, &bytes) {
                Ok(index) => {
                    found = Some(index);
                    break;
                }
                Err(why) => {
                    files.push(dir.join(name.to_string()));
                    warnings.push(Warning::DamagedIndex {
                        file: name.to_string(),
                        why,
                    });
                }
            }
        }
        let index: Index = found.unwrap_or_default();

        let mut shards = BTreeMap::new();
        for record in index.shards {
            let mapping = map_listed(dir, &record.name)?;
            missed |= mapping.is_none();
            shards.insert(record.name.number, Shard::new(record, mapping));
        }
        let mut cache = Cache {
            leftovers: Leftovers {
                outdated: !warnings.is_empty(),
                files,
            },
            dir: dir.to_owned(),
            entries: index.entries,
            shards,
            next_shard: index.next_shard,
            next_generation: newest,
            older_version: listing.older_version,
            warnings,
        };
        for (number, name) in &listing.shards {
            let described = cache.shards.get(number);
            if described.is_none_or(|shard| shard.record.name != *name) {
                missed |= !cache.take_in(*name)?;
            }
        }
        Ok((cache, missed))
    }

    /// A file that the index does not name: written after it, or discarded by it. Says whether it
    /// was still there.
    fn take_in(&mut self, name: FileName) -> io::Result<bool> {
        let path = self.dir.join(name.to_string());
        if name.number < self.next_shard {
            self.leftovers.files.push(path);
            return Ok(true);
        }
        let Some(mapping) = map_listed(&self.dir, &name)? else {
            return Ok(false);
        };
        self.next_shard = name.number + 1;
        let adopted = Shard::adopt(name, mapping).and_then(|shard| {
            let content = shard.content().map_err(|damage| damage.why)?;
            let entries = content.entries(name.number)?;
            Ok((entries, shard))
        });
        match adopted {
            Ok((entries, shard)) => {
                self.entries.extend(entries);
                self.shards.insert(name.number, shard);
                self.leftovers.outdated = true;
            }
            Err(why) => {
                self.leftovers.files.push(path);
                let file = name.to_string();
                let damage = DamagedShard { file, why };
                self.warnings.push(Warning::DamagedShard(damage, 0));
            }
        }
        Ok(true)
    }

    /// The folder it was opened from.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of clips.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no clip.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All clips by id, in order of id. Touches no shard.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// What the index says of a clip, without reading its shard.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Whether a clip's features can be reused, and if not, why. Touches no shard: damage that
    /// nobody has met yet shows up in [`Cache::get`], or beforehand by [`Cache::check_shards`].
    pub fn freshness(&self, id: &str, now: &Fingerprint, settings: &FeatureSettings) -> Freshness {
        let rebuild = |reason| Freshness::Rebuild {
            reason,
            audio_fresh: false,
        };
        let Some(entry) = self.entries.get(id) else {
            let new = FORMAT_VERSION;
            let version = |old| RebuildReason::VersionChanged { old, new };
            return rebuild(self.older_version.map_or(RebuildReason::New, version));
        };
        let shard = self.shard_of(entry);
        if shard.known_damage().is_some() {
            return rebuild(RebuildReason::DamagedShard);
        }
        let stored = (&entry.fingerprint, &*shard.record.settings);
        compare(stored, (now, settings))
    }

    /// A clip's features, borrowed from the memory map. The first read of a shard checks it.
    pub fn get(&self, id: &str) -> Result<Option<ClipView<'_>>, DamagedShard> {
        let Some(entry) = self.entries.get(id) else {
            return Ok(None);
        };
        let shard = self.shard_of(entry);
        match shard.content()?.clip(id, entry) {
            Some(clip) => Ok(Some(clip)),
            None => Err(shard.damage(format!("row {} is not clip `{id}`", entry.place.row))),
        }
    }

    fn shard_of(&self, entry: &Entry) -> &Shard {
        self.shards
            .get(&entry.place.shard)
            .expect("an index that names an unknown shard is refused when read")
    }

    /// Bytes of all files in the folder, as the file system counts them.
    pub fn disk_bytes(&self) -> io::Result<u64> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut bytes = 0;
        for entry in entries {
            match entry?.metadata() {
                // A file may go while we count.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                metadata => bytes += metadata?.len(),
            }
        }
        Ok(bytes)
    }

    /// How many clips of the index are in each shard that has any.
    pub(super) fn live_rows(&self) -> BTreeMap<u64, u32> {
        let mut live = BTreeMap::new();
        for entry in self.entries.values() {
            *live.entry(entry.place.shard).or_insert(0) += 1;
        }
        live
    }
}

/// A cache of a newer version is left alone.
pub(super) fn refuse_newer(dir: &Path, listing: &Listing) -> Result<(), CacheError> {
    let newer = |found| CacheError::NewerVersion {
        dir: dir.to_owned(),
        found,
        supported: FORMAT_VERSION,
    };
    listing
        .newer_version
        .map_or(Ok(()), |found| Err(newer(found)))
}

/// `None` for a file that was there a moment ago, and no longer is.
fn map_listed(dir: &Path, name: &FileName) -> io::Result<Option<Bytes>> {
    match map(&dir.join(name.to_string())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        mapping => mapping.map(Some),
    }
}
