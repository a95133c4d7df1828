//! The host: what is printed of it before a run, and what a process takes of it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::host::MemInfo;
use super::{Roots, usable_memory};

/// The cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// As the processor calls itself. `None` where the system does not say.
pub fn processor() -> Option<String> {
    cpu_name(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// All cores, whether this process may use them or not. `None` where the system does not say.
pub fn machine_cores() -> Option<usize> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let cores = info.lines().filter(|line| line.starts_with("processor"));
    Some(cores.count()).filter(|cores| *cores > 0)
}

/// The machine without its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// As the processor calls itself; `None` where the system does not say.
    pub cpu: Option<String>,
    /// That this process may use.
    pub cores: usize,
    /// At least one.
    pub numa_nodes: usize,
    /// That this process may use.
    pub memory: Option<u64>,
    /// Of the whole machine, at this moment.
    pub memory_available: Option<u64>,
}

impl Host {
    /// Looks once. What the machine does not say is absent.
    pub fn detect(roots: &Roots) -> Host {
        let read = |name: &str| fs::read_to_string(roots.proc.join(name)).unwrap_or_default();
        Host {
            cpu: cpu_name(&read("cpuinfo")),
            cores: cores(),
            numa_nodes: numa_nodes(&roots.sys).max(1),
            memory: usable_memory(roots),
            memory_available: MemInfo::parse(&read("meminfo")).available,
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

fn numa_nodes(sys: &Path) -> usize {
    let entries = fs::read_dir(sys.join("devices/system/node"));
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let number = |name: &OsString| name.to_str()?.strip_prefix("node")?.parse::<u32>().ok();
    names.filter_map(|name| number(&name)).count()
}

/// A number of kilobytes in `/proc/<process>/status`, as bytes.
pub fn status_bytes(process: &str, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    kilobytes(&status, name)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
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
        let meminfo = "MemTotal: 9 kB\nMemAvailable:  2 kB\n";
        assert_eq!(kilobytes(meminfo, "MemAvailable"), Some(2048));
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
