//! What a copy from one GPU to another goes through.

use std::collections::BTreeMap;
use std::path::Path;

use super::nvidia::NvidiaLinks;
use super::pcie::{PciPath, numa_node};
use super::{GpuFacts, PciAddress, Vendor};
use crate::probes::drm::numbered;
use crate::probes::{Roots, read_text};

/// From the best to the worst, so the smaller one is the better one. The names are those of
/// `nvidia-smi topo`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Link {
    #[serde(rename = "same")]
    Same,
    #[serde(rename = "NVLink")]
    Nvlink,
    /// One switch at most.
    Pix,
    /// Several switches, no host bridge.
    Pxb,
    Phb,
    Node,
    Sys,
}

impl Link {
    /// As `nvidia-smi topo` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Link::Same => "same",
            Link::Nvlink => "NVLink",
            Link::Pix => "PIX",
            Link::Pxb => "PXB",
            Link::Phb => "PHB",
            Link::Node => "NODE",
            Link::Sys => "SYS",
        }
    }

    /// To follow "they are linked".
    pub fn describe(self) -> &'static str {
        match self {
            Link::Same => "within one and the same device",
            Link::Nvlink => "over NVLink, which bypasses PCIe",
            Link::Pix => "through a single PCIe switch",
            Link::Pxb => "through several PCIe switches, without the CPU",
            Link::Phb => "through the CPU's PCIe host bridge",
            Link::Node => "through two PCIe host bridges of one NUMA node",
            Link::Sys => "through two NUMA nodes and what connects them",
        }
    }

    /// Whether copies share the connections within or between CPUs with everything else there.
    pub fn is_slow(self) -> bool {
        matches!(self, Link::Node | Link::Sys)
    }
}

/// The links between the GPUs of a list, by their places in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(BTreeMap<(usize, usize), Link>);

impl Links {
    /// `None` where it is not known.
    pub fn between(&self, a: usize, b: usize) -> Option<Link> {
        if a == b {
            return Some(Link::Same);
        }
        self.0.get(&(a.min(b), a.max(b))).copied()
    }
}

/// The order of the two places is of no matter.
impl FromIterator<((usize, usize), Link)> for Links {
    fn from_iter<I: IntoIterator<Item = ((usize, usize), Link)>>(links: I) -> Links {
        let ordered = |((a, b), link): ((usize, usize), Link)| ((a.min(b), a.max(b)), link);
        Links(links.into_iter().map(ordered).collect())
    }
}

/// The links of all pairs; NVIDIA's library is loaded once for all, and only for two of its cards.
pub fn links(gpus: &[GpuFacts], roots: &Roots) -> Links {
    let is_nvidia = |gpu: &&GpuFacts| gpu.vendor == Vendor::Nvidia;
    let nvidia = (gpus.iter().filter(is_nvidia).count() >= 2)
        .then(|| NvidiaLinks::load(roots.nvml_library.as_deref()))
        .flatten();
    let places = 0..gpus.len();
    let pairs = places.flat_map(|b| (0..b).map(move |a| (a, b)));
    pairs
        .filter_map(|(a, b)| {
            let (first, second) = (gpus[a].pci?, gpus[b].pci?);
            let both_nvidia = is_nvidia(&&gpus[a]) && is_nvidia(&&gpus[b]);
            let nvidia = nvidia.as_ref().filter(|_| both_nvidia);
            Some(((a, b), link(&first, &second, nvidia, &roots.sys)?))
        })
        .collect()
}

/// What NVIDIA's library reports of two of its cards, else what sysfs shows.
pub(super) fn link(
    a: &PciAddress,
    b: &PciAddress,
    nvidia: Option<&NvidiaLinks>,
    sys: &Path,
) -> Option<Link> {
    if a == b {
        return Some(Link::Same);
    }
    nvidia
        .and_then(|nvidia| nvidia.between(a, b))
        .or_else(|| link_in_sysfs(a, b, sys))
}

