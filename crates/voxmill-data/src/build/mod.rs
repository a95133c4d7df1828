//! Computes the features of stale clips on the pipeline; the caller's thread writes them as they come.

mod staleness;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use voxmill_telemetry::stage::StageId;

use crate::cache::{Added, Cache, CacheError, CacheWriter, ClipView};
use crate::features::{Levels, Quality, TextFeatures};
use crate::manifest::{Clip, QuarantineEntry};
use voxmill_pipeline::item::RunFailure;
use voxmill_pipeline::plan::{AdaptPlan, AfterError, Order, Plan, Setting};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::recorder::Recorder;
use voxmill_text::language::Language;

use crate::featurize::{
    ClipFeaturizer, ComputedAudio, Recipe, audio_features, largest_bytes, left_out, lost,
    text_features,
};
use staleness::Stale;
pub(crate) use staleness::fingerprint;
pub use staleness::{Fingerprints, Staleness};

/// What is known of a clip once its features exist.
#[derive(Clone, Copy, Debug)]
pub struct KnownClip {
    pub language: Language,
    pub tokens: u32,
    /// After trimming.
    pub frames: u32,
    pub levels: Levels,
    /// `None`: it was in the cache, and nothing has looked at its frames.
    pub quality: Option<Quality>,
}

/// What came of the clips that were stale.
#[derive(Debug, Default)]
pub struct Built {
    /// One for each stale clip that was reached and is good.
    pub known: Vec<(usize, KnownClip)>,
    pub bad: Vec<QuarantineEntry>,
    /// Good, but beyond `--cache-budget`.
    pub not_cached: usize,
    pub audio_kept: usize,
    pub interrupted: bool,
}

/// Why building ended before its last clip.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("cannot start the workers")]
    Start(#[from] StartError),
    #[error(transparent)]
    Run(#[from] RunFailure),
}

/// Clips that may wait for the writer. While it syncs a shard, some tenths of a second, the workers
/// continue; 128 clips of LJ Speech are 25 MB, and the longest that pass the filter 60 MB.
const CLIPS_AHEAD: usize = 128;

/// The name of the budget, as it stands in messages.
const MEMORY: &str = "host memory";

/// How the work is spread.
#[derive(Clone, Debug)]
pub struct BuildSettings {
    pub workers: usize,
    /// Bytes of clips in the workers' hands and waiting for the writer.
    pub ram_budget: u64,
    pub order: Order,
    pub overlap: bool,
    pub adapt: bool,
}

impl BuildSettings {
    /// The stages as plain data, before anything is started.
    pub fn plan(&self) -> Plan {
        let nothing = |_| std::iter::empty::<Result<u64, Infallible>>();
        let pipeline = self.pipeline(nothing, Work::new(Ok::<u64, Infallible>));
        pipeline.plan().clone()
    }

    /// Numbers of stale clips in, features out.
    fn pipeline<I, T: Send + 'static>(
        &self,
        numbers: impl FnOnce(u64) -> I + Send + 'static,
        featurize: Work<u64, T>,
    ) -> Pipeline<T>
    where
        I: Iterator<Item = Result<u64, Infallible>> + Send + 'static,
    {
        let plan = Plan {
            order: self.order,
            overlap: self.overlap,
            adapt: self.adapt.then(|| AdaptPlan {
                most_workers: self.workers + 1,
                most_buffered: 4 * CLIPS_AHEAD,
            }),
            ..Plan::new("prepare", "write")
        };
        Pipeline::source(plan, "clips", numbers)
            .buffer(Setting::from(16))
            .budget(MEMORY, self.ram_budget)
            .stage(StageId::Featurize.name(), featurize)
            // This is computing: more workers than cores gain nothing, and fewer cost what they would do.
            // The controller has nothing to try.
            .workers(Setting::fixed(self.workers))
            .buffer(Setting::from(CLIPS_AHEAD))
            .in_budget(MEMORY)
            .on_error(0, AfterError::Skip)
    }
}

/// A clip's features, or why there are none.
type Computed = Result<ComputedClip, QuarantineEntry>;

struct ComputedClip {
    clip: usize,
    text: TextFeatures,
    audio: ComputedAudio,
    quality: Quality,
}

