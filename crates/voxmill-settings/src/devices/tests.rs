//! Which devices a run gets, on synthetic machines.

use clap::Parser as _;
use voxmill_telemetry::probes::topology::{GpuFacts, Link, PciAddress, Source, Vendor};
use voxmill_trainer::device::{Backend, DeviceError, FoundDevice, Identity};

use super::choose::{Chosen, link};
use super::*;
use crate::TrainSettings;
use crate::args::{Cli, Verb};

fn machine(gpus: usize) -> AvailableDevices {
    let device = |index| FoundDevice {
        id: DeviceId::new(Backend::Vulkan, index),
        is_software: false,
    };
    let software = FoundDevice {
        id: DeviceId::new(Backend::Wgpu, 0),
        is_software: true,
    };
    let card = |index: usize| GpuFacts {
        name: format!("card {index}"),
        vendor: Vendor::Nvidia,
        pci: format!("0000:0{index}:00.0").parse::<PciAddress>().ok(),
        memory_total_bytes: Some((8 + index as u64) << 30),
        uuid: None,
        memory_free_bytes: Some((7 + index as u64) << 30),
        numa_node: None,
        pcie: None,
        source: Source::Nvml,
    };
    AvailableDevices {
        backends: vec![
            (
                Backend::Cuda,
                Err(DeviceError::NoDriver {
                    backend: Backend::Cuda,
                    why: "libcuda.so is missing".into(),
                }),
            ),
            (Backend::Vulkan, Ok((0..gpus).map(device).collect())),
            (Backend::Wgpu, Ok(vec![software])),
        ],
        cards: (0..gpus).map(card).collect(),
        links: [
            ((0, 1), Link::Sys),
            ((1, 2), Link::Pix),
            ((0, 2), Link::Phb),
        ]
        .into_iter()
        .collect(),
        identities: (0..gpus).map(|index| at(vulkan(index), index)).collect(),
    }
}

/// A device that is the card of this number.
fn at(id: DeviceId, card: usize) -> (DeviceId, Identity) {
    let identity = Identity {
        model: Some(format!("card {card}")),
        pci_address: Some(format!("0000:0{card}:00.0")),
    };
    (id, identity)
}

fn chosen(asked: AskedDevices, available: &AvailableDevices) -> Result<Chosen, String> {
    choose(&asked, available, &Key::flag).map_err(|error| crate::error::describe(&error.into()))
}

fn gpus(data: &str, model: &str) -> AskedDevices {
    AskedDevices {
        data_gpu: Some(data.into()),
        model_gpu: Some(model.into()),
        ..AskedDevices::default()
    }
}

fn pair(data: &str, model: &str) -> AskedDevices {
    AskedDevices {
        data_device: data.parse().ok(),
        model_device: model.parse().ok(),
        ..AskedDevices::default()
    }
}

fn vulkan(index: usize) -> DeviceId {
    DeviceId::new(Backend::Vulkan, index)
}

#[test]
fn by_itself_the_best_gpu_trains_and_software_never_does() {
    let one = chosen(AskedDevices::default(), &machine(1)).unwrap();
    assert_eq!(one.devices, Devices::Single(vulkan(0)));
    assert_eq!(one.why, "the best GPU found");
    let none = chosen(AskedDevices::default(), &machine(0)).unwrap();
    assert_eq!(none.devices, Devices::Single(DeviceId::CPU));
    assert_eq!(none.why, "no GPU but a software one was found");
    let cpu_only = chosen(AskedDevices::default(), &AvailableDevices::default()).unwrap();
    assert_eq!(cpu_only.why, "the only device of this build");
}

#[test]
fn two_gpus_are_a_pair_and_one_twice_is_one() {
    let two = chosen(gpus("0", "1"), &machine(2)).unwrap();
    let expected = Devices::Pair {
        data: vulkan(0),
        model: vulkan(1),
    };
    assert_eq!(two.devices, expected);
    assert_eq!(link(two.devices, &machine(2)), Some(Link::Sys));
    let same = chosen(gpus("0", "0"), &machine(1)).unwrap();
    assert_eq!(same.devices, Devices::Single(vulkan(0)));
    assert!(
        same.notes[0].to_string().starts_with("warning: vulkan:0"),
        "{:?}",
        same.notes
    );
}

