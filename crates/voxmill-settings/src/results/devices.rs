//! What was found, as the result that is printed.

use voxmill_report::results::devices as result;
use voxmill_telemetry::probes::topology::GpuFacts;
use voxmill_trainer::device::{Backend, DeviceError};

use crate::devices::{Copied, FoundDevices, Gpu, NoCard};

/// As `voxmill devices` prints it.
pub fn result(devices: &FoundDevices) -> result::DevicesResult {
    let host = &devices.host;
    let places = 0..devices.cards.len();
    let links = places.flat_map(|b| (0..b).map(move |a| [a, b]));
    let links = links.filter_map(|gpus| {
        let link = devices.links.between(gpus[0], gpus[1])?;
        let slow = link.is_slow();
        Some(result::GpuLink { gpus, link, slow })
    });
    result::DevicesResult {
        version: result::VERSION,
        cpu: result::Cpu {
            device: Backend::Cpu.name().to_owned(),
            name: host.cpu.clone(),
            cores: host.cores,
            numa_nodes: host.numa_nodes,
            memory_bytes: host.memory,
            memory_available_bytes: host.memory_available,
        },
        gpus: (devices.gpus.iter())
            .map(|gpu| self::gpu(devices, gpu))
            .collect(),
        links: links.collect(),
        pair: devices.pair.as_ref().map(|pair| result::PairFound {
            data: pair.data,
            model: pair.model,
            link: pair.link,
            why: pair.why.clone(),
        }),
        used: devices.usual.to_string(),
        used_by_flags: devices.by_flags,
        backends: (Backend::ALL.into_iter())
            .map(|backend| self::backend(devices, backend))
            .collect(),
        copy: devices.copied.as_ref().map(copy),
    }
}

fn gpu(devices: &FoundDevices, gpu: &Gpu) -> result::GpuFound {
    let seen = result::GpuFound {
        names: gpu.ids.iter().map(ToString::to_string).collect(),
        software: gpu.is_software,
        card: gpu.card,
        no_card: match &gpu.no_card {
            Some(NoCard::Software) | None => None,
            Some(why) => Some(why.to_string()),
        },
        ..result::GpuFound::default()
    };
    let Some(card) = gpu.card else {
        return seen;
    };
    let facts: &GpuFacts = &devices.cards[card];
    result::GpuFound {
        model: Some(facts.name.clone()),
        vendor: Some(facts.vendor.name().to_owned()),
        pci_address: facts.pci.map(|pci| pci.to_string()),
        uuid: facts.uuid.clone(),
        memory_bytes: facts.memory_total_bytes,
        memory_free_bytes: facts.memory_free_bytes,
        driver: devices.drivers[card].clone(),
        numa_node: facts.numa_node,
        pcie: facts.pcie,
        told_by: Some(facts.source),
        ..seen
    }
}

fn backend(devices: &FoundDevices, backend: Backend) -> result::BackendFound {
    let found = devices.backends.iter().find(|(other, _)| *other == backend);
    let found = found.map(|(_, found)| found.as_ref());
    let is_cpu = backend == Backend::Cpu;
    let error = found.and_then(Result::err);
    result::BackendFound {
        name: backend.name().to_owned(),
        compiled_in: is_cpu || found.is_some(),
        devices: match found {
            Some(Ok(found)) => Some(found.len()),
            _ => is_cpu.then_some(1),
        },
        error: error.map(ToString::to_string),
        no_driver: match error {
            Some(DeviceError::NoDriver { why, .. }) => Some(why.clone()),
            _ => None,
        },
    }
}

