//! The devices, as a person reads them.

use std::fmt::Write as _;

use voxmill_telemetry::probes::topology::{GpuFacts, Link, PcieLink};
use voxmill_trainer::device::{Backend, DeviceError};

use super::Devices;
use super::copy::Copied;
use super::inventory::Gpu;
use crate::checks::{size, span};
use crate::page::Page;

pub(super) fn render(devices: &Devices) -> String {
    let mut page = Page::default();
    let host = &devices.host;
    page.line("cpu", &host.describe());
    if host.numa_nodes > 1 {
        page.line("", &format!("{} NUMA nodes", host.numa_nodes));
    }
    for (number, gpu) in devices.gpus.iter().enumerate() {
        self::gpu(&mut page, devices, number, gpu);
    }
    if devices.gpus.is_empty() {
        page.line(
            "gpus",
            "none: neither a backend of this build nor the machine's buses show one",
        );
    }
    if devices
        .gpus
        .iter()
        .any(|gpu| gpu.card.is_some() && !gpu.ids.is_empty())
    {
        page.line(
            "",
            "which card a backend's number means is told by their order alone",
        );
    }
    links(&mut page, devices);
    pairs(&mut page, devices);
    used(&mut page, devices);
    backends(&mut page, devices);
    if let Some(copied) = &devices.copied {
        page.blank();
        copy(&mut page, copied);
    }
    page.text()
}

fn gpu(page: &mut Page, devices: &Devices, number: usize, gpu: &Gpu) {
    let names: Vec<String> = gpu.ids.iter().map(ToString::to_string).collect();
    let called = match names.is_empty() {
        true => "! no backend of this build reaches it".to_owned(),
        false => format!("called {}", names.join(", ")),
    };
    let label = format!("gpu {number}");
    let Some(card) = gpu.card else {
        let what = match gpu.is_software {
            true => "a software GPU: it computes on the CPU's cores and is never chosen by itself",
            false => "a GPU; nothing more is known of it",
        };
        page.line(&label, what);
        page.line("", &called);
        return;
    };
    let facts = &devices.cards[card];
    let mut name = facts.name.clone();
    if let Some(pci) = facts.pci {
        let _ = write!(name, " at {pci}");
    }
    page.line(&label, &name);
    page.line("", &called);
    page.line("", &known(facts, devices.drivers[card].as_deref()));
    if let Some(pcie) = facts.pcie {
        page.line("", &speed(pcie));
    }
}

/// What is known of a card; what is not is left out.
fn known(facts: &GpuFacts, driver: Option<&str>) -> String {
    let mut parts = Vec::new();
    parts.push(match (facts.memory_total_bytes, facts.memory_free_bytes) {
        (Some(total), Some(free)) => format!("{} of memory, {} free", size(total), size(free)),
        (Some(total), None) => format!("{} of memory", size(total)),
        _ => "its driver does not tell its memory".to_owned(),
    });
    parts.extend(driver.map(|driver| format!("driver {driver}")));
    parts.extend(facts.numa_node.map(|node| format!("NUMA node {node}")));
    parts.join("; ")
}

fn speed(pcie: PcieLink) -> String {
    let link = |generation: Option<u32>, width: Option<u32>| {
        let generation = generation.map_or("?".to_owned(), |n| n.to_string());
        match width {
            Some(width) => format!("{generation} x{width}"),
            None => generation,
        }
    };
    let now = link(pcie.generation, pcie.width);
    let most = link(pcie.max_generation, pcie.max_width);
    format!("PCIe {now} now, {most} at most (a card at rest turns its link down)")
}

fn links(page: &mut Page, devices: &Devices) {
    let n = devices.cards.len();
    if n < 2 {
        return;
    }
    page.blank();
    let cell = |text: &str| format!("{text:>8}");
    let head: String = (0..n).map(|b| cell(&format!("gpu {b}"))).collect();
    page.push(&format!("{:<10}{head}", "links"));
    for a in 0..n {
        let row: String = (0..n)
            .map(|b| match devices.links.between(a, b) {
                _ if a == b => cell("·"),
                Some(link) => cell(link.name()),
                None => cell("?"),
            })
            .collect();
        page.push(&format!("{:>10}{row}", format!("gpu {a}  ")));
    }
    let mut seen: Vec<Link> = (0..n)
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter_map(|(a, b)| devices.links.between(a, b))
        .collect();
    seen.sort();
    seen.dedup();
    for link in seen {
        page.line("", &format!("{}: {}", link.name(), link.describe()));
    }
}

/// Which two suit the mode in which one prepares for the other.
fn pairs(page: &mut Page, devices: &Devices) {
    page.blank();
    let usable = devices.usable().count();
    match (&devices.pair, usable) {
        (Some(pair), 2..) => {
            page.line("pair", &format!("{}: {}", verdict(pair.link), pair.why));
            page.line("", "--data-gpu auto --model-gpu auto takes it");
            let best = (pair.data.min(pair.model), pair.data.max(pair.model));
            let cards = devices.cards.len();
            let all = (0..cards).flat_map(|b| (0..b).map(move |a| (a, b)));
            for (a, b) in all.filter(|pair| *pair != best) {
                let verdict = verdict(devices.links.between(a, b));
                page.line("", &format!("{verdict}: gpu {a} and gpu {b}"));
            }
        }
        (_, 1) => page.line(
            "pair",
            "none: there is one GPU. It prepares and trains, with batches ready ahead; --data-device cpu with it as --model-device makes frames on the CPU",
        ),
        _ => page.line(
            "pair",
            "none: no two GPUs can be used. The CPU twice (--data-device cpu --model-device cpu) is two lanes with threads of their own, to try it out",
        ),
    }
}

