//! What audio costs, clip by clip, on one thread. An item is a second of audio (for headers: a
//! file), so `1000 / items per second` is milliseconds per second of audio.
//!
//!     cargo bench -p voxmill-audio --bench mel
//!
//! `tools/python/mel_bench.py` times librosa on the same clips.

mod common;

use std::fs::File;
use std::path::Path;

use divan::Bencher;
use divan::counter::ItemsCount;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::default::formats::WavReader;
use voxmill_audio::{
    AudioSettings, Featurizer, LogMel, Resampler, Waveform, decode_mono, read_header,
};

use common::clips;

fn main() {
    divan::main();
}

fn seconds() -> ItemsCount {
    let clips = clips();
    let headers = clips
        .iter()
        .map(|path| read_header(path).expect("a header"));
    ItemsCount::new(headers.map(|header| header.seconds()).sum::<f64>() as usize)
}

#[divan::bench]
fn log_mel(bencher: Bencher<'_, '_>) {
    let decode = |path| decode_mono(path).expect("a readable clip");
    let waveforms: Vec<Waveform> = clips().iter().map(|path| decode(path)).collect();
    let mut log_mel = LogMel::new(&AudioSettings::default()).expect("valid defaults");
    let mut frames = Vec::new();
    bencher.counter(seconds()).bench_local(|| {
        for waveform in &waveforms {
            log_mel.log_mel(&waveform.samples, &mut frames);
            divan::black_box(&frames);
        }
    });
}

fn each_clip<T>(bencher: Bencher<'_, '_>, items: ItemsCount, mut work: impl FnMut(&Path) -> T) {
    let clips = clips();
    bencher.counter(items).bench_local(|| {
        for clip in &clips {
            divan::black_box(work(clip));
        }
    });
}

/// Everything that `prepare` does with a clip's audio: read, decode, levels, log-mel.
#[divan::bench]
fn featurize(bencher: Bencher<'_, '_>) {
    let mut featurizer = Featurizer::new(&AudioSettings::default()).expect("valid defaults");
    let featurize = |clip: &Path| featurizer.featurize(clip).expect("a readable clip");
    each_clip(bencher, seconds(), featurize);
}

#[divan::bench]
fn headers(bencher: Bencher<'_, '_>) {
    let files = ItemsCount::new(clips().len());
    each_clip(bencher, files, |clip| read_header(clip).expect("a header"));
}

#[divan::bench]
fn decode_wav(bencher: Bencher<'_, '_>) {
    let decode = |clip: &Path| decode_mono(clip).expect("a readable clip");
    each_clip(bencher, seconds(), decode);
}

/// The same through symphonia: the reason for a wav reader of our own.
#[divan::bench]
fn decode_wav_by_symphonia(bencher: Bencher<'_, '_>) {
    each_clip(bencher, seconds(), symphonia_samples);
}

fn symphonia_samples(clip: &Path) -> Vec<f32> {
    let file = File::open(clip).expect("a readable clip");
    let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
    let mut reader = WavReader::try_new(stream, FormatOptions::default()).expect("a wav");
    let track = reader.first_track(TrackType::Audio).expect("a track");
    let params = track
        .codec_params
        .as_ref()
        .and_then(|params| params.audio());
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(params.expect("a codec"), &AudioDecoderOptions::default())
        .expect("a decoder");
    let (mut samples, mut packet_samples) = (Vec::new(), Vec::new());
    while let Some(packet) = reader.next_packet().expect("a packet") {
        let decoded = decoder.decode(&packet).expect("samples");
        decoded.copy_to_vec_interleaved::<f32>(&mut packet_samples);
        samples.extend_from_slice(&packet_samples);
    }
    samples
}

#[divan::bench(args = [16_000, 24_000, 44_100, 48_000])]
fn resample(bencher: Bencher<'_, '_>, from_hz: u32) {
    let noise: Vec<f32> = (0..from_hz * 5)
        .map(|n| (f64::from(n) * 0.7).sin() as f32)
        .collect();
    let mut resampler = Resampler::new(22_050);
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(5_usize)).bench_local(|| {
        resampler
            .resample(&noise, from_hz, &mut out)
            .expect("a usual rate");
        divan::black_box(&out);
    });
}
