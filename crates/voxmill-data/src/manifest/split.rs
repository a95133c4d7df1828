//! Which clips are held back for validation, by hash of the clip's id.
//!
//! A clip is in the validation set when its own draw falls below the fraction: adding or removing
//! other clips does not move it. Two corners of small datasets break that rule for one clip each,
//! because an empty set is worse: when no draw falls below the fraction, the clip with the
//! smallest draw is held back; when all do, the one with the largest stays in training. A dataset
//! of one clip trains on it, until a second one comes.

use super::Clip;
use crate::draw::{draw, unit};

/// Part of the format of a run: another value would move clips between the sets of old runs.
const SPLIT_SEED: u64 = 0x766f_786d_696c_6c01;

/// What a clip is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    Train,
    Validation,
}

/// Divides the clips at `undivided`; the others have their split.
pub(super) fn divide(clips: &mut [Clip], undivided: &[usize], val_fraction: f64) {
    let is_validation = |clip: &Clip| clip.split == Split::Validation;
    if undivided.is_empty() || val_fraction.is_nan() || val_fraction <= 0.0 {
        return;
    }
    for &index in undivided {
        if unit(split_draw(&clips[index])) < val_fraction {
            clips[index].split = Split::Validation;
        }
    }
    let drawn = |at: &&usize| split_draw(&clips[**at]);
    let (moved, split) = if clips.len() < 2 {
        (undivided.first(), Split::Train)
    } else if !clips.iter().any(is_validation) {
        (undivided.iter().min_by_key(drawn), Split::Validation)
    } else if clips.iter().all(is_validation) {
        (undivided.iter().max_by_key(drawn), Split::Train)
    } else {
        return;
    };
    if let Some(&moved) = moved {
        clips[moved].split = split;
    }
}

pub(super) fn split_draw(clip: &Clip) -> u64 {
    draw(SPLIT_SEED, 0, &clip.id, "split")
}
