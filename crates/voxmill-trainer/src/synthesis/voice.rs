//! A trained voice: tokens in, log-mel frames out.

use burn::tensor::{Device, Int, Tensor, TensorData};
use voxmill_text::language::Language;

use crate::align::Durations;
use crate::checkpoint::{CheckpointError, CheckpointFolder, VoiceFacts, voice_from_bytes};
use crate::device::read;
use crate::model::{Spans, Voice};
use crate::prepare::{denormalise, normalise};

/// The model of a checkpoint, or of a run between two steps, with what it knows of its speakers.
#[derive(Debug)]
pub struct TrainedVoice {
    model: Voice,
    facts: VoiceFacts,
    device: Device,
}

/// Speech as log-mel frames.
#[derive(Clone, Debug)]
pub struct SpokenMel {
    /// Log-mel, frame after frame.
    pub mel: Vec<f32>,
    pub channels: usize,
    /// Frames of each token.
    pub durations: Vec<u32>,
}

impl SpokenMel {
    /// How many frames it has.
    pub fn frames(&self) -> usize {
        self.mel.len() / self.channels.max(1)
    }
}

impl TrainedVoice {
    /// Reads a checkpoint's voice onto a device.
    pub fn load(checkpoint: &CheckpointFolder, device: &Device) -> Result<Self, CheckpointError> {
        let facts = checkpoint.facts().voice.clone();
        Ok(Self::new(checkpoint.voice(device)?, facts, device.clone()))
    }

    /// From the bytes of `checkpoint.json` and `voice.safetensors`, which may be anybody's. Hashes are not compared.
    pub fn from_bytes(json: &[u8], voice: &[u8], device: &Device) -> Result<Self, CheckpointError> {
        let (facts, model) = voice_from_bytes(json, voice, device)?;
        Ok(Self::new(model, facts, device.clone()))
    }

    pub(crate) fn new(model: Voice, facts: VoiceFacts, device: Device) -> Self {
        Self {
            model,
            facts,
            device,
        }
    }

    /// What is known of it besides its weights.
    pub fn facts(&self) -> &VoiceFacts {
        &self.facts
    }

    /// The style of a recording, from its log-mel frames.
    pub fn style_of(&self, mut mel: Vec<f32>) -> Vec<f32> {
        let channels = self.facts.vocabulary.mel_channels;
        let frames = mel.len() / channels;
        let time = frames.max(1);
        mel.resize(time * channels, 0.0);
        let mel = TensorData::new(mel, [1, time, channels]);
        let spans = Spans::new(&[frames as u32], time, &self.device);
        let mel = Tensor::from_data(mel, &self.device);
        let mel = normalise(self.facts.mel_statistics, mel, &spans);
        read(self.model.style(mel, &spans))
    }

    /// The stored style of a speaker.
    pub fn style_named(&self, name: &str) -> Option<&[f32]> {
        self.facts.speakers.get(name).map(Vec::as_slice)
    }

    /// Speaks tokens (at least one) in a style; `rate` above 1 is faster.
    pub fn speak(&self, tokens: &[u16], language: Language, style: &[f32], rate: f64) -> SpokenMel {
        let count = tokens.len();
        let device = &self.device;
        let ids: Vec<i32> = tokens.iter().map(|&id| i32::from(id)).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, count]), device);
        let language = Tensor::<1, Int>::from_data([language.id() as i32], device);
        let style =
            Tensor::<2>::from_data(TensorData::new(style.to_vec(), [1, style.len()]), device);
        let spans = Spans::new(&[count as u32], count, device);
        let encoded = self.model.encode(ids, language, &spans, &style);
        let logs = read(encoded.log_durations);
        let durations = whole_frames(&logs, self.facts.length_scale / rate);
        let frames = durations.iter().sum::<u32>();
        let durations = Durations::new(durations, count);
        let spans = Spans::new(&[frames], frames as usize, device);
        let mel = (self.model).decode(encoded.states, &durations, &spans, &style);
        SpokenMel {
            mel: read(denormalise(self.facts.mel_statistics, mel)),
            channels: self.facts.vocabulary.mel_channels,
            durations: durations.row(0).to_vec(),
        }
    }
}

/// The longest a token may last: 4 s at the usual hop. An untrained model may ask for anything.
const MOST_FRAMES: f64 = 350.0;

/// Whole frames from log-durations. What is rounded is the running sum, so that errors do not add
/// up; every token gets at least one frame.
fn whole_frames(logs: &[f32], scale: f64) -> Vec<u32> {
    let mut exact = 0.0;
    let mut given = 0u32;
    logs.iter()
        .map(|log| {
            let lasts = f64::from(*log).exp();
            exact += (if lasts.is_finite() { lasts } else { 1.0 } * scale).min(MOST_FRAMES);
            let until = (exact.round() as u32).max(given + 1);
            let frames = until - given;
            given = until;
            frames
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_errors_do_not_add_up() {
        let logs = [2.4f32.ln(); 100];
        let frames = whole_frames(&logs, 1.0);
        assert_eq!(frames.iter().sum::<u32>(), 240);
        assert!(frames.iter().all(|n| (2..=3).contains(n)));
    }

    #[test]
    fn every_token_gets_a_frame_and_none_gets_thousands() {
        let frames = whole_frames(&[-9.0, f32::NAN, 20.0, -9.0], 1.0);
        assert!(frames.iter().all(|n| (1..=351).contains(n)), "{frames:?}");
    }
}
