//! What `devices` found.

use schemars::JsonSchema;
use serde::Serialize;
use voxmill_telemetry::probes::topology::Source;
use voxmill_telemetry::probes::topology::{Link, PcieLink};

/// Grows when a program that reads it would misread it.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DevicesResult {
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    pub cpu: Cpu,
    pub gpus: Vec<GpuFound>,
    /// Between GPUs of the machine, by their numbers.
    pub links: Vec<GpuLink>,
    /// The best two GPUs for the mode in which one prepares data for the other.
    pub pair: Option<PairFound>,
    /// The device that a run trains on, by default or with the flags that were given.
    pub used: String,
    /// Whether flags chose it.
    pub used_by_flags: bool,
    pub backends: Vec<BackendFound>,
    /// How fast batches get from one device to another; only where two were given.
    pub copy: Option<Copy>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cpu {
    pub device: String,
    /// As the processor calls itself.
    pub name: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    pub numa_nodes: usize,
    /// Memory that this process may use.
    pub memory_bytes: Option<u64>,
    /// Of the whole machine, at this moment.
    pub memory_available_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GpuFound {
    /// As backends of this build call it, the best first; empty where none reaches it.
    pub names: Vec<String>,
    /// It computes on the CPU's cores.
    pub software: bool,
    /// Its number among the machine's cards.
    pub card: Option<usize>,
    /// Why none of the machine's cards is known to be it; devices are matched with cards by PCI address.
    pub no_card: Option<String>,
    pub model: Option<String>,
    pub vendor: Option<String>,
    pub pci_address: Option<String>,
    /// As NVIDIA's driver numbers its cards for good.
    pub uuid: Option<String>,
    pub memory_bytes: Option<u64>,
    pub memory_free_bytes: Option<u64>,
    pub driver: Option<String>,
    pub numa_node: Option<u32>,
    pub pcie: Option<PcieLink>,
    pub told_by: Option<Source>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GpuLink {
    /// The smaller number first.
    pub gpus: [usize; 2],
    pub link: Link,
    pub slow: bool,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PairFound {
    pub data: usize,
    pub model: usize,
    pub link: Option<Link>,
    pub why: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BackendFound {
    pub name: String,
    pub compiled_in: bool,
    pub devices: Option<usize>,
    pub error: Option<String>,
    /// What it needs and does not find on this machine.
    #[serde(skip)]
    pub no_driver: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Copy {
    pub data_device: String,
    pub model_device: String,
    pub sizes: Option<Vec<CopySize>>,
    /// Why nothing was measured.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CopySize {
    pub bytes: u64,
    pub rounds: usize,
    pub best_bytes_per_second: f64,
    pub median_bytes_per_second: f64,
    /// The same on both devices.
    pub checksum: String,
}

impl DevicesResult {
    /// Real GPUs that a backend of this build can use.
    pub fn usable(&self) -> impl Iterator<Item = &GpuFound> {
        self.gpus
            .iter()
            .filter(|gpu| !gpu.software && !gpu.names.is_empty())
    }

    /// The number of the machine's own cards.
    pub fn cards(&self) -> usize {
        self.gpus.iter().filter(|gpu| gpu.card.is_some()).count()
    }

    /// The link between two of the machine's cards.
    pub fn link(&self, a: usize, b: usize) -> Option<Link> {
        let gpus = [a.min(b), a.max(b)];
        let found = self.links.iter().find(|link| link.gpus == gpus)?;
        Some(found.link)
    }
}
