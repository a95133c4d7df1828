//! A thousand random pipelines with delays, errors, panics, cancels, early ends, resumes and changes in
//! mid-run: each item comes out once or is accounted for, in order where order is kept, no thread and
//! no byte is left behind, and nothing hangs.

use proptest::prelude::*;

use crate::case::{Case, End, LiveChange, StageCase, check};
use crate::common::*;

fn then() -> impl Strategy<Value = AfterError> {
    prop_oneof![4 => Just(AfterError::Skip), 1 => Just(AfterError::Stop)]
}

fn permille() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 1 => 1..100u64]
}

prop_compose! {
    fn stage()(
        batch in prop_oneof![3 => Just(None), 1 => (1..5u64).prop_map(Some)],
        workers in 1..=8usize,
        // From 16 on, a tap takes several items at a time.
        capacity in 1..=48usize,
        retries in 0..3u32,
        then in then(),
        errors_permille in permille(),
        panics in permille(),
        longest_micros in prop_oneof![Just(0), 1..200u64],
    ) -> StageCase {
        let panics_permille = panics / 3;
        StageCase {
            batch, workers, capacity, retries, then, errors_permille, panics_permille, longest_micros,
        }
    }
}

fn change() -> impl Strategy<Value = (Duration, LiveChange)> {
    let change = prop_oneof![
        (0..5usize, 1..=8usize).prop_map(|(stage, workers)| LiveChange::Workers(stage, workers)),
        (0..5usize, 1..=48usize).prop_map(|(stage, items)| LiveChange::Capacity(stage, items)),
        (0..4u64).prop_map(LiveChange::Budget),
    ];
    ((0..500u64).prop_map(Duration::from_micros), change)
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        2 => Just(End::Finish),
        1 => (0..3000u64).prop_map(|micros| End::Cancel(Duration::from_micros(micros))),
        1 => (0..40usize).prop_map(End::Drop),
    ]
}

prop_compose! {
    fn case(order: Order)(
        items in 0..60u64,
        source in stage(),
        mut stages in prop::collection::vec(stage(), 0..=4),
        budget in prop::option::of((0..5usize, 0..5usize, 0..4u64)),
        slots_ahead in prop::option::of(1..4usize),
        max_skipped in prop::option::weighted(0.2, 0..5u64),
        overlap in prop::bool::weighted(0.9),
        gate in prop::bool::weighted(0.2),
        end in end(),
        changes in prop::collection::vec(change(), 0..4),
        salt in any::<u64>(),
    ) -> Case {
        let last = stages.len().checked_sub(1);
        let budget = last.zip(budget).map(|(last, (one, other, times))| {
            let (one, other) = (one.min(last), other.min(last));
            match order {
                Order::Kept => (one.min(other), one.max(other), times),
                // Batches within a budget must enter it in order, right behind the source.
                Order::Free => {
                    stages[0].batch = None;
                    (0, one.max(other), times)
                }
            }
        });
        let slots_ahead = slots_ahead.filter(|_| last.is_some());
        Case {
            items, source, stages, order, overlap, gate, budget, slots_ahead, max_skipped, end, changes,
            salt,
        }
    }
}

/// More of them can be asked for, to find what is rare.
fn runs(cases: u32) -> ProptestConfig {
    let asked = std::env::var("VOXMILL_RANDOM_RUNS");
    ProptestConfig {
        cases: asked.map_or(cases, |asked| asked.parse().unwrap()),
        // Printed in the failure's message.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(runs(500))]

    #[test]
    fn in_order(case in case(Order::Kept)) {
        check(case);
    }

    #[test]
    fn in_any_order(case in case(Order::Free)) {
        check(case);
    }
}
