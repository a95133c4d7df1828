//! Memory of the devices: whether a run fits, asked before it begins, and what it takes, looked at
//! while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use voxmill_telemetry::event::Event;
use voxmill_telemetry::recorder::Recorder;
use voxmill_trainer::device::{Device, Precision, memory_in_use};
use voxmill_trainer::need::ModelNeed;
use voxmill_trainer::train::FeedError;

use crate::checks::Needs;
pub(super) use crate::checks::memory::megabytes;
use crate::checks::need::Smaller;
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
    let mut needs = Needs::of(settings, precision, batches.plan());
    let DeviceSettings {
        devices,
        limits,
        free,
        ..
    } = &settings.devices;
    let data = Bound::of(limits.data, free.data, "--data-gpu-memory");
    if let Some(bound) = data.filter(|bound| needs.data > bound.bytes) {
        return Err(Complaint::new(
            format!(
                "{} cannot prepare the largest batch: that takes {}, and {bound}",
                devices.data(),
                megabytes(needs.data),
            ),
            fitting(needs.fitting_on_data(settings, bound.bytes), ""),
        ));
    }
    let model = Bound::of(limits.model, free.model, "--model-gpu-memory");
    if let Some(bound) = model {
        needs.drop_slots(
            bound.bytes,
            settings.feeding.device_slots,
            devices.is_pair(),
        );
    }
    if let Some(bound) = model.filter(|bound| needs.on_model() > bound.bytes) {
        let recomputing = match settings.gradient_checkpointing {
            true => "",
            false => "--enable-gradient-checkpointing or ",
        };
        let ModelNeed {
            weights,
            activations,
            batch,
        } = needs.model;
        return Err(Complaint::new(
            format!(
                "the run does not fit on {}: it needs {} ({} for weights and their moments, {} for the largest batch in training, {} for {} batches), and {bound}",
                devices.model(),
                megabytes(needs.on_model()),
                megabytes(weights),
                megabytes(activations),
                megabytes(batch * needs.slots as u64),
                needs.slots,
            ),
            fitting(needs.fitting_on_model(settings, bound.bytes), recomputing),
        ));
    }
    Ok(needs)
}

/// The largest batch that fits, with what keeps the effective batch; or what else would help.
fn fitting(smaller: Option<Smaller>, or_else: &str) -> String {
    match smaller {
        Some(smaller) => format!(
            "--batch-size {} fits, and with --grad-accum {} the model still learns from {} clips a step; {or_else}a smaller --prefetch-buffer-size takes less, too",
            smaller.batch_size, smaller.accumulate, smaller.clips_a_step
        ),
        None => format!(
            "no batch fits: give more memory, {or_else}a smaller --model-size, or --device cpu"
        ),
    }
}

/// What the data device's pools hold, as the thread that works on it reads them: the model's thread
/// never touches that device.
#[derive(Debug, Default)]
pub(in crate::commands) struct DataPools(AtomicU64);

impl DataPools {
    pub(super) fn look(&self, device: &Device, limit: Option<u64>) {
        self.0
            .store(reserved(device, limit).unwrap_or(0), Ordering::Relaxed);
    }
}

/// Bytes that a device's pools hold. Above the limit, what is only kept for later is given back first.
fn reserved(device: &Device, limit: Option<u64>) -> Option<u64> {
    let memory = memory_in_use(device)?;
    if limit.is_none_or(|limit| memory.reserved <= limit) {
        return Some(memory.reserved);
    }
    device.memory_cleanup();
    memory_in_use(device).map(|memory| memory.reserved)
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
        let (bytes, flag) = match &self.pools {
            Pools::Model(device) => (reserved(device, self.limit), "--model-gpu-memory"),
            Pools::Data(pools) => {
                let bytes = pools.0.load(Ordering::Relaxed);
                ((bytes > 0).then_some(bytes), "--data-gpu-memory")
            }
        };
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        self.last = bytes;
        self.peak = self.peak.max(bytes);
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
        pools.0.store(900_000, Ordering::Relaxed);
        assert_eq!(watch.look(2, &recorder).unwrap(), None);
        pools.0.store(2_000_000, Ordering::Relaxed);
        let told = watch.look(3, &recorder).unwrap_err().to_string();
        assert!(
            told.contains("vulkan:1 holds 2MB") && told.contains("--data-gpu-memory"),
            "{told}"
        );
    }
}
