//! From a file to mono samples at the file's own rate.
//!
//! Wav is read directly; flac, ogg and mp3 go through symphonia, whose panics, should it have any
//! left, are contained here.

use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use symphonia::core::codecs::audio::well_known::CODEC_ID_MP3;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoderOptions};
use symphonia::core::errors::Error as SymphoniaError;
use symphonia::core::formats::{FormatOptions, FormatReader, Track, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::default::formats::{FlacReader, MpaReader, OggReader};

use super::container::{self, Codec, Container, OpenedContainer};
use super::{AudioError, AudioHeader, wav};

/// Mono samples; full scale is 1.0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waveform {
    pub sample_rate: u32,
    pub samples: Vec<f32>,
}

/// Decodes a whole file. Memory is four bytes for each sample that the header promises: callers
/// who do not trust a file's length check it first (`AudioSettings::check_length`).
pub fn decode_mono(path: &Path) -> Result<Waveform, AudioError> {
    let opened = container::open(path)?;
    let mut samples = Vec::new();
    let sample_rate = opened.header.sample_rate;
    decode_opened(opened, &mut Scratch::default(), &mut samples)?;
    Ok(Waveform {
        sample_rate,
        samples,
    })
}

/// Buffers kept between clips.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bytes: Vec<u8>,
    interleaved: Vec<f32>,
}

/// Replaces `mono` by exactly the samples that the header promises.
pub(super) fn decode_opened(
    opened: OpenedContainer,
    scratch: &mut Scratch,
    mono: &mut Vec<f32>,
) -> Result<(), AudioError> {
    let OpenedContainer {
        mut file,
        header,
        container,
    } = opened;
    mono.clear();
    let (start, codec) = match container {
        Container::Wav(data) => {
            return wav::decode_mono(&mut file, &header, data, &mut scratch.bytes, mono);
        }
        Container::Stream { start, codec } => (start, codec),
    };
    file.seek(SeekFrom::Start(start))?;
    let interleaved = &mut scratch.interleaved;
    contain_panic(|| {
        let stream = stream(file);
        let options = FormatOptions::default();
        match codec {
            Codec::Flac => {
                let reader = FlacReader::try_new(stream, options).map_err(undecodable)?;
                decode_packets(reader, &header, Edges::Skip(0), interleaved, mono)
            }
            Codec::Vorbis => {
                let reader = OggReader::try_new(stream, options).map_err(undecodable)?;
                decode_packets(reader, &header, Edges::Trimmed, interleaved, mono)
            }
            Codec::Mp3 { delay } => {
                let reader = MpaReader::try_new(stream, options).map_err(undecodable)?;
                decode_packets(reader, &header, Edges::Skip(delay), interleaved, mono)
            }
        }
    })
}

/// Who removes the samples that an encoder added around the real ones.
#[derive(Clone, Copy, PartialEq)]
enum Edges {
    /// The decoder does, by the times of the packets.
    Trimmed,
    /// We do: this many at the front, and all beyond the header's count. Symphonia would trim the
    /// end of an mp3 without a tag by a length that it guesses from the bit rate.
    Skip(u64),
}

fn decode_packets(
    mut reader: impl FormatReader,
    header: &AudioHeader,
    edges: Edges,
    interleaved: &mut Vec<f32>,
    mono: &mut Vec<f32>,
) -> Result<(), AudioError> {
    let (track, params) = audio_track(&reader)?;
    let track = track.id;
    let options = AudioDecoderOptions::default().gapless(edges == Edges::Trimmed);
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(params, &options)
        .map_err(undecodable)?;
    let mut skip = match edges {
        Edges::Trimmed => 0,
        Edges::Skip(delay) => delay,
    };
    let channels = usize::from(header.channels);
    let share = 1.0 / channels as f32;
    while (mono.len() as u64) < header.samples {
        let Some(packet) = next_packet(&mut reader)? else {
            break;
        };
        if packet.track_id != track {
            continue;
        }
        let decoded = decoder.decode(&packet).map_err(undecodable)?;
        if decoded.spec().channels().count() != channels
            || decoded.spec().rate() != header.sample_rate
        {
            return Err(AudioError::Unsupported(
                "rate or channels that change within the file",
            ));
        }
        decoded.copy_to_vec_interleaved(interleaved);
        let skipped = skip.min((interleaved.len() / channels) as u64);
        skip -= skipped;
        let blocks = interleaved[skipped as usize * channels..].chunks_exact(channels);
        mono.extend(blocks.map(|block| block.iter().sum::<f32>() * share));
    }
    let (expected, got) = (header.samples, mono.len() as u64);
    if got < expected {
        return Err(AudioError::Truncated { expected, got });
    }
    mono.truncate(expected as usize);
    Ok(())
}

