//! Random events of every kind that a log holds, for the tests.

use proptest::prelude::*;

use crate::event::*;
use crate::log::LOG_VERSION;
use crate::plan::{Plan, StagePlan};
use crate::shape::{Shape, StepShape};
use crate::stats::Histogram;

fn nanos() -> impl Strategy<Value = Nanos> {
    (0u32..64, any::<u64>()).prop_map(|(shift, bits)| Nanos(bits >> shift))
}

/// Few names, so that they meet; some that need escapes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("read".to_owned()),
        Just("featurize".to_owned()),
        Just(String::new()),
        any::<String>(),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("JSON has only finite numbers", |value| value.is_finite())
}

pub(crate) fn histogram() -> impl Strategy<Value = Histogram> {
    prop::collection::vec(nanos(), 0..20).prop_map(|spans| {
        let mut histogram = Histogram::default();
        for span in spans {
            histogram.record(span);
        }
        histogram
    })
}

fn wait_sum() -> impl Strategy<Value = WaitSum> {
    (any::<u64>(), nanos(), nanos()).prop_map(|(count, total, longest)| WaitSum {
        count,
        total,
        longest,
    })
}

fn wait() -> impl Strategy<Value = Wait> {
    prop::sample::select(vec![Wait::Input, Wait::Bytes, Wait::Slot, Wait::Output])
}

fn state() -> impl Strategy<Value = SlotState> {
    use SlotState::*;
    prop::sample::select(vec![Preparing, Ready, Training, Free])
}

fn stage_second() -> impl Strategy<Value = StageSecond> {
    let slow = (any::<u64>(), name(), nanos());
    let slow = slow.prop_map(|(item, name, service)| SlowItem {
        item,
        name,
        service,
    });
    (
        name(),
        histogram(),
        prop::collection::btree_map(wait(), wait_sum(), 0..4),
        prop::collection::vec(slow, 0..3),
    )
        .prop_map(|(stage, service, waits, slowest)| StageSecond {
            stage,
            service,
            waits,
            slowest,
        })
}

fn step() -> impl Strategy<Value = Step> {
    (
        any::<u64>(),
        nanos(),
        prop::option::of(name()),
        nanos(),
        nanos(),
        prop::option::of(shape()),
        prop::collection::btree_map(name(), float(), 0..3),
    )
        .prop_map(
            |(step, waited, late, service, overhead, shape, values)| Step {
                step,
                waited,
                late,
                service,
                overhead,
                shape,
                values,
                ..Step::default()
            },
        )
}

fn shape() -> impl Strategy<Value = StepShape> {
    prop_oneof![
        any::<(u32, u32, u32)>().prop_map(|(frames, tokens, rows)| {
            StepShape::Batch(Shape {
                frames,
                tokens,
                rows,
            })
        }),
        any::<u64>().prop_map(StepShape::Batches),
    ]
}

fn device_sample() -> impl Strategy<Value = DeviceSample> {
    let float = || prop::option::of(float());
    let whole = || prop::option::of(any::<u64>());
    (name(), float(), whole(), float(), whole()).prop_map(
        |(device, utilisation_percent, memory_used, power_watts, pcie_send)| DeviceSample {
            device,
            utilisation_percent,
            memory_used,
            power_watts,
            pcie_send,
            ..DeviceSample::default()
        },
    )
}

