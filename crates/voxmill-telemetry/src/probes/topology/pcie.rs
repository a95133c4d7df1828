//! A device's path through the PCI tree up to the host, and how fast that path is.

use std::fs;
use std::path::{Path, PathBuf};

use super::PciAddress;
use crate::probes::{read_number, read_text};

/// How fast a card and the host can talk. A card at rest turns its generation down to save power,
/// so only the greatest values show what a run will get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct PcieLink {
    pub generation: Option<u32>,
    /// Lanes.
    pub width: Option<u32>,
    /// What card and slot can agree on.
    pub max_generation: Option<u32>,
    /// What card and slot can agree on.
    pub max_width: Option<u32>,
}

impl PcieLink {
    /// Absent where nothing is known.
    pub(super) fn known(self) -> Option<PcieLink> {
        (self != PcieLink::default()).then_some(self)
    }

    /// Of all links on the path to the host the slowest. The card's own is not enough: AMD's and
    /// Intel's cards carry a switch, and the GPU's link to that is fast in any slot.
    pub(super) fn of_path(devices: &[PathBuf]) -> Option<PcieLink> {
        let now = slowest(devices, "current_link_speed", "current_link_width");
        let max = slowest(devices, "max_link_speed", "max_link_width");
        PcieLink {
            generation: now.map(|(generation, _)| generation),
            width: now.map(|(_, width)| width),
            max_generation: max.map(|(generation, _)| generation),
            max_width: max.map(|(_, width)| width),
        }
        .known()
    }
}

fn slowest(devices: &[PathBuf], speed: &str, width: &str) -> Option<(u32, u32)> {
    devices
        .iter()
        .filter_map(|device| {
            let generation = generation(&read_text(&device.join(speed))?)?;
            // No lanes: there is no link. 255: the kernel does not know.
            let width = u32::try_from(read_number(&device.join(width))?).ok()?;
            (1..=32).contains(&width).then_some((generation, width))
        })
        // Each generation is twice as fast as the one before.
        .min_by_key(|(generation, width)| width << generation)
}

/// `16.0 GT/s PCIe`; older kernels write `16 GT/s`, and `Unknown` stands for a link that is down.
fn generation(speed: &str) -> Option<u32> {
    let giga_transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let generations = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0];
    (1..)
        .zip(generations)
        .find_map(|(generation, speed)| (speed == giga_transfers).then_some(generation))
}

/// A device's place in the kernel's tree of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PciPath {
    /// `/sys/devices/pci0000:00`
    pub(super) host_bridge: PathBuf,
    /// From the host's port to the device itself; between them the ports of switches.
    pub(super) devices: Vec<PathBuf>,
}

