//! What files may hold instead of a well-formed clip, and what each gets: an error with a name,
//! never a panic, a hang or memory without bound.

use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::formats::fixture;
use super::{AudioError, AudioSettings, Featurizer, decode_mono, read_header};

fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let padding = &[0][..body.len() % 2];
    [name, &(body.len() as u32).to_le_bytes(), body, padding].concat()
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    chunk(b"RIFF", &[b"WAVE", &chunks.concat()[..]].concat())
}

fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let block = channels.wrapping_mul(bits / 8);
    let rates = [rate, rate.wrapping_mul(u32::from(block))];
    let [start, end] = [[tag, channels], [block, bits]].map(|pair| pair.map(u16::to_le_bytes));
    [
        start.concat(),
        rates.map(u32::to_le_bytes).concat(),
        end.concat(),
    ]
    .concat()
}

fn extensible(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let mut body = format(0xfffe, channels, rate, bits);
    body.extend(22_u16.to_le_bytes());
    body.extend(bits.to_le_bytes());
    body.extend(4_u32.to_le_bytes());
    body.extend(tag.to_le_bytes());
    body.extend(b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71");
    body
}

fn wav(format: &[u8], data: &[u8]) -> Vec<u8> {
    riff(&[chunk(b"fmt ", format), chunk(b"data", data)])
}

fn pcm16(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|s| s.to_le_bytes()).collect()
}

fn write(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.wav");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn samples_of(bytes: &[u8]) -> Result<Vec<f32>, AudioError> {
    let (_folder, path) = write(bytes);
    let header = read_header(&path)?;
    let waveform = decode_mono(&path)?;
    assert_eq!(waveform.samples.len() as u64, header.samples);
    Ok(waveform.samples)
}

/// The reason for which both the header and the features of a file are refused.
fn refusal(bytes: &[u8]) -> &'static str {
    let (_folder, path) = write(bytes);
    let kind = read_header(&path).unwrap_err().kind();
    assert_eq!(featurize(&path).unwrap_err().kind(), kind);
    kind
}

fn featurize(path: &Path) -> Result<usize, AudioError> {
    let mut featurizer = Featurizer::new(&AudioSettings::default()).unwrap();
    featurizer.featurize(path).map(|features| features.frames())
}

#[test]
fn every_wav_encoding_is_read() {
    let values = [0.0, 0.5, -0.5, -1.0];
    let bytes = |encode: &dyn Fn(f64) -> Vec<u8>| -> Vec<u8> {
        values.iter().flat_map(|&value| encode(value)).collect()
    };
    let int = |bits: i32, value: f64| (value * 2_f64.powi(bits - 1)) as i32;
    let encodings = [
        (1, 8, bytes(&|v| vec![(int(8, v) + 128) as u8])),
        (1, 16, bytes(&|v| (int(16, v) as i16).to_le_bytes().into())),
        (1, 24, bytes(&|v| int(24, v).to_le_bytes()[..3].into())),
        (1, 32, bytes(&|v| int(32, v).to_le_bytes().into())),
        (3, 32, bytes(&|v| (v as f32).to_le_bytes().into())),
        (3, 64, bytes(&|v| v.to_le_bytes().into())),
    ];
    for (tag, bits, data) in encodings {
        let expected = values.map(|value| value as f32);
        let plain = samples_of(&wav(&format(tag, 1, 22_050, bits), &data)).unwrap();
        assert_eq!(plain, expected, "format {tag}, {bits} bits");
        let extended = samples_of(&wav(&extensible(tag, 1, 22_050, bits), &data)).unwrap();
        assert_eq!(extended, expected, "extensible {tag}, {bits} bits");
        let stereo = samples_of(&wav(&format(tag, 2, 22_050, bits), &data)).unwrap();
        assert_eq!(stereo, [0.25, -0.75], "stereo {tag}, {bits} bits");
    }
}

