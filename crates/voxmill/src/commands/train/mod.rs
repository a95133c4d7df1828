//! `voxmill train`: from a dataset to a voice.
//!
//! `run` reads top to bottom: settings, data, run folder, feed, model, loop, summary.

mod feed;
mod observer;
pub(crate) mod run_folder;
mod sentences;
mod start;
mod summary;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use voxmill_pipeline::position::Position as RoadPosition;
use voxmill_report::tensorboard::{EventWriter, Start as EventStart};
use voxmill_speech::cache::free_space;
use voxmill_speech::draw::draw;
use voxmill_speech::manifest::{Clip, Manifest, Quarantine, Split};
use voxmill_speech::text::FrontEnd;
use voxmill_speech::text::symbols::SymbolTable;
use voxmill_telemetry::event::Outcome;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::{
    CheckpointError, CheckpointFolder, Checkpoints, VoiceFacts, checkpoint_bytes,
};
use voxmill_trainer::device::Device;
use voxmill_trainer::model::Vocabulary;
use voxmill_trainer::prepare::{LANGUAGES, MelStatistics};
use voxmill_trainer::speak::Speaker;
use voxmill_trainer::train::{Stopped, Summary, TrainError, Training};

use super::{show_settings, tell};
use crate::args::TrainArgs;
use crate::complaint::Complaint;
use crate::dashboard::{Dashboard, Goal};
use crate::dataset::{Folder, folders};
use crate::feed::Recipe;
use crate::feed::train::{BatchFeed, CacheHome, FeedSettings, Shelf};
use crate::interrupt::{self, EXIT_INTERRUPTED};
use crate::recording::Recording;
use crate::settings::{self, Start, TrainSettings};
use crate::speech::Mouth;
use feed::PipelineFeed;
use observer::{HostCpu, Sums, Watching, moment};
use run_folder::Named;
use sentences::Sentence;

/// The list of bad clips in the run's folder.
const QUARANTINE: &str = "quarantine.csv";
/// Clips that the mel statistics are taken from.
const STATISTICS_CLIPS: usize = 128;
/// Of the memory for feeding, what features may take that wait for the cache; the rest is for batches.
const HELD_SHARE: u64 = 4;
/// And what batches of held-out clips may take.
const VALIDATION_SHARE: u64 = 8;

pub(crate) fn run(mut args: TrainArgs) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let show = args.config.show_settings;
    let resumed = find_resumed(&mut args)?;
    take_size_of_other_voice(&mut args)?;
    let settings = TrainSettings::resolve(args)?;
    for note in &settings.notes {
        tell(&format!("note: {note}"));
    }
    if show {
        show_settings(&settings.shown, settings.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = interrupt::watch()?;
    // Headers, texts and the model share one pool: they are never at work at the same time.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.compute_threads)
        .thread_name(|number| format!("compute-{number}"))
        .build()
        .context("cannot start compute threads")?;
    pool.install(|| train(&settings, resumed, begin, stop))
}

/// What `--resume` goes on with.
#[derive(Debug)]
struct Resumed {
    run: PathBuf,
    checkpoint: CheckpointFolder,
}

/// Finds the checkpoint to go on with, and takes the run's own settings where no others are given.
fn find_resumed(args: &mut TrainArgs) -> anyhow::Result<Option<Resumed>> {
    let Some(from) = &args.checkpoints.resume else {
        return Ok(None);
    };
    let named = match from {
        Some(path) => Named::find(path),
        None => {
            let runs = args
                .run
                .runs_dir
                .clone()
                .unwrap_or_else(|| PathBuf::from("runs"));
            Named::find(&run_folder::newest(&runs)?)
        }
    };
    let found = named.newest().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        tell(&format!(
            "warning: {}; going back to `{}`",
            describe(damaged),
            found.checkpoint.path().display()
        ));
    }
    // The checkpoint knows its run, wherever it lies; a run that was moved is told by its place.
    let stored = found
        .checkpoint
        .facts()
        .settings
        .get("run")
        .and_then(Value::as_str);
    let beside = named
        .run()
        .filter(|run| run.join(run_folder::SETTINGS).is_file());
    let run = beside
        .map(Path::to_owned)
        .or_else(|| stored.map(PathBuf::from));
    let run = run.unwrap_or_else(|| PathBuf::from("."));
    let own = run.join(run_folder::SETTINGS);
    if own.is_file() {
        match &args.config.config {
            None => args.config.config = Some(own),
            Some(other) => tell(&format!(
                "note: the settings are those of `{}`, not the run's own",
                other.display()
            )),
        }
    }
    Ok(Some(Resumed {
        run,
        checkpoint: found.checkpoint,
    }))
}

