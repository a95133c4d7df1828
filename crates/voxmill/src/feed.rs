//! Puts the data road together: a dataset folder is scanned, what is stale is found, and its
//! features are made on several threads and written by one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use voxmill_speech::audio::{
    AUDIO_VERSION, AudioSettings, AudioSettingsError, Featurizer, read_header,
};
use voxmill_speech::cache::{
    Added, AudioStamp, Cache, CacheError, CacheWriter, ClipView, FeatureSettings, Fingerprint,
    Freshness, Hash128, Reason as RebuildReason,
};
use voxmill_speech::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_speech::language::Language;
use voxmill_speech::manifest::{
    AudioFolder, BadAudio, Clip, Limits, Manifest, ManifestError, QuarantineEntry,
    Reason as BadReason, Split, read_rows,
};
use voxmill_speech::text::FrontEnd;

/// What the manifest and the audio headers of a folder say.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) manifest: Manifest,
    /// Whether the folder itself says which clips are for validation.
    pub(crate) has_own_split: bool,
    pub(crate) notes: Vec<String>,
}

/// Reads the manifest and, in parallel on the current rayon pool, every audio header.
pub(crate) fn scan(
    folder: &Path,
    given: Option<Split>,
    limits: &Limits,
    val_fraction: f64,
) -> Result<Scan, ManifestError> {
    let mut rows = read_rows(folder, given)?;
    let audio = AudioFolder::list(&rows)?;
    let notes = std::mem::take(&mut rows.notes);
    let has_own_split =
        given.is_none() && rows.rows.iter().flatten().any(|row| row.split.is_some());
    let header = |path: &Path| {
        read_header(path).map_err(|error| BadAudio {
            kind: error.kind(),
            detail: with_causes(&error),
        })
    };
    let resolved: Vec<_> = rows
        .rows
        .into_par_iter()
        .map(|row| row.and_then(|row| audio.resolve(row, header)))
        .collect();
    Ok(Scan {
        manifest: Manifest::assemble(resolved, limits, val_fraction),
        has_own_split,
        notes,
    })
}

/// What features are made with; the same for all clips of a run.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) front_end: &'a FrontEnd,
    pub(crate) audio: &'a AudioSettings,
    /// For clips whose manifest row does not say.
    pub(crate) language: Option<Language>,
}

impl Recipe<'_> {
    fn language_of(&self, clip: &Clip) -> Option<Language> {
        clip.language.or(self.language)
    }

    /// The settings that a cached clip must have been made with to be reused.
    pub(crate) fn feature_settings(&self) -> FeatureSettings {
        FeatureSettings {
            audio: named_values(self.audio),
            text: self.front_end.fingerprint().parts.iter().cloned().collect(),
            front_end: String::new(),
        }
    }
}

/// The settings that shape the frames, by name, so that the one which changed can be named.
fn named_values(audio: &AudioSettings) -> BTreeMap<String, String> {
    let mut values = BTreeMap::from([("audio version".to_owned(), AUDIO_VERSION.to_string())]);
    if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(audio) {
        values.extend(
            fields
                .into_iter()
                .map(|(name, value)| (name, value.to_string())),
        );
    }
    values
}

/// A clip whose features are not in the cache, or not as they should be.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) clip: usize,
    pub(crate) reason: RebuildReason,
    fingerprint: Fingerprint,
    audio_fresh: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Staleness {
    pub(crate) stale: Vec<Stale>,
    /// Touched files whose content proved the same: their new stamp saves the next look.
    restamped: Vec<(usize, AudioStamp)>,
}

impl Staleness {
    pub(crate) fn nothing_to_write(&self) -> bool {
        self.stale.is_empty() && self.restamped.is_empty()
    }
}

