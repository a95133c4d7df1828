//! Trees as in `/sys`, with the links that real ones have.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::links::link;
use super::nvidia::NvidiaLinks;
use super::{Link, PciAddress};
use crate::probes::Roots;

/// The link of one pair, with the library loaded for it alone.
pub(super) fn link_between(a: &PciAddress, b: &PciAddress, roots: &Roots) -> Option<Link> {
    let nvidia = NvidiaLinks::load(roots.nvml_library.as_deref());
    link(a, b, nvidia.as_ref(), &roots.sys)
}

pub(super) struct FakeSys(TempDir);

impl FakeSys {
    pub(super) fn new() -> FakeSys {
        FakeSys(tempfile::tempdir().unwrap())
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    /// A machine that has this tree and no NVML, whatever the tests run on.
    pub(super) fn roots(&self) -> Roots {
        Roots {
            proc: self.root().join("no-proc"),
            sys: self.root().to_owned(),
            nvml_library: Some(self.root().join("no-library")),
        }
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn symlink(&self, link: &str, target: &str) {
        let link = self.root().join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(self.root().join(target), link).unwrap();
    }

    /// A PCI device by its place below `devices`, such as `pci0000:00/0000:00:01.0/0000:01:00.0`,
    /// with all bridges above it.
    pub(super) fn device(&self, place: &str) -> FakeDevice {
        let mut directory = PathBuf::from("devices");
        for part in place.split('/') {
            directory.push(part);
            fs::create_dir_all(self.root().join(&directory)).unwrap();
            let link = format!("bus/pci/devices/{part}");
            if part.ends_with(|last: char| last.is_ascii_digit())
                && part.contains('.')
                && !self.root().join(&link).exists()
            {
                self.symlink(&link, directory.to_str().unwrap());
            }
        }
        FakeDevice(self.root().join(directory))
    }

    /// A card of the graphics drivers, and the PCI device that it is on.
    pub(super) fn card(&self, number: u32, place: &str, driver: &str, id: &str) -> FakeDevice {
        let device = self.device(place);
        let address = place.rsplit('/').next().unwrap();
        device.file(
            "uevent",
            &format!("DRIVER={driver}\nPCI_ID={id}\nPCI_SLOT_NAME={address}\n"),
        );
        let card = format!("devices/{place}/drm/card{number}");
        fs::create_dir_all(self.root().join(&card)).unwrap();
        self.symlink(&format!("{card}/device"), &format!("devices/{place}"));
        self.symlink(&format!("class/drm/card{number}"), &card);
        device
    }
}

pub(super) struct FakeDevice(PathBuf);

impl FakeDevice {
    pub(super) fn file(&self, name: &str, text: &str) -> &FakeDevice {
        fs::write(self.0.join(name), text).unwrap();
        self
    }

    pub(super) fn link(&self, speed: &str, width: u32, max_speed: &str, max_width: u32) {
        self.file("current_link_speed", &format!("{speed}\n"));
        self.file("current_link_width", &format!("{width}\n"));
        self.file("max_link_speed", &format!("{max_speed}\n"));
        self.file("max_link_width", &format!("{max_width}\n"));
    }
}
