//! Random events of every kind that a log holds, for the tests.

use proptest::collection::{btree_map, vec};
use proptest::option::of as maybe;
use proptest::prelude::*;
use proptest::sample::select;

use crate::device::{DeviceIdentity, DeviceLabel};
use crate::event::*;
use crate::facts::{BucketFacts, DatasetFacts, LengthCount, RecordedSetting};
use crate::plan::{Plan, StagePlan};
use crate::probes::topology::PciAddress;
use crate::shape::{Shape, StepShape};
use crate::stats::Histogram;

/// A strategy for a struct or variant from strategies for its fields.
macro_rules! each {
    ($($type:ident)::+ { $($field:ident: $strategy:expr,)+ $(..$rest:expr)? }) => {
        ($($strategy,)+).prop_map(|($($field,)+)| $($type)::+ { $($field,)+ $(..$rest)? })
    };
}

/// The first event of a run.
pub(crate) fn started(plan: Option<Plan>) -> Event {
    Event::RunStarted(RunStarted {
        name: "demo".to_owned(),
        program: "test".to_owned(),
        plan,
        ..RunStarted::default()
    })
}

fn nanos() -> impl Strategy<Value = Nanos> {
    (0u32..64, number()).prop_map(|(shift, bits)| Nanos(bits >> shift))
}

fn number() -> impl Strategy<Value = u64> {
    any::<u64>()
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

fn device() -> impl Strategy<Value = DeviceLabel> {
    name().prop_map(DeviceLabel::from)
}

fn identity() -> impl Strategy<Value = DeviceIdentity> {
    let address = (any::<u32>(), any::<u8>(), 0u8..32, 0u8..8);
    let address = address.prop_map(|(domain, bus, device, function)| PciAddress {
        domain,
        bus,
        device,
        function,
    });
    each!(DeviceIdentity {
        device: device(),
        model: maybe(name()),
        pci_address: maybe(address),
        uuid: maybe(name()),
        sampled_as: maybe(device()),
    })
}

fn float() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("JSON has only finite numbers", |value| value.is_finite())
}

pub(crate) fn histogram() -> impl Strategy<Value = Histogram> {
    vec(nanos(), 0..20).prop_map(|spans| {
        let mut histogram = Histogram::default();
        for span in spans {
            histogram.record(span);
        }
        histogram
    })
}

fn wait_sum() -> impl Strategy<Value = WaitSum> {
    (number(), nanos(), nanos()).prop_map(WaitSum::from)
}

fn wait() -> impl Strategy<Value = Wait> {
    select(vec![Wait::Input, Wait::Bytes, Wait::Slot, Wait::Output])
}

pub(crate) fn state() -> impl Strategy<Value = SlotState> {
    use SlotState::*;
    select(vec![Preparing, Ready, Training, Free])
}

fn stage_second() -> impl Strategy<Value = StageSecond> {
    each!(StageSecond {
        stage: name(),
        service: histogram(),
        waits: btree_map(wait(), wait_sum(), 0..4),
        slowest: vec((number(), name(), nanos()).prop_map(SlowItem::from), 0..3),
    })
}

fn step() -> impl Strategy<Value = Step> {
    each!(Step {
        step: number(),
        waited: nanos(),
        late: maybe(name()),
        service: nanos(),
        overhead: nanos(),
        shape: maybe(shape()),
        values: btree_map(name(), float(), 0..3),
        ..Step::default()
    })
}

fn shape() -> impl Strategy<Value = StepShape> {
    let side = any::<u32>;
    let shape = each!(Shape {
        frames: side(),
        tokens: side(),
        rows: side(),
    });
    prop_oneof![
        shape.prop_map(StepShape::Batch),
        number().prop_map(StepShape::Batches),
    ]
}

fn device_sample() -> impl Strategy<Value = DeviceSample> {
    each!(DeviceSample {
        device: device(),
        utilisation_percent: maybe(float()),
        memory_used: maybe(number()),
        power_watts: maybe(float()),
        pcie_send: maybe(number()),
        ..DeviceSample::default()
    })
}

fn host_sample() -> impl Strategy<Value = HostSample> {
    each!(HostSample {
        cpu_percent: maybe(float()),
        process_memory: maybe(number()),
        memory_available: maybe(number()),
        ..HostSample::default()
    })
}

