//! Which devices a run gets, on synthetic machines.

use voxmill_telemetry::probes::topology::{GpuFacts, Link, PciAddress, Source, Vendor};
use voxmill_trainer::device::{Backend, DeviceError, FoundDevice};

use super::choose::{Chosen, link};
use super::*;

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
        memory_free_bytes: None,
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
    }
}

fn chosen(asked: Asked, available: &AvailableDevices) -> Result<Chosen, String> {
    choose(&asked, available, &Key::flag).map_err(|error| crate::error::describe(&error.into()))
}

fn gpus(data: &str, model: &str) -> Asked {
    Asked {
        data_gpu: Some(data.into()),
        model_gpu: Some(model.into()),
        ..Asked::default()
    }
}

fn pair(data: &str, model: &str) -> Asked {
    Asked {
        data_device: data.parse().ok(),
        model_device: model.parse().ok(),
        ..Asked::default()
    }
}

fn vulkan(index: usize) -> DeviceId {
    DeviceId::new(Backend::Vulkan, index)
}

#[test]
fn by_itself_the_best_gpu_trains_and_software_never_does() {
    let one = chosen(Asked::default(), &machine(1)).unwrap();
    assert_eq!(one.devices, Devices::Single(vulkan(0)));
    assert_eq!(one.why, "the best GPU found");
    let none = chosen(Asked::default(), &machine(0)).unwrap();
    assert_eq!(none.devices, Devices::Single(DeviceId::CPU));
    assert_eq!(none.why, "no GPU was found");
    let cpu_only = chosen(Asked::default(), &AvailableDevices::default()).unwrap();
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
        |asked: Asked, available: &AvailableDevices| chosen(asked, available).unwrap_err();
    let device = |name: &str| Asked {
        device: name.parse().ok(),
        ..Asked::default()
    };
    let one_alone = Asked {
        data_gpu: Some("0".into()),
        ..Asked::default()
    };
    let both_ways = Asked {
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