fn audio_track(reader: &impl FormatReader) -> Result<(&Track, &AudioCodecParameters), AudioError> {
    let track = reader
        .first_track(TrackType::Audio)
        .ok_or(AudioError::BadHeader("no audio track"))?;
    let params = track
        .codec_params
        .as_ref()
        .and_then(|params| params.audio());
    Ok((track, params.ok_or(AudioError::BadHeader("no codec"))?))
}

/// A file that ends within a packet has no further packet; the count of samples then shows it.
fn next_packet(
    reader: &mut impl FormatReader,
) -> Result<Option<symphonia::core::packet::Packet>, AudioError> {
    match reader.next_packet() {
        Ok(packet) => Ok(packet),
        Err(SymphoniaError::IoError(error)) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(undecodable(error)),
    }
}

/// An mp3's header and its encoder's delay. Without a tag that states its length, the frames are
/// counted one by one: an estimate from the bit rate would break the header's promise.
pub(super) fn mp3_header(file: File) -> Result<(AudioHeader, u64), AudioError> {
    let mut reader =
        MpaReader::try_new(stream(file), FormatOptions::default()).map_err(undecodable)?;
    let (track, params) = audio_track(&reader)?;
    if params.codec != CODEC_ID_MP3 {
        return Err(AudioError::Unsupported("MPEG audio of layer 1 or 2"));
    }
    let sample_rate = params.sample_rate.unwrap_or(0);
    let channels = params
        .channels
        .as_ref()
        .map_or(0, |channels| channels.count());
    let (delay, tagged_samples) = (track.delay, track.num_frames);
    let samples = match (delay, tagged_samples) {
        (Some(_), Some(samples)) => samples,
        (delay, _) => {
            let samples_per_frame = if sample_rate >= 32_000 { 1152 } else { 576 };
            let mut frames = 0_u64;
            while next_packet(&mut reader)?.is_some() {
                frames += 1;
            }
            (frames * samples_per_frame).saturating_sub(u64::from(delay.unwrap_or(0)))
        }
    };
    let header = AudioHeader {
        sample_rate,
        channels: channels as u16,
        samples,
    };
    Ok((header, u64::from(delay.unwrap_or(0))))
}

pub(super) fn count_flac_samples(file: File) -> Result<u64, AudioError> {
    let mut reader =
        FlacReader::try_new(stream(file), FormatOptions::default()).map_err(undecodable)?;
    let mut samples = 0_u64;
    while let Some(packet) = next_packet(&mut reader)? {
        samples = samples.saturating_add(packet.dur.get());
    }
    Ok(samples)
}

fn stream(file: File) -> MediaSourceStream<'static> {
    MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default())
}

fn undecodable(error: SymphoniaError) -> AudioError {
    match error {
        SymphoniaError::ResetRequired => AudioError::Unsupported("ogg with several streams"),
        error => AudioError::Undecodable(error),
    }
}

/// Turns a panic of the decoder library into an error. Its state is dropped with the closure and
/// our buffers are cleared before their next use, so nothing half-done is seen afterwards.
pub(super) fn contain_panic<T>(
    decode: impl FnOnce() -> Result<T, AudioError>,
) -> Result<T, AudioError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or(Err(AudioError::DecoderPanicked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_decoder_is_an_error() {
        let result: Result<(), _> = contain_panic(|| panic!("as a decoder might"));
        assert_eq!(result.unwrap_err().kind(), "decoder panicked");
    }
}
