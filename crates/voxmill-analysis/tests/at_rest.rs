//! Random plans in the real pipeline and in the simulation: when the consumer stops taking, both must come to rest with
//! as many items through each stage. That is what buffers, windows, slots and budgets let through, and no clock is in it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use voxmill_analysis::simulate::engine::simulate;
use voxmill_analysis::simulate::setup::{Bytes, Demand, Load, Order, Setup, Stage, Training};
use voxmill_pipeline::Pipeline;
use voxmill_pipeline::group::{Group, Groups};
use voxmill_pipeline::plan::{Plan, Setting, SlotsPlan};
use voxmill_pipeline::run::Delivery;
use voxmill_pipeline::stage::Work;
use voxmill_telemetry::recorder::Recorder;

/// Long enough for any machine; only a wrong count takes as long.
const LONGEST: Duration = Duration::from_secs(20);
const BUDGET: &str = "bytes";

#[derive(Clone, Debug)]
struct Case {
    /// Workers and buffer of each stage, the source first.
    stages: Vec<(usize, usize)>,
    order: Order,
    /// Behind which stage so many items become one.
    batch: Option<(usize, u64)>,
    slots: Option<usize>,
    /// Stages from here on are in the budget: what is reserved, what is kept, and bytes.
    budget: Option<(usize, u64, u64, u64)>,
    /// Batches that the consumer takes before it stops; the last one it keeps.
    taken: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let stage = (1..6usize, 1..15usize);
    (
        prop::collection::vec(stage, 2..5),
        any::<bool>(),
        prop::option::of((1..4usize, 2..5u64)),
        prop::option::of(1..4usize),
        prop::option::of((1..4usize, 0..8u64, 1..5u64, 4..60u64)),
        1..6u64,
    )
        .prop_map(|(mut stages, free, batch, slots, budget, taken)| {
            stages[0].0 = 1;
            let last = stages.len() - 1;
            // Groups and bytes of items that come in any order depend on which of them is faster.
            let free = free && batch.is_none() && budget.is_none();
            Case {
                order: if free { Order::Free } else { Order::Kept },
                batch: batch.map(|(behind, size)| (behind.min(last) - 1, size)),
                budget: budget.map(|(from, more, kept, times)| {
                    (from.min(last), kept + more, kept, (kept + more) * times)
                }),
                stages,
                slots,
                taken,
            }
        })
}

struct NoTime<'a> {
    case: &'a Case,
    names: &'a [String],
}

impl Load for NoTime<'_> {
    fn demand(&self, _: usize, _: u64) -> Demand {
        Demand::default()
    }

    fn training(&self, batch: u64) -> Training {
        // The last one is kept for good: the rest has time to come to rest.
        let last = batch + 1 == self.case.taken;
        Training {
            demand: Demand::waiting(if last { u64::MAX / 4 } else { 0 }),
            overhead: 0,
        }
    }

    fn members(&self, _: usize, _: u64) -> u64 {
        self.case.batch.map_or(1, |(_, size)| size)
    }

    fn bytes(&self, stage: usize, _: u64) -> Option<Bytes> {
        let (from, reserved, kept, _) = self.case.budget?;
        (self.names[stage] == format!("s{from}")).then_some(Bytes { reserved, kept })
    }
}

/// The setup, with the batching stage between the others.
fn setup(case: &Case) -> Setup {
    let mut stages = Vec::new();
    for (number, (workers, buffer)) in case.stages.iter().enumerate() {
        let budget = case.budget.filter(|(from, ..)| number >= *from);
        stages.push(Stage {
            workers: *workers,
            buffer: *buffer,
            budget: budget.map(|_| 0),
            ..Stage::new(format!("s{number}"))
        });
        if case.batch.is_some_and(|(behind, _)| behind == number) {
            stages.push(Stage {
                gathers: true,
                budget: budget.map(|_| 0),
                ..Stage::new("batch")
            });
        }
    }
    Setup {
        order: case.order,
        slots_ahead: case.slots,
        budgets: case.budget.iter().map(|budget| budget.3).collect(),
        ..Setup::new(stages)
    }
}