/// A voice that is gone on from decides the size where nobody else does.
fn take_size_of_other_voice(args: &mut TrainArgs) -> anyhow::Result<()> {
    let Some(path) = &args.checkpoints.init_from else {
        return Ok(());
    };
    if args.model.model_size.is_none() && args.config.config.is_none() {
        let found = Named::find(path).best().map_err(of_checkpoint)?;
        args.model.model_size = Some(start::setting(found.checkpoint.facts().voice.size));
    }
    Ok(())
}

/// The dataset, scanned.
struct Data {
    folder: Folder,
    train: Manifest,
    /// Of its manifest, good and bad.
    rows: usize,
    /// Of another folder, where one is given.
    held_out: Option<(Folder, Manifest)>,
}

impl Data {
    fn held_out(&self) -> &Manifest {
        self.held_out
            .as_ref()
            .map_or(&self.train, |(_, manifest)| manifest)
    }
}

fn read_data(settings: &TrainSettings, resumed: Option<&Resumed>) -> anyhow::Result<Data> {
    let mut all = folders(&settings.data)?.into_iter();
    let folder = all.next().context("there is always a folder to train on")?;
    let mut train = folder.scan(&settings.data)?;
    let rows = train.clips.len() + train.quarantine.len() + train.filtered.total();
    if let Some(bad) = train.quarantine.too_many(rows, settings.data.max_bad) {
        let list = folder.home.join("quarantine.csv");
        let hint = format!(
            "`voxmill prepare` lists them in `{}`; mend them, or allow more with --max-bad",
            list.display()
        );
        return Err(Complaint::new(bad.to_string(), hint).into());
    }
    let held_out = match all.next() {
        Some(folder) => {
            let manifest = folder.scan(&settings.data)?;
            let rows = manifest.clips.len() + manifest.quarantine.len() + manifest.filtered.total();
            if let Some(bad) = manifest.quarantine.too_many(rows, settings.data.max_bad) {
                let what = format!("of `{}`, {bad}", folder.path.display());
                return Err(Complaint::new(what, "mend them, or allow more with --max-bad").into());
            }
            if manifest.clips.is_empty() {
                return Err(Complaint::new(
                    format!(
                        "no clip of `{}` is left to validate on",
                        folder.path.display()
                    ),
                    "leave --val-data out: a share of the clips is then held out",
                )
                .into());
            }
            Some((folder, manifest))
        }
        None => None,
    };
    if let Some(resumed) = resumed {
        // The plan must be the one that the run began with: what was bad then stays out.
        let frozen: HashSet<&str> = resumed
            .checkpoint
            .facts()
            .quarantine
            .iter()
            .map(String::as_str)
            .collect();
        train.clips.retain(|clip| !frozen.contains(&*clip.id));
    }
    if settings.shuffle_texts {
        shuffle_texts(&mut train.clips, settings.data.batches.seed);
    }
    if !train.clips.iter().any(|clip| clip.split == Split::Train) {
        return Err(Complaint::new(
            format!("no clip of `{}` is left to train on", folder.path.display()),
            "`voxmill prepare` on the same folder says why",
        )
        .into());
    }
    Ok(Data {
        folder,
        train,
        rows,
        held_out,
    })
}

