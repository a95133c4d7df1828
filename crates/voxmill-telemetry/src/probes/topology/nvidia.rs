//! What NVIDIA's management library knows of its cards and of the links between them.
//!
//! A library that is absent or broken knows nothing; the sampler's probe reports why.

use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus};

use super::{GpuFacts, Link, PciAddress, PcieLink, Source, Vendor};
use crate::probes::nvml::{load, pci_address};

/// In the library's order. Without the NUMA node: sysfs has the host's node that the card is on,
/// while NVML means a node that is made of the card's own memory, on machines that have such.
pub(super) fn cards(library: Option<&Path>) -> Vec<GpuFacts> {
    let Ok(nvml) = load(library) else {
        return Vec::new();
    };
    // A card that this process may not use is counted but not given.
    (0..nvml.device_count().unwrap_or(0))
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|gpu| {
            let memory = gpu.memory_info().ok();
            GpuFacts {
                name: gpu.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
                vendor: Vendor::Nvidia,
                pci: pci_address(&gpu),
                uuid: gpu.uuid().ok(),
                memory_total_bytes: memory.as_ref().map(|memory| memory.total),
                memory_free_bytes: memory.as_ref().map(|memory| memory.free),
                numa_node: None,
                pcie: PcieLink {
                    generation: gpu.current_pcie_link_gen().ok(),
                    width: gpu.current_pcie_link_width().ok(),
                    max_generation: gpu.max_pcie_link_gen().ok(),
                    max_width: gpu.max_pcie_link_width().ok(),
                }
                .known(),
                source: Source::Nvml,
            }
        })
        .collect()
}

/// The library, kept to be asked for several pairs.
pub(super) struct NvidiaLinks(Nvml);

impl NvidiaLinks {
    pub(super) fn load(library: Option<&Path>) -> Option<NvidiaLinks> {
        load(library).ok().map(NvidiaLinks)
    }

    /// `None` where one of them is not NVIDIA's, or the driver does not report it.
    pub(super) fn between(&self, a: &PciAddress, b: &PciAddress) -> Option<Link> {
        let device = |address: &PciAddress| self.0.device_by_pci_bus_id(address.to_string()).ok();
        let (a, b) = (device(a)?, device(b)?);
        // Asked of the pair and not of each card's links, so cards on one NVSwitch are found, too.
        if let Ok(P2pStatus::Ok) = a.p2p_status(&b, P2pCapabilitiesIndex::NvLink) {
            return Some(Link::Nvlink);
        }
        common_ancestor(&a, b)
    }
}

#[cfg(target_os = "linux")]
fn common_ancestor(a: &nvml_wrapper::Device<'_>, b: nvml_wrapper::Device<'_>) -> Option<Link> {
    use nvml_wrapper::enum_wrappers::device::TopologyLevel;

    Some(match a.topology_common_ancestor(b).ok()? {
        // Two GPUs on one board have a switch between them.
        TopologyLevel::Internal | TopologyLevel::Single => Link::Pix,
        TopologyLevel::Multiple => Link::Pxb,
        TopologyLevel::HostBridge => Link::Phb,
        TopologyLevel::Node => Link::Node,
        TopologyLevel::System => Link::Sys,
    })
}

