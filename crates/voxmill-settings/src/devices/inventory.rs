//! Every device once, however many backends see it. Pure.
//!
//! A backend's device is the card at its address on the bus. One that has none is shown without a card, and
//! why; backends that share a library then count it alike.

use crate::NoCard;
use voxmill_telemetry::probes::topology::{GpuFacts, PciAddress};
use voxmill_trainer::device::{Backend, DeviceError, DeviceId, FoundDevice};

/// What each backend of this build found, or why nothing.
pub(crate) type Backends = [(Backend, Result<Vec<FoundDevice>, DeviceError>)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// As backends call it, the best first; none where no backend of this build reaches it.
    pub(crate) ids: Vec<DeviceId>,
    /// It computes on the CPU's cores and only looks like a GPU.
    pub(crate) is_software: bool,
    /// Its place in the list of the machine's cards.
    pub(crate) card: Option<usize>,
    /// Why that is not known.
    pub(crate) no_card: Option<NoCard>,
}

/// `address`: where each device is on the bus.
pub(crate) fn gpus(
    backends: &Backends,
    cards: &[GpuFacts],
    address: impl Fn(DeviceId) -> Result<PciAddress, NoCard>,
) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = (0..cards.len())
        .map(|card| Gpu {
            ids: Vec::new(),
            is_software: false,
            card: Some(card),
            no_card: None,
        })
        .collect();
    let mut others: Vec<(SameCard, Gpu)> = Vec::new();
    for (backend, found) in backends {
        let mut places = [0, 0];
        for device in found.as_deref().unwrap_or_default() {
            let place = &mut places[usize::from(device.is_software)];
            *place += 1;
            let (group, why) = match address(device.id) {
                Ok(at) => match cards.iter().position(|card| card.pci == Some(at)) {
                    Some(card) => {
                        gpus[card].ids.push(device.id);
                        continue;
                    }
                    None => (SameCard::At(at), NoCard::NotListed(at)),
                },
                Err(why) if device.is_software => (SameCard::Software(*place), why),
                Err(why) => (SameCard::Counted(library(*backend), *place), why),
            };
            add(&mut others, group, device, why);
        }
    }
    gpus.extend(others.into_iter().map(|(_, gpu)| gpu));
    gpus
}

/// What is one device though it is no card of the machine's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SameCard {
    At(PciAddress),
    /// The n-th of those that one library lists, whatever it speaks to the driver.
    Counted(Library, usize),
    Software(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Own(Backend),
    Wgpu,
}

fn library(backend: Backend) -> Library {
    match backend {
        Backend::Vulkan | Backend::Wgpu | Backend::Metal => Library::Wgpu,
        own => Library::Own(own),
    }
}

fn add(others: &mut Vec<(SameCard, Gpu)>, group: SameCard, device: &FoundDevice, why: NoCard) {
    let mut same = others.iter_mut();
    match same.find(|(other, _)| *other == group) {
        Some((_, gpu)) => gpu.ids.push(device.id),
        None => {
            let gpu = Gpu {
                ids: vec![device.id],
                is_software: device.is_software,
                card: None,
                no_card: Some(why),
            };
            others.push((group, gpu));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_telemetry::probes::topology::{Source, Vendor};

    fn at(slot: u8) -> PciAddress {
        PciAddress {
            domain: 0,
            bus: slot,
            device: 0,
            function: 0,
        }
    }

    fn card(vendor: Vendor, slot: u8) -> GpuFacts {
        GpuFacts {
            name: vendor.name().to_owned(),
            vendor,
            pci: Some(at(slot)),
            uuid: None,
            memory_total_bytes: None,
            memory_free_bytes: None,
            numa_node: None,
            pcie: None,
            source: Source::Sysfs,
        }
    }

    fn found(backend: Backend, kinds: &[bool]) -> (Backend, Result<Vec<FoundDevice>, DeviceError>) {
        let devices = kinds
            .iter()
            .enumerate()
            .map(|(index, &is_software)| FoundDevice {
                id: DeviceId::new(backend, index),
                is_software,
            });
        (backend, Ok(devices.collect()))
    }

    fn names(gpu: &Gpu) -> Vec<String> {
        gpu.ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_card_that_three_backends_see_is_one_whatever_their_orders() {
        let backends = [
            found(Backend::Cuda, &[false]),
            found(Backend::Vulkan, &[false, false, true]),
            found(Backend::Wgpu, &[false, false, true]),
        ];
        let cards = [card(Vendor::Intel, 0), card(Vendor::Nvidia, 1)];
        let address = |id: DeviceId| match (id.backend, id.index) {
            (Backend::Cuda, _) | (_, 0) => Ok(at(1)),
            (_, 1) => Ok(at(0)),
            _ => Err(NoCard::Software),
        };
        let all = gpus(&backends, &cards, address);
        assert_eq!(all.len(), 3);
        assert_eq!(names(&all[1]), ["cuda:0", "vulkan:0", "wgpu:0"]);
        assert_eq!(names(&all[0]), ["vulkan:1", "wgpu:1"]);
        assert_eq!(names(&all[2]), ["vulkan:2", "wgpu:2"]);
        assert!(all[2].is_software && all[2].card.is_none());
    }

    #[test]
    fn a_card_that_no_backend_reaches_is_still_there() {
        let nobody = |_| Err(NoCard::NoAddress);
        let all = gpus(&[], &[card(Vendor::Nvidia, 1)], nobody);
        assert_eq!((all.len(), all[0].ids.len()), (1, 0));
        let broken = (Backend::Cuda, Err(DeviceError::NotCompiled(Backend::Cuda)));
        assert_eq!(gpus(&[broken], &[], nobody), []);
    }

    #[test]
    fn where_no_address_is_known_nobody_guesses() {
        let backends = [
            found(Backend::Vulkan, &[false]),
            found(Backend::Wgpu, &[false]),
        ];
        // As many as there are, and still not the same for sure.
        let cards = [card(Vendor::Nvidia, 1)];
        let all = gpus(&backends, &cards, |_| Err(NoCard::NoAddress));
        assert_eq!(all.len(), 2);
        assert!(all[0].ids.is_empty());
        assert_eq!(names(&all[1]), ["vulkan:0", "wgpu:0"]);
        assert_eq!(all[1].no_card, Some(NoCard::NoAddress));
        let all = gpus(&backends, &cards, |_| Ok(at(9)));
        assert_eq!(names(&all[1]), ["vulkan:0", "wgpu:0"]);
        assert_eq!(all[1].no_card, Some(NoCard::NotListed(at(9))));
    }
}
