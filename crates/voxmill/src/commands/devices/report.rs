//! The devices, for programs.

use serde_json::{Value, json};
use voxmill_telemetry::probes::topology::{GpuFacts, Source};
use voxmill_trainer::device::Backend;

use super::Devices;
use super::copy::Copied;
use super::inventory::Gpu;

/// Grows when a program that reads it would misread it.
const VERSION: u32 = 1;

pub(super) fn json(devices: &Devices) -> Value {
    let host = &devices.host;
    let places = 0..devices.cards.len();
    let links: Vec<Value> = places
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter_map(|(a, b)| {
            let link = devices.links.between(a, b)?;
            Some(json!({"gpus": [a, b], "link": link.name(), "slow": link.is_slow()}))
        })
        .collect();
    json!({
        "version": VERSION,
        "cpu": {
            "device": "cpu",
            "name": host.cpu,
            "cores": host.cores,
            "numa_nodes": host.numa_nodes,
            "memory_bytes": host.memory,
            "memory_available_bytes": host.memory_available,
        },
        "gpus": devices.gpus.iter().map(|gpu| self::gpu(devices, gpu)).collect::<Vec<_>>(),
        "links": links,
        "pair": devices.pair.as_ref().map(|pair| json!({
            "data": pair.data,
            "model": pair.model,
            "link": pair.link.map(|link| link.name()),
            "why": pair.why,
        })),
        "used": devices.usual.to_string(),
        "backends": Backend::ALL.map(|backend| self::backend(devices, backend)),
        "copy": devices.copied.as_ref().map(copy),
    })
}

fn gpu(devices: &Devices, gpu: &Gpu) -> Value {
    let card: Option<&GpuFacts> = gpu.card.map(|card| &devices.cards[card]);
    json!({
        "names": gpu.ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "software": gpu.is_software,
        "card": gpu.card,
        "model": card.map(|card| &card.name),
        "vendor": card.map(|card| card.vendor.name()),
        "pci_address": card.and_then(|card| card.pci).map(|pci| pci.to_string()),
        "memory_bytes": card.and_then(|card| card.memory_total_bytes),
        "memory_free_bytes": card.and_then(|card| card.memory_free_bytes),
        "driver": gpu.card.and_then(|card| devices.drivers[card].as_ref()),
        "numa_node": card.and_then(|card| card.numa_node),
        "pcie": card.and_then(|card| card.pcie).map(|pcie| json!({
            "generation": pcie.generation,
            "width": pcie.width,
            "max_generation": pcie.max_generation,
            "max_width": pcie.max_width,
        })),
        "told_by": card.map(|card| match card.source {
            Source::Nvml => "nvml",
            Source::Sysfs => "sysfs",
        }),
    })
}

fn backend(devices: &Devices, backend: Backend) -> Value {
    let found = devices.backends.iter().find(|(other, _)| *other == backend);
    let error = found.and_then(|(_, found)| found.as_ref().err());
    let count = match (backend, found) {
        (Backend::Cpu, _) => Some(1),
        (_, Some((_, Ok(found)))) => Some(found.len()),
        _ => None,
    };
    json!({
        "name": backend.name(),
        "compiled_in": backend.is_compiled(),
        "devices": count,
        "error": error.map(ToString::to_string),
    })
}

fn copy(copied: &Copied) -> Value {
    let sizes = copied.sizes.as_ref().ok().map(|sizes| {
        let each = sizes.iter().map(|size| {
            json!({
                "bytes": size.bytes,
                "rounds": size.seconds.len(),
                "best_bytes_per_second": size.best(),
                "median_bytes_per_second": size.median(),
                "checksum": format!("{:016x}", size.checksum),
            })
        });
        each.collect::<Vec<_>>()
    });
    json!({
        "data_device": copied.data.to_string(),
        "model_device": copied.model.to_string(),
        "sizes": sizes,
        "error": copied.sizes.as_ref().err(),
    })
}
