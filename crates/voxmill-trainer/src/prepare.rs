//! A batch on its way to the model: from lists on the host to tensors on the device, normalised.

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use voxmill_speech::batch::Batch;
use voxmill_speech::language::Language;

use crate::align::Lengths;
use crate::model::Spans;

/// Mean and deviation of all log-mel values: taken once before the first step, then frozen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MelStatistics {
    pub mean: f32,
    pub deviation: f32,
}

/// What a loss is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub frames: u64,
    pub tokens: u64,
}

impl Counts {
    pub fn of(batch: &Batch) -> Self {
        let sum = |counts: &[u32]| counts.iter().copied().map(u64::from).sum();
        Self {
            frames: sum(&batch.frame_counts),
            tokens: sum(&batch.token_counts),
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |sum, one| Counts {
            frames: sum.frames + one.frames,
            tokens: sum.tokens + one.tokens,
        })
    }
}

/// A batch as the model takes it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) lengths: Vec<Lengths>,
    pub(crate) tokens: Tensor<2, Int>,
    pub(crate) token_spans: Spans,
    pub(crate) languages: Tensor<1, Int>,
    pub(crate) mel: Tensor<3>,
    pub(crate) frame_spans: Spans,
    pub(crate) reference: Tensor<3>,
    pub(crate) reference_spans: Spans,
}

/// Languages that have an embedding of their own, and one for all others.
pub const LANGUAGES: usize = 3;

pub(crate) fn language_number(language: Language) -> i32 {
    match language {
        Language::English => 0,
        Language::Persian => 1,
        Language::Other(_) => 2,
    }
}

impl MelStatistics {
    /// Normalised, with zeros in place of padding.
    pub(crate) fn normalise(&self, mel: Tensor<3>, spans: &Spans) -> Tensor<3> {
        (mel - self.mean) * (1.0 / self.deviation) * spans.mask()
    }

    pub(crate) fn undo(&self, mel: Tensor<3>) -> Tensor<3> {
        mel * self.deviation + self.mean
    }
}

/// `device` carries no gradients: these are inputs.
pub(crate) fn prepare(batch: Batch, statistics: MelStatistics, device: &Device) -> Prepared {
    let rows = batch.clips.len();
    let channels = usize::from(batch.mel_channels);
    let (tokens, frames) = (batch.shape.tokens as usize, batch.shape.frames as usize);
    let reference_frames = batch.reference_frames as usize;
    let lengths = (batch.token_counts.iter().zip(&batch.frame_counts))
        .map(|(&tokens, &frames)| Lengths {
            tokens: tokens as usize,
            frames: frames as usize,
        })
        .collect();
    let frame_spans = Spans::new(&batch.frame_counts, frames, device);
    let reference_spans = Spans::new(&batch.reference_counts, reference_frames, device);
    let mel = |values: Vec<f32>, time: usize, spans: &Spans| {
        let mel = Tensor::from_data(TensorData::new(values, [rows, time, channels]), device);
        statistics.normalise(mel, spans)
    };
    let ids: Vec<i32> = batch.tokens.iter().map(|&id| i32::from(id)).collect();
    let languages: Vec<i32> = batch
        .languages
        .iter()
        .map(|&l| language_number(l))
        .collect();
    Prepared {
        lengths,
        tokens: Tensor::from_data(TensorData::new(ids, [rows, tokens]), device),
        token_spans: Spans::new(&batch.token_counts, tokens, device),
        languages: Tensor::from_data(TensorData::new(languages, [rows]), device),
        mel: mel(batch.mel, frames, &frame_spans),
        frame_spans,
        reference: mel(batch.reference, reference_frames, &reference_spans),
        reference_spans,
    }
}
