//! Every format that we promise to read, against the same sound in another one.

use std::path::{Path, PathBuf};

use super::{AudioHeader, AudioSettings, Featurizer, Resampler, decode_mono, read_header};

pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data/fixtures/audio/formats")
        .join(name)
}

fn header(sample_rate: u32, channels: u16, samples: u64) -> AudioHeader {
    AudioHeader {
        sample_rate,
        channels,
        samples,
    }
}

/// Fixture, what its header must say, and how far its sound may be from `mono.wav`'s, as a share
/// of that one's energy.
fn fixtures() -> Vec<(&'static str, AudioHeader, f64)> {
    let mono = header(22_050, 1, 6615);
    let stereo = header(44_100, 2, 13_230);
    // Whole frames, for nothing says which samples are the encoder's own.
    let untagged = header(22_050, 1, 14 * 576);
    vec![
        ("mono.wav", mono, 0.0),
        ("mono.flac", mono, 0.0),
        ("piped.flac", mono, 0.0),
        ("stereo.flac", stereo, 0.01),
        ("mono.ogg", mono, 0.05),
        ("ffmpeg.ogg", mono, 0.05),
        ("stereo.ogg", stereo, 0.05),
        ("tagged.mp3", mono, 0.05),
        ("ffmpeg.mp3", mono, 0.05),
        ("vbr.mp3", stereo, 0.05),
        ("untagged.mp3", untagged, 0.05),
    ]
}

#[test]
fn the_header_says_what_decoding_gives() {
    for (name, expected, _) in fixtures() {
        let path = fixture(name);
        assert_eq!(read_header(&path).unwrap(), expected, "{name}");
        let decoded = decode_mono(&path).unwrap();
        assert_eq!(decoded.sample_rate, expected.sample_rate, "{name}");
        assert_eq!(decoded.samples.len() as u64, expected.samples, "{name}");
    }
}

#[test]
fn frames_are_as_many_as_the_header_says() {
    let settings = AudioSettings::default();
    let mut featurizer = Featurizer::new(&settings).unwrap();
    for (name, header, _) in fixtures() {
        let features = featurizer.featurize(&fixture(name)).unwrap();
        let expected = settings.frames_for_header(&header);
        assert_eq!(features.frames(), expected, "{name}");
    }
}

/// Delay and padding of an encoder are gone: sample n is sample n, in every format. The stereo
/// files hold the voice at twice the rate, and at half the level on the right.
#[test]
fn all_formats_hold_the_same_sound_at_the_same_place() {
    let voice = decode_mono(&fixture("mono.wav")).unwrap().samples;
    let energy: f64 = voice.iter().map(|&s| f64::from(s).powi(2)).sum();
    for (name, header, tolerance) in fixtures() {
        let mut samples = decode_mono(&fixture(name)).unwrap().samples;
        if name == "untagged.mp3" {
            // What lame puts before the first sample, and what decoding adds.
            samples.drain(..576 + 529);
        }
        if header.channels == 2 {
            let (mut resampled, mut resampler) = (Vec::new(), Resampler::new(22_050));
            let done = resampler.resample(&samples, 44_100, &mut resampled);
            done.unwrap();
            samples = resampled.iter().map(|s| s / 0.75).collect();
        }
        let differences = samples.iter().zip(&voice).map(|(a, b)| f64::from(a - b));
        let share = differences.map(|d| d.powi(2)).sum::<f64>() / energy;
        assert!(share <= tolerance, "{name}: {share}");
    }
}

#[test]
fn opus_is_refused_by_name() {
    let error = read_header(&fixture("opus.ogg")).unwrap_err();
    assert_eq!(error.kind(), "unsupported audio format");
}
