//! How well the voice does on clips that it never learned from.

use burn::tensor::Device;
use voxmill_speech::batch::Batch;

use super::{FeedError, Losses, Shown};
use crate::loss::{DURATION_WEIGHT, MEAN_WEIGHT, pass};
use crate::model::Voice;
use crate::prepare::{Counts, MelStatistics, prepare};

/// The mean losses over all batches, and the first clip to look at. `None` without any clip.
pub(super) fn validate(
    model: &Voice,
    batches: impl Iterator<Item = Result<Batch, FeedError>>,
    statistics: MelStatistics,
    device: &Device,
) -> Result<Option<(Losses, Option<Shown>)>, FeedError> {
    let mut sum = Losses::default();
    let mut all = Counts::default();
    let mut shown = None;
    for batch in batches {
        let batch = batch?;
        let counts = Counts::of(&batch);
        if counts.frames == 0 {
            continue;
        }
        let real = shown.is_none().then(|| first_row(&batch));
        let prepared = prepare(batch, statistics, device);
        let made = pass(model, &prepared, 0.0, counts);
        let read = |part: &burn::tensor::Tensor<1>| f64::from(part.clone().into_scalar::<f32>());
        let frames = counts.frames as f64;
        sum.mel += read(&made.losses.mel) * frames;
        sum.mean += read(&made.losses.mean) * frames;
        sum.duration += read(&made.losses.duration) * counts.tokens as f64;
        all.frames += counts.frames;
        all.tokens += counts.tokens;
        if let Some(Some((row, clip, real))) = real {
            let [_, _, channels] = made.mel.dims();
            let mel = statistics.undo(made.mel.narrow(0, row, 1));
            let frames = real.len() / channels;
            let made_mel: Vec<f32> = mel.into_data().iter::<f32>().take(real.len()).collect();
            let durations = made.durations.row(row);
            let tokens = prepared.lengths[row].tokens;
            shown = Some(Shown {
                clip,
                frames,
                channels,
                real,
                made: made_mel,
                durations: durations[..tokens].to_vec(),
            });
        }
    }
    if all.frames == 0 {
        return Ok(None);
    }
    let (frames, tokens) = (all.frames as f64, all.tokens as f64);
    let (mel, mean, duration) = (sum.mel / frames, sum.mean / frames, sum.duration / tokens);
    let losses = Losses {
        total: mel + f64::from(MEAN_WEIGHT) * mean + f64::from(DURATION_WEIGHT) * duration,
        mel,
        mean,
        duration,
    };
    Ok(Some((losses, shown)))
}

fn first_row(batch: &Batch) -> Option<(usize, usize, Vec<f32>)> {
    let row = batch.frame_counts.iter().position(|&frames| frames > 0)?;
    let channels = usize::from(batch.mel_channels);
    let begin = row * batch.shape.frames as usize * channels;
    let values = batch.frame_counts[row] as usize * channels;
    Some((
        row,
        batch.clips[row]?,
        batch.mel[begin..begin + values].to_vec(),
    ))
}
