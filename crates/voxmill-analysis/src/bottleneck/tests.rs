use voxmill_telemetry::event::{Event, Stamped};

use super::*;
use crate::profile::profile;
use crate::synthetic::SyntheticRun;

fn top(run: &SyntheticRun) -> Finding {
    let mut findings = profile(&run.run()).findings;
    findings.remove(0)
}

/// A run that waits for its features, and what the stage spends its time on.
fn late_features(
    stage_ms: &[(&'static str, u64)],
    facts: &[(&'static str, &'static str)],
) -> SyntheticRun {
    SyntheticRun {
        stage_ms: stage_ms.to_vec(),
        facts: facts.to_vec(),
        ..late("featurize", 40)
    }
}

fn late(stage: &'static str, waited_ms: u64) -> SyntheticRun {
    SyntheticRun {
        waited_ms,
        late: Some(stage),
        ..SyntheticRun::default()
    }
}

#[test]
fn a_healthy_run_is_bound_by_its_steps_and_nothing_else() {
    let healthy = profile(&SyntheticRun::default().run());
    assert_eq!(healthy.findings.len(), 1, "{:#?}", healthy.findings);
    assert_eq!(healthy.findings[0].cause, Cause::StepBound);
    assert_eq!(healthy.findings[0].level, Level::Note);
}

#[test]
fn each_cause_is_found_by_its_signs() {
    let off = ("cache", "off");
    let (featurize, decode) = (("featurize", 17), ("featurize.decode", 8));
    let cases = [
        (
            Cause::SlowDisk,
            late_features(&[featurize, ("featurize.read", 14)], &[]),
        ),
        (
            Cause::SlowResampling,
            late_features(&[featurize, ("featurize.resample", 12)], &[]),
        ),
        (
            Cause::ColdCache,
            late_features(&[featurize, decode], &[("cache", "cold")]),
        ),
        (
            Cause::FewWorkers,
            late_features(&[featurize, decode], &[off]),
        ),
        (
            Cause::ModelTooSmall,
            late_features(&[("featurize", 40), decode], &[off]),
        ),
        (Cause::SlowTransfer, late("prepare", 60)),
        (Cause::SlowCollating, late("collate", 60)),
        (
            Cause::MemoryBudget,
            SyntheticRun {
                bytes_share: 0.6,
                ..late_features(&[("featurize", 3)], &[])
            },
        ),
        (
            Cause::SmallBuffer,
            SyntheticRun {
                slowest_ms: Some(("featurize", 400)),
                ..late_features(&[("featurize", 5)], &[("buffer", "1"), ("slots", "1")])
            },
        ),
        (
            Cause::HugeClip,
            SyntheticRun {
                slowest_ms: Some(("featurize", 4_000)),
                ..late_features(&[("featurize", 6)], &[])
            },
        ),
        (
            Cause::Padding,
            SyntheticRun {
                valid_frames: 400,
                ..SyntheticRun::default()
            },
        ),
        (
            Cause::Oversubscribed,
            SyntheticRun {
                host_cpu: 100.0,
                process_cpu: 90.0,
                ..SyntheticRun::default()
            },
        ),
        (
            Cause::Interference,
            SyntheticRun {
                interference_ms: 130,
                stage_ms: vec![("featurize", 5)],
                ..SyntheticRun::default()
            },
        ),
    ];
    for (cause, run) in cases {
        let found = top(&run);
        assert_eq!(found.cause, cause, "{found:#?}");
        assert!(!found.evidence.is_empty(), "{cause:?} has evidence");
        assert!(!found.changes.is_empty(), "{cause:?} advises a change");
    }
}

/// The probes name cards as their drivers count them, the run as the trainer does.
#[test]
fn memory_is_hardly_used_where_no_card_of_the_driver_is_full() {
    let found = |device, cards: &[(&'static str, Option<u64>)]| {
        let run = SyntheticRun {
            facts: vec![("device", device)],
            cards: cards.to_vec(),
            ..SyntheticRun::default()
        };
        let findings = profile(&run.run()).findings;
        let found = findings
            .into_iter()
            .find(|f| f.cause == Cause::BatchTooSmall);
        found.map(|found| (found.what, found.changes[0].clone()))
    };
    let (what, advice) = found("cuda:0", &[("nvidia0", Some(20))]).unwrap();
    assert_eq!(what, "at most 20 % of cuda:0's memory was used");
    let set = (
        advice.setting.map(AdvisedSetting::key),
        advice.value.as_deref(),
    );
    assert_eq!(set, (Some("batch_size"), Some("16")));
    let (what, _) = found("vulkan:1", &[("amd0", Some(10)), ("nvidia0", Some(25))]).unwrap();
    assert_eq!(
        what, "at most 25 % of vulkan:1's memory was used",
        "the fullest"
    );
    let full = [("nvidia0", Some(20)), ("nvidia1", Some(90))];
    assert_eq!(found("cuda:0", &full), None, "it may be the full one");
    let unknown = [("nvidia0", Some(20)), ("intel0", None)];
    assert_eq!(found("vulkan:0", &unknown), None, "it may be the other one");
    assert_eq!(found("cpu", &[("nvidia0", Some(20))]), None);
    assert_eq!(found("cuda:0", &[]), None, "no driver reports");
}

/// A log of this version says which card the model is on.
#[test]
fn memory_is_that_of_the_card_that_the_model_is_on() {
    let full = [("nvidia0", Some(90)), ("nvidia1", Some(20))];
    let found = |devices: &[(&'static str, Option<&'static str>)]| {
        let run = SyntheticRun {
            facts: vec![("device", "cuda:0")],
            cards: full.to_vec(),
            devices: devices.to_vec(),
            ..SyntheticRun::default()
        };
        let mut findings = profile(&run.run()).findings.into_iter();
        findings.any(|found| found.cause == Cause::BatchTooSmall)
    };
    assert!(found(&[("cuda:0", Some("nvidia1"))]));
    assert!(!found(&[("cuda:0", Some("nvidia0"))]));
    assert!(!found(&[("cuda:0", None)]), "it is not known which");
    assert!(
        !found(&[]),
        "an earlier version's log: the other one is full"
    );
}

fn on_gpu(utilisation: f64) -> SyntheticRun {
    SyntheticRun {
        facts: vec![("device", "cuda:0")],
        // The other card has nothing to do.
        cards: vec![("nvidia0", Some(50)), ("nvidia1", Some(50))],
        utilisation,
        devices: vec![("cuda:0", Some("nvidia1"))],
        ..SyntheticRun::default()
    }
}

#[test]
fn a_busy_gpu_whose_kernels_run_a_part_of_the_time_is_launch_bound() {
    let found = top(&on_gpu(40.0));
    assert_eq!(found.cause, Cause::LaunchBound, "{found:#?}");
    assert_eq!(
        (found.level, found.bound_by.as_str()),
        (Level::Warning, "launch-bound")
    );
    let set = &found.changes[0];
    let set = (set.setting.map(AdvisedSetting::key), set.value.as_deref());
    assert_eq!(set, (Some("batch_size"), Some("16")));
    let on_wgpu = SyntheticRun {
        facts: vec![("device", "wgpu:0")],
        devices: vec![("wgpu:0", Some("nvidia1"))],
        ..on_gpu(40.0)
    };
    assert!(top(&on_wgpu).changes[1].what.contains("--features vulkan"));
}

#[test]
fn what_is_close_to_launch_bound_is_not() {
    let never = [
        ("its kernels run most of the time", on_gpu(75.0)),
        (
            "it waits for batches",
            SyntheticRun {
                waited_ms: 60,
                late: Some("prepare"),
                ..on_gpu(40.0)
            },
        ),
        (
            "an earlier version's log",
            SyntheticRun {
                devices: Vec::new(),
                ..on_gpu(40.0)
            },
        ),
        (
            "a card without samples",
            SyntheticRun {
                devices: vec![("cuda:0", None)],
                ..on_gpu(40.0)
            },
        ),
        (
            "the CPU next to an idle card",
            SyntheticRun {
                facts: vec![("device", "cpu")],
                devices: vec![("cpu", None)],
                ..on_gpu(40.0)
            },
        ),
    ];
    for (why, run) in never {
        let findings = profile(&run.run()).findings;
        let found = findings.iter().find(|f| f.cause == Cause::LaunchBound);
        assert_eq!(found, None, "{why}");
    }
    // Kernels are still compiled and tuned: the card is idle, and the steps are long.
    let is_sample = |event: &Stamped| matches!(event.event, Event::DeviceSample(_));
    let (early, mut events): (Vec<Stamped>, Vec<Stamped>) =
        on_gpu(40.0).events().into_iter().partition(is_sample);
    events.splice(1..1, early);
    assert!(Run::of(&events).utilisation("cuda:0").is_empty());
}

#[test]
fn a_slower_step_next_to_idle_workers_is_noise() {
    let noisy = SyntheticRun {
        interference_ms: 130,
        stage_ms: vec![("collate", 1)],
        ..SyntheticRun::default()
    };
    assert_eq!(top(&noisy).cause, Cause::StepBound);
}

#[test]
fn a_wait_counts_by_the_thresholds_that_users_know() {
    assert_eq!(top(&late("prepare", 3)).cause, Cause::StepBound);
    assert_eq!(top(&late("prepare", 10)).level, Level::Warning);
    assert_eq!(top(&late("prepare", 40)).level, Level::Bottleneck);
}

#[test]
fn more_workers_are_as_many_as_the_model_needs() {
    let found = top(&late_features(
        &[("featurize", 17), ("featurize.decode", 8)],
        &[("cache", "off")],
    ));
    // 8 clips of 17 ms are 136 ms of work, and a step takes 101.
    let advice = &found.changes[0];
    assert_eq!(advice.setting.map(AdvisedSetting::key), Some("num_workers"));
    assert_eq!(advice.value.as_deref(), Some("2"));
}

#[test]
fn others_on_a_machine_of_which_the_process_may_use_a_part_are_found() {
    let on_2_of_64 = |host_cpu, process_cpu, allowed: Option<f64>| SyntheticRun {
        host_cpu,
        process_cpu,
        allowed_cpu: allowed.map(|percent| (percent, 2)),
        facts: vec![("machine cores", "64"), ("cores", "2")],
        ..SyntheticRun::default()
    };
    // The whole machine is full; this process has its two cores of it.
    let full_machine = on_2_of_64(98.0, 190.0, None);
    // Only the two cores of this process are full, and not by itself.
    let full_share = on_2_of_64(4.0, 90.0, Some(99.0));
    for (crowded, share) in [(full_machine, 0.95), (full_share, 0.54)] {
        let found = top(&crowded);
        assert_eq!(found.cause, Cause::Oversubscribed, "{found:?}");
        assert!((found.costs - share).abs() < 0.01, "{found:?}");
    }
    // It fills its own two cores: nobody else is to blame, however small a part they are.
    let alone = on_2_of_64(4.0, 190.0, Some(97.0));
    assert_ne!(top(&alone).cause, Cause::Oversubscribed);
    let others = alone.run().others().unwrap_or(1.0);
    assert!(others < 0.05, "{others}");
}
