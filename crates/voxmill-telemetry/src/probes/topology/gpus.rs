//! The GPUs that a run could use: NVIDIA's by their library, the others by sysfs.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::pcie::{PciPath, PcieLink, numa_node};
use super::{PciAddress, nvidia};
use crate::probes::drm::numbered;
use crate::probes::{Roots, line_after, read_number, read_text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    Amd,
    Intel,
    Nvidia,
}

impl Vendor {
    /// The vendors whose cards can train. What virtual machines and the remote consoles of servers
    /// show a picture with is not theirs: Bochs 0x1234, virtio 0x1af4, VMware 0x15ad, QXL 0x1b36,
    /// Hyper-V 0x1414, VirtualBox 0x80ee, Cirrus 0x1013, ASPEED 0x1a03, Matrox 0x102b.
    fn by_number(number: u32) -> Option<Vendor> {
        match number {
            0x1002 => Some(Vendor::Amd),
            0x8086 => Some(Vendor::Intel),
            0x10de => Some(Vendor::Nvidia),
            _ => None,
        }
    }

    /// As it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Vendor::Amd => "AMD",
            Vendor::Intel => "Intel",
            Vendor::Nvidia => "NVIDIA",
        }
    }
}

/// Who reported a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Nvml,
    Sysfs,
}

/// What is known of a GPU before a run. What its driver does not report is absent, never zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    pub name: String,
    pub vendor: Vendor,
    pub pci: Option<PciAddress>,
    /// NVML's name for it; other drivers have none.
    pub uuid: Option<String>,
    /// Intel's drivers do not report it, nor do NVIDIA's without NVML.
    pub memory_total_bytes: Option<u64>,
    /// When it was asked; others may use the card, too.
    pub memory_free_bytes: Option<u64>,
    pub numa_node: Option<u32>,
    pub pcie: Option<PcieLink>,
    pub source: Source,
}

/// NVIDIA's in the order of their library, then the others in the order of their numbers; each PCI
/// address once. Neither order is that of a tensor library: match devices by their address.
pub fn gpus(roots: &Roots) -> Vec<GpuFacts> {
    let mut gpus = nvidia::cards(roots.nvml_library.as_deref());
    for gpu in &mut gpus {
        gpu.numa_node = gpu.pci.and_then(|pci| numa_node(&pci, &roots.sys));
    }
    let has_nvml = !gpus.is_empty();
    let cards = numbered(&roots.sys.join("class/drm"), "card");
    gpus.extend(cards.iter().filter_map(|card| {
        let device = card.join("device");
        let uevent = read_text(&device.join("uevent"))?;
        let fact = |name: &str| line_after(&uevent, name);
        // A container sees all cards in sysfs but only those in NVML that it may use.
        if has_nvml && fact("DRIVER=") == Some("nvidia") {
            return None;
        }
        let address = fact("PCI_SLOT_NAME=").and_then(|address| address.parse().ok());
        facts_in_sysfs(&device, fact("PCI_ID=")?, address, &roots.sys)
    }));
    let mut seen = BTreeSet::new();
    gpus.retain(|gpu| gpu.pci.is_none_or(|pci| seen.insert(pci)));
    gpus
}

