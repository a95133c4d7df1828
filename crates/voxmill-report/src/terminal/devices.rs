//! What there is to train on, how it is linked, and how fast batches get across, as text.

use std::collections::BTreeSet;

use voxmill_telemetry::probes::topology::{Link, PcieLink};

use super::page::{LABEL, Page};
use super::{Paint, machine};
use crate::format::{pad_left, size, span};
use crate::results::devices::{Copy, DevicesResult, GpuFound};

/// What `devices` prints.
pub fn devices_text(devices: &DevicesResult, paint: Paint) -> String {
    let mut page = Page::new(LABEL, paint);
    let cpu = &devices.cpu;
    let memory = (cpu.memory_bytes, cpu.memory_available_bytes);
    page.line("cpu", machine(cpu.name.as_deref(), cpu.cores, memory));
    if cpu.numa_nodes > 1 {
        page.line("", format!("{} NUMA nodes", cpu.numa_nodes));
    }
    for (number, gpu) in devices.gpus.iter().enumerate() {
        self::gpu(&mut page, number, gpu);
    }
    if devices.gpus.is_empty() {
        page.line(
            "gpus",
            "none: neither a backend of this build nor the machine's buses show one",
        );
    }
    links(&mut page, devices);
    pairs(&mut page, devices);
    used(&mut page, devices);
    backends(&mut page, devices);
    if let Some(copied) = &devices.copy {
        page.blank();
        copy(&mut page, copied);
    }
    paint.marks(&page.text())
}

fn gpu(page: &mut Page, number: usize, gpu: &GpuFound) {
    let name = match (gpu.card, gpu.software) {
        (Some(_), _) => gpu.model.as_deref().unwrap_or_default(),
        (None, true) => "a GPU that computes on the CPU's cores: it is only taken by name",
        (None, false) => "a GPU; no details known",
    };
    let at = gpu.pci_address.as_ref().map(|pci| format!(" at {pci}"));
    let name = format!("{name}{}", at.unwrap_or_default());
    match gpu.software {
        true => page.line("software", name),
        false => page.line(&format!("gpu {number}"), name),
    }
    match gpu.names.is_empty() {
        true => page.line("", "! no backend of this build reaches it"),
        false => page.line("", format!("called {}", gpu.names.join(", "))),
    }
    if let Some(why) = &gpu.no_card {
        page.line("", format!("! which card it is is not known: {why}"));
    }
    if gpu.card.is_some() {
        page.line("", known(gpu));
    }
    if let Some(pcie) = gpu.pcie {
        page.line("", speed(pcie));
    }
}

/// What is known of a card; what is not is left out.
fn known(gpu: &GpuFound) -> String {
    let mut parts = Vec::new();
    parts.push(match (gpu.memory_bytes, gpu.memory_free_bytes) {
        (Some(total), Some(free)) => format!("{} of memory, {} free", size(total), size(free)),
        (Some(total), None) => format!("{} of memory", size(total)),
        _ => "its driver does not report its memory".to_owned(),
    });
    parts.extend(gpu.driver.iter().map(|driver| format!("driver {driver}")));
    parts.extend(gpu.numa_node.map(|node| format!("NUMA node {node}")));
    parts.join("; ")
}

fn speed(pcie: PcieLink) -> String {
    let link = |generation: Option<u32>, width: Option<u32>| {
        let generation = generation.map_or("?".to_owned(), |n| n.to_string());
        let width = width.map(|width| format!(" x{width}"));
        generation + &width.unwrap_or_default()
    };
    let now = link(pcie.generation, pcie.width);
    let most = link(pcie.max_generation, pcie.max_width);
    format!("PCIe {now} now, {most} at most (a card at rest turns its link down)")
}

fn links(page: &mut Page, devices: &DevicesResult) {
    let n = devices.cards();
    if n < 2 {
        return;
    }
    page.blank();
    let name = |gpu: usize| format!("gpu {gpu}");
    let head: String = (0..n).map(|b| pad_left(&name(b), 8)).collect();
    page.whole_line("links", head);
    for a in 0..n {
        let row = (0..n).map(|b| match devices.link(a, b) {
            _ if a == b => "·",
            Some(link) => link.name(),
            None => "?",
        });
        let row: String = row.map(|cell| pad_left(cell, 8)).collect();
        page.push(&format!("{}  {row}", pad_left(&name(a), LABEL - 2)));
    }
    let seen: BTreeSet<Link> = devices.links.iter().map(|link| link.link).collect();
    for link in seen {
        page.line("", format!("{}: {}", link.name(), link.describe()));
    }
}