#[test]
fn other_chunks_are_skipped() {
    let format = chunk(b"fmt ", &format(1, 1, 22_050, 16));
    let data = chunk(b"data", &pcm16(&[1, 2, 3]));
    let expected = [1.0, 2.0, 3.0].map(|s| s / 32_768.0);
    for length in [0, 1, 26, 427, 428, 440, 460, 1001, 70_000] {
        let list = chunk(b"LIST", &vec![b'x'; length]);
        let chunks = [&list, &format, &list, &data, &list].map(Vec::clone);
        assert_eq!(samples_of(&riff(&chunks)).unwrap(), expected, "{length}");
    }
}

#[test]
fn an_id3_tag_before_the_stream_is_skipped() {
    // 300 bytes that look like the start of mp3 frames; sizes of ID3 have seven bits a byte.
    let mut tag = b"ID3\x04\0\0\0\0\x02\x2c".to_vec();
    tag.extend([0xff, 0xfb, 0x90].repeat(100));
    for name in ["mono.flac", "piped.flac", "tagged.mp3", "untagged.mp3"] {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let tagged = samples_of(&[&tag[..], &bytes].concat()).unwrap();
        assert_eq!(tagged, samples_of(&bytes).unwrap(), "{name}");
    }
}

#[test]
fn a_stream_without_sizes_goes_to_the_end_of_the_file() {
    for size in [0, 0x7fff_f000, 0x8000_0000, u32::MAX] {
        let mut bytes = wav(&format(1, 1, 22_050, 16), &pcm16(&[7; 100]));
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        bytes[40..44].copy_from_slice(&size.to_le_bytes());
        assert_eq!(samples_of(&bytes).unwrap().len(), 100, "{size:#x}");
    }
    // A size of 0 in a file that is otherwise complete means just that.
    assert_eq!(refusal(&wav(&format(1, 1, 22_050, 16), &[])), "empty audio");
}

#[test]
fn a_file_shorter_than_its_header_says_is_truncated() {
    let bytes = wav(&format(1, 2, 22_050, 16), &pcm16(&[7; 200]));
    let (_folder, path) = write(&bytes[..bytes.len() - 41]);
    let error = read_header(&path).unwrap_err().to_string();
    let counts = "the header promises 100 samples, the file holds 89";
    assert_eq!(error, format!("truncated: {counts}"));
    let names = "mono.flac stereo.flac mono.ogg stereo.ogg tagged.mp3 vbr.mp3";
    for name in names.split(' ') {
        let bytes = std::fs::read(fixture(name)).unwrap();
        for kept in [bytes.len() / 2, bytes.len() * 9 / 10] {
            let (_folder, path) = write(&bytes[..kept]);
            let kind = featurize(&path).unwrap_err().kind();
            assert_eq!(kind, "truncated audio", "{name} to {kept}");
        }
    }
}

#[test]
fn absurd_headers_are_refused() {
    let data = pcm16(&[7; 100]);
    for (tag, channels, rate, bits) in [
        (1, 1, 0, 16),
        (1, 1, 4_000_000_000, 16),
        (1, 1, 1, 16),
        (1, 0, 22_050, 16),
        (1, 65_535, 22_050, 16),
        (1, 65_535, 22_050, 8),
        (1, 1, 22_050, 0),
        (1, 1, 22_050, 12),
        (1, 1, 22_050, 65_535),
        (3, 1, 22_050, 16),
    ] {
        let kind = refusal(&wav(&format(tag, channels, rate, bits), &data));
        assert_eq!(kind, "bad audio header", "{channels} × {bits} at {rate}");
    }
    let plain = format(1, 1, 22_050, 16);
    let mut no_block = wav(&plain, &data);
    no_block[32..34].fill(0);
    let mut beyond_the_file = wav(&plain, &data);
    beyond_the_file[16..20].fill(0xff);
    for (name, bytes) in [
        ("no block", no_block),
        ("a format that is cut", wav(&plain[..10], &data)),
        ("no format", riff(&[chunk(b"data", &data)])),
        ("no samples", riff(&[chunk(b"fmt ", &plain)])),
        ("a format beyond the file", beyond_the_file),
    ] {
        assert_eq!(refusal(&bytes), "bad audio header", "{name}");
    }
    let compressed = wav(&format(17, 1, 22_050, 4), &data);
    assert_eq!(refusal(&compressed), "unsupported audio format");
}

