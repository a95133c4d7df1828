//! Every device once, however many backends see it. Pure.
//!
//! The tensor library reports neither names nor addresses. So a backend's devices are matched with the
//! machine's cards by their order, and only where there are as many: a guess where cards differ, and
//! marked as one.

use voxmill_telemetry::probes::topology::{GpuFacts, Vendor};
use voxmill_trainer::device::{Backend, DeviceError, DeviceId, FoundDevice};

/// What each backend of this build found, or why nothing.
pub(super) type Backends = [(Backend, Result<Vec<FoundDevice>, DeviceError>)];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    /// As backends call it, the best first; none where no backend of this build reaches it.
    pub(super) ids: Vec<DeviceId>,
    /// It computes on the CPU's cores and only looks like a GPU.
    pub(super) is_software: bool,
    /// Its place in the list of the machine's cards.
    pub(super) card: Option<usize>,
}

pub(super) fn gpus(backends: &Backends, cards: &[GpuFacts]) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = (0..cards.len())
        .map(|card| Gpu {
            ids: Vec::new(),
            is_software: false,
            card: Some(card),
        })
        .collect();
    let mut others: Vec<(Family, usize, Gpu)> = Vec::new();
    for (backend, found) in backends {
        let found = found.as_deref().unwrap_or_default();
        let real: Vec<&FoundDevice> = found.iter().filter(|device| !device.is_software).collect();
        let reached: Vec<usize> = (0..cards.len())
            .filter(|&card| reaches(*backend, cards[card].vendor))
            .collect();
        let known = real.len() == reached.len();
        for (place, device) in real.into_iter().enumerate() {
            match known {
                true => gpus[reached[place]].ids.push(device.id),
                false => add(&mut others, family(*backend), place, device),
            }
        }
        let software = found.iter().filter(|device| device.is_software);
        for (place, device) in software.enumerate() {
            add(&mut others, Family::Software, place, device);
        }
    }
    gpus.extend(others.into_iter().map(|(_, _, gpu)| gpu));
    gpus
}

/// Backends whose devices come in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Own(Backend),
    /// wgpu, by whatever it speaks to the driver.
    Wgpu,
    Software,
}

fn family(backend: Backend) -> Family {
    match backend {
        Backend::Vulkan | Backend::Wgpu | Backend::Metal => Family::Wgpu,
        own => Family::Own(own),
    }
}

fn add(others: &mut Vec<(Family, usize, Gpu)>, family: Family, place: usize, device: &FoundDevice) {
    let mut same = others.iter_mut();
    match same.find(|(f, p, _)| (*f, *p) == (family, place)) {
        Some((_, _, gpu)) => gpu.ids.push(device.id),
        None => {
            let gpu = Gpu {
                ids: vec![device.id],
                is_software: device.is_software,
                card: None,
            };
            others.push((family, place, gpu));
        }
    }
}

fn reaches(backend: Backend, vendor: Vendor) -> bool {
    match backend {
        Backend::Cuda => vendor == Vendor::Nvidia,
        Backend::Rocm => vendor == Vendor::Amd,
        Backend::Vulkan | Backend::Wgpu | Backend::Metal => true,
        Backend::Cpu => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxmill_telemetry::probes::topology::Source;

    fn card(vendor: Vendor) -> GpuFacts {
        GpuFacts {
            name: vendor.name().to_owned(),
            vendor,
            pci: None,
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
    fn one_card_that_three_backends_see_is_one() {
        let backends = [
            found(Backend::Cuda, &[false]),
            found(Backend::Vulkan, &[false, false, true]),
            found(Backend::Wgpu, &[false, false, true]),
        ];
        let all = gpus(&backends, &[card(Vendor::Nvidia), card(Vendor::Intel)]);
        assert_eq!(all.len(), 3);
        assert_eq!(names(&all[0]), ["cuda:0", "vulkan:0", "wgpu:0"]);
        assert_eq!(names(&all[1]), ["vulkan:1", "wgpu:1"]);
        assert_eq!(names(&all[2]), ["vulkan:2", "wgpu:2"]);
        assert!(all[2].is_software && all[2].card.is_none());
    }

    #[test]
    fn a_card_that_no_backend_reaches_is_still_there() {
        let all = gpus(&[], &[card(Vendor::Nvidia)]);
        assert_eq!((all.len(), all[0].ids.len()), (1, 0));
        let broken = (Backend::Cuda, Err(DeviceError::NotCompiled(Backend::Cuda)));
        assert_eq!(gpus(&[broken], &[]), []);
    }

    #[test]
    fn where_the_numbers_differ_nobody_guesses() {
        let backends = [
            found(Backend::Vulkan, &[false]),
            found(Backend::Wgpu, &[false]),
        ];
        let all = gpus(&backends, &[card(Vendor::Nvidia), card(Vendor::Nvidia)]);
        assert_eq!(all.len(), 3);
        assert!(all[0].ids.is_empty() && all[1].ids.is_empty());
        assert_eq!(names(&all[2]), ["vulkan:0", "wgpu:0"]);
    }
}
