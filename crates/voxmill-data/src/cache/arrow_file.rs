//! Arrow IPC files, written through a [`Draft`] and read from bytes that were checked and mapped.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_ipc::{Block, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;

use super::fingerprint::Hash128;
use super::layout::{Draft, FileKind, FileName};

/// A cache line, and what Arrow recommends for vector units.
const ALIGNMENT: usize = 64;

pub(super) struct ArrowDraft {
    writer: FileWriter<BufWriter<Draft>>,
}

impl fmt::Debug for ArrowDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writer.get_ref().fmt(f)
    }
}

impl ArrowDraft {
    pub(super) fn create(dir: &Path, schema: &Schema) -> Result<Self, ArrowError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let out = BufWriter::new(Draft::create(dir)?);
        let writer = FileWriter::try_new_with_options(out, schema, options)?;
        Ok(ArrowDraft { writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.writer.write(batch)
    }

    /// Written so far, up to the buffer's 8 KiB.
    pub(super) fn bytes(&self) -> u64 {
        let out = self.writer.get_ref();
        out.get_ref().bytes + out.buffer().len() as u64
    }

    /// Returns the file's name and size.
    pub(super) fn publish(
        mut self,
        dir: &Path,
        kind: FileKind,
        number: u64,
    ) -> Result<(FileName, u64), ArrowError> {
        self.writer.finish()?;
        let out = self.writer.into_inner()?;
        let draft = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = draft.bytes;
        Ok((draft.publish(dir, kind, number)?, bytes))
    }
}

/// Maps a file of the cache. Costs some microseconds; pages are read when they are touched.
pub(super) fn map(path: &Path) -> io::Result<Bytes> {
    let found = fs::metadata(path)?;
    // A pipe or a device is as damaged as an empty file: opening it could wait for ever. A folder cannot be mapped.
    if !(found.is_file() || found.is_dir()) || found.len() == 0 {
        return Ok(Bytes::new());
    }
    let file = File::open(path)?;
    #[expect(unsafe_code, reason = "a memory map is the point of the cache")]
    // SAFETY: published files are never written to again, only unlinked, which leaves the mapping
    // intact. Somebody else who writes into one while we run breaks this; no program can map a file
    // and be safe from that.
    let mapping = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(mapping))
}

/// Checks bytes against the hash in their file's name, and only then lets Arrow see them.
pub(super) fn check_and_read(
    name: &FileName,
    bytes: &Bytes,
) -> Result<(SchemaRef, Vec<RecordBatch>), String> {
    if Hash128::of(bytes) != name.hash {
        return Err("its content does not match the hash in its name".to_owned());
    }
    read(bytes).map_err(|error| error.to_string())
}

/// The arrays borrow from `bytes`: nothing is copied, and misalignment is an error.
fn read(bytes: &Bytes) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let buffer = Buffer::from(bytes.clone());
    let short = || ArrowError::ParseError("the file is too short".to_owned());
    let trailer: [u8; 10] = *buffer.last_chunk().ok_or_else(short)?;
    let footer_end = buffer.len() - trailer.len();
    let footer_start = footer_end.checked_sub(read_footer_length(trailer)?);
    let footer = &buffer[footer_start.ok_or_else(short)?..footer_end];
    let footer =
        root_as_footer(footer).map_err(|error| ArrowError::ParseError(error.to_string()))?;
    let no_schema = || ArrowError::ParseError("the file has no schema".to_owned());
    let schema = footer.schema().ok_or_else(no_schema)?;
    let schema: SchemaRef = Arc::new(try_fb_to_schema(schema)?);
    if let Some(field) = schema.fields().iter().find(|field| !is_ours(field)) {
        let what = format!("no file of a cache has a column like `{field}`");
        return Err(ArrowError::SchemaError(what));
    }
    let decoder =
        FileDecoder::new(Arc::clone(&schema), footer.version()).with_require_alignment(true);
    let mut batches = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        let message = slice(&buffer, block).ok_or_else(short)?;
        check_parts(&message, block)?;
        batches.extend(decoder.read_record_batch(block, &message)?);
    }
    Ok((schema, batches))
}

/// What we write. The decoder trusts the counts of more complicated columns.
fn is_ours(field: &Field) -> bool {
    use DataType::{FixedSizeBinary, Float32, Int64, List, UInt16, UInt32, UInt64, Utf8};
    match field.data_type() {
        Utf8 | UInt16 | UInt32 | UInt64 | Int64 | Float32 | FixedSizeBinary(16) => true,
        List(item) => matches!(item.data_type(), UInt16 | Float32),
        _ => false,
    }
}

