//! The controller on simulated pipelines, against the best that a fixed setting can do.

use std::time::Duration;

use voxmill_telemetry::event::DecidedChange;

use super::simulation::{ServiceTime, Simulation, Slowdown};
use super::{Adjusted, Adjustment, Controller};
use crate::counters::{RunSnapshot, StageCounters};
use crate::plan::{AdaptPlan, Plan, Setting, SlotsPlan, StagePlan};

mod any_pipeline;

/// A plan that says what the simulation has.
fn plan(simulation: &Simulation, most_workers: usize, most_buffered: usize) -> Plan {
    let mut plan = Plan::new("test", "train");
    for (stage, workers) in simulation.all_workers().into_iter().enumerate() {
        plan.stages.push(StagePlan {
            workers: Setting::from(workers),
            buffer: Setting::from(simulation.capacity(stage)),
            ..StagePlan::new(format!("stage {stage}"))
        });
    }
    plan.adapt = Some(AdaptPlan {
        most_workers,
        most_buffered,
    });
    plan
}

/// Runs the simulation under the controller until it settles, and checks every change on the way.
struct AdaptRun {
    simulation: Simulation,
    controller: Controller,
    limits: AdaptPlan,
    changes: Vec<Adjustment>,
}

impl AdaptRun {
    fn new(simulation: Simulation, plan: &Plan) -> AdaptRun {
        crate::plan::check(plan).unwrap();
        AdaptRun {
            simulation,
            controller: Controller::new(plan, &[]).unwrap(),
            limits: plan.adapt.unwrap(),
            changes: Vec::new(),
        }
    }

    fn look(&mut self) -> Vec<Adjustment> {
        self.simulation.advance(self.controller.next_look());
        let changes = self.controller.observe(&self.simulation.snapshot());
        for change in &changes {
            let Some(action) = change.action else {
                continue;
            };
            let is_workers = action.what == Adjusted::Workers;
            let current = match is_workers {
                true => self.simulation.workers(action.stage),
                false => self.simulation.capacity(action.stage),
            };
            assert_eq!(action.from, current, "{change:?}");
            assert!(action.to >= 1, "{change:?}");
            let to_source = is_workers && action.stage == 0;
            assert!(!to_source, "the source keeps its one worker: {change:?}");
            self.simulation.apply(action);
            let workers: usize = self.simulation.all_workers().iter().sum();
            assert!(workers <= self.limits.most_workers, "{change:?}");
            let within = is_workers || action.to <= self.limits.most_buffered;
            assert!(within, "{change:?}");
        }
        self.changes.extend(changes.iter().cloned());
        changes
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

/// Items a second over 1,500 items, after the first 300.
fn rate(mut simulation: Simulation) -> f64 {
    let to_items = |simulation: &mut Simulation, items: u64| {
        let until = simulation.consumed() + items;
        while simulation.consumed() < until {
            simulation.advance(Duration::from_millis(20));
        }
    };
    to_items(&mut simulation, 300);
    let (items, at) = (simulation.consumed(), simulation.snapshot().at);
    to_items(&mut simulation, 1_500);
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
        (ServiceTime::steady(1.0), 1, 4),
        (ServiceTime::steady(80.0), 2, 4),
        (ServiceTime::steady(3.0), 1, 4),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let plan = plan(&simulation, 12, 16);
    let (best, _) = best_rate(&simulation, plan.adapt.unwrap());
    let mut run = AdaptRun::new(simulation, &plan);
    run.settle();
    assert!(run.rate() > 0.95 * best, "{}", run.story());
    assert!(run.changes.len() <= 4, "few steps: {}", run.story());
    let changes = run.changes.len();
    run.windows(1_000);
    assert_eq!(run.changes.len(), changes, "{}", run.story());
}

#[test]
fn a_third_worker_on_two_cores_is_taken_back() {
    let cpu = |milliseconds| ServiceTime::uneven(milliseconds, 0.1).slowed(Slowdown::Cpu);
    let stages = [(ServiceTime::steady(0.5), 1, 4), (cpu(20.0), 2, 4)];
    let simulation = Simulation::new(&stages, ServiceTime::steady(5.0), 0).with_cores(2, 0.1);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 8, 16));
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

#[test]
fn a_third_worker_that_waits_for_a_lock_is_taken_back_from_above_too() {
    let locked = ServiceTime::steady(20.0).slowed(Slowdown::Crowd(vec![1.0, 1.0, 2.0, 3.0, 4.0]));
    let stages = [(ServiceTime::steady(0.5), 1, 4), (locked, 5, 4)];
    let simulation = Simulation::new(&stages, ServiceTime::steady(5.0), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 6, 16));
    run.settle();
    assert_eq!(run.simulation.workers(1), 2, "{}", run.story());
}

#[test]
fn equally_slow_stages_are_raised_together() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 2),
        (ServiceTime::steady(40.0), 1, 2),
        (ServiceTime::steady(40.0), 1, 2),
        (ServiceTime::steady(40.0), 1, 2),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 16, 8));
    run.settle();
    assert!(run.rate() > 95.0, "{}", run.story());
}

