//! Small changes to the reference, each time different: a voice should be known by itself, not by
//! the room or the level it was recorded at.
//!
//! Only the reference is changed. What the model is to say stays clean: a model that is shown noise as
//! its target learns to make noise. All changes are made to log-mel frames, so they are the same
//! whether the frames come from the cache or were made on the device.

use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};
use voxmill_audio::{AudioSettings, LogMel};
use voxmill_data::batch::Batch;
use voxmill_data::draw::{below, draw, unit};

use super::{MelStatistics, denormalise, normalise};
use crate::model::Spans;

/// How much may change. Zero, or `None`, is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Augment {
    /// Louder or softer by up to so much.
    pub gain_db: f32,
    /// White noise, at least so far below the voice.
    pub noise_snr_db: Option<f32>,
    /// Ranges of time that are blanked, each up to a tenth of the reference.
    pub time_masks: u32,
    /// Bands of channels that are blanked, each up to an eighth of all.
    pub channel_masks: u32,
}

/// Noise is drawn up to so much further below the voice than it may come near.
const NOISE_RANGE_DB: f64 = 20.0;
/// Frames of noise to choose from.
const NOISE_FRAMES: usize = 1024;

#[derive(Debug)]
pub(super) struct Augmenter {
    augment: Augment,
    seed: u64,
    channels: usize,
    /// frames × channels of noise as mel magnitudes.
    noise: Tensor<2>,
    noise_frames: usize,
}

/// What happens to a row of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Augmentation {
    gain_db: f64,
    snr_db: Option<f64>,
    noise_from: usize,
    times: Vec<std::ops::Range<usize>>,
    channels: Vec<std::ops::Range<usize>>,
}

impl Augmenter {
    pub(super) fn new(augment: Augment, seed: u64, audio: &AudioSettings, device: &Device) -> Self {
        let samples = NOISE_FRAMES * audio.hop_length;
        let number = |at: usize, purpose: &str| unit(draw(0, at as u64, "noise", purpose));
        let white: Vec<f32> = (0..samples)
            .map(|at| (number(at, "white") * 2.0 - 1.0) as f32)
            .collect();
        let mut frames = Vec::new();
        if let Ok(mut log_mel) = LogMel::new(audio) {
            log_mel.log_mel(&white, &mut frames);
        }
        let channels = audio.n_mels;
        let noise_frames = frames.len() / channels;
        let magnitudes: Vec<f32> = frames.iter().map(|log| log.exp()).collect();
        let noise = TensorData::new(magnitudes, [noise_frames, channels]);
        Self {
            augment,
            seed,
            channels,
            noise: Tensor::from_data(noise, device),
            noise_frames,
        }
    }

    /// Of each row. Depends on the seed, the epoch and the clip, and on nothing else.
    pub(super) fn draw(&self, batch: &Batch) -> Vec<Augmentation> {
        let rows = batch.clips.iter().zip(&batch.reference_counts);
        let changes = rows.map(|(clip, &frames)| match clip {
            Some(clip) => self.change(batch.position.epoch, *clip, frames as usize),
            None => Augmentation::default(),
        });
        changes.collect()
    }

    fn change(&self, epoch: u64, clip: usize, frames: usize) -> Augmentation {
        let clip = clip.to_string();
        let number = |purpose: &str| draw(self.seed, epoch, &clip, purpose);
        let range = |whole: usize, most: usize, what: &str, n: u32| {
            let length = below(number(&format!("{what} length {n}")), most as u64 + 1) as usize;
            let room = (whole - length) as u64 + 1;
            let from = below(number(&format!("{what} place {n}")), room) as usize;
            from..from + length
        };
        let room = self.noise_frames.saturating_sub(frames) as u64 + 1;
        let times = 0..self.augment.time_masks;
        let channels = 0..self.augment.channel_masks;
        let snr = self.augment.noise_snr_db.map(f64::from);
        Augmentation {
            gain_db: f64::from(self.augment.gain_db) * (2.0 * unit(number("gain")) - 1.0),
            snr_db: snr.map(|snr| snr + NOISE_RANGE_DB * unit(number("noise"))),
            noise_from: below(number("noise place"), room) as usize,
            times: times
                .map(|n| range(frames, frames / 10, "time", n))
                .collect(),
            channels: channels
                .map(|n| range(self.channels, self.channels / 8, "channel", n))
                .collect(),
        }
    }

