//! What the dashboard knows. Plain data, changed by the caller; what is not known is `None`, never zero.

use std::collections::VecDeque;
use std::time::Duration;

use voxmill_telemetry::event::Outcome;

use super::curve::Curve;
use crate::format::wrap_at;

const MOST_MESSAGES: usize = 200;

#[derive(Debug, Clone, Default)]
pub struct DashboardState {
    pub run_name: String,
    pub model_size: String,
    pub device: String,
    pub mode: String,

    pub step: u64,
    /// What is being done before the first step of this session has ended, which may take minutes.
    pub doing: Option<String>,
    pub goal: Goal,
    pub epoch: Option<u32>,
    pub elapsed: Duration,
    pub time_left: Option<Duration>,
    /// Set by the shell as soon as a key asked for it, so that the person sees that it was heard.
    pub stopping: bool,
    /// Of a run of another process; `None`: it is this one's own.
    pub watching: Option<Watching>,

    pub total_loss: Curve,
    pub mel_loss: Curve,
    pub mean_loss: Curve,
    pub duration_loss: Curve,
    pub validation_loss: Curve,
    pub best_validation: Option<BestValidation>,
    pub learning_rate: Option<f64>,
    pub gradient_norm: Option<f64>,

    pub step_times: Option<StepTimes>,
    /// Near 0: the model device never waits for data. Near 1: it does little else.
    pub stall_share: Option<f64>,
    pub frames_per_second: Option<f64>,

    pub buffers: Vec<BufferLevel>,
    pub budget: Option<BudgetLevel>,
    pub devices: Vec<DeviceLoad>,
    /// Of all cores together.
    pub host_cpu_share: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub last_checkpoint: Option<String>,

    pub messages: VecDeque<ShownMessage>,
    /// How many there ever were: the oldest are dropped.
    pub messages_ever: usize,
    pub view: View,
}

/// The curves that can be chosen.
pub(super) const CURVES: usize = 5;

/// What a person chose to see. It changes the picture, never the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct View {
    /// Messages below the last one that is shown.
    pub scroll: usize,
    /// Not as many curves as the height allows, but all.
    pub all_curves: bool,
    /// Those that a person turned on or off since.
    pub turned: [bool; CURVES],
    pub paused: bool,
    pub help: bool,
}

/// A change of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Older messages.
    Up(usize),
    Down(usize),
    Oldest,
    Newest,
    /// Shows or hides a curve, counted from 0.
    Curve(usize),
    AllCurves,
    Pause,
    Help,
    /// Back to what is shown at the start.
    Reset,
}

/// How a run of another process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watching {
    Running,
    Ended(Outcome),
    /// Its log has no end, and nobody writes it.
    Killed,
}

/// What ends the run, for the progress bar.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Goal {
    #[default]
    Open,
    Steps(u64),
    Time(Duration),
}

#[derive(Debug, Clone, Copy)]
pub struct BestValidation {
    pub loss: f64,
    pub step: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct StepTimes {
    pub now: Duration,
    pub median: Duration,
    pub p95: Duration,
}

/// Near empty: the stage before it is the slow one. Near full: the one after it.
#[derive(Debug, Clone)]
pub struct BufferLevel {
    pub name: String,
    pub items: usize,
    pub capacity: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct BudgetLevel {
    pub used_bytes: u64,
    pub limit_bytes: u64,
}

#[derive(Debug, Clone)]
pub struct DeviceLoad {
    pub name: String,
    pub busy_share: Option<f64>,
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct ShownMessage {
    pub text: String,
    pub is_warning: bool,
}

impl DashboardState {
    pub fn look(&mut self, look: Look) {
        let oldest = self.messages.len().saturating_sub(1);
        let view = &mut self.view;
        match look {
            Look::Up(lines) => view.scroll = view.scroll.saturating_add(lines).min(oldest),
            Look::Down(lines) => view.scroll = view.scroll.saturating_sub(lines),
            Look::Oldest => view.scroll = oldest,
            Look::Newest => view.scroll = 0,
            Look::Curve(curve) => {
                if let Some(turned) = view.turned.get_mut(curve) {
                    *turned = !*turned;
                }
            }
            Look::AllCurves => (view.all_curves, view.turned) = (true, [false; CURVES]),
            Look::Pause => view.paused = !view.paused,
            Look::Help => view.help = !view.help,
            Look::Reset => *view = View::default(),
        }
    }

    /// The time goes on, also while no step is reported: `session` is how long this session has been training,
    /// `earlier` how long the sessions before it, `steps` how many steps this one has done.
    pub fn tick(&mut self, session: Duration, earlier: Duration, steps: u64) {
        self.elapsed = earlier + session;
        let per_step = session.as_secs_f64() / steps as f64;
        self.time_left = match self.goal {
            Goal::Open => None,
            Goal::Time(time) => Some(time.saturating_sub(self.elapsed)),
            Goal::Steps(_) if steps == 0 => None,
            Goal::Steps(all) => {
                let seconds = all.saturating_sub(self.step) as f64 * per_step;
                Duration::try_from_secs_f64(seconds).ok()
            }
        };
    }

