//! Clips left out for their length: counted, and named in `filtered.csv`.

use std::path::Path;

use super::table::{TableError, write_table};
use super::{Clip, Limits};

const HEADER: [&str; 5] = ["clip", "reason", "value", "limit", "unit"];

/// Counted apart from bad ones, and never a reason to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    pub audio_too_long: usize,
    pub audio_too_short: usize,
    pub text_too_long: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterReason {
    AudioTooLong,
    AudioTooShort,
    TextTooLong,
}

impl FilterReason {
    pub fn as_str(self) -> &'static str {
        match self {
            FilterReason::AudioTooLong => "audio too long",
            FilterReason::AudioTooShort => "audio too short",
            FilterReason::TextTooLong => "text too long",
        }
    }
}

/// A clip that is left out, and by which limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FilteredClip {
    pub clip: Box<str>,
    pub reason: FilterReason,
    pub value: f64,
    pub limit: f64,
    /// Of both numbers.
    pub unit: &'static str,
}

impl Filtered {
    pub fn total(&self) -> usize {
        self.audio_too_long + self.audio_too_short + self.text_too_long
    }

    pub(super) fn add(&mut self, reason: FilterReason) {
        *match reason {
            FilterReason::AudioTooLong => &mut self.audio_too_long,
            FilterReason::AudioTooShort => &mut self.audio_too_short,
            FilterReason::TextTooLong => &mut self.text_too_long,
        } += 1;
    }
}

impl FilteredClip {
    /// `None`: the clip stays.
    pub(super) fn find(clip: &Clip, limits: &Limits) -> Option<FilteredClip> {
        let found = |reason, value, limit, unit| {
            Some(FilteredClip {
                clip: clip.id.clone(),
                reason,
                value,
                limit,
                unit,
            })
        };
        // Characters are at most as many as bytes: most texts need no counting.
        let is_longer =
            |max: &usize| clip.text.len() > *max && clip.text.chars().nth(*max).is_some();
        if let Some(max) = limits.max_text_length.filter(is_longer) {
            let characters = clip.text.chars().count() as f64;
            return found(
                FilterReason::TextTooLong,
                characters,
                max as f64,
                "characters",
            );
        }
        // What is trimmed may be shorter than its header says: whoever plans batches decides.
        let by_header = limits.max_mel_frames;
        let by_header = by_header.filter(|_| limits.audio.trim_db.is_none());
        let frames = limits.audio.frames_for_header(&clip.header);
        if let Some(max) = by_header.filter(|max| frames > *max) {
            return found(
                FilterReason::AudioTooLong,
                frames as f64,
                max as f64,
                "frames",
            );
        }
        let seconds = clip.header.seconds();
        if limits.audio.check_length(&clip.header).is_err() {
            let most = f64::from(limits.audio.max_seconds);
            return found(FilterReason::AudioTooLong, seconds, most, "s");
        }
        let least = limits.min_seconds;
        (seconds < least)
            .then(|| found(FilterReason::AudioTooShort, seconds, least, "s"))
            .flatten()
    }

    /// Of a clip that is too long once its frames are known.
    pub fn too_long(clip: &Clip, frames: u32, limit: u32) -> FilteredClip {
        FilteredClip {
            clip: clip.id.clone(),
            reason: FilterReason::AudioTooLong,
            value: f64::from(frames),
            limit: f64::from(limit),
            unit: "frames",
        }
    }
}

/// Writes the list; an empty one makes no new file.
pub fn write_filtered(path: &Path, list: &[FilteredClip]) -> Result<(), TableError> {
    let rows = list.iter().map(|one| {
        [
            one.clip.to_string(),
            one.reason.as_str().to_owned(),
            one.value.to_string(),
            one.limit.to_string(),
            one.unit.to_owned(),
        ]
    });
    write_table(path, HEADER, rows)
}
