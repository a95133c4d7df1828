//! Which clips' features are not in the cache, or not as they should be.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cache::{AudioStamp, Cache, Fingerprint, Freshness, Hash128, RebuildReason};
use crate::manifest::Clip;
use rayon::prelude::*;

use crate::featurize::Recipe;

/// Clips checked between two calls of `progress`.
const PORTION: usize = 256;

/// What each clip's features are computed from now, by clip number. Taken once: with `--verify` it costs reading
/// every audio file.
#[derive(Debug)]
pub struct Fingerprints(Vec<Fingerprint>);

impl Fingerprints {
    /// `None` when asked to stop.
    pub fn take(
        clips: &[Clip],
        recipe: &Recipe,
        verify: bool,
        stop: &AtomicBool,
        mut progress: impl FnMut(&Clip),
    ) -> Option<Fingerprints> {
        let mut prints = Vec::with_capacity(clips.len());
        for portion in clips.chunks(PORTION) {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let computed = portion
                .par_iter()
                .map(|clip| fingerprint(clip, recipe, verify));
            prints.par_extend(computed);
            portion.iter().for_each(&mut progress);
        }
        Some(Fingerprints(prints))
    }
}

pub(crate) fn fingerprint(clip: &Clip, recipe: &Recipe, verify: bool) -> Fingerprint {
    let mut audio = AudioStamp {
        bytes: clip.audio_bytes,
        modified_ns: clip.audio_mtime_ns,
        content: None,
    };
    if verify {
        // A file that cannot be read now counts as changed; building it then says what is wrong.
        audio.bytes = u64::MAX;
        audio = AudioStamp::with_content(&clip.audio_path()).unwrap_or(audio);
    }
    Fingerprint {
        audio,
        text: Hash128::of_text(&clip.text, recipe.language_of(clip)),
    }
}

/// A clip whose features must be computed, and why.
#[derive(Debug)]
pub struct Stale {
    pub clip: usize,
    pub reason: RebuildReason,
    pub(super) fingerprint: Fingerprint,
    /// The frames in the cache are good; only the text must be redone.
    pub(super) audio_fresh: bool,
}

/// How a cache differs from what its clips are made from now.
#[derive(Debug, Default)]
pub struct Staleness {
    pub stale: Vec<Stale>,
    /// Touched files whose content proved the same: with the new stamp the next run need not read them.
    pub(super) restamped: Vec<(usize, AudioStamp)>,
}

impl Staleness {
    /// Compares every clip with its cache entry.
    pub fn find(
        clips: &[Clip],
        prints: &Fingerprints,
        cache: &Cache,
        recipe: &Recipe,
    ) -> Staleness {
        let settings = recipe.feature_settings();
        let mut staleness = Staleness::default();
        for (number, (clip, print)) in clips.iter().zip(&prints.0).enumerate() {
            match cache.freshness(&clip.id, print, &settings) {
                Freshness::Rebuild {
                    reason,
                    audio_fresh,
                } => {
                    staleness.stale.push(Stale {
                        clip: number,
                        reason,
                        fingerprint: *print,
                        audio_fresh,
                    });
                }
                Freshness::Reuse => {
                    let stored = cache.entry(&clip.id).map(|entry| entry.fingerprint.audio);
                    if stored.is_some_and(|stored| stored.modified_ns != print.audio.modified_ns) {
                        staleness.restamped.push((number, print.audio));
                    }
                }
            }
        }
        staleness
    }

    /// Whether the cache is up to date as it is.
    pub fn nothing_to_write(&self) -> bool {
        self.stale.is_empty() && self.restamped.is_empty()
    }
}