#[test]
fn a_stage_with_a_surplus_gives_when_the_budget_is_used_up() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 4),
        (ServiceTime::steady(10.0), 6, 4),
        (ServiceTime::steady(40.0), 1, 4),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 8, 8));
    run.settle();
    assert!(run.rate() > 95.0, "{}", run.story());
    assert_eq!(run.simulation.workers(2), 4, "{}", run.story());
}

#[test]
fn buffers_grow_where_stages_are_uneven() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 2),
        (ServiceTime::uneven(9.5, 0.7), 1, 1),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::uneven(10.0, 0.7), 7);
    let mut uneven = plan(&simulation, 2, 40);
    let mut run = AdaptRun::new(simulation.clone(), &uneven);
    run.settle();
    assert!(run.simulation.capacity(1) >= 8, "{}", run.story());
    assert!(
        run.rate() > 1.05 * rate(simulation.clone()),
        "{}",
        run.story()
    );

    uneven.stages[1].buffer.fixed = true;
    let mut run = AdaptRun::new(simulation.clone(), &uneven);
    run.settle();
    assert_eq!(run.simulation.capacity(1), 1);
    let named = "the user fixed the buffer behind `stage 1` at 1";
    assert!(run.last_reason().contains(named), "{}", run.story());

    let small = plan(&simulation, 2, 3);
    let mut run = AdaptRun::new(simulation, &small);
    run.settle();
    assert_eq!(run.simulation.capacity(1), 3, "{}", run.story());
}

#[test]
fn what_the_user_fixed_is_left_alone_and_named() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 2),
        (ServiceTime::steady(80.0), 2, 2),
        (ServiceTime::steady(20.0), 1, 2),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let mut fixed = plan(&simulation, 16, 16);
    fixed.stages[1].workers.fixed = true;
    let mut run = AdaptRun::new(simulation, &fixed);
    run.settle();
    assert_eq!(run.simulation.workers(1), 2);
    assert_eq!(run.changes.len(), 1, "{}", run.story());
    let reason = run.last_reason();
    assert!(
        reason.contains("`stage 1` limits with 2 workers"),
        "{reason}"
    );
    assert!(reason.contains("the user fixed their number"), "{reason}");
}

#[test]
fn a_batching_stage_and_a_source_keep_their_one_worker() {
    for slow in 0..2 {
        let mut stages = [
            (ServiceTime::steady(1.0), 1, 2),
            (ServiceTime::steady(1.0), 1, 2),
        ];
        stages[slow].0 = ServiceTime::steady(30.0);
        let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
        let plan = plan(&simulation, 16, 16);
        let mut run = AdaptRun::new(simulation, &plan);
        run.controller = Controller::new(&plan, &[1]).unwrap();
        run.settle();
        assert_eq!(run.changes.len(), 1, "{}", run.story());
        assert!(
            run.last_reason().contains("it cannot have more"),
            "{}",
            run.story()
        );
    }
}

#[test]
fn nothing_is_done_when_the_consumer_is_the_limit() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 2),
        (ServiceTime::uneven(5.0, 0.2), 1, 2),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 16, 16));
    run.settle();
    run.windows(100);
    assert_eq!(run.changes.len(), 1, "{}", run.story());
    let reason = run.last_reason();
    assert!(
        reason.starts_with("feeding is not the limit: `train` waited 0"),
        "{reason}"
    );
}

#[test]
fn a_load_that_changes_is_adapted_to_again() {
    let stages = [
        (ServiceTime::uneven(1.0, 0.2), 1, 4),
        (ServiceTime::uneven(20.0, 0.2), 1, 4),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::uneven(10.0, 0.2), 3);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 12, 16));
    run.settle();
    run.windows(50);
    let before = run.changes.len();
    assert!(run.rate() > 93.0, "{}", run.story());
    run.simulation.set_work(1, ServiceTime::uneven(70.0, 0.2));
    run.settle();
    assert_eq!(run.changes[before].decision.change, DecidedChange::Reopened);
    assert!(run.rate() > 93.0, "{}", run.story());
}

#[test]
fn noise_makes_it_neither_restless_nor_timid() {
    for seed in 0..4 {
        let uneven = |milliseconds| ServiceTime::uneven(milliseconds, 0.5);
        let stages = [
            (uneven(2.0), 1, 4),
            (uneven(60.0), 2, 4),
            (uneven(5.0), 1, 4),
        ];
        let simulation = Simulation::new(&stages, uneven(10.0), seed);
        let plan = plan(&simulation, 16, 32);
        let mut run = AdaptRun::new(simulation, &plan);
        run.settle();
        assert!(run.rate() > 88.0, "{}: {}", run.rate(), run.story());
        let changes = run.changes.len();
        run.windows(1_000);
        assert_eq!(run.changes.len(), changes, "seed {seed}: {}", run.story());
    }
}

