//! Finding devices, and opening one, without a panic.

use std::any::Any;

#[cfg(any(feature = "cuda", feature = "rocm"))]
use burn::tensor::DeviceType;

use super::{Backend, Device, DeviceError, DeviceId, cpu};
use crate::panics::quietly;

/// A device that a backend sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    pub id: DeviceId,
    /// It computes on the CPU's cores and only looks like a GPU.
    pub is_software: bool,
}

/// The devices of a backend, in the order of their numbers. Opens none of them.
pub fn found(backend: Backend) -> Result<Vec<FoundDevice>, DeviceError> {
    if !backend.is_compiled() {
        return Err(DeviceError::NotCompiled(backend));
    }
    let software =
        without_panic(|| list(backend)).map_err(|why| DeviceError::NoDriver { backend, why })?;
    let device = |(index, is_software)| FoundDevice {
        id: DeviceId::new(backend, index),
        is_software,
    };
    Ok(software.into_iter().enumerate().map(device).collect())
}

/// Whether each device of the backend is made of software.
fn list(backend: Backend) -> Vec<bool> {
    match backend {
        Backend::Cpu => vec![false],
        #[cfg(feature = "cuda")]
        Backend::Cuda => vec![false; Device::enumerate(DeviceType::Cuda).len()],
        #[cfg(feature = "rocm")]
        Backend::Rocm => vec![false; Device::enumerate(DeviceType::Rocm).len()],
        #[cfg(feature = "wgpu")]
        Backend::Wgpu | Backend::Vulkan | Backend::Metal => super::wgpu::kinds(backend)
            .iter()
            .map(super::wgpu::is_software)
            .collect(),
        #[cfg(not(all(feature = "wgpu", feature = "cuda", feature = "rocm")))]
        _ => Vec::new(),
    }
}

/// Opens a device that is there, and tries it with a small sum.
pub fn open(id: DeviceId) -> Result<Device, DeviceError> {
    with_open(id, |device| {
        let sum = burn::tensor::Tensor::<1>::from_floats([1.0, 2.0], &device).sum();
        match super::read_one(sum) {
            3.0 => Ok(device),
            wrong => Err(format!("it computes 1 + 2 as {wrong}")),
        }
    })
}

/// Opens a device that is there, and does something with it.
pub(super) fn with_open<T>(
    id: DeviceId,
    work: impl FnOnce(Device) -> Result<T, String>,
) -> Result<T, DeviceError> {
    let there = found(id.backend)?;
    if id.index >= there.len() {
        return Err(DeviceError::NoSuchIndex {
            id,
            found: there.len(),
        });
    }
    read_in_order();
    let opened = without_panic(|| work(open_found(id)?));
    let opened = opened.flatten();
    opened.map_err(|why| DeviceError::NotOpened { id, why })
}

/// As the device, what its kernels are compiled for and its driver name themselves; `None` for the CPU. What was found out
/// about a device holds for as long as this stays the same.
#[cfg(feature = "gpu")]
pub fn signature(id: DeviceId, device: &Device) -> Option<String> {
    let found = without_panic(|| device.clone().inner().identity());
    let found = found.ok().flatten()?;
    let mut parts = vec![found.name, found.fingerprint];
    let address = found.physical.and_then(|card| card.pci_address);
    parts.extend(address.map(|address| address.to_string()));
    parts.extend(driver(id));
    Some(parts.join(", "))
}

/// A build without GPUs has no device but the CPU.
#[cfg(not(feature = "gpu"))]
pub fn signature(_: DeviceId, _: &Device) -> Option<String> {
    None
}

#[cfg(feature = "gpu")]
fn driver(id: DeviceId) -> Option<String> {
    match id.backend {
        #[cfg(feature = "wgpu")]
        Backend::Wgpu | Backend::Vulkan | Backend::Metal => super::wgpu::driver(id),
        // The kernel's module and the driver's library have one version.
        Backend::Cuda => std::fs::read_to_string("/sys/module/nvidia/version")
            .ok()
            .map(|version| format!("driver {}", version.trim())),
        _ => None,
    }
}

/// Tuned kernels are kept in this folder, from start to start. Before the first device is opened: by itself the library
/// keeps them in the `target` folder of whatever Rust project the program is started in.
#[cfg(feature = "gpu")]
pub fn keep_kernels_in(folder: &std::path::Path) {
    use burn_cubecl::cubecl::config::cache::CacheConfig;
    use burn_cubecl::cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _};
    let mut config = CubeClRuntimeConfig::default();
    config.environment.path = CacheConfig::Directory(folder.to_owned());
    CubeClRuntimeConfig::try_set(config.override_from_env());
}

/// A build without GPUs compiles no kernels.
#[cfg(not(feature = "gpu"))]
pub fn keep_kernels_in(_: &std::path::Path) {}

/// What is read from a device is copied where it stands in the order of the device's work. By itself the library
/// copies at the first access to the bytes, whatever has become of them by then, and reports that nothing was waited for.
pub(super) fn read_in_order() {
    burn_std::set_runtime_kind(burn_std::RuntimeKind::Async);
}

fn open_found(id: DeviceId) -> Result<Device, String> {
    match id.backend {
        Backend::Cpu => Ok(cpu()),
        #[cfg(feature = "cuda")]
        Backend::Cuda => Ok(Device::cuda(id.index)),
        #[cfg(feature = "rocm")]
        Backend::Rocm => Ok(Device::rocm(id.index)),
        #[cfg(feature = "wgpu")]
        Backend::Wgpu | Backend::Vulkan | Backend::Metal => super::wgpu::open(id),
        #[cfg(not(all(feature = "wgpu", feature = "cuda", feature = "rocm")))]
        _ => Err("it is not part of this build".to_owned()),
    }
}

/// Runs what may panic, and returns the panic's message instead. The library panics where a driver is
/// missing; its message is for people, its backtrace is not.
pub fn without_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    quietly(work).map_err(|panic| panic_message(&*panic))
}

/// The first line of a panic's message, or of its last cause.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = (panic.downcast_ref::<String>().map(String::as_str))
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let message = message.unwrap_or("no reason given");
    let cause = message.rsplit("Caused by:").next().unwrap_or(message);
    let line = cause.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_becomes_a_sentence() {
        let why = without_panic(|| -> () { panic!("no driver: libnothing.so\nbacktrace") });
        assert_eq!(why, Err("no driver: libnothing.so".to_owned()));
        let why = without_panic(|| -> () {
            panic!("execution failed\nCaused by:\n  no room\nCaused by:\n  out of memory\ntrace")
        });
        assert_eq!(why, Err("out of memory".to_owned()));
        assert_eq!(without_panic(|| 3), Ok(3));
    }
}