/// Compares every clip with its cache entry. With `verify`, reads every audio file for its content.
pub(crate) fn find_stale(
    clips: &[Clip],
    cache: &Cache,
    recipe: &Recipe,
    verify: bool,
) -> Staleness {
    let settings = recipe.feature_settings();
    let checked: Vec<_> = clips
        .par_iter()
        .enumerate()
        .map(|(index, clip)| {
            let fingerprint = fingerprint(clip, recipe, verify);
            match cache.freshness(&clip.id, &fingerprint, &settings) {
                Freshness::Rebuild {
                    reason,
                    audio_fresh,
                } => Some(Err(Stale {
                    clip: index,
                    reason,
                    fingerprint,
                    audio_fresh,
                })),
                Freshness::Reuse => {
                    let stored = cache.entry(&clip.id).map(|entry| entry.fingerprint.audio);
                    let touched = stored
                        .is_some_and(|stored| stored.modified_ns != fingerprint.audio.modified_ns);
                    touched.then_some(Ok((index, fingerprint.audio)))
                }
            }
        })
        .collect();
    let mut staleness = Staleness::default();
    for outcome in checked.into_iter().flatten() {
        match outcome {
            Ok(touched) => staleness.restamped.push(touched),
            Err(stale) => staleness.stale.push(stale),
        }
    }
    staleness
}

fn fingerprint(clip: &Clip, recipe: &Recipe, verify: bool) -> Fingerprint {
    let seen = AudioStamp {
        bytes: clip.audio_bytes,
        modified_ns: clip.audio_mtime_ns,
        content: None,
    };
    let audio = if verify {
        // A file that cannot be read now counts as changed; building it then says what is wrong.
        AudioStamp::with_content(&clip.audio_path()).unwrap_or(AudioStamp {
            bytes: u64::MAX,
            ..seen
        })
    } else {
        seen
    };
    Fingerprint {
        audio,
        text: Hash128::of_text(&clip.text, recipe.language_of(clip)),
    }
}

/// What is known of a clip once its features exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) language: Language,
    pub(crate) tokens: u32,
    pub(crate) levels: Levels,
}

#[derive(Debug, Default)]
pub(crate) struct Built {
    /// One for each stale clip that was reached and is good.
    pub(crate) known: Vec<(usize, Known)>,
    pub(crate) bad: Vec<QuarantineEntry>,
    /// Good, but beyond `--cache-budget`.
    pub(crate) not_cached: usize,
    pub(crate) audio_kept: usize,
    pub(crate) interrupted: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Settings(#[from] AudioSettingsError),
    #[error("cannot start a worker thread")]
    Thread(#[source] std::io::Error),
}

/// Clips that may wait for the writer. While it syncs a shard, some tenths of a second, the workers
/// go on; 128 clips of LJ Speech are 25 MB, and the longest that pass the filter 60 MB.
const CLIPS_IN_FLIGHT: usize = 128;

struct Made {
    clip: usize,
    fingerprint: Fingerprint,
    text: TextFeatures,
    audio: AudioFeatures,
    /// The frames were taken over from the cache; only the text was new.
    audio_kept: bool,
}

/// What building needs to know beside what is stale.
pub(crate) struct Building<'a> {
    pub(crate) clips: &'a [Clip],
    pub(crate) recipe: &'a Recipe<'a>,
    /// The cache as it was: frames that are still good are taken over from it.
    pub(crate) before: &'a Cache,
    pub(crate) workers: usize,
    /// Looked at between clips; what was made by then is kept.
    pub(crate) stop: &'a AtomicBool,
}

impl Building<'_> {
    /// Makes the features of all stale clips on several threads and writes them as they come.
    /// `progress` hears of each clip.
    pub(crate) fn build(
        &self,
        staleness: Staleness,
        writer: &mut CacheWriter,
        mut progress: impl FnMut(&Clip),
    ) -> Result<Built, BuildError> {
        let mut built = Built::default();
        for (clip, stamp) in &staleness.restamped {
            writer.restamp(&self.clips[*clip].id, *stamp);
        }
        let stale = &staleness.stale;
        let next = AtomicUsize::new(0);
        let halt = AtomicBool::new(false);
        let (sender, receiver) = crossbeam_channel::bounded(CLIPS_IN_FLIGHT);
        let featurizers: Vec<_> = (0..self.workers)
            .map(|_| Featurizer::new(self.recipe.audio))
            .collect::<Result<_, _>>()?;
        let outcome = std::thread::scope(|scope| {
            for (number, mut featurizer) in featurizers.into_iter().enumerate() {
                let sender = sender.clone();
                let (next, halt) = (&next, &halt);
                let work = move || {
                    while !halt.load(Ordering::Relaxed) && !self.stop.load(Ordering::Relaxed) {
                        let Some(stale) = stale.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            break;
                        };
                        let made = self.make_contained(stale, &mut featurizer);
                        if sender.send((stale.clip, made)).is_err() {
                            break;
                        }
                    }
                };
                let thread = std::thread::Builder::new().name(format!("featurize-{number}"));
                if let Err(error) = thread.spawn_scoped(scope, work) {
                    halt.store(true, Ordering::Relaxed);
                    return Err(BuildError::Thread(error));
                }
            }
            drop(sender);
            let mut outcome = Ok(());
            for (clip, made) in &receiver {
                progress(&self.clips[clip]);
                match made {
                    // Workers see the halt after the clip in hand; receiving on lets them send it.
                    _ if outcome.is_err() => {}
                    Err(bad) => built.bad.push(bad),
                    Ok(made) => {
                        outcome =
                            store(self.clips, made, writer, &mut built).map_err(BuildError::from);
                        halt.store(outcome.is_err(), Ordering::Relaxed);
                    }
                }
            }
            outcome
        });
        // Kept even after an error or an interruption: a shard that is half full is still good work.
        let committed = writer.commit();
        outcome?;
        committed?;
        built.interrupted = built.known.len() + built.bad.len() < stale.len();
        Ok(built)
    }

    /// A panic on one clip, a bug of ours, costs that clip and not the run.
    fn make_contained(
        &self,
        stale: &Stale,
        featurizer: &mut Featurizer,
    ) -> Result<Made, QuarantineEntry> {
        let clip = &self.clips[stale.clip];
        let make = AssertUnwindSafe(|| make(clip, stale, self.recipe, self.before, featurizer));
        catch_unwind(make).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let said = said
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            Err(clip.quarantine(
                BadReason::named("internal error"),
                format!("voxmill panicked on this clip: {said}"),
            ))
        })
    }
}

