//! The controller on simulated roads, against the best that a fixed setting can do.

use std::time::Duration;

use proptest::prelude::*;
use voxmill_telemetry::event::DecidedChange;
use voxmill_telemetry::plan::{AdaptPlan, Plan, Setting, StagePlan};

use super::simulation::{Simulation, Slowdown, Work};
use super::{Action, Change, Controller};

/// A plan that says what the simulation has.
fn plan(simulation: &Simulation, most_workers: usize, most_buffered: usize) -> Plan {
    let mut plan = Plan::new("test", "train");
    for (stage, workers) in simulation.all_workers().into_iter().enumerate() {
        plan = plan.stage(
            StagePlan::new(format!("stage {stage}"))
                .workers(Setting::from(workers))
                .buffer(Setting::from(simulation.capacity(stage))),
        );
    }
    plan.adapt = Some(AdaptPlan {
        most_workers,
        most_buffered,
    });
    plan
}

/// Runs the simulation under the controller until it settles, and checks every change on the way.
struct Run {
    simulation: Simulation,
    controller: Controller,
    limits: AdaptPlan,
    changes: Vec<Change>,
}

impl Run {
    fn new(simulation: Simulation, plan: &Plan) -> Run {
        plan.check().unwrap();
        Run {
            simulation,
            controller: Controller::new(plan, &[]).unwrap(),
            limits: plan.adapt.unwrap(),
            changes: Vec::new(),
        }
    }

    fn look(&mut self) -> Vec<Change> {
        self.simulation.advance(self.controller.next_look());
        let changes = self.controller.observe(&self.simulation.snapshot());
        for change in &changes {
            let Some(action) = change.action else {
                continue;
            };
            let current = match action {
                Action::Workers { stage, .. } => self.simulation.workers(stage),
                Action::Capacity { stage, .. } => self.simulation.capacity(stage),
            };
            assert_eq!(action.from(), current, "{change:?}");
            assert!(action.to() >= 1, "{change:?}");
            assert_ne!(
                action.stage(),
                0.min(action.stage()) + usize::MAX,
                "a stage of the plan"
            );
            self.simulation.apply(action);
            let workers: usize = self.simulation.all_workers().iter().sum();
            assert!(workers <= self.limits.most_workers, "{change:?}");
            if let Action::Capacity { to, .. } = action {
                assert!(to <= self.limits.most_buffered, "{change:?}");
            }
        }
        self.changes.extend(changes.iter().cloned());
        changes
    }

    fn is_settled(&self) -> bool {
        let last = self.changes.last().map(|change| change.decision.change);
        last == Some(DecidedChange::Settled)
    }

    /// Looks until the controller settles.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            if self
                .look()
                .iter()
                .any(|c| c.decision.change == DecidedChange::Settled)
            {
                return;
            }
        }
        panic!("does not settle: {}", self.story());
    }

    /// Lets so many windows of 30 items go by.
    fn windows(&mut self, windows: u64) {
        let until = self.simulation.consumed() + 30 * windows;
        while self.simulation.consumed() < until {
            self.look();
        }
    }

    /// Items a second with the settings as they are now.
    fn rate(&self) -> f64 {
        rate(self.simulation.clone())
    }

    fn last_reason(&self) -> &str {
        &self.changes.last().unwrap().decision.reason
    }

    fn story(&self) -> String {
        let lines = self.changes.iter().map(|c| {
            format!(
                "{}: {:?}: {}\n",
                c.decision.subject, c.decision.change, c.decision.reason
            )
        });
        lines.collect()
    }
}

/// Items a second over 2,000 items, after the first 500.
fn rate(mut simulation: Simulation) -> f64 {
    let to_items = |simulation: &mut Simulation, items: u64| {
        let until = simulation.consumed() + items;
        while simulation.consumed() < until {
            simulation.advance(Duration::from_millis(20));
        }
    };
    to_items(&mut simulation, 500);
    let (items, at) = (simulation.consumed(), simulation.snapshot().at);
    to_items(&mut simulation, 2_000);
    let took = simulation.snapshot().at - at;
    (simulation.consumed() - items) as f64 / took.as_secs_f64()
}

/// The best rate of all divisions of the workers, with the largest buffers.
fn best_rate(simulation: &Simulation, limits: AdaptPlan) -> (f64, Vec<usize>) {
    let stages = simulation.all_workers().len();
    let mut best = (0.0, Vec::new());
    let mut workers = vec![1; stages];
    loop {
        if workers.iter().sum::<usize>() <= limits.most_workers {
            let mut fixed = simulation.clone();
            for (stage, &workers) in workers.iter().enumerate() {
                fixed.set_workers(stage, workers);
                fixed.set_capacity(stage, limits.most_buffered);
            }
            let rate = rate(fixed);
            if rate > best.0 {
                best = (rate, workers.clone());
            }
        }
        // The source keeps its one worker: count up over the others.
        let Some(stage) = (1..stages).find(|&stage| workers[stage] < limits.most_workers) else {
            return best;
        };
        workers[1..stage].fill(1);
        workers[stage] += 1;
    }
}

#[test]
fn from_two_workers_where_eight_are_needed() {
    let stages = [
        (Work::steady(1.0), 1, 4),
        (Work::steady(80.0), 2, 4),
        (Work::steady(3.0), 1, 4),
    ];
    let simulation = Simulation::new(&stages, Work::steady(10.0), 0);
    let plan = plan(&simulation, 16, 16);
    let (best, _) = best_rate(&simulation, plan.adapt.unwrap());
    let mut run = Run::new(simulation, &plan);
    run.settle();
    assert!(run.rate() > 0.95 * best, "{}", run.story());
    assert!(run.changes.len() <= 4, "few steps: {}", run.story());
    let changes = run.changes.len();
    run.windows(1_000);
    assert_eq!(run.changes.len(), changes, "{}", run.story());
}

#[test]
fn a_third_worker_on_two_cores_is_taken_back() {
    let cpu = |milliseconds| Work::uneven(milliseconds, 0.1).slowed(Slowdown::Cpu);
    let stages = [(Work::steady(0.5), 1, 4), (cpu(20.0), 2, 4)];
    let simulation = Simulation::new(&stages, Work::steady(5.0), 0).with_cores(2, 0.1);
    let mut run = Run::new(simulation.clone(), &plan(&simulation, 8, 16));
    run.settle();
    assert_eq!(run.simulation.workers(1), 2, "{}", run.story());
    assert!(
        run.last_reason().contains("limits with 2 workers"),
        "{}",
        run.story()
    );
    let changes = run.changes.len();
    run.windows(1_000);
    assert_eq!(run.changes.len(), changes, "{}", run.story());
}