fn facts_in_sysfs(
    device: &Path,
    pci_id: &str,
    pci: Option<PciAddress>,
    sys: &Path,
) -> Option<GpuFacts> {
    let (vendor, _) = pci_id.split_once(':')?;
    let vendor = Vendor::by_number(u32::from_str_radix(vendor, 16).ok()?)?;
    let product_name = read_text(&device.join("product_name"));
    let product_name = product_name.as_deref().map(str::trim).unwrap_or_default();
    let name = if product_name.is_empty() {
        format!("{} GPU {}", vendor.name(), pci_id.to_lowercase())
    } else {
        product_name.to_owned()
    };
    let total = read_number(&device.join("mem_info_vram_total"));
    let used = read_number(&device.join("mem_info_vram_used"));
    let path = pci.and_then(|pci| PciPath::find(&pci, sys));
    let devices = match path {
        Some(path) => path.devices,
        None => vec![fs::canonicalize(device).unwrap_or_else(|_| device.to_owned())],
    };
    Some(GpuFacts {
        name,
        vendor,
        pci,
        uuid: None,
        memory_total_bytes: total,
        memory_free_bytes: total
            .zip(used)
            .and_then(|(total, used)| total.checked_sub(used)),
        numa_node: pci.and_then(|pci| numa_node(&pci, sys)),
        pcie: PcieLink::of_path(&devices),
        source: Source::Sysfs,
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::fake_sys::FakeSys;
    use super::*;

    const SLOT: &str = "pci0000:00/0000:00:01.0/0000:01:00.0";

    fn one_gpu(sys: &FakeSys) -> GpuFacts {
        let mut found = gpus(&sys.roots());
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn a_machine_without_gpus_has_none() {
        assert_eq!(gpus(&FakeSys::new().roots()), []);
    }

    #[test]
    fn a_card_is_reported_in_full() {
        let sys = FakeSys::new();
        let place = "pci0000:40/0000:40:01.1/0000:41:00.0";
        let card = sys.card(0, place, "amdgpu", "1002:744C");
        card.file("mem_info_vram_total", "25753026560\n")
            .file("mem_info_vram_used", "1000000000\n")
            .file("numa_node", "1\n")
            .link("2.5 GT/s PCIe", 16, "16.0 GT/s PCIe", 16);
        let expected = GpuFacts {
            name: "AMD GPU 1002:744c".to_owned(),
            vendor: Vendor::Amd,
            pci: Some("0000:41:00.0".parse().unwrap()),
            uuid: None,
            memory_total_bytes: Some(25_753_026_560),
            memory_free_bytes: Some(24_753_026_560),
            numa_node: Some(1),
            pcie: Some(PcieLink {
                generation: Some(1),
                width: Some(16),
                max_generation: Some(4),
                max_width: Some(16),
            }),
            source: Source::Sysfs,
        };
        assert_eq!(gpus(&sys.roots()), [expected]);
        card.file("product_name", "AMD Radeon PRO W7900\n");
        assert_eq!(gpus(&sys.roots())[0].name, "AMD Radeon PRO W7900");
    }

    #[test]
    fn what_a_driver_does_not_report_is_absent() {
        let sys = FakeSys::new();
        sys.card(0, "pci0000:00/0000:00:02.0", "i915", "8086:A780");
        let card = sys.card(1, SLOT, "amdgpu", "1002:1");
        card.file("mem_info_vram_total", "lots\n")
            .file("mem_info_vram_used", "12\n")
            .file("product_name", "\n")
            .file("numa_node", "-1\n");
        let [intel, amd] = &gpus(&sys.roots())[..] else {
            panic!("two cards");
        };
        assert_eq!(intel.name, "Intel GPU 8086:a780");
        assert_eq!(intel.vendor, Vendor::Intel);
        assert_eq!(amd.name, "AMD GPU 1002:1");
        for gpu in [intel, amd] {
            let memory = (gpu.memory_total_bytes, gpu.memory_free_bytes);
            assert_eq!(memory, (None, None));
            assert_eq!((gpu.numa_node, gpu.pcie), (None, None));
        }
        card.file("mem_info_vram_total", "11\n");
        let amd = gpus(&sys.roots()).remove(1);
        let memory = (amd.memory_total_bytes, amd.memory_free_bytes);
        assert_eq!(memory, (Some(11), None), "more used than there is");
    }

    #[test]
    fn displays_of_virtual_machines_and_consoles_of_servers_are_no_gpus() {
        let sys = FakeSys::new();
        let ids = "1234:1111 1AF4:1050 15AD:0405 1B36:0100 1414:5353 80EE:BEEF 1013:00B8 \
                   1A03:2000 102B:0538 nonsense :: 1002";
        for (number, id) in (0..).zip(ids.split_whitespace()) {
            let place = format!("pci0000:00/0000:00:{number:02x}.0");
            sys.card(number, &place, "some-driver", id);
        }
        sys.write("class/drm/card90/device/uevent", "DRIVER=vc4\n");
        sys.write("class/drm/card91/device/uevent", "");
        sys.write("class/drm/card92/dev", "226:92\n");
        sys.write("class/drm/version", "drm 1.1.0\n");
        assert_eq!(gpus(&sys.roots()), []);
    }

    #[test]
    fn an_address_is_listed_once() {
        let sys = FakeSys::new();
        sys.card(0, SLOT, "amdgpu", "1002:74A1");
        sys.card(1, SLOT, "amdgpu", "1002:74A1");
        assert_eq!(gpus(&sys.roots()).len(), 1);
    }

    #[test]
    fn cards_are_listed_in_the_order_of_their_numbers() {
        let sys = FakeSys::new();
        for number in [10, 9, 1] {
            let place = format!("pci0000:00/0000:00:{number:02x}.0");
            sys.card(number, &place, "xe", &format!("8086:{number}"));
        }
        let names: Vec<String> = gpus(&sys.roots()).into_iter().map(|gpu| gpu.name).collect();
        let expected = "Intel GPU 8086:1, Intel GPU 8086:9, Intel GPU 8086:10";
        assert_eq!(names.join(", "), expected);
    }

    #[test]
    fn without_nvml_an_nvidia_card_is_known_by_sysfs() {
        let sys = FakeSys::new();
        sys.card(0, SLOT, "nvidia", "10DE:2684");
        let gpu = one_gpu(&sys);
        assert_eq!((gpu.vendor, gpu.source), (Vendor::Nvidia, Source::Sysfs));
        assert_eq!(gpu.memory_total_bytes, None);
    }

    #[test]
    fn a_card_whose_address_is_odd_is_still_a_card() {
        let sys = FakeSys::new();
        let card = sys.card(0, SLOT, "amdgpu", "");
        card.file("uevent", "PCI_ID=1002:744C\nPCI_SLOT_NAME=somewhere\n")
            .link("8.0 GT/s PCIe", 8, "8.0 GT/s PCIe", 8);
        let gpu = one_gpu(&sys);
        assert_eq!(gpu.pci, None);
        assert_eq!(gpu.pcie.unwrap().max_width, Some(8));
    }
}