fn copy(copied: &Copied) -> result::Copy {
    let sizes = copied.sizes.as_ref();
    result::Copy {
        data_device: copied.data.to_string(),
        model_device: copied.model.to_string(),
        error: sizes.err().cloned(),
        sizes: sizes.ok().map(|sizes| {
            let sizes = sizes.iter().map(|size| result::CopySize {
                bytes: size.bytes,
                rounds: size.seconds.len(),
                best_bytes_per_second: size.best(),
                median_bytes_per_second: size.median(),
                checksum: format!("{:016x}", size.checksum),
            });
            sizes.collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::gpus;
    use voxmill_report::terminal::{Paint, devices_text};
    use voxmill_telemetry::probes::Host;
    use voxmill_telemetry::probes::topology::Source;
    use voxmill_telemetry::probes::topology::{
        Link, Links, PciAddress, PcieLink, Vendor, best_pair,
    };
    use voxmill_trainer::device::{DeviceId, FoundDevice};
    use voxmill_trainer::prepare::Transfer;

    fn address(place: u32) -> Option<PciAddress> {
        format!("0000:{place:02x}:00.0").parse().ok()
    }

    fn card(place: u32, gibibytes: u64) -> GpuFacts {
        GpuFacts {
            name: "NVIDIA GeForce RTX 4090".to_owned(),
            vendor: Vendor::Nvidia,
            pci: address(place),
            uuid: None,
            memory_total_bytes: Some(gibibytes << 30),
            memory_free_bytes: Some((gibibytes << 30) - (1 << 29)),
            numa_node: Some(0),
            pcie: Some(PcieLink {
                generation: Some(1),
                width: Some(16),
                max_generation: Some(4),
                max_width: Some(16),
            }),
            source: Source::Nvml,
        }
    }

    fn machine(
        cards: Vec<GpuFacts>,
        backends: Vec<(Backend, Result<Vec<FoundDevice>, DeviceError>)>,
    ) -> FoundDevices {
        let links = [((0, 1), Link::Phb)].into_iter().take(cards.len() / 2);
        let links: Links = links.collect();
        FoundDevices {
            host: Host {
                cpu: Some("AMD Ryzen 9 7950X 16-Core Processor".to_owned()),
                cores: 32,
                numa_nodes: 1,
                memory: Some(64_000_000_000),
                memory_available: Some(50_000_000_000),
            },
            // The second device is the first card.
            gpus: gpus(&backends, &cards, |id| {
                address(2 - id.index as u32).ok_or(NoCard::NoAddress)
            }),
            pair: best_pair(&cards, &links),
            drivers: vec![Some("nvidia 550.54.14".to_owned()); cards.len()],
            usual: match backends.first() {
                Some((backend, Ok(_))) => DeviceId::new(*backend, 0),
                _ => DeviceId::CPU,
            },
            by_flags: false,
            backends,
            cards,
            links,
            copied: None,
        }
    }

    /// The list of missing backends left out: it grows with the program.
    fn seen(devices: &FoundDevices) -> String {
        let text = devices_text(&result(devices), Paint::plain());
        let fits = |line: &str| line.chars().count() <= 80;
        assert!(text.lines().all(fits), "{text}");
        let missing = text.find("          ✗").unwrap_or(text.len());
        let copy = text.find("\n\ncopy").unwrap_or(text.len());
        format!("{}{}", &text[..missing.min(copy)], &text[copy..])
    }

    #[test]
    fn two_gpus_with_their_link_and_a_measured_copy() {
        let found = (0..2).map(|index| FoundDevice {
            id: DeviceId::new(Backend::Vulkan, index),
            is_software: false,
        });
        let backends = vec![(Backend::Vulkan, Ok(found.collect()))];
        let mut devices = machine(vec![card(1, 24), card(2, 12)], backends);
        devices.copied = Some(Copied {
            data: DeviceId::new(Backend::Vulkan, 1),
            model: DeviceId::new(Backend::Vulkan, 0),
            sizes: Ok(vec![Transfer {
                bytes: 8_000_000,
                seconds: vec![0.001, 0.002, 0.004],
                checksum: 1,
            }]),
        });
        insta::assert_snapshot!(seen(&devices));
    }

    #[test]
    fn a_machine_without_gpus_says_so_and_what_is_used() {
        insta::assert_snapshot!(seen(&machine(Vec::new(), Vec::new())));
    }

    #[test]
    fn a_card_out_of_reach_and_a_driver_that_is_missing() {
        let missing = DeviceError::NoDriver {
            backend: Backend::Vulkan,
            why: "no libvulkan.so.1".to_owned(),
        };
        let devices = machine(vec![card(1, 24)], vec![(Backend::Vulkan, Err(missing))]);
        insta::assert_snapshot!(seen(&devices));
    }
}
