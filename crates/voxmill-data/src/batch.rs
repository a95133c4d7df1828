//! A batch: the features of several clips, padded to one shape, as plain vectors.
//!
//! What is longer than the shape is cut, what is shorter is padded, and a row without a clip is all
//! padding with counts of 0: so every batch of a shape is of one size, whatever became of its clips.
//!
//! The sound of a clip is log-mel frames, or samples for a device that computes the frames itself. The
//! counts are of frames either way.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::batch_plan::{Position, Reference, Shape};
use voxmill_audio::Framing;
use voxmill_text::language::Language;
use voxmill_text::symbols::PAD;

/// All that is equal for the rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchForm {
    pub position: Position,
    pub shape: Shape,
    pub mel_channels: u16,
    /// Length that references are padded to.
    pub reference_frames: u32,
    /// How samples become frames; `None`: the frames themselves are in the batch.
    pub framing: Option<Framing>,
}

/// One clip on its way into a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRow<'a> {
    /// The plan's number of the clip.
    pub clip: usize,
    pub tokens: &'a [u16],
    /// Log-mel frames, frame after frame, or the samples under them; see [`BatchForm::layout`].
    pub sound: &'a [f32],
    pub language: Language,
    pub speaker: u32,
    /// The crop of the reference clip, laid out like `sound`; see [`named_frames`].
    pub reference: &'a [f32],
}

/// Each list holds row after row; see [`collate`]. Masked rows are all padding: a loss leaves them out
/// by their counts, which are 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Where the batch is in the plan.
    pub position: Position,
    /// Rows, and the lengths that they are padded to.
    pub shape: Shape,
    pub mel_channels: u16,
    /// Length that references are padded to.
    pub reference_frames: u32,
    /// The plan's number of each row's clip (see [`Loader::clip`](crate::Loader::clip)); `None` is a masked row.
    pub clips: Vec<Option<usize>>,
    /// rows × tokens; [`PAD`] behind each row's own.
    pub tokens: Vec<u16>,
    /// Of each row, before padding.
    pub token_counts: Vec<u32>,
    pub sound: Sound,
    /// Of each row, before padding.
    pub frame_counts: Vec<u32>,
    /// Undetermined in masked rows.
    pub languages: Vec<Language>,
    /// 0 in masked rows.
    pub speakers: Vec<u32>,
    /// Frames of each row's reference, before padding.
    pub reference_counts: Vec<u32>,
}

/// What the clips of a batch, and their references, sound like. Padding is 0.0.
#[derive(Clone, Debug, PartialEq)]
pub enum Sound {
    /// Log-mel as it is in the cache (not normalised).
    LogMel {
        /// rows × frames × channels.
        frames: Vec<f32>,
        /// rows × reference frames × channels.
        reference: Vec<f32>,
    },
    /// Samples with what clips are padded with already in place: frame `t` of a row is the `n_fft`
    /// samples from its sample `t * hop` on. Frames beyond a row's count see the end of its last ones:
    /// frames that are computed from them must be masked.
    Samples {
        framing: Framing,
        /// rows × [`Framing::row_width`] of the shape's frames.
        rows: Vec<f32>,
        /// rows × [`Framing::row_width`] of the reference frames.
        reference: Vec<f32>,
    },
}

impl Sound {
    /// All rows, of either kind.
    pub fn rows(&self) -> &[f32] {
        match self {
            Sound::LogMel { frames: rows, .. } | Sound::Samples { rows, .. } => rows,
        }
    }

    /// The same, to be changed in place.
    pub fn rows_mut(&mut self) -> &mut [f32] {
        match self {
            Sound::LogMel { frames: rows, .. } | Sound::Samples { rows, .. } => rows,
        }
    }

    /// The references of all rows, of either kind.
    pub fn reference(&self) -> &[f32] {
        match self {
            Sound::LogMel { reference, .. } | Sound::Samples { reference, .. } => reference,
        }
    }

    /// The same, to be changed in place.
    pub fn reference_mut(&mut self) -> &mut [f32] {
        match self {
            Sound::LogMel { reference, .. } | Sound::Samples { reference, .. } => reference,
        }
    }

    /// How samples become frames; `None`: they are frames.
    pub fn framing(&self) -> Option<Framing> {
        match self {
            Sound::LogMel { .. } => None,
            Sound::Samples { framing, .. } => Some(*framing),
        }
    }
}

