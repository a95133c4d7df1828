//! `voxmill analyze`: what the data side costs, without a model.

mod clips;
mod pipeline;
mod rivals;

use std::path::PathBuf;

use voxmill_analysis::data_side::{
    DATA_SIDE_VERSION, DataSide, FeedingAt, enough_workers, verdicts,
};
use voxmill_data::manifest::{Clip, Split};
use voxmill_report::terminal::data_side_text;

use self::rivals::Rivals;
use super::{paint, print_result, should_run, status};
use crate::exit::Exit;
use crate::session::data::Data;
use voxmill_settings::advice;
use voxmill_settings::args::{AnalyzeArgs, TrainArgs};
use voxmill_settings::config::keys;
use voxmill_settings::error::UserError;
use voxmill_settings::recorded::newest_like;
use voxmill_settings::{TrainSettings, cores};

pub(crate) fn run(args: AnalyzeArgs) -> anyhow::Result<Exit> {
    let (json, step_ms) = (args.json, args.step_ms);
    if step_ms.is_some_and(|ms| !(ms > 0.0 && ms.is_finite())) {
        let what = "--step-ms must be above 0";
        let hint = "give what a step takes, in milliseconds";
        return Err(UserError::new(what, hint).into());
    }
    let show = args.flags.show_settings;
    if args.flags.has(&keys::COMPUTE_THREADS) {
        let what = "--compute-threads is for the model, and there is none here";
        let hint = "leave it out; --num-workers is the number that is looked at";
        return Err(UserError::new(what, hint).into());
    }
    let settings = TrainSettings::resolve_closed(TrainArgs::measured(args.flags))?;
    if !should_run(&settings.notes, &settings.resolved, show, json)? {
        return Ok(Exit::Done);
    }
    let data = measure(&settings, step_ms)?;
    print_result(&data, json, |data| data_side_text(data, paint()))?;
    Ok(Exit::Done)
}

fn measure(settings: &TrainSettings, step_ms: Option<f64>) -> anyhow::Result<DataSide> {
    let dataset = Data::open(settings, None)?;
    let rivals = Rivals::watch()?;
    let recipe = &dataset.recipe;
    let manifest = &dataset.train;
    let clips: Vec<&Clip> = manifest.clips_of(Split::Train).collect();
    let seed = settings.data.batches.seed;
    status!("text      every clip");
    let text = clips::text(&clips, recipe)?;
    let sample = clips::sample(&clips, seed);
    status!("disk      {} files, cold and warm", sample.len());
    let disk = clips::disk(&sample)?;
    status!("audio     {} clips, one by one", sample.len());
    let audio = clips::audio(&sample, recipe)?;

    let cores = cores();
    let pipeline = pipeline::DataPipeline {
        settings,
        data: &dataset,
    };
    let cold = pipeline.capacities(false, cores)?;
    let caching = settings.feeding.caching;
    let store = dataset.store(settings);
    let cached = caching.then(|| store.found_in_cache());
    let all_clips = dataset.to_cache(&store);
    let warm = match cached == Some(all_clips) {
        true => pipeline.capacities(true, cores)?,
        false => Vec::new(),
    };
    let measured = if warm.is_empty() { &cold } else { &warm };
    let feed = |(step_ms, from): (f64, String)| -> anyhow::Result<FeedingAt> {
        status!("feeding   a batch every {step_ms:.0} ms");
        let fed = pipeline.feed_at(!warm.is_empty(), step_ms)?;
        let needed = fed.clips_per_batch / (step_ms / 1e3);
        Ok(FeedingAt {
            step_ms,
            from,
            workers: settings.feeding.workers as u64,
            clips_per_batch: fed.clips_per_batch,
            lost: fed.lost,
            wait_ms: fed.waits,
            needed_clips_per_second: needed,
            enough_workers: enough_workers(measured, needed),
        })
    };
    let feeding = pace(settings, step_ms).map(feed).transpose()?;
    let mut data = DataSide {
        version: DATA_SIDE_VERSION,
        clips: clips.len() as u64,
        audio_seconds: clips.iter().map(|clip| clip.header.seconds()).sum(),
        cores: cores as u64,
        text,
        audio,
        disk,
        cold,
        warm,
        feeding,
        cached: cached.map(|cached| cached as u64),
        all_clips: all_clips as u64,
        other_programs: rivals.found(cores),
        verdicts: Vec::new(),
    };
    data.verdicts = verdicts(&data);
    for verdict in &mut data.verdicts {
        advice::NAMES.in_text(&mut verdict.text);
    }
    Ok(data)
}

/// What a step takes: as given, or as an earlier run measured it.
fn pace(settings: &TrainSettings, given: Option<f64>) -> Option<(f64, String)> {
    if let Some(ms) = given {
        return Some((ms, "--step-ms".to_owned()));
    }
    let (path, profile): (PathBuf, _) = newest_like(settings)?;
    // What the model itself took: its waits are what is asked for here.
    let step_ms = profile.seconds * profile.busy * 1e3 / profile.steps.max(1) as f64;
    Some((step_ms, format!("measured in {}", path.display())))
}
