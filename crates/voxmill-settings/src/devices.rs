//! Which devices prepare and train, what memory they may take, and in what precision.
//!
//! The flags for GPUs are known in every build, because people's scripts and files have them; what
//! this build or this machine cannot do says why and what to do instead.

mod choose;
mod copy;
mod found;
mod identity;
mod inventory;
#[cfg(test)]
mod tests;

use voxmill_telemetry::device::DeviceIdentity;
use voxmill_telemetry::probes::topology::Link;
use voxmill_trainer::checkpoint::PrepareOn;
use voxmill_trainer::device::{self, Device, DeviceId, Precision};
use voxmill_trainer::prepare::Augment;

pub use choose::{AvailableDevices, Devices};
pub(crate) use copy::Copied;
pub use found::FoundDevices;
pub use identity::{Identities, NoCard};
pub(crate) use inventory::Gpu;
#[cfg(test)]
pub(crate) use inventory::gpus;

use super::Origin;
use super::resolver::Resolver;
use crate::config::keys::{self, Key};
use crate::config::value::{FromValue, Value};
use crate::error::UserError;
use crate::note::Note;
use choose::{AskedDevices, choose};

/// Opens a device, or says what else may be asked for.
pub fn open_device(id: DeviceId) -> Result<Device, UserError> {
    device::open(id).map_err(|error| {
        let what = error.to_string();
        let hint = "give another --device; --device cpu is always there";
        UserError::new(what, hint)
    })
}

/// What is typed where a device is asked for: `auto`, `cpu`, `vulkan:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    Auto,
    Is(DeviceId),
}

impl FromValue for DeviceChoice {
    fn from_value(value: Value) -> Option<Self> {
        let text = String::from_value(value)?;
        match text.as_str() {
            "auto" => Some(DeviceChoice::Auto),
            id => id.parse().ok().map(DeviceChoice::Is),
        }
    }

    fn show(&self) -> String {
        match self {
            DeviceChoice::Auto => "auto".to_owned(),
            DeviceChoice::Is(id) => id.to_string(),
        }
    }
}

/// The device flags of `train`, for a verb that has no other settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFlags {
    pub device: Option<DeviceChoice>,
    pub data_gpu: Option<String>,
    pub model_gpu: Option<String>,
    pub data_device: Option<DeviceChoice>,
    pub model_device: Option<DeviceChoice>,
}

impl DeviceFlags {
    /// What a run with these flags would use, with what there is to say about it; `None` where none is given.
    pub fn choose(
        &self,
        available: &AvailableDevices,
    ) -> Result<Option<(Devices, Vec<Note>)>, UserError> {
        if *self == DeviceFlags::default() {
            return Ok(None);
        }
        let asked = AskedDevices {
            device: self.device.and_then(DeviceChoice::id),
            data_gpu: self.data_gpu.clone(),
            model_gpu: self.model_gpu.clone(),
            data_device: self.data_device,
            model_device: self.model_device,
        };
        let chosen = choose(&asked, available, &|key| key.flag())?;
        Ok(Some((chosen.devices, chosen.notes)))
    }
}

impl DeviceChoice {
    /// `None` is `auto`.
    pub fn id(self) -> Option<DeviceId> {
        match self {
            DeviceChoice::Auto => None,
            DeviceChoice::Is(id) => Some(id),
        }
    }
}

/// Where the model trains and where batches are prepared for it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSettings {
    pub devices: Devices,
    /// How the two are linked, where that is known.
    pub link: Option<Link>,
    /// Where sound becomes log-mel frames; until it is measured, `Host`.
    pub prepare_on: PrepareOn,
    /// Whether that is to be measured.
    pub measures_prepare_on: bool,
    pub augment: Augment,
    /// In 16 bits where it can be. Which kind, the open device says.
    pub mixed_precision: bool,
    /// Bytes that may be taken of each device, where a limit is given: it holds for the whole run.
    pub limits: MemoryLimits,
    /// Most of what is free, where it is known: what does not fit into it is not begun.
    pub free: MemoryLimits,
    /// The devices of the run by all their names, the model's first.
    pub identities: Vec<DeviceIdentity>,
}

/// Bytes of the device that prepares, and of the one that trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    pub data: Option<u64>,
    pub model: Option<u64>,
}

