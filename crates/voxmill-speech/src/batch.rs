//! One batch, collated and padded: what goes up to a device.

use crate::batch_plan::{Position, Shape};
use crate::language::Language;

/// Plain lists, row after row. A masked row has counts of 0 and is all padding.
#[derive(Clone, Debug)]
pub struct Batch {
    pub position: Position,
    pub shape: Shape,
    /// Plan number of each row's clip.
    pub clips: Vec<Option<usize>>,
    pub tokens: Vec<u16>,
    pub token_counts: Vec<u32>,
    pub mel: Vec<f32>,
    pub mel_channels: u16,
    pub frame_counts: Vec<u32>,
    pub languages: Vec<Language>,
    pub speakers: Vec<u32>,
    pub reference: Vec<f32>,
    pub reference_frames: u32,
    pub reference_counts: Vec<u32>,
}
