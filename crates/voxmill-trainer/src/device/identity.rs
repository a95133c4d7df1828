//! Which piece of hardware a device is. A backend's number does not tell: CUDA lists the fastest card first,
//! a driver the one in the first slot.

use super::find::with_open;
use super::{Device, DeviceError, DeviceId};

/// What the driver says of a device, as far as the tensor library passes it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// As it calls itself: `NVIDIA GeForce RTX 4090`.
    pub model: Option<String>,
    /// Where its card is on the bus: `0000:01:00.0`. `None` for what is no card, such as the CPU or a software GPU,
    /// and where the driver keeps it to itself.
    pub pci_address: Option<String>,
}

/// Opens the device, but computes nothing on it. Logical devices of one adapter are one card.
pub fn identity(id: DeviceId) -> Result<Identity, DeviceError> {
    let id = DeviceId { logical: 0, ..id };
    with_open(id, |device| Ok(of_device(&device)))
}

#[cfg(feature = "gpu")]
fn of_device(device: &Device) -> Identity {
    let Some(known) = device.identity() else {
        return Identity::default();
    };
    let address = known.physical.and_then(|card| card.pci_address);
    Identity {
        model: Some(known.name).filter(|name| !name.is_empty()),
        pci_address: address.map(|address| address.to_string()),
    }
}

/// Only the libraries for GPUs report it.
#[cfg(not(feature = "gpu"))]
fn of_device(_: &Device) -> Identity {
    Identity::default()
}

#[cfg(test)]
mod tests {
    use super::super::Backend;
    use super::*;

    #[test]
    fn the_cpu_is_no_card_and_what_is_not_there_is_nobody() {
        assert_eq!(identity(DeviceId::CPU), Ok(Identity::default()));
        let missing = identity(DeviceId::new(Backend::Wgpu, 99));
        assert!(missing.is_err(), "{missing:?}");
    }

    /// Where the test GPU is a card, its address is one that the bus has; a software GPU has a name only.
    #[cfg(feature = "wgpu")]
    #[test]
    fn the_gpu_has_a_name_and_a_card_an_address_on_every_device() {
        // The CPU's share of the check has no GPU.
        if super::super::test_devices().len() < 2 {
            return;
        }
        let id = DeviceId::new(Backend::Wgpu, 0);
        let known = identity(id).expect("the test GPU");
        assert!(known.model.is_some(), "{known:?}");
        let is_software = super::super::found(Backend::Wgpu).expect("the test GPU")[0].is_software;
        assert!(known.pci_address.is_none() || !is_software, "{known:?}");
        let logical = DeviceId { logical: 1, ..id };
        assert_eq!(identity(logical), Ok(known));
    }
}
