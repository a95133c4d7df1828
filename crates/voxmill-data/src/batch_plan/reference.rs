//! The reference of a clip: what the model hears of the speaker's voice while it learns the clip.
//!
//! It is a crop of *another* clip of the speaker, or the model would learn to read the answer off
//! the reference instead of the voice.

use std::collections::BTreeMap;

use super::{BatchPlan, PlanClip};
use crate::draw::{below, draw};

/// A stretch of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Number of the clip.
    pub clip: usize,
    pub start_frame: u32,
    /// The crop's length; the whole clip where that is shorter than the crop asked for.
    pub frames: u32,
}

/// Who else speaks with a clip's voice.
#[derive(Clone, Debug)]
pub(super) struct Speakers {
    /// Numbers of each speaker's clips, ascending.
    clips: Vec<Vec<usize>>,
    /// Of each clip, its speaker's place in `clips` and its own place in that list.
    places: Vec<(usize, usize)>,
}

impl Speakers {
    pub(super) fn new(clips: &[PlanClip]) -> Self {
        let mut known = BTreeMap::new();
        let mut of_speaker: Vec<Vec<usize>> = Vec::new();
        let mut places = Vec::with_capacity(clips.len());
        for (number, clip) in clips.iter().enumerate() {
            let speaker = *known.entry(clip.speaker).or_insert(of_speaker.len());
            if speaker == of_speaker.len() {
                of_speaker.push(Vec::new());
            }
            places.push((speaker, of_speaker[speaker].len()));
            of_speaker[speaker].push(number);
        }
        Self {
            clips: of_speaker,
            places,
        }
    }

    /// Maps a draw evenly onto the speaker's other clips; the clip itself if it is the only one.
    fn other_clip(&self, clip: usize, draw: u64) -> usize {
        let (speaker, place) = self.places[clip];
        let clips = &self.clips[speaker];
        if clips.len() == 1 {
            return clip;
        }
        let other = below(draw, clips.len() as u64 - 1) as usize;
        clips[if other < place { other } else { other + 1 }]
    }
}

impl BatchPlan {
    pub(super) fn reference(&self, epoch: u64, clip: usize) -> Reference {
        let id = &self.clips[clip].id;
        let seed = self.settings.seed;
        let other = self
            .speakers
            .other_clip(clip, draw(seed, epoch, id, "reference clip"));
        let length = self.clips[other].frames;
        let frames = length.min(self.settings.reference_frames.get());
        let starts = u64::from(length - frames) + 1;
        Reference {
            clip: other,
            start_frame: below(draw(seed, epoch, id, "reference crop"), starts) as u32,
            frames,
        }
    }
}
