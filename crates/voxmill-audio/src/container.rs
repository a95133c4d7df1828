//! What kind of file it is, by its first bytes (never by its name), and what its header says.
//!
//! Scanning a dataset reads thousands of headers, so wav, flac and ogg are read here with one or
//! two small reads each; a decoder library's probe reads and allocates much more.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::decode::{self, contain_panic};
use super::{AudioError, AudioHeader, wav};

/// A file whose header was understood.
#[derive(Debug)]
pub(super) struct OpenedContainer {
    pub(super) file: File,
    pub(super) header: AudioHeader,
    pub(super) container: Container,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Container {
    Wav(wav::SampleData),
    /// Some taggers put an ID3 tag before the stream; `start` is behind it.
    Stream {
        start: u64,
        codec: Codec,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Codec {
    Flac,
    Vorbis,
    /// `delay` samples that the encoder put before the first real one.
    Mp3 {
        delay: u64,
    },
}

/// Reads a file's header only. A file that is known to be shorter than its header says, or that
/// holds no samples, is an error here already.
pub fn read_header(path: &Path) -> Result<AudioHeader, AudioError> {
    open(path).map(|opened| opened.header)
}

pub(super) fn open(path: &Path) -> Result<OpenedContainer, AudioError> {
    // Opening a FIFO would wait for a writer, so this is checked before.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(AudioError::NotAFile);
    }
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    read_up_to(HEAD_BYTES, &mut file, &mut head)?;
    let (header, container) = identify(&mut file, &head, metadata.len())?;
    check_plausible(&header)?;
    Ok(OpenedContainer {
        file,
        header,
        container,
    })
}

const HEAD_BYTES: usize = 512;

fn identify(
    file: &mut File,
    head: &[u8],
    file_bytes: u64,
) -> Result<(AudioHeader, Container), AudioError> {
    if head.is_empty() {
        return Err(AudioError::Empty);
    }
    if head.starts_with(b"RIFF") {
        let (header, data) = wav::read_header(file, head, file_bytes)?;
        return Ok((header, Container::Wav(data)));
    }
    if head.starts_with(b"RF64") || head.starts_with(b"RIFX") {
        return Err(AudioError::Unsupported("RF64 and RIFX wav files"));
    }
    if head.starts_with(b"OggS") {
        let header = ogg_header(file, head, file_bytes)?;
        let (start, codec) = (0, Codec::Vorbis);
        return Ok((header, Container::Stream { start, codec }));
    }
    let start = id3_length(head);
    let mut stream = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    read_up_to(STREAMINFO_BYTES, file, &mut stream)?;
    let (header, codec) = match stream[..] {
        [b'f', b'L', b'a', b'C', ..] => (flac_header(file, start, &stream)?, Codec::Flac),
        [0xff, 0xe0..=0xff, ..] => {
            file.seek(SeekFrom::Start(start))?;
            let file = file.try_clone()?;
            let (header, delay) = contain_panic(|| decode::mp3_header(file))?;
            (header, Codec::Mp3 { delay })
        }
        _ => return Err(AudioError::UnknownFormat),
    };
    Ok((header, Container::Stream { start, codec }))
}

/// Bounds that real recordings keep and that keep memory in proportion.
fn check_plausible(header: &AudioHeader) -> Result<(), AudioError> {
    if !(1_000..=384_000).contains(&header.sample_rate) {
        return Err(AudioError::BadHeader("implausible sample rate"));
    }
    if !(1..=32).contains(&header.channels) {
        return Err(AudioError::BadHeader("implausible number of channels"));
    }
    if header.samples == 0 {
        return Err(AudioError::Empty);
    }
    Ok(())
}

/// Bytes of an ID3v2 tag at the head of a file, its own header and footer included.
fn id3_length(head: &[u8]) -> u64 {
    let Some([b'I', b'D', b'3', _, _, flags, size @ ..]) = head.first_chunk::<10>() else {
        return 0;
    };
    let seven_bits = |size, byte| size << 7 | u64::from(byte & 0x7f);
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    10 + size.iter().fold(0, seven_bits) + footer
}

/// The marker, a block header and the part of STREAMINFO up to the sample count.
const STREAMINFO_BYTES: usize = 26;

fn flac_header(file: &mut File, start: u64, stream: &[u8]) -> Result<AudioHeader, AudioError> {
    let Some(info) = stream.first_chunk::<STREAMINFO_BYTES>() else {
        return Err(AudioError::BadHeader("no room for flac's STREAMINFO"));
    };
    if info[4] & 0x7f != 0 {
        return Err(AudioError::BadHeader("flac does not start with STREAMINFO"));
    }
    // 20 bits of rate, 3 of channels less one, 5 of bits per sample less one, 36 of samples.
    let packed = u64::from_be_bytes(*info.last_chunk().expect("26 bytes hold 8"));
    let mut header = AudioHeader {
        sample_rate: (packed >> 44) as u32,
        channels: (packed >> 41 & 7) as u16 + 1,
        samples: packed & 0xf_ffff_ffff,
    };
    if header.samples == 0 {
        // An encoder that wrote to a pipe could not come back to fill in the count.
        file.seek(SeekFrom::Start(start))?;
        let file = file.try_clone()?;
        header.samples = contain_panic(|| decode::count_flac_samples(file))?;
    }
    Ok(header)
}

/// An Ogg page is at most this long.
const PAGE_BYTES: u64 = 65_307;
const PAGE_HEADER_BYTES: usize = 27;
const LAST_PAGE_FLAG: u8 = 4;

fn ogg_header(file: &mut File, head: &[u8], file_bytes: u64) -> Result<AudioHeader, AudioError> {
    // The first page holds one packet of 30 bytes: 1, "vorbis", version, channels, rate, ….
    let packet = head
        .get(PAGE_HEADER_BYTES + 1..)
        .ok_or(AudioError::BadHeader("no room for ogg's first page"))?;
    if !packet.starts_with(b"\x01vorbis") || head[26] != 1 {
        return Err(AudioError::Unsupported("ogg that holds no vorbis alone"));
    }
    let ident = packet
        .first_chunk::<16>()
        .ok_or(AudioError::BadHeader("no room for vorbis' first header"))?;
    let serial = &head[14..18];

    let tail_start = file_bytes.saturating_sub(PAGE_BYTES);
    file.seek(SeekFrom::Start(tail_start))?;
    let mut tail = Vec::new();
    read_up_to(PAGE_BYTES as usize, file, &mut tail)?;
    let last_page = (0..tail.len().saturating_sub(PAGE_HEADER_BYTES))
        .rev()
        .map(|start| &tail[start..])
        .find(|page| page.starts_with(b"OggS\0"))
        .ok_or(AudioError::NoLastPage)?;
    if &last_page[14..18] != serial {
        return Err(AudioError::Unsupported("ogg with several streams"));
    }
    let granule = u64::from_le_bytes(last_page[6..14].try_into().expect("8 bytes"));
    let segments = usize::from(last_page[26]);
    let body_bytes: Option<usize> = last_page
        .get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + segments)
        .map(|lengths| lengths.iter().map(|&length| usize::from(length)).sum());
    let whole =
        body_bytes.is_some_and(|body| last_page.len() >= PAGE_HEADER_BYTES + segments + body);
    if !whole || last_page[5] & LAST_PAGE_FLAG == 0 {
        return Err(AudioError::NoLastPage);
    }
    if granule > i64::MAX as u64 {
        return Err(AudioError::BadHeader("ogg ends at a negative time"));
    }
    Ok(AudioHeader {
        sample_rate: u32::from_le_bytes(ident[12..16].try_into().expect("4 bytes")),
        channels: u16::from(ident[11]),
        samples: granule,
    })
}

/// Replaces what is in `buffer` by the next `most` bytes of the file, or all that are left.
pub(super) fn read_up_to(most: usize, file: &mut File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    buffer.reserve(most);
    file.by_ref().take(most as u64).read_to_end(buffer)?;
    Ok(())
}
