//! `voxmill profile`: the real model on the real data for some steps, and what they say.
//!
//! All that is printed comes from the log: what was just measured is read back as `--replay` reads it.

mod feed;
mod observer;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;
use voxmill_analysis::phases::Phases;
use voxmill_analysis::profile::{Profile, predict_gains};
use voxmill_analysis::simulate::model::RunModel;
use voxmill_analysis::simulate::what_if::{Change, WhatIfError, parse, predict};
use voxmill_data::LoaderSettings;
use voxmill_report::terminal::profile_text;
use voxmill_trainer::checkpoint::Checkpoints;
use voxmill_trainer::train::{RunLimits, Stopped, TrainOptions, Trainer};

use super::{note, paint, print_result, should_run, status, warning};
use crate::exit::Exit;
use crate::interrupt;
use crate::session::data::{Data, loader_settings};
use crate::session::memory;
use crate::session::run_lock::FolderLock;
use crate::session::{Session, compute_pool, predictions, report_page};
use feed::{KEPT, ProfileFeed};
use observer::Profiling;
use voxmill_settings::advice::profile;
use voxmill_settings::args::ProfileArgs;
use voxmill_settings::checks::need::StepClips;
use voxmill_settings::error::UserError;
use voxmill_settings::error::of_library::{cannot_write, of_training};
use voxmill_settings::recorded::{self, read_run};
use voxmill_settings::{TrainSettings, inject, run_folder};

/// Steps that are measured, and steps before them, by default.
const STEPS: u64 = 100;
const WARM_UP: u64 = 5;

pub(crate) fn run(args: ProfileArgs) -> anyhow::Result<Exit> {
    let json = args.json;
    // What cannot be answered is refused before anything is measured.
    let question = args.what_if.as_deref().map(parse).transpose();
    let question = question.map_err(|refusal| unanswered(&refusal.into()))?;
    if let Some(path) = &args.replay {
        let run = recorded::find(&recorded::runs_dir_of(&args.flags)?, path)?;
        let profile = replayed(&run, question.as_deref())?;
        print(&profile, json)?;
        return Ok(Exit::Done);
    }
    let show = args.flags.show_settings;
    let delays = inject::parse(&args.inject)?;
    let steps = args.num_steps.map_or(STEPS, |steps| u64::from(steps.get()));
    let warm_up = args.warmup.map_or(WARM_UP, u64::from);
    let mut settings = TrainSettings::resolve(args.training())?;
    if !should_run(&settings.notes, &settings.resolved, show, json)? {
        return Ok(Exit::Done);
    }
    settings.feeding.delays = delays;
    let pool = compute_pool(settings.compute_threads)?;
    let (folder, stopped) = pool.install(|| measure(&settings, steps, warm_up))?;
    if stopped == Stopped::Interrupted {
        status!("interrupted: incomplete profiles are not reported");
        return Ok(Exit::Interrupted);
    }
    print(&replayed(&folder, question.as_deref())?, json)?;
    status!("");
    status!("log       {}", folder.join(run_folder::EVENTS).display());
    if folder.join(report_page::REPORT).is_file() {
        status!("report    {}", folder.join(report_page::REPORT).display());
    }
    status!("again     voxmill profile --replay {}", folder.display());
    Ok(Exit::Done)
}

fn print(profile: &Profile, json: bool) -> anyhow::Result<()> {
    print_result(profile, json, |profile| profile_text(profile, paint()))
}

/// What the log of a run says. Nothing but the log goes into it.
fn replayed(path: &Path, question: Option<&[Change]>) -> anyhow::Result<Profile> {
    let run = read_run(path)?;
    if run.steps.is_empty() {
        let what = format!("there is no step in the log of `{}`", path.display());
        let hint =
            "give a run of `voxmill train` or `voxmill profile` that got as far as its first steps";
        return Err(UserError::new(what, hint).into());
    }
    if run.outcome().is_none() {
        note!("the log has no end: the run is still going, or was killed; what is there is used",);
    }
    if run.flaws.damaged > 0 {
        warning!(
            "{} lines of the log cannot be read and are left out",
            run.flaws.damaged
        );
    }
    let mut profile = profile(&run);
    let mut predictions = predict_gains(&mut profile, &run);
    if let Some(changes) = question {
        let answer = RunModel::of(&run).map_err(WhatIfError::from);
        let answer = answer.and_then(|model| predict(&model, changes));
        let answer = answer.map_err(|error| unanswered(&error))?;
        predictions.push(answer.clone());
        profile.what_if = Some(answer);
    }
    predictions::keep(path, &run, &predictions, "profile");
    Ok(profile)
}

fn unanswered(error: &WhatIfError) -> UserError {
    UserError::new(format!("--what-if: {error}"), error.hint())
}

/// Runs all phases. The folder then has the log.
fn measure(
    settings: &TrainSettings,
    steps: u64,
    warm_up: u64,
) -> anyhow::Result<(PathBuf, Stopped)> {
    let began = Instant::now();
    let stop = interrupt::watch()?;
    let data = Data::open(settings, None)?;
    let session = Session::open(settings, data, None, began, stop)?;
    let settings = &session.settings;
    for placement in &session.placement {
        status!("{placement}");
    }
    let one_by_one = session.loader(LoaderSettings {
        overlap: false,
        adapt: false,
        ..loader_settings(settings)
    })?;
    let plan = session.plan()?;
    let keep = memory::room_for_more(settings, &plan.needs, KEPT)?;
    let accumulate = u64::from(settings.optimization.gradient_accumulation_steps.get());
    let shapes = plan.loader.plan().buckets().len() as u64;
    let shapes = shapes.div_ceil(accumulate);
    let phases = Phases::new(steps, warm_up, settings.feeding.overlap, shapes);
    let options = TrainOptions {
        limits: RunLimits {
            steps: Some(phases.steps()),
            seconds: None,
        },
        checkpoint_every: None,
        validate_every: None,
        sample_every: None,
        max_failed_checkpoints: 1,
        as_settled: true,
        ..session.options(&plan, false)
    };
    let speakers = session.data.train.speakers.clone();
    let (voice, device) = (session.new_voice()?, &session.devices.model);
    let training = Trainer::new(options, voice, Value::Null, speakers, device);

    let folder = run_folder::create(&settings.run_folder)?;
    let _lock = FolderLock::of_run(&folder)?;
    let recording = session.record("profile", &folder, &plan, training.parameters())?;
    let staged = session.stage_settings(&folder, None)?;
    staged.put().map_err(|error| cannot_write(&folder, error))?;
    let mut feed = ProfileFeed::new(
        [&plan.loader, &one_by_one],
        session.prepare_stage(&training)?,
        phases.clone(),
        (accumulate, keep),
        recording.recorder(),
        settings.feeding.delays.map(|delays| delays.step),
    );
    let clips = StepClips::of(settings);
    let mut observer = Profiling::new(recording.recorder(), phases, clips);
    // The trainer always saves at the end; this model is discarded.
    let discarded = folder.join("discarded");
    let checkpoints = Checkpoints::new(&discarded, 1);
    let outcome = training.run(&mut feed, &checkpoints, &mut observer, stop);
    observer.finish();
    drop(feed);
    let _ = std::fs::remove_dir_all(&discarded);
    session.finish(recording, &outcome);
    let _ = report_page::write(&folder);
    predictions::score(&folder);
    let summary = outcome.map_err(|error| of_training(error, &folder, &checkpoints, clips))?;
    Ok((folder, summary.stopped))
}
