//! Makes the features of stale clips on the pipeline; the caller's thread writes them as they come.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use voxmill_pipeline::item::{Failure, ItemFault};
use voxmill_pipeline::road::{Road, StartError};
use voxmill_pipeline::run::{Delivery, Running};
use voxmill_pipeline::stage::Work;
use voxmill_speech::audio::{AudioError, AudioSettings};
use voxmill_speech::cache::{
    Added, Cache, CacheError, CacheWriter, ClipView, Fingerprint, clip_bytes,
};
use voxmill_speech::features::{AudioFeatures, Levels, TextFeatures};
use voxmill_speech::language::Language;
use voxmill_speech::manifest::{Clip, QuarantineEntry, Reason};
use voxmill_speech::text::symbols;
use voxmill_telemetry::event::{Event, Fault, FaultAction, FaultKind};
use voxmill_telemetry::plan::{AdaptPlan, AfterError, Order, Plan, Setting, StagePlan};
use voxmill_telemetry::recorder::Recorder;

use super::stale::{Stale, Staleness};
use super::{Effort, Maker, Recipe, with_causes};

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
    #[error("cannot start the workers")]
    Start(#[from] StartError),
    #[error(transparent)]
    Run(#[from] Failure),
}

/// Clips that may wait for the writer. While it syncs a shard, some tenths of a second, the workers
/// go on; 128 clips of LJ Speech are 25 MB, and the longest that pass the filter 60 MB.
const CLIPS_AHEAD: usize = 128;

/// The name of the budget, as it stands in messages.
const MEMORY: &str = "host memory";

/// How the work is spread.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) workers: usize,
    /// Bytes of clips in the workers' hands and waiting for the writer.
    pub(crate) ram_budget: u64,
    pub(crate) order: Order,
    pub(crate) overlap: bool,
    pub(crate) adapt: bool,
}

impl Spread {
    pub(crate) fn plan(&self) -> Plan {
        let mut plan = Plan::new("prepare", "write")
            .stage(StagePlan::new("clips").buffer(Setting::from(16)))
            .stage(
                StagePlan::new("featurize")
                    // Making features is computing: more than one for each core bring nothing, and fewer
                    // cost what they do. There is nothing here for the controller to try.
                    .workers(Setting::fixed(self.workers))
                    .buffer(Setting::from(CLIPS_AHEAD))
                    .in_budget(MEMORY)
                    .on_error(0, AfterError::Skip),
            )
            .budget(MEMORY, self.ram_budget);
        plan.order = self.order;
        plan.overlap = self.overlap;
        plan.adapt = self.adapt.then(|| AdaptPlan {
            most_workers: self.workers + 1,
            most_buffered: 4 * CLIPS_AHEAD,
        });
        plan
    }
}

/// Why a clip is left out that alone is larger than the memory budget.
pub(crate) const TOO_LARGE: &str = "does not fit into memory";

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
pub(crate) struct Building<'a> {
    pub(crate) clips: &'a [Clip],
    pub(crate) recipe: &'a Recipe,
    /// The cache as it was: frames that are still good are taken over from it.
    pub(crate) before: Cache,
    pub(crate) spread: &'a Spread,
    pub(crate) recorder: Recorder,
    /// Looked at between clips; what was made by then is kept.
    pub(crate) stop: &'a AtomicBool,
    /// Whether the cache's size is bounded.
    pub(crate) within_budget: bool,
}

impl Building<'_> {
    /// Makes the features of all stale clips on several threads and writes them as they come.
    /// `progress` hears of each clip.
    pub(crate) fn build(
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
                Ok(Delivery::Hole(hole)) => {
                    // The pipeline has recorded why.
                    let clip = &clips[stale[hole.number as usize].clip];
                    progress(clip);
                    built.bad.push(lost(clip, &hole.fault));
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
            let mut maker = Maker::new(&recipe.audio)?;
            let (clips, stale) = (Arc::clone(&clips), Arc::clone(&stale));
            let (recipe, before) = (recipe.clone(), Arc::clone(&before));
            Ok::<_, voxmill_speech::audio::AudioSettingsError>(move |number: u64| {
                let stale = &stale[number as usize];
                let clip = &clips[stale.clip];
                Ok::<_, Infallible>(make(clip, stale, &recipe, &before, &mut maker))
            })
        });
        Road::source(self.spread.plan(), "clips", numbers)
            .named(named)
            .stage("featurize", featurize.reserving(largest).keeping(bytes_of))
            .start(self.recorder)
    }
}

/// The most that a clip takes while it is being made: its samples, and the features.
pub(super) fn largest_bytes(clip: &Clip, audio: &AudioSettings) -> u64 {
    let letters = clip.text.len() as u64;
    let frames = audio.frames_for_header(&clip.header) as u64;
    // Numbers and abbreviations are read out, so the text grows.
    let read_out = 16 * letters + 65_536;
    let features = clip_bytes(frames, audio.n_mels as u64, read_out, read_out);
    decoding_bytes(clip, audio) + features
}

