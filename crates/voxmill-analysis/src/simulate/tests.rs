//! Cases whose answer is known without a simulation.

use proptest::prelude::*;

use super::engine::{Simulated, simulate};
use super::setup::{Bytes, Consumer, Demand, Load, Order, Setup, SimulationError, Stage, Training};

const MS: u64 = 1_000_000;

/// Times by function of (stage, number), in milliseconds; the consumer is behind the last stage.
struct Made<F> {
    times: F,
    stages: usize,
    members: u64,
    bytes: u64,
    computes: bool,
}

impl<F: Fn(usize, u64) -> u64> Made<F> {
    fn of(stages: usize, times: F) -> Made<F> {
        Made {
            times,
            stages,
            members: 1,
            bytes: 0,
            computes: false,
        }
    }

    fn of_time(&self, nanos: u64) -> Demand {
        match self.computes {
            true => Demand::computing(nanos),
            false => Demand::waiting(nanos),
        }
    }
}

impl<F: Fn(usize, u64) -> u64> Load for Made<F> {
    fn demand(&self, stage: usize, number: u64) -> Demand {
        self.of_time((self.times)(stage, number) * MS)
    }

    fn training(&self, batch: u64) -> Training {
        Training {
            demand: self.of_time((self.times)(self.stages, batch) * MS),
            overhead: 0,
        }
    }

    fn members(&self, _: usize, _: u64) -> u64 {
        self.members
    }

    fn bytes(&self, _: usize, _: u64) -> Option<Bytes> {
        (self.bytes > 0).then_some(Bytes {
            reserved: self.bytes,
            kept: self.bytes,
        })
    }
}

fn stages(count: usize) -> Vec<Stage> {
    (0..count).map(|n| Stage::new(format!("s{n}"))).collect()
}

/// Milliseconds of a step, once it is running.
fn step_ms(simulated: &Simulated) -> f64 {
    let steps = &simulated.steps;
    let half = steps.len() / 2;
    let span = steps[steps.len() - 1].ended - steps[half - 1].ended;
    span as f64 / MS as f64 / (steps.len() - half) as f64
}

fn run(setup: &Setup, times: impl Fn(usize, u64) -> u64, steps: u64) -> Simulated {
    let load = Made::of(setup.stages.len(), times);
    simulate(setup, &load, steps).unwrap()
}

#[test]
fn one_slow_stage_sets_the_pace() {
    let setup = Setup::new(stages(4));
    for slow in 0..5 {
        let times = move |stage, _| if stage == slow { 30 } else { 7 };
        let simulated = run(&setup, times, 40);
        assert_eq!(step_ms(&simulated), 30.0, "stage {slow}");
        let stalled = simulated.steps[39].waited;
        assert_eq!(stalled, if slow == 4 { 0 } else { 23 * MS });
    }
}

#[test]
fn workers_share_the_slow_stage_and_order_costs_nothing_where_all_take_the_same() {
    let mut setup = Setup::new(stages(3));
    for (workers, expected) in [(1, 60.0), (2, 30.0), (3, 20.0), (4, 15.0), (6, 12.0)] {
        setup.stages[1].workers = workers;
        setup.stages[1].buffer = 8;
        setup.stages[0].buffer = 8;
        let times = |stage: usize, _| [1, 60, 12, 12][stage];
        assert_eq!(step_ms(&run(&setup, times, 240)), expected, "{workers}");
    }
}

#[test]
fn a_slow_item_holds_up_those_behind_it_only_where_order_is_kept() {
    // Two workers; item 0 takes 100 ms, the others 10; the window is 4.
    let mut setup = Setup::new(stages(2));
    setup.stages[1].workers = 2;
    setup.stages[1].buffer = 4;
    let times = |stage, number| match (stage, number) {
        (1, 0) => 100,
        (1, _) => 10,
        _ => 0,
    };
    let kept = run(&setup, times, 6);
    // Items 1 to 3 are done and wait in their places; item 4 is beyond the window and waits outside. When item 0 is
    // there they all follow at once, and item 5 is 10 ms behind.
    let ended: Vec<u64> = kept.steps.iter().map(|step| step.ended / MS).collect();
    assert_eq!(ended, [100, 100, 100, 100, 100, 110]);
    setup.order = Order::Free;
    let free = run(&setup, times, 6);
    let ended: Vec<u64> = free.steps.iter().map(|step| step.ended / MS).collect();
    assert_eq!(ended, [10, 20, 30, 40, 50, 60]);
}