fn make(
    clip: &Clip,
    stale: &Stale,
    recipe: &Recipe,
    before: &Cache,
    featurizer: &mut Featurizer,
) -> Result<Made, QuarantineEntry> {
    let text = recipe
        .front_end
        .features(&clip.text, recipe.language_of(clip))
        .map_err(|error| clip.quarantine(BadReason::named("text not read"), with_causes(&error)))?;
    if !text.normalized.contains(char::is_alphabetic) {
        return Err(clip.quarantine(
            BadReason::named("nothing to say"),
            "the text has no letter and no number",
        ));
    }
    let mut fingerprint = stale.fingerprint;
    if stale.audio_fresh
        // A shard that proves damaged only now is no loss: the file is there to be read again.
        && let Ok(Some(cached)) = before.get(&clip.id)
    {
        return Ok(Made {
            clip: stale.clip,
            fingerprint,
            text,
            audio: cached.to_audio(),
            audio_kept: true,
        });
    }
    let path = clip.audio_path();
    // Before decoding: a file that changes in between then differs from its stamp and is rebuilt next time.
    fingerprint.audio = AudioStamp::with_content(&path)
        .map_err(|error| clip.quarantine(BadReason::UNREADABLE_AUDIO, error.to_string()))?;
    let audio = featurizer
        .featurize(&path)
        .map_err(|error| clip.quarantine(BadReason::named(error.kind()), with_causes(&error)))?;
    Ok(Made {
        clip: stale.clip,
        fingerprint,
        text,
        audio,
        audio_kept: false,
    })
}

fn store(
    clips: &[Clip],
    made: Made,
    writer: &mut CacheWriter,
    built: &mut Built,
) -> Result<(), CacheError> {
    let view = ClipView::new(&made.text, &made.audio);
    match writer.add(&clips[made.clip].id, &made.fingerprint, view)? {
        Added::Stored => {}
        Added::BudgetReached { .. } => built.not_cached += 1,
    }
    built.audio_kept += usize::from(made.audio_kept);
    let known = Known {
        language: made.text.language,
        tokens: made.text.tokens.len() as u32,
        levels: made.audio.levels,
    };
    built.known.push((made.clip, known));
    Ok(())
}

/// An error and its causes in one line, for a table's cell.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
