//! A shard: some hundred clips in one file, written row by row and read through a memory map.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow_array::types::{Float32Type, UInt16Type};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::arrow_file::{ArrowDraft, check_and_read};
use super::clip::ClipView;
use super::columns::{self, Entry, ShardPlace, column, list_row};
use super::error::DamagedShard;
use super::fingerprint::{FeatureSettings, Fingerprint};
use super::index::ShardRecord;
use super::layout::{FileKind, FileName};
use super::room::index_row_bytes;

const SETTINGS_KEY: &str = "voxmill.settings";
const VERSION_KEY: &str = "voxmill.version";

/// Rows are handed to the file in portions of this size, so that a writer holds a few megabytes
/// whatever the size of its shards.
const PORTION_BYTES: usize = 4 << 20;

/// A shard being written. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct ShardDraft {
    file: ArrowDraft,
    schema: SchemaRef,
    pub(super) settings: Arc<FeatureSettings>,
    number: u64,
    /// All rows so far; `None` where the clip was removed again before the shard was finished.
    pub(super) rows: Vec<Option<(String, Entry)>>,
    portion: Portion,
    /// What its rows will take in the index.
    pub(super) index_bytes: u64,
}

/// Rows not yet handed to the file.
#[derive(Debug, Default)]
struct Portion {
    rows: Vec<(String, Entry)>,
    normalized: Vec<String>,
    tokens: Vec<u16>,
    token_counts: Vec<usize>,
    mel: Vec<f32>,
    mel_counts: Vec<usize>,
    /// As estimated by [`ClipView::bytes`].
    bytes: u64,
}

impl Portion {
    fn empty() -> Portion {
        // Growing step by step would copy all frames once more on their way.
        let mel = Vec::with_capacity(PORTION_BYTES / size_of::<f32>());
        Portion {
            mel,
            ..Portion::default()
        }
    }
}

impl ShardDraft {
    pub(super) fn create(
        dir: &Path,
        number: u64,
        settings: Arc<FeatureSettings>,
    ) -> Result<Self, ArrowError> {
        let json = serde_json::to_string(&*settings)
            .map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        let metadata = HashMap::from([
            (SETTINGS_KEY.to_owned(), json),
            (VERSION_KEY.to_owned(), super::FORMAT_VERSION.to_string()),
        ]);
        let mut fields = columns::fields();
        fields.push(Field::new("normalized", DataType::Utf8, false));
        fields.push(list_field("tokens", DataType::UInt16));
        fields.push(list_field("mel", DataType::Float32));
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        Ok(ShardDraft {
            file: ArrowDraft::create(dir, &schema)?,
            schema,
            settings,
            number,
            rows: Vec::new(),
            portion: Portion::empty(),
            index_bytes: 0,
        })
    }

    /// What the file will have when finished now, roughly.
    pub(super) fn bytes(&self) -> u64 {
        self.file.bytes() + self.portion.bytes
    }

    pub(super) fn add(
        &mut self,
        id: &str,
        fingerprint: &Fingerprint,
        clip: &ClipView<'_>,
    ) -> Result<(), ArrowError> {
        let row = u32::try_from(self.rows.len()).expect("a shard is finished far earlier");
        let entry = Entry {
            fingerprint: *fingerprint,
            language: clip.language,
            frames: clip.frames() as u32,
            mel_channels: clip.mel_channels,
            token_count: clip.tokens.len() as u32,
            levels: clip.levels,
            place: ShardPlace {
                shard: self.number,
                row,
            },
        };
        self.rows.push(Some((id.to_owned(), entry)));
        self.index_bytes += index_row_bytes(id);
        let portion = &mut self.portion;
        portion.rows.push((id.to_owned(), entry));
        portion.normalized.push(clip.normalized.to_owned());
        portion.tokens.extend_from_slice(clip.tokens);
        portion.token_counts.push(clip.tokens.len());
        portion.mel.extend_from_slice(clip.mel);
        portion.mel_counts.push(clip.mel.len());
        portion.bytes += clip.bytes();
        if portion.bytes >= PORTION_BYTES as u64 {
            self.write_portion()?;
        }
        Ok(())
    }

    /// Takes back rows that were added for a clip; they stay in the file, dead.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let mut found = false;
        for row in &mut self.rows {
            found |= row.take_if(|(row_id, _)| row_id == id).is_some();
        }
        found
    }

    fn write_portion(&mut self) -> Result<(), ArrowError> {
        let portion = std::mem::replace(&mut self.portion, Portion::empty());
        if portion.rows.is_empty() {
            return Ok(());
        }
        let rows: Vec<(&str, &Entry)> = portion.rows.iter().map(|(id, e)| (&**id, e)).collect();
        let mut arrays = columns::arrays(&rows);
        arrays.push(Arc::new(StringArray::from_iter_values(&portion.normalized)));
        arrays.push(lists::<UInt16Type>(portion.tokens, portion.token_counts)?);
        arrays.push(lists::<Float32Type>(portion.mel, portion.mel_counts)?);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)?;
        self.file.write(&batch)
    }

    /// Publishes the shard and returns its record with the rows that are live in it.
    pub(super) fn publish(
        mut self,
        dir: &Path,
    ) -> Result<(ShardRecord, Vec<(String, Entry)>), ArrowError> {
        self.write_portion()?;
        let (name, bytes) = self.file.publish(dir, FileKind::Shard, self.number)?;
        let record = ShardRecord {
            name,
            bytes,
            rows: self.rows.len() as u32,
            settings: self.settings,
        };
        Ok((record, self.rows.into_iter().flatten().collect()))
    }
}

fn list_field(name: &str, item: DataType) -> Field {
    Field::new(name, DataType::List(item_field(item)), false)
}

