//! A batch: the features of several clips, padded to one shape, as plain vectors.
//!
//! What is longer than the shape is cut, what is shorter is padded, and a row without a clip is all
//! padding with counts of 0: so every batch of a shape is of one size, whatever became of its clips.

use crate::batch_plan::{Position, Reference, Shape};
use crate::language::Language;
use crate::text::symbols::PAD;

/// All that is equal for the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchForm {
    pub position: Position,
    pub shape: Shape,
    pub mel_channels: u16,
    /// Length that references are padded to.
    pub reference_frames: u32,
}

/// One clip on its way into a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRow<'a> {
    /// The plan's number of the clip.
    pub clip: usize,
    pub tokens: &'a [u16],
    /// Log-mel frames, frame after frame.
    pub mel: &'a [f32],
    pub language: Language,
    pub speaker: u32,
    /// The crop of the reference clip, frame after frame; see [`crop`].
    pub reference: &'a [f32],
}

/// Row after row in each list; see [`collate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub position: Position,
    pub shape: Shape,
    pub mel_channels: u16,
    pub reference_frames: u32,
    /// The plan's number of each row's clip; `None` is a masked row.
    pub clips: Vec<Option<usize>>,
    /// rows × tokens; `PAD` behind each row's own.
    pub tokens: Vec<u16>,
    pub token_counts: Vec<u32>,
    /// rows × frames × channels of log-mel as it is in the cache (not normalised); padding is 0.0.
    pub mel: Vec<f32>,
    pub frame_counts: Vec<u32>,
    /// Undetermined in masked rows.
    pub languages: Vec<Language>,
    /// 0 in masked rows.
    pub speakers: Vec<u32>,
    /// rows × reference frames × channels.
    pub reference: Vec<f32>,
    pub reference_counts: Vec<u32>,
}

impl BatchForm {
    /// What a batch of this form takes in memory.
    pub fn bytes(&self) -> u64 {
        let rows = u64::from(self.shape.rows);
        let frames = u64::from(self.shape.frames) + u64::from(self.reference_frames);
        let values = frames * u64::from(self.mel_channels);
        let tokens = u64::from(self.shape.tokens);
        let each = size_of::<Option<usize>>() + size_of::<Language>() + 4 * size_of::<u32>();
        rows * (values * size_of::<f32>() as u64 + tokens * size_of::<u16>() as u64 + each as u64)
    }

    fn all_padding(self) -> Batch {
        let rows = self.shape.rows as usize;
        let channels = usize::from(self.mel_channels);
        let frames = rows * self.shape.frames as usize;
        let reference_frames = rows * self.reference_frames as usize;
        Batch {
            position: self.position,
            shape: self.shape,
            mel_channels: self.mel_channels,
            reference_frames: self.reference_frames,
            clips: vec![None; rows],
            tokens: vec![PAD; rows * self.shape.tokens as usize],
            token_counts: vec![0; rows],
            mel: vec![0.0; frames * channels],
            frame_counts: vec![0; rows],
            languages: vec![Language::UNDETERMINED; rows],
            speakers: vec![0; rows],
            reference: vec![0.0; reference_frames * channels],
            reference_counts: vec![0; rows],
        }
    }
}

impl Batch {
    pub fn form(&self) -> BatchForm {
        BatchForm {
            position: self.position,
            shape: self.shape,
            mel_channels: self.mel_channels,
            reference_frames: self.reference_frames,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.form().bytes()
    }

    /// Rows that are not masked.
    pub fn clip_count(&self) -> usize {
        self.clips.iter().flatten().count()
    }
}

/// Puts rows into one batch; `None` is a clip of which nothing came, a masked row. Rows that the shape
/// has beyond those given are masked, too; what is given beyond the shape's rows is left out.
pub fn collate<'a>(form: BatchForm, rows: impl IntoIterator<Item = Option<BatchRow<'a>>>) -> Batch {
    let mut batch = form.all_padding();
    let channels = usize::from(form.mel_channels).max(1);
    for (at, row) in rows.into_iter().take(form.shape.rows as usize).enumerate() {
        let Some(row) = row else { continue };
        batch.clips[at] = Some(row.clip);
        batch.languages[at] = row.language;
        batch.speakers[at] = row.speaker;
        batch.token_counts[at] = put_row(&mut batch.tokens, at, form.shape.tokens, row.tokens, 1);
        batch.frame_counts[at] = put_row(&mut batch.mel, at, form.shape.frames, row.mel, channels);
        batch.reference_counts[at] = put_row(
            &mut batch.reference,
            at,
            form.reference_frames,
            row.reference,
            channels,
        );
    }
    batch
}