/// Which two suit the mode in which one prepares for the other.
fn pairs(page: &mut Page, devices: &DevicesResult) {
    page.blank();
    match (&devices.pair, devices.usable().count()) {
        (Some(pair), 2..) => {
            page.line("pair", format!("{}: {}", verdict(pair.link), pair.why));
            page.line("", "--data-gpu auto --model-gpu auto takes it");
            let best = (pair.data.min(pair.model), pair.data.max(pair.model));
            let pairs = (0..devices.cards()).flat_map(|b| (0..b).map(move |a| (a, b)));
            for (a, b) in pairs.filter(|pair| *pair != best) {
                let verdict = verdict(devices.link(a, b));
                page.line("", format!("{verdict}: gpu {a} and gpu {b}"));
            }
        }
        (_, 1) => page.line(
            "pair",
            "none: there is one GPU. It prepares and trains, with batches ready ahead; --data-device cpu with it as --model-device computes frames on the CPU",
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

fn used(page: &mut Page, devices: &DevicesResult) {
    let mut gpu_backends = devices.backends.iter().filter(|other| other.name != "cpu");
    let why = match gpu_backends.any(|other| other.compiled_in) {
        _ if devices.used != "cpu" => "the best GPU found",
        true if devices.gpus.iter().any(|gpu| gpu.software) => {
            "no GPU but a software one was found"
        }
        true => "no GPU that this build can use was found",
        false => "the only device of this build",
    };
    let used = match devices.used_by_flags {
        true => format!("{} trains with these flags", devices.used),
        false => format!("{} trains by default: {why}", devices.used),
    };
    page.line("used", used);
}

fn backends(page: &mut Page, devices: &DevicesResult) {
    page.line("backends", "✓ cpu: compiled in");
    let (compiled, missing): (Vec<_>, Vec<_>) = (devices.backends.iter())
        .filter(|backend| backend.name != "cpu")
        .partition(|backend| backend.compiled_in);
    for backend in compiled {
        let name = &backend.name;
        let state = match (&backend.no_driver, &backend.error, backend.devices) {
            (Some(why), ..) => format!("! {name}: compiled in, finds no driver: {why}"),
            (_, Some(error), _) => format!("! {name}: compiled in, but {error}"),
            (.., found) => format!("✓ {name}: compiled in, sees {}", found.unwrap_or(0)),
        };
        page.line("", state);
    }
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(|it| it.name.as_str()).collect();
        page.line("", format!("✗ {}: not compiled in", missing.join(", ")));
        page.line(
            "",
            "build one in: cargo build --release --features vulkan (or cuda, …)",
        );
    }
}

fn copy(page: &mut Page, copied: &Copy) {
    let (data, model) = (&copied.data_device, &copied.model_device);
    let Some(sizes) = &copied.sizes else {
        let why = copied.error.as_deref().unwrap_or_default();
        return page.line(
            "copy",
            format!("! {data} to {model} was not measured: {why}"),
        );
    };
    let how = match data == "cpu" && model == "cpu" {
        true => ", a copy in memory from lane to lane",
        false => "",
    };
    page.line("copy", format!("{data} to {model}{how}, as in training"));
    let columns = [10, 14, 14, 14];
    page.cells(columns, ["batch", "best", "median", "takes"]);
    let rate = |bytes_per_second: f64| format!("{}/s", size(bytes_per_second as u64));
    for moved in sizes {
        let median = moved.median_bytes_per_second;
        let took = span(moved.bytes as f64 / median);
        let best = rate(moved.best_bytes_per_second);
        page.cells(columns, [size(moved.bytes), best, rate(median), took]);
    }
    let rounds = sizes.first().map_or(0, |moved| moved.rounds);
    let text = format!("✓ each {rounds} times, checksums the same on both sides");
    page.line("", text);
}
