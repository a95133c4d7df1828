//! NVIDIA GPUs, by the management library (NVML) that comes with their driver.
//!
//! The library is loaded when the program runs, so one program serves machines with and without it.
//! Asking for the PCIe throughput takes some 20 ms each way by NVIDIA's documentation: that is how
//! long it counts. The sampler's thread spends them asleep.

use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::topology::PciAddress;
use super::{DeviceProbe, ProbedDevice};
use crate::event::{DeviceSample, Nanos};

/// All cards of the library; one note where the library is there but does not work.
pub(super) fn find(library: Option<&Path>, notes: &mut Vec<String>) -> Vec<Box<dyn DeviceProbe>> {
    let not_sampled = |error| format!("NVIDIA devices are not sampled: {error}");
    let nvml = match load(library) {
        Ok(nvml) => Arc::new(nvml),
        Err(error) => {
            notes.extend((!is_absence(&error)).then(|| not_sampled(error)));
            return Vec::new();
        }
    };
    let count = nvml.device_count().unwrap_or_else(|error| {
        notes.push(not_sampled(error));
        0
    });
    let mut probes: Vec<Box<dyn DeviceProbe>> = Vec::new();
    for index in 0..count {
        match NvidiaGpu::new(Arc::clone(&nvml), index) {
            Ok(gpu) => probes.push(Box::new(gpu)),
            Err(error) => notes.push(format!("nvidia{index} is not sampled: {error}")),
        }
    }
    probes
}

pub(super) fn load(library: Option<&Path>) -> Result<Nvml, NvmlError> {
    let mut builder = Nvml::builder();
    if let Some(path) = library {
        builder.lib_path(path.as_os_str());
    }
    builder.init()
}

/// Whether there is simply nothing of NVIDIA's here. A loader reports why it failed only as text.
fn is_absence(error: &NvmlError) -> bool {
    match error {
        NvmlError::LibloadingError(error) => {
            cfg!(windows) || error.to_string().contains("No such file")
        }
        NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded => true,
        _ => false,
    }
}

struct NvidiaGpu {
    nvml: Arc<Nvml>,
    index: u32,
    device: ProbedDevice,
}

impl std::fmt::Debug for NvidiaGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvidiaGpu")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl NvidiaGpu {
    fn new(nvml: Arc<Nvml>, index: u32) -> Result<NvidiaGpu, NvmlError> {
        let gpu = nvml.device_by_index(index)?;
        let device = ProbedDevice {
            id: format!("nvidia{index}").into(),
            name: gpu.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
            pci_address: pci_address(&gpu),
            pcie_generation: gpu.max_pcie_link_gen().ok(),
            pcie_lanes: gpu.max_pcie_link_width().ok(),
        };
        Ok(NvidiaGpu {
            nvml,
            index,
            device,
        })
    }

    fn ask(&self) -> Result<DeviceSample, NvmlError> {
        let gpu = self.nvml.device_by_index(self.index)?;
        let memory = known(gpu.memory_info())?;
        // NVML documents "KB", but not whether that is 1,000 or 1,024 bytes.
        let bytes = |kilobytes: u32| u64::from(kilobytes) * 1000;
        Ok(DeviceSample {
            device: self.device.id.clone(),
            utilisation_percent: known(gpu.utilization_rates())?.map(|rates| rates.gpu.into()),
            memory_used: memory.as_ref().map(|memory| memory.used),
            memory_total: memory.as_ref().map(|memory| memory.total),
            power_watts: known(gpu.power_usage())?.map(|milliwatts| f64::from(milliwatts) / 1e3),
            temperature_celsius: known(gpu.temperature(TemperatureSensor::Gpu))?.map(f64::from),
            clock_mhz: known(gpu.clock_info(Clock::Graphics))?.map(f64::from),
            memory_clock_mhz: known(gpu.clock_info(Clock::Memory))?.map(f64::from),
            pcie_receive: known(gpu.pcie_throughput(PcieUtilCounter::Receive))?.map(bytes),
            pcie_send: known(gpu.pcie_throughput(PcieUtilCounter::Send))?.map(bytes),
        })
    }
}

impl DeviceProbe for NvidiaGpu {
    fn device(&self) -> &ProbedDevice {
        &self.device
    }

    fn sample(&mut self, _now: Nanos) -> Result<DeviceSample, String> {
        self.ask().map_err(|error| error.to_string())
    }
}

/// A value, or none where the card or the driver does not give it. A device that is gone is an
/// error: each further question could hang in the driver.
fn known<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => Err(error),
        Err(_) => Ok(None),
    }
}

pub(super) fn pci_address(gpu: &nvml_wrapper::Device<'_>) -> Option<PciAddress> {
    gpu.pci_info().ok()?.bus_id.parse().ok()
}
