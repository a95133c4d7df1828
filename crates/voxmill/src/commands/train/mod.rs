//! `voxmill train`: from a dataset to a voice.
//!
//! `run` reads top to bottom: settings, data, feed, model, run folder, loop, summary.

mod checks;
pub(super) mod complaints;
pub(crate) mod data;
mod data_memory;
pub(super) mod feed;
mod measures;
pub(super) mod memory;
pub(super) mod observer;
pub(super) mod place;
pub(super) mod prepare;
pub(crate) mod run_folder;
mod sentences;
pub(super) mod start;
mod summary;
pub(super) mod voice;
mod watch;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value, json};
use voxmill_pipeline::position::Position as RoadPosition;
use voxmill_speech::audio::{ITERATIONS, Vocoder};
use voxmill_speech::text::FrontEnd;
use voxmill_telemetry::event::Outcome;
use voxmill_trainer::checkpoint::{CheckpointFolder, Checkpoints};
use voxmill_trainer::device::{Device, without_panic};
use voxmill_trainer::speak::Speaker;
use voxmill_trainer::train::{Stopped, Summary, TrainError, Training};

use super::{goes_on, tell};
use crate::args::TrainArgs;
use crate::checks::Needs;
use crate::checks::need::ClipsOfAStep;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::feed::Recipe;
use crate::feed::train::BatchFeed;
use crate::interrupt;
use crate::recording::Recording;
use crate::settings::{Start, TrainSettings};
use crate::speech::Mouth;
use checks::{check_fits, check_room, plan_hash, refuse_to_overwrite};
pub(crate) use complaints::of_checkpoint;
use complaints::{cannot_write, describe, of_feed, of_training};
use data::{feed_settings, frozen_quarantine, held_out_feed, open_shelf, read_data};
use feed::PipelineFeed;
use measures::Measures;
use observer::{HostCpu, Sums, Watching};
use prepare::open_devices;
use run_folder::Named;
use voice::{from_other_voice, new_voice};

/// The list of bad clips in the run's folder.
const QUARANTINE: &str = "quarantine.csv";

