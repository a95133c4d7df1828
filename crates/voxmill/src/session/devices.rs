//! The devices of a run, and the last stage of its pipeline: batches come to the model device by way of
//! the data device.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rayon::ThreadPool;
use voxmill_data::batch::Batch;
use voxmill_pipeline::stage::Work;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId, Precision};
use voxmill_trainer::prepare::{Preparation, Preparer, ReadyBatch};

use voxmill_settings::error::UserError;
use voxmill_settings::{DeviceSettings, Devices, TrainSettings, open_device};
use voxmill_trainer::memory::{MemoryGate, NoRoom, PoolUsage};

/// The devices of a run, open. With one device both are the same.
#[derive(Debug)]
pub(crate) struct OpenDevices {
    pub(crate) data: Device,
    pub(crate) model: Device,
    pub(crate) data_pools: Arc<PoolUsage>,
}

impl OpenDevices {
    pub(crate) fn open(devices: Devices) -> anyhow::Result<OpenDevices> {
        Ok(OpenDevices {
            data: open_device(devices.data())?,
            model: open_device(devices.model())?,
            data_pools: Arc::default(),
        })
    }
}

/// What the model computes in on its device.
pub(crate) fn precision(
    settings: &DeviceSettings,
    opened: &OpenDevices,
) -> Result<Precision, UserError> {
    match settings.mixed_precision {
        true => half(settings.devices.model(), Precision::half_of(&opened.model)),
        false => Ok(Precision::Single),
    }
}

/// `found`: the 16 bits that the device has.
fn half(device: DeviceId, found: Option<Precision>) -> Result<Precision, UserError> {
    found.ok_or_else(|| {
        let what = format!(
            "--mixed-precision needs arithmetic in 16 bits, and {device} has neither bf16 nor f16"
        );
        let hint = "leave it out, or give --mixed-precision=false where a file turns it on";
        UserError::new(what, hint)
    })
}

/// How batches come to the model device. On the CPU they are prepared in a pool of their own, so that it and the model
/// never take turns on the same threads.
#[derive(Clone, Debug)]
pub(crate) struct PrepareRecipe {
    preparation: Preparation,
    lane: Option<Arc<ThreadPool>>,
    copies: bool,
    gate: Option<MemoryGate>,
}

impl PrepareRecipe {
    /// `preparation` is given the device that prepares.
    pub(crate) fn new(
        settings: &TrainSettings,
        opened: &OpenDevices,
        preparation: impl FnOnce(&Device) -> Preparation,
    ) -> anyhow::Result<PrepareRecipe> {
        let OpenDevices {
            data,
            model,
            data_pools,
        } = opened;
        let devices = settings.devices.devices;
        // Frames that are made on the model device are also normalised there.
        let prepares = match settings.devices.prepare_on {
            PrepareOn::Model => model,
            PrepareOn::Host | PrepareOn::Data => data,
        };
        let lane = device::is_cpu(prepares)
            .then(|| lane(settings))
            .transpose()?;
        // With `--prepare-on model` nothing comes to the data device.
        let is_gated = devices.is_pair() && settings.devices.prepare_on != PrepareOn::Model;
        Ok(PrepareRecipe {
            preparation: preparation(prepares),
            lane,
            copies: devices.are_lanes(),
            gate: is_gated.then(|| {
                let limit = settings.devices.limits.data;
                MemoryGate::new(devices.data(), data, limit, data_pools)
            }),
        })
    }

    /// Alongside the thread that prepares for training, on another.
    pub(crate) fn alongside(&self) -> Alongside {
        Alongside {
            preparing: Some(self.begin()),
            data: self.preparation.data.clone(),
        }
    }

    /// To be called on the thread that prepares.
    fn begin(&self) -> BatchPreparing {
        let mut preparer = self.preparation.preparer();
        if let Some(lane) = &self.lane {
            preparer = preparer.in_lane(Arc::clone(lane));
        }
        if self.copies {
            preparer = preparer.copying();
        }
        BatchPreparing {
            preparer,
            gate: self.gate.clone(),
        }
    }
}

/// Prepares one batch after another, each admitted to the data device before it comes there.
#[derive(Debug)]
struct BatchPreparing {
    preparer: Preparer,
    gate: Option<MemoryGate>,
}

