//! `voxmill scale`: a short run of each size, each in a process of its own, and what they say together.

mod child;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use voxmill_analysis::resampling::StepSums;
use voxmill_analysis::scaling::{SizeOutcome, Tried, scaling};
use voxmill_analysis::timing::{Spread, WARM_UP_STEPS, step_time, warmed};
use voxmill_report::format::{size, time, whole, wrap};
use voxmill_report::terminal::scaling_text;
use voxmill_telemetry::probes::{Roots, usable_memory};

use super::{paint, print_lines, print_result, should_run, status};
use crate::exit::Exit;
use crate::interrupt;
use child::{Child, SizeEnded};
use voxmill_settings::advice;
use voxmill_settings::args::ScaleArgs;
use voxmill_settings::error::UserError;
use voxmill_settings::{ScaleSettings, for_train};

pub(crate) fn run(args: ScaleArgs) -> anyhow::Result<Exit> {
    let config = args.flags.config.as_deref();
    if let Some(path) = config.filter(|path| path.metadata().is_ok_and(|found| !found.is_file())) {
        let what = format!("`{}` is no file that several runs can read", path.display());
        let hint = "write the configuration to a file and give that to --config";
        return Err(UserError::new(what, hint).into());
    }
    let show = args.flags.show_settings;
    let settings = ScaleSettings::resolve(args)?;
    if !should_run(&settings.notes, &settings.resolved, show, settings.json)? {
        return Ok(Exit::Done);
    }
    let stop = interrupt::watch()?;
    let (tried, available) = measure(&settings, stop)?;
    let interrupted = stop.load(Ordering::Relaxed);
    if interrupted && tried.is_empty() {
        status!("interrupted before a size was measured");
        return Ok(Exit::Interrupted);
    }
    let measured = tried.len();
    let out_of_memory = tried.iter().all(ran_out_of_memory);
    let mut result = scaling(settings.swept, tried, available);
    result.flag = advice::flag(settings.swept.setting());
    print_result(&result, settings.json, |r| scaling_text(r, paint()))?;
    if interrupted {
        status!(
            "interrupted: {measured} of {} sizes were measured",
            settings.sizes.len()
        );
        return Ok(Exit::Interrupted);
    }
    match result.knee {
        Some(_) => Ok(Exit::Done),
        None => Err(all_died(out_of_memory).into()),
    }
}

fn ran_out_of_memory(tried: &Tried) -> bool {
    matches!(&tried.outcome, SizeOutcome::Died(failure) if failure.out_of_memory)
}

fn all_died(out_of_memory: bool) -> UserError {
    UserError::new(
        "no size ran",
        match out_of_memory {
            true => "smaller sizes take less memory, and so does a smaller --model-size",
            false => "`voxmill train` with the same flags says more",
        },
    )
}

/// What came of each size, and the bytes of memory that a run could have. An interrupted size is left out.
fn measure(
    settings: &ScaleSettings,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<Tried>, Option<u64>)> {
    let scratch = tempfile::tempdir().context("cannot make a folder for temporary files")?;
    // The program's own name and the verb come first.
    let typed = for_train(std::env::args_os().skip(2));
    let progress = SweepProgress::new(settings.sizes.len());
    let flag = advice::flag(settings.swept.setting());
    let mut tried = Vec::new();
    let mut available = None;
    for (number, &size) in settings.sizes.iter().enumerate() {
        let begin = Instant::now();
        let of = settings.swept.of(size);
        let folder = scratch.path().join(size.to_string());
        let unmeasured = WARM_UP_STEPS as u64 + settings.shapes;
        let steps = (settings.steps, unmeasured);
        let swept = (flag.as_str(), size);
        let mut child = Child::start(&typed, swept, steps, &folder)?;
        let ended = child.wait(stop, || progress.show(number, &of))?;
        let Some(SizeEnded { outcome, memory }) = ended else {
            break;
        };
        available = available.max(memory);
        progress.done(number, &of, &outcome, begin.elapsed());
        tried.push(Tried { size, outcome });
        // Weights of a large model are large; a full disk would be this program's own doing.
        let _ = std::fs::remove_dir_all(&folder);
    }
    progress.finish();
    let most = usable_memory(&Roots::default()).unwrap_or(u64::MAX);
    Ok((tried, available.map(|bytes| bytes.min(most))))
}

/// A bar on a terminal, a line for each size everywhere.
struct SweepProgress {
    sizes: usize,
    bar: ProgressBar,
}

impl SweepProgress {
    fn new(sizes: usize) -> SweepProgress {
        let target = ProgressDrawTarget::stderr();
        let bar = ProgressBar::with_draw_target(Some(sizes as u64), target);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} sizes  {msg}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        SweepProgress { sizes, bar }
    }

    fn show(&self, number: usize, of: &str) {
        self.bar.set_position(number as u64);
        self.bar.set_message(format!("{of} runs"));
    }

    fn done(&self, number: usize, of: &str, outcome: &SizeOutcome, took: Duration) {
        let what = match outcome {
            SizeOutcome::Ran {
                steps, host_memory, ..
            } => {
                let steps = warmed(steps);
                // As the table has it in the end.
                let step_ms = Spread::of(steps.iter().map(step_time)).mean;
                let frames = StepSums::all(&steps).frames_per_second();
                let memory = host_memory.map_or(String::new(), |peak| format!(", {}", size(peak)));
                format!(
                    "{} frames/s, {} a step{memory}",
                    whole(if frames.is_finite() { frames } else { 0.0 }),
                    time(step_ms)
                )
            }
            SizeOutcome::Died(failure) => format!("died: {}", failure.reason),
        };
        let head = format!("{}/{}  ", number + 1, self.sizes);
        let text = format!("{of}: {what} ({:.1} s)", took.as_secs_f64());
        let line = wrap(&head, &text);
        self.bar.suspend(|| print_lines(&line));
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
