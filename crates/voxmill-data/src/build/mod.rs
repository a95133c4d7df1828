//! Makes the features of stale clips on the pipeline; the caller's thread writes them as they come.

mod staleness;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use voxmill_telemetry::stage::StageId;

use crate::cache::{Added, Cache, CacheError, CacheWriter, ClipView, Fingerprint, clip_bytes};
use crate::features::{AudioFeatures, Levels, TextFeatures};
use crate::manifest::{Clip, QuarantineEntry};
use voxmill_pipeline::item::RunFailure;
use voxmill_pipeline::plan::{AdaptPlan, AfterError, Order, Plan, Setting};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_pipeline::{Pipeline, StartError};
use voxmill_telemetry::recorder::Recorder;
use voxmill_text::language::Language;

use crate::featurize::{
    ClipFeaturizer, Recipe, largest_bytes, left_out, lost, make_audio, make_text,
};
use staleness::Stale;
pub(crate) use staleness::fingerprint;
pub use staleness::{Fingerprints, Staleness};

/// What is known of a clip once its features exist.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub language: Language,
    pub tokens: u32,
    pub levels: Levels,
}

#[derive(Debug, Default)]
pub struct Built {
    /// One for each stale clip that was reached and is good.
    pub known: Vec<(usize, Known)>,
    pub bad: Vec<QuarantineEntry>,
    /// Good, but beyond `--cache-budget`.
    pub not_cached: usize,
    pub audio_kept: usize,
    pub interrupted: bool,
}

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
/// go on; 128 clips of LJ Speech are 25 MB, and the longest that pass the filter 60 MB.
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
            // Making features is computing: more than one for each core bring nothing, and fewer cost what
            // they do. There is nothing here for the controller to try.
            .workers(Setting::fixed(self.workers))
            .buffer(Setting::from(CLIPS_AHEAD))
            .in_budget(MEMORY)
            .on_error(0, AfterError::Skip)
    }
}

/// A clip's features, or why there are none.
type Outcome = Result<Made, QuarantineEntry>;

struct Made {
    clip: usize,
    fingerprint: Fingerprint,
    text: TextFeatures,
    audio: AudioFeatures,
    /// The frames were taken over from the cache; only the text was new.
    audio_kept: bool,
}

/// What building needs to know beside what is stale.
#[derive(Debug)]
pub struct Building<'a> {
    pub clips: &'a [Clip],
    pub recipe: &'a Recipe,
    /// The cache as it was: frames that are still good are taken over from it.
    pub before: Cache,
    pub spread: &'a BuildSettings,
    pub recorder: Recorder,
    /// Looked at between clips; what was made by then is kept.
    pub stop: &'a AtomicBool,
    /// Whether the cache's size is bounded.
    pub within_budget: bool,
}

impl Building<'_> {
    /// Makes the features of all stale clips on several threads and writes them as they come.
    /// `progress` hears of each clip.
    pub fn build(
        self,
        staleness: Staleness,
        writer: &mut CacheWriter,
        mut progress: impl FnMut(&Clip),
    ) -> Result<Built, BuildError> {
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
                Ok(Delivery::Item(made)) => {
                    let number = made.number();
                    progress(&clips[stale[number as usize].clip]);
                    // The receipt holds the clip's bytes until the writer has them.
                    let (outcome, receipt) = made.into_parts();
                    if let Err(bad) = &outcome {
                        recorder.record(left_out(number, bad));
                    }
                    let stored = store(clips, outcome, writer, &mut built);
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
    ) -> Result<Running<Outcome>, StartError> {
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
                Ok::<_, Infallible>(make(clip, stale, &recipe, &before, &mut featurizer))
            })
        });
        let featurize = featurize.reserving(largest).keeping(bytes_of);
        let pipeline = self.spread.pipeline(numbers, featurize).named(named);
        pipeline.start(self.recorder)
    }
}

fn bytes_of(outcome: &Outcome) -> u64 {
    match outcome {
        Ok(made) => {
            let frames = (made.audio.mel.len() * size_of::<f32>()) as u64;
            let text = made.text.normalized.len() as u64;
            clip_bytes(0, 0, made.text.tokens.len() as u64, text) + frames
        }
        Err(_) => 0,
    }
}

fn make(
    clip: &Clip,
    stale: &Stale,
    recipe: &Recipe,
    before: &Cache,
    featurizer: &mut ClipFeaturizer,
) -> Outcome {
    let text = make_text(clip, recipe)?;
    let still_good = stale.audio_fresh.then_some(before);
    let audio = make_audio(clip, stale.fingerprint, still_good, featurizer)?;
    Ok(Made {
        clip: stale.clip,
        fingerprint: audio.fingerprint,
        text,
        audio: audio.features,
        audio_kept: audio.kept,
    })
}

fn store(
    clips: &[Clip],
    outcome: Outcome,
    writer: &mut CacheWriter,
    built: &mut Built,
) -> Result<(), CacheError> {
    let made = match outcome {
        Ok(made) => made,
        Err(bad) => {
            built.bad.push(bad);
            return Ok(());
        }
    };
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
    use crate::cache::WriterOptions;
    use crate::dataset::Dataset;
    use crate::manifest::Limits;
    use std::fs;
    use std::path::Path;
    use voxmill_audio::AudioSettings;
    use voxmill_text::{FrontEnd, FrontEndOptions};

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
        let limits = Limits {
            audio: AudioSettings::default(),
            max_mel_frames: None,
            max_text_length: None,
            min_seconds: 0.0,
        };
        Dataset::open(folder, None, &limits, 0.0)
            .unwrap()
            .manifest
            .clips
    }

    #[test]
    fn asked_to_stop_it_keeps_what_was_made() {
        let home = tempfile::tempdir().unwrap();
        let clips = dataset(home.path(), 400);
        let recipe = Recipe {
            front_end: Arc::new(FrontEnd::new(FrontEndOptions::default()).unwrap()),
            audio: Arc::new(AudioSettings::default()),
            language: None,
        };
        let dir = home.path().join("features");
        let stop = AtomicBool::new(false);
        let before = Cache::open(&dir).unwrap();
        let prints = Fingerprints::take(&clips, &recipe, false, &stop, |_| {}).unwrap();
        let staleness = Staleness::find(&clips, &prints, &before, &recipe);
        assert_eq!(staleness.stale.len(), clips.len());

        let mut writer =
            CacheWriter::open(&dir, recipe.feature_settings(), WriterOptions::default()).unwrap();
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
