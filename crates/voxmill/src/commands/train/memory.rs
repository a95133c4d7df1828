//! Memory of the devices: whether a run fits, asked before it begins, and what it takes, looked at
//! while it runs.

use std::sync::Arc;

use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{Device, Precision, memory_in_use};
use voxmill_trainer::need::ModelNeed;
use voxmill_trainer::train::FeedError;

use super::data_memory::DataPools;
use crate::checks::Needs;
pub(super) use crate::checks::memory::megabytes;
use crate::checks::need::{ClipsOfAStep, largest_fitting};
use crate::complaint::Complaint;
use crate::config::value::show_bytes;
use crate::feed::train::BatchFeed;
use crate::settings::{DeviceSettings, TrainSettings};

/// What a run may take of a device, and who says so.
#[derive(Clone, Copy)]
struct Bound {
    bytes: u64,
    flag: Option<&'static str>,
}

impl Bound {
    fn of(limit: Option<u64>, free: Option<u64>, flag: &'static str) -> Option<Bound> {
        let limit = limit.map(|bytes| Bound {
            bytes,
            flag: Some(flag),
        });
        limit.or(free.map(|bytes| Bound { bytes, flag: None }))
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = show_bytes(self.bytes);
        match self.flag {
            Some(flag) => write!(f, "{flag} is {bytes}"),
            None => write!(f, "nine tenths of what is free there are {bytes}"),
        }
    }
}

/// Refuses a run that cannot fit, with what would.
pub(in crate::commands) fn check(
    settings: &TrainSettings,
    precision: Precision,
    batches: &BatchFeed,
) -> Result<Needs, Complaint> {
    let needs = Needs::of(settings, precision, batches.plan());
    let DeviceSettings {
        devices,
        limits,
        free,
        ..
    } = &settings.devices;
    let largest =
        |fits: &dyn Fn(&Needs) -> bool| largest_fitting(settings, precision, batches.plan(), fits);
    let data = Bound::of(limits.data, free.data, "--data-gpu-memory");
    if let Some(bound) = data.filter(|bound| needs.data > bound.bytes) {
        return Err(Complaint::new(
            format!(
                "{} cannot prepare the largest batch: that takes {}, and {bound}",
                devices.data(),
                megabytes(needs.data),
            ),
            fitting(
                largest(&|needs| needs.data <= bound.bytes),
                match settings.devices.prepare_on {
                    PrepareOn::Data => {
                        "shorter clips by --max-mel-frames, or --prepare-on host, take less"
                    }
                    PrepareOn::Host | PrepareOn::Model => {
                        "shorter clips by --max-mel-frames take less, and with --prepare-on model nothing comes there"
                    }
                },
            ),
        ));
    }
    let model = Bound::of(limits.model, free.model, "--model-gpu-memory");
    if let Some(bound) = model.filter(|bound| needs.on_model() > bound.bytes) {
        let other_ways = match settings.gradient_checkpointing {
            true => "a smaller --prefetch-buffer-size or --model-size takes less",
            false => {
                "--enable-gradient-checkpointing, a smaller --prefetch-buffer-size or a smaller --model-size takes less"
            }
        };
        let ModelNeed {
            weights,
            activations,
            batch,
        } = needs.model;
        return Err(Complaint::new(
            format!(
                "the run does not fit on {}: it needs {} ({} for weights, moments and kept references, {} for the largest batch in training, {} for {} batches), and {bound}",
                devices.model(),
                megabytes(needs.on_model()),
                megabytes(weights),
                megabytes(activations),
                megabytes(batch * needs.slots as u64),
                needs.slots,
            ),
            fitting(
                largest(&|needs| needs.on_model() <= bound.bytes),
                other_ways,
            ),
        ));
    }
    Ok(needs)
}

/// The largest batch that fits, with what keeps the effective batch; and what else would help.
fn fitting(smaller: Option<ClipsOfAStep>, other_ways: &str) -> String {
    match smaller {
        Some(smaller) => format!(
            "--batch-size {} fits, and with --grad-accum {} the model still learns from {} clips a step; or: {other_ways}",
            smaller.batch_size,
            smaller.accumulate,
            smaller.clips()
        ),
        None => format!("no batch fits: give more memory, or --device cpu; or: {other_ways}"),
    }
}

/// Bytes that a device's pools hold, and what they held before they gave back what was only kept for later, which
/// they do above the limit.
fn reserved(device: &Device, limit: Option<u64>) -> Option<(u64, u64)> {
    let most = memory_in_use(device)?.reserved;
    if limit.is_none_or(|limit| most <= limit) {
        return Some((most, most));
    }
    device.memory_cleanup();
    Some((memory_in_use(device)?.reserved, most))
}

/// Who reads the pools.
#[derive(Debug)]
pub(super) enum Pools {
    Model(Device),
    Data(Arc<DataPools>),
}

/// Looks at a device's pools while the run goes.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    pools: Pools,
    name: String,
    limit: Option<u64>,
    last: u64,
    peak: u64,
    /// Where growth is counted from: after all shapes have come by.
    settled: Option<(u64, u64)>,
    settle_after: u64,
    warned: bool,
    told_of_excess: bool,
}