#[test]
fn a_buffer_of_one_lets_two_stages_work_at_once_but_bridges_little() {
    // Every eighth item takes 80 ms, on average 18.75, and the consumer 20. When the slow one begins, the consumer has
    // just begun with a batch and the buffer is full: 20 ms for each of both, then it waits for the rest of the 80.
    let mut setup = Setup::new(stages(1));
    let times = |stage, number: u64| match stage {
        0 if number % 8 == 7 => 80,
        0 => 10,
        _ => 20,
    };
    for (buffer, waits) in [(1, 40.0), (2, 20.0), (3, 0.0), (5, 0.0)] {
        setup.stages[0].buffer = buffer;
        let step = step_ms(&run(&setup, times, 400));
        assert_eq!(step, 20.0 + waits / 8.0, "a buffer of {buffer}");
    }
}

#[test]
fn the_gate_opens_when_slots_are_full_or_the_delay_is_over() {
    let mut setup = Setup::new(stages(2));
    setup.slots_ahead = Some(3);
    setup.start_delay = 1_000 * MS;
    let times = |stage: usize, _| [0, 10, 20][stage];
    assert_eq!(run(&setup, times, 5).began_after, 30 * MS);
    setup.start_delay = 15 * MS;
    assert_eq!(run(&setup, times, 5).began_after, 15 * MS);
    setup.start_delay = 0;
    assert_eq!(run(&setup, times, 5).began_after, 10 * MS);
}

#[test]
fn slots_bound_what_is_ahead() {
    // The consumer is slow: of the places, one is in training and the rest are ahead.
    let mut setup = Setup::new(stages(2));
    for ahead in 1..5 {
        setup.slots_ahead = Some(ahead);
        let simulated = run(&setup, |stage: usize, _| [0, 1, 50][stage], 20);
        assert_eq!(simulated.stages[1].most_buffered, ahead);
        // Prepared: what was trained, what is in training and what is ahead.
        assert_eq!(simulated.stages[1].items, 20 + ahead as u64);
    }
}