fn decision() -> impl Strategy<Value = Decision> {
    let change = prop_oneof![
        (number(), number()).prop_map(|(from, to)| DecidedChange::Workers { from, to }),
        (number(), number()).prop_map(|(from, to)| DecidedChange::CapacityBack { from, to }),
        Just(DecidedChange::Settled),
    ];
    each!(Decision {
        subject: name(),
        change: change,
        reason: any::<String>(),
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    use FaultAction::*;
    use FaultKind::*;
    each!(Fault {
        stage: name(),
        item: number(),
        name: name(),
        kind: select(vec![Error, Panic, TooLarge, Setup]),
        message: name(),
        action: select(vec![Retried, Skipped, Stopped]),
    })
}

fn run_started() -> impl Strategy<Value = RunStarted> {
    let plan = name().prop_map(|name| Plan {
        stages: vec![StagePlan::new("featurize")],
        ..Plan::new(name, "train")
    });
    each!(RunStarted {
        name: name(),
        unix_seconds: float(),
        program: name(),
        plan: maybe(plan),
        facts: btree_map(name(), name(), 0..3),
        devices: vec(identity(), 0..3),
        settings: vec(setting(), 0..3),
        ..RunStarted::default()
    })
}

fn setting() -> impl Strategy<Value = RecordedSetting> {
    each!(RecordedSetting {
        section: name(),
        name: name(),
        value: name(),
        origin: name(),
        given: maybe(name()),
    })
}

fn dataset() -> impl Strategy<Value = DatasetFacts> {
    let shape = (any::<u32>(), any::<u32>(), any::<u32>());
    let shape = shape.prop_map(|(frames, tokens, rows)| Shape {
        frames,
        tokens,
        rows,
    });
    let bucket = each!(BucketFacts {
        shape: shape,
        clips: number(),
        batches: number(),
    });
    let length = each!(LengthCount {
        seconds: float(),
        count: number(),
    });
    each!(DatasetFacts {
        rows: number(),
        clips: number(),
        validation: number(),
        lengths: vec(length, 0..3),
        buckets: vec(bucket, 0..3),
        quarantine: btree_map(name(), number(), 0..3),
        filtered: btree_map(name(), number(), 0..3),
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    use {GateReason::*, Outcome::*};
    let memory = each!(DeviceMemory {
        device: device(),
        bytes: number(),
        limit: maybe(number()),
        peak: number(),
    });
    let slots = btree_map(state(), wait_sum(), 0..4);
    prop_oneof![
        run_started().prop_map(Event::RunStarted),
        each!(Event::RunEnded {
            outcome: select(vec![Finished, Interrupted, Failed]),
        }),
        each!(Event::BufferLevel {
            buffer: name(),
            items: number(),
            capacity: number(),
        }),
        each!(Event::BudgetLevel {
            budget: name(),
            bytes: number(),
            limit: number(),
            peak: number(),
        }),
        memory.prop_map(Event::DeviceMemory),
        stage_second().prop_map(Event::StageSecond),
        slots.prop_map(|states| Event::SlotSecond(SlotSecond { states })),
        each!(Event::GateOpened {
            reason: select(vec![Full, Delay, AllReady]),
            waited: nanos(),
            ready: number(),
        }),
        step().prop_map(Event::Step),
        dataset().prop_map(Event::Dataset),
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
        each!(Event::Checkpoint {
            position: number(),
            path: name(),
            bytes: number(),
            took: nanos(),
        }),
        each!(Validated {
            step: number(),
            losses: btree_map(name(), float(), 0..3),
            better: any::<bool>(),
            took: nanos(),
        })
        .prop_map(Event::Validated),
        name().prop_map(|text| Event::Warned { text }),
        each!(Event::Lost {
            stage: name(),
            events: number(),
        }),
    ]
}

pub(crate) fn stamped() -> impl Strategy<Value = Stamped> {
    each!(Stamped {
        at: nanos(),
        event: event(),
    })
}

proptest! {
    #[test]
    fn every_kind_has_its_name_in_the_list(event in event()) {
        let value = serde_json::to_value(&event).unwrap();
        prop_assert!(Event::KINDS.contains(&value["event"].as_str().unwrap()));
    }
}