/// The parts of a batch lie within it: the decoder panics where one does not.
fn check_parts(message: &[u8], block: &Block) -> Result<(), ArrowError> {
    let wrong = |what: &str| Err(ArrowError::ParseError(format!("a batch {what}")));
    let (header, body) = message.split_at(block.metaDataLength() as usize);
    // Since version 5, four bytes of ones stand before the length of the header.
    let header = match header.strip_prefix(&[0xff; 4]) {
        Some(rest) => &rest[4..],
        None => &header[4..],
    };
    let message = match root_as_message(header) {
        Ok(message) => message,
        Err(error) => return wrong(&error.to_string()),
    };
    let Some(batch) = message.header_as_record_batch() else {
        return wrong("is none");
    };
    if batch.compression().is_some() {
        return wrong("is compressed");
    }
    let is_count = |count: i64| (0..=i64::from(u32::MAX)).contains(&count);
    let mut nodes = batch.nodes().into_iter().flatten();
    if !is_count(batch.length())
        || !nodes.all(|node| is_count(node.length()) && is_count(node.null_count()))
    {
        return wrong("has rows that cannot be counted");
    }
    let is_within = |part: &arrow_ipc::Buffer| {
        let (start, length) = (part.offset(), part.length());
        let end = start.checked_add(length);
        start >= 0 && length >= 0 && end.is_some_and(|end| end as u64 <= body.len() as u64)
    };
    match batch.buffers().iter().flatten().all(is_within) {
        true => Ok(()),
        false => wrong("has parts that lie outside of it"),
    }
}

fn slice(buffer: &Buffer, block: &Block) -> Option<Buffer> {
    let offset = usize::try_from(block.offset()).ok()?;
    let header = usize::try_from(block.metaDataLength()).ok()?;
    let body = usize::try_from(block.bodyLength()).ok()?;
    let length = body.checked_add(header)?;
    let fits = offset.checked_add(length)? <= buffer.len() && header >= 8;
    fits.then(|| buffer.slice_with_length(offset, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Float32Array};

    fn published(dir: &Path) -> FileName {
        let values: ArrayRef = Arc::new(Float32Array::from_iter_values((0..100).map(|i| i as f32)));
        let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
        let mut draft = ArrowDraft::create(dir, &batch.schema()).unwrap();
        draft.write(&batch).unwrap();
        draft.write(&batch).unwrap();
        let (name, bytes) = draft.publish(dir, FileKind::Shard, 1).unwrap();
        let length = fs::metadata(dir.join(name.to_string())).unwrap().len();
        assert_eq!(length, bytes);
        name
    }

    #[test]
    fn arrays_lie_inside_the_mapping() {
        let dir = tempfile::tempdir().unwrap();
        let name = published(dir.path());
        let bytes = map(&dir.path().join(name.to_string())).unwrap();
        let (_, batches) = check_and_read(&name, &bytes).unwrap();
        assert_eq!(batches.len(), 2);
        let file = bytes.as_ptr_range();
        for batch in &batches {
            let values = batch.column(0).to_data().buffers()[0].as_ptr();
            assert!(file.contains(&values));
            assert_eq!(values.align_offset(ALIGNMENT), 0);
        }
    }

    /// Without the look before it, opening the pipe would wait for ever.
    #[test]
    fn what_is_no_file_is_damaged_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let name = published(dir.path());
        let path = dir.path().join(name.to_string());
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(check_and_read(&name, &map(&path).unwrap()).is_err());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(check_and_read(&name, &map(&path).unwrap()).is_err());
    }

    /// Even bytes whose hash is right, which only a forger could make, give an error, not a panic.
    #[test]
    fn any_truncation_or_flipped_byte_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let name = published(dir.path());
        let whole = fs::read(dir.path().join(name.to_string())).unwrap();
        for length in 0..whole.len() {
            let cut = Bytes::copy_from_slice(&whole[..length]);
            assert!(check_and_read(&name, &cut).is_err());
            assert!(read(&cut).is_err());
            let mut flipped = whole.clone();
            flipped[length] ^= 0x10;
            let flipped = Bytes::from(flipped);
            assert!(check_and_read(&name, &flipped).is_err());
            // A number that changed may be right; one that leads out of the file is an error.
            let _ = read(&flipped);
        }
    }
}