/// The most that a clip takes while it is being decoded: the file, its samples of all channels and of
/// one, and again at the rate that they are brought to.
pub(super) fn decoding_bytes(clip: &Clip, audio: &AudioSettings) -> u64 {
    const SAMPLE: u64 = size_of::<f32>() as u64;
    let header = &clip.header;
    let resampled =
        header.samples * u64::from(audio.sample_rate) / u64::from(header.sample_rate).max(1);
    let samples = header.samples * (u64::from(header.channels) + 1) + resampled;
    clip.audio_bytes + samples * SAMPLE
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

/// A bad clip is data, not a fault of the work; whoever reads the log wants to see it all the same.
pub(super) fn left_out(number: u64, bad: &QuarantineEntry) -> Event {
    Event::Fault(Fault {
        stage: "featurize".to_owned(),
        item: number,
        name: bad.clip.to_string(),
        kind: FaultKind::Error,
        message: format!("{}: {}", bad.reason, bad.detail),
        action: FaultAction::Skipped,
    })
}

/// A clip that no features came of, for a reason that is not in its data.
pub(super) fn lost(clip: &Clip, fault: &ItemFault) -> QuarantineEntry {
    let why = with_causes(fault.error.as_ref());
    match fault.kind {
        FaultKind::TooLarge => clip.quarantine(
            Reason::named(TOO_LARGE),
            format!("{why}; a larger --ram-budget would take it"),
        ),
        FaultKind::Panic => clip.quarantine(
            Reason::named("internal error"),
            format!("voxmill panicked on this clip: {why}"),
        ),
        FaultKind::Outgrown | FaultKind::Error | FaultKind::Setup => {
            clip.quarantine(Reason::named("internal error"), why)
        }
    }
}

fn make(clip: &Clip, stale: &Stale, recipe: &Recipe, before: &Cache, maker: &mut Maker) -> Outcome {
    let text = make_text(clip, recipe)?;
    let still_good = stale.audio_fresh.then_some(before);
    let audio = make_audio(clip, stale.fingerprint, still_good, maker)?;
    Ok(Made {
        clip: stale.clip,
        fingerprint: audio.fingerprint,
        text,
        audio: audio.features,
        audio_kept: audio.kept,
    })
}

/// The text half of a clip's features.
pub(super) fn make_text(clip: &Clip, recipe: &Recipe) -> Result<TextFeatures, QuarantineEntry> {
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
    Ok(text)
}

/// The audio half, and what it was made from.
#[derive(Debug)]
pub(super) struct MadeAudio {
    pub(super) fingerprint: Fingerprint,
    pub(super) features: AudioFeatures,
    /// Taken over from the cache.
    pub(super) kept: bool,
    pub(super) effort: Effort,
}

/// `still_good` is the cache if the clip's frames in it can be taken over.
pub(super) fn make_audio(
    clip: &Clip,
    mut fingerprint: Fingerprint,
    still_good: Option<&Cache>,
    maker: &mut Maker,
) -> Result<MadeAudio, QuarantineEntry> {
    if let Some(before) = still_good
        // A shard that proves damaged only now is no loss: the file is there to be read again.
        && let Ok(Some(cached)) = before.get(&clip.id)
    {
        // Equal size and time, or it would not be fresh: what is known of its content still holds.
        let known = before
            .entry(&clip.id)
            .and_then(|entry| entry.fingerprint.audio.content);
        fingerprint.audio.content = fingerprint.audio.content.or(known);
        return Ok(MadeAudio {
            fingerprint,
            features: cached.to_audio(),
            kept: true,
            effort: Effort::default(),
        });
    }
    let path = clip.audio_path();
    // Before decoding: a file that changes in between then differs from its stamp and is rebuilt next time.
    fingerprint.audio = maker
        .stamp(&path)
        .map_err(|error| clip.quarantine(Reason::UNREADABLE_AUDIO, error.to_string()))?;
    let features = maker
        .featurize(&path)
        .map_err(|error| bad_audio(clip, &error))?;
    Ok(MadeAudio {
        fingerprint,
        features,
        kept: false,
        effort: maker.effort(),
    })
}

/// A clip that its file gives nothing of.
pub(super) fn bad_audio(clip: &Clip, error: &AudioError) -> QuarantineEntry {
    clip.quarantine(Reason::named(error.kind()), with_causes(error))
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
    use crate::feed::{Prints, scan};
    use std::fs;
    use std::path::Path;
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
        let recipe = Recipe {
            front_end: Arc::new(FrontEnd::new(FrontEndOptions::default()).unwrap()),
            audio: Arc::new(AudioSettings::default()),
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
        let spread = Spread {
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