fn link_in_sysfs(a: &PciAddress, b: &PciAddress, sys: &Path) -> Option<Link> {
    let (path_a, path_b) = (PciPath::find(a, sys)?, PciPath::find(b, sys)?);
    if path_a.host_bridge != path_b.host_bridge {
        return Some(if share_numa_node(a, b, sys) {
            Link::Node
        } else {
            Link::Sys
        });
    }
    let shared = (path_a.devices.iter().zip(&path_b.devices))
        .take_while(|(a, b)| a == b)
        .count();
    if shared == 0 {
        return Some(Link::Phb);
    }
    // Below what they share, a switch shows one port on the path to each of them. Two more are one
    // more switch.
    let within_one_switch = ports_below(&path_a, shared) <= 1 && ports_below(&path_b, shared) <= 1;
    Some(if within_one_switch {
        Link::Pix
    } else {
        Link::Pxb
    })
}

/// The ports of switches between a device and what it shares with another, without those of a
/// switch on the card itself: AMD's and Intel's cards have one, and it slows nothing.
fn ports_below(path: &PciPath, shared: usize) -> usize {
    let below = path.devices.get(shared..).unwrap_or_default();
    let Some((gpu, ports)) = below.split_last() else {
        return 0;
    };
    let vendor = |device: &Path| read_text(&device.join("vendor"));
    let own = vendor(gpu);
    match ports {
        [above @ .., up, down] if own.is_some() && vendor(up) == own && vendor(down) == own => {
            above.len()
        }
        _ => ports.len(),
    }
}