/// For a control experiment: every training clip gets another one's text. A voice trained so must
/// not be understood.
fn shuffle_texts(clips: &mut [Clip], seed: u64) {
    let mut of_training: Vec<usize> = (0..clips.len())
        .filter(|&clip| clips[clip].split == Split::Train)
        .collect();
    of_training.sort_by_key(|&clip| draw(seed, 0, &clips[clip].id, "shuffle texts"));
    let Some(&first) = of_training.first() else {
        return;
    };
    let first_text = clips[first].text.clone();
    for pair in of_training.windows(2) {
        clips[pair[0]].text = clips[pair[1]].text.clone();
    }
    if let Some(&last) = of_training.last() {
        clips[last].text = first_text;
    }
}

fn train(
    settings: &TrainSettings,
    resumed: Option<Resumed>,
    begin: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let interrupted = || {
        let asked = stop.load(Ordering::Relaxed);
        asked.then(|| {
            tell("interrupted before the first step: nothing was begun");
            ExitCode::from(EXIT_INTERRUPTED)
        })
    };
    let data = read_data(settings, resumed.as_ref())?;
    if let Some(code) = interrupted() {
        return Ok(code);
    }

    // The road of batches.
    let recipe = Recipe {
        front_end: Arc::new(FrontEnd::new(settings.data.text.clone())?),
        audio: Arc::new(settings.data.audio.clone()),
        language: settings.data.language,
    };
    let shelf = open_shelf(settings, &recipe, &data.folder, &data.train);
    let held_out_shelf = match &data.held_out {
        Some((folder, manifest)) => open_shelf(settings, &recipe, folder, manifest),
        None => Arc::clone(&shelf),
    };
    let batches = BatchFeed::new(
        &shelf,
        Split::Train,
        settings.data.batches,
        feed_settings(settings),
    )
    .map_err(of_feed)?;
    let held_out = held_out_feed(settings, &data, &held_out_shelf)?;
    let mut all_bad = data.train.quarantine.clone();
    all_bad.extend(shelf.bad());
    let quarantine = frozen_quarantine(resumed.as_ref(), &all_bad);
    let options = start::options(settings, &batches, held_out.is_some());

    // The model, fresh or as it was.
    let device = match settings.device {
        settings::Device::Cpu => voxmill_trainer::device::cpu(),
    };
    let run = match &resumed {
        Some(resumed) => resumed.run.clone(),
        None => run_folder::planned(&settings.run_folder),
    };
    let checkpoints_dir = settings.checkpoints.dir.clone();
    let checkpoints_dir = checkpoints_dir.unwrap_or_else(|| run_folder::own_checkpoints(&run));
    let checkpoints = Checkpoints::new(&checkpoints_dir, settings.checkpoints.keep.get());
    let abandoned = refuse_to_overwrite(settings, &checkpoints)?;
    let plan_hash = plan_hash(&batches);
    let stored = json!({
        "run": absolute(&run),
        "plan": plan_hash,
        "values": start::values(&settings.shown),
    });
    let speakers = data.train.speakers.clone();
    let (training, from) = match &resumed {
        Some(resumed) => {
            check_fits(resumed, settings, &plan_hash)?;
            let from = &resumed.checkpoint;
            let training = Training::resume(options.clone(), stored, speakers, &device, from)
                .map_err(of_checkpoint)?;
            if let Some(over) = training.limit_reached() {
                return Err(Complaint::new(
                    format!(
                        "the run is over at step {}: {}",
                        training.progress().step,
                        summary::reason(over)
                    ),
                    "give a larger --max-steps, --max-minutes or --epochs to go on",
                )
                .into());
            }
            let from = serde_json::from_value(training.progress().feed.clone())
                .context("the checkpoint does not say where its feed was")?;
            (training, from)
        }
        None => {
            let voice = new_voice(settings, &data, &shelf)?;
            let training = match &settings.start {
                Start::New {
                    init_from: Some(path),
                    ..
                } => from_other_voice(path, options.clone(), voice, stored, speakers, &device)?,
                _ => Training::new(options.clone(), voice, stored, speakers, &device),
            };
            (training, RoadPosition::default())
        }
    };
    if let Some(code) = interrupted() {
        return Ok(code);
    }

    // The run's folder: made when hardly anything can go wrong any more.
    if resumed.is_none() {
        run_folder::create(&run)?;
    }
    check_room(&checkpoints, training.parameters(), settings)?;
    for path in abandoned {
        std::fs::remove_dir_all(&path)
            .with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    let yaml = run_folder::settings_yaml(&settings.shown);
    std::fs::write(run.join(run_folder::SETTINGS), yaml)
        .map_err(|error| cannot_write(&run, error))?;
    all_bad
        .write_csv(&run.join(QUARANTINE))
        .map_err(|error| cannot_write(&run, error))?;

    let log = run.join(run_folder::EVENTS);
    let plan = batches.road_plan();
    let recording = Recording::start("train", &plan, Some(&log), settings.trace.as_deref())?;
    start::Told {
        settings,
        run: &run,
        data: &data.train,
        batches: &batches,
        shelf: &shelf,
        parameters: training.parameters(),
        held_out: held_out.as_ref(),
        progress: training.progress(),
    }
    .tell();

    let running = batches
        .start(from, settings.stop_at.epochs, recording.recorder())
        .map_err(of_feed)?;
    let sentences = sentences::choose(&data.train, data.held_out(), settings.data.language);
    let mut watching = watching(
        settings, &run, &recipe, &batches, &shelf, &sentences, &options, &running, &recording,
        &training, begin, &all_bad, data.rows,
    )?;
    let mut feed = PipelineFeed {
        batches: &batches,
        running: Some(running),
        replayed: Vec::new(),
        validation: held_out.as_ref(),
        quarantine,
        late: None,
    };
    if let (true, Some(steps)) = (settings.replay, options.limits.steps) {
        feed.take_all(steps * options.accumulate as u64)
            .map_err(|error| anyhow::anyhow!(error).context("the batches could not be taken"))?;
    }
    let outcome = training.run(&mut feed, &checkpoints, &mut watching, stop);
    drop(feed);
    let outcome = finish(outcome, &run, &checkpoints, &mut watching, &device);
    if let Some(dashboard) = watching.dashboard.take() {
        dashboard
            .finish()
            .context("the terminal could not be restored")?;
    }
    shelf.save();
    recording.finish(match &outcome {
        Ok(summary) if summary.stopped == Stopped::Interrupted => Outcome::Interrupted,
        Ok(_) => Outcome::Finished,
        Err(_) => Outcome::Failed,
    });
    let summary = outcome?;
    if summary.step == 0 {
        tell("interrupted before the first step: there is nothing to save");
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    summary::tell(
        &summary,
        &watching.sums,
        settings,
        &run,
        &checkpoints,
        &shelf,
    )?;
    if summary.stopped == Stopped::Interrupted {
        tell(&format!(
            "interrupted: the checkpoint is saved; `voxmill train --resume {}` goes on from here",
            run.display()
        ));
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

fn open_shelf(
    settings: &TrainSettings,
    recipe: &Recipe,
    folder: &Folder,
    manifest: &Manifest,
) -> Arc<Shelf> {
    // Shuffled texts are for one experiment: they must not get into the dataset's cache.
    let caching = settings.feeding.caching && !settings.shuffle_texts;
    let home = caching.then(|| CacheHome {
        dir: folder.cache_dir(),
        budget_bytes: settings.data.cache_budget,
    });
    let hold = settings.feeding.ram_budget / HELD_SHARE;
    // Bad clips are told and recorded by whoever watches the run.
    let off = Recorder::off();
    Arc::new(Shelf::open(
        manifest.clips.clone(),
        recipe.clone(),
        home,
        hold,
        off,
    ))
}

/// The held-out clips, where there are any and they are wanted.
fn held_out_feed(
    settings: &TrainSettings,
    data: &Data,
    shelf: &Arc<Shelf>,
) -> anyhow::Result<Option<BatchFeed>> {
    let Some(evaluation) = settings.evaluation else {
        return Ok(None);
    };
    let held_out = |clip: &Clip| clip.split == Split::Validation;
    if !data.held_out().clips.iter().any(held_out) {
        if let Some(patience) = evaluation.patience {
            return Err(Complaint::new(
                format!(
                    "the run cannot stop after {patience} evaluations without a better one: no clip is held out"
                ),
                "hold some out with --val-fraction or --val-data, or leave the patience out",
            )
            .into());
        }
        tell("note: no clip is held out, so nothing is evaluated; --val-fraction holds some out");
        return Ok(None);
    }
    // It runs beside the other road, for moments: a few batches ahead are enough.
    let ours = FeedSettings {
        buffer_size: 2,
        slots: 2,
        held_at_once: 1,
        start_delay: Duration::ZERO,
        ram_budget: settings.feeding.ram_budget / VALIDATION_SHARE,
        ..feed_settings(settings)
    };
    let feed = BatchFeed::new(shelf, Split::Validation, settings.data.batches, ours);
    Ok(Some(feed.map_err(of_feed)?))
}

/// The clips that are out of this run's plan for good: the plan must not change while it runs.
fn frozen_quarantine(resumed: Option<&Resumed>, bad: &Quarantine) -> Vec<String> {
    let before = resumed
        .iter()
        .flat_map(|resumed| resumed.checkpoint.facts().quarantine.clone());
    let now = bad.entries().iter().map(|bad| bad.clip.to_string());
    let all: BTreeSet<String> = before.chain(now).collect();
    all.into_iter().collect()
}

fn cannot_write(run: &Path, error: impl Into<anyhow::Error>) -> Complaint {
    Complaint::new(
        format!("cannot write into the run's folder `{}`", run.display()),
        "give a folder that can be written with --run-dir",
    )
    .because(error)
}

/// The last samples, said by the best voice.
fn finish(
    outcome: Result<Summary, TrainError>,
    run: &Path,
    checkpoints: &Checkpoints,
    watching: &mut Watching<'_>,
    device: &Device,
) -> anyhow::Result<Summary> {
    let summary = outcome.map_err(|error| of_training(error, run, checkpoints))?;
    if summary.stopped != Stopped::Interrupted {
        let best = checkpoints.best().map_err(of_checkpoint)?;
        let speaker = Speaker::load(&best.checkpoint, device).map_err(of_checkpoint)?;
        watching.say_samples("final", Some(summary.step), &speaker);
    }
    Ok(summary)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn feed_settings(settings: &TrainSettings) -> FeedSettings {
    let feeding = &settings.feeding;
    FeedSettings {
        workers: feeding.workers,
        buffer_size: feeding.buffered_batches,
        ram_budget: feeding.ram_budget
            - feeding.ram_budget / HELD_SHARE
            - feeding.ram_budget / VALIDATION_SHARE,
        order: feeding.order,
        overlap: feeding.overlap,
        adapt: feeding.adapt,
        slots: feeding.device_slots,
        start_delay: feeding.start_delay,
        held_at_once: settings.optimization.gradient_accumulation_steps.get() as usize,
    }
}

/// A voice that has not learnt anything yet.
fn new_voice(settings: &TrainSettings, data: &Data, shelf: &Shelf) -> anyhow::Result<VoiceFacts> {
    let sample = shelf.sample_clips(Split::Train, STATISTICS_CLIPS, settings.data.batches.seed);
    let statistics = shelf.mel_statistics(&sample)?.ok_or_else(|| {
        Complaint::new(
            "no audio of the clips looked at could be read",
            "`voxmill prepare` on the same folder says why",
        )
    })?;
    let size = start::size(settings.model_size);
    let symbols = SymbolTable::built_in();
    let mut clips_of = BTreeMap::<u32, usize>::new();
    for clip in data
        .train
        .clips
        .iter()
        .filter(|clip| clip.split == Split::Train)
    {
        *clips_of.entry(clip.speaker).or_default() += 1;
    }
    let main = clips_of
        .iter()
        .max_by_key(|(_, clips)| **clips)
        .map_or(0, |(speaker, _)| *speaker);
    Ok(VoiceFacts {
        size,
        shape: size.shape(),
        vocabulary: Vocabulary {
            tokens: symbols.symbols.len(),
            languages: LANGUAGES,
            mel_channels: settings.data.audio.n_mels,
        },
        symbols,
        audio: settings.data.audio.clone(),
        mel_statistics: MelStatistics {
            mean: statistics.mean as f32,
            // A dataset of silence has none; dividing by it would not help.
            deviation: statistics.standard_deviation.max(1e-3) as f32,
        },
        length_scale: 1.0,
        speakers: BTreeMap::new(),
        main_speaker: data
            .train
            .speakers
            .get(main as usize)
            .cloned()
            .unwrap_or_default(),
    })
}

fn from_other_voice(
    path: &Path,
    options: voxmill_trainer::train::TrainOptions,
    mut voice: VoiceFacts,
    stored: Value,
    speakers: Vec<String>,
    device: &Device,
) -> anyhow::Result<Training> {
    let found = Named::find(path).best().map_err(of_checkpoint)?;
    for damaged in &found.damaged {
        tell(&format!(
            "warning: {}; taking `{}`",
            describe(damaged),
            found.checkpoint.path().display()
        ));
    }
    let theirs = &found.checkpoint.facts().voice;
    if theirs.shape != voice.shape {
        return Err(Complaint::new(
            format!(
                "`{}` is a voice of size {}, not {}",
                path.display(),
                theirs.size,
                voice.size
            ),
            format!("give --model-size {}", theirs.size),
        )
        .into());
    }
    if theirs.audio != voice.audio {
        return Err(Complaint::new(
            format!("`{}` was trained with other audio settings", path.display()),
            format!(
                "take its own: sample rate {}, n_fft {}, hop {}, {} mels",
                theirs.audio.sample_rate,
                theirs.audio.n_fft,
                theirs.audio.hop_length,
                theirs.audio.n_mels
            ),
        )
        .into());
    }
    // What its weights have learnt to read is in its scale.
    voice.mel_statistics = theirs.mel_statistics;
    voice.length_scale = theirs.length_scale;
    Training::from_voice(options, voice, stored, speakers, device, &found.checkpoint)
        .map_err(of_checkpoint)
}

/// A checkpoint can only go on as the voice that it is.
fn check_fits(resumed: &Resumed, settings: &TrainSettings, plan: &str) -> anyhow::Result<()> {
    let facts = resumed.checkpoint.facts();
    let (voice, path) = (&facts.voice, resumed.checkpoint.path());
    let refuse = |what: String, hint: String| Err(Complaint::new(what, hint).into());
    if voice.size != start::size(settings.model_size) {
        return refuse(
            format!(
                "`{}` is of size {}, not {}",
                path.display(),
                voice.size,
                settings.model_size.name()
            ),
            format!(
                "give --model-size {}, or begin anew without --resume (--init-from takes its weights)",
                voice.size
            ),
        );
    }
    let symbols = SymbolTable::built_in();
    if voice.symbols != symbols {
        return refuse(
            format!(
                "`{}` knows {} symbols, this program {}",
                path.display(),
                voice.symbols.symbols.len(),
                symbols.symbols.len()
            ),
            "--init-from takes its weights into a new run and adds what is new".to_owned(),
        );
    }
    if voice.audio != settings.data.audio {
        return refuse(
            format!("`{}` was trained with other audio settings", path.display()),
            "leave the audio flags out: the run's own settings are then used".to_owned(),
        );
    }
    let same = facts.settings.get("plan").and_then(Value::as_str) == Some(plan);
    if !same {
        tell(
            "warning: the dataset or the batch settings have changed since the checkpoint: the run goes on at the \
             same place of another order of batches",
        );
    }
    Ok(())
}

/// Which clips are in which batch, in a few letters.
fn plan_hash(batches: &BatchFeed) -> String {
    let plan = batches.plan();
    let mut hash = 0u64;
    for clip in plan.clips() {
        hash = draw(
            hash,
            u64::from(clip.frames) << 32 | u64::from(clip.tokens),
            &clip.id,
            "plan",
        );
    }
    let settings = format!("{:?}", plan.settings());
    format!("{:016x}", draw(hash, 0, &settings, "plan"))
}

/// The checkpoints of an earlier run that are to be thrown away; where nobody said so, an error.
fn refuse_to_overwrite(
    settings: &TrainSettings,
    checkpoints: &Checkpoints,
) -> anyhow::Result<Vec<PathBuf>> {
    let Start::New { reset, .. } = settings.start else {
        return Ok(Vec::new());
    };
    let mut there = checkpoints
        .list()
        .context("cannot look into the folder of checkpoints")?;
    if there.is_empty() {
        return Ok(there);
    }
    if !reset {
        return Err(Complaint::new(
            format!(
                "there are checkpoints in `{}` already",
                checkpoints.folder().display()
            ),
            "--resume goes on from them, --reset-training throws them away",
        )
        .into());
    }
    tell(&format!("note: throwing away {} checkpoints", there.len()));
    Ok(std::mem::take(&mut there))
}

/// A disk that fills up at step 10,000 is a worse way to learn it.
fn check_room(
    checkpoints: &Checkpoints,
    parameters: usize,
    settings: &TrainSettings,
) -> anyhow::Result<()> {
    let folder = checkpoints.folder();
    let probe = folder.join(".can-write");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| {
            Complaint::new(
                format!("checkpoints cannot be written into `{}`", folder.display()),
                "give a folder that can be written with --checkpoint-dir",
            )
            .because(error)
        })?;
    let each = checkpoint_bytes(parameters);
    // The kept ones, the best, and the one that is being written.
    let needed = each * (settings.checkpoints.keep.get() as u64 + 2);
    let free = free_space(checkpoints.folder()).context("cannot tell how much space is free")?;
    if needed > free {
        return Err(Complaint::new(
            format!(
                "the checkpoints need {} MB in `{}`, where {} MB are free",
                needed / 1_000_000,
                checkpoints.folder().display(),
                free / 1_000_000
            ),
            "free some space, keep fewer with --keep, or move them with --checkpoint-dir",
        )
        .into());
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "all that there is to watch, and where to write it"
)]
fn watching<'a>(
    settings: &TrainSettings,
    run: &Path,
    recipe: &'a Recipe,
    batches: &'a BatchFeed,
    shelf: &'a Shelf,
    sentences: &'a [Sentence],
    options: &voxmill_trainer::train::TrainOptions,
    running: &voxmill_pipeline::run::Running<voxmill_speech::batch::Batch>,
    recording: &Recording,
    training: &Training,
    begin: Instant,
    all_bad: &Quarantine,
    rows: usize,
) -> anyhow::Result<Watching<'a>> {
    let folder = settings
        .tensorboard_log_dir
        .clone()
        .unwrap_or_else(|| run.to_owned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let start = EventStart {
        wall_seconds: moment(0).wall_seconds,
        host: host.trim(),
        process_id: std::process::id(),
        first_step: training.progress().step,
    };
    let tensorboard = EventWriter::create(&folder, start).map_err(|error| {
        Complaint::new(
            "the files for TensorBoard cannot be written",
            "give a folder that can be written with --tensorboard-log-dir",
        )
        .because(error)
    })?;
    use std::io::IsTerminal as _;
    let on_a_terminal = std::io::stderr().is_terminal();
    let dashboard = match settings.dashboard {
        Some(true) if !on_a_terminal => {
            return Err(Complaint::new(
                "--dashboard needs a terminal, and standard error is none",
                "leave it out: progress is then told in lines",
            )
            .into());
        }
        asked => asked.unwrap_or(on_a_terminal),
    };
    let dashboard = dashboard
        .then(|| {
            Dashboard::start(interrupt::ask, || {
                std::process::exit(i32::from(EXIT_INTERRUPTED))
            })
        })
        .transpose()
        .context("the dashboard cannot be drawn; --no-dashboard does without")?;
    if let Some(dashboard) = &dashboard {
        dashboard.update(|state| {
            state.run_name = run
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            state.model_size = settings.model_size.name().to_owned();
            state.device = settings.device.name().to_owned();
            state.mode = "single device".to_owned();
            state.goal = match (options.limits.steps, options.limits.seconds) {
                (Some(steps), None) => Goal::Steps(steps),
                (_, Some(seconds)) => Goal::Time(Duration::from_secs_f64(seconds)),
                (None, None) => Goal::Open,
            };
        });
    }
    Ok(Watching {
        recorder: recording.recorder(),
        control: running.control(),
        batches,
        shelf,
        limits: options.limits,
        dashboard,
        tensorboard: Some(tensorboard),
        samples: run.join(run_folder::SAMPLES),
        sentences,
        mouth: Mouth {
            front_end: &recipe.front_end,
            vocoder: voxmill_speech::audio::Vocoder::new(&settings.data.audio)?,
            iterations: voxmill_speech::audio::ITERATIONS,
        },
        begin,
        last_line: None,
        recent: VecDeque::new(),
        sums: Sums::default(),
        notes_told: 0,
        all_bad: all_bad.clone(),
        bad_told: shelf.bad().len(),
        rows,
        max_bad: settings.data.max_bad,
        quarantine_file: run.join(QUARANTINE),
        host_cpu: HostCpu::default(),
    })
}

fn describe(error: &CheckpointError) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

pub(crate) fn of_checkpoint(error: CheckpointError) -> anyhow::Error {
    let hint = match &error {
        CheckpointError::None(_) => "give a run's folder or one of its checkpoints",
        CheckpointError::Version { .. } => "a newer voxmill wrote it; take that one",
        CheckpointError::Damaged { .. } => "take another checkpoint of the run",
        CheckpointError::Read { .. } => "look whether it is there and can be read",
        CheckpointError::Write { .. } => "free some space, or move them with --checkpoint-dir",
    };
    let what = error.to_string();
    match std::error::Error::source(&error) {
        Some(_) => Complaint::new(what, hint).because(error).into(),
        None => Complaint::new(what, hint).into(),
    }
}

fn of_feed(error: crate::feed::train::FeedError) -> anyhow::Error {
    use crate::feed::train::FeedError;
    let hint = match &error {
        FeedError::TooLittleMemory { .. } => {
            "give more with --ram-budget, or make batches smaller with --batch-size or --max-mel-frames"
        }
        FeedError::Plan(_) => "`voxmill prepare` on the same folder says what is in it",
        FeedError::Start(_) => "try fewer workers with --num-workers",
    };
    Complaint::new("the batches cannot be made", hint)
        .because(error)
        .into()
}

fn of_training(error: TrainError, run: &Path, checkpoints: &Checkpoints) -> anyhow::Error {
    let saved = checkpoints.newest().ok();
    let go_on = match &saved {
        Some(found) => format!(
            "step {} is saved: `voxmill train --resume {}` goes on from there",
            found.checkpoint.facts().progress.step,
            run.display()
        ),
        None => "nothing was saved yet; mend it and start again".to_owned(),
    };
    match error {
        TrainError::TooManyBadSteps { .. } => Complaint::new(
            error.to_string(),
            "look at the clips that were named; where it is not their fault a lower --lr helps, and \
             --max-bad-steps allows more",
        )
        .into(),
        TrainError::Observer(why) => Complaint::new(why.to_string(), go_on).into(),
        TrainError::Feed(why) => Complaint::new("the batches failed", go_on).because(anyhow::anyhow!(why)).into(),
        TrainError::Checkpoint(why) => {
            Complaint::new("a checkpoint could not be written", go_on).because(why).into()
        }
        TrainError::NoBatches => Complaint::new(error.to_string(), "give a dataset with clips").into(),
    }
}
