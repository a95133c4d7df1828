//! Where the features of clips come from: the cache, memory, or the featurizer.
//!
//! A clip is needed twice in an epoch, as itself and as somebody's reference. So that its file is
//! decoded once, features that are new stay in memory until the cache has them (without a cache: for
//! good), as far as they fit into a bound. Where they come from makes no difference to what they are.

mod lengths;
mod statistics;
mod updater;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::cache::{Cache, FeatureSettings, Freshness, RebuildReason};
use crate::features::TextFeatures;
use crate::manifest::{Clip, QuarantineEntry};
use rayon::prelude::*;
use voxmill_telemetry::recorder::Recorder;
use voxmill_text::language::Language;

use crate::build::fingerprint;
use crate::featurize::{
    ClipFeaturizer, ComputedAudio, Recipe, audio_features, bad_audio, left_out, text_features,
};
pub use lengths::PlannedLengths;
pub use statistics::{MelStatistics, SampledStatistics};
pub use updater::CacheHome;
use updater::{CacheUpdater, open_repaired};
pub(crate) use updater::{NewAudio, mel_bytes};

/// New features are made readable in the cache in portions of at least this size: each costs
/// a sync, and reading the whole index.
const LEAST_PORTION: u64 = 16 << 20;

/// The features of a dataset's clips, of all splits. Share it between loaders in an [`Arc`].
#[derive(Debug)]
pub struct FeatureStore {
    clips: Vec<Clip>,
    recipe: Recipe,
    settings: FeatureSettings,
    texts: Vec<StoredText>,
    /// Frames of each clip as the cache had them when the store was opened; only where clips are trimmed.
    trimmed: Vec<Option<u32>>,
    lengths: PlannedLengths,
    readable: RwLock<Arc<Readable>>,
    held: Mutex<Held>,
    hold_bytes: u64,
    updater: Mutex<CacheUpdater>,
    bad: Mutex<BTreeMap<usize, QuarantineEntry>>,
    opened_fresh: usize,
    why_stale: Option<RebuildReason>,
    decoded: AtomicU64,
    recorder: Recorder,
}

#[derive(Debug)]
enum StoredText {
    Computed(TextFeatures),
    InCache { tokens: u32 },
    Bad,
}

/// The cache as readers see it.
#[derive(Debug)]
struct Readable {
    /// `None`: caching is off.
    cache: Option<Cache>,
    /// By clip: whether its features can be taken from the cache.
    fresh: Vec<bool>,
}

/// Features in memory. Whoever first asks for a clip computes them, and others wait for that.
#[derive(Debug, Default)]
struct Held {
    cells: HashMap<usize, Arc<Cell>>,
    /// Of the features that stay.
    sizes: HashMap<usize, u64>,
    bytes: u64,
}

/// `None`: the clip is bad.
type Cell = OnceLock<Option<Arc<ComputedAudio>>>;

/// The clip has no features; the list of bad clips says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadClip;

