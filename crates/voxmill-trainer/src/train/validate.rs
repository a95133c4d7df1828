//! How well the voice does on clips that it never learned from.

use burn::tensor::Tensor;

use super::{FeedError, Losses, Shown};
use crate::device::{read, read_one};
use crate::loss::{DURATION_WEIGHT, MEAN_WEIGHT, pass};
use crate::model::Voice;
use crate::prepare::{Counts, MelStatistics, ReadyBatch, denormalise};

/// The mean losses over all batches, and the first clip to look at. `None` without any clip, and where it is asked to
/// stop: an answer on some of the clips is none.
pub(super) fn validate(
    model: &Voice,
    mut batches: impl Iterator<Item = Result<ReadyBatch, FeedError>>,
    statistics: MelStatistics,
    is_asked_to_stop: impl Fn() -> bool,
) -> Result<Option<(Losses, Option<Shown>)>, FeedError> {
    let mut sum = Losses::default();
    let mut all = Counts::default();
    let mut shown = None;
    loop {
        if is_asked_to_stop() {
            return Ok(None);
        }
        let Some(batch) = batches.next() else {
            break;
        };
        let batch = batch?.adopted();
        let counts = batch.counts;
        if counts.frames == 0 {
            continue;
        }
        let first = shown.is_none().then(|| first_row(&batch)).flatten();
        let prepared = batch.prepared;
        let made = pass(model, &prepared, 0.0, counts);
        let number = |part: &Tensor<1>| f64::from(read_one(part.clone()));
        let frames = counts.frames as f64;
        sum.mel += number(&made.losses.mel) * frames;
        sum.mean += number(&made.losses.mean) * frames;
        sum.duration += number(&made.losses.duration) * counts.tokens as f64;
        all = all + counts;
        if let Some((row, clip)) = first {
            let [_, _, channels] = made.mel.dims();
            let frames = prepared.lengths[row].frames;
            let of_row = |mel: &Tensor<3>| {
                let mut values = read(denormalise(statistics, mel.clone().narrow(0, row, 1)));
                values.truncate(frames * channels);
                values
            };
            let tokens = prepared.lengths[row].tokens;
            shown = Some(Shown {
                clip,
                frames,
                channels,
                real: of_row(&prepared.mel),
                made: of_row(&made.mel),
                durations: made.durations.row(row)[..tokens].to_vec(),
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

/// The first row that is not masked, and its clip.
fn first_row(batch: &ReadyBatch) -> Option<(usize, usize)> {
    let mut rows = batch.prepared.lengths.iter();
    let row = rows.position(|lengths| lengths.frames > 0)?;
    Some((row, batch.clips[row]?))
}