    /// `mel` is normalised; what comes back is, too.
    pub(super) fn apply(
        &self,
        mel: Tensor<3>,
        spans: &Spans,
        changes: &[Augmentation],
        statistics: MelStatistics,
    ) -> Tensor<3> {
        let [rows, time, channels] = mel.dims();
        let device = mel.device();
        let column = |values: Vec<f32>| {
            Tensor::<3>::from_data(TensorData::new(values, [rows, 1, 1]), &device)
        };
        let mut changed = denormalise(statistics, mel);
        if self.augment.noise_snr_db.is_some() {
            let below =
                |row: &Augmentation| row.snr_db.map_or(0.0, |db| 10f64.powf(-db / 20.0) as f32);
            let below = column(changes.iter().map(below).collect());
            changed = self.with_noise(changed, spans, changes, below);
        }
        let gains = (changes.iter()).map(|row| (row.gain_db / 20.0 * 10f64.ln()) as f32);
        changed = changed + column(gains.collect());
        let mut kept = vec![1.0; rows * time * channels];
        for (row, kept) in changes.iter().zip(kept.chunks_exact_mut(time * channels)) {
            for (at, kept) in kept.chunks_exact_mut(channels).enumerate() {
                if row.times.iter().any(|times| times.contains(&at)) {
                    kept.fill(0.0);
                }
                for blank in &row.channels {
                    kept[blank.clone()].fill(0.0);
                }
            }
        }
        let kept = TensorData::new(kept, [rows, time, channels]);
        normalise(statistics, changed, spans) * Tensor::from_data(kept, &device)
    }

    /// Voice and noise know nothing of each other, so their powers add up.
    fn with_noise(
        &self,
        log_mel: Tensor<3>,
        spans: &Spans,
        changes: &[Augmentation],
        below_voice: Tensor<3>,
    ) -> Tensor<3> {
        let [rows, time, channels] = log_mel.dims();
        let noises = changes.iter().map(|row| {
            let there = self.noise_frames.min(time);
            let from = row.noise_from.min(self.noise_frames - there);
            let mut noise = self.noise.clone().narrow(0, from, there);
            while noise.dims()[0] < time {
                noise = Tensor::cat(vec![noise.clone(), noise], 0);
            }
            noise.narrow(0, 0, time).reshape([1, time, channels])
        });
        let noise = Tensor::cat(noises.collect(), 0);
        let voice = log_mel.exp();
        let mask = spans.mask();
        let valid = |sound: &Tensor<3>| sound.clone().square() * mask.clone();
        let power = |sound: &Tensor<3>| valid(sound).sum_dim(1).sum_dim(2);
        let scale = (power(&voice) / power(&noise).clamp_min(1e-12)).sqrt() * below_voice;
        let noise = noise * scale.reshape([rows, 1, 1]);
        let both = (voice.square() + noise.square()).sqrt();
        both.clamp_min(1e-5).log()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_drawn_with_the_settings_alone() {
        let augment = Augment {
            gain_db: 6.0,
            noise_snr_db: Some(10.0),
            time_masks: 2,
            channel_masks: 1,
        };
        let (audio, cpu) = (AudioSettings::default(), crate::device::cpu());
        let augmenter = Augmenter::new(augment, 7, &audio, &cpu);
        let one = augmenter.change(3, 5, 100);
        assert_eq!(one, augmenter.change(3, 5, 100));
        assert_ne!(one, augmenter.change(4, 5, 100));
        assert_ne!(one, augmenter.change(3, 6, 100));
        assert!(one.gain_db.abs() <= 6.0);
        assert!(one.snr_db.is_some_and(|db| (10.0..30.0).contains(&db)));
        let mut times = one.times.iter();
        assert!(times.all(|range| range.end <= 100 && range.len() <= 10));
        let empty = augmenter.change(3, 5, 0);
        assert!(empty.times.iter().all(|range| range.is_empty()));
    }
}