#[test]
fn auto_takes_the_best_link_and_the_weaker_one_for_data() {
    let best = chosen(gpus("auto", "auto"), &machine(3)).unwrap();
    let expected = Devices::Pair {
        data: vulkan(1),
        model: vulkan(2),
    };
    assert_eq!(best.devices, expected);
    let prepares = chosen(gpus("auto", "0"), &machine(3)).unwrap();
    assert_eq!(
        prepares.devices.data(),
        vulkan(2),
        "PHB, and SYS to the other"
    );
    let trains = chosen(gpus("2", "auto"), &machine(3)).unwrap();
    assert_eq!(trains.devices.model(), vulkan(1), "PIX");
    let unknown = AvailableDevices {
        cards: Vec::new(),
        ..machine(3)
    };
    let trains = chosen(gpus("0", "auto"), &unknown).unwrap();
    assert_eq!(trains.devices.model(), vulkan(1));
}

#[test]
fn the_cpu_may_prepare_for_a_gpu_or_for_itself() {
    let lanes = chosen(pair("cpu", "cpu"), &AvailableDevices::default()).unwrap();
    assert!(lanes.devices.are_lanes());
    let mixed = chosen(pair("cpu", "vulkan:0"), &machine(1)).unwrap();
    assert!(mixed.devices.is_pair() && !mixed.devices.are_lanes());
    let logical = chosen(pair("wgpu:0", "wgpu:0+1"), &machine(0)).unwrap();
    assert!(logical.devices.is_pair());
    assert_eq!(link(logical.devices, &machine(0)), Some(Link::Same));
}

#[test]
fn what_is_missing_is_an_error_with_a_hint() {
    let refused =
        |asked: AskedDevices, available: &AvailableDevices| chosen(asked, available).unwrap_err();
    let device = |name: &str| AskedDevices {
        device: name.parse().ok(),
        ..AskedDevices::default()
    };
    let one_alone = AskedDevices {
        data_gpu: Some("0".into()),
        ..AskedDevices::default()
    };
    let both_ways = AskedDevices {
        data_device: "cpu".parse().ok(),
        model_device: "cpu".parse().ok(),
        ..gpus("0", "1")
    };
    let all = [
        refused(gpus("0", "1"), &AvailableDevices::default()),
        refused(gpus("0", "1"), &machine(0)),
        refused(gpus("auto", "auto"), &machine(1)),
        refused(gpus("0", "5"), &machine(2)),
        refused(one_alone, &machine(2)),
        refused(both_ways, &machine(2)),
        refused(device("cuda:0"), &machine(1)),
        refused(device("rocm:0"), &machine(1)),
        refused(device("vulkan:7"), &machine(2)),
        refused(pair("cpu", "vulkan:0"), &machine(0)),
    ];
    insta::assert_snapshot!(all.join("\n\n"));
}

/// CUDA counts the fastest first, the buses by their slots, and an integrated GPU is between them.
fn out_of_order() -> AvailableDevices {
    let mut machine = machine(2);
    let cuda = |index| DeviceId::new(Backend::Cuda, index);
    let found = (0..2).map(|index| FoundDevice {
        id: cuda(index),
        is_software: false,
    });
    machine.backends[0] = (Backend::Cuda, Ok(found.collect()));
    let integrated = GpuFacts {
        name: "integrated".to_owned(),
        vendor: Vendor::Intel,
        pci: "0000:00:02.0".parse().ok(),
        memory_total_bytes: None,
        memory_free_bytes: None,
        ..machine.cards[0].clone()
    };
    machine.cards.insert(1, integrated);
    machine.cards[2].uuid = Some("GPU-2".to_owned());
    machine.links = [((0, 2), Link::Pix), ((0, 1), Link::Nvlink)]
        .into_iter()
        .collect();
    machine.identities = [at(cuda(0), 1), at(cuda(1), 0)].into_iter().collect();
    machine
}

