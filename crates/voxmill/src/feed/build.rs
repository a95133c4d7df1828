//! Makes the features of stale clips on several threads; one writes them as they come.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use voxmill_speech::audio::{AudioSettingsError, Featurizer};
use voxmill_speech::cache::{
    Added, AudioStamp, Cache, CacheError, CacheWriter, ClipView, Fingerprint,
};
use voxmill_speech::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_speech::language::Language;
use voxmill_speech::manifest::{Clip, QuarantineEntry, Reason};
use voxmill_speech::text::symbols;

use super::stale::{Stale, Staleness};
use super::{Recipe, with_causes};

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
    /// Whether the cache's size is bounded.
    pub(crate) within_budget: bool,
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
        if self.within_budget {
            // What is about to be replaced must not take up the room of what replaces it.
            for stale in staleness.stale.iter().filter(|stale| !stale.audio_fresh) {
                writer.remove(&self.clips[stale.clip].id);
            }
            writer.commit()?;
        }
        let stale = &staleness.stale;
        let next = AtomicUsize::new(0);
        let halt = AtomicBool::new(false);
        let (sender, receiver) = crossbeam_channel::bounded(CLIPS_IN_FLIGHT);
        let featurizers: Vec<_> = (0..self.workers)
            .map(|_| Featurizer::new(self.recipe.audio))
            .collect::<Result<_, _>>()?;
        let outcome = std::thread::scope(|scope| {
            // Dropped at the end of this block, whatever happens in it: a worker that waits for
            // room in the channel is then told, and the scope can join it.
            let receiver = receiver;
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
            // Its buffers may be half written.
            if let Ok(fresh) = Featurizer::new(self.recipe.audio) {
                *featurizer = fresh;
            }
            let said = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let said = said
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            Err(clip.quarantine(
                Reason::named("internal error"),
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
        .map_err(|error| clip.quarantine(Reason::named("text not read"), with_causes(&error)))?;
    if !text.tokens.iter().any(|&id| symbols::is_spoken(id)) {
        return Err(clip.quarantine(
            Reason::named("nothing to say"),
            "nothing in the text can be read aloud",
        ));
    }
    let mut fingerprint = stale.fingerprint;
    if stale.audio_fresh
        // A shard that proves damaged only now is no loss: the file is there to be read again.
        && let Ok(Some(cached)) = before.get(&clip.id)
    {
        // Equal size and time, or it would not be fresh: what is known of its content still holds.
        let known = before
            .entry(&clip.id)
            .and_then(|entry| entry.fingerprint.audio.content);
        fingerprint.audio.content = fingerprint.audio.content.or(known);
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
        .map_err(|error| clip.quarantine(Reason::UNREADABLE_AUDIO, error.to_string()))?;
    let audio = featurizer
        .featurize(&path)
        .map_err(|error| clip.quarantine(Reason::named(error.kind()), with_causes(&error)))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::{Prints, scan};
    use std::fs;
    use std::path::Path;
    use voxmill_speech::audio::AudioSettings;
    use voxmill_speech::cache::WriterOptions;
    use voxmill_speech::manifest::Limits;
    use voxmill_speech::text::{FrontEnd, FrontEndOptions};

    /// A dataset of one real clip under many names.
    fn dataset(folder: &Path, clips: usize) -> Vec<Clip> {
        let voice = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../voxmill-speech/data/fixtures/audio/mel/voice.wav"
        );
        fs::create_dir(folder.join("wavs")).unwrap();
        let mut manifest = String::new();
        for number in 0..clips {
            fs::copy(voice, folder.join(format!("wavs/c{number}.wav"))).unwrap();
            manifest.push_str(&format!("c{number}|Hello there.\n"));
        }
        fs::write(folder.join("metadata.csv"), manifest).unwrap();
        let limits = Limits {
            audio: AudioSettings::default(),
            max_mel_frames: None,
            max_text_length: None,
            min_seconds: 0.0,
        };
        scan(folder, None, &limits, 0.0).unwrap().manifest.clips
    }

    #[test]
    fn asked_to_stop_it_keeps_what_was_made() {
        let home = tempfile::tempdir().unwrap();
        let clips = dataset(home.path(), 400);
        let front_end = FrontEnd::new(FrontEndOptions::default()).unwrap();
        let audio = AudioSettings::default();
        let recipe = Recipe {
            front_end: &front_end,
            audio: &audio,
            language: None,
        };
        let dir = home.path().join("features");
        let stop = AtomicBool::new(false);
        let before = Cache::open(&dir).unwrap();
        let prints = Prints::take(&clips, &recipe, false, &stop, |_| {}).unwrap();
        let staleness = Staleness::find(&clips, &prints, &before, &recipe);
        assert_eq!(staleness.stale.len(), clips.len());

        let mut writer =
            CacheWriter::open(&dir, recipe.feature_settings(), WriterOptions::default()).unwrap();
        let building = Building {
            clips: &clips,
            recipe: &recipe,
            before: &before,
            workers: 2,
            stop: &stop,
            within_budget: false,
        };
        let mut heard = 0;
        let built = building.build(staleness, &mut writer, |_| {
            heard += 1;
            stop.store(heard >= 10, Ordering::Relaxed);
        });
        let built = built.unwrap();
        assert!(built.interrupted);
        let kept = Cache::open(&dir).unwrap().len();
        assert_eq!(kept, built.known.len());
        assert!((10..clips.len()).contains(&kept), "{kept}");
    }
}
