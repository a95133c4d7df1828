//! How much host memory a clip takes while its features are computed.

use voxmill_audio::AudioSettings;

use crate::cache::clip_bytes;
use crate::manifest::Clip;

/// The most that a clip takes while its features are computed: its samples, and the features.
pub(crate) fn largest_bytes(clip: &Clip, audio: &AudioSettings) -> u64 {
    let letters = clip.text.len() as u64;
    let frames = audio.frames_for_header(&clip.header) as u64;
    // Numbers and abbreviations are read out, so the text grows.
    let read_out = 16 * letters + 65_536;
    let features = clip_bytes(frames, audio.n_mels as u64, read_out, read_out);
    decoding_bytes(clip, audio) + features
}

/// The most that a clip takes while it is being decoded: the file, its samples of all channels and of
/// one, and again at the rate that they are resampled to.
pub(crate) fn decoding_bytes(clip: &Clip, audio: &AudioSettings) -> u64 {
    const SAMPLE: u64 = size_of::<f32>() as u64;
    let header = &clip.header;
    let rate = u64::from(header.sample_rate).max(1);
    let resampled = header.samples * u64::from(audio.sample_rate) / rate;
    let samples = header.samples * (u64::from(header.channels) + 1) + resampled;
    clip.audio_bytes + samples * SAMPLE
}