/// What a link means for passing batches on.
fn verdict(link: Option<Link>) -> &'static str {
    match link {
        Some(link) if link.is_slow() => "! slow",
        Some(Link::Phb) => "✓ fair",
        Some(_) => "✓ good",
        None => "! not known",
    }
}

fn used(page: &mut Page, devices: &Devices) {
    let why = match (devices.usual.is_cpu(), devices.backends.is_empty()) {
        (true, true) => "the only device of this build",
        (true, false) => "no GPU that this build can use was found",
        (false, _) => "the best GPU found",
    };
    page.line(
        "used",
        &format!("{} trains when nobody says otherwise: {why}", devices.usual),
    );
}

fn backends(page: &mut Page, devices: &Devices) {
    let mut label = "backends";
    page.line(label, "✓ cpu: compiled in");
    label = "";
    for (backend, found) in &devices.backends {
        let text = match found {
            Ok(found) => format!("✓ {}: compiled in, sees {}", backend.name(), found.len()),
            Err(DeviceError::NoDriver { why, .. }) => {
                format!("! {}: compiled in, finds no driver: {why}", backend.name())
            }
            Err(error) => format!("! {}: compiled in, but {error}", backend.name()),
        };
        page.line(label, &text);
    }
    let missing: Vec<&str> = (Backend::ALL.into_iter())
        .filter(|backend| !backend.is_compiled())
        .map(Backend::name)
        .collect();
    if !missing.is_empty() {
        page.line(label, &format!("✗ {}: not compiled in", missing.join(", ")));
        page.line(
            label,
            "build one in: cargo build --release --features vulkan (or cuda, …)",
        );
    }
}

fn copy(page: &mut Page, copied: &Copied) {
    let lanes = copied.data.is_cpu() && copied.model.is_cpu();
    let how = if lanes {
        ", a copy in memory from lane to lane"
    } else {
        ""
    };
    let sizes = match &copied.sizes {
        Ok(sizes) => sizes,
        Err(why) => {
            page.line(
                "copy",
                &format!(
                    "! {} to {} was not measured: {why}",
                    copied.data, copied.model
                ),
            );
            return;
        }
    };
    page.line(
        "copy",
        &format!("{} to {}{how}, as in training", copied.data, copied.model),
    );
    page.push(&format!(
        "{:<10}{:>10}{:>14}{:>14}{:>14}",
        "", "batch", "best", "median", "takes"
    ));
    for moved in sizes {
        page.push(&format!(
            "{:<10}{:>10}{:>14}{:>14}{:>14}",
            "",
            size(moved.bytes),
            format!("{}/s", size(moved.best() as u64)),
            format!("{}/s", size(moved.median() as u64)),
            span(moved.bytes as f64 / moved.median())
        ));
    }
    let rounds = sizes.first().map_or(0, |moved| moved.seconds.len());
    page.line(
        "",
        &format!("✓ each {rounds} times, checksums the same on both sides"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Host;
    use voxmill_telemetry::probes::topology::{Links, Source, Vendor, best_pair};
    use voxmill_trainer::device::{DeviceId, Found};
    use voxmill_trainer::prepare::Transfer;

    fn card(place: u32, gibibytes: u64) -> GpuFacts {
        GpuFacts {
            name: "NVIDIA GeForce RTX 4090".to_owned(),
            vendor: Vendor::Nvidia,
            pci: format!("0000:{place:02x}:00.0").parse().ok(),
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
        backends: Vec<(Backend, Result<Vec<Found>, DeviceError>)>,
    ) -> Devices {
        let links: Links = [((0, 1), Link::Phb)]
            .into_iter()
            .take(cards.len() / 2)
            .collect();
        Devices {
            host: Host {
                cpu: Some("AMD Ryzen 9 7950X 16-Core Processor".to_owned()),
                cores: 32,
                numa_nodes: 1,
                memory: Some(64_000_000_000),
                memory_available: Some(50_000_000_000),
            },
            gpus: super::super::inventory::gpus(&backends, &cards),
            pair: best_pair(&cards, &links),
            drivers: cards
                .iter()
                .map(|_| Some("nvidia 550.54.14".to_owned()))
                .collect(),
            usual: match backends.first() {
                Some((backend, Ok(_))) => DeviceId::new(*backend, 0),
                _ => DeviceId::CPU,
            },
            backends,
            cards,
            links,
            copied: None,
        }
    }

    /// What the machine of the test is made of is the same in every build; its backends are not.
    fn seen(devices: &Devices) -> String {
        let text = render(devices);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let compiled = text.find("          ✗").unwrap_or(text.len());
        let copy = text.find("\n\ncopy").unwrap_or(text.len());
        format!("{}{}", &text[..compiled.min(copy)], &text[copy..])
    }

    #[test]
    fn two_gpus_with_their_link_and_a_measured_copy() {
        let found = (0..2).map(|index| Found {
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
