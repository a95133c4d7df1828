//! Which GPUs the machine has and how they are linked: for choosing a pair of devices, and for
//! reporting at the start what was chosen and why.
//!
//! All of it is read once and given as plain data. A virtual machine shows the PCI tree that its
//! vendor invented, so there a link is a guess; between real slots it is what the copies go through.

mod address;
mod driver;
#[cfg(test)]
#[cfg(unix)]
mod fake_sys;
mod gpus;
mod links;
#[cfg(any(target_os = "linux", windows))]
mod nvidia;
mod pair;
mod pcie;

/// NVIDIA has no library for other systems.
#[cfg(not(any(target_os = "linux", windows)))]
mod nvidia {
    use std::path::Path;

    use super::{GpuFacts, Link, PciAddress};

    pub(super) fn cards(_: Option<&Path>) -> Vec<GpuFacts> {
        Vec::new()
    }

    #[derive(Debug)]
    pub(super) struct NvidiaLinks;

    impl NvidiaLinks {
        pub(super) fn load(_: Option<&Path>) -> Option<NvidiaLinks> {
            None
        }

        pub(super) fn between(&self, _: &PciAddress, _: &PciAddress) -> Option<Link> {
            None
        }
    }
}

pub use address::{InvalidPciAddress, PciAddress};
pub use driver::driver;
pub use gpus::{GpuFacts, Source, Vendor, gpus};
pub use links::{Link, Links, links};
pub use pair::{GpuPair, best_pair};
pub use pcie::PcieLink;
