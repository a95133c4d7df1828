//! Progress over the sentences of a long text: a bar on a terminal, plain lines elsewhere, nothing for a short one.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use voxmill_report::format::clock;

use crate::progress::bar_style;

use crate::commands::{can_redraw, status};

/// Shorter work shows nothing.
const QUIET: Duration = Duration::from_secs(1);
const BETWEEN_LINES: Duration = Duration::from_secs(5);

pub(super) struct SentenceProgress {
    total: usize,
    done: usize,
    begin: Instant,
    last_shown: Instant,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
}

impl SentenceProgress {
    pub(super) fn new(total: usize) -> Self {
        let now = Instant::now();
        let bar = can_redraw().then(|| {
            let hidden = ProgressDrawTarget::hidden();
            let bar = ProgressBar::with_draw_target(Some(total as u64), hidden);
            bar.with_style(bar_style("{bar:30} {pos}/{len} sentences  ETA {eta}"))
        });
        SentenceProgress {
            total,
            done: 0,
            begin: now,
            last_shown: now,
            bar,
        }
    }

    pub(super) fn sentence(&mut self) {
        self.done += 1;
        let elapsed = self.begin.elapsed();
        if elapsed < QUIET || self.done >= self.total {
            return;
        }
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_position(self.done as u64);
            }
            None if self.last_shown.elapsed() >= BETWEEN_LINES => {
                self.last_shown = Instant::now();
                let left = elapsed.mul_f64((self.total - self.done) as f64 / self.done as f64);
                let (done, total, left) = (self.done, self.total, clock(left));
                status!("{done}/{total} sentences  ETA {left}");
            }
            None => {}
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
