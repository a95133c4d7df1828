//! What is printed after the last step.

use std::collections::BTreeMap;
use std::time::Duration;

use voxmill_report::format::{counted, elapsed, percent, size, whole};
use voxmill_report::results::train::{self, BestStep, Trained};
use voxmill_trainer::checkpoint::Best;
use voxmill_trainer::train::{Stopped, Summary};

use super::measures::{closing, top};
use super::observer::RunObserver;
use super::output::RunOutput;
use crate::commands::{print_json, status};
use crate::session::Session;
use crate::session::memory::DeviceWatch;
use voxmill_settings::TrainSettings;

pub(super) fn reason(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::MaxSteps => "all steps done",
        Stopped::MaxTime => "the time is up",
        Stopped::FeedEnded => "all epochs done",
        Stopped::NoLongerBetter => "held-out loss no longer falls",
        Stopped::Interrupted => "interrupted",
    }
}

pub(super) fn print(
    summary: &Summary,
    observer: &RunObserver<'_>,
    session: &Session,
    output: &RunOutput,
) -> anyhow::Result<()> {
    let (settings, totals) = (&session.settings, &observer.totals);
    let (run, checkpoints) = (&output.folder, &output.checkpoints);
    let data_busy = data_busy(settings, observer);
    // What lies under that name may be another's log.
    let is_ours = !observer.has_lost_its_folder();
    let measured = is_ours.then(|| observer.measures.read()).flatten();
    let best = checkpoints.best().ok();
    let best_path = best.map(|found| found.checkpoint.path().to_owned());
    let wall = totals.wall_seconds();
    let peaks: BTreeMap<&str, u64> = (observer.memory.iter())
        .filter_map(DeviceWatch::peak)
        .collect();
    let share = |time: Duration| time.as_secs_f64() / wall;
    if settings.json {
        let measured = measured.as_ref();
        return print_json(&Trained {
            version: train::VERSION,
            run: run.clone(),
            stopped: reason(summary.stopped).to_owned(),
            step: summary.step,
            steps_of_this_start: totals.steps,
            seconds: summary.seconds.as_secs_f64(),
            frames_per_second: totals.frames as f64 / wall,
            share_waiting: share(totals.waited),
            share_training: share(totals.service),
            share_overhead: share(totals.overhead),
            held_out_mel: summary.progress.validation,
            best: (summary.progress.best).map(|Best { step, loss }| BestStep { step, loss }),
            best_checkpoint: best_path,
            bad_steps: summary.progress.bad_steps,
            failed_checkpoints: totals.failed_checkpoints,
            files_decoded: session.store.files_decoded(),
            length_scale: summary.voice.length_scale,
            samples: totals.samples.clone(),
            step_ms: measured.map(|profile| profile.step_ms),
            variation: measured.and_then(|profile| profile.variation),
            padding_waste: measured.map(|profile| profile.padding_waste),
            peak_host_bytes: measured.and_then(|profile| profile.memory.process_peak),
            finding: measured.and_then(top).cloned(),
            peak_bytes_by_device: (peaks.into_iter())
                .map(|(device, peak)| (device.to_owned(), peak))
                .collect(),
            share_data_device_busy: data_busy,
        });
    }
    status!("");
    status!(
        "done      {}: step {}, {} in this session",
        reason(summary.stopped),
        summary.step,
        elapsed(summary.seconds.as_secs_f64())
    );
    status!(
        "speed     {} frames/s; the model trained {} of the time, waited {}, {} went into saving, \
         validating and the like",
        whole(totals.frames as f64 / wall),
        percent(share(totals.service)),
        percent(share(totals.waited)),
        percent(share(totals.overhead)),
    );
    for line in measured.iter().flat_map(closing) {
        status!("{line}");
    }
    if let Some(busy) = data_busy {
        status!("devices   {}", of_pair(settings, busy));
    }
    let at_most: Vec<String> = (peaks.iter())
        .map(|(device, peak)| format!("{} at most on {device}", size(*peak)))
        .collect();
    if !at_most.is_empty() {
        status!("memory    {}", at_most.join(", "));
    }
    if let Some(first) = totals.first_step_after {
        status!(
            "start     the first step was done after {:.1} s",
            first.as_secs_f64()
        );
    }
    if let Some(best) = summary.progress.best {
        let first = totals.first_validation.filter(|_| summary.first_step == 0);
        let first = first.map_or(String::new(), |first| format!(", {first:.4} after step 1"));
        status!(
            "held out  best mel {:.4} at step {}{first}",
            best.loss,
            best.step
        );
    }
    if summary.progress.bad_steps > 0 {
        status!(
            "skipped   {} not finite",
            counted(summary.progress.bad_steps, "step")
        );
    }
    if totals.failed_checkpoints > 0 {
        let failed = counted(totals.failed_checkpoints, "attempt");
        status!("unsaved   {failed} to write a checkpoint failed, with a warning each");
    }
    for (number, path) in totals.samples.iter().enumerate() {
        let label = if number == 0 { "samples" } else { "" };
        status!("{label:8}  {}", path.display());
    }
    if let Some(path) = best_path {
        status!("voice     {}", path.display());
    }
    status!(
        "next      voxmill synthesize --text \"Hello there.\" --checkpoint {}",
        run.display()
    );
    Ok(())
}

/// The part of the time that the data device's thread was at work, with two devices.
fn data_busy(settings: &TrainSettings, observer: &RunObserver<'_>) -> Option<f64> {
    if !settings.devices.devices.is_pair() {
        return None;
    }
    let stats = observer.recorder.stats();
    let prepare = stats.stages.iter().find(|stage| stage.stage == "prepare")?;
    let busy = prepare.service.sum().seconds();
    Some((busy / observer.totals.wall_seconds()).min(1.0))
}

/// Less than this, and a second device is wasted on preparing.
const HARDLY_BUSY: f64 = 0.1;

fn of_pair(settings: &TrainSettings, busy: f64) -> String {
    let devices = settings.devices.devices;
    let (data, model, busy_share) = (devices.data(), devices.model(), percent(busy));
    let share = format!("the thread of {data} was preparing {busy_share} of the time");
    match busy < HARDLY_BUSY && !data.is_cpu() {
        true => format!(
            "{share}: {model} alone would do as well, and a second voice could train on {data} meanwhile; \
             training one model on both GPUs would gain more, which this version does not do"
        ),
        false => share,
    }
}