pub(crate) fn run(mut args: TrainArgs) -> anyhow::Result<Exit> {
    let begin = Instant::now();
    let show = args.config.show_settings;
    let resumed = find_resumed(&mut args)?;
    take_size_of_other_voice(&mut args)?;
    let settings = TrainSettings::resolve(args)?;
    if !goes_on(&settings.notes, &settings.shown, show, settings.json)? {
        return Ok(Exit::Done);
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
pub(super) struct Resumed {
    pub(super) run: PathBuf,
    pub(super) checkpoint: CheckpointFolder,
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

fn train(
    settings: &TrainSettings,
    resumed: Option<Resumed>,
    begin: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<Exit> {
    let interrupted = || {
        let asked = stop.load(Ordering::Relaxed);
        asked.then(|| {
            tell("interrupted before the first step: nothing was begun");
            Exit::Interrupted
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
    // Clips that are found to be bad from here on are in the plan, and are told of when they come by.
    let mut all_bad = data.train.quarantine.clone();
    all_bad.extend(shelf.bad());
    let quarantine = frozen_quarantine(resumed.as_ref(), &all_bad);
    let opened = open_devices(settings.devices.devices)?;
    let before = resumed
        .as_ref()
        .map(|resumed| resumed.checkpoint.facts().prepare_on);
    let precision = prepare::precision(&settings.devices, &opened)?;
    let (settings, place) = place::decided(settings, before, &shelf, &opened, precision, stop)?;
    let settings = &settings;
    let batches = place::batch_feed(settings, &shelf, feed_settings(settings)).map_err(of_feed)?;
    let held_out = held_out_feed(settings, &data, &held_out_shelf)?;

    // The model, fresh or as it was.
    let needs = memory::check(settings, precision, &batches)?;
    let batches = within_memory(settings, batches, &needs);
    let options = start::options(settings, &batches, held_out.is_some(), precision);
    let device = opened.model.clone();
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
            if from.facts().prepare_on != settings.devices.prepare_on {
                tell(
                    "note: --prepare-on is not what it was before: frames are rounded differently, so the losses are \
                     not exactly those of a run that was never stopped",
                );
            }
            if from.facts().precision != precision {
                tell(&format!(
                    "note: the run was computed in {} before, so the losses are not exactly those of a run that was \
                     never stopped",
                    from.facts().precision.describe()
                ));
            }
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
    let facts = start::facts(
        settings,
        precision,
        &batches,
        &shelf,
        training.parameters(),
        begin,
    );
    let trace = settings.trace.as_deref();
    let recording = Recording::start("train", &plan, facts, Some(&log), trace)?;
    start::Told {
        settings,
        run: &run,
        data: &data,
        batches: &batches,
        shelf: &shelf,
        parameters: training.parameters(),
        needs: &needs,
        precision,
        link: settings.devices.link,
        place,
        held_out: held_out.as_ref(),
        progress: training.progress(),
    }
    .tell();

    let prepare = prepare::stage(settings, &opened, |device| {
        training.preparing(device, settings.devices.augment)
    })?;
    let running = batches
        .start_with(from, settings.stop_at.epochs, prepare, recording.recorder())
        .map_err(of_feed)?;
    let sentences = sentences::choose(&data.train, data.held_out(), settings.data.language);
    let mut watching = Watching {
        recorder: recording.recorder(),
        control: running.control(),
        batches: &batches,
        shelf: &shelf,
        limits: options.limits,
        clips: ClipsOfAStep::of(settings),
        tensorboard: Some(watch::tensorboard(settings, &run, training.progress())?),
        dashboard: watch::dashboard(settings, &run, options.limits)?,
        samples: run.join(run_folder::SAMPLES),
        sentences: &sentences,
        mouth: Mouth {
            front_end: &recipe.front_end,
            vocoder: Vocoder::new(&settings.data.audio)?,
            iterations: ITERATIONS,
        },
        begin,
        last_line: None,
        recent: VecDeque::new(),
        sums: Sums::default(),
        notes_told: 0,
        all_bad,
        bad_told: 0,
        rows: data.rows,
        max_bad: settings.data.max_bad,
        quarantine_file: run.join(QUARANTINE),
        host_cpu: HostCpu::default(),
        measures: Measures::new(run.join(run_folder::EVENTS)),
        memory: watch::memory(settings, &opened, &batches, training.progress()),
    };
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
        return Ok(Exit::Interrupted);
    }
    summary::tell(&summary, &watching, settings, &run, &checkpoints, &shelf)?;
    if summary.stopped == Stopped::Interrupted {
        tell(&format!(
            "interrupted: the checkpoint is saved; `voxmill train --resume {}` goes on from here",
            run.display()
        ));
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::Done)
}

/// With as many batches ahead on the device as fit there.
pub(super) fn within_memory(
    settings: &TrainSettings,
    batches: BatchFeed,
    needs: &Needs,
) -> BatchFeed {
    let asked = settings.slots_ahead();
    if needs.slots_ahead() == asked {
        return batches;
    }
    tell(&format!(
        "note: {} batches ahead on the device instead of {asked}: more do not fit into its memory",
        needs.slots_ahead()
    ));
    batches.with_slots(needs.slots_ahead())
}

/// The last samples, said by the best voice.
fn finish(
    outcome: Result<Summary, TrainError>,
    run: &Path,
    checkpoints: &Checkpoints,
    watching: &mut Watching<'_>,
    device: &Device,
) -> anyhow::Result<Summary> {
    let clips = watching.clips;
    let summary = outcome.map_err(|error| of_training(error, run, checkpoints, clips))?;
    if summary.stopped == Stopped::Interrupted {
        return Ok(summary);
    }
    let best = checkpoints.best().map_err(of_checkpoint)?;
    // The training is over and saved: a device that fails now costs the samples alone.
    let said = without_panic(|| {
        let speaker = Speaker::load(&best.checkpoint, device)?;
        watching.say_samples("final", Some(summary.step), &speaker);
        Ok(())
    });
    match said {
        Ok(said) => said.map_err(of_checkpoint)?,
        Err(why) => watching.warn(&format!("the last samples could not be made: {why}")),
    }
    Ok(summary)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
