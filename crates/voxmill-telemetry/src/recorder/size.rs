//! How large a log gets: below 50 MB an hour, whatever the number of items and however they spread,
//! for a pipeline of eight stages and twenty steps a second.

use std::f64::consts::TAU;
use std::sync::Arc;

use super::faults::WRITTEN_IN_FULL;
use super::seconds::Seconds;
use super::{ItemEvent, LaneStage, Naming};
use crate::event::*;

const LIMIT: f64 = 50e6;
const STAGES: [&str; 8] = [
    "read",
    "decode",
    "resample",
    "featurize",
    "collate",
    "prepare",
    "transfer",
    "train",
];
const SECONDS: u64 = 5;

/// Numbers from 0 to 1 that look random and are the same each time.
struct SizeDraws(u64);

impl SizeDraws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-normal, with that standard deviation over mean.
    fn span(&mut self, mean_nanos: f64, variation: f64) -> Nanos {
        let sigma = (1.0 + variation * variation).ln().sqrt();
        let radius = (-2.0 * (1.0 - self.next()).ln()).sqrt();
        let normal = radius * (TAU * self.next()).cos();
        Nanos((mean_nanos * (sigma * normal - sigma * sigma / 2.0).exp()) as u64)
    }
}

fn line(at: Nanos, event: Event) -> usize {
    let stamped = Stamped { at, event };
    serde_json::to_vec(&stamped).unwrap().len() + 1
}

/// Every stage handles 10,000 items a second with 16 workers; times begin ten hours into a run,
/// where they have the most digits.
fn bytes_of_items(variation: f64) -> usize {
    let mut draws = SizeDraws(7);
    let mut seconds = Seconds::default();
    let naming: Naming = Arc::new(|item| format!("LJ{:03}-{:04}", item / 10_000, item % 10_000));
    let begin = 36_000;
    for (number, name) in STAGES.iter().enumerate() {
        let stage = LaneStage::new(number as u64, name);
        assert!(stage.naming.set(Arc::clone(&naming)).is_ok());
        let stage = Arc::new(stage);
        for second in begin..begin + SECONDS {
            let mut events = Vec::new();
            for index in 0..10_000 {
                let item = 360_000_000 + second * 10_000 + index;
                let start = Nanos(second * 1_000_000_000 + index * 90_000);
                let service = draws.span(1.6e6, variation);
                events.push(ItemEvent::Item {
                    item,
                    start: Nanos(start.0.saturating_sub(service.0)),
                    service,
                });
                for wait in [Wait::Input, Wait::Bytes, Wait::Output] {
                    events.push(ItemEvent::Wait {
                        wait,
                        item: Some(item).into(),
                        start,
                        waited: draws.span(1e5, variation),
                    });
                }
            }
            seconds.add(&stage, &events, 0);
        }
    }
    let mut lines = Vec::new();
    seconds.close_all(Nanos((begin + SECONDS) * 1_000_000_000), &mut lines);
    assert!(lines.len() as u64 >= SECONDS * STAGES.len() as u64);
    let sizes = lines.into_iter().map(|l| line(l.at, l.event));
    sizes.sum::<usize>() / SECONDS as usize
}

/// Steps, samples, levels, decisions and a flood of faults in one second.
fn bytes_of_the_rest() -> usize {
    let mut draws = SizeDraws(11);
    let at = Nanos(36_000_123_456_789);
    let mut events = Vec::new();
    for _ in 0..20 {
        let losses = ["loss", "mel_loss", "duration_loss", "grad_norm"];
        events.push(Event::Step(Step {
            step: 720_000,
            waited: draws.span(5e6, 0.5),
            late: Some("transfer".to_owned()),
            service: draws.span(45e6, 0.1),
            overhead: draws.span(1e5, 0.1),
            shape: "32x160x768".parse().ok(),
            ended: Some(Nanos(at.0 - 1_234_567_890)),
            values: losses.map(|name| (name.to_owned(), draws.next())).into(),
            ..Step::default()
        }));
    }
    events.extend(["cuda:0", "cuda:1", "cuda:0", "cuda:1"].map(|device| {
        Event::DeviceSample(DeviceSample {
            device: device.into(),
            utilisation_percent: Some(97.0),
            memory_used: Some(21_474_836_480),
            memory_total: Some(25_769_803_776),
            power_watts: Some(342.517),
            temperature_celsius: Some(71.0),
            clock_mhz: Some(1965.0),
            memory_clock_mhz: Some(10_501.0),
            pcie_receive: Some(12_345_678_901),
            pcie_send: Some(1_234_567_890),
        })
    }));
    events.push(Event::HostSample(HostSample {
        cpu_percent: Some(draws.next()),
        allowed_cpu: Some((87.3, 64).into()),
        group_cpu: Some((13.12, 16.0).into()),
        process_cpu_percent: Some(draws.next()),
        process_memory: Some(12_345_678_901),
        memory_available: Some(12_345_678_901),
        memory_total: Some(68_719_476_736),
        swap_used: Some(0),
        swap_traffic: Some(0),
        disk_read: Some(123_456_789),
        disk_write: Some(123_456_789),
    }));
    use SlotState::*;
    let sum = WaitSum::from((20, Nanos(987_654_321), Nanos(98_765_432)));
    let states = [Preparing, Ready, Training, Free].map(|state| (state, sum));
    let states = states.into();
    events.push(Event::SlotSecond(SlotSecond { states }));
    events.extend(STAGES.map(|stage| Event::BufferLevel {
        buffer: stage.to_owned(),
        items: 48,
        capacity: 50,
    }));
    events.extend(
        ["host", "cuda:0", "cuda:1"].map(|budget| Event::BudgetLevel {
            budget: budget.to_owned(),
            bytes: 12_345_678_901,
            limit: 25_769_803_776,
            peak: 12_345_678_901,
        }),
    );
    events.extend(["read", "decode"].map(|stage| Event::MoreFaults {
        stage: stage.to_owned(),
        kind: FaultKind::TooLarge,
        action: FaultAction::Retried,
        count: 10_000,
    }));
    // A controller decides once in a few seconds.
    let decision = Event::Decision(Decision {
        subject: "featurize".to_owned(),
        change: DecidedChange::WorkersBack { from: 12, to: 11 },
        reason: "throughput fell from 9,876.5 to 9,765.4 items a second".to_owned(),
    });
    let each_second = events.into_iter().map(|event| line(at, event));
    each_second.sum::<usize>() + line(at, decision) / 2
}

/// Faults that are written one by one, all within the hour.
fn bytes_of_faults() -> usize {
    let fault = Event::Fault(Fault {
        stage: "featurize".to_owned(),
        item: 360_000_000,
        name: "LJ001-0001".to_owned(),
        kind: FaultKind::TooLarge,
        message: "the clip is 12,345,678 bytes, more than the budget of 1,234,567".to_owned(),
        action: FaultAction::Skipped,
    });
    2 * WRITTEN_IN_FULL as usize * line(Nanos(36_000_123_456_789), fault)
}

/// The limit holds with losses at every step, which few runs read so often.
#[test]
fn an_hour_of_a_busy_run_is_below_the_limit() {
    let rest = bytes_of_the_rest();
    let faults = bytes_of_faults();
    for variation in [0.1, 0.5, 1.0, 2.0, 10.0] {
        let items = bytes_of_items(variation);
        let hour = ((items + rest) * 3600 + faults) as f64;
        println!(
            "variation {variation}: items {items} + rest {rest} bytes a second, {:.1} MB an hour",
            hour / 1e6
        );
        assert!(hour < LIMIT, "{hour} bytes at a variation of {variation}");
    }
}
