//! `voxmill profile`: the real model on the real data for some steps, and what they say.
//!
//! All that is printed comes from the log: what was just measured is read back as `--replay` reads it.

mod feed;
mod observer;
mod plant;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;
use voxmill_analysis::profile::{Profile, profile};
use voxmill_pipeline::position::Position as RoadPosition;
use voxmill_report::terminal::profile_text;
use voxmill_speech::text::FrontEnd;
use voxmill_telemetry::event::Outcome;
use voxmill_trainer::checkpoint::Checkpoints;
use voxmill_trainer::train::{Limits, Stopped, TrainOptions, Training};

use super::recorded::read_run;
use super::train::complaints::{of_feed, of_training};
use super::train::data::{feed_settings, open_shelf, read_data};
use super::train::place;
use super::train::prepare::{self, open_devices};
use super::train::voice::new_voice;
use super::train::{run_folder, start, within_memory};
use super::{goes_on, paint, say, tell};
use crate::args::ProfileArgs;
use crate::checks::need::ClipsOfAStep;
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::feed::Recipe;
use crate::feed::train::FeedSettings;
use crate::interrupt;
use crate::recording::Recording;
use crate::settings::TrainSettings;
use feed::{Phases, ProfileFeed};
use observer::Profiling;

/// Steps that are measured, and steps before them, where nobody says how many.
const STEPS: u64 = 100;
const WARM_UP: u64 = 5;

pub(crate) fn run(args: ProfileArgs) -> anyhow::Result<Exit> {
    let json = args.json;
    if let Some(path) = &args.replay {
        let profile = replayed(path)?;
        print(&profile, json)?;
        return Ok(Exit::Done);
    }
    let show = args.road.config.show_settings;
    let hindrance = plant::parse(&args.plant)?;
    let steps = args.num_steps.map_or(STEPS, |steps| u64::from(steps.get()));
    let warm_up = args.warmup.map_or(WARM_UP, u64::from);
    let mut settings = TrainSettings::resolve(args.training())?;
    if !goes_on(&settings.notes, &settings.shown, show, json)? {
        return Ok(Exit::Done);
    }
    settings.feeding.hindrance = hindrance;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(settings.compute_threads)
        .thread_name(|number| format!("compute-{number}"))
        .build()
        .context("cannot start compute threads")?;
    let (folder, stopped) = pool.install(|| measure(&settings, steps, warm_up))?;
    if stopped == Stopped::Interrupted {
        tell("interrupted: nothing is said of half a profile");
        return Ok(Exit::Interrupted);
    }
    print(&replayed(&folder)?, json)?;
    tell(&format!(
        "\nlog       {}\nagain     voxmill profile --replay {}",
        folder.join(run_folder::EVENTS).display(),
        folder.display()
    ));
    Ok(Exit::Done)
}

fn print(profile: &Profile, json: bool) -> anyhow::Result<()> {
    if json {
        return say(&serde_json::to_string_pretty(profile)?);
    }
    say(&profile_text(profile, paint()))
}

/// What the log of a run says. Nothing but the log goes into it.
fn replayed(path: &Path) -> anyhow::Result<Profile> {
    let run = read_run(path)?;
    if run.steps.is_empty() {
        return Err(Complaint::new(
            format!("there is no step in the log of `{}`", path.display()),
            "give a run of `voxmill train` or `voxmill profile` that got as far as its first steps",
        )
        .into());
    }
    if run.outcome().is_none() {
        tell("note: the log has no end: the run goes on, or was killed; what is there is used");
    }
    if run.flaws.damaged > 0 {
        tell(&format!(
            "warning: {} lines of the log cannot be read and are left out",
            run.flaws.damaged
        ));
    }
    Ok(profile(&run))
}

