//! Which device trains, and the refusal of all that this build cannot do.
//!
//! The flags for GPUs are known, because people's scripts and files have them; each says why it
//! cannot be had and what to do instead, rather than being passed over.

use super::Origin;
use super::resolver::Resolver;
use crate::args::DeviceArgs;
use crate::complaint::Complaint;
use crate::config::keys::{self, Key};
use crate::config::value::{FromValue, Value};

/// A device as it is typed: `auto`, `cpu`, `vulkan:0`. Its spelling has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceName(String);

impl FromValue for DeviceName {
    fn from_value(value: Value) -> Option<Self> {
        String::from_value(value).map(DeviceName)
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl DeviceName {
    fn is_auto(&self) -> bool {
        self.0 == "auto"
    }

    fn is_cpu(&self) -> bool {
        self.0 == "cpu"
    }

    fn backend(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }
}

/// A device that this build can train on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    Cpu,
}

impl Device {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Device::Cpu => "CPU",
        }
    }

    pub(super) fn resolve(r: &mut Resolver, args: DeviceArgs) -> anyhow::Result<Device> {
        let (name, origin) = match r.given(&keys::DEVICE, args.device) {
            Some((name, origin)) if !name.is_auto() => (name, origin),
            _ => (
                DeviceName("cpu".into()),
                Origin::Auto("the only device of this build"),
            ),
        };
        let device_is_typed = origin == Origin::Flag;
        let name = r.note(&keys::DEVICE, (name, origin));
        if !name.is_cpu() {
            return Err(no_backend(&r.called(&keys::DEVICE), &name).into());
        }

        let data_gpu = r.optional(&keys::DATA_GPU, args.data_gpu, "none");
        let model_gpu = r.optional(&keys::MODEL_GPU, args.model_gpu, "none");
        let data_device = r.optional(&keys::DATA_DEVICE, args.data_device, "the same");
        let model_device = r.optional(&keys::MODEL_DEVICE, args.model_device, "the same");
        let pairs = [&keys::DATA_GPU, &keys::MODEL_GPU];
        let devices = [&keys::DATA_DEVICE, &keys::MODEL_DEVICE];
        // A file written for two GPUs serves here too, when the flag says so.
        if !passed_over(r, &pairs, device_is_typed) {
            check_gpus(r, data_gpu.as_deref(), model_gpu.as_deref())?;
        }
        if !passed_over(r, &devices, device_is_typed) {
            check_devices(r, data_device.as_ref(), model_device.as_ref())?;
        }

        let data_limit = r.optional(&keys::DATA_GPU_MEMORY, args.data_gpu_memory, "none");
        let model_limit = r.optional(&keys::MODEL_GPU_MEMORY, args.model_gpu_memory, "none");
        let isolation = args.enable_memory_isolation;
        let isolation = r.pick(&keys::ENABLE_MEMORY_ISOLATION, isolation, false);
        let limits = [
            (data_limit.is_some(), &keys::DATA_GPU_MEMORY),
            (model_limit.is_some(), &keys::MODEL_GPU_MEMORY),
            (isolation, &keys::ENABLE_MEMORY_ISOLATION),
        ];
        if let Some((_, key)) = limits.into_iter().find(|(asked, _)| *asked) {
            return Err(Complaint::new(
                format!(
                    "{} limits the memory of a GPU, and this build trains on the CPU",
                    r.called(key)
                ),
                "leave it out; --ram-budget bounds the memory of clips and batches",
            )
            .into());
        }
        if r.pick(&keys::MIXED_PRECISION, args.mixed_precision, false) {
            return Err(Complaint::new(
                format!(
                    "{} needs a GPU: on the CPU this build computes in 32 bits only",
                    r.called(&keys::MIXED_PRECISION)
                ),
                "leave it out, or give --mixed-precision=false where a file turns it on",
            )
            .into());
        }
        Ok(Device::Cpu)
    }
}

/// Whether `--device` was typed and only the file says `keys`; a note tells it.
fn passed_over(r: &mut Resolver, keys: &[&'static Key], device_is_typed: bool) -> bool {
    let typed = keys.iter().any(|key| r.is_typed(key));
    if !device_is_typed || typed {
        return false;
    }
    for key in keys {
        if r.is_given(key) {
            let note = format!("{} is passed over: --device beats it", r.called(key));
            r.remark(note);
        }
    }
    true
}

fn check_gpus(r: &Resolver, data: Option<&str>, model: Option<&str>) -> Result<(), Complaint> {
    let called = |key| r.called(key);
    let (data_gpu, model_gpu) = (called(&keys::DATA_GPU), called(&keys::MODEL_GPU));
    match (data, model) {
        (None, None) => Ok(()),
        (Some(data), Some(model)) => Err(Complaint::new(
            format!(
                "Insufficient GPUs for Multi-GPU Mode: found 0 that this build can use, for {data_gpu} {data} and {model_gpu} {model}"
            ),
            "leave both out, or give --device cpu where a file has them: in single-device mode batches are made beside the model",
        )),
        (Some(one), None) => Err(alone(&data_gpu, one, "--model-gpu")),
        (None, Some(one)) => Err(alone(&model_gpu, one, "--data-gpu")),
    }
}

fn check_devices(
    r: &Resolver,
    data: Option<&DeviceName>,
    model: Option<&DeviceName>,
) -> Result<(), Complaint> {
    let (data_device, model_device) = (r.called(&keys::DATA_DEVICE), r.called(&keys::MODEL_DEVICE));
    let unknown = [(&data_device, data), (&model_device, model)];
    for (called, name) in unknown {
        if let Some(name) = name.filter(|name| !name.is_auto() && !name.is_cpu()) {
            return Err(no_backend(called, name));
        }
    }
    match (data, model) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) => Err(Complaint::new(
            format!(
                "{data_device} and {model_device} ask for two lanes on the CPU, which this version does not have"
            ),
            "leave both out: workers make batches beside the model; --num-workers and --compute-threads divide the cores",
        )),
        (Some(one), None) => Err(alone(&data_device, &one.0, "--model-device")),
        (None, Some(one)) => Err(alone(&model_device, &one.0, "--data-device")),
    }
}

fn alone(given: &str, value: &str, missing: &str) -> Complaint {
    Complaint::new(
        format!("{given} {value} is given without {missing}"),
        "two devices need both; leave it out for one device, which this build has",
    )
}

fn no_backend(called: &str, name: &DeviceName) -> Complaint {
    Complaint::new(
        format!(
            "{called} {}: this build has no `{}` backend",
            name.0,
            name.backend()
        ),
        "it trains on the CPU: leave the device out, or give --device cpu",
    )
}

#[cfg(test)]
impl std::str::FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = keys::DEVICE.kind.parse(text)?;
        DeviceName::from_value(value).ok_or_else(|| text.to_owned())
    }
}
