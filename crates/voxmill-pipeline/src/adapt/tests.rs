//! The controller on simulated pipelines, compared with the best that a fixed setting can do.

use std::time::Duration;

use voxmill_telemetry::event::{DecidedChange, Decision};

use super::Controller;
use super::simulation::{ServiceTime, Simulation, Slowdown};
use crate::counters::{RunSnapshot, StageCounters};
use crate::plan::{AdaptPlan, Plan, Setting, SlotsPlan, StagePlan};

mod any_pipeline;

/// What the names of simulated stages begin with; their number follows.
const STAGE: &str = "stage ";

/// The plan of a simulation.
fn plan(simulation: &Simulation, most_workers: usize, most_buffered: usize) -> Plan {
    let mut plan = Plan::new("test", "train");
    for (stage, workers) in simulation.all_workers().into_iter().enumerate() {
        plan.stages.push(StagePlan {
            workers: Setting::from(workers),
            buffer: Setting::from(simulation.capacity(stage)),
            ..StagePlan::new(format!("{STAGE}{stage}"))
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
    changes: Vec<Decision>,
}

/// A settled run with at most this many workers and items in a buffer.
fn settled(
    stages: &[(ServiceTime, usize, usize)],
    consumer: ServiceTime,
    most_workers: usize,
    most_buffered: usize,
) -> AdaptRun {
    settled_from(
        Simulation::new(stages, consumer, 0),
        most_workers,
        most_buffered,
    )
}

fn settled_from(simulation: Simulation, most_workers: usize, most_buffered: usize) -> AdaptRun {
    let plan = plan(&simulation, most_workers, most_buffered);
    let mut run = AdaptRun::new(simulation, &plan);
    run.settle();
    run
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

    /// Lets time pass until the controller wants another snapshot; whether it settled then.
    fn observe(&mut self) -> bool {
        self.simulation.advance(self.controller.next_snapshot());
        let changes = self.controller.observe(&self.simulation.snapshot());
        for change in &changes {
            self.carry_out(change);
        }
        let settles = |change: &Decision| change.change == DecidedChange::Settled;
        let settled = changes.iter().any(settles);
        self.changes.extend(changes);
        settled
    }

    fn carry_out(&mut self, decision: &Decision) {
        use DecidedChange::{Capacity, CapacityBack, Workers, WorkersBack};
        let stage = || decision.subject[STAGE.len()..].parse().unwrap();
        match decision.change {
            Workers { from, to } | WorkersBack { from, to } => {
                let (stage, to) = (stage(), to as usize);
                assert_eq!(from as usize, self.simulation.workers(stage));
                assert!(to >= 1, "{decision:?}");
                assert!(stage > 0, "the source keeps its one worker: {decision:?}");
                self.simulation.set_workers(stage, to);
                let workers: usize = self.simulation.all_workers().iter().sum();
                assert!(workers <= self.limits.most_workers, "{decision:?}");
            }
            Capacity { from, to } | CapacityBack { from, to } => {
                let (stage, to) = (stage(), to as usize);
                assert_eq!(from as usize, self.simulation.capacity(stage));
                let within = (1..=self.limits.most_buffered).contains(&to);
                assert!(within, "{decision:?}");
                self.simulation.set_capacity(stage, to);
            }
            DecidedChange::Settled | DecidedChange::Reopened => {}
        }
    }

    fn settle(&mut self) {
        let settles = (0..20_000).any(|_| self.observe());
        assert!(settles, "does not settle: {}", self.history());
    }

    /// Runs this many windows of 30 items, in which nothing may change.
    fn stays_settled(&mut self, windows: u64) {
        let changes = self.changes.len();
        self.windows(windows);
        assert_eq!(self.changes.len(), changes, "{}", self.history());
    }

    fn windows(&mut self, windows: u64) {
        let until = self.simulation.consumed() + 30 * windows;
        while self.simulation.consumed() < until {
            self.observe();
        }
    }

    /// Items a second with the settings as they are now.
    fn rate(&self) -> f64 {
        rate(self.simulation.clone())
    }

    fn assert_rate_above(&self, least: f64) {
        let rate = self.rate();
        assert!(rate > least, "{rate}: {}", self.history());
    }

    fn assert_workers(&self, stage: usize, workers: usize) {
        let found = self.simulation.workers(stage);
        assert_eq!(found, workers, "{}", self.history());
    }

    fn assert_changes(&self, changes: usize) {
        assert_eq!(self.changes.len(), changes, "{}", self.history());
    }

    /// What the last decision gave as its reason.
    fn assert_reason(&self, part: &str) {
        let reason = &self.changes.last().unwrap().reason;
        assert!(reason.contains(part), "{}", self.history());
    }

    fn history(&self) -> String {
        let decisions = self.changes.iter();
        decisions
            .map(|it| format!("{}: {:?}: {}\n", it.subject, it.change, it.reason))
            .collect()
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

fn steady(milliseconds: f64) -> ServiceTime {
    ServiceTime::uneven(milliseconds, 0.0)
}

/// Stages of this variation, as (milliseconds, workers, capacity).
fn stages<const N: usize>(
    variation: f64,
    stages: [(f64, usize, usize); N],
) -> [(ServiceTime, usize, usize); N] {
    stages.map(|(milliseconds, workers, capacity)| {
        let work = ServiceTime::uneven(milliseconds, variation);
        (work, workers, capacity)
    })
}

#[test]
fn from_two_workers_where_eight_are_needed() {
    let stages = stages(0.0, [(1.0, 1, 4), (80.0, 2, 4), (3.0, 1, 4)]);
    let mut run = settled(&stages, steady(10.0), 12, 16);
    let (best, _) = best_rate(&Simulation::new(&stages, steady(10.0), 0), run.limits);
    run.assert_rate_above(0.95 * best);
    assert!(run.changes.len() <= 4, "few steps: {}", run.history());
    run.stays_settled(1_000);
}

#[test]
fn a_third_worker_on_two_cores_is_taken_back() {
    let cpu = ServiceTime::uneven(20.0, 0.1).slowed(Slowdown::Cpu);
    let stages = [(steady(0.5), 1, 4), (cpu, 2, 4)];
    let simulation = Simulation::new(&stages, steady(5.0), 0).with_cores(2, 0.1);
    let mut run = settled_from(simulation, 8, 16);
    run.assert_workers(1, 2);
    run.assert_reason("limits with 2 workers");
    run.stays_settled(1_000);
}

#[test]
fn a_third_worker_that_waits_for_a_lock_is_taken_back_from_above_too() {
    let locked = steady(20.0).slowed(Slowdown::Crowd(vec![1.0, 1.0, 2.0, 3.0, 4.0]));
    let run = settled(&[(steady(0.5), 1, 4), (locked, 5, 4)], steady(5.0), 6, 16);
    run.assert_workers(1, 2);
}

#[test]
fn equally_slow_stages_are_raised_together() {
    let slow = (steady(40.0), 1, 2);
    let stages = [(steady(1.0), 1, 2), slow.clone(), slow.clone(), slow];
    settled(&stages, steady(10.0), 16, 8).assert_rate_above(95.0);
}

#[test]
fn a_stage_with_a_surplus_gives_when_the_budget_is_used_up() {
    let stages = stages(0.0, [(1.0, 1, 4), (10.0, 6, 4), (40.0, 1, 4)]);
    let run = settled(&stages, steady(10.0), 8, 8);
    run.assert_rate_above(95.0);
    run.assert_workers(2, 4);
}

#[test]
fn buffers_grow_where_stages_are_uneven() {
    let uneven = |milliseconds| ServiceTime::uneven(milliseconds, 0.7);
    let stages = [(steady(1.0), 1, 2), (uneven(9.5), 1, 1)];
    let simulation = Simulation::new(&stages, uneven(10.0), 7);
    let run = settled_from(simulation.clone(), 2, 40);
    assert!(run.simulation.capacity(1) >= 8, "{}", run.history());
    run.assert_rate_above(1.05 * rate(simulation.clone()));

    let mut fixed = plan(&simulation, 2, 40);
    fixed.stages[1].buffer.fixed = true;
    let mut run = AdaptRun::new(simulation.clone(), &fixed);
    run.settle();
    assert_eq!(run.simulation.capacity(1), 1);
    run.assert_reason("the user fixed the buffer behind `stage 1` at 1");

    let run = settled_from(simulation, 2, 3);
    assert_eq!(run.simulation.capacity(1), 3, "{}", run.history());
}

#[test]
fn what_the_user_fixed_is_left_alone_and_named() {
    let stages = stages(0.0, [(1.0, 1, 2), (80.0, 2, 2), (20.0, 1, 2)]);
    let simulation = Simulation::new(&stages, steady(10.0), 0);
    let mut fixed = plan(&simulation, 16, 16);
    fixed.stages[1].workers.fixed = true;
    let mut run = AdaptRun::new(simulation, &fixed);
    run.settle();
    run.assert_workers(1, 2);
    run.assert_changes(1);
    run.assert_reason("`stage 1` limits with 2 workers");
    run.assert_reason("the user fixed their number");
}

#[test]
fn a_batching_stage_and_a_source_keep_their_one_worker() {
    for slow in 0..2 {
        let mut stages = stages(0.0, [(1.0, 1, 2); 2]);
        stages[slow].0 = steady(30.0);
        let simulation = Simulation::new(&stages, steady(10.0), 0);
        let plan = plan(&simulation, 16, 16);
        let mut run = AdaptRun::new(simulation, &plan);
        run.controller = Controller::new(&plan, &[1]).unwrap();
        run.settle();
        run.assert_changes(1);
        run.assert_reason("it cannot have more");
    }
}

#[test]
fn nothing_is_done_when_the_consumer_is_the_limit() {
    let stages = [(steady(1.0), 1, 2), (ServiceTime::uneven(5.0, 0.2), 1, 2)];
    let mut run = settled(&stages, steady(10.0), 16, 16);
    run.windows(100);
    run.assert_changes(1);
    let reason = &run.changes[0].reason;
    let expected = "feeding is not the limit: `train` waited 0";
    assert!(reason.starts_with(expected), "{reason}");
}

#[test]
fn a_load_that_changes_is_adapted_to_again() {
    let uneven = |milliseconds| ServiceTime::uneven(milliseconds, 0.2);
    let stages = [(uneven(1.0), 1, 4), (uneven(20.0), 1, 4)];
    let mut run = settled_from(Simulation::new(&stages, uneven(10.0), 3), 12, 16);
    run.windows(50);
    let before = run.changes.len();
    run.assert_rate_above(93.0);
    run.simulation.set_work(1, uneven(70.0));
    run.settle();
    assert_eq!(run.changes[before].change, DecidedChange::Reopened);
    run.assert_rate_above(93.0);
}

#[test]
fn noise_makes_it_neither_restless_nor_timid() {
    for seed in 0..4 {
        let stages = stages(0.5, [(2.0, 1, 4), (60.0, 2, 4), (5.0, 1, 4)]);
        let mut run = settled_from(
            Simulation::new(&stages, ServiceTime::uneven(10.0, 0.5), seed),
            16,
            32,
        );
        run.assert_rate_above(88.0);
        run.stays_settled(1_000);
    }
}

#[test]
fn a_full_buffer_that_drains_hides_a_slow_stage_only_for_a_while() {
    let stages = stages(0.0, [(1.0, 1, 4), (12.0, 1, 60)]);
    let mut run = settled(&stages, steady(60.0), 4, 60);
    run.assert_workers(1, 1);
    run.simulation.set_work(2, steady(10.0));
    run.settle();
    run.assert_workers(1, 2);
    run.assert_rate_above(98.0);
}

#[test]
fn a_consumer_that_costs_nothing_gets_all_that_the_budget_gives() {
    let uneven = |milliseconds| ServiceTime::uneven(milliseconds, 0.2);
    let stages = [
        (steady(0.1), 1, 4),
        (uneven(8.0), 1, 4),
        (uneven(4.0), 1, 4),
    ];
    let run = settled(&stages, steady(0.01), 7, 16);
    assert_eq!(run.simulation.all_workers(), [1, 4, 2], "{}", run.history());
    run.assert_reason("the budget of 7 workers is used up");
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

fn first_decision(plan: &Plan, shares: &[[f64; 4]]) -> Decision {
    let mut controller = Controller::new(plan, &[1]).unwrap();
    let times = (0..1_000).map(|time| Duration::from_millis(50) * time);
    let mut changes = times.flat_map(|at| controller.observe(&even_snapshot(at, shares)));
    changes.next().unwrap()
}

/// A plan whose stages have these names.
fn adapting(stages: &[&str]) -> Plan {
    Plan {
        stages: stages.iter().copied().map(StagePlan::new).collect(),
        adapt: Some(AdaptPlan {
            most_workers: 2,
            most_buffered: 16,
        }),
        ..Plan::new("test", "train")
    }
}

#[test]
fn larger_buffers_are_not_tried_where_bytes_are_the_limit() {
    let mut plan = adapting(&["read", "load"]);
    let consumer = [0.8, 0.2, 0.0, 0.0];
    let blocked = [[0.5, 0.0, 0.0, 0.5], [0.6, 0.0, 0.0, 0.4], consumer];
    let grown = DecidedChange::Capacity { from: 4, to: 8 };
    assert_eq!(first_decision(&plan, &blocked).change, grown);

    let short = [[0.5, 0.0, 0.5, 0.0], [0.6, 0.0, 0.3, 0.1], consumer];
    let Decision { change, reason, .. } = first_decision(&plan, &short);
    assert_eq!(change, DecidedChange::Settled);
    let expected = "was short of bytes for 50.0 % of the time";
    assert!(reason.contains(expected), "{reason}");

    plan.slots = Some(SlotsPlan {
        ahead: Setting::from(4),
        bytes_each: 1,
        budget: None,
    });
    let no_slots = [[0.6, 0.0, 0.0, 0.4], [0.6, 0.0, 0.4, 0.0], consumer];
    let reason = first_decision(&plan, &no_slots).reason;
    let expected = "the 4 slots ahead are set by the plan";
    assert!(reason.contains(expected), "{reason}");
}

#[test]
fn a_plan_that_does_not_adapt_has_no_controller() {
    let mut plan = adapting(&["read"]);
    assert!(Controller::new(&plan, &[]).is_some());
    plan.overlap = false;
    assert!(Controller::new(&plan, &[]).is_none());
    plan.overlap = true;
    plan.adapt = None;
    assert!(Controller::new(&plan, &[]).is_none());
}

#[test]
fn a_pipeline_that_stands_still_or_ends_is_left_alone() {
    let stages = stages(0.0, [(1.0, 1, 2), (20.0, 1, 2)]);
    let simulation = Simulation::new(&stages, steady(10.0), 0);
    let mut controller = Controller::new(&plan(&simulation, 8, 8), &[]).unwrap();
    let mut snapshot = simulation.snapshot();
    for _ in 0..10_000 {
        snapshot.at += Duration::from_millis(50);
        assert_eq!(controller.observe(&snapshot), []);
    }
    snapshot.stages[1].workers = 0;
    assert_eq!(controller.observe(&snapshot), []);
}