impl FeatureStore {
    /// Tokenizes all texts that the cache does not know, in parallel on the current rayon pool; reads no
    /// audio. Bad clips and a cache that cannot be used are no errors: see [`FeatureStore::bad`] and
    /// [`FeatureStore::notes`].
    ///
    /// `home` is where features are cached (`None`: nowhere), `hold_bytes` bounds the features in memory,
    /// and `recorder` is for a run log ([`Recorder::off`] without one).
    pub fn open(
        clips: Vec<Clip>,
        recipe: Recipe,
        home: Option<CacheHome>,
        hold_bytes: u64,
        recorder: Recorder,
    ) -> FeatureStore {
        let settings = recipe.feature_settings();
        let opened = home.as_ref().map(|home| open_repaired(home, &settings));
        let (cache, notes, trouble) = match opened.transpose() {
            Ok(Some((cache, notes))) => (Some(cache), notes, None),
            Ok(None) => (None, Vec::new(), None),
            Err(error) => (None, Vec::new(), Some(error)),
        };
        let find_text = |clip: &Clip| {
            let cached = cache.as_ref().and_then(|cache| {
                let print = fingerprint(clip, &recipe, false);
                let freshness = cache.freshness(&clip.id, &print, &settings);
                Some((cache.entry(&clip.id)?, freshness))
            });
            let trims = recipe.audio.trim_db.is_some();
            let trimmed = cached.as_ref().filter(|_| trims);
            let trimmed = trimmed.filter(|(_, freshness)| freshness.is_audio_fresh());
            let trimmed = trimmed.map(|(entry, _)| entry.frames);
            let text = match cached {
                Some((entry, Freshness::Reuse)) => {
                    let tokens = entry.token_count;
                    return ((Ok(StoredText::InCache { tokens }), trimmed), None);
                }
                _ => text_features(clip, &recipe).map(StoredText::Computed),
            };
            let stale = cached.and_then(|(_, freshness)| match freshness {
                Freshness::Rebuild { reason, .. } => Some(reason),
                Freshness::Reuse => None,
            });
            ((text, trimmed), stale)
        };
        let (found, stale): (Vec<_>, Vec<_>) = clips.par_iter().map(find_text).unzip();
        let (found, trimmed): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let mut texts = Vec::with_capacity(clips.len());
        let mut bad = BTreeMap::new();
        for (number, text) in found.into_iter().enumerate() {
            texts.push(text.unwrap_or_else(|why| {
                recorder.record(left_out(number as u64, &why));
                bad.insert(number, why);
                StoredText::Bad
            }));
        }
        let is_fresh = |text: &StoredText| matches!(text, StoredText::InCache { .. });
        let fresh: Vec<bool> = texts.iter().map(is_fresh).collect();
        let is_new = |clip: &usize| matches!(texts[*clip], StoredText::Computed(_));
        let waiting = (0..texts.len()).filter(is_new).collect();
        let mut updater = CacheUpdater::new(home, settings.clone(), waiting);
        if let Some(error) = trouble {
            updater.turn_off(&error);
        }
        for note in notes {
            updater.note(note);
        }
        let mut store = FeatureStore {
            opened_fresh: fresh.iter().filter(|fresh| **fresh).count(),
            why_stale: stale.into_iter().flatten().next(),
            readable: RwLock::new(Arc::new(Readable { cache, fresh })),
            held: Mutex::default(),
            decoded: AtomicU64::new(0),
            hold_bytes,
            updater: Mutex::new(updater),
            bad: Mutex::new(bad),
            clips,
            recipe,
            settings,
            texts,
            trimmed,
            lengths: PlannedLengths::default(),
            recorder,
        };
        store.choose_lengths();
        store
    }

    /// The clips, by number.
    pub fn clips(&self) -> &[Clip] {
        &self.clips
    }

    /// Whether the frames of all clips, as their headers say, fit into what may be held in memory.
    fn may_hold_all(&self) -> bool {
        let audio = &self.recipe.audio;
        let clips = self.clips.iter();
        let frames: usize = clips
            .map(|clip| audio.frames_for_header(&clip.header))
            .sum();
        (frames * audio.n_mels * size_of::<f32>()) as u64 <= self.hold_bytes
    }

    /// How features are computed.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Clips whose features were found in the cache when the store was opened.
    pub fn found_in_cache(&self) -> usize {
        self.opened_fresh
    }

    /// Why the cache's features of a clip could not be taken then, of the first such clip.
    pub fn why_stale(&self) -> Option<&RebuildReason> {
        self.why_stale.as_ref()
    }

