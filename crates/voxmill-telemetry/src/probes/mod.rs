//! What the machine reports: its GPUs by their drivers, the host by the operating system.
//!
//! Nothing here is needed for a run. What the machine does not have is absent without complaint;
//! what it has but cannot be sampled is reported once, in words, by [`Probes::notes`]. A value that a
//! driver does not give is absent, never zero.

mod amd;
mod drm;
mod host;
mod intel;
mod machine;
mod memory;
#[cfg(any(target_os = "linux", windows))]
mod nvml;
mod quota;
mod rate;
mod sampler;
pub mod topology;

/// NVIDIA has no library for other systems.
#[cfg(not(any(target_os = "linux", windows)))]
mod nvml {
    pub(super) fn find(
        _: Option<&std::path::Path>,
        _: &mut Vec<String>,
    ) -> Vec<Box<dyn super::DeviceProbe>> {
        Vec::new()
    }
}

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use machine::{Host, cores, machine_cores, processor, status_bytes};
pub use memory::usable_memory;
pub use sampler::Sampler;

use crate::device::{DeviceIdentity, DeviceLabel};
use crate::event::{DeviceSample, Event, HostSample, Nanos};
use topology::PciAddress;

/// Where the machine's files are; tests give trees of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    pub proc: PathBuf,
    pub sys: PathBuf,
    /// The NVML library; `None` is the one that the system finds by its name.
    pub nvml_library: Option<PathBuf>,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            nvml_library: None,
        }
    }
}

/// What is known of a device once and for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbedDevice {
    /// What its samples are called: `nvidia0`, `amd0`, `intel0`, counted for each vendor.
    pub id: DeviceLabel,
    pub name: String,
    pub pci_address: Option<PciAddress>,
    /// The fastest generation that card and slot can agree on.
    pub pcie_generation: Option<u32>,
    /// The most lanes that card and slot can agree on.
    pub pcie_lanes: Option<u32>,
}

/// `NVIDIA GeForce RTX 4090, 0000:01:00.0, PCIe 4 x16`
impl fmt::Display for ProbedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(address) = &self.pci_address {
            write!(f, ", {address}")?;
        }
        if let Some(generation) = self.pcie_generation {
            write!(f, ", PCIe {generation}")?;
            if let Some(lanes) = self.pcie_lanes {
                write!(f, " x{lanes}")?;
            }
        }
        Ok(())
    }
}

/// A device that can be asked again and again.
trait DeviceProbe: fmt::Debug + Send {
    fn device(&self) -> &ProbedDevice;

    /// What the driver reports now; the error is why it will not report anything any more.
    fn sample(&mut self, now: Nanos) -> Result<DeviceSample, String>;
}

/// All that can be asked on this machine.
#[derive(Debug)]
pub struct Probes {
    devices: Vec<Box<dyn DeviceProbe>>,
    host: host::HostProbe,
    notes: Vec<String>,
}

impl Probes {
    /// Looks for devices once: one that is plugged in later is not seen.
    pub fn find(roots: &Roots) -> Probes {
        let mut notes = Vec::new();
        let mut devices = nvml::find(roots.nvml_library.as_deref(), &mut notes);
        devices.extend(drm::find(&roots.sys));
        Probes {
            devices,
            host: host::HostProbe::new(&roots.proc, &roots.sys),
            notes,
        }
    }

    /// The devices that still answer.
    pub fn devices(&self) -> impl Iterator<Item = &ProbedDevice> {
        self.devices.iter().map(|probe| probe.device())
    }

    /// The devices by name, as a run's first event shows them.
    pub fn facts(&self) -> BTreeMap<String, String> {
        self.devices()
            .map(|device| (device.id.to_string(), device.to_string()))
            .collect()
    }

    /// Fills in what each device's samples are called: those of the card at its address.
    pub fn name_samples(&self, devices: &mut [DeviceIdentity]) {
        for device in devices {
            let Some(address) = device.pci_address else {
                continue;
            };
            let mut probed = self.devices();
            let probed = probed.find(|probed| probed.pci_address == Some(address));
            device.sampled_as = probed.map(|probed| probed.id.clone());
        }
    }

    /// What went wrong so far, each thing once, in the order of time.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A `DeviceSample` for each device and one `HostSample`. Rates are since the sample before,
    /// so the first one has none. A device or host that reports nothing gives no event.
    pub fn sample(&mut self, now: Nanos) -> Vec<Event> {
        let mut events = Vec::new();
        let notes = &mut self.notes;
        self.devices.retain_mut(|probe| match probe.sample(now) {
            Ok(sample) => {
                if !is_empty(&sample) {
                    events.push(Event::DeviceSample(sample));
                }
                true
            }
            Err(reason) => {
                let device = probe.device();
                notes.push(format!(
                    "{} ({}) is no longer sampled: {reason}",
                    device.id, device.name
                ));
                false
            }
        });
        let host = self.host.sample(now);
        if host != HostSample::default() {
            events.push(Event::HostSample(host));
        }
        events
    }
}

fn is_empty(sample: &DeviceSample) -> bool {
    let device = sample.device.clone();
    *sample
        == DeviceSample {
            device,
            ..DeviceSample::default()
        }
}

/// What follows a prefix, in the first line that has it.
fn line_after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(prefix))
}

/// A file that the kernel writes one thing into.
fn read_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// A file that the kernel writes one number into.
fn read_number(path: &Path) -> Option<u64> {
    read_text(path)?.trim().parse().ok()
}
