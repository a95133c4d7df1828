//! What the controller decides, and what the engine has to do for it.

use voxmill_telemetry::event::{DecidedChange, Decision};

use super::settings::Settings;
use super::trial::{Trial, TrialKind};

/// A decision, and what the engine has to do for it, if anything.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adjustment {
    pub(crate) action: Option<Action>,
    pub(crate) decision: Decision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    /// The index in the plan's stages.
    pub(crate) stage: usize,
    pub(crate) what: Adjusted,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adjusted {
    Workers,
    /// Of the buffer behind the stage.
    Capacity,
}

impl Action {
    /// `back`: to where it was before a trial.
    pub(super) fn change(self, back: bool) -> DecidedChange {
        let (from, to) = (self.from as u64, self.to as u64);
        match (self.what, back) {
            (Adjusted::Workers, false) => DecidedChange::Workers { from, to },
            (Adjusted::Capacity, false) => DecidedChange::Capacity { from, to },
            (Adjusted::Workers, true) => DecidedChange::WorkersBack { from, to },
            (Adjusted::Capacity, true) => DecidedChange::CapacityBack { from, to },
        }
    }
}

impl Trial {
    pub(super) fn decision(&self, action: Action) -> (DecidedChange, String) {
        let gives = self.kind == TrialKind::Workers && action.to < action.from;
        let spare = match gives {
            true => "has workers to spare, and the budget is used up; ",
            false => "",
        };
        (action.change(false), format!("{spare}{}", self.reason))
    }
}

impl Adjustment {
    pub(super) fn new(
        action: Option<Action>,
        subject: String,
        change: DecidedChange,
        reason: String,
    ) -> Adjustment {
        Adjustment {
            action,
            decision: Decision {
                subject,
                change,
                reason,
            },
        }
    }
}

/// All that differs between two settings; who gives comes before who gets.
pub(super) fn actions(from: &Settings, to: &Settings) -> Vec<Action> {
    let differences = |what, from: &[usize], to: &[usize]| -> Vec<Action> {
        let pairs = from.iter().zip(to).enumerate();
        let actions = pairs.map(|(stage, (&from, &to))| Action {
            stage,
            what,
            from,
            to,
        });
        actions.filter(|action| action.from != action.to).collect()
    };
    let mut actions = differences(Adjusted::Workers, &from.workers, &to.workers);
    actions.extend(differences(
        Adjusted::Capacity,
        &from.capacity,
        &to.capacity,
    ));
    actions.sort_by_key(|action| action.to > action.from);
    actions
}
