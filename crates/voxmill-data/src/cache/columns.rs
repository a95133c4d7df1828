//! The columns that index and shards share: what is known of a clip without opening its shard.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeBinaryArray, Float32Array, Int64Array,
    PrimitiveArray, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field};

use super::fingerprint::{AudioStamp, Fingerprint, Hash128};
use crate::features::Levels;
use voxmill_text::language::{Language, UnknownLanguage};

/// A clip in the index: enough for every table and check that `prepare` prints, so that a run on an
/// unchanged dataset touches no shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub fingerprint: Fingerprint,
    pub language: Language,
    pub frames: u32,
    pub mel_channels: u16,
    pub token_count: u32,
    pub levels: Levels,
    pub(super) place: ShardPlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardPlace {
    pub(super) shard: u64,
    pub(super) row: u32,
}

pub(super) fn fields() -> Vec<Field> {
    let hash = DataType::FixedSizeBinary(16);
    let column = |name: &str, kind: DataType| Field::new(name, kind, false);
    vec![
        column("id", DataType::Utf8),
        column("language", DataType::Utf8),
        column("frames", DataType::UInt32),
        column("mel_channels", DataType::UInt16),
        column("token_count", DataType::UInt32),
        column("peak", DataType::Float32),
        column("rms_dbfs", DataType::Float32),
        column("clipped_share", DataType::Float32),
        column("audio_bytes", DataType::UInt64),
        column("audio_modified_ns", DataType::Int64),
        Field::new("audio_hash", hash.clone(), true),
        column("text_hash", hash),
    ]
}

/// In the order of [`fields`].
pub(super) fn arrays(rows: &[(&str, &Entry)]) -> Vec<ArrayRef> {
    let ids = rows.iter().map(|(id, _)| *id);
    let languages = rows.iter().map(|(_, entry)| entry.language.code());
    vec![
        Arc::new(StringArray::from_iter_values(ids)),
        Arc::new(StringArray::from_iter_values(languages)),
        numbers::<UInt32Type>(rows, |entry| entry.frames),
        numbers::<UInt16Type>(rows, |entry| entry.mel_channels),
        numbers::<UInt32Type>(rows, |entry| entry.token_count),
        numbers::<Float32Type>(rows, |entry| entry.levels.peak),
        numbers::<Float32Type>(rows, |entry| entry.levels.rms_dbfs),
        numbers::<Float32Type>(rows, |entry| entry.levels.clipped_share),
        numbers::<UInt64Type>(rows, |entry| entry.fingerprint.audio.bytes),
        numbers::<Int64Type>(rows, |entry| entry.fingerprint.audio.modified_ns),
        hashes(rows, |print| print.audio.content),
        hashes(rows, |print| Some(print.text)),
    ]
}

/// A column of numbers.
pub(super) fn numbers<T: ArrowPrimitiveType>(
    rows: &[(&str, &Entry)],
    value: impl Fn(&Entry) -> T::Native,
) -> ArrayRef {
    let values = rows.iter().map(|(_, entry)| value(entry));
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

fn hashes(rows: &[(&str, &Entry)], hash: impl Fn(&Fingerprint) -> Option<Hash128>) -> ArrayRef {
    let values = rows.iter().map(|(_, entry)| hash(&entry.fingerprint));
    let values = values.map(|hash| hash.map(|hash| hash.0));
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 16);
    Arc::new(array.expect("every value has 16 bytes by its type"))
}

/// Reads the shared columns back; `place` gives the place of row `n` of this batch.
pub(super) fn entries(
    batch: &RecordBatch,
    place: impl Fn(usize) -> ShardPlace,
) -> Result<Vec<(String, Entry)>, String> {
    let ids: &StringArray = column(batch, "id")?;
    let languages: &StringArray = column(batch, "language")?;
    let frames: &UInt32Array = column(batch, "frames")?;
    let mel_channels: &UInt16Array = column(batch, "mel_channels")?;
    let token_counts: &UInt32Array = column(batch, "token_count")?;
    let peaks: &Float32Array = column(batch, "peak")?;
    let rms: &Float32Array = column(batch, "rms_dbfs")?;
    let clipped: &Float32Array = column(batch, "clipped_share")?;
    let audio_bytes: &UInt64Array = column(batch, "audio_bytes")?;
    let modified: &Int64Array = column(batch, "audio_modified_ns")?;
    let audio_hashes: &FixedSizeBinaryArray = column(batch, "audio_hash")?;
    let text_hashes: &FixedSizeBinaryArray = column(batch, "text_hash")?;
    let hash = |array: &FixedSizeBinaryArray, row| {
        let bytes: Result<[u8; 16], _> = array.value(row).try_into();
        bytes
            .map(Hash128)
            .map_err(|_| "a hash is not 16 bytes long")
    };
    let mut rows = Vec::with_capacity(batch.num_rows());
    // Neighbours mostly share their language, and parsing it allocates.
    let mut language = Language::UNDETERMINED;
    for row in 0..batch.num_rows() {
        let content = match audio_hashes.is_valid(row) {
            true => Some(hash(audio_hashes, row)?),
            false => None,
        };
        let code = languages.value(row);
        if code != language.code() {
            let parsed = code.parse();
            language = parsed.map_err(|error: UnknownLanguage| error.to_string())?;
        }
        let entry = Entry {
            fingerprint: Fingerprint {
                audio: AudioStamp {
                    bytes: audio_bytes.value(row),
                    modified_ns: modified.value(row),
                    content,
                },
                text: hash(text_hashes, row)?,
            },
            language,
            frames: frames.value(row),
            mel_channels: mel_channels.value(row),
            token_count: token_counts.value(row),
            levels: Levels {
                peak: peaks.value(row),
                rms_dbfs: rms.value(row),
                clipped_share: clipped.value(row),
            },
            place: place(row),
        };
        rows.push((ids.value(row).to_owned(), entry));
    }
    Ok(rows)
}

/// A column by name and type.
pub(super) fn column<'a, A: Array + 'static>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a A, String> {
    let array = batch.column_by_name(name);
    let typed = array.and_then(|array| array.as_any().downcast_ref::<A>());
    typed.ok_or_else(|| format!("it has no column `{name}` of the type expected"))
}

/// The values of a list's row, borrowed from wherever the array lies.
pub(super) fn list_row<T: ArrowPrimitiveType>(
    list: &arrow_array::ListArray,
    row: usize,
) -> Option<&[T::Native]> {
    let offsets = list.value_offsets();
    let start = usize::try_from(*offsets.get(row)?).ok()?;
    let end = usize::try_from(*offsets.get(row + 1)?).ok()?;
    let values = list.values().as_primitive_opt::<T>()?;
    values.values().get(start..end)
}
