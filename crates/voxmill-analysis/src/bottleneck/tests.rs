use super::*;
use crate::made_up::MadeUp;
use crate::profile::profile;

fn top(made_up: &MadeUp) -> Finding {
    let mut findings = profile(&made_up.run()).findings;
    findings.remove(0)
}

/// A run that waits for its features, and what the stage spends its time on.
fn late_features(
    stage_ms: Vec<(&'static str, u64)>,
    facts: Vec<(&'static str, &'static str)>,
) -> MadeUp {
    MadeUp {
        waited_ms: 40,
        late: Some("featurize"),
        stage_ms,
        facts,
        ..MadeUp::default()
    }
}

#[test]
fn a_healthy_run_is_bound_by_its_steps_and_nothing_else() {
    let healthy = profile(&MadeUp::default().run());
    assert_eq!(healthy.findings.len(), 1, "{:#?}", healthy.findings);
    assert_eq!(healthy.findings[0].cause, Cause::StepBound);
    assert_eq!(healthy.findings[0].level, Level::Note);
}

#[test]
fn each_cause_is_told_by_its_signs() {
    let off = ("cache", "off");
    let cases = [
        (
            Cause::SlowDisk,
            late_features(vec![("featurize", 17), ("featurize.read", 14)], vec![]),
        ),
        (
            Cause::SlowResampling,
            late_features(vec![("featurize", 17), ("featurize.resample", 12)], vec![]),
        ),
        (
            Cause::ColdCache,
            late_features(
                vec![("featurize", 17), ("featurize.decode", 8)],
                vec![("cache", "cold")],
            ),
        ),
        (
            Cause::FewWorkers,
            late_features(vec![("featurize", 17), ("featurize.decode", 8)], vec![off]),
        ),
        (
            Cause::ModelTooSmall,
            late_features(vec![("featurize", 40), ("featurize.decode", 8)], vec![off]),
        ),
        (
            Cause::SlowTransfer,
            MadeUp {
                waited_ms: 60,
                late: Some("prepare"),
                ..MadeUp::default()
            },
        ),
        (
            Cause::SlowCollating,
            MadeUp {
                waited_ms: 60,
                late: Some("collate"),
                ..MadeUp::default()
            },
        ),
        (
            Cause::MemoryBudget,
            MadeUp {
                bytes_share: 0.6,
                ..late_features(vec![("featurize", 3)], vec![])
            },
        ),
        (
            Cause::SmallBuffer,
            MadeUp {
                slowest_ms: Some(("featurize", 400)),
                ..late_features(
                    vec![("featurize", 5)],
                    vec![("buffer", "1"), ("slots", "1")],
                )
            },
        ),
        (
            Cause::HugeClip,
            MadeUp {
                slowest_ms: Some(("featurize", 4_000)),
                ..late_features(vec![("featurize", 6)], vec![])
            },
        ),
        (
            Cause::Padding,
            MadeUp {
                valid_frames: 400,
                ..MadeUp::default()
            },
        ),
        (
            Cause::Oversubscribed,
            MadeUp {
                host_cpu: 100.0,
                process_cpu: 90.0,
                ..MadeUp::default()
            },
        ),
        (
            Cause::Interference,
            MadeUp {
                interference_ms: 130,
                stage_ms: vec![("featurize", 5)],
                ..MadeUp::default()
            },
        ),
    ];
    for (cause, made_up) in cases {
        let found = top(&made_up);
        assert_eq!(found.cause, cause, "{found:#?}");
        assert!(!found.evidence.is_empty(), "{cause:?} has evidence");
        assert!(!found.changes.is_empty(), "{cause:?} says what to do");
    }
}

#[test]
fn a_slower_step_beside_idle_workers_is_noise() {
    let noisy = MadeUp {
        interference_ms: 130,
        stage_ms: vec![("collate", 1)],
        ..MadeUp::default()
    };
    assert_eq!(top(&noisy).cause, Cause::StepBound);
}

#[test]
fn a_wait_counts_by_the_thresholds_that_users_know() {
    let waiting = |waited_ms| MadeUp {
        waited_ms,
        late: Some("prepare"),
        ..MadeUp::default()
    };
    assert_eq!(top(&waiting(3)).cause, Cause::StepBound);
    assert_eq!(top(&waiting(10)).level, Level::Warning);
    assert_eq!(top(&waiting(40)).level, Level::Bottleneck);
}

#[test]
fn more_workers_are_as_many_as_the_model_needs() {
    let found = top(&late_features(
        vec![("featurize", 17), ("featurize.decode", 8)],
        vec![("cache", "off")],
    ));
    // 8 clips of 17 ms are 136 ms of work, and a step takes 101.
    let advice = &found.changes[0];
    assert_eq!(advice.setting.as_deref(), Some("num_workers"));
    assert_eq!(advice.value.as_deref(), Some("2"));
}

#[test]
fn others_on_a_machine_of_which_the_process_may_use_a_part_are_found() {
    let of_64 = vec![("machine cores", "64"), ("cores", "2")];
    // The whole machine is full; this process has its two cores of it.
    let full_machine = MadeUp {
        host_cpu: 98.0,
        process_cpu: 190.0,
        facts: of_64.clone(),
        ..MadeUp::default()
    };
    // Only the two cores of this process are full, and not by itself.
    let full_share = MadeUp {
        host_cpu: 4.0,
        process_cpu: 90.0,
        allowed_cpu: Some((99.0, 2)),
        facts: of_64.clone(),
        ..MadeUp::default()
    };
    for (crowded, share) in [(full_machine, 0.95), (full_share, 0.54)] {
        let found = top(&crowded);
        assert_eq!(found.cause, Cause::Oversubscribed, "{found:?}");
        assert!((found.costs - share).abs() < 0.01, "{found:?}");
    }
    // It fills its own two cores: nobody else is to blame, however small a part they are.
    let alone = MadeUp {
        host_cpu: 4.0,
        process_cpu: 190.0,
        allowed_cpu: Some((97.0, 2)),
        facts: of_64,
        ..MadeUp::default()
    };
    assert_ne!(top(&alone).cause, Cause::Oversubscribed);
    let others = alone.run().others().unwrap_or(1.0);
    assert!(others < 0.05, "{others}");
}
