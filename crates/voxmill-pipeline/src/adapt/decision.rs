//! What the controller says and what the engine has to do for it.

use voxmill_telemetry::event::{DecidedChange, Decision};

use super::settings::Settings;
use super::trial::{Kind, Trial};

/// A decision, and what the engine has to do for it, if anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub action: Option<Action>,
    pub decision: Decision,
}

/// `stage` is the index in the plan's stages; a capacity is that of the buffer behind the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Workers {
        stage: usize,
        from: usize,
        to: usize,
    },
    Capacity {
        stage: usize,
        from: usize,
        to: usize,
    },
}

impl Action {
    pub fn stage(self) -> usize {
        match self {
            Action::Workers { stage, .. } | Action::Capacity { stage, .. } => stage,
        }
    }

    pub fn from(self) -> usize {
        match self {
            Action::Workers { from, .. } | Action::Capacity { from, .. } => from,
        }
    }

    pub fn to(self) -> usize {
        match self {
            Action::Workers { to, .. } | Action::Capacity { to, .. } => to,
        }
    }

    pub(super) fn decided(self, subject: String, why: (DecidedChange, String)) -> Change {
        let (change, reason) = why;
        Change {
            action: Some(self),
            decision: Decision {
                subject,
                change,
                reason,
            },
        }
    }

    fn there(self) -> DecidedChange {
        let (from, to) = (self.from() as u64, self.to() as u64);
        match self {
            Action::Workers { .. } => DecidedChange::Workers { from, to },
            Action::Capacity { .. } => DecidedChange::Capacity { from, to },
        }
    }

    pub(super) fn back(self) -> DecidedChange {
        let (from, to) = (self.from() as u64, self.to() as u64);
        match self {
            Action::Workers { .. } => DecidedChange::WorkersBack { from, to },
            Action::Capacity { .. } => DecidedChange::CapacityBack { from, to },
        }
    }
}

impl Trial {
    pub(super) fn decision(&self, action: Action) -> (DecidedChange, String) {
        let gives = self.kind == Kind::Workers && action.to() < action.from();
        let reason = if gives {
            format!(
                "has workers to spare, and the budget is used up; {}",
                self.reason
            )
        } else {
            self.reason.clone()
        };
        (action.there(), reason)
    }
}

pub(super) fn without_action(subject: String, change: DecidedChange, reason: String) -> Change {
    Change {
        action: None,
        decision: Decision {
            subject,
            change,
            reason,
        },
    }
}

/// All that differs between two settings; who gives comes before who gets.
pub(super) fn actions(from: &Settings, to: &Settings) -> Vec<Action> {
    let workers = (0..).zip(from.workers.iter().zip(&to.workers));
    let workers = workers.map(|(stage, (&from, &to))| Action::Workers { stage, from, to });
    let capacity = (0..).zip(from.capacity.iter().zip(&to.capacity));
    let capacity = capacity.map(|(stage, (&from, &to))| Action::Capacity { stage, from, to });
    let all = workers.chain(capacity);
    let mut actions: Vec<Action> = all.filter(|action| action.from() != action.to()).collect();
    actions.sort_by_key(|action| action.to() > action.from());
    actions
}
