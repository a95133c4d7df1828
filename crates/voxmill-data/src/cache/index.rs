//! The index: which clip is in which row of which shard, loaded whole when a cache is opened.
//!
//! It exists for speed (no shard is touched on opening) and for memory of what was removed; the
//! shards alone would do.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::FORMAT_VERSION;
use super::arrow_file::{ArrowDraft, check_and_read};
use super::columns::{self, Entry, ShardPlace, column, numbers};
use super::fingerprint::FeatureSettings;
use super::layout::{FileKind, FileName};
use super::reader::Cache;

const SUMMARY_KEY: &str = "voxmill.index";

/// Sorted by id, on disk as in memory: looking up needs no hashing, and the file is reproducible.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) shards: Vec<ShardRecord>,
    /// Shards numbered from here on were written after this index.
    pub(super) next_shard: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ShardRecord {
    pub(super) name: FileName,
    pub(super) bytes: u64,
    /// Live and dead.
    pub(super) rows: u32,
    pub(super) settings: Arc<FeatureSettings>,
}

/// What does not fit a table of clips, as JSON in the schema's metadata.
#[derive(Serialize, Deserialize)]
struct IndexSummary {
    version: u32,
    next_shard: u64,
    shards: Vec<ShardSummary>,
    /// Each set once: nearly always there is one.
    settings: Vec<FeatureSettings>,
}

#[derive(Serialize, Deserialize)]
struct ShardSummary {
    file: String,
    bytes: u64,
    rows: u32,
    settings: usize,
}

/// Writes the next index of a cache, with these shards, next to its predecessors.
pub(super) fn write(cache: &Cache, shards: &[ShardRecord]) -> Result<(), ArrowError> {
    let mut fields = columns::fields();
    fields.push(Field::new("shard", DataType::UInt64, false));
    fields.push(Field::new("row", DataType::UInt32, false));
    let summary = summarize(shards, cache.next_shard)
        .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let metadata = HashMap::from([(SUMMARY_KEY.to_owned(), summary)]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));

    let rows: Vec<(&str, &Entry)> = cache.entries().collect();
    let mut arrays = columns::arrays(&rows);
    arrays.push(numbers::<UInt64Type>(&rows, |entry| entry.place.shard));
    arrays.push(numbers::<UInt32Type>(&rows, |entry| entry.place.row));
    let mut draft = ArrowDraft::create(&cache.dir, &schema)?;
    draft.write(&RecordBatch::try_new(schema, arrays)?)?;
    draft.publish(&cache.dir, FileKind::Index, cache.next_generation)?;
    Ok(())
}

fn summarize(shards: &[ShardRecord], next_shard: u64) -> Result<String, serde_json::Error> {
    let mut settings: Vec<FeatureSettings> = Vec::new();
    let mut records = Vec::with_capacity(shards.len());
    for shard in shards {
        let known = settings.iter().position(|s| *s == *shard.settings);
        let position = known.unwrap_or_else(|| {
            settings.push((*shard.settings).clone());
            settings.len() - 1
        });
        records.push(ShardSummary {
            file: shard.name.to_string(),
            bytes: shard.bytes,
            rows: shard.rows,
            settings: position,
        });
    }
    serde_json::to_string(&IndexSummary {
        version: FORMAT_VERSION,
        next_shard,
        shards: records,
        settings,
    })
}

/// Checks and reads an index; the error says what is wrong with it.
pub(super) fn read(name: &FileName, bytes: &Bytes) -> Result<Index, String> {
    let (schema, batches) = check_and_read(name, bytes)?;
    let summary = schema.metadata().get(SUMMARY_KEY);
    let summary = summary.ok_or("it has no summary")?;
    let summary: IndexSummary = serde_json::from_str(summary).map_err(|error| error.to_string())?;
    if summary.version != FORMAT_VERSION {
        return Err("its version is not that of its name".to_owned());
    }
    let settings: Vec<_> = summary.settings.into_iter().map(Arc::new).collect();
    let mut shards = Vec::with_capacity(summary.shards.len());
    for shard in summary.shards {
        shards.push(ShardRecord {
            name: FileName::parse(&shard.file).ok_or("it names a file that is not a shard")?,
            bytes: shard.bytes,
            rows: shard.rows,
            settings: Arc::clone(settings.get(shard.settings).ok_or("it lacks settings")?),
        });
    }
    let mut entries = Vec::new();
    for batch in &batches {
        let numbers: &UInt64Array = column(batch, "shard")?;
        let rows: &UInt32Array = column(batch, "row")?;
        entries.extend(columns::entries(batch, |row| ShardPlace {
            shard: numbers.value(row),
            row: rows.value(row),
        })?);
    }
    let known: BTreeSet<u64> = shards.iter().map(|shard| shard.name.number).collect();
    let is_unknown = |(_, entry): &(String, Entry)| !known.contains(&entry.place.shard);
    if entries.iter().any(is_unknown) {
        return Err("it names a shard without describing it".to_owned());
    }
    Ok(Index {
        // Sorted already: collecting into the tree is one linear pass.
        entries: entries.into_iter().collect(),
        shards,
        next_shard: summary.next_shard,
    })
}