/// Runs all phases. The folder then has the log.
fn measure(
    settings: &TrainSettings,
    steps: u64,
    warm_up: u64,
) -> anyhow::Result<(PathBuf, Stopped)> {
    let began = Instant::now();
    let stop = interrupt::watch()?;
    let data = read_data(settings, None)?;
    let recipe = Recipe {
        front_end: Arc::new(FrontEnd::new(settings.data.text.clone())?),
        audio: Arc::new(settings.data.audio.clone()),
        language: settings.data.language,
    };
    let shelf = open_shelf(settings, &recipe, &data.folder, &data.train);
    let opened = open_devices(settings.devices.devices)?;
    let precision = prepare::precision(&settings.devices, &opened)?;
    let (settings, place) = place::decided(settings, None, &shelf, &opened, precision, stop)?;
    let settings = &settings;
    if let Some(place) = place {
        tell(&place);
    }
    let feed = |settings: &TrainSettings, feed_settings: FeedSettings| {
        place::batch_feed(settings, &shelf, feed_settings).map_err(of_feed)
    };
    let batches = feed(settings, feed_settings(settings))?;
    let one_by_one = feed(
        settings,
        FeedSettings {
            overlap: false,
            adapt: false,
            ..feed_settings(settings)
        },
    )?;
    let needs = super::train::memory::check(settings, precision, &batches)?;
    let batches = within_memory(settings, batches, &needs);
    let phases = Phases::new(steps, warm_up, settings.feeding.overlap);
    let options = TrainOptions {
        limits: Limits {
            steps: Some(phases.steps()),
            seconds: None,
        },
        checkpoint_every: None,
        validate_every: None,
        sample_every: None,
        ..start::options(settings, &batches, false, precision)
    };
    let voice = new_voice(settings, &data, &shelf)?;
    let speakers = data.train.speakers.clone();
    let accumulate = options.accumulate as u64;
    let training = Training::new(options, voice, Value::Null, speakers, &opened.model);

    let folder = run_folder::planned(&settings.run_folder);
    run_folder::create(&folder)?;
    std::fs::write(
        folder.join(run_folder::SETTINGS),
        run_folder::settings_yaml(&settings.shown),
    )
    .with_context(|| format!("cannot write into `{}`", folder.display()))?;
    let log = folder.join(run_folder::EVENTS);
    let facts = start::facts(
        settings,
        precision,
        &batches,
        &shelf,
        training.parameters(),
        began,
    );
    let recording = Recording::start(
        "profile",
        &batches.road_plan(),
        facts,
        Some(&log),
        settings.trace.as_deref(),
    )?;
    let prepare = || {
        prepare::stage(settings, &opened, |device| {
            training.preparing(device, settings.devices.augment)
        })
    };
    let mut feed = ProfileFeed::new(
        &batches,
        phases.clone(),
        accumulate,
        recording.recorder(),
        settings.feeding.hindrance.step,
    );
    if phases.has_no_overlap() {
        let running = one_by_one.start_with(
            RoadPosition::default(),
            None,
            prepare()?,
            // Its stages would be taken for those of the run.
            voxmill_telemetry::recorder::Recorder::off(),
        );
        feed.one_by_one = Some(running.map_err(of_feed)?);
    }
    feed.start_of_run = Some(prepare()?);
    let clips = ClipsOfAStep::of(settings);
    let mut observer = Profiling::new(recording.recorder(), phases, clips);
    // The trainer always saves at the end; this model is not worth keeping.
    let thrown_away = folder.join("thrown-away");
    let checkpoints = Checkpoints::new(&thrown_away, 1);
    let outcome = training.run(&mut feed, &checkpoints, &mut observer, stop);
    observer.finish();
    drop(feed);
    let _ = std::fs::remove_dir_all(&thrown_away);
    shelf.save();
    recording.finish(match &outcome {
        Ok(summary) if summary.stopped == Stopped::Interrupted => Outcome::Interrupted,
        Ok(_) => Outcome::Finished,
        Err(_) => Outcome::Failed,
    });
    let summary = outcome.map_err(|error| of_training(error, &folder, &checkpoints, clips))?;
    Ok((folder, summary.stopped))
}