/// Runs the real one until its counts are these. `Err`: what they were instead.
fn real(case: &Case, expected: &[u64]) -> Result<(), Vec<u64>> {
    let counts: Vec<Arc<AtomicU64>> = case.stages.iter().map(|_| Arc::default()).collect();
    let of_source = Arc::clone(&counts[0]);
    let mut plan = Plan {
        order: case.order,
        ..Plan::new("at rest", "consumer")
    };
    plan.slots = case.slots.map(|ahead| SlotsPlan {
        ahead: Setting::fixed(ahead),
        bytes_each: 0,
        budget: None,
    });
    let mut pipeline = Pipeline::source(plan, "s0", move |from| {
        (from..).map(move |number| {
            of_source.fetch_add(1, SeqCst);
            Ok::<u64, Infallible>(number)
        })
    });
    if let Some((.., bytes)) = case.budget {
        pipeline = pipeline.budget(BUDGET, bytes);
    }
    let in_budget = |number: usize| case.budget.filter(|(from, ..)| number >= *from);
    pipeline = pipeline.buffer(Setting::fixed(case.stages[0].1));
    for (number, (workers, buffer)) in case.stages.iter().enumerate().skip(1) {
        let count = Arc::clone(&counts[number]);
        let enters = case.budget.filter(|(from, ..)| number == *from);
        let behind_batch = case.batch.filter(|(behind, _)| *behind + 1 == number);
        pipeline = match behind_batch {
            Some((behind, size)) => {
                let mut groups = pipeline.batch("batch", Groups::of(size as usize));
                if in_budget(behind).is_some() {
                    groups = groups.in_budget(BUDGET);
                }
                let work = Work::new(move |_: Group<u64>| {
                    count.fetch_add(1, SeqCst);
                    Ok::<u64, Infallible>(0)
                });
                match enters {
                    Some((_, reserved, kept, _)) => groups.stage(
                        &format!("s{number}"),
                        work.reserving(move |_| reserved).keeping(move |_| kept),
                    ),
                    None => groups.stage(&format!("s{number}"), work),
                }
            }
            None => {
                let work = Work::new(move |item: u64| {
                    count.fetch_add(1, SeqCst);
                    Ok::<u64, Infallible>(item)
                });
                match enters {
                    Some((_, reserved, kept, _)) => pipeline.stage(
                        &format!("s{number}"),
                        work.reserving(move |_| reserved).keeping(move |_| kept),
                    ),
                    None => pipeline.stage(&format!("s{number}"), work),
                }
            }
        };
        pipeline = pipeline
            .workers(Setting::fixed(*workers))
            .buffer(Setting::fixed(*buffer));
        if in_budget(number).is_some() {
            pipeline = pipeline.in_budget(BUDGET);
        }
    }
    let mut running = pipeline.start(Recorder::off()).expect("a good plan");
    let mut in_hand = None;
    for _ in 0..case.taken {
        drop(in_hand.take());
        match running.next() {
            Some(Ok(Delivery::Item(item))) => in_hand = Some(item),
            other => panic!(
                "no item: {:?}",
                other.map(|delivery| delivery.map(|_| "a gap"))
            ),
        }
    }
    let now = || -> Vec<u64> { counts.iter().map(|count| count.load(SeqCst)).collect() };
    let began = Instant::now();
    while now() != expected {
        if began.elapsed() > LONGEST {
            return Err(now());
        }
        std::thread::yield_now();
    }
    // Nothing came after. What is dropped here frees bytes and slots, and these may let another item in.
    drop(running);
    let may_let_in = case.budget.is_some() || case.slots.is_some();
    match may_let_in || now() == expected {
        true => Ok(()),
        false => Err(now()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_simulation_lets_through_what_the_pipeline_lets_through(case in case()) {
        let setup = setup(&case);
        let names: Vec<String> = setup.stages.iter().map(|stage| stage.name.clone()).collect();
        let load = NoTime { case: &case, names: &names };
        let simulated = simulate(&setup, &load, case.taken);
        // A group that no budget has room for ends both; what the real one says then is tested there.
        prop_assume!(simulated.is_ok());
        let simulated = simulated.unwrap();
        let own = names.iter().zip(&simulated.stages).filter(|(name, _)| *name != "batch");
        let expected: Vec<u64> = own.map(|(_, sums)| sums.items).collect();
        prop_assert_eq!(real(&case, &expected), Ok(()), "the simulation has {:?}", expected);
    }
}