/// What building needs to know apart from what is stale.
#[derive(Debug)]
pub struct Building<'a> {
    pub clips: &'a [Clip],
    pub recipe: &'a Recipe,
    /// The cache as it was: frames that are still good are taken over from it.
    pub before: Cache,
    pub spread: &'a BuildSettings,
    pub recorder: Recorder,
    /// Checked between clips; what was computed by then is kept.
    pub stop: &'a AtomicBool,
    /// Whether the cache's size is bounded.
    pub within_budget: bool,
}

impl Building<'_> {
    /// Computes the features of all stale clips on several threads and writes them as they come.
    /// `progress` is called for each clip.
    pub fn build(
        self,
        staleness: Staleness,
        writer: &mut CacheWriter,
        mut progress: impl FnMut(&Clip),
    ) -> Result<Built, BuildError> {
        for (clip, stamp) in &staleness.restamped {
            writer.restamp(&self.clips[*clip].id, *stamp);
        }
        writer.drop_damaged();
        if self.within_budget {
            // What is about to be replaced must not take up the room of what replaces it.
            for stale in staleness.stale.iter().filter(|stale| !stale.audio_fresh) {
                writer.remove(&self.clips[stale.clip].id);
            }
            writer.commit()?;
        }
        let stale: Arc<[Stale]> = staleness.stale.into();
        let (clips, stop, recorder) = (self.clips, self.stop, self.recorder.clone());
        let enough = Arc::new(AtomicBool::new(false));
        let mut built = Built::default();
        let mut outcome = Ok(());
        for delivery in self.start(&stale, &enough)? {
            // The clips in hand still come.
            enough.fetch_or(stop.load(Ordering::Relaxed), Ordering::Relaxed);
            outcome = match delivery {
                Err(failure) => Err(failure.into()),
                Ok(Delivery::Gap(gap)) => {
                    // The pipeline has recorded why.
                    let clip = &clips[stale[gap.number as usize].clip];
                    progress(clip);
                    built.bad.push(lost(clip, &gap.fault));
                    Ok(())
                }
                Ok(Delivery::Item(item)) => {
                    let number = item.number();
                    progress(&clips[stale[number as usize].clip]);
                    // The receipt holds the clip's bytes until the writer has them.
                    let (computed, receipt) = item.into_parts();
                    if let Err(bad) = &computed {
                        recorder.record(left_out(number, bad));
                    }
                    let stored = store(clips, computed, writer, &mut built);
                    receipt.done();
                    stored.map_err(BuildError::from)
                }
            };
            if outcome.is_err() {
                break;
            }
        }
        // Kept even after an error or an interruption: a shard that is half full is still good work.
        let committed = writer.commit();
        outcome?;
        committed?;
        built.interrupted = built.known.len() + built.bad.len() < stale.len();
        Ok(built)
    }

    /// Stale clips in, features out.
    fn start(
        self,
        stale: &Arc<[Stale]>,
        enough: &Arc<AtomicBool>,
    ) -> Result<Running<Computed>, StartError> {
        let (count, enough) = (stale.len() as u64, Arc::clone(enough));
        let numbers = move |from: u64| {
            (from..count)
                .take_while(move |_| !enough.load(Ordering::Relaxed))
                .map(Ok::<_, Infallible>)
        };
        let clips: Arc<[Clip]> = self.clips.into();
        let named = {
            let (clips, stale) = (Arc::clone(&clips), Arc::clone(stale));
            move |number: u64| clips[stale[number as usize].clip].id.to_string()
        };
        let largest = {
            let (clips, stale) = (Arc::clone(&clips), Arc::clone(stale));
            let audio = Arc::clone(&self.recipe.audio);
            move |number: &u64| largest_bytes(&clips[stale[*number as usize].clip], &audio)
        };
        let (recipe, before) = (self.recipe.clone(), Arc::new(self.before));
        let stale = Arc::clone(stale);
        let featurize = Work::with_state(move || {
            let mut featurizer = ClipFeaturizer::new(&recipe.audio)?;
            let (clips, stale) = (Arc::clone(&clips), Arc::clone(&stale));
            let (recipe, before) = (recipe.clone(), Arc::clone(&before));
            Ok::<_, voxmill_audio::AudioSettingsError>(move |number: u64| {
                let stale = &stale[number as usize];
                let clip = &clips[stale.clip];
                Ok::<_, Infallible>(compute(clip, stale, &recipe, &before, &mut featurizer))
            })
        });
        let featurize = featurize.reserving(largest).keeping(bytes_of);
        let pipeline = self.spread.pipeline(numbers, featurize).named(named);
        pipeline.start(self.recorder)
    }
}

