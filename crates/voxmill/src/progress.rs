//! Progress of work on clips: a bar on a terminal, plain lines elsewhere, nothing for short work.

use std::time::{Duration, Instant};

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use voxmill_report::format::{clock, count, counted};

use crate::commands::{can_redraw, status};

/// Shorter work shows nothing: a bar that flashes by is noise.
const QUIET: Duration = Duration::from_millis(500);
const BETWEEN_LINES: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ClipProgress {
    total: usize,
    done: usize,
    audio_seconds: f64,
    begin: Instant,
    last_shown: Instant,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
}

/// A bar's looks, with the time left as it is written everywhere.
pub(crate) fn bar_style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // There is nobody to tell that a bar cannot be drawn.
        let _ = out.write_str(&clock(state.eta()));
    };
    style.with_key("eta", left)
}

impl ClipProgress {
    pub(crate) fn new(total: usize) -> Self {
        let now = Instant::now();
        let bar = can_redraw().then(|| {
            let hidden = ProgressDrawTarget::hidden();
            let bar = ProgressBar::with_draw_target(Some(total as u64), hidden);
            let template = "{bar:16} {human_pos}/{human_len} clips  {msg}  ETA {eta}";
            bar.with_style(bar_style(template))
        });
        ClipProgress {
            total,
            done: 0,
            audio_seconds: 0.0,
            begin: now,
            last_shown: now,
            bar,
        }
    }

    pub(crate) fn clip(&mut self, audio_seconds: f64) {
        self.done += 1;
        self.audio_seconds += audio_seconds;
        let elapsed = self.begin.elapsed();
        if elapsed < QUIET {
            return;
        }
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_message(self.rate(elapsed));
                bar.set_position(self.done as u64);
            }
            None if self.last_shown.elapsed() >= BETWEEN_LINES => {
                self.last_shown = Instant::now();
                let left = elapsed.mul_f64((self.total - self.done) as f64 / self.done as f64);
                status!(
                    "{}/{} clips  {}  ETA {}",
                    self.done,
                    self.total,
                    self.rate(elapsed),
                    clock(left)
                );
            }
            None => {}
        }
    }

    fn rate(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        format!(
            "{:.0} clips/s  {:.0} audio-hours/h",
            self.done as f64 / seconds,
            self.audio_seconds / seconds
        )
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The same for other things that take their time.
#[derive(Debug)]
pub(crate) struct CountProgress {
    total: usize,
    what: &'static str,
    done: usize,
    begin: Instant,
    last_shown: Instant,
    bar: Option<ProgressBar>,
}

impl CountProgress {
    pub(crate) fn new(total: usize, what: &'static str) -> Self {
        let now = Instant::now();
        let bar = can_redraw().then(|| {
            let hidden = ProgressDrawTarget::hidden();
            let bar = ProgressBar::with_draw_target(Some(total as u64), hidden);
            bar.with_style(bar_style("{bar:30} {msg}  ETA {eta}"))
        });
        CountProgress {
            total,
            what,
            done: 0,
            begin: now,
            last_shown: now,
            bar,
        }
    }

    pub(crate) fn one(&mut self) {
        self.done += 1;
        if self.begin.elapsed() < QUIET {
            return;
        }
        let all = counted(self.total as u64, self.what);
        let line = format!("{} of {all}", count(self.done));
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_message(line);
                bar.set_position(self.done as u64);
            }
            None if self.last_shown.elapsed() >= BETWEEN_LINES => {
                self.last_shown = Instant::now();
                let left = (self.total - self.done) as f64 / self.done as f64;
                let left = clock(self.begin.elapsed().mul_f64(left));
                status!("{line}  ETA {left}");
            }
            None => {}
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
