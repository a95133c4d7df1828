//! Which driver runs a card, by the kernel's own tree: it knows for every vendor.

use std::fs;

use super::PciAddress;
use super::pcie::device_directory;
use crate::probes::{Roots, read_text};

/// `nvidia 550.54.14`, `amdgpu`: its name, and its version where it has one apart from the kernel's.
/// `None` where no driver has the card, or the system does not report it.
pub fn driver(address: &PciAddress, roots: &Roots) -> Option<String> {
    let link = device_directory(address, &roots.sys).join("driver");
    let target = fs::read_link(link).ok()?;
    let name = target.file_name()?.to_str()?.to_owned();
    let version = read_text(&roots.sys.join("module").join(&name).join("version"));
    let version = version.as_deref().map(str::trim).unwrap_or_default();
    match version.is_empty() {
        true => Some(name),
        false => Some(format!("{name} {version}")),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::fake_sys::FakeSys;
    use super::*;

    #[test]
    fn a_driver_has_its_version_where_there_is_one() {
        let sys = FakeSys::new();
        let place = "pci0000:00/0000:00:01.0/0000:01:00.0";
        sys.device(place);
        let address = "0000:01:00.0".parse().unwrap();
        assert_eq!(driver(&address, &sys.roots()), None);
        sys.write("bus/pci/drivers/nvidia/bind", "");
        sys.symlink(&format!("devices/{place}/driver"), "bus/pci/drivers/nvidia");
        assert_eq!(driver(&address, &sys.roots()).unwrap(), "nvidia");
        sys.write("module/nvidia/version", "550.54.14\n");
        assert_eq!(driver(&address, &sys.roots()).unwrap(), "nvidia 550.54.14");
    }
}
