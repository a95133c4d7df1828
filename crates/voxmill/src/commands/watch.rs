//! `voxmill watch`: the dashboard of a run that another process trains, from its log. It changes nothing of the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use voxmill_report::dashboard::{DashboardState, WatchedRun, ended};
use voxmill_report::format::{count, loss};
use voxmill_settings::args::WatchArgs;
use voxmill_settings::error::UserError;
use voxmill_telemetry::log::{LogFollower, is_being_written};

use super::{can_redraw, status};
use crate::dashboard::Dashboard;
use crate::exit::Exit;
use crate::interrupt;
use voxmill_settings::recorded;
use voxmill_settings::run_folder::EVENTS;

/// The log is written four times a second.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
const BETWEEN_LINES: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let folder = match &args.run {
        Some(run) => recorded::find(&args.runs_dir(), run)?,
        None => newest(&args.runs_dir())?,
    };
    let log = match folder.is_dir() {
        true => folder.join(EVENTS),
        false => folder.clone(),
    };
    let follower = LogFollower::open(&log).map_err(|error| {
        let what = format!("there is no run to watch in `{}`", folder.display());
        let hint = "`voxmill runs` lists the runs; --runs-dir says where they are";
        UserError::new(what, hint).because(error)
    })?;
    let mut run = WatchedRun::default();
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    run.state.run_name = name.to_string_lossy().into_owned();
    let mut watch = Watch { log, follower, run };
    // All that is there, before anything is shown.
    watch.read_all()?;
    match can_redraw() {
        true => draw(watch, &folder),
        false => lines(watch, &folder),
    }
}

/// The run that trains now, else the one that was written last.
fn newest(runs_dir: &Path) -> anyhow::Result<PathBuf> {
    let runs = recorded::all(runs_dir);
    let by_time = |run: &PathBuf| {
        (
            is_being_written(&run.join(EVENTS)),
            recorded::last_written(run),
        )
    };
    runs.into_iter().max_by_key(by_time).ok_or_else(|| {
        let what = format!("there is no run in `{}`", runs_dir.display());
        let hint = "`voxmill train` starts one; --runs-dir says where to look";
        UserError::new(what, hint).into()
    })
}

struct Watch {
    log: PathBuf,
    follower: LogFollower,
    run: WatchedRun,
}

impl Watch {
    fn read_all(&mut self) -> anyhow::Result<()> {
        loop {
            let events = self.follower.read()?;
            if events.is_empty() && self.follower.is_at_end() {
                self.tick();
                return Ok(());
            }
            events.iter().for_each(|event| self.run.add(event));
        }
    }

    fn tick(&mut self) {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since_1970.map_or(0.0, |since| since.as_secs_f64());
        self.run.tick(now, is_being_written(&self.log));
    }

    /// Nobody writes the log. What came between the last look and the end of its writer is read then.
    fn is_over(&self) -> bool {
        !is_being_written(&self.log)
    }
}

/// Until the run ends, or a key leaves it. A run that had ended is shown until a key leaves it.
fn draw(mut watch: Watch, folder: &Path) -> anyhow::Result<()> {
    let left = Arc::new(AtomicBool::new(false));
    let shared = Arc::new(Mutex::new(watch.run.state.clone()));
    let (leave, newest) = (Arc::clone(&left), Arc::clone(&shared));
    let had_ended = watch.is_over();
    let dashboard = Dashboard::start(
        move || leave.store(true, Ordering::Relaxed),
        || Exit::Done.leave(),
        move |state: &mut DashboardState| {
            let read = newest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            // What a person chose to see is the screen's; what is being read stays where it is.
            let mut view = state.view;
            if view.scroll > 0 {
                view.scroll += read.messages_ever.saturating_sub(state.messages_ever);
            }
            *state = DashboardState {
                view,
                stopping: state.stopping,
                ..read
            };
        },
    )
    .context("the dashboard cannot be drawn")?;
    let mut was_over = had_ended;
    let outcome = loop {
        if left.load(Ordering::Relaxed) || dashboard.has_ended() {
            break Ok(());
        }
        let is_over = watch.is_over();
        if let Err(error) = watch.read_all() {
            break Err(error);
        }
        dashboard.update(|_| {
            let mut shown = shared.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = watch.run.state.clone();
        });
        // It may be resumed while it is looked at.
        if is_over && !was_over {
            break Ok(());
        }
        was_over = is_over;
        thread::sleep(BETWEEN_LOOKS);
    };
    dashboard.finish(&mut Vec::new())?;
    outcome?;
    closing(&watch, folder);
    Ok(())
}

/// A line now and then, until the run ends.
fn lines(mut watch: Watch, folder: &Path) -> anyhow::Result<()> {
    let stop = interrupt::watch()?;
    let state = &watch.run.state;
    status!(
        "watching  {}: {}, {}",
        state.run_name,
        state.model_size,
        state.device
    );
    let mut last_line: Option<Instant> = None;
    let mut last_step = None;
    // Of what came before, the warnings: the rest is in the lines that follow.
    let earlier = watch.run.state.messages.iter();
    for message in earlier.filter(|message| message.is_warning) {
        status!("warning: {}", message.text);
    }
    let mut messages = watch.run.state.messages_ever;
    let opened = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let is_over = watch.is_over();
        watch.read_all()?;
        let state = &watch.run.state;
        let new = state.messages_ever - messages;
        messages = state.messages_ever;
        for message in state.messages.iter().rev().take(new).rev() {
            let head = if message.is_warning { "warning: " } else { "" };
            status!("{head}{}", message.text);
        }
        let is_due = last_line.is_none_or(|line| line.elapsed() >= BETWEEN_LINES);
        let is_new = last_step != Some(state.step);
        if is_due && (is_new || !is_over) {
            last_line = Some(Instant::now());
            last_step = Some(state.step);
            status!("{}", watch.run.line());
        }
        // Its log may be there a moment before it is written.
        let is_about_to_start = !watch.run.has_started() && opened.elapsed() < GRACE;
        if is_over && !is_about_to_start {
            break;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    closing(&watch, folder);
    Ok(())
}

/// What a person may want to know last, and next.
fn closing(watch: &Watch, folder: &Path) {
    let state = &watch.run.state;
    let folder = folder.display();
    match watch.run.outcome {
        Some(outcome) => status!("{}", ended(outcome, state.step)),
        None if watch.is_over() => status!(
            "the run was killed after step {}: its log has no end; `voxmill train --resume {folder}` continues it",
            count(state.step)
        ),
        None => status!(
            "the run goes on, at step {}; `voxmill watch {folder}` shows it again",
            count(state.step)
        ),
    }
    if let Some(best) = state.best_validation {
        let (best, step) = (loss(best.loss), count(best.step));
        status!("best held-out mel {best} at step {step}");
    }
}