#[test]
fn bytes_are_admitted_and_bound_what_is_in_flight() {
    let mut setup = Setup::new(stages(3));
    setup.stages[1].workers = 8;
    setup.stages[1].buffer = 16;
    setup.stages[1].budget = Some(0);
    setup.stages[2].budget = Some(0);
    let load = Made {
        bytes: 10,
        ..Made::of(3, |stage: usize, _| [0, 80, 1, 10][stage])
    };
    // Eight workers at 80 ms keep up with 10 ms; two items in flight are one of 80 and the one in training.
    for (bytes, most, pace) in [(1_000, 200, 10.0), (10, 10, 91.0)] {
        setup.budgets = vec![bytes];
        let simulated = simulate(&setup, &load, 60).unwrap();
        assert!(simulated.peak_bytes[0] <= most, "{simulated:?}");
        assert_eq!(step_ms(&simulated), pace);
    }
    setup.budgets = vec![9];
    let error = simulate(&setup, &load, 60).unwrap_err();
    let message = "an item of stage `s1` needs 10 bytes, and its budget has 9 bytes";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_group_that_does_not_fit_into_its_budget_is_an_error_and_no_endless_wait() {
    let mut setup = Setup::new(stages(3));
    setup.stages[1].budget = Some(0);
    setup.stages[2].budget = Some(0);
    setup.stages[2].gathers = true;
    setup.budgets = vec![25];
    let load = Made {
        bytes: 10,
        members: 3,
        ..Made::of(3, |_, _| 1)
    };
    let error = simulate(&setup, &load, 3).unwrap_err();
    assert_eq!(error, SimulationError::Stuck { stage: "s1".into() });
    setup.budgets = vec![30];
    assert_eq!(simulate(&setup, &load, 3).unwrap().peak_bytes, [30]);
}

#[test]
fn one_after_another_adds_up() {
    let mut setup = Setup::new(stages(3));
    setup.stages[1].gathers = true;
    setup.overlap = false;
    let load = Made {
        members: 4,
        ..Made::of(3, |stage: usize, _| [2, 3, 5, 100][stage])
    };
    let simulated = simulate(&setup, &load, 10).unwrap();
    assert_eq!(simulated.steps[9].wall(), (4 * 2 + 3 + 5 + 100) * MS);
    assert_eq!(simulated.stages[0].items, 40);
}

#[test]
fn threads_share_the_cores() {
    // Two workers and a consumer that all compute: three threads on two cores, each at two thirds of its pace.
    let mut setup = Setup::new(stages(2));
    setup.stages[1].workers = 2;
    setup.stages[1].buffer = 1;
    let load = |computes| Made {
        computes,
        ..Made::of(2, |stage: usize, _| [0, 200, 100][stage])
    };
    for (cores, expected) in [
        (None, 100.0),
        (Some(3.0), 100.0),
        (Some(2.0), 150.0),
        (Some(1.0), 300.0),
    ] {
        setup.cores = cores;
        let step = step_ms(&simulate(&setup, &load(true), 400).unwrap());
        assert!((step / expected - 1.0).abs() < 0.01, "{cores:?}: {step}");
        let asleep = step_ms(&simulate(&setup, &load(false), 400).unwrap());
        assert!((asleep / 100.0 - 1.0).abs() < 0.01, "{cores:?}: {asleep}");
    }
}

#[test]
fn a_device_that_runs_ahead_hides_the_way_to_the_next_batch() {
    let mut setup = Setup::new(stages(2));
    setup.slots_ahead = Some(1);
    let times = |stage: usize, _| [0, 30, 30][stage];
    // Two places: with a thread that trains itself, one is in training while the other is prepared.
    assert_eq!(step_ms(&run(&setup, times, 40)), 30.0);
    setup.consumer = Consumer {
        runs_ahead: true,
        ..Consumer::default()
    };
    let simulated = run(&setup, times, 40);
    assert_eq!(step_ms(&simulated), 30.0);
    let stalled: u64 = simulated.steps.iter().skip(2).map(|step| step.waited).sum();
    assert_eq!(stalled, 0);
}

#[test]
fn several_batches_make_a_step() {
    let mut setup = Setup::new(stages(1));
    setup.consumer.batches_a_step = 3;
    let simulated = run(&setup, |stage: usize, _| [40, 10][stage], 10);
    assert_eq!(step_ms(&simulated), 120.0);
    assert_eq!(simulated.steps[9].service, 30 * MS);
    assert_eq!(simulated.steps[9].waited, 90 * MS);
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let refused = |setup: &Setup| simulate(setup, &Made::of(1, |_, _| 1), 5).unwrap_err();
    assert_eq!(refused(&Setup::new(Vec::new())), SimulationError::Nothing);
    let mut setup = Setup::new(stages(1));
    setup.slots_ahead = Some(0);
    assert_eq!(refused(&setup), SimulationError::NoSlots);
    setup.slots_ahead = None;
    setup.cores = Some(0.0);
    assert_eq!(refused(&setup), SimulationError::NoCores);
    setup.cores = None;
    setup.stages[0].workers = 0;
    assert_eq!(refused(&setup), SimulationError::NoRoom("s0".into()));
}

/// The simulation's effort is counted in what it handles, which no slow machine changes; how long that takes is a bench.
#[test]
fn ten_thousand_steps_are_few_events() {
    let mut setup = Setup::new(stages(6));
    setup.stages[3].gathers = true;
    let load = Made {
        members: 8,
        ..Made::of(6, |stage: usize, _| [0, 3, 0, 0, 1, 1, 20][stage])
    };
    let simulated = simulate(&setup, &load, 10_000).unwrap();
    // Rows through three stages, batches through four, and the rest that is on its way at the end.
    let least = 10_000 * (3 * 8 + 4);
    assert!(simulated.events >= least && simulated.events < least + 1_000);
}

proptest! {
    /// Whatever the plan: no step is faster than the slowest part can go, none slower than all of them one after
    /// another, and waits, work and gaps add up to the time that passed.
    #[test]
    fn a_pipeline_is_as_fast_as_its_slowest_part_at_best_and_as_slow_as_all_of_them_at_worst(
        times in prop::collection::vec((0..20u64, 1..4usize, 1..20usize), 1..5),
        training in 1..20u64,
        slots in prop::option::of(1..4usize),
        free in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut setup = Setup::new(stages(times.len()));
        setup.order = if free { Order::Free } else { Order::Kept };
        setup.slots_ahead = slots;
        for (stage, (_, workers, buffer)) in setup.stages.iter_mut().zip(&times) {
            (stage.workers, stage.buffer) = (*workers, *buffer);
        }
        setup.stages[0].workers = 1;
        let of = |stage: usize, number: u64| {
            let most = if stage == times.len() { training } else { times[stage].0 };
            super::times::draw(seed, stage as u64, number) % (most + 1)
        };
        let steps = 100;
        let simulated = run(&setup, of, steps);
        let trained: u64 = (0..steps).map(|number| of(times.len(), number)).sum();
        let end = simulated.steps[steps as usize - 1].ended;
        let adds_up: u64 = simulated.steps.iter().map(|step| step.wall()).sum();
        prop_assert_eq!(end, simulated.began_after + adds_up);
        let service: u64 = simulated.steps.iter().map(|step| step.service).sum();
        let all = 0..times.len();
        let work = all.map(|stage| (0..steps).map(|n| of(stage, n)).sum::<u64>());
        let work: Vec<u64> = work.collect();
        if !free {
            prop_assert_eq!(service, trained * MS);
            for (stage, work) in work.iter().enumerate() {
                let least = work * MS / setup.stages[stage].workers as u64;
                prop_assert!(end >= least, "stage {} alone takes {}", stage, least);
            }
            prop_assert!(end <= (trained + work.iter().sum::<u64>()) * MS);
        }
    }
}
