//! Devices by way of wgpu: which adapters there are, and logical devices on them.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use burn::tensor::wgpu::{WgpuBackend, WgpuSetup, wgpu};
use burn::tensor::{Device, DeviceKind, DeviceType};

use super::{Backend, DeviceId};

/// More of one kind than any machine has.
const MOST: usize = 16;

/// The adapters that a backend reaches, GPUs first.
pub(super) fn kinds(backend: Backend) -> Vec<DeviceKind> {
    let there = match backend {
        #[cfg(feature = "spirv")]
        Backend::Vulkan => Device::enumerate(DeviceType::Vulkan),
        #[cfg(feature = "metal")]
        Backend::Metal => Device::enumerate(DeviceType::Metal),
        _ => Device::enumerate(DeviceType::Wgpu),
    };
    let all = (0..MOST)
        .map(DeviceKind::DiscreteGpu)
        .chain((0..MOST).map(DeviceKind::IntegratedGpu))
        .chain((0..MOST).map(DeviceKind::VirtualGpu))
        .chain([DeviceKind::Cpu]);
    all.filter(|kind| there.contains(&device(backend, kind.clone())))
        .collect()
}

pub(super) fn is_software(kind: &DeviceKind) -> bool {
    *kind == DeviceKind::Cpu
}

/// Names a device; opens nothing.
fn device(backend: Backend, kind: DeviceKind) -> Device {
    match backend {
        #[cfg(feature = "spirv")]
        Backend::Vulkan => Device::vulkan(kind),
        #[cfg(feature = "metal")]
        Backend::Metal => Device::metal(kind),
        _ => Device::wgpu(kind),
    }
}

/// Devices that are open, with the handles that a second logical device is made from.
static OPEN: Mutex<Vec<(DeviceId, Device, WgpuSetup)>> = Mutex::new(Vec::new());

pub(super) fn open(id: DeviceId) -> Result<Device, String> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open_in(&mut open, id)
}

fn open_in(open: &mut Vec<(DeviceId, Device, WgpuSetup)>, id: DeviceId) -> Result<Device, String> {
    if let Some((_, device, _)) = open.iter().find(|(other, ..)| *other == id) {
        return Ok(device.clone());
    }
    let (device, setup) = match id.logical {
        0 => {
            let kind = kinds(id.backend).swap_remove(id.index);
            let api = match id.backend {
                Backend::Vulkan => WgpuBackend::Vulkan,
                Backend::Metal => WgpuBackend::Metal,
                _ => WgpuBackend::Auto,
            };
            let options = Device::wgpu_options().device_kind(kind).graphics_api(api);
            options
                .init_with_setup()
                .map_err(|error| error.to_string())?
        }
        _ => {
            let first = setup_of(open, DeviceId { logical: 0, ..id })?;
            let setup = second_logical(first, first.device.limits())?;
            let registered = Device::wgpu_options().setup(setup.clone()).init();
            (registered.map_err(|error| error.to_string())?, setup)
        }
    };
    open.push((id, device.clone(), setup));
    Ok(device)
}

fn setup_of(
    open: &mut Vec<(DeviceId, Device, WgpuSetup)>,
    id: DeviceId,
) -> Result<&WgpuSetup, String> {
    open_in(open, id)?;
    let found = open.iter().find(|(other, ..)| *other == id);
    let (_, _, setup) = found.ok_or("its adapter is not open")?;
    Ok(setup)
}

/// The driver of a device that is open, as it names itself.
pub(super) fn driver(id: DeviceId) -> Option<String> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, _, setup) = open.iter().find(|(other, ..)| *other == id)?;
    let info = setup.adapter.get_info();
    let driver = format!("driver {} {}", info.driver, info.driver_info);
    Some(driver.trim().to_owned())
}

/// A logical device of its own that refuses buffers above this many bytes.
#[cfg(test)]
pub(crate) fn open_small(largest_buffer: u64) -> Result<Device, String> {
    super::find::read_in_order();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = setup_of(&mut open, DeviceId::new(Backend::Wgpu, 0))?;
    let limits = wgpu::Limits {
        max_storage_buffer_binding_size: largest_buffer,
        max_buffer_size: largest_buffer,
        ..first.device.limits()
    };
    let setup = second_logical(first, limits)?;
    let registered = Device::wgpu_options().setup(setup).init();
    registered.map_err(|error| error.to_string())
}

/// Another device and queue on the same adapter.
fn second_logical(first: &WgpuSetup, limits: wgpu::Limits) -> Result<WgpuSetup, String> {
    let (device, queue) = match native_vulkan(first)? {
        Some(opened) => opened,
        None => {
            let wanted = wgpu::DeviceDescriptor {
                label: Some("a second logical device"),
                required_features: first.device.features(),
                required_limits: limits,
                ..Default::default()
            };
            now(first.adapter.request_device(&wanted))?.map_err(|error| error.to_string())?
        }
    };
    Ok(WgpuSetup {
        device,
        queue,
        ..first.clone()
    })
}

type Opened = (wgpu::Device, wgpu::Queue);

/// Kernels in SPIR-V need a device with extensions that wgpu does not know of; the library asks for those.
#[cfg(feature = "spirv")]
fn native_vulkan(first: &WgpuSetup) -> Result<Option<Opened>, String> {
    use burn_cubecl::cubecl::wgpu::vulkan::try_request_vulkan_device;
    if first.backend != wgpu::Backend::Vulkan {
        return Ok(None);
    }
    now(try_request_vulkan_device(&first.adapter))?.map_err(|error| error.to_string())
}

#[cfg(not(feature = "spirv"))]
fn native_vulkan(_: &WgpuSetup) -> Result<Option<Opened>, String> {
    Ok(None)
}

/// What a future gives at once: outside a browser, asking for a device does not wait.
fn now<T>(future: impl Future<Output = T>) -> Result<T, String> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err("the driver takes its time".to_owned()),
    }
}