fn host_sample() -> impl Strategy<Value = HostSample> {
    let whole = || prop::option::of(any::<u64>());
    (prop::option::of(float()), whole(), whole()).prop_map(
        |(cpu_percent, process_memory, memory_available)| HostSample {
            cpu_percent,
            process_memory,
            memory_available,
            ..HostSample::default()
        },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    let change = prop_oneof![
        (any::<u64>(), any::<u64>()).prop_map(|(from, to)| DecidedChange::Workers { from, to }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(from, to)| DecidedChange::CapacityBack { from, to }),
        Just(DecidedChange::Settled),
    ];
    (name(), change, any::<String>()).prop_map(|(subject, change, reason)| Decision {
        subject,
        change,
        reason,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    use FaultKind::*;
    let kind = prop::sample::select(vec![Error, Panic, TooLarge, Setup]);
    let action = prop::sample::select(vec![
        FaultAction::Retried,
        FaultAction::Skipped,
        FaultAction::Stopped,
    ]);
    (name(), any::<u64>(), name(), kind, name(), action).prop_map(
        |(stage, item, name, kind, message, action)| Fault {
            stage,
            item,
            name,
            kind,
            message,
            action,
        },
    )
}

fn run_started() -> impl Strategy<Value = RunStarted> {
    let plan = prop::option::of(name()).prop_map(|name| {
        name.map(|name| Plan {
            stages: vec![StagePlan::new("featurize")],
            ..Plan::new(name, "train")
        })
    });
    let facts = prop::collection::btree_map(name(), name(), 0..3);
    (name(), float(), plan, facts).prop_map(|(name, unix_seconds, plan, facts)| RunStarted {
        log_version: LOG_VERSION,
        name,
        unix_seconds,
        program: "voxmill".to_owned(),
        plan,
        facts,
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let number = any::<u64>;
    let reason = prop::sample::select(vec![
        GateReason::Full,
        GateReason::Delay,
        GateReason::AllReady,
    ]);
    let outcome = prop::sample::select(vec![
        Outcome::Finished,
        Outcome::Interrupted,
        Outcome::Failed,
    ]);
    prop_oneof![
        run_started().prop_map(Event::RunStarted),
        outcome.prop_map(|outcome| Event::RunEnded { outcome }),
        (name(), number(), number()).prop_map(|(buffer, items, capacity)| Event::BufferLevel {
            buffer,
            items,
            capacity,
        }),
        (name(), number(), number(), number()).prop_map(|(budget, bytes, limit, peak)| {
            Event::BudgetLevel {
                budget,
                bytes,
                limit,
                peak,
            }
        }),
        (name(), number(), prop::option::of(number()), number()).prop_map(
            |(device, bytes, limit, peak)| {
                Event::DeviceMemory(DeviceMemory {
                    device,
                    bytes,
                    limit,
                    peak,
                })
            }
        ),
        stage_second().prop_map(Event::StageSecond),
        prop::collection::btree_map(state(), wait_sum(), 0..4)
            .prop_map(|states| Event::SlotSecond(SlotSecond { states })),
        (reason, nanos(), number()).prop_map(|(reason, waited, ready)| Event::GateOpened {
            reason,
            waited,
            ready,
        }),
        step().prop_map(Event::Step),
        name().prop_map(|phase| Event::PhaseBegan { phase }),
        device_sample().prop_map(Event::DeviceSample),
        host_sample().prop_map(Event::HostSample),
        decision().prop_map(Event::Decision),
        fault().prop_map(Event::Fault),
        (fault(), 0..u64::MAX / 1000).prop_map(|(fault, count)| Event::MoreFaults {
            stage: fault.stage,
            kind: fault.kind,
            action: fault.action,
            count,
        }),
        (number(), name(), number(), nanos()).prop_map(|(position, path, bytes, took)| {
            Event::Checkpoint {
                position,
                path,
                bytes,
                took,
            }
        }),
        (name(), number()).prop_map(|(stage, events)| Event::Lost { stage, events }),
    ]
}

pub(crate) fn stamped() -> impl Strategy<Value = Stamped> {
    (nanos(), event()).prop_map(|(at, event)| Stamped { at, event })
}

proptest! {
    #[test]
    fn every_kind_has_its_name_in_the_list(event in event()) {
        let value = serde_json::to_value(&event).unwrap();
        prop_assert!(Event::KINDS.contains(&value["event"].as_str().unwrap()));
    }
}