#[test]
fn a_full_buffer_that_drains_hides_a_slow_stage_only_for_a_while() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 4),
        (ServiceTime::steady(12.0), 1, 60),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(60.0), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 4, 60));
    run.settle();
    assert_eq!(run.simulation.workers(1), 1);
    run.simulation.set_work(2, ServiceTime::steady(10.0));
    run.settle();
    assert_eq!(run.simulation.workers(1), 2, "{}", run.story());
    assert!(run.rate() > 98.0, "{}", run.story());
}

#[test]
fn a_consumer_that_costs_nothing_gets_all_that_the_budget_gives() {
    let stages = [
        (ServiceTime::steady(0.1), 1, 4),
        (ServiceTime::uneven(8.0, 0.2), 1, 4),
        (ServiceTime::uneven(4.0, 0.2), 1, 4),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(0.01), 0);
    let mut run = AdaptRun::new(simulation.clone(), &plan(&simulation, 7, 16));
    run.settle();
    assert_eq!(run.simulation.all_workers(), [1, 4, 2], "{}", run.story());
    assert!(
        run.last_reason()
            .contains("the budget of 7 workers is used up"),
        "{}",
        run.story()
    );
}

/// A pipeline whose counters grow evenly: shares of time for each stage, and 100 items a second.
fn even_snapshot(at: Duration, shares: &[[f64; 4]]) -> RunSnapshot {
    let stages = shares.iter().map(
        |&[working, starved, short_of_room, blocked]| StageCounters {
            items: (at.as_secs_f64() * 100.0) as u64,
            workers: 1,
            working: at.mul_f64(working),
            starved: at.mul_f64(starved),
            short_of_room: at.mul_f64(short_of_room),
            blocked: at.mul_f64(blocked),
            capacity: 4,
            ..StageCounters::default()
        },
    );
    RunSnapshot {
        at,
        stages: stages.collect(),
        budgets: Vec::new(),
    }
}

fn first_decision(plan: &Plan, shares: &[[f64; 4]]) -> Adjustment {
    let mut controller = Controller::new(plan, &[1]).unwrap();
    let looks = (0..1_000).map(|look| Duration::from_millis(50) * look);
    let mut changes = looks.flat_map(|at| controller.observe(&even_snapshot(at, shares)));
    changes.next().unwrap()
}

#[test]
fn larger_buffers_are_not_tried_where_bytes_are_the_limit() {
    let mut plan = Plan {
        stages: ["read", "load"].map(StagePlan::new).into(),
        ..Plan::new("test", "train")
    };
    plan.adapt = Some(AdaptPlan {
        most_workers: 2,
        most_buffered: 16,
    });
    let blocked = [
        [0.5, 0.0, 0.0, 0.5],
        [0.6, 0.0, 0.0, 0.4],
        [0.8, 0.2, 0.0, 0.0],
    ];
    let change = first_decision(&plan, &blocked);
    let grown = DecidedChange::Capacity { from: 4, to: 8 };
    assert_eq!(change.decision.change, grown);

    let short = [
        [0.5, 0.0, 0.5, 0.0],
        [0.6, 0.0, 0.3, 0.1],
        [0.8, 0.2, 0.0, 0.0],
    ];
    let change = first_decision(&plan, &short);
    assert_eq!(change.decision.change, DecidedChange::Settled);
    let reason = change.decision.reason;
    assert!(
        reason.contains("was short of bytes for 50.0 % of the time"),
        "{reason}"
    );

    plan.slots = Some(SlotsPlan {
        ahead: Setting::from(4),
        bytes_each: 1,
        budget: None,
    });
    let change = first_decision(
        &plan,
        &[
            [0.6, 0.0, 0.0, 0.4],
            [0.6, 0.0, 0.4, 0.0],
            [0.8, 0.2, 0.0, 0.0],
        ],
    );
    let reason = change.decision.reason;
    assert!(
        reason.contains("the 4 slots ahead are set by the plan"),
        "{reason}"
    );
}

#[test]
fn a_plan_that_does_not_adapt_has_no_controller() {
    let mut plan = Plan {
        stages: vec![StagePlan::new("read")],
        ..Plan::new("test", "train")
    };
    assert!(Controller::new(&plan, &[]).is_none());
    plan.adapt = Some(AdaptPlan {
        most_workers: 2,
        most_buffered: 16,
    });
    assert!(Controller::new(&plan, &[]).is_some());
    plan.overlap = false;
    assert!(Controller::new(&plan, &[]).is_none());
}

#[test]
fn a_pipeline_that_stands_still_or_ends_is_left_alone() {
    let stages = [
        (ServiceTime::steady(1.0), 1, 2),
        (ServiceTime::steady(20.0), 1, 2),
    ];
    let simulation = Simulation::new(&stages, ServiceTime::steady(10.0), 0);
    let mut controller = Controller::new(&plan(&simulation, 8, 8), &[]).unwrap();
    let mut snapshot = simulation.snapshot();
    for _ in 0..10_000 {
        snapshot.at += Duration::from_millis(50);
        assert_eq!(controller.observe(&snapshot), []);
    }
    snapshot.stages[1].workers = 0;
    assert_eq!(controller.observe(&snapshot), []);
}