impl BatchPreparing {
    fn prepare(&mut self, batch: Batch) -> Result<ReadyBatch, DataGpuFull> {
        let Some(gate) = &mut self.gate else {
            return Ok(self.preparer.prepare(batch));
        };
        let admitted = gate.admit(&batch).map_err(DataGpuFull)?;
        let ready = self.preparer.prepare(batch);
        gate.release(admitted).map_err(DataGpuFull)?;
        Ok(ready)
    }
}

/// What a thread prepares for a while, as batches of held-out clips are. What it took of the data device is given back:
/// each thread has pools of its own there, and a limit holds for all of them.
#[derive(Debug)]
pub(crate) struct Alongside {
    preparing: Option<BatchPreparing>,
    data: Device,
}

impl Alongside {
    /// Room that the other thread has is waited for.
    pub(crate) fn prepare(&mut self, batch: Batch) -> Result<ReadyBatch, DataGpuFull> {
        const LONGEST: Duration = Duration::from_secs(10);
        const INTERVAL: Duration = Duration::from_millis(20);
        let BatchPreparing { preparer, gate } = self.preparing.as_mut().expect("until the drop");
        let begin = Instant::now();
        while let Some(gate) = gate {
            match gate.admit(&batch) {
                Ok(_) => break,
                Err(full) if begin.elapsed() > LONGEST => return Err(DataGpuFull(full)),
                Err(_) => std::thread::sleep(INTERVAL),
            }
        }
        Ok(preparer.prepare(batch))
    }
}

impl Drop for Alongside {
    fn drop(&mut self) {
        let preparing = self.preparing.take();
        if preparing.is_some_and(|preparing| preparing.gate.is_some()) {
            self.data.memory_cleanup();
        }
    }
}

/// One worker, and so one thread of the data device for the whole run.
pub(crate) fn prepare_stage(
    settings: &TrainSettings,
    opened: &OpenDevices,
    preparation: impl FnOnce(&Device) -> Preparation,
) -> anyhow::Result<Work<Batch, ReadyBatch>> {
    let recipe = PrepareRecipe::new(settings, opened, preparation)?;
    let work = Work::with_state(move || {
        let mut preparing = recipe.begin();
        Ok::<_, Infallible>(move |batch: Batch| preparing.prepare(batch))
    });
    Ok(match settings.feeding.delays {
        None => work,
        Some(delays) => delays.of_transfer(work),
    })
}

/// The data device has no room for a batch, and the flags that change that.
#[derive(Debug, thiserror::Error)]
#[error("{0} (--data-gpu-memory); a smaller --batch-size with --grad-accum takes less")]
pub(crate) struct DataGpuFull(NoRoom);

/// With a single CPU the little that is to be done takes one thread, idle most of the time.
fn lane(settings: &TrainSettings) -> anyhow::Result<Arc<ThreadPool>> {
    let threads = match settings.devices.devices.are_lanes() {
        true => settings.feeding.lane_threads,
        false => 1,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("prepare-lane-{number}"))
        .build()
        .context("cannot start the threads that prepare")?;
    Ok(Arc::new(pool))
}

#[cfg(test)]
mod tests {
    use voxmill_data::batch_plan::Shape;
    use voxmill_trainer::device::{Backend, PoolMemory};
    use voxmill_trainer::memory::Admitted;

    use super::*;

    #[test]
    fn a_full_data_device_is_named_with_the_flags_that_help() {
        let full = DataGpuFull(NoRoom {
            device: DeviceId::new(Backend::Vulkan, 1),
            batch: Admitted {
                shape: Shape {
                    rows: 4,
                    frames: 640,
                    tokens: 96,
                },
                need: 12_000_000,
            },
            memory: PoolMemory {
                in_use: 9_000_000,
                reserved: 16_000_000,
            },
            limit: 20_000_000,
        });
        assert_eq!(
            full.to_string(),
            "vulkan:1 has no room for a batch of 4 clips of 640 frames: it takes 12MB there, the pools hold 16MB, of which \
             9MB are in use, and the limit is 20MB (--data-gpu-memory); a smaller --batch-size with --grad-accum takes less"
        );
    }

    #[test]
    fn a_device_without_16_bits_is_named() {
        let id = DeviceId::new(Backend::Vulkan, 1);
        let refused = half(id, None).expect_err("it has none");
        let text = voxmill_settings::error::describe(&refused.into());
        assert!(text.contains("vulkan:1 has neither bf16 nor f16"), "{text}");
        assert!(text.contains("--mixed-precision=false"), "{text}");
        assert_eq!(half(id, Some(Precision::F16)).ok(), Some(Precision::F16));
    }
}
