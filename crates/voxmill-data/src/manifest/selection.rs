//! Which clips of a manifest a run uses, and with which text.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Clip, Manifest, Quarantine, Split};
use crate::draw::draw;

impl Manifest {
    /// Its clips of one split, in the manifest's order.
    pub fn clips_of(&self, split: Split) -> impl Iterator<Item = &Clip> {
        self.clips.iter().filter(move |clip| clip.split == split)
    }

    /// Leaves clips out by id. A run that resumes excludes what was bad when it began, so that its plan
    /// stays the same.
    pub fn exclude(&mut self, ids: &[String]) {
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        self.clips.retain(|clip| !ids.contains(&*clip.id));
    }

    /// The speaker with the most clips to train on.
    pub fn main_speaker(&self) -> Option<&str> {
        let mut counts = BTreeMap::<u32, usize>::new();
        for clip in self.clips_of(Split::Train) {
            *counts.entry(clip.speaker).or_default() += 1;
        }
        let main = counts.iter().max_by_key(|(_, clips)| **clips);
        let main = main.map_or(0, |(speaker, _)| *speaker);
        self.speakers.get(main as usize).map(String::as_str)
    }

    /// For a control experiment: every training clip gets another one's text. A voice trained so must
    /// not be understood.
    pub fn shuffle_texts(&mut self, seed: u64) {
        let clips = self.clips.iter_mut();
        let mut clips: Vec<&mut Clip> = clips.filter(|clip| clip.split == Split::Train).collect();
        clips.sort_by_cached_key(|clip| draw(seed, 0, &clip.id, "shuffle texts"));
        // Each takes the text of the next one, and the last that of the first.
        for next in 1..clips.len() {
            let (before, after) = clips.split_at_mut(next);
            std::mem::swap(&mut before[next - 1].text, &mut after[0].text);
        }
    }
}

impl Quarantine {
    /// The clips that a run leaves out for good, by id: these, and what it left out before. The plan of a
    /// run must not change while it runs, nor when it resumes.
    pub fn frozen(&self, before: &[String]) -> Vec<String> {
        let now = self.entries().iter().map(|bad| bad.clip.to_string());
        let all: BTreeSet<String> = before.iter().cloned().chain(now).collect();
        all.into_iter().collect()
    }
}
