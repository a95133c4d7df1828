//! The last stage of the road: batches come to the model device by way of the data device.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context as _;
use rayon::ThreadPool;
use voxmill_pipeline::stage::Work;
use voxmill_speech::batch::Batch;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId, Precision};
use voxmill_trainer::prepare::{Preparing, Ready};

use super::data_memory::{DataDoor, DataPools, NoRoom};
use crate::complaint::Complaint;
use crate::settings::{DeviceSettings, Devices, TrainSettings};

/// The devices of a run, open. With one device both are the same.
#[derive(Debug)]
pub(in crate::commands) struct Opened {
    pub(in crate::commands) data: Device,
    pub(in crate::commands) model: Device,
    pub(in crate::commands) data_pools: Arc<DataPools>,
}

pub(in crate::commands) fn open_devices(devices: Devices) -> anyhow::Result<Opened> {
    let open = |id: DeviceId| {
        device::open(id).map_err(|error| {
            Complaint::new(
                error.to_string(),
                "give another --device; --device cpu is always there",
            )
        })
    };
    Ok(Opened {
        data: open(devices.data())?,
        model: open(devices.model())?,
        data_pools: Arc::default(),
    })
}

/// What the model computes in on its device.
pub(in crate::commands) fn precision(
    settings: &DeviceSettings,
    opened: &Opened,
) -> Result<Precision, Complaint> {
    match settings.mixed_precision {
        true => half(settings.devices.model(), Precision::half_of(&opened.model)),
        false => Ok(Precision::Single),
    }
}

/// `found`: the 16 bits that the device has.
fn half(device: DeviceId, found: Option<Precision>) -> Result<Precision, Complaint> {
    found.ok_or_else(|| {
        Complaint::new(
            format!("--mixed-precision needs arithmetic in 16 bits, and {device} has neither bf16 nor f16"),
            "leave it out, or give --mixed-precision=false where a file turns it on",
        )
    })
}

/// One worker, and so one thread of the data device for the whole run. On the CPU it computes in a
/// pool of its own, so that it and the model never take turns on the same threads. `recipe` is given the
/// device that prepares.
pub(in crate::commands) fn stage(
    settings: &TrainSettings,
    opened: &Opened,
    recipe: impl FnOnce(&Device) -> Preparing,
) -> anyhow::Result<Work<Batch, Ready>> {
    let Opened {
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
    let hindrance = settings.feeding.hindrance.transfer;
    let recipe = recipe(prepares);
    // With `--prepare-on model` nothing comes to the data device.
    let has_door = devices.is_pair() && settings.devices.prepare_on != PrepareOn::Model;
    let door = has_door.then(|| DataDoor::new(settings, data, data_pools));
    Ok(Work::with_state(move || {
        let mut preparer = recipe.preparer();
        if let Some(lane) = &lane {
            preparer = preparer.in_lane(Arc::clone(lane));
        }
        if devices.are_lanes() {
            preparer = preparer.copying();
        }
        let mut door = door.clone();
        Ok::<_, Infallible>(move |batch: Batch| {
            std::thread::sleep(hindrance);
            let Some(door) = &mut door else {
                return Ok::<_, NoRoom>(preparer.prepare(batch));
            };
            let guest = door.let_in(&batch)?;
            let ready = preparer.prepare(batch);
            door.has_left(guest)?;
            Ok(ready)
        })
    }))
}

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
    use voxmill_trainer::device::Backend;

    use super::*;

    #[test]
    fn a_device_without_16_bits_is_named() {
        let id = DeviceId::new(Backend::Vulkan, 1);
        let refused = half(id, None).expect_err("it has none");
        let told = crate::complaint::describe(&refused.into());
        assert!(told.contains("vulkan:1 has neither bf16 nor f16"), "{told}");
        assert!(told.contains("--mixed-precision=false"), "{told}");
        assert_eq!(half(id, Some(Precision::F16)).ok(), Some(Precision::F16));
    }
}