#[test]
fn what_is_no_audio_is_refused() {
    let text = b"Once upon a time, a text was named wav.";
    for (bytes, kind) in [
        (&b""[..], "empty audio"),
        (b"R", "unknown audio format"),
        (text, "unknown audio format"),
        (b"RIFF\x10\0\0\0AVI and more", "unknown audio format"),
        (b"OggS", "bad audio header"),
        (b"fLaC", "bad audio header"),
        (b"ID3\x04\0\0\x7f\x7f\x7f\x7f", "unknown audio format"),
        (&[0xff, 0xfb], "undecodable audio"),
    ] {
        assert_eq!(refusal(bytes), kind, "{}", bytes.escape_ascii());
    }
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let kind = |path: &Path| read_header(path).unwrap_err().kind();
    assert_eq!(kind(&folder.path().join("none.wav")), "missing audio");
    assert_eq!(kind(folder.path()), "not a file");
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let fifo = folder.path().join("fifo.wav");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(kind(&fifo), "not a file");
        assert_eq!(kind(Path::new("/dev/zero")), "not a file");
    }
}

#[test]
fn a_clip_of_three_hours_is_refused_by_its_header() {
    let bytes = 3 * 3600 * 22_050 * 2;
    let mut head = wav(&format(1, 1, 22_050, 16), &[]);
    head[4..8].copy_from_slice(&(bytes + 36_u32).to_le_bytes());
    head[40..44].copy_from_slice(&bytes.to_le_bytes());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.wav");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&head).unwrap();
    // The file is sparse: it takes no room on the disk.
    file.set_len(u64::from(bytes) + 44).unwrap();
    assert_eq!(read_header(&path).unwrap().seconds(), 10_800.0);
    assert_eq!(featurize(&path).unwrap_err().kind(), "audio too long");
}

#[test]
fn numbers_that_are_no_samples_are_refused() {
    for (bad, kind) in [
        (f32::NAN, "samples not finite"),
        (f32::NEG_INFINITY, "samples not finite"),
        (1e30, "beyond full scale"),
    ] {
        let data = [0.1, bad, 0.2].map(f32::to_le_bytes).concat();
        let (_folder, path) = write(&wav(&format(3, 1, 22_050, 32), &data));
        assert_eq!(featurize(&path).unwrap_err().kind(), kind, "{bad}");
    }
}

/// Whatever a file holds, it is refused or its header's promise is kept.
fn header_and_features_agree(bytes: &[u8]) {
    let (_folder, path) = write(bytes);
    let settings = AudioSettings {
        max_seconds: 5.0,
        ..AudioSettings::default()
    };
    let header = read_header(&path);
    let features = Featurizer::new(&settings).unwrap().featurize(&path);
    match (header, features) {
        (Ok(header), Ok(features)) => {
            assert_eq!(features.frames(), settings.frames_for_header(&header));
            assert!(features.mel.iter().all(|value| value.is_finite()));
        }
        (Err(_), Ok(_)) => panic!("features of a file without a header"),
        (_, Err(_)) => {}
    }
}

fn any_format() -> impl Strategy<Value = Vec<u8>> {
    let names = "mono.wav mono.flac piped.flac stereo.ogg ffmpeg.ogg \
                 tagged.mp3 untagged.mp3 vbr.mp3 ffmpeg.mp3";
    let names: Vec<&str> = names.split_whitespace().collect();
    prop::sample::select(names).prop_map(|name| std::fs::read(fixture(name)).unwrap())
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        magic in prop::sample::select(vec![
            &b""[..], b"RIFF\xff\xff\xff\xffWAVEfmt ", b"fLaC\0\0\0\x22", b"OggS\0\x02",
            b"ID3\x04\0\0\0\0\0\0", b"\xff\xfb\x90\x44",
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        header_and_features_agree(&[magic, &bytes].concat());
    }

    #[test]
    fn damaged_files_are_survived(
        mut bytes in any_format(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        head_damage in prop::collection::vec((0_usize..200, any::<u8>()), 0..4),
        kept in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for (at, byte) in head_damage {
            bytes[at] = byte;
        }
        if let Some(kept) = kept {
            bytes.truncate(kept.index(bytes.len()));
        }
        header_and_features_agree(&bytes);
    }
}