/// NVIDIA reports it on Linux only.
#[cfg(not(target_os = "linux"))]
fn common_ancestor(_: &nvml_wrapper::Device<'_>, _: nvml_wrapper::Device<'_>) -> Option<Link> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::fake_sys::{FakeSys, link_between};
    use super::super::{gpus, links};
    use super::*;
    use crate::probes::Roots;

    /// The stub of the probes' tests has two cards; this is what it does not need to know of them.
    const STUB: &str = include_str!("../../../tests/probes_nvml/stub.rs");
    const LINKS: &str = r#"library! {
        fn nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, device: *mut Device) {
            match unsafe { std::ffi::CStr::from_ptr(address) }.to_bytes() {
                b"0000:01:00.0" => put(device, 1 as Device),
                b"0000:0a:00.0" => put(device, 2 as Device),
                _ => 6,
            }
        }
        fn nvmlDeviceGetTopologyCommonAncestor(a: Device, b: Device, level: *mut c_uint) {
            if a == b { UNKNOWN } else { put(level, LEVEL) }
        }
        fn nvmlDeviceGetP2PStatus(_a: Device, _b: Device, index: c_uint, status: *mut c_uint) {
            put(status, if index == 2 { NVLINK_STATUS } else { 0 })
        }
        fn nvmlDeviceGetCurrPcieLinkGeneration(device: Device, value: *mut c_uint) {
            put_unless_old(device, value, 1)
        }
    }"#;

    /// A tree, and a library of this test's own in it: the loader keeps one copy for each file.
    fn machine(sys: &FakeSys, links: &str) -> Roots {
        let source = sys.root().join("stub.rs");
        let library = sys.root().join("libstub.so");
        fs::write(&source, format!("{STUB}{links}")).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args(["--crate-type=cdylib", "--edition=2024", "--crate-name=stub"])
            .arg("-o")
            .arg(&library)
            .arg(&source)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        Roots {
            nvml_library: Some(library),
            ..sys.roots()
        }
    }

    fn with_links(level: u32, nvlink_status: u32) -> String {
        format!(
            "const LEVEL: c_uint = {level}; const NVLINK_STATUS: c_uint = {nvlink_status}; {LINKS}"
        )
    }

    /// The place of the stub's first card.
    const FIRST: &str = "pci0000:00/0000:00:01.0/0000:01:00.0";

    /// Puts the stub's cards into the tree.
    fn two_cards(sys: &FakeSys) -> [PciAddress; 2] {
        sys.device(FIRST);
        sys.device("pci0000:00/0000:00:03.0/0000:0a:00.0");
        ["0000:01:00.0", "0000:0a:00.0"].map(|address| address.parse().unwrap())
    }

    #[test]
    fn the_library_comes_first_and_sysfs_adds_what_it_does_not_know() {
        let sys = FakeSys::new();
        let roots = machine(&sys, &with_links(20, 5));
        sys.card(0, FIRST, "nvidia", "10DE:2684")
            .file("numa_node", "1\n");
        sys.card(1, "pci0000:00/0000:00:02.0", "i915", "8086:A780");
        let third = "pci0000:00/0000:00:04.0/0000:0b:00.0";
        sys.card(2, third, "nvidia", "10DE:1");
        let found = gpus(&roots);
        let names: Vec<&str> = found.iter().map(|gpu| gpu.name.as_str()).collect();
        let expected = "NVIDIA GeForce RTX 4090, Quadro K600, Intel GPU 8086:a780";
        let why = "nothing twice, and no card that NVML does not give";
        assert_eq!(names.join(", "), expected, "{why}");
        let modern = GpuFacts {
            name: "NVIDIA GeForce RTX 4090".to_owned(),
            vendor: Vendor::Nvidia,
            pci: Some("0000:01:00.0".parse().unwrap()),
            uuid: Some("GPU-5a1b7c2e".to_owned()),
            memory_total_bytes: Some(24 << 30),
            memory_free_bytes: Some(1 << 29),
            numa_node: Some(1),
            pcie: Some(PcieLink {
                generation: Some(1),
                width: None,
                max_generation: Some(4),
                max_width: Some(16),
            }),
            source: Source::Nvml,
        };
        assert_eq!(found[0], modern);
        assert_eq!(found[1].numa_node, None, "it is not in the tree");
        assert_eq!(found[1].uuid, None, "an old card");
        let table = links(&found, &roots);
        assert_eq!(table.between(0, 1), Some(Link::Pxb), "the library's answer");
        assert_eq!(table.between(0, 2), Some(Link::Phb), "the tree's");
    }

    #[test]
    fn nvlink_is_better_than_what_the_tree_shows() {
        let sys = FakeSys::new();
        let roots = machine(&sys, &with_links(50, 0));
        let [a, b] = two_cards(&sys);
        assert_eq!(link_between(&a, &b, &roots), Some(Link::Nvlink));
        assert_eq!(link_between(&a, &a, &roots), Some(Link::Same));
    }

    #[test]
    fn sysfs_answers_where_the_library_cannot() {
        let sys = FakeSys::new();
        let unknown_level = with_links(77, 5);
        let roots = machine(&sys, &unknown_level);
        let [a, b] = two_cards(&sys);
        assert_eq!(link_between(&a, &b, &roots), Some(Link::Phb));
        let old = FakeSys::new();
        let roots = machine(&old, "");
        assert_eq!(gpus(&roots).len(), 2, "a library without these functions");
        assert_eq!(link_between(&a, &b, &roots), None);
        two_cards(&old);
        assert_eq!(link_between(&a, &b, &roots), Some(Link::Phb));
    }
}
