//! What the controller may move, and within which limits.

use crate::counters::{RunSnapshot, StageCounters};
use crate::plan::Plan;

/// Workers and buffer capacity of every stage of the plan, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) workers: Vec<usize>,
    pub(super) capacity: Vec<usize>,
}

/// What does not change while a plan runs.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) stages: Vec<StageBounds>,
    pub(super) consumer: String,
    pub(super) most_workers: usize,
    pub(super) most_buffered: usize,
}

#[derive(Clone, Debug)]
pub(super) struct StageBounds {
    pub(super) name: String,
    pub(super) workers: Hold,
    pub(super) capacity: Hold,
}

/// Whether a value may be moved, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Free,
    /// By the user.
    Fixed,
    /// A source or a batching stage.
    Single,
    /// Places on a device were reserved once.
    Slots,
}

impl Bounds {
    pub(super) fn new(plan: &Plan, single: &[usize]) -> Option<Bounds> {
        let adapt = plan.adapt.filter(|_| plan.overlap)?;
        let last = plan.stages.len().checked_sub(1)?;
        let stages = plan
            .stages
            .iter()
            .enumerate()
            .map(|(index, stage)| StageBounds {
                name: stage.name.clone(),
                workers: match () {
                    () if index == 0 || single.contains(&index) => Hold::Single,
                    () if stage.workers.fixed => Hold::Fixed,
                    () => Hold::Free,
                },
                capacity: match () {
                    () if index == last && plan.slots.is_some() => Hold::Slots,
                    () if stage.buffer.fixed => Hold::Fixed,
                    () => Hold::Free,
                },
            });
        Some(Bounds {
            stages: stages.collect(),
            consumer: plan.consumer.clone(),
            most_workers: adapt.most_workers,
            most_buffered: adapt.most_buffered,
        })
    }

    /// Takes over what is in force in the engine.
    pub(super) fn settings_in(&self, snapshot: &RunSnapshot) -> Settings {
        let stages = &snapshot.stages[..self.stages.len()];
        Settings {
            workers: stages.iter().map(|stage| stage.workers).collect(),
            capacity: stages.iter().map(|stage| stage.capacity).collect(),
        }
    }
}

impl Settings {
    pub(super) fn total_workers(&self) -> usize {
        self.workers.iter().sum()
    }

    pub(super) fn are_in_force(&self, snapshot: &RunSnapshot) -> bool {
        let in_force = |(stage, counters): (usize, &StageCounters)| {
            counters.workers == self.workers[stage] && counters.capacity == self.capacity[stage]
        };
        let stages = &snapshot.stages[..self.workers.len()];
        stages.iter().enumerate().all(in_force)
    }
}
