//! Wav files: a walk over the chunks, and samples straight from the bytes.
//!
//! Nearly every speech dataset is 16-bit wav, and reading it directly takes about an eighth of
//! the time that symphonia takes (`benches/records/log-mel.md`).

use std::fs::File;
use std::io::{Seek, SeekFrom};

use super::container::read_up_to;
use super::{AudioError, AudioHeader};

/// Where the samples lie and how each is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SampleData {
    start: u64,
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Unsigned8,
    Signed16,
    Signed24,
    Signed32,
    Float32,
    Float64,
}

impl Encoding {
    fn bytes(self) -> u64 {
        match self {
            Self::Unsigned8 => 1,
            Self::Signed16 => 2,
            Self::Signed24 => 3,
            Self::Signed32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }
}

/// A program that wrote to a pipe could not fill in the sizes: it leaves 0 or a number near the
/// largest of 31 or 32 bits.
const UNKNOWN_SIZE: u32 = 0x7fff_0000;

/// A chunk's name and size, and of `fmt ` as much as says anything.
const CHUNK_BYTES: usize = 8 + 40;

/// More chunks before the samples than any real file has.
const MAX_CHUNKS: usize = 64;

/// `head` is the file's first bytes: with them alone, most headers need no further read.
pub(super) fn read_header(
    file: &mut File,
    head: &[u8],
    file_bytes: u64,
) -> Result<(AudioHeader, SampleData), AudioError> {
    if head.get(8..12) != Some(b"WAVE") {
        return Err(AudioError::UnknownFormat);
    }
    let riff_size = u32_at(head, 4).unwrap_or(0);
    let mut format = None;
    let mut position = 12;
    for _ in 0..MAX_CHUNKS {
        let mut bytes = Vec::new();
        let chunk = match head.get(position as usize..position as usize + CHUNK_BYTES) {
            Some(chunk) => chunk,
            None => {
                file.seek(SeekFrom::Start(position))?;
                read_up_to(CHUNK_BYTES, file, &mut bytes)?;
                &bytes
            }
        };
        let Some(size) = u32_at(chunk, 4) else {
            break;
        };
        let body = position + 8;
        match &chunk[..4] {
            b"fmt " => {
                let length = (chunk.len() - 8).min(size as usize);
                format = Some(parse_format(&chunk[8..8 + length])?);
            }
            b"data" => {
                let no_format = AudioError::BadHeader("wav without a format");
                let (mut header, encoding): (AudioHeader, Encoding) = format.ok_or(no_format)?;
                let riff_open = riff_size == 0 || riff_size >= UNKNOWN_SIZE;
                let block = encoding.bytes() * u64::from(header.channels);
                let available = file_bytes.saturating_sub(body) / block;
                header.samples = count_samples(size, block, riff_open, available)?;
                let start = body;
                return Ok((header, SampleData { start, encoding }));
            }
            _ => {}
        }
        // Chunks are padded to an even length.
        position = body + u64::from(size) + u64::from(size % 2);
        if position >= file_bytes {
            break;
        }
    }
    Err(AudioError::BadHeader("wav without samples"))
}

/// Samples by the chunk's size, where it states one, of those that are in the file.
fn count_samples(size: u32, block: u64, riff_open: bool, got: u64) -> Result<u64, AudioError> {
    let size_unknown = size >= UNKNOWN_SIZE || (size == 0 && riff_open);
    let expected = u64::from(size) / block;
    match got < expected {
        _ if size_unknown => Ok(got),
        true => Err(AudioError::Truncated { expected, got }),
        false => Ok(expected),
    }
}

const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xfffe;
/// What follows the two bytes of format in an extensible header's identifier.
const EXTENSIBLE_SUFFIX: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71];