/// A machine with one node need not report which one a device is on. On others the worse answer is the
/// safe one.
fn share_numa_node(a: &PciAddress, b: &PciAddress, sys: &Path) -> bool {
    match (numa_node(a, sys), numa_node(b, sys)) {
        (Some(a), Some(b)) => a == b,
        _ => numbered(&sys.join("devices/system/node"), "node").len() <= 1,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::fake_sys::{FakeSys, link_between};
    use super::super::gpus;
    use super::*;

    /// The link of the devices at the ends of two paths, in both directions.
    fn link_of(sys: &FakeSys, a: &str, b: &str) -> Option<Link> {
        let address = |path: &str| path.rsplit('/').next().unwrap().parse().unwrap();
        let (a, b): (PciAddress, PciAddress) = (address(a), address(b));
        let link = link_between(&a, &b, &sys.roots());
        assert_eq!(
            link_between(&b, &a, &sys.roots()),
            link,
            "in the other direction"
        );
        link
    }

    fn built(paths: [&str; 2]) -> (FakeSys, Option<Link>) {
        let sys = FakeSys::new();
        for path in paths {
            sys.device(path);
        }
        let link = link_of(&sys, paths[0], paths[1]);
        (sys, link)
    }

    /// The upper port of a switch.
    const SWITCH: &str = "pci0000:00/0000:00:01.0/0000:01:00.0";

    #[test]
    fn the_ways_of_two_devices_make_their_link() {
        let below = |path: &str| format!("{SWITCH}/{path}");
        let third = below("0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0");
        let fourth = below("0000:02:01.0/0000:06:00.0/0000:07:00.0/0000:08:00.0");
        let (port, card) = (
            "pci0000:00/0000:00:01.0",
            "pci0000:00/0000:00:01.1/0000:02:00.0",
        );
        for (case, paths, link) in [
            (
                "one switch",
                [
                    &*below("0000:02:00.0/0000:03:00.0"),
                    &below("0000:02:01.0/0000:04:00.0"),
                ],
                Link::Pix,
            ),
            (
                "two functions of a card",
                [SWITCH, &format!("{port}/0000:01:00.1")],
                Link::Pix,
            ),
            (
                "a switch for each below a third one",
                [&third, &fourth],
                Link::Pxb,
            ),
            (
                "one of them behind a second switch",
                [&third, &below("0000:02:01.0/0000:06:00.0")],
                Link::Pxb,
            ),
            ("one host bridge", [SWITCH, card], Link::Phb),
            (
                "one of them on the bridge itself",
                ["pci0000:00/0000:00:02.0", SWITCH],
                Link::Phb,
            ),
            (
                "both on the bridge itself",
                ["pci0000:00/0000:00:05.0", "pci0000:00/0000:00:06.0"],
                Link::Phb,
            ),
        ] {
            let (sys, found) = built(paths);
            assert_eq!(found, Some(link), "{case}");
            assert_eq!(
                link_of(&sys, paths[0], paths[0]),
                Some(Link::Same),
                "{case}"
            );
        }
    }

    #[test]
    fn a_switch_on_the_card_is_no_hop() {
        let a = format!("{SWITCH}/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0");
        let b = format!("{SWITCH}/0000:02:01.0/0000:06:00.0/0000:07:00.0/0000:08:00.0");
        let (sys, link) = built([&a, &b]);
        assert_eq!(
            link,
            Some(Link::Pxb),
            "whose switches these are is not known"
        );
        for path in [&a, &b] {
            let (down, _) = path.rsplit_once('/').unwrap();
            let (up, _) = down.rsplit_once('/').unwrap();
            for device in [path, down, up] {
                sys.device(device).file("vendor", "0x1002\n");
            }
        }
        assert_eq!(link_of(&sys, &a, &b), Some(Link::Pix));
        sys.device(&a).file("vendor", "0x10de\n");
        assert_eq!(link_of(&sys, &a, &b), Some(Link::Pxb));
    }

    #[test]
    fn on_two_host_bridges_the_numa_nodes_decide() {
        let paths = [
            "pci0000:00/0000:00:01.0/0000:01:00.0",
            "pci0000:80/0000:80:01.0/0000:81:00.0",
        ];
        let (sys, link) = built(paths);
        assert_eq!(link, Some(Link::Node), "a kernel without NUMA");
        let nodes = |a: &str, b: &str| {
            sys.device(paths[0]).file("numa_node", a);
            sys.device(paths[1]).file("numa_node", b);
            link_of(&sys, paths[0], paths[1])
        };
        assert_eq!(nodes("0\n", "0\n"), Some(Link::Node));
        assert_eq!(nodes("0\n", "1\n"), Some(Link::Sys));
        sys.write("devices/system/node/node0/cpulist", "0-7\n");
        sys.write("devices/system/node/online", "0\n");
        assert_eq!(nodes("-1\n", "-1\n"), Some(Link::Node), "there is but one");
        sys.write("devices/system/node/node1/cpulist", "8-15\n");
        for (a, b) in [("-1\n", "-1\n"), ("0\n", "-1\n"), ("?", "1\n"), ("", "")] {
            assert_eq!(nodes(a, b), Some(Link::Sys), "{a:?} {b:?}");
        }
    }

    #[test]
    fn on_two_domains_one_bus_number_is_not_one_bridge() {
        let (a, b) = ("pci0000:00/0000:00:01.0", "pci0001:00/0001:00:01.0");
        let (sys, _) = built([a, b]);
        sys.device(a).file("numa_node", "0\n");
        sys.device(b).file("numa_node", "1\n");
        assert_eq!(link_of(&sys, a, b), Some(Link::Sys));
    }

    #[test]
    fn the_link_of_what_is_not_there_is_not_known() {
        let sys = FakeSys::new();
        sys.device("pci0000:00/0000:00:01.0");
        assert_eq!(link_of(&sys, "0000:00:01.0", "0000:09:00.0"), None);
    }

    #[test]
    fn all_pairs_of_a_machine() {
        let sys = FakeSys::new();
        let [a, b] = ["0000:02:00.0/0000:03:00.0", "0000:02:01.0/0000:04:00.0"];
        sys.card(0, &format!("{SWITCH}/{a}"), "amdgpu", "1002:1");
        sys.card(1, "pci0000:00/0000:00:02.0", "i915", "8086:1");
        sys.card(2, &format!("{SWITCH}/{b}"), "amdgpu", "1002:1");
        let mut found = gpus(&sys.roots());
        let table = links(&found, &sys.roots());
        let expected = [
            ((0, 1), Link::Phb),
            ((2, 0), Link::Pix),
            ((1, 2), Link::Phb),
        ];
        assert_eq!(table, expected.into_iter().collect());
        assert_eq!(table.between(2, 0), Some(Link::Pix));
        assert_eq!(table.between(1, 1), Some(Link::Same));
        assert_eq!(table.between(0, 9), None);
        found[0].pci = None;
        assert_eq!(links(&found, &sys.roots()).between(0, 2), None);
    }

    #[test]
    fn links_are_ordered_and_all_described() {
        use Link::*;
        let all = [Same, Nvlink, Pix, Pxb, Phb, Node, Sys];
        assert!(all.is_sorted());
        let slow: Vec<Link> = all.into_iter().filter(|link| link.is_slow()).collect();
        assert_eq!(slow, [Node, Sys]);
        let words: std::collections::BTreeSet<&str> = all.map(Link::describe).into();
        assert_eq!(words.len(), all.len());
    }
}