/// More than this share above what it settled at is growth.
const GROWTH: f64 = 0.05;

impl MemoryWatch {
    /// `settle_after`: steps until every shape has been seen in steps as they will be from then on.
    pub(super) fn new(pools: Pools, name: String, limit: Option<u64>, settle_after: u64) -> Self {
        Self {
            pools,
            name,
            limit,
            last: 0,
            peak: 0,
            settled: None,
            settle_after,
            warned: false,
            told_of_excess: false,
        }
    }

    /// At the last look; `None` where the backend does not say.
    pub(super) fn now(&self) -> Option<u64> {
        (self.last > 0).then_some(self.last)
    }

    /// The device, and the most that its pools held; `None` where the backend does not say.
    pub(super) fn peak(&self) -> Option<(&str, u64)> {
        (self.peak > 0).then_some((&self.name, self.peak))
    }

    /// A warning to tell, or an error that ends the run: the limit holds.
    pub(super) fn look(
        &mut self,
        step: u64,
        recorder: &Recorder,
    ) -> Result<Option<String>, FeedError> {
        let (seen, flag) = match &self.pools {
            Pools::Model(device) => (reserved(device, self.limit), "--model-gpu-memory"),
            Pools::Data(pools) => {
                let seen = (pools.last(), pools.most());
                ((seen.1 > 0).then_some(seen), "--data-gpu-memory")
            }
        };
        let Some((bytes, most)) = seen else {
            return Ok(None);
        };
        self.last = bytes;
        self.peak = self.peak.max(most);
        recorder.record(Event::BudgetLevel {
            budget: format!("memory of {}", self.name),
            bytes,
            limit: self.limit.unwrap_or(0),
            peak: self.peak,
        });
        if let Some(limit) = self.limit.filter(|limit| bytes > *limit) {
            return Err(format!(
                "{} holds {} after step {step}, above {flag} {}; the run stops with its checkpoint, and a smaller --batch-size with --grad-accum goes on within the limit",
                self.name,
                megabytes(bytes),
                show_bytes(limit)
            )
            .into());
        }
        if let Some(limit) = self.limit.filter(|limit| most > *limit)
            && !self.told_of_excess
        {
            self.told_of_excess = true;
            return Ok(Some(format!(
                "{} held {}, above {flag} {}, until it gave back what was only kept for later",
                self.name,
                megabytes(most),
                show_bytes(limit)
            )));
        }
        Ok(self.growth(step, bytes))
    }

    fn growth(&mut self, step: u64, reserved: u64) -> Option<String> {
        let (since, before) = match self.settled {
            Some(settled) => settled,
            None => {
                if step >= self.settle_after {
                    self.settled = Some((step, reserved));
                }
                return None;
            }
        };
        let grown = reserved.saturating_sub(before);
        if self.warned || (grown as f64) < GROWTH * before as f64 {
            return None;
        }
        self.warned = true;
        let steps = (step - since).max(1);
        Some(format!(
            "memory on {} grows: {} more than at step {since}, about {} bytes a step",
            self.name,
            megabytes(grown),
            grown / steps
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_once_and_only_after_all_shapes_have_come_by() {
        let cpu = Pools::Model(voxmill_trainer::device::cpu());
        let mut watch = MemoryWatch::new(cpu, "cpu".to_owned(), None, 100);
        assert_eq!(watch.growth(50, 10_000_000), None);
        assert_eq!(watch.growth(100, 100_000_000), None, "it settles here");
        assert_eq!(watch.growth(200, 104_000_000), None);
        let told = watch.growth(300, 120_000_000).unwrap_or_default();
        assert!(told.contains("20MB more than at step 100"), "{told}");
        assert!(told.contains("100000 bytes a step"), "{told}");
        assert_eq!(watch.growth(400, 140_000_000), None);
    }

    #[test]
    fn a_data_device_above_its_limit_ends_the_run() {
        let pools = Arc::new(DataPools::default());
        let watched = Pools::Data(Arc::clone(&pools));
        let mut watch = MemoryWatch::new(watched, "vulkan:1".to_owned(), Some(1_000_000), 100);
        let recorder = Recorder::off();
        assert_eq!(
            watch.look(1, &recorder).unwrap(),
            None,
            "nothing was read yet"
        );
        pools.saw(900_000);
        assert_eq!(watch.look(2, &recorder).unwrap(), None);
        pools.saw(1_100_000);
        pools.saw(900_000);
        let told = watch.look(3, &recorder).unwrap().unwrap_or_default();
        assert!(
            told.contains("held 2MB, above --data-gpu-memory 1MB"),
            "{told}"
        );
        assert_eq!(watch.look(4, &recorder).unwrap(), None, "told once");
        pools.saw(2_000_000);
        let told = watch.look(3, &recorder).unwrap_err().to_string();
        assert!(
            told.contains("vulkan:1 holds 2MB") && told.contains("--data-gpu-memory"),
            "{told}"
        );
    }
}
