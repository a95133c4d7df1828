//! How each speaker sounds: the mean style over some of their clips, for speaking without a
//! reference.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};
use voxmill_speech::batch::Batch;

use crate::model::{Spans, Voice};
use crate::prepare::MelStatistics;

/// Stretches that are kept of all speakers together: 2,000 of 1.5 s are about 80 MB.
const MOST: usize = 2_000;
const MOST_OF_ONE: usize = 16;

/// Keeps the first few reference stretches of each speaker that come by.
#[derive(Debug)]
pub(super) struct Styles {
    of_one: usize,
    heard: BTreeMap<usize, Vec<Vec<f32>>>,
    channels: usize,
}

impl Styles {
    pub(super) fn new(speakers: usize) -> Self {
        Self {
            of_one: (MOST / speakers.max(1)).clamp(1, MOST_OF_ONE),
            heard: BTreeMap::new(),
            channels: 0,
        }
    }

    pub(super) fn hear(&mut self, batch: &Batch) {
        self.channels = usize::from(batch.mel_channels);
        let row_values = batch.reference_frames as usize * self.channels;
        for (row, &speaker) in batch.speakers.iter().enumerate() {
            let valid = batch.reference_counts[row] as usize * self.channels;
            let stretch = &batch.reference[row * row_values..][..valid];
            let of_speaker = self.heard.entry(speaker as usize).or_default();
            // A single number that is not finite would spoil the mean.
            if valid > 0
                && of_speaker.len() < self.of_one
                && stretch.iter().all(|value| value.is_finite())
            {
                of_speaker.push(stretch.to_vec());
            }
        }
    }

    /// The mean style of each speaker heard so far.
    pub(super) fn means(
        &self,
        model: &Voice,
        statistics: MelStatistics,
        device: &Device,
    ) -> Vec<(usize, Vec<f32>)> {
        let heard = self
            .heard
            .iter()
            .filter(|(_, stretches)| !stretches.is_empty());
        heard
            .map(|(&speaker, stretches)| {
                let styles = style_of(model, stretches, self.channels, statistics, device);
                (speaker, styles)
            })
            .collect()
    }
}

/// The mean style of some stretches of log-mel frames.
pub(crate) fn style_of(
    model: &Voice,
    stretches: &[Vec<f32>],
    channels: usize,
    statistics: MelStatistics,
    device: &Device,
) -> Vec<f32> {
    let lengths: Vec<u32> = stretches
        .iter()
        .map(|s| (s.len() / channels) as u32)
        .collect();
    let time = lengths.iter().copied().max().unwrap_or(1).max(1) as usize;
    let mut mel = vec![0.0; stretches.len() * time * channels];
    for (row, stretch) in mel.chunks_exact_mut(time * channels).zip(stretches) {
        row[..stretch.len()].copy_from_slice(stretch);
    }
    let spans = Spans::new(&lengths, time, device);
    let mel = TensorData::new(mel, [stretches.len(), time, channels]);
    let mel = statistics.normalise(Tensor::from_data(mel, device), &spans);
    let styles = model.style(mel, &spans);
    styles.mean_dim(0).into_data().iter::<f32>().collect()
}
