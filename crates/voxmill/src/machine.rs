//! The host, as far as a person wants to hear of it before a run.

use std::fs;
use std::path::Path;

use voxmill_telemetry::probes::{Roots, usable_memory};

use voxmill_settings::cores;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// As the processor calls itself; `None` where the system does not say.
    pub(crate) cpu: Option<String>,
    /// That this process may use.
    pub(crate) cores: usize,
    pub(crate) numa_nodes: usize,
    /// That this process may use.
    pub(crate) memory: Option<u64>,
    /// Of the whole machine, at this moment.
    pub(crate) memory_available: Option<u64>,
}

impl Host {
    pub(crate) fn detect(roots: &Roots) -> Host {
        let read = |name: &str| fs::read_to_string(roots.proc.join(name)).unwrap_or_default();
        Host {
            cpu: cpu_name(&read("cpuinfo")),
            cores: cores(),
            numa_nodes: numa_nodes(&roots.sys).max(1),
            memory: usable_memory(roots),
            memory_available: available(&read("meminfo")),
        }
    }
}

/// `model name` on x86; ARM's kernels say less.
fn cpu_name(cpuinfo: &str) -> Option<String> {
    let named = ["model name", "Model", "Hardware"];
    let value = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name && !value.trim().is_empty()).then(|| value.trim())
        })
    };
    let name = named.into_iter().find_map(value)?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn numa_nodes(sys: &Path) -> usize {
    let entries = fs::read_dir(sys.join("devices/system/node"));
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let is_node = |name: &str| {
        name.strip_prefix("node")
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    names
        .filter(|name| name.to_str().is_some_and(is_node))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_called_as_it_calls_itself() {
        let x86 = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)   CPU @ 2.20GHz\n";
        assert_eq!(cpu_name(x86).unwrap(), "Intel(R) Xeon(R) CPU @ 2.20GHz");
        assert_eq!(
            cpu_name("processor: 0\nModel\t: Raspberry Pi 5\n").unwrap(),
            "Raspberry Pi 5"
        );
        assert_eq!(cpu_name("processor: 0\n"), None);
        assert_eq!(
            available("MemTotal: 9 kB\nMemAvailable:  2 kB\n"),
            Some(2048)
        );
    }

    #[test]
    fn a_machine_that_says_nothing_is_no_error() {
        let nowhere = Path::new("/nowhere");
        let host = Host::detect(&Roots {
            proc: nowhere.to_owned(),
            sys: nowhere.to_owned(),
            nvml_library: None,
        });
        assert_eq!((host.cpu, host.memory, host.numa_nodes), (None, None, 1));
        assert!(host.cores > 0);
    }
}