impl PciPath {
    pub(super) fn find(address: &PciAddress, sys: &Path) -> Option<PciPath> {
        let device = fs::canonicalize(device_directory(address, sys)).ok()?;
        // A host bridge may itself hang below other devices, on ARM and in virtual machines, so the
        // path is followed from its lower end.
        let mut devices: Vec<PathBuf> = device
            .ancestors()
            .take_while(|path| name(path).is_some_and(|name| name.parse::<PciAddress>().is_ok()))
            .map(Path::to_path_buf)
            .collect();
        devices.reverse();
        let host_bridge = devices.first()?.parent()?.to_path_buf();
        let is_host_bridge = name(&host_bridge)?.starts_with("pci");
        is_host_bridge.then_some(PciPath {
            host_bridge,
            devices,
        })
    }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

pub(super) fn device_directory(address: &PciAddress, sys: &Path) -> PathBuf {
    sys.join("bus/pci/devices").join(address.to_string())
}

/// The kernel writes -1 where the firmware did not report it.
pub(super) fn numa_node(address: &PciAddress, sys: &Path) -> Option<u32> {
    let node = read_number(&device_directory(address, sys).join("numa_node"))?;
    u32::try_from(node).ok()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::fake_sys::FakeSys;
    use super::*;

    fn link_of(sys: &FakeSys, address: &str) -> Option<PcieLink> {
        PcieLink::of_path(&PciPath::find(&address.parse().unwrap(), sys.root())?.devices)
    }

    #[test]
    fn speeds_are_generations() {
        for (speed, expected) in [
            ("2.5 GT/s PCIe\n", Some(1)),
            ("5 GT/s", Some(2)),
            ("8.0 GT/s PCIe", Some(3)),
            ("32.0 GT/s PCIe", Some(5)),
            ("Unknown", None),
            ("Unknown speed", None),
            ("NaN GT/s", None),
            ("3 GT/s", None),
            ("", None),
        ] {
            assert_eq!(generation(speed), expected, "{speed}");
        }
    }

    #[test]
    fn the_slot_limits_a_card_with_a_switch_of_its_own() {
        let sys = FakeSys::new();
        let path = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0";
        let gpu = sys.device(path);
        gpu.link("16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16);
        let alone = link_of(&sys, "0000:03:00.0").unwrap();
        assert_eq!(alone.max_width, Some(16), "nothing else is known");
        let slot = sys.device("pci0000:00/0000:00:01.0/0000:01:00.0");
        slot.link("2.5 GT/s PCIe", 4, "16.0 GT/s PCIe", 16);
        let port = sys.device("pci0000:00/0000:00:01.0");
        port.link("2.5 GT/s PCIe", 4, "8.0 GT/s PCIe", 4);
        let expected = PcieLink {
            generation: Some(1),
            width: Some(4),
            max_generation: Some(3),
            max_width: Some(4),
        };
        assert_eq!(link_of(&sys, "0000:03:00.0"), Some(expected));
    }

    #[test]
    fn a_link_that_is_down_is_absent() {
        let sys = FakeSys::new();
        let gpu = sys.device("pci0000:00/0000:00:02.0");
        assert_eq!(link_of(&sys, "0000:00:02.0"), None);
        gpu.link("Unknown", 0, "Unknown", 255);
        assert_eq!(link_of(&sys, "0000:00:02.0"), None);
        gpu.link("Unknown", 0, "32.0 GT/s PCIe", 16);
        let link = link_of(&sys, "0000:00:02.0").unwrap();
        assert_eq!((link.generation, link.max_generation), (None, Some(5)));
    }

    #[test]
    fn a_host_bridge_may_be_anywhere() {
        let sys = FakeSys::new();
        for (bridge, domain) in [
            ("pci0000:00", "0000"),
            ("platform/soc/pci0002:00", "0002"),
            ("VMBUS:01/pcic5a1:00", "c5a1"),
        ] {
            let address = format!("{domain}:00:05.0");
            sys.device(&format!("{bridge}/{address}"));
            let path = PciPath::find(&address.parse().unwrap(), sys.root()).unwrap();
            assert!(path.host_bridge.ends_with(bridge), "{path:?}");
            assert_eq!(path.devices.len(), 1);
        }
    }

    #[test]
    fn what_is_not_in_the_tree_has_no_way() {
        let sys = FakeSys::new();
        let address: PciAddress = "0000:01:00.0".parse().unwrap();
        assert_eq!(PciPath::find(&address, sys.root()), None);
        // Not a link, a link to nowhere, and a link to what is no PCI device.
        sys.write("bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
        assert_eq!(PciPath::find(&address, sys.root()), None);
        fs::create_dir_all(sys.root().join("devices/virtual")).unwrap();
        for (address, target) in [("0000:02:00.0", "gone"), ("0000:03:00.0", "virtual")] {
            let link = format!("bus/pci/devices/{address}");
            sys.symlink(&link, &format!("devices/{target}"));
            assert_eq!(PciPath::find(&address.parse().unwrap(), sys.root()), None);
        }
    }

    #[test]
    fn a_node_that_firmware_did_not_tell_is_absent() {
        let sys = FakeSys::new();
        let gpu = sys.device("pci0000:00/0000:00:02.0");
        let address = "0000:00:02.0".parse().unwrap();
        for (text, expected) in [("1\n", Some(1)), ("-1\n", None), ("", None), ("x", None)] {
            gpu.file("numa_node", text);
            assert_eq!(numa_node(&address, sys.root()), expected, "{text}");
        }
    }
}
