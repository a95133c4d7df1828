//! How much device memory a run needs, computed before the model is made.
//!
//! The sums are of what the forward pass keeps for the backward pass, block by block. How they compare with a backend's
//! pools is in `benches/records/training.md`.

use voxmill_data::batch_plan::Shape;

use crate::device::Precision;
use crate::model::ModelShape;
use crate::train::excerpts_per_speaker;

const FLOAT: u64 = 4;
const HALF: u64 = 2;

/// Bytes on the model device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelNeed {
    /// Weights, gradients, the optimizer's moments and the running mean; and the excerpts that speakers are known by.
    pub weights: u64,
    /// What a step keeps of its largest batch.
    pub activations: u64,
    /// One batch that is ready.
    pub batch: u64,
}

impl ModelNeed {
    /// With this many batches on the device, the one in training included.
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
    pub speakers: usize,
    pub recompute: Recompute,
    pub precision: Precision,
}

/// What the backward pass makes again instead of having it kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    Nothing,
    /// Whole blocks, which then keep only their inputs.
    Blocks,
}

impl StepForm {
    /// What a batch of this shape takes.
    pub fn need(&self, batch: Shape) -> ModelNeed {
        let (rows, tokens) = (u64::from(batch.rows), u64::from(batch.tokens));
        let frames = u64::from(batch.frames);
        let (references, mels) = (self.reference_frames as u64, self.mel_channels as u64);
        let s = &self.shape;
        let (d, dr) = (s.channels as u64, s.reference_channels as u64);
        let (wide, own) = (FLOAT, self.activation());
        let blocks = |count: usize, widen: usize, channels: u64| {
            count as u64 * self.kept_by_block(widen) * channels
        };
        let per_token = blocks(s.encoder_blocks, s.encoder_widen, d)
            + blocks(2, 1, d)
            + own * 4 * d
            + wide * 4 * mels;
        // Scores of the alignment: every frame with every token, three times on the way. Like all that
        // losses are made of they are 32 bits wide.
        let per_frame = blocks(s.decoder_blocks, s.decoder_widen, d)
            + own * 8 * d
            + wide * (10 * mels + 3 * tokens);
        let per_reference = blocks(s.reference_blocks, 4, dr) + wide * 6 * dr;
        let kept = tokens * per_token + frames * per_frame + references * per_reference;
        // One block at a time also has what it makes in the backward pass: what was not kept, the gradients between its
        // products, and in 32 bits what the norm and the convolution need.
        let widen = s.decoder_widen.max(s.encoder_widen) as u64;
        let passing = frames.max(tokens) * d * (own * (6 + 4 * widen) + 2 * wide);
        let values = (frames + references) * (mels + 1) + 2 * tokens;
        // In 16 bits every weight has a second copy, for as long as the backward pass needs it.
        let copies = if own == HALF { HALF } else { 0 };
        let excerpts = (self.speakers * excerpts_per_speaker(self.speakers)) as u64;
        ModelNeed {
            weights: (6 * FLOAT + copies) * self.parameters as u64
                + FLOAT * excerpts * references * mels,
            activations: rows * (kept + passing),
            batch: FLOAT * rows * values,
        }
    }

    /// Bytes of a value between two operations.
    fn activation(&self) -> u64 {
        match self.precision {
            Precision::Single => FLOAT,
            Precision::Bf16 | Precision::F16 => HALF,
        }
    }

    /// Bytes for each channel of each frame: the input, and what goes into each of the two products.
    fn kept_by_block(&self, widen: usize) -> u64 {
        let own = self.activation();
        match self.recompute {
            Recompute::Nothing => own * (3 + widen as u64),
            Recompute::Blocks => 2 * own,
        }
    }
}

/// Bytes on a device for as long as it makes frames: the waves that samples are multiplied with, and the filters.
pub fn frame_tables(n_fft: usize, mel_channels: usize) -> u64 {
    FLOAT * (2 * n_fft + mel_channels) as u64 * (n_fft / 2 + 1) as u64
}

/// Bytes on the data device while one batch is prepared there, without [`frame_tables`]. `n_fft` where it makes frames.
pub fn prepare_need(
    batch: Shape,
    reference_frames: usize,
    mel_channels: usize,
    n_fft: Option<usize>,
) -> u64 {
    let frames = u64::from(batch.rows) * (u64::from(batch.frames) + reference_frames as u64);
    let mels = mel_channels as u64;
    // In, normalised, and on its way.
    let mel = 4 * frames * mels;
    let made = n_fft.map_or(0, |n_fft| {
        // Windows and spectra.
        frames * (2 * n_fft + 6 * (n_fft / 2 + 1)) as u64
    });
    FLOAT * (mel + made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelSize;

    fn form(size: ModelSize, recompute: Recompute) -> StepForm {
        StepForm {
            shape: size.shape(),
            parameters: 2_000_000,
            mel_channels: 80,
            reference_frames: 129,
            speakers: 1,
            recompute,
            precision: Precision::Single,
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
        let tiny = form(ModelSize::Tiny, Recompute::Nothing);
        let total = |form: &StepForm, rows, frames| form.need(shape(rows, frames)).with_slots(3);
        assert!(total(&tiny, 8, 400) > total(&tiny, 4, 400));
        assert!(total(&tiny, 8, 800) > total(&tiny, 8, 400));
        let small = form(ModelSize::Small, Recompute::Nothing);
        assert!(total(&small, 8, 400) > total(&tiny, 8, 400));
        let blocks = form(ModelSize::Tiny, Recompute::Blocks);
        assert!(total(&blocks, 8, 400) < total(&tiny, 8, 400) * 3 / 4);
        let need = tiny.need(shape(8, 400));
        assert_eq!(need.with_slots(4) - need.with_slots(3), need.batch);
    }

    #[test]
    fn half_the_bits_take_little_more_than_half_the_activations() {
        for recompute in [Recompute::Nothing, Recompute::Blocks] {
            let single = form(ModelSize::Tiny, recompute);
            let need = |precision| {
                let form = StepForm {
                    precision,
                    ..single.clone()
                };
                form.need(shape(8, 400))
            };
            let (single, half) = (need(Precision::Single), need(Precision::Bf16));
            let share = half.activations as f64 / single.activations as f64;
            assert!((0.5..0.7).contains(&share), "{recompute:?} {share}");
            assert_eq!(half.weights - single.weights, 2 * 2_000_000);
            assert_eq!(half.batch, single.batch);
            assert_eq!(need(Precision::F16), half);
        }
    }

    #[test]
    fn making_frames_needs_more_than_passing_them_on() {
        let batch = shape(8, 400);
        let passed = prepare_need(batch, 129, 80, None);
        let made = prepare_need(batch, 129, 80, Some(1024));
        assert!(made > 5 * passed);
    }
}
