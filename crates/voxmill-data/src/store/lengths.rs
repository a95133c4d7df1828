//! The lengths that batches are planned by.
//!
//! Without trimming a header says how many frames a clip has. With trimming only the featurizer finds out, and
//! the cache remembers. A plan must be the same again when its run is resumed, though the cache knows more by
//! then: so it is chosen once which clips are planned by which length, and the run keeps that choice.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{FeatureStore, StoredText};

/// Which clips are planned by their length after trimming. The default is none: headers count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLengths {
    /// Whether those count that the cache has.
    pub trimmed: bool,
    /// Clips that it did not have: their headers count, whatever it has by now.
    pub by_header: BTreeSet<String>,
}

impl FeatureStore {
    /// For a run that begins: lengths after trimming, where the cache has those of most clips. With fewer,
    /// headers count for all, so that a run keeps no list of half its clips.
    pub(super) fn choose_lengths(&mut self) {
        if self.recipe.audio.trim_db.is_none() {
            return;
        }
        let clips = self.clips.iter().zip(&self.trimmed).zip(&self.texts);
        let unknown = clips.filter(|((_, frames), text)| {
            // A clip whose text is bad is in no plan.
            frames.is_none() && !matches!(text, StoredText::Bad)
        });
        let by_header: BTreeSet<String> =
            unknown.map(|((clip, _), _)| clip.id.to_string()).collect();
        if 2 * by_header.len() < self.clips.len() {
            self.lengths = PlannedLengths {
                trimmed: true,
                by_header,
            };
        }
    }

    /// For a run that is resumed: the choice that was made when it began.
    #[must_use]
    pub fn with_lengths(mut self, lengths: PlannedLengths) -> FeatureStore {
        self.lengths = lengths;
        self
    }

    /// What clips are planned with, for a checkpoint to keep.
    pub fn lengths(&self) -> &PlannedLengths {
        &self.lengths
    }

    /// The frames that a clip is planned with.
    pub(crate) fn planned_frames(&self, clip: usize) -> u32 {
        let PlannedLengths { trimmed, by_header } = &self.lengths;
        let known = self.trimmed[clip].filter(|_| *trimmed);
        known
            .filter(|_| !by_header.contains(&*self.clips[clip].id))
            .unwrap_or_else(|| {
                let header = &self.clips[clip].header;
                let frames = self.recipe.audio.frames_for_header(header);
                u32::try_from(frames).unwrap_or(u32::MAX)
            })
    }
}