fn resolved(flags: &str, available: &AvailableDevices) -> TrainSettings {
    let line = format!("voxmill train --train-data d {flags}");
    let Verb::Train(args) = Cli::try_parse_from(line.split_whitespace()).unwrap().verb else {
        panic!("another verb")
    };
    TrainSettings::resolve_on(*args, 4, available).unwrap()
}

#[test]
fn a_device_is_the_card_at_its_address_and_not_the_one_at_its_place() {
    let machine = out_of_order();
    let settings = resolved("--device cuda:0", &machine).devices;
    let free = (8u64 << 30) as f64 * USABLE_SHARE;
    assert_eq!(settings.free.model, Some(free as u64), "of the second card");
    let known = &settings.identities[0];
    assert_eq!(known.device.as_str(), "cuda:0");
    assert_eq!(known.pci_address, "0000:01:00.0".parse().ok());
    assert_eq!(known.uuid.as_deref(), Some("GPU-2"));
    // The best link of all leads to the integrated one, which CUDA does not reach.
    let best = chosen(gpus("auto", "auto"), &machine).unwrap();
    let (data, model) = (best.devices.data(), best.devices.model());
    assert_eq!(
        [data, model].map(|id| id.index),
        [1, 0],
        "the larger trains"
    );
    assert_eq!(link(best.devices, &machine), Some(Link::Pix));
    let two_names = Devices::Pair {
        data: vulkan(0),
        model: DeviceId::new(Backend::Cuda, 1),
    };
    let mut machine = out_of_order();
    let cuda = |index| DeviceId::new(Backend::Cuda, index);
    machine.identities = [at(cuda(1), 0), at(vulkan(0), 0)].into_iter().collect();
    assert_eq!(
        link(two_names, &machine),
        Some(Link::Same),
        "one card twice"
    );
}

#[test]
fn where_memory_is_not_checked_a_note_says_why() {
    let of = |flags: &str, available: &AvailableDevices| {
        let settings = resolved(flags, available);
        let about = settings.notes.iter().map(ToString::to_string);
        let about: Vec<String> = about.filter(|note| note.contains("not checked")).collect();
        (settings.devices.free.model, about)
    };
    let (free, notes) = of("--device vulkan:0", &machine(1));
    assert!(free.is_some() && notes.is_empty(), "{notes:?}");
    assert!(of("--device cpu", &machine(1)).1.is_empty());
    let limited = "--device wgpu:0 --enable-memory-isolation --model-gpu-memory 1GB";
    assert!(
        of(limited, &machine(1)).1.is_empty(),
        "the limit is checked"
    );

    let silent = Identity {
        model: None,
        pci_address: None,
    };
    let no_address = AvailableDevices {
        identities: [(vulkan(0), silent)].into_iter().collect(),
        ..machine(1)
    };
    let elsewhere = AvailableDevices {
        identities: [at(vulkan(0), 7)].into_iter().collect(),
        ..machine(1)
    };
    let mut no_memory = machine(1);
    no_memory.cards[0].memory_free_bytes = None;
    let closed = AvailableDevices {
        identities: [].into_iter().collect(),
        ..machine(1)
    };
    let unknown = [
        of("--device wgpu:0", &machine(1)),
        of("--device vulkan:0", &no_address),
        of("--device vulkan:0", &elsewhere),
        of("--device vulkan:0", &no_memory),
        of("--device vulkan:0", &closed),
        of("--data-device wgpu:0 --model-device wgpu:0+1", &machine(0)),
    ];
    let notes: Vec<String> = unknown.into_iter().flat_map(|(_, notes)| notes).collect();
    insta::assert_snapshot!(notes.join("\n"));
}
