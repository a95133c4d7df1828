//! Writes new features into the cache during training.
//!
//! Training never depends on it: a full disk, a folder that cannot be written or a cache that another
//! run is writing turn it off, with one note.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cache::{
    Added, Cache, CacheError, CacheWriter, ClipView, FeatureSettings, WriterOptions,
};
use crate::features::TextFeatures;

use crate::featurize::{ComputedAudio, with_causes};

/// Where the cache is, and how large it may become.
#[derive(Clone, Debug)]
pub struct CacheHome {
    pub dir: PathBuf,
    /// `None`: without bound.
    pub budget_bytes: Option<u64>,
}

impl CacheHome {
    /// This folder, however large it becomes.
    pub fn unbounded(dir: PathBuf) -> CacheHome {
        CacheHome {
            dir,
            budget_bytes: None,
        }
    }
}

/// Audio features that were not there before.
#[derive(Clone, Debug)]
pub(crate) struct NewAudio {
    pub(crate) clip: usize,
    pub(crate) audio: Arc<ComputedAudio>,
}

/// The cache, repaired where it is damaged, and what a user should know about that.
pub(super) fn open_repaired(
    home: &CacheHome,
    settings: &FeatureSettings,
) -> Result<(Cache, Vec<String>), CacheError> {
    let cache = Cache::open(&home.dir)?;
    cache.check_some();
    let mut notes: Vec<String> = cache.warnings().iter().map(ToString::to_string).collect();
    if notes.is_empty() {
        return Ok((cache, notes));
    }
    let repaired = open_writer(home, settings).and_then(|mut writer| {
        writer.learn_damage(&cache);
        writer.drop_damaged();
        writer.commit()?;
        Cache::open(&home.dir)
    });
    // One that cannot be repaired now is read as far as it goes.
    let cache = repaired.unwrap_or_else(|error| {
        notes.push(format!(
            "the cache is not repaired: {}",
            with_causes(&error)
        ));
        cache
    });
    Ok((cache, notes))
}

fn open_writer(home: &CacheHome, settings: &FeatureSettings) -> Result<CacheWriter, CacheError> {
    let options = WriterOptions {
        budget_bytes: home.budget_bytes,
        ..WriterOptions::default()
    };
    CacheWriter::open(&home.dir, settings.clone(), options)
}

#[derive(Debug, Default)]
pub(crate) struct CacheUpdater {
    /// `None`: caching is off, or has failed.
    home: Option<CacheHome>,
    settings: FeatureSettings,
    /// Open from the first new features to the last, and so is the cache's lock.
    writer: Option<CacheWriter>,
    /// Clips of which features are still to come.
    waiting: HashSet<usize>,
    /// Written, but not yet to be found by readers.
    unpublished: HashSet<usize>,
    pub(crate) unpublished_bytes: u64,
    pub(crate) notes: Vec<String>,
}

impl CacheUpdater {
    pub(crate) fn new(
        home: Option<CacheHome>,
        settings: FeatureSettings,
        waiting: HashSet<usize>,
    ) -> CacheUpdater {
        CacheUpdater {
            home,
            settings,
            waiting,
            ..CacheUpdater::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.home.is_some()
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Nothing will come of this clip.
    pub(crate) fn give_up(&mut self, clip: usize) {
        self.waiting.remove(&clip);
    }

    /// Whether all that was to come has come, and is not yet published.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.writer.is_some()
    }

    pub(crate) fn add(&mut self, id: &str, new: &NewAudio, text: &TextFeatures) {
        self.waiting.remove(&new.clip);
        if self.unpublished.contains(&new.clip) {
            return;
        }
        if let Err(error) = self.try_add(id, new, text) {
            self.turn_off(&error);
        }
    }

    fn try_add(&mut self, id: &str, new: &NewAudio, text: &TextFeatures) -> Result<(), CacheError> {
        let Some(home) = &self.home else {
            return Ok(());
        };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(open_writer(home, &self.settings)?),
        };
        let view = ClipView::new(text, &new.audio.features);
        match writer.add(id, &new.audio.fingerprint, view) {
            Ok(Added::Stored) => {
                self.unpublished.insert(new.clip);
                self.unpublished_bytes += mel_bytes(&new.audio);
            }
            Ok(Added::BudgetReached { .. }) => {
                self.note("the cache has reached its budget; not all features are kept".to_owned());
            }
            // One clip's trouble, not the cache's.
            Err(error @ CacheError::UnfitFeatures { .. }) => self.note(with_causes(&error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Makes all that was written readable: the cache as it is now, and the clips that are new in it.
    /// Releases the lock when no more features are to come.
    pub(crate) fn publish(&mut self) -> Option<(Cache, HashSet<usize>)> {
        let writer = self.writer.as_mut()?;
        let dir = writer.cache().dir().to_owned();
        let published = writer.commit().and_then(|()| Cache::open(&dir));
        let cache = published.map_err(|error| self.turn_off(&error)).ok()?;
        self.unpublished_bytes = 0;
        if self.waiting.is_empty() {
            self.writer = None;
        }
        Some((cache, std::mem::take(&mut self.unpublished)))
    }

    pub(crate) fn turn_off(&mut self, error: &CacheError) {
        let hint = error.hint().map(|hint| format!(" ({hint})"));
        let (why, hint) = (with_causes(error), hint.unwrap_or_default());
        self.note(format!(
            "training continues without keeping features: {why}{hint}"
        ));
        self.home = None;
        self.writer = None;
        self.unpublished.clear();
        self.unpublished_bytes = 0;
    }
}

pub(crate) fn mel_bytes(audio: &ComputedAudio) -> u64 {
    (audio.features.mel.len() * size_of::<f32>()) as u64
}
