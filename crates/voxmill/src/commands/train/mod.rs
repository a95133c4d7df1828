//! `voxmill train`: from a dataset to a voice.
//!
//! `train` reads top to bottom: open, plan, check, start, run, finish.

mod aside;
mod measures;
mod observer;
mod opening;
mod output;
mod resume;
mod summary;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use voxmill_trainer::checkpoint::RUN_ID;
use voxmill_trainer::train::{Stopped, TrainOptions};

use super::{note, should_run, status};
use crate::exit::Exit;
use crate::interrupt;
use crate::session::data::Data;
use crate::session::feed::{HeldOut, PipelineFeed};
use crate::session::voice::take_size_of_other_voice;
use crate::session::{Resumed, Session, compute_pool, frozen_before, predictions, report_page};
use observer::{Prepared, RunObserver, Starting};
use opening::Opening;
use output::PlannedOutput;
use voxmill_settings::args::TrainArgs;
use voxmill_settings::error::of_library::of_loader;
use voxmill_settings::sentences;
use voxmill_settings::{MEASURED, TrainSettings};

pub(crate) fn run(mut args: TrainArgs) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let show = args.flags.show_settings;
    let resumed = resume::find_resumed(&mut args)?;
    take_size_of_other_voice(&mut args)?;
    let settings = TrainSettings::resolve(args)?;
    if !should_run(&settings.notes, &settings.resolved, show, settings.json)? {
        return Ok(Exit::Done);
    }
    let stop = interrupt::watch()?;
    let pool = compute_pool(settings.compute_threads)?;
    pool.install(|| train(&settings, resumed.as_ref(), began, stop))
}

fn train(
    settings: &TrainSettings,
    resumed: Option<&Resumed>,
    began: Instant,
    stop: &AtomicBool,
) -> anyhow::Result<Exit> {
    if let Some(file) = &settings.sample_text {
        // What is wrong with it is said before anything is begun.
        sentences::read(file, settings.data.language)?;
    }

    // Open.
    let planned = PlannedOutput::new(settings, resumed)?;
    let data = Data::open(settings, frozen_before(resumed))?;
    if is_interrupted(stop) {
        return Ok(Exit::Interrupted);
    }
    let session = Session::open(settings, data, resumed, began, stop)?;
    let settings = &session.settings;

    // Plan and check.
    let plan = session.plan()?;
    let validation = session.validation_loader()?;
    let options = TrainOptions {
        as_settled: std::env::var_os(MEASURED).is_some(),
        ..session.options(&plan, validation.is_some())
    };
    if options.as_settled {
        note!("{MEASURED} is set: this run is only measured and learns no voice");
    }
    let (limits, accumulate) = (options.limits, options.accumulate as u64);
    let (mut training, from) = resume::begin(&session, &plan, options, resumed)?;
    if is_interrupted(stop) {
        return Ok(Exit::Interrupted);
    }

    // Start. Whatever may refuse the run comes before `take_over`: until then nothing of a run before it is changed.
    let parameters = training.parameters();
    let mut output = planned.create(parameters)?;
    let run = std::path::absolute(&output.folder).unwrap_or_else(|_| output.folder.clone());
    training.store("run", run.to_string_lossy());
    training.store(RUN_ID, &*output.run_id);
    let prepare = session.prepare_stage(&training)?;
    let held_out = validation.as_ref().map(|loader| {
        let recipe = session.prepare_held_out(&training)?;
        anyhow::Ok(HeldOut { loader, recipe })
    });
    let held_out = held_out.transpose()?;
    let mut prepared = Prepared::new(&session, &output.folder)?;
    output.make_way()?;
    prepared.open_curves(&session, &output.folder, training.progress())?;
    let recording = session.record("train", &output.folder, &plan, parameters)?;
    Opening {
        session: &session,
        plan: &plan,
        run: &output.folder,
        parameters,
        validation: validation.as_ref(),
        progress: training.progress(),
    }
    .print();
    let running = plan
        .loader
        .start_with(from, settings.stop_at.epochs, prepare, recording.recorder())
        .map_err(of_loader)?;
    let control = running.control();
    let before = frozen_before(resumed).unwrap_or(&session.data.dropped);
    let quarantine = session.bad.frozen(before);
    let taken = Arc::default();
    let mut feed =
        PipelineFeed::new(&plan.loader, running, held_out, quarantine).counting(Arc::clone(&taken));
    if let (true, Some(steps)) = (settings.replay, limits.steps) {
        feed.take_all(steps * accumulate)
            .map_err(|error| anyhow::anyhow!(error).context("the batches could not be taken"))?;
    }
    output.take_over(&session)?;
    let starting = Starting {
        output: &output,
        parameters,
        progress: training.progress(),
        limits,
        began,
        recorder: recording.recorder(),
        control,
        accumulate,
        taken,
    };
    let mut observer = RunObserver::new(&session, &plan, starting, prepared)?;

    // Run.
    let outcome = training.run(&mut feed, &output.checkpoints, &mut observer, stop);
    drop(feed);

    // Finish.
    let outcome = observer.finish(outcome, &output.folder, &output.checkpoints, &session);
    session.finish(recording, &outcome);
    let report = match observer.has_lost_its_folder() {
        // What is there may be somebody else's.
        true => None,
        false => {
            let report = report_page::write(&output.folder);
            predictions::score(&output.folder);
            report
        }
    };
    let summary = outcome?;
    if summary.step == 0 {
        status!("interrupted before the first step: there is nothing to save");
        return Ok(Exit::Interrupted);
    }
    summary::print(&summary, &observer, &session, &output)?;
    if let Some(report) = report {
        status!("report    {}", report.display());
    }
    if summary.stopped == Stopped::Interrupted {
        status!(
            "interrupted: the checkpoint is saved; `voxmill train --resume {}` resumes from here",
            output.folder.display()
        );
        return Ok(Exit::Interrupted);
    }
    if summary.left_out || observer.totals.samples_left_out {
        status!(
            "interrupted: the run is over and saved; what comes after the last step was not waited for"
        );
        return Ok(Exit::Interrupted);
    }
    Ok(Exit::Done)
}

fn is_interrupted(stop: &AtomicBool) -> bool {
    let asked = stop.load(Ordering::Relaxed);
    if asked {
        status!("interrupted before the first step: nothing was started");
    }
    asked
}