impl DeviceSettings {
    pub(super) fn resolve(
        r: &mut Resolver,
        available: &AvailableDevices,
    ) -> anyhow::Result<DeviceSettings> {
        let device: Option<(DeviceChoice, Origin)> = r.given(&keys::DEVICE);
        let device_is_typed = matches!(&device, Some((name, Origin::Flag)) if name.id().is_some());
        let data_gpu = r.optional(&keys::DATA_GPU);
        let model_gpu = r.optional(&keys::MODEL_GPU);
        let data_device = r.optional(&keys::DATA_DEVICE);
        let model_device = r.optional(&keys::MODEL_DEVICE);
        // A file written for two GPUs serves here too, when the flag names one device.
        let gpus = [&keys::DATA_GPU, &keys::MODEL_GPU];
        let pair = [&keys::DATA_DEVICE, &keys::MODEL_DEVICE];
        let named_gpus = !skipped(r, &gpus, device_is_typed);
        let named_pair = !skipped(r, &pair, device_is_typed);
        let asked = AskedDevices {
            device: device.as_ref().and_then(|(name, _)| name.id()),
            data_gpu: data_gpu.filter(|_| named_gpus),
            model_gpu: model_gpu.filter(|_| named_gpus),
            data_device: data_device.filter(|_| named_pair),
            model_device: model_device.filter(|_| named_pair),
        };
        let chosen = choose(&asked, available, &|key| r.label(key))?;
        let about = match r.is_given(&keys::MODEL_GPU) {
            true => &keys::MODEL_GPU,
            false => &keys::MODEL_DEVICE,
        };
        for note in chosen.notes {
            r.add_note(about, note);
        }
        let name = DeviceChoice::Is(chosen.devices.model());
        let origin = match device {
            Some((name, origin)) if name.id().is_some() => origin,
            _ => Origin::Auto(chosen.why),
        };
        r.record(&keys::DEVICE, (name, origin));

        let limits = limits(r, &chosen.devices)?;
        let is_pair = chosen.devices.is_pair();
        let place: String = r.pick(&keys::PREPARE_ON);
        let mut places = PrepareOn::ALL.into_iter();
        // `auto` is none of them.
        let place = places.find(|known| known.name() == place);
        let prepare_on = place.unwrap_or(PrepareOn::Host);
        if prepare_on == PrepareOn::Data && !is_pair {
            let what = format!(
                "{} data needs a device of its own for data, and one device does all here",
                r.label(&keys::PREPARE_ON)
            );
            let hint = "give two devices, or --prepare-on model";
            return Err(UserError::new(what, hint)
                .fix(&keys::PREPARE_ON, Some("host"))
                .into());
        }
        let masks = r.pick(&keys::AUGMENT_MASKS);
        let noise: Option<f64> = r.optional(&keys::AUGMENT_NOISE_DB);
        let augment = Augment {
            gain_db: r.pick::<f64>(&keys::AUGMENT_GAIN_DB) as f32,
            noise_snr_db: noise.map(|db| db as f32),
            time_masks: masks,
            channel_masks: masks,
        };
        let mixed_precision = mixed_precision(r, chosen.devices, device_is_typed)?;
        let free = free(r, chosen.devices, limits, available);
        let (data, model) = (chosen.devices.data(), chosen.devices.model());
        let all = [Some(model), is_pair.then_some(data)];
        Ok(DeviceSettings {
            devices: chosen.devices,
            link: choose::link(chosen.devices, available),
            prepare_on,
            // A single device has its hands full with the model.
            measures_prepare_on: place.is_none() && is_pair,
            augment,
            mixed_precision,
            limits,
            free,
            identities: (all.into_iter().flatten())
                .map(|id| available.identity(id))
                .collect(),
        })
    }

    /// What a run counts on before its device is open. Which 16 bits it has, only the open device says; either kind
    /// takes as much memory.
    pub fn planned_precision(&self) -> Precision {
        match self.mixed_precision {
            true => Precision::Bf16,
            false => Precision::Single,
        }
    }
}

/// Of a device's memory, what a run may count on; the rest is for the driver, for fragments and for others.
pub const USABLE_SHARE: f64 = 0.9;

/// What a run may count on of each device. A GPU of which that is not known, and that no limit is given for, is
/// not checked before the run begins, and a note says why.
fn free(
    r: &mut Resolver,
    devices: Devices,
    limits: MemoryLimits,
    available: &AvailableDevices,
) -> MemoryLimits {
    let (model, data) = match devices {
        Devices::Single(_) => (&keys::DEVICE, &keys::DEVICE),
        _ if r.is_given(&keys::MODEL_GPU) => (&keys::MODEL_GPU, &keys::DATA_GPU),
        Devices::Pair { .. } => (&keys::MODEL_DEVICE, &keys::DATA_DEVICE),
    };
    let mut usable = |id: DeviceId, limit: Option<u64>, key: &'static Key, flag: &str| {
        let free = available.free_bytes(id);
        let is_asked = available.identities.are_asked() && !id.is_cpu();
        if let (Err(why), true, None) = (&free, is_asked, limit) {
            let note = format!(
                "whether the run fits into the memory of {id} is not checked: {why}; --enable-memory-isolation with {flag} sets a limit that is",
            );
            r.add_note(key, note);
        }
        let free = free.ok()?;
        Some((free as f64 * USABLE_SHARE) as u64)
    };
    MemoryLimits {
        model: usable(devices.model(), limits.model, model, "--model-gpu-memory"),
        data: match devices {
            Devices::Single(_) => None,
            Devices::Pair { data: id, .. } => usable(id, limits.data, data, "--data-gpu-memory"),
        },
    }
}

