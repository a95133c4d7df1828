//! What the dashboard knows. Plain data, changed by the caller; what is not known is `None`, never zero.

use std::collections::VecDeque;
use std::time::Duration;

use super::curve::Curve;

const MOST_MESSAGES: usize = 200;

#[derive(Debug, Clone, Default)]
pub struct DashboardState {
    pub run_name: String,
    pub model_size: String,
    pub device: String,
    pub mode: String,

    pub step: u64,
    pub goal: Goal,
    pub epoch: u32,
    pub elapsed: Duration,
    pub time_left: Option<Duration>,
    /// Set by the shell as soon as a key asked for it, so that the person sees that it was heard.
    pub stopping: bool,

    pub total_loss: Curve,
    pub mel_loss: Curve,
    pub prior_loss: Curve,
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
    pub budget: Option<Budget>,
    pub devices: Vec<DeviceLoad>,
    /// Of all cores together.
    pub host_cpu_share: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub last_checkpoint: Option<String>,

    pub messages: VecDeque<ShownMessage>,
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
pub struct Budget {
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
            self.messages.push_back(ShownMessage {
                text: line.to_owned(),
                is_warning,
            });
        }
    }

    /// Newest last.
    pub(super) fn last_messages(&self, count: usize) -> impl Iterator<Item = &ShownMessage> {
        let skipped = self.messages.len().saturating_sub(count);
        self.messages.iter().skip(skipped)
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
        assert_eq!(state.last_messages(usize::MAX).count(), MOST_MESSAGES);
        let last: Vec<&str> = state.last_messages(2).map(|m| m.text.as_str()).collect();
        assert_eq!(last, ["198", "199"]);
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
