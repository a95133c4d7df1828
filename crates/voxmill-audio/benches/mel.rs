//! What audio costs, clip by clip, on one thread. An item is a second of audio (for headers: a
//! file), so `1000 / items per second` is milliseconds per second of audio.
//!
//!     cargo bench -p voxmill-audio --bench mel
//!
//! The clips are those of `VOXMILL_BENCH_CLIPS`, or LJ Speech's beside the project, or else a
//! fixture; `tools/python/mel_bench.py` times librosa on the same ones.

use std::fs::File;
use std::path::{Path, PathBuf};

use divan::Bencher;
use divan::counter::ItemsCount;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::default::formats::WavReader;
use voxmill_audio::{
    AudioSettings, Featurizer, LogMel, Resampler, Waveform, decode_mono, read_header,
};

fn main() {
    divan::main();
}

fn clips() -> Vec<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::var_os("VOXMILL_BENCH_CLIPS").map_or_else(
        || package.join("../../../shared/data/ljspeech-32/wavs"),
        PathBuf::from,
    );
    let mut clips: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("readable folder").path())
        .collect();
    clips.sort();
    if clips.is_empty() {
        clips.push(package.join("data/fixtures/audio/mel/voice.wav"));
    }
    clips
}

fn waveforms() -> Vec<Waveform> {
    let decode = |path: PathBuf| decode_mono(&path).expect("a readable clip");
    clips().into_iter().map(decode).collect()
}

fn seconds() -> ItemsCount {
    let seconds = |path: PathBuf| read_header(&path).expect("a header").seconds();
    ItemsCount::new(clips().into_iter().map(seconds).sum::<f64>() as usize)
}

#[divan::bench]
fn log_mel(bencher: Bencher<'_, '_>) {
    let waveforms = waveforms();
    let mut log_mel = LogMel::new(&AudioSettings::default()).expect("valid defaults");
    let mut frames = Vec::new();
    bencher.counter(seconds()).bench_local(|| {
        for waveform in &waveforms {
            log_mel.log_mel(&waveform.samples, &mut frames);
            divan::black_box(&frames);
        }
    });
}

/// Everything that `prepare` does with a clip's audio: read, decode, levels, log-mel.
#[divan::bench]
fn featurize(bencher: Bencher<'_, '_>) {
    let clips = clips();
    let mut featurizer = Featurizer::new(&AudioSettings::default()).expect("valid defaults");
    bencher.counter(seconds()).bench_local(|| {
        for clip in &clips {
            divan::black_box(featurizer.featurize(clip).expect("a readable clip"));
        }
    });
}

#[divan::bench]
fn headers(bencher: Bencher<'_, '_>) {
    let clips = clips();
    bencher
        .counter(ItemsCount::new(clips.len()))
        .bench_local(|| {
            for clip in &clips {
                divan::black_box(read_header(clip).expect("a header"));
            }
        });
}

#[divan::bench]
fn decode_wav(bencher: Bencher<'_, '_>) {
    let clips = clips();
    bencher.counter(seconds()).bench_local(|| {
        for clip in &clips {
            divan::black_box(decode_mono(clip).expect("a readable clip"));
        }
    });
}

/// The same through symphonia: the reason for a wav reader of our own.
#[divan::bench]
fn decode_wav_by_symphonia(bencher: Bencher<'_, '_>) {
    let clips = clips();
    bencher.counter(seconds()).bench_local(|| {
        for clip in &clips {
            divan::black_box(symphonia_samples(clip));
        }
    });
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