fn bytes_of(computed: &Computed) -> u64 {
    let view = |clip: &ComputedClip| ClipView::new(&clip.text, &clip.audio.features).bytes();
    computed.as_ref().map_or(0, view)
}

fn compute(
    clip: &Clip,
    stale: &Stale,
    recipe: &Recipe,
    before: &Cache,
    featurizer: &mut ClipFeaturizer,
) -> Computed {
    let text = text_features(clip, recipe)?;
    let still_good = stale.audio_fresh.then_some(before);
    let audio = audio_features(clip, stale.fingerprint, still_good, featurizer)?;
    let quality = recipe.quality(&audio.features.mel);
    let clip = stale.clip;
    Ok(ComputedClip {
        clip,
        text,
        audio,
        quality,
    })
}

fn store(
    clips: &[Clip],
    computed: Computed,
    writer: &mut CacheWriter,
    built: &mut Built,
) -> Result<(), CacheError> {
    let ComputedClip {
        clip,
        text,
        audio,
        quality,
    } = match computed {
        Ok(computed) => computed,
        Err(bad) => {
            built.bad.push(bad);
            return Ok(());
        }
    };
    let view = ClipView::new(&text, &audio.features);
    let added = writer.add(&clips[clip].id, &audio.fingerprint, view)?;
    built.not_cached += usize::from(added != Added::Stored);
    built.audio_kept += usize::from(audio.kept);
    let known = KnownClip {
        language: text.language,
        tokens: text.tokens.len() as u32,
        frames: audio.features.frames() as u32,
        levels: audio.features.levels,
        quality: Some(quality),
    };
    built.known.push((clip, known));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::WriterOptions;
    use crate::dataset::Dataset;
    use crate::manifest::Limits;
    use std::fs;
    use std::path::Path;

    /// A dataset of one real clip under many names.
    fn dataset(folder: &Path, clips: usize) -> Vec<Clip> {
        let voice = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../voxmill-audio/data/fixtures/audio/mel/voice.wav"
        );
        fs::create_dir(folder.join("wavs")).unwrap();
        let mut manifest = String::new();
        for number in 0..clips {
            fs::copy(voice, folder.join(format!("wavs/c{number}.wav"))).unwrap();
            manifest.push_str(&format!("c{number}|Hello there.\n"));
        }
        fs::write(folder.join("metadata.csv"), manifest).unwrap();
        let dataset = Dataset::open(folder, None, &Limits::default(), 0.0);
        dataset.unwrap().manifest.clips
    }

    #[test]
    fn asked_to_stop_it_keeps_what_was_computed() {
        let home = tempfile::tempdir().unwrap();
        let clips = dataset(home.path(), 400);
        let recipe = Recipe::default();
        let dir = home.path().join("features");
        let stop = AtomicBool::new(false);
        let before = Cache::open(&dir).unwrap();
        let prints = Fingerprints::take(&clips, &recipe, false, &stop, |_| {}).unwrap();
        let staleness = Staleness::find(&clips, &prints, &before, &recipe);
        assert_eq!(staleness.stale.len(), clips.len());

        let settings = recipe.feature_settings();
        let mut writer = CacheWriter::open(&dir, settings, WriterOptions::default()).unwrap();
        let spread = BuildSettings {
            workers: 2,
            ram_budget: 1 << 30,
            order: Order::Kept,
            overlap: true,
            adapt: false,
        };
        let building = Building {
            clips: &clips,
            recipe: &recipe,
            before,
            spread: &spread,
            recorder: Recorder::off(),
            stop: &stop,
            within_budget: false,
        };
        let mut reported = 0;
        let built = building.build(staleness, &mut writer, |_| {
            reported += 1;
            stop.store(reported >= 10, Ordering::Relaxed);
        });
        let built = built.unwrap();
        assert!(built.interrupted);
        let kept = Cache::open(&dir).unwrap().len();
        assert_eq!(kept, built.known.len());
        assert!((10..clips.len()).contains(&kept), "{kept}");
    }
}
