//! The reference of a clip: what the model hears of the speaker's voice while it learns the clip.
//!
//! It is a crop of *another* clip of the speaker, or the model would learn to read the answer off
//! the reference instead of the voice.

use std::collections::BTreeMap;

use super::{BatchPlan, PlanClip};
use crate::draw::{below, draw};

/// Part of a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Number of the clip.
    pub clip: usize,
    pub start_frame: u32,
    /// The crop's length; the whole clip where that is shorter than the crop asked for.
    pub frames: u32,
}

/// The clips of each speaker.
#[derive(Clone, Debug)]
pub(super) struct SpeakerClips {
    /// Numbers of each speaker's clips, ascending.
    clips: BTreeMap<u32, Vec<usize>>,
    /// Of each clip, its speaker and its own place among that speaker's.
    places: Vec<(u32, usize)>,
}

impl SpeakerClips {
    pub(super) fn new(clips: &[PlanClip]) -> Self {
        let mut of_speaker = BTreeMap::<u32, Vec<usize>>::new();
        let mut places = Vec::with_capacity(clips.len());
        for (number, clip) in clips.iter().enumerate() {
            let own = of_speaker.entry(clip.speaker).or_default();
            places.push((clip.speaker, own.len()));
            own.push(number);
        }
        Self {
            clips: of_speaker,
            places,
        }
    }

    /// Maps a draw evenly onto the speaker's other clips; the clip itself if it is the only one.
    fn other_clip(&self, clip: usize, draw: u64) -> usize {
        let (speaker, place) = self.places[clip];
        let clips = &self.clips[&speaker];
        if clips.len() == 1 {
            return clip;
        }
        let other = below(draw, clips.len() as u64 - 1) as usize;
        clips[if other < place { other } else { other + 1 }]
    }
}

impl BatchPlan {
    pub(super) fn reference(&self, epoch: u64, clip: usize) -> Reference {
        let drawn = |purpose| draw(self.settings.seed, epoch, &self.clips[clip].id, purpose);
        let other = self.speakers.other_clip(clip, drawn("reference clip"));
        let length = self.clips[other].frames;
        let frames = length.min(self.settings.reference_frames.get());
        let starts = u64::from(length - frames) + 1;
        Reference {
            clip: other,
            start_frame: below(drawn("reference crop"), starts) as u32,
            frames,
        }
    }
}
