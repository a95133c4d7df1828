//! The last stage of the road: batches come to the model device by way of the data device.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context as _;
use rayon::ThreadPool;
use voxmill_pipeline::stage::Work;
use voxmill_speech::batch::Batch;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId};
use voxmill_trainer::prepare::Ready;
use voxmill_trainer::train::Training;

use crate::complaint::Complaint;
use crate::settings::{Devices, TrainSettings};

/// The devices of a run, open. With one device both are the same.
#[derive(Debug)]
pub(in crate::commands) struct Opened {
    pub(in crate::commands) data: Device,
    pub(in crate::commands) model: Device,
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
    })
}

/// One worker, and so one thread of the data device for the whole run. On the CPU it computes in a
/// pool of its own, so that it and the model never take turns on the same threads.
pub(in crate::commands) fn stage(
    settings: &TrainSettings,
    training: &Training,
    Opened { data, model }: &Opened,
) -> anyhow::Result<Work<Batch, Ready>> {
    let devices = settings.devices.devices;
    // Frames that are made on the model device are also normalised there.
    let prepares = match settings.devices.prepare_on.0 {
        PrepareOn::Model => model,
        PrepareOn::Host | PrepareOn::Data => data,
    };
    let lane = device::is_cpu(prepares)
        .then(|| lane(settings))
        .transpose()?;
    let hindrance = settings.feeding.hindrance.transfer;
    let recipe = training.preparing(prepares, settings.devices.augment);
    Ok(Work::with_state(move || {
        let mut preparer = recipe.preparer();
        if let Some(lane) = &lane {
            preparer = preparer.in_lane(Arc::clone(lane));
        }
        if devices.are_lanes() {
            preparer = preparer.copying();
        }
        Ok::<_, Infallible>(move |batch: Batch| {
            std::thread::sleep(hindrance);
            Ok::<_, Infallible>(preparer.prepare(batch))
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