    /// A sample was written, an epoch began: what a person may want to read later.
    pub fn note(&mut self, text: impl Into<String>) {
        self.push_message(text.into(), false);
    }

    pub fn warn(&mut self, text: impl Into<String>) {
        self.push_message(text.into(), true);
    }

    /// One line each, so that a cause with line breaks does not hide what came before it.
    fn push_message(&mut self, text: String, is_warning: bool) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if self.messages.len() == MOST_MESSAGES {
                self.messages.pop_front();
            }
            // What is being read stays where it is.
            if self.view.scroll > 0 {
                self.view.scroll = (self.view.scroll + 1).min(self.messages.len());
            }
            self.messages_ever += 1;
            self.messages.push_back(ShownMessage {
                text: line.to_owned(),
                is_warning,
            });
        }
    }

    /// The lines of the messages in sight, newest last: as many as there is room for.
    pub(super) fn lines_in_sight(&self, rows: usize, width: usize) -> Vec<(String, bool)> {
        let last = self.messages.len().saturating_sub(self.view.scroll);
        let lines = |message: &ShownMessage| -> Vec<(String, bool)> {
            let head = if message.is_warning { "! " } else { "  " };
            let wrapped = wrap_at(head, &message.text, width);
            let lines = wrapped.lines().map(|line| line.to_owned());
            lines.map(|line| (line, message.is_warning)).collect()
        };
        // The first in sight is seen from its beginning.
        let mut first = last;
        let mut taken = 0;
        for (at, message) in self.messages.iter().enumerate().take(last).rev() {
            taken += lines(message).len();
            if taken > rows && first < last {
                break;
            }
            first = at;
        }
        let shown = self.messages.iter().skip(first).flat_map(lines);
        shown.take(rows).collect()
    }

    /// How far the run has come, where it is known when it ends.
    pub(super) fn progress(&self) -> Option<f64> {
        let share = match self.goal {
            Goal::Open => return None,
            Goal::Steps(steps) => self.step as f64 / steps.max(1) as f64,
            Goal::Time(time) => self.elapsed.as_secs_f64() / time.as_secs_f64().max(1e-9),
        };
        Some(share.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_lines_and_the_oldest_go_first() {
        let mut state = DashboardState::default();
        state.warn("first\n\nsecond");
        for number in 0..MOST_MESSAGES {
            state.note(number.to_string());
        }
        assert_eq!(state.messages.len(), MOST_MESSAGES);
        assert_eq!(state.messages_ever, MOST_MESSAGES + 2);
        let last = state.lines_in_sight(2, 20);
        assert_eq!(
            last,
            [("  198".to_owned(), false), ("  199".to_owned(), false)]
        );
        state.look(Look::Oldest);
        assert_eq!(state.lines_in_sight(2, 20)[0].0, "  0");
    }

    #[test]
    fn a_message_is_seen_from_its_beginning() {
        let mut state = DashboardState::default();
        state.note("a message of some words");
        state.note("another of some words");
        let seen = |state: &DashboardState, rows| -> Vec<String> {
            let lines = state.lines_in_sight(rows, 15).into_iter();
            lines.map(|(line, _)| line.trim().to_owned()).collect()
        };
        assert_eq!(seen(&state, 3), ["another of", "some words"]);
        assert_eq!(seen(&state, 4).len(), 4);
        assert_eq!(seen(&state, 1), ["another of"], "none fits");
        state.look(Look::Up(1));
        assert_eq!(
            seen(&state, 3),
            ["a message of", "some words", "another of"]
        );
    }

    #[test]
    fn the_clock_goes_on_between_reports() {
        let mut state = DashboardState {
            goal: Goal::Steps(110),
            step: 10,
            ..DashboardState::default()
        };
        let [session, earlier] = [20, 100].map(Duration::from_secs);
        state.tick(session, earlier, 0);
        assert_eq!(state.elapsed, Duration::from_secs(120));
        assert_eq!(state.time_left, None, "no pace before the first step");
        state.tick(session, earlier, 10);
        assert_eq!(state.time_left, Some(Duration::from_secs(200)));
    }

    #[test]
    fn what_is_read_stays_while_messages_come() {
        let mut state = DashboardState::default();
        (0..10).for_each(|number| state.note(number.to_string()));
        state.look(Look::Up(3));
        state.note("new");
        assert_eq!(state.view.scroll, 4);
        state.look(Look::Up(usize::MAX));
        assert_eq!(state.view.scroll, 10, "the oldest stays in sight");
        state.look(Look::Newest);
        assert_eq!(state.view.scroll, 0);
        state.look(Look::Curve(1));
        assert_eq!(state.view.turned, [false, true, false, false, false]);
    }

    #[test]
    fn progress_follows_what_ends_the_run() {
        let mut state = DashboardState {
            step: 50,
            elapsed: Duration::from_secs(30),
            ..DashboardState::default()
        };
        assert_eq!(state.progress(), None);
        state.goal = Goal::Steps(200);
        assert_eq!(state.progress(), Some(0.25));
        state.goal = Goal::Time(Duration::from_secs(60));
        assert_eq!(state.progress(), Some(0.5));
        state.goal = Goal::Time(Duration::ZERO);
        assert_eq!(state.progress(), Some(1.0));
    }
}