fn item_field(item: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", item, false))
}

/// The values move into the array: no copy.
fn lists<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    counts: Vec<usize>,
) -> Result<ArrayRef, ArrowError> {
    let values = PrimitiveArray::<T>::new(ScalarBuffer::from(values), None);
    let (field, offsets) = (item_field(T::DATA_TYPE), OffsetBuffer::from_lengths(counts));
    let list = ListArray::try_new(field, offsets, Arc::new(values), None)?;
    Ok(Arc::new(list))
}

/// A finished shard. Mapped when the cache is opened, so that it outlives its unlinking; checked
/// when first read (about 20 ms for 64 MB), so that opening stays cheap.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) record: ShardRecord,
    mapping: Bytes,
    content: OnceLock<Result<Arc<ShardContent>, DamagedShard>>,
}

/// The rows of a checked shard, borrowed from its mapping.
#[derive(Debug)]
pub(super) struct ShardContent {
    batches: Vec<RecordBatch>,
    /// First row of each batch.
    starts: Vec<u32>,
}

impl Shard {
    /// `None` for a file that is missing.
    pub(super) fn new(record: ShardRecord, mapping: Option<Bytes>) -> Self {
        let fault = match &mapping {
            None => Some("it is missing"),
            Some(bytes) if bytes.len() as u64 != record.bytes => {
                Some("its size is not what was written")
            }
            Some(_) => None,
        };
        let mut shard = Shard {
            record,
            mapping: mapping.unwrap_or_default(),
            content: OnceLock::new(),
        };
        if let Some(why) = fault {
            shard.content = OnceLock::from(Err(shard.damage(why.to_owned())));
        }
        shard
    }

    pub(super) fn damage(&self, why: String) -> DamagedShard {
        DamagedShard {
            file: self.record.name.to_string(),
            why,
        }
    }

    /// What is known already, without reading anything.
    pub(super) fn known_damage(&self) -> Option<&DamagedShard> {
        self.content.get()?.as_ref().err()
    }

    /// What another look at the same file has found. Our own look counts more.
    pub(super) fn believe(&self, damage: &DamagedShard) {
        let _ = self.content.set(Err(damage.clone()));
    }

    /// Checks on the first call; other threads that need the same shard wait for it.
    pub(super) fn content(&self) -> Result<&Arc<ShardContent>, DamagedShard> {
        let check = || {
            let (_, batches) = check_and_read(&self.record.name, &self.mapping)?;
            ShardContent::new(batches).map(Arc::new)
        };
        let checked = || check().map_err(|why| self.damage(why));
        self.content
            .get_or_init(checked)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Takes in a shard that no index describes; it must be whole.
    pub(super) fn adopt(name: FileName, mapping: Bytes) -> Result<Self, String> {
        let (schema, batches) = check_and_read(&name, &mapping)?;
        let settings = schema.metadata().get(SETTINGS_KEY);
        let settings = settings.ok_or("it has no settings")?;
        let settings = serde_json::from_str(settings).map_err(|error| error.to_string())?;
        let record = ShardRecord {
            name,
            bytes: mapping.len() as u64,
            rows: batches.iter().map(|batch| batch.num_rows() as u32).sum(),
            settings: Arc::new(settings),
        };
        let content = Ok(Arc::new(ShardContent::new(batches)?));
        Ok(Shard {
            record,
            mapping,
            content: OnceLock::from(content),
        })
    }
}

impl ShardContent {
    fn new(batches: Vec<RecordBatch>) -> Result<Self, String> {
        let mut starts = Vec::with_capacity(batches.len());
        let mut rows = 0;
        for batch in &batches {
            starts.push(rows);
            rows += batch.num_rows() as u32;
            // Types are checked here once, so that a row that cannot be found is the index's fault.
            column::<StringArray>(batch, "id")?;
            column::<StringArray>(batch, "normalized")?;
            column::<ListArray>(batch, "tokens")?;
            column::<ListArray>(batch, "mel")?;
        }
        Ok(ShardContent { batches, starts })
    }

    /// All rows, in order: what the index would say about them.
    pub(super) fn entries(&self, shard: u64) -> Result<Vec<(String, Entry)>, String> {
        let mut all = Vec::new();
        for (batch, start) in self.batches.iter().zip(&self.starts) {
            all.extend(columns::entries(batch, |row| ShardPlace {
                shard,
                row: start + row as u32,
            })?);
        }
        Ok(all)
    }

    /// The clip an entry points to, or `None` when the row is not that clip's.
    pub(super) fn clip(&self, id: &str, entry: &Entry) -> Option<ClipView<'_>> {
        let row = entry.place.row;
        let after = self.starts.partition_point(|start| *start <= row);
        let number = after.checked_sub(1)?;
        let batch = self.batches.get(number)?;
        let row = (row - self.starts[number]) as usize;
        let text = |name| {
            let array = column::<StringArray>(batch, name).ok()?;
            (row < batch.num_rows()).then(|| array.value(row))
        };
        if text("id")? != id {
            return None;
        }
        let tokens = column::<ListArray>(batch, "tokens").ok()?;
        let mel = column::<ListArray>(batch, "mel").ok()?;
        let clip = ClipView {
            language: entry.language,
            normalized: text("normalized")?,
            tokens: list_row::<UInt16Type>(tokens, row)?,
            mel: list_row::<Float32Type>(mel, row)?,
            mel_channels: entry.mel_channels,
            levels: entry.levels,
        };
        let fits = clip.fault().is_none()
            && clip.frames() == entry.frames as usize
            && clip.tokens.len() == entry.token_count as usize;
        fits.then_some(clip)
    }
}