impl BatchForm {
    /// How frames lie in the values of a row. Log-mel frames lie side by side: as windows of all
    /// channels that do not overlap.
    pub fn layout(&self) -> Framing {
        let channels = usize::from(self.mel_channels).max(1);
        self.framing.unwrap_or(Framing {
            n_fft: channels,
            hop: channels,
        })
    }

    /// Bytes of a row's sound and of its reference's.
    pub fn sound_bytes_of_a_row(&self) -> u64 {
        let [width, reference_width] = self.row_widths();
        ((width + reference_width) * size_of::<f32>()) as u64
    }

    /// What a batch of this form takes in memory.
    pub fn bytes(&self) -> u64 {
        let tokens = u64::from(self.shape.tokens) * size_of::<u16>() as u64;
        let each = size_of::<Option<usize>>() + size_of::<Language>() + 4 * size_of::<u32>();
        u64::from(self.shape.rows) * (self.sound_bytes_of_a_row() + tokens + each as u64)
    }

    /// Values of a row, and of its reference.
    fn row_widths(&self) -> [usize; 2] {
        [self.shape.frames, self.reference_frames]
            .map(|frames| self.layout().row_width(frames as usize))
    }

    fn all_padding(self) -> Batch {
        let rows = self.shape.rows as usize;
        let [values, reference] = self.row_widths().map(|width| vec![0.0; rows * width]);
        Batch {
            position: self.position,
            shape: self.shape,
            mel_channels: self.mel_channels,
            reference_frames: self.reference_frames,
            clips: vec![None; rows],
            tokens: vec![PAD; rows * self.shape.tokens as usize],
            token_counts: vec![0; rows],
            sound: match self.framing {
                None => Sound::LogMel {
                    frames: values,
                    reference,
                },
                Some(framing) => Sound::Samples {
                    framing,
                    rows: values,
                    reference,
                },
            },
            frame_counts: vec![0; rows],
            languages: vec![Language::UNDETERMINED; rows],
            speakers: vec![0; rows],
            reference_counts: vec![0; rows],
        }
    }
}

impl Batch {
    /// Its sizes, without its numbers.
    pub fn form(&self) -> BatchForm {
        BatchForm {
            position: self.position,
            shape: self.shape,
            mel_channels: self.mel_channels,
            reference_frames: self.reference_frames,
            framing: self.sound.framing(),
        }
    }

    /// What its numbers take in memory.
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
    let Shape { tokens, frames, .. } = form.shape;
    let (layout, one_by_one) = (form.layout(), Framing { n_fft: 1, hop: 1 });
    for (at, row) in rows.into_iter().take(form.shape.rows as usize).enumerate() {
        let Some(row) = row else { continue };
        batch.clips[at] = Some(row.clip);
        batch.languages[at] = row.language;
        batch.speakers[at] = row.speaker;
        batch.token_counts[at] = put_row(&mut batch.tokens, at, tokens, row.tokens, one_by_one);
        batch.frame_counts[at] = put_row(batch.sound.rows_mut(), at, frames, row.sound, layout);
        let (to, frames) = (batch.sound.reference_mut(), form.reference_frames);
        batch.reference_counts[at] = put_row(to, at, frames, row.reference, layout);
    }
    batch
}

/// The frames that a reference names, of a clip of `count` frames. A clip that is shorter than its
/// header said (trimmed) gives its last frames, or all of them.
pub fn named_frames(reference: Reference, count: usize) -> Range<usize> {
    let frames = (reference.frames as usize).min(count);
    let start = (reference.start_frame as usize).min(count - frames);
    start..start + frames
}

/// The part of a clip that a reference names, out of frames that are laid out.
pub fn crop(laid_out: &[f32], layout: Framing, reference: Reference) -> &[f32] {
    let count = layout.frames_in(laid_out.len());
    layout.under(laid_out, named_frames(reference, count))
}

/// Copies as many whole frames as there is room for into row `at`, and returns how many.
fn put_row<T: Copy>(to: &mut [T], at: usize, room: u32, from: &[T], layout: Framing) -> u32 {
    let frames = layout.frames_in(from.len()).min(room as usize);
    let from = layout.under(from, 0..frames);
    let start = at * layout.row_width(room as usize);
    to[start..start + from.len()].copy_from_slice(from);
    frames as u32
}