    /// Audio files that were decoded since then; each time counts.
    pub fn files_decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// What is in memory now.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> u64 {
        lock(&self.held).bytes
    }

    /// The cache as if none of its shards had been looked at.
    #[cfg(test)]
    pub(crate) fn forget_checks(&self) {
        let before = self.readable();
        let dir = before.cache.as_ref().unwrap().dir();
        let readable = Readable {
            cache: Some(Cache::open(dir).unwrap()),
            fresh: before.fresh.clone(),
        };
        *self.readable.write().unwrap() = Arc::new(readable);
    }

    /// Whether features that were computed once are found again later: in the cache, or in memory.
    pub fn finds_again(&self) -> bool {
        self.keeps() || self.may_hold_all()
    }

    /// Whether new features are being kept, as far as is known by now.
    pub(crate) fn keeps(&self) -> bool {
        lock(&self.updater).is_on()
    }

    /// What a user should know about the cache, each thing once.
    pub fn notes(&self) -> Vec<String> {
        lock(&self.updater).notes.clone()
    }

    /// Clips without features, as far as is known by now, in the manifest's order.
    pub fn bad(&self) -> Vec<QuarantineEntry> {
        lock(&self.bad).values().cloned().collect()
    }

    pub(crate) fn add_bad(&self, clip: usize, why: QuarantineEntry) -> BadClip {
        if let Entry::Vacant(place) = lock(&self.bad).entry(clip) {
            self.recorder.record(left_out(clip as u64, &why));
            place.insert(why);
        }
        lock(&self.updater).give_up(clip);
        BadClip
    }

    pub(crate) fn is_in_cache(&self, clip: usize) -> bool {
        self.readable().fresh[clip]
    }

    pub(crate) fn is_bad(&self, clip: usize) -> bool {
        lock(&self.bad).contains_key(&clip)
    }

    /// `None` for a clip whose text cannot be read aloud.
    pub(crate) fn token_count(&self, clip: usize) -> Option<u32> {
        match &self.texts[clip] {
            StoredText::Computed(text) => Some(text.tokens.len() as u32),
            StoredText::InCache { tokens } => Some(*tokens),
            StoredText::Bad => None,
        }
    }

    /// A clip's tokens, and the language that they were read in.
    pub(crate) fn tokens(&self, clip: usize) -> Result<(Language, Vec<u16>), BadClip> {
        if let StoredText::Computed(text) = &self.texts[clip] {
            return Ok((text.language, text.tokens.clone()));
        }
        let readable = self.readable();
        let id = &self.clips[clip].id;
        if let Some(Ok(Some(view))) = readable.cache.as_ref().map(|cache| cache.get(id)) {
            return Ok((view.language, view.tokens.to_vec()));
        }
        // The shard has proved damaged.
        match text_features(&self.clips[clip], &self.recipe) {
            Ok(text) => Ok((text.language, text.tokens)),
            Err(why) => Err(self.add_bad(clip, why)),
        }
    }

    /// Lends out a clip's log-mel frames. What had to be computed for it comes back with the answer, to be
    /// given to [`FeatureStore::keep`].
    pub(crate) fn with_mel<R>(
        &self,
        clip: usize,
        featurizer: &mut ClipFeaturizer,
        read: impl FnOnce(&[f32]) -> R,
    ) -> Result<(R, Option<NewAudio>), BadClip> {
        let readable = self.readable();
        let mut damaged = false;
        if let (true, Some(cache)) = (readable.fresh[clip], &readable.cache) {
            match cache.get(&self.clips[clip].id) {
                Ok(Some(view)) => return Ok((read(view.mel), None)),
                Ok(None) => damaged = true,
                Err(damage) => {
                    damaged = true;
                    lock(&self.updater).note(format!("{damage}; its clips are made again"));
                }
            }
        }
        let cell = Arc::clone(lock(&self.held).cells.entry(clip).or_default());
        let mut new = None;
        let computed = cell.get_or_init(|| {
            let computed = self.compute(clip, &readable, damaged, featurizer);
            new = computed.clone().map(|audio| NewAudio { clip, audio });
            computed
        });
        if let Some(new) = &new {
            self.hold(new);
        }
        let audio = computed.as_ref().ok_or(BadClip)?;
        Ok((read(&audio.features.mel), new))
    }

    /// Lends out a clip's samples. They are decoded each time and never kept: at the default settings
    /// they take three times the memory of log-mel frames, and the cache has no place for them.
    pub(crate) fn with_waveform<R>(
        &self,
        clip: usize,
        featurizer: &mut ClipFeaturizer,
        read: impl FnOnce(&[f32]) -> R,
    ) -> Result<R, BadClip> {
        if self.is_bad(clip) {
            return Err(BadClip);
        }
        match featurizer.waveform(&self.clips[clip].audio_path()) {
            Ok(samples) => {
                self.decoded.fetch_add(1, Ordering::Relaxed);
                Ok(read(&samples))
            }
            Err(error) => Err(self.add_bad(clip, bad_audio(&self.clips[clip], &error))),
        }
    }

    fn compute(
        &self,
        number: usize,
        readable: &Readable,
        damaged: bool,
        featurizer: &mut ClipFeaturizer,
    ) -> Option<Arc<ComputedAudio>> {
        if self.is_bad(number) {
            return None;
        }
        let clip = &self.clips[number];
        let print = fingerprint(clip, &self.recipe, false);
        let still_good = readable.cache.as_ref().filter(|cache| {
            let freshness = cache.freshness(&clip.id, &print, &self.settings);
            !damaged && freshness.is_audio_fresh()
        });
        match audio_features(clip, print, still_good, featurizer) {
            Ok(audio) => {
                if !audio.kept {
                    self.decoded.fetch_add(1, Ordering::Relaxed);
                }
                Some(Arc::new(audio))
            }
            Err(why) => {
                self.add_bad(number, why);
                None
            }
        }
    }

    /// Holds new features in memory if there is room.
    fn hold(&self, new: &NewAudio) {
        let mut held = lock(&self.held);
        let bytes = mel_bytes(&new.audio);
        // It may have been computed twice at once, and be in the cache by now.
        let wanted = held.cells.contains_key(&new.clip) && !held.sizes.contains_key(&new.clip);
        if wanted && held.bytes + bytes <= self.hold_bytes {
            held.sizes.insert(new.clip, bytes);
            held.bytes += bytes;
        } else if wanted {
            held.cells.remove(&new.clip);
        }
    }

    /// Writes new features into the cache, and releases those that are found there from now on.
    pub(crate) fn keep(&self, new: &[NewAudio]) {
        let mut updater = lock(&self.updater);
        if !updater.is_on() || new.is_empty() {
            return;
        }
        for new in new {
            let clip = &self.clips[new.clip];
            match &self.texts[new.clip] {
                StoredText::Computed(text) => updater.add(&clip.id, new, text),
                // Its shard has proved damaged. A text that is bad by now is left out: adding it to the bad
                // clips needs the updater.
                _ => {
                    if let Ok(text) = text_features(clip, &self.recipe) {
                        updater.add(&clip.id, new, &text);
                    }
                }
            }
        }
        if updater.is_complete()
            || updater.unpublished_bytes >= (self.hold_bytes / 2).max(LEAST_PORTION)
        {
            self.publish(&mut updater);
        }
    }

    /// All new features are in the cache after this, whatever happens then. Dropping the store does it, too.
    pub fn save(&self) {
        self.publish(&mut lock(&self.updater));
    }

    fn publish(&self, updater: &mut CacheUpdater) {
        let Some((cache, clips)) = updater.publish() else {
            return;
        };
        let mut fresh = self.readable().fresh.clone();
        for &clip in &clips {
            fresh[clip] = true;
        }
        let readable = Arc::new(Readable {
            cache: Some(cache),
            fresh,
        });
        let mut current = self
            .readable
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = readable;
        drop(current);
        let mut held = lock(&self.held);
        for clip in clips {
            held.cells.remove(&clip);
            held.bytes -= held.sizes.remove(&clip).unwrap_or(0);
        }
    }

    fn readable(&self) -> Arc<Readable> {
        Arc::clone(&self.readable.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for FeatureStore {
    /// What is in an unfinished shard would be lost, as by a kill.
    fn drop(&mut self) {
        self.save();
    }
}

/// No state in this crate is left half changed by a panic: each change is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