/// The stretch of a clip that a reference names. A clip that is shorter than its header said (trimmed)
/// gives its last frames, or all of them.
pub fn crop(mel: &[f32], mel_channels: u16, reference: Reference) -> &[f32] {
    let channels = usize::from(mel_channels).max(1);
    let there = mel.len() / channels;
    let frames = (reference.frames as usize).min(there);
    let start = (reference.start_frame as usize).min(there - frames);
    &mel[start * channels..(start + frames) * channels]
}

/// Copies as many whole steps as there is room for into row `at`, and says how many.
fn put_row<T: Copy>(to: &mut [T], at: usize, room: u32, from: &[T], width: usize) -> u32 {
    let steps = (from.len() / width).min(room as usize);
    let start = at * room as usize * width;
    to[start..start + steps * width].copy_from_slice(&from[..steps * width]);
    steps as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: BatchForm = BatchForm {
        position: Position { epoch: 2, batch: 5 },
        shape: Shape {
            frames: 4,
            tokens: 3,
            rows: 3,
        },
        mel_channels: 2,
        reference_frames: 2,
    };

    fn row<'a>(tokens: &'a [u16], mel: &'a [f32], reference: &'a [f32]) -> BatchRow<'a> {
        BatchRow {
            clip: 7,
            tokens,
            mel,
            language: Language::English,
            speaker: 4,
            reference,
        }
    }

    #[test]
    fn rows_are_padded_and_counted_before_padding() {
        let mel = [1.0, 2.0, 3.0, 4.0];
        let batch = collate(FORM, [Some(row(&[20, 21], &mel, &[9.0, 8.0]))]);
        assert_eq!(batch.tokens[..3], [20, 21, PAD]);
        assert_eq!(batch.mel[..8], [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(batch.reference[..4], [9.0, 8.0, 0.0, 0.0]);
        let counts = (
            batch.token_counts[0],
            batch.frame_counts[0],
            batch.reference_counts[0],
        );
        assert_eq!(counts, (2, 2, 1));
        assert_eq!((batch.clips[0], batch.speakers[0]), (Some(7), 4));
        assert_eq!(batch.position, Position { epoch: 2, batch: 5 });
    }

    #[test]
    fn what_is_missing_is_masked() {
        let batch = collate(FORM, [None, Some(row(&[20], &[1.0, 1.0], &[]))]);
        assert_eq!(batch.clips, [None, Some(7), None]);
        assert_eq!(batch.clip_count(), 1);
        assert_eq!(batch.token_counts, [0, 1, 0]);
        assert_eq!(batch.frame_counts, [0, 1, 0]);
        assert!(batch.mel[..8].iter().all(|&value| value == 0.0));
        assert!(batch.tokens[..3].iter().all(|&token| token == PAD));
        assert_eq!(collate(FORM, []).clip_count(), 0);
    }

    #[test]
    fn what_is_too_long_is_cut_to_the_shape() {
        let mel: Vec<f32> = (0..20).map(|value| value as f32).collect();
        let rows = [Some(row(&[1, 2, 3, 4, 5], &mel, &mel)); 5];
        let batch = collate(FORM, rows);
        assert_eq!(batch.clips.len(), 3);
        assert_eq!(batch.frame_counts, [4, 4, 4]);
        assert_eq!(batch.token_counts, [3, 3, 3]);
        assert_eq!(batch.mel[8..16], mel[..8]);
        assert_eq!(batch.reference_counts, [2, 2, 2]);
    }

    #[test]
    fn every_batch_of_a_shape_takes_the_same_bytes() {
        let empty = collate(FORM, []);
        let values = (empty.mel.len() + empty.reference.len()) * 4 + empty.tokens.len() * 2;
        assert!(empty.bytes() > values as u64);
        let full = collate(FORM, [Some(row(&[1], &[1.0, 1.0], &[])); 3]);
        assert_eq!(full.bytes(), empty.bytes());
    }

    #[test]
    fn a_crop_stays_within_what_is_there() {
        let mel: Vec<f32> = (0..10).map(|value| value as f32).collect();
        let reference = |start_frame, frames| Reference {
            clip: 0,
            start_frame,
            frames,
        };
        assert_eq!(crop(&mel, 2, reference(1, 2)), [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(crop(&mel, 2, reference(4, 2)), [6.0, 7.0, 8.0, 9.0]);
        assert_eq!(crop(&mel, 2, reference(3, 9)), mel);
        assert!(crop(&[], 2, reference(3, 9)).is_empty());
    }
}
