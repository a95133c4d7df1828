//! What the model is asked to get right: the mel frames, the mean frame of each token, and how
//! long each token lasts. All over valid frames and tokens only.

use burn::tensor::{Tensor, TensorData};

use crate::align::{self, Durations};
use crate::device::{is_cpu, read};
use crate::model::{Encoded, Voice, expand};
use crate::prepare::{Counts, Prepared};

pub(crate) const MEAN_WEIGHT: f32 = 0.5;
pub(crate) const DURATION_WEIGHT: f32 = 0.3;

/// The parts of the loss of some batch, each one number on the device. Sums over the batch,
/// divided by what the whole effective batch holds: parts of micro-batches add up.
#[derive(Clone, Debug)]
pub(crate) struct LossTensors {
    pub(crate) mel: Tensor<1>,
    pub(crate) mean: Tensor<1>,
    pub(crate) duration: Tensor<1>,
}

impl LossTensors {
    pub(crate) fn total(&self) -> Tensor<1> {
        self.mel.clone() + self.mean.clone() * MEAN_WEIGHT + self.duration.clone() * DURATION_WEIGHT
    }

    /// The total and its parts (mel, mean, duration), without gradients. [`total_of_parts`] is the same total.
    pub(crate) fn together(&self, total: &Tensor<1>) -> Tensor<1> {
        let all = [total, &self.mel, &self.mean, &self.duration];
        Tensor::cat(all.map(|part| part.clone().inner()).to_vec(), 0)
    }
}

/// Of mel, mean and duration, one after another.
pub(crate) fn total_of_parts(parts: &Tensor<1>) -> Tensor<1> {
    let weights = Tensor::from_floats([1.0, MEAN_WEIGHT, DURATION_WEIGHT], &parts.device());
    (parts.clone() * weights).sum()
}

/// Everything that a pass over a batch made.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) losses: LossTensors,
    pub(crate) durations: Durations,
    pub(crate) encoded: Encoded,
    /// Normalised, not masked.
    pub(crate) mel: Tensor<3>,
}

/// From a batch to its losses. Aligns with the model's own means as they are now.
pub(crate) fn pass(model: &Voice, batch: &Prepared, prior_weight: f32, whole: Counts) -> Pass {
    let (style, encoded) = encode(model, batch);
    // On a GPU this is the one place where the host waits for the device: see `train::alignments`.
    let durations = alignment(&encoded, batch, prior_weight);
    pass_aligned(model, batch, encoded, &style, durations, whole)
}

/// The same with an alignment that is known, and the scores for the next one where they are wanted.
pub(crate) fn pass_with(
    model: &Voice,
    batch: &Prepared,
    durations: Durations,
    wants_scores: bool,
    whole: Counts,
) -> (Pass, Option<Tensor<3>>) {
    let (style, encoded) = encode(model, batch);
    let scores = wants_scores.then(|| scores(&encoded, batch));
    let pass = pass_aligned(model, batch, encoded, &style, durations, whole);
    (pass, scores)
}

pub(crate) fn encode(model: &Voice, batch: &Prepared) -> (Tensor<2>, Encoded) {
    let style = model.style(batch.reference.clone(), &batch.reference_spans);
    let encoded = model.encode(
        batch.tokens.clone(),
        batch.languages.clone(),
        &batch.token_spans,
        &style,
    );
    (style, encoded)
}

/// The losses for an alignment that is given.
pub(crate) fn pass_aligned(
    model: &Voice,
    batch: &Prepared,
    encoded: Encoded,
    style: &Tensor<2>,
    durations: Durations,
    whole: Counts,
) -> Pass {
    let device = batch.mel.device();
    let dtype = encoded.means.dtype();
    let [rows, tokens] = batch.tokens.dims();
    let [_, frames, channels] = batch.mel.dims();
    let mel = model.decode(
        encoded.states.clone(),
        &durations,
        &batch.frame_spans,
        style,
    );
    let frame_mask = batch.frame_spans.mask().cast(dtype);
    let values = (whole.frames.max(1) * channels as u64) as f32;
    let off = (mel.clone() - batch.mel.clone().cast(dtype)) * frame_mask.clone();
    let means = expand(encoded.means.clone(), &durations, frames);
    let off_mean = (means - batch.mel.clone().cast(dtype)) * frame_mask;
    let (logs, mask) = durations.logs_and_mask();
    let of_tokens = |values: Vec<f32>| {
        Tensor::<2>::from_data(TensorData::new(values, [rows, tokens]), &device).cast(dtype)
    };
    let off_duration = (encoded.log_durations.clone() - of_tokens(logs)) * of_tokens(mask);
    let losses = LossTensors {
        mel: off.abs().sum() / values,
        mean: off_mean.square().sum() / values,
        duration: off_duration.square().sum() / whole.tokens.max(1) as f32,
    };
    Pass {
        losses,
        durations,
        encoded,
        mel,
    }
}

/// Searches the best alignment on the host.
fn alignment(encoded: &Encoded, batch: &Prepared, prior_weight: f32) -> Durations {
    let scores = scores(encoded, batch);
    let [_, time, tokens] = scores.dims();
    let on_cpu = is_cpu(&scores.device());
    let mut scores = read(scores);
    let mut search = || align::search(&mut scores, time, tokens, &batch.lengths, prior_weight);
    if on_cpu {
        search()
    } else {
        align::pool().install(search)
    }
}

/// How well each token goes with each frame, rows × time × tokens.
///
/// The score of token i for frame j is −½‖μᵢ − yⱼ‖². What depends on the frame alone is the same
/// for every path and is left out: μᵢ·yⱼ − ½‖μᵢ‖².
fn scores(encoded: &Encoded, batch: &Prepared) -> Tensor<3> {
    let means = encoded.means.clone().inner();
    let mel = batch.mel.clone().cast(means.dtype());
    let half_norms = means.clone().square().sum_dim(2).swap_dims(1, 2) * 0.5;
    mel.matmul(means.swap_dims(1, 2)) - half_norms
}
