//! GPUs that the kernel's own graphics drivers show in `/sys/class/drm`.
//!
//! NVIDIA's cards are there as well, but their driver reports nothing in sysfs; NVML is asked instead.

use std::fs;
use std::path::{Path, PathBuf};

use super::amd::AmdGpu;
use super::intel::{CounterLayout, IntelGpu};
use super::{DeviceProbe, ProbedDevice, line_after, read_text};

/// One card's directories.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// `/sys/class/drm/card0`
    pub(super) card: PathBuf,
    /// `/sys/class/drm/card0/device`: the PCI device.
    pub(super) device: PathBuf,
    /// The driver's own sensors.
    pub(super) hwmon: Option<PathBuf>,
}

impl Card {
    /// Whether the driver still has the card.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.device.is_dir() {
            Ok(())
        } else {
            Err("its driver has let go of it".to_owned())
        }
    }
}

/// All cards whose driver we can ask, in the order of their numbers.
pub(super) fn find(sys: &Path) -> Vec<Box<dyn DeviceProbe>> {
    let mut probes: Vec<Box<dyn DeviceProbe>> = Vec::new();
    let (mut amd, mut intel) = (0, 0);
    for path in numbered(&sys.join("class/drm"), "card") {
        let device = path.join("device");
        let Some(uevent) = read_text(&device.join("uevent")) else {
            continue;
        };
        let fact = |name: &str| line_after(&uevent, name);
        let Some(driver) = fact("DRIVER=") else {
            continue;
        };
        let card = Card {
            hwmon: hwmon(&device, driver),
            card: path,
            device,
        };
        let describe = |vendor: &str, id: String| ProbedDevice {
            id: id.into(),
            name: match fact("PCI_ID=") {
                Some(pci) => format!("{vendor} GPU {}", pci.to_lowercase()),
                None => format!("{vendor} GPU"),
            },
            pci_address: fact("PCI_SLOT_NAME=").and_then(|address| address.parse().ok()),
            ..ProbedDevice::default()
        };
        match driver {
            "amdgpu" => {
                let device = describe("AMD", format!("amd{amd}"));
                amd += 1;
                probes.push(Box::new(AmdGpu::new(device, card)));
            }
            "i915" | "xe" => {
                let layout = match driver {
                    "xe" => CounterLayout::Xe,
                    _ => CounterLayout::I915,
                };
                let device = describe("Intel", format!("intel{intel}"));
                intel += 1;
                probes.push(Box::new(IntelGpu::new(device, card, layout)));
            }
            _ => {}
        }
    }
    probes
}

/// A device may have several sets of sensors; the driver's own bears its name.
fn hwmon(device: &Path, driver: &str) -> Option<PathBuf> {
    numbered(&device.join("hwmon"), "hwmon")
        .into_iter()
        .find(|path| read_text(&path.join("name")).is_some_and(|name| name.trim() == driver))
}

/// The entries that are called `prefix` and a number (`card0`, not `card0-HDMI-A-1`), by number.
pub(super) fn numbered(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse();
            Some((number.ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