/// The CPU could, and nobody would want it: its 16 bits are 32 that are rounded after every operation.
/// By how much it is slower was measured (`benches/records/training.md`).
fn mixed_precision(
    r: &mut Resolver,
    devices: Devices,
    device_is_typed: bool,
) -> anyhow::Result<bool> {
    let key = &keys::MIXED_PRECISION;
    // A file written for a GPU serves here too, when the flag names the CPU.
    if let Some((true, place @ Origin::File(_))) = r.given(key)
        && devices.model().is_cpu()
        && device_is_typed
    {
        let passed = format!("`{}` ({place}) is skipped: --device overrides it", key.name);
        r.add_note(key, passed);
        return Ok(r.record(key, (false, Origin::Auto("for the CPU"))));
    }
    let wanted: bool = r.pick(key);
    if !wanted || !devices.model().is_cpu() {
        return Ok(wanted);
    }
    let what = format!(
        "{} is for GPUs, and cpu trains: there 16 bits took at least twice the time of 32, and more memory",
        r.label(key)
    );
    let hint = "leave it out, or give --mixed-precision=false where a file turns it on";
    Err(UserError::new(what, hint).fix(key, Some("false")).into())
}

/// Whether `--device` was typed and only the file has `keys`; a note says so.
fn skipped(r: &mut Resolver, keys: &[&'static Key], device_is_typed: bool) -> bool {
    let typed = keys.iter().any(|key| r.is_typed(key));
    if !device_is_typed || typed {
        return false;
    }
    for key in keys {
        if r.is_given(key) {
            let note = format!("{} is skipped: --device overrides it", r.label(key));
            r.add_note(key, note);
        }
    }
    true
}

/// Limits act where there is a device to limit, and only with --enable-memory-isolation.
fn limits(r: &mut Resolver, devices: &Devices) -> anyhow::Result<MemoryLimits> {
    let data = r.optional(&keys::DATA_GPU_MEMORY);
    let model = r.optional(&keys::MODEL_GPU_MEMORY);
    let isolation: bool = r.pick(&keys::ENABLE_MEMORY_ISOLATION);
    let asked = [
        data.is_some().then_some(&keys::DATA_GPU_MEMORY),
        model.is_some().then_some(&keys::MODEL_GPU_MEMORY),
        isolation.then_some(&keys::ENABLE_MEMORY_ISOLATION),
    ];
    let asked: Vec<&'static Key> = asked.into_iter().flatten().collect();
    let Some(first) = asked.first() else {
        return Ok(MemoryLimits::default());
    };
    // Flags and files of a machine with GPUs serve on one without.
    if *devices == Devices::Single(DeviceId::CPU) {
        let limits: Vec<String> = asked.iter().map(|key| r.label(key)).collect();
        let note = format!(
            "the CPU alone trains, so there is no GPU whose memory could be limited; ignored: {}",
            limits.join(", ")
        );
        r.add_note(first, note);
        return Ok(MemoryLimits::default());
    }
    let (first, isolated) = (r.label(first), &keys::ENABLE_MEMORY_ISOLATION);
    let (what, hint, key, value) = if !devices.is_pair() && data.is_some() {
        (
            format!(
                "{first} limits the device that prepares batches, and here one device does both"
            ),
            "leave it out; --model-gpu-memory limits the one device",
            &keys::DATA_GPU_MEMORY,
            None,
        )
    } else if !isolation {
        (
            format!("{first} acts only with --enable-memory-isolation"),
            "give --enable-memory-isolation, or leave the limit out",
            isolated,
            Some("true"),
        )
    } else if data.is_none() && model.is_none() {
        (
            "--enable-memory-isolation has no limit to hold".to_owned(),
            "give --model-gpu-memory, --data-gpu-memory or both",
            isolated,
            Some("false"),
        )
    } else {
        return Ok(MemoryLimits { data, model });
    };
    Err(UserError::new(what, hint).fix(key, value).into())
}

#[cfg(test)]
impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = keys::DEVICE.kind.parse(text)?;
        DeviceChoice::from_value(value).ok_or_else(|| text.to_owned())
    }
}
