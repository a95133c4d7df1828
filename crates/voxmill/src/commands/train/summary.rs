//! The last words of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use voxmill_trainer::checkpoint::Checkpoints;
use voxmill_trainer::train::{Stopped, Summary};

use super::measures::{closing, top};
use super::memory::{MemoryWatch, megabytes};
use super::observer::{Watching, short_time};
use crate::commands::{self, say};
use crate::feed::train::Shelf;
use crate::settings::TrainSettings;

pub(super) fn reason(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::MaxSteps => "all steps done",
        Stopped::MaxTime => "the time is up",
        Stopped::FeedEnded => "all epochs done",
        Stopped::NoLongerBetter => "held-out loss no longer falls",
        Stopped::Interrupted => "interrupted",
    }
}

pub(super) fn tell(
    summary: &Summary,
    watching: &Watching<'_>,
    settings: &TrainSettings,
    run: &Path,
    checkpoints: &Checkpoints,
    shelf: &Shelf,
) -> anyhow::Result<()> {
    let sums = &watching.sums;
    let data_busy = data_busy(settings, watching);
    let measured = watching.measures.read();
    let best = checkpoints.best().ok();
    let best_path = best
        .as_ref()
        .map(|found| found.checkpoint.path().to_owned());
    let wall = (sums.waited + sums.service + sums.overhead)
        .as_secs_f64()
        .max(1e-9);
    let peaks: BTreeMap<&str, u64> = (watching.memory.iter())
        .filter_map(MemoryWatch::peak)
        .collect();
    let share = |time: Duration| 100.0 * time.as_secs_f64() / wall;
    if settings.json {
        let result = json!({
            "version": 2,
            "run": run,
            "stopped": reason(summary.stopped),
            "step": summary.step,
            "steps_of_this_start": sums.steps,
            "seconds": summary.seconds.as_secs_f64(),
            "frames_per_second": sums.frames as f64 / wall,
            "share_waiting": share(sums.waited) / 100.0,
            "share_training": share(sums.service) / 100.0,
            "share_overhead": share(sums.overhead) / 100.0,
            "held_out_mel": summary.progress.validation,
            "best": summary.progress.best,
            "best_checkpoint": best_path,
            "bad_steps": summary.progress.bad_steps,
            "files_decoded": shelf.files_decoded(),
            "length_scale": summary.voice.length_scale,
            "samples": sums.samples,
            "step_ms": measured.as_ref().map(|profile| profile.step_ms),
            "variation": measured.as_ref().map(|profile| profile.variation),
            "padding_waste": measured.as_ref().map(|profile| profile.padding_waste),
            "peak_host_bytes": measured.as_ref().and_then(|profile| profile.memory.process_peak),
            "finding": measured.as_ref().and_then(top),
            "peak_bytes_by_device": peaks,
            "share_data_device_busy": data_busy,
        });
        return say(&serde_json::to_string_pretty(&result)?);
    }
    let mut text = String::new();
    let _ = writeln!(text);
    let _ = writeln!(
        text,
        "done      {}: step {}, {} in this start",
        reason(summary.stopped),
        summary.step,
        short_time(summary.seconds)
    );
    let _ = writeln!(
        text,
        "speed     {:.0} frames/s; the model trained {:.1} % of the time, waited {:.1} %, {:.1} % went into saving, \
         validating and the like",
        sums.frames as f64 / wall,
        share(sums.service),
        share(sums.waited),
        share(sums.overhead),
    );
    for line in measured.iter().flat_map(closing) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(busy) = data_busy {
        let _ = writeln!(text, "devices   {}", of_pair(settings, busy));
    }
    let at_most: Vec<String> = (peaks.iter())
        .map(|(device, peak)| format!("{} at most on {device}", megabytes(*peak)))
        .collect();
    if !at_most.is_empty() {
        let _ = writeln!(text, "memory    {}", at_most.join(", "));
    }
    if let Some(first) = sums.first_step_after {
        let _ = writeln!(
            text,
            "start     the first step was done after {:.1} s",
            first.as_secs_f64()
        );
    }
    if let Some(best) = summary.progress.best {
        let first = sums.first_validation.filter(|_| summary.first_step == 0);
        let first = first.map_or(String::new(), |first| {
            format!(
                ", {:.1} times less than after step 1 ({first:.4})",
                first / best.loss
            )
        });
        let _ = writeln!(
            text,
            "held out  mel error {:.4} at step {}{first}",
            best.loss, best.step
        );
    }
    if summary.progress.bad_steps > 0 {
        let _ = writeln!(
            text,
            "left out  {} steps were not finite",
            summary.progress.bad_steps
        );
    }
    for (number, path) in sums.samples.iter().enumerate() {
        let label = if number == 0 { "samples" } else { "" };
        let _ = writeln!(text, "{label:8}  {}", path.display());
    }
    if let Some(path) = best_path {
        let _ = writeln!(text, "voice     {}", path.display());
    }
    let _ = write!(
        text,
        "next      voxmill synthesize --text \"Hello there.\" --checkpoint {}",
        run.display()
    );
    commands::tell(&text);
    Ok(())
}

/// The part of the time that the data device's thread was at work, with two devices.
fn data_busy(settings: &TrainSettings, watching: &Watching<'_>) -> Option<f64> {
    if !settings.devices.devices.is_pair() {
        return None;
    }
    let sums = &watching.sums;
    let wall = (sums.waited + sums.service + sums.overhead).as_secs_f64();
    let stats = watching.recorder.stats();
    let prepare = stats.stages.iter().find(|stage| stage.stage == "prepare")?;
    let busy = prepare.service.sum().seconds();
    Some((busy / wall.max(1e-9)).min(1.0))
}

/// Less than this, and a second device is wasted on preparing.
const HARDLY_BUSY: f64 = 0.1;

fn of_pair(settings: &TrainSettings, busy: f64) -> String {
    let (data, model) = (
        settings.devices.devices.data(),
        settings.devices.devices.model(),
    );
    let share = format!(
        "the thread of {data} was preparing {:.1} % of the time",
        100.0 * busy
    );
    match busy < HARDLY_BUSY && !data.is_cpu() {
        true => format!(
            "{share}: {model} alone would do as well, and a second voice could train on {data} meanwhile; \
             training one model on both GPUs would gain more, which this version does not do"
        ),
        false => share,
    }
}
