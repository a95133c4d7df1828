//! How much device memory a run needs, computed before anything is allocated.
//!
//! The sums are of what the pass keeps for its way back, block by block. Where they were held against
//! a backend's pools they lay above (`benches/records/training.md`).

use voxmill_speech::batch_plan::Shape;

use crate::model::{DECODER_WIDTH, DURATION_WIDTH, ENCODER_WIDTH, ModelShape, REFERENCE_WIDTH};

const FLOAT: u64 = 4;

/// Bytes on the model device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelNeed {
    /// Weights, gradients, the optimizer's moments and the running mean.
    pub weights: u64,
    /// What a step keeps of its largest batch.
    pub activations: u64,
    /// One batch that is ready.
    pub batch: u64,
}

impl ModelNeed {
    /// With so many batches on the device, the one in training included.
    pub fn with_slots(&self, slots: usize) -> u64 {
        self.weights + self.activations + self.batch * slots as u64
    }
}

/// What all steps of a run have in common.
#[derive(Clone, Debug)]
pub struct StepForm {
    pub shape: ModelShape,
    pub parameters: usize,
    pub mel_channels: usize,
    pub reference_frames: usize,
    /// Blocks keep only their inputs.
    pub recompute: bool,
}

impl StepForm {
    pub fn need(&self, batch: Shape) -> ModelNeed {
        let (rows, tokens) = (u64::from(batch.rows), u64::from(batch.tokens));
        let frames = u64::from(batch.frames);
        let (references, mels) = (self.reference_frames as u64, self.mel_channels as u64);
        let s = &self.shape;
        let (d, dr) = (s.channels as u64, s.reference_channels as u64);
        let blocks = |count: usize, width: usize, widen: usize, channels: u64| {
            count as u64 * self.kept_by_block(width, widen) * channels
        };
        let per_token = blocks(s.encoder_blocks, ENCODER_WIDTH, s.encoder_widen, d)
            + blocks(2, DURATION_WIDTH, 1, d)
            + 4 * d
            + 4 * mels;
        // Scores of the alignment: every frame with every token, three times on the way.
        let per_frame = blocks(s.decoder_blocks, DECODER_WIDTH, s.decoder_widen, d)
            + 8 * d
            + 10 * mels
            + 3 * tokens;
        let per_reference = blocks(s.reference_blocks, REFERENCE_WIDTH, 4, dr) + 6 * dr;
        let kept = tokens * per_token + frames * per_frame + references * per_reference;
        // One block at a time also has what it makes on the way back.
        let (widen, width) = (s.decoder_widen.max(s.encoder_widen), DECODER_WIDTH);
        let passing = frames.max(tokens) * kept_whole(width, widen) * d;
        let values = (frames + references) * (mels + 1) + 2 * tokens;
        ModelNeed {
            weights: 6 * FLOAT * self.parameters as u64,
            activations: FLOAT * rows * (kept + passing),
            batch: FLOAT * rows * values,
        }
    }

    /// Values for each channel of each frame.
    fn kept_by_block(&self, width: usize, widen: usize) -> u64 {
        match self.recompute {
            true => 2,
            false => kept_whole(width, widen),
        }
    }
}

/// A convolution keeps what each of its taps saw; norm, style and residual keep some ten more, and the
/// two products what is between them.
fn kept_whole(width: usize, widen: usize) -> u64 {
    (width + 10 + 3 * widen) as u64
}

/// Bytes on the data device while one batch is prepared there.
pub fn prepare_need(
    batch: Shape,
    reference_frames: usize,
    mel_channels: usize,
    samples_of_a_frame: Option<(usize, usize)>,
) -> u64 {
    let frames = u64::from(batch.rows) * (u64::from(batch.frames) + reference_frames as u64);
    let mels = mel_channels as u64;
    // In, normalised, and on its way.
    let mel = 4 * frames * mels;
    let made = samples_of_a_frame.map_or(0, |(n_fft, bins)| {
        let (n_fft, bins) = (n_fft as u64, bins as u64);
        // Windows, spectra, and the waves that they are multiplied with.
        frames * (2 * n_fft + 6 * bins) + 2 * n_fft * bins
    });
    FLOAT * (mel + made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSize;

    fn form(size: ModelSize, recompute: bool) -> StepForm {
        StepForm {
            shape: size.shape(),
            parameters: 2_000_000,
            mel_channels: 80,
            reference_frames: 129,
            recompute,
        }
    }

    fn shape(rows: u32, frames: u32) -> Shape {
        Shape {
            rows,
            frames,
            tokens: frames / 6,
        }
    }

    #[test]
    fn more_clips_longer_clips_and_larger_models_need_more() {
        let tiny = form(ModelSize::Tiny, false);
        let total = |form: &StepForm, rows, frames| form.need(shape(rows, frames)).with_slots(3);
        assert!(total(&tiny, 8, 400) > total(&tiny, 4, 400));
        assert!(total(&tiny, 8, 800) > total(&tiny, 8, 400));
        assert!(total(&form(ModelSize::Small, false), 8, 400) > total(&tiny, 8, 400));
        assert!(total(&form(ModelSize::Tiny, true), 8, 400) < total(&tiny, 8, 400) / 2);
        let need = tiny.need(shape(8, 400));
        assert_eq!(need.with_slots(4) - need.with_slots(3), need.batch);
    }

    #[test]
    fn making_frames_needs_more_than_passing_them_on() {
        let batch = shape(8, 400);
        let passed = prepare_need(batch, 129, 80, None);
        let made = prepare_need(batch, 129, 80, Some((1024, 370)));
        assert!(made > 5 * passed);
    }
}
