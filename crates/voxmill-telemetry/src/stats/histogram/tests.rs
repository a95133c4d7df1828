//! Histograms in their memory and in their written form.

use proptest::prelude::*;

use super::*;

fn of(spans: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for &span in spans {
        histogram.record(Nanos(span));
    }
    histogram
}

/// All magnitudes alike, from one nanosecond to centuries.
fn spans() -> impl Strategy<Value = Vec<u64>> {
    let span = (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
    prop::collection::vec(span, 0..200)
}

#[test]
fn buckets_follow_each_other_without_gap() {
    assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    for bucket in 0..BUCKETS {
        assert_eq!(bucket_of(middle_of(bucket, 0)), bucket);
        let (low, high) = ends_of(bucket);
        assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
    }
    for power in 4..64 {
        assert_eq!(bucket_of(1 << power), bucket_of((1 << power) - 1) + 1);
    }
}

#[test]
fn mean_and_variation_are_exact() {
    let steps = of(&[100_000_000, 200_000_000, 300_000_000]);
    assert_eq!(steps.mean_nanos(), 200e6);
    assert!((steps.std_nanos() - 81_649_658.092_772_6).abs() < 1e-3);
    assert!((steps.variation() - 0.408_248_290_463_863).abs() < 1e-12);
    assert_eq!(of(&[5, 5, 5]).std_nanos(), 0.0);
}

#[test]
fn an_empty_one_is_all_zeros() {
    let empty = Histogram::default();
    assert!(empty.is_empty());
    assert_eq!(empty.p99(), Nanos(0));
    assert_eq!((empty.std_nanos(), empty.variation()), (0.0, 0.0));
    let text = serde_json::to_string(&empty).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), empty);
}

#[test]
fn the_written_form_is_runs_of_buckets() {
    assert_eq!(
        serde_json::to_string(&of(&[3, 4, 4, 9])).unwrap(),
        r#"{"sum":20,"squares":"122","min":3,"max":9,"buckets":[[3,1,2],[9,1]]}"#
    );
}

#[test]
fn a_damaged_one_is_refused() {
    for text in [
        r#"{"sum":1,"squares":"1","min":1,"max":1,"buckets":[[976,1]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"buckets":[[18446744073709551615,1]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"buckets":[[]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"buckets":[[1,0]]}"#,
        r#"{"sum":3,"squares":"5","min":1,"max":2,"buckets":[[2,1],[1,1]]}"#,
        r#"{"sum":1,"squares":"1","min":2,"max":1,"buckets":[[1,1]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"coarse":5,"buckets":[[0,1]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"coarse":4,"buckets":[[61,1]]}"#,
        r#"{"sum":1,"squares":"1","min":1,"max":1,"coarse":1,"buckets":[[1,1]]}"#,
        r#"{"sum":1,"squares":"x","min":1,"max":1,"buckets":[[1,1]]}"#,
    ] {
        assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
    }
}

#[test]
fn the_widest_spreads_fit_into_a_line() {
    for gap in 1..100 {
        let buckets = (0..bucket_of(3_600_000_000_000)).step_by(gap);
        let middles = buckets.map(|bucket| middle_of(bucket, 0));
        let mut wide = of(&middles.collect::<Vec<u64>>());
        wide.coarsen();
        assert!(wide.room() <= MOST_ROOM);
    }
    let all: Vec<u64> = (0..BUCKETS).map(|bucket| middle_of(bucket, 0)).collect();
    let mut wide = of(&all);
    let exact = wide.clone();
    wide.coarsen();
    assert_eq!((wide.coarse, wide.quantile_error()), (4, 0.5));
    let facts = |of: &Histogram| (of.count(), of.sum(), of.min(), of.max(), of.std_nanos());
    assert_eq!(facts(&wide), facts(&exact));
    let text = serde_json::to_string(&wide).unwrap();
    assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), wide);
}

proptest! {
    #[test]
    fn coarse_and_fine_ones_add_up_in_any_order(
        mut parts in prop::collection::vec((spans(), 0u32..=4), 0..5),
    ) {
        let sum = |parts: &[(Vec<u64>, u32)]| {
            let mut sum = Histogram::default();
            for (part, coarse) in parts {
                let mut part = of(part);
                part.coarsen_to(*coarse);
                sum.merge(&part);
            }
            sum
        };
        parts.retain(|(part, _)| !part.is_empty());
        let forwards = sum(&parts);
        parts.reverse();
        prop_assert_eq!(&forwards, &sum(&parts));
        let mut all: Vec<u64> = parts.iter().flat_map(|(part, _)| part.clone()).collect();
        let mut in_one = of(&all);
        in_one.coarsen_to(forwards.coarse);
        prop_assert_eq!(&forwards, &in_one);
        let text = serde_json::to_string(&forwards).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Histogram>(&text).unwrap(), &forwards);

        all.sort_unstable();
        for (index, &exact) in all.iter().enumerate() {
            let found = forwards.quantile((index as f64 + 0.5) / all.len() as f64).0 as f64;
            let exact = exact as f64;
            // Below 16 ns, where buckets do not grow, half a group may be a few of them.
            let most = (exact * forwards.quantile_error()).max(f64::from(1u32 << forwards.coarse));
            prop_assert!((found - exact).abs() <= most, "{found} for {exact}");
        }
    }

    #[test]
    fn merged_is_the_same_as_recorded_in_one(parts in prop::collection::vec(spans(), 0..5)) {
        let mut forwards = Histogram::default();
        let mut backwards = Histogram::default();
        for part in &parts {
            forwards.merge(&of(part));
        }
        for part in parts.iter().rev() {
            backwards.merge(&of(part));
        }
        prop_assert_eq!(&forwards, &of(&parts.concat()));
        prop_assert_eq!(&forwards, &backwards);
    }

    #[test]
    fn quantiles_are_within_the_stated_error(mut all in spans(), q in 0.0f64..=1.0) {
        prop_assume!(!all.is_empty());
        let found = of(&all).quantile(q).0 as f64;
        all.sort_unstable();
        let rank = ((q * all.len() as f64).ceil() as usize).max(1);
        let exact = all[rank - 1] as f64;
        prop_assert!((found - exact).abs() <= exact * Histogram::ERROR, "{found} for {exact}");
    }

    #[test]
    fn what_was_written_reads_back_the_same(all in spans()) {
        let histogram = of(&all);
        let text = serde_json::to_string(&histogram).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
    }
}