/// The header has no samples yet.
fn parse_format(bytes: &[u8]) -> Result<(AudioHeader, Encoding), AudioError> {
    let field = |at| u16_at(bytes, at).ok_or(AudioError::BadHeader("wav format too short"));
    let mut tag = field(0)?;
    let channels = field(2)?;
    let sample_rate = u32::from(field(4)?) | u32::from(field(6)?) << 16;
    let block_align = field(12)?;
    let bits = field(14)?;
    if tag == EXTENSIBLE {
        tag = field(24)?;
        if bytes.get(26..40) != Some(&EXTENSIBLE_SUFFIX) {
            return Err(AudioError::Unsupported("wav of a private format"));
        }
    }
    let encoding = match (tag, bits) {
        (PCM, 8) => Encoding::Unsigned8,
        (PCM, 16) => Encoding::Signed16,
        (PCM, 24) => Encoding::Signed24,
        (PCM, 32) => Encoding::Signed32,
        (FLOAT, 32) => Encoding::Float32,
        (FLOAT, 64) => Encoding::Float64,
        (PCM | FLOAT, _) => return Err(AudioError::BadHeader("odd number of bits per sample")),
        _ => return Err(AudioError::Unsupported("compressed wav")),
    };
    if channels == 0 {
        return Err(AudioError::BadHeader("no channels"));
    }
    if u64::from(block_align) != encoding.bytes() * u64::from(channels) {
        return Err(AudioError::BadHeader("block size does not fit the format"));
    }
    let header = AudioHeader {
        sample_rate,
        channels,
        samples: 0,
    };
    Ok((header, encoding))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Appends the mean of the channels, reading through `scratch` so that the file's size does not
/// matter to memory.
pub(super) fn decode_mono(
    file: &mut File,
    header: &AudioHeader,
    data: SampleData,
    scratch: &mut Vec<u8>,
    mono: &mut Vec<f32>,
) -> Result<(), AudioError> {
    const READ_BYTES: usize = 1 << 16;
    let channels = usize::from(header.channels);
    let block = data.encoding.bytes() as usize * channels;
    let blocks_per_read = (READ_BYTES / block).max(1);
    let mut left = header.samples;
    file.seek(SeekFrom::Start(data.start))?;
    while left > 0 {
        let blocks = left.min(blocks_per_read as u64) as usize;
        read_up_to(blocks * block, file, scratch)?;
        if scratch.len() < blocks * block {
            // The file shrank since its header was read.
            let got = header.samples - left + (scratch.len() / block) as u64;
            let expected = header.samples;
            return Err(AudioError::Truncated { expected, got });
        }
        append_mono(data.encoding, channels, scratch, mono);
        left -= blocks as u64;
    }
    Ok(())
}

fn append_mono(encoding: Encoding, channels: usize, bytes: &[u8], mono: &mut Vec<f32>) {
    match encoding {
        Encoding::Unsigned8 => append(bytes, channels, mono, |[b]| (f32::from(b) - 128.0) / 128.0),
        Encoding::Signed16 => append(bytes, channels, mono, |b| {
            f32::from(i16::from_le_bytes(b)) / 32_768.0
        }),
        Encoding::Signed24 => append(bytes, channels, mono, |[a, b, c]| {
            i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0
        }),
        Encoding::Signed32 => append(bytes, channels, mono, |b| {
            i32::from_le_bytes(b) as f32 / 2_147_483_648.0
        }),
        Encoding::Float32 => append(bytes, channels, mono, f32::from_le_bytes),
        Encoding::Float64 => append(bytes, channels, mono, |b| f64::from_le_bytes(b) as f32),
    }
}

fn append<const BYTES: usize>(
    bytes: &[u8],
    channels: usize,
    mono: &mut Vec<f32>,
    sample: impl Fn([u8; BYTES]) -> f32,
) {
    let (samples, _) = bytes.as_chunks::<BYTES>();
    if channels == 1 {
        mono.extend(samples.iter().map(|bytes| sample(*bytes)));
    } else {
        let share = 1.0 / channels as f32;
        mono.extend(samples.chunks_exact(channels).map(|block| {
            let sum: f32 = block.iter().map(|bytes| sample(*bytes)).sum();
            sum * share
        }));
    }
}
