//! The host and this process, by `/proc`.
//!
//! The few short files are read and parsed by hand: less than a dependency would bring, it takes
//! any root, and a file that is missing or malformed costs its own values only. Where there is no
//! `/proc`, as on macOS and Windows, there are no values at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::quota::GroupProbe;
use super::rate::Counter;
use super::{line_after, read_number, read_text};
use crate::event::{AllowedCpu, HostSample, Nanos};

/// Of `/proc/diskstats`, whatever the disk's own sector size is.
const SECTOR_BYTES: u64 = 512;

/// The units of this kernel, which `/proc` does not report.
#[derive(Clone, Copy, Debug)]
struct Units {
    page_bytes: u64,
    ticks_per_second: u64,
}

impl Units {
    #[cfg(target_os = "linux")]
    fn of_this_kernel() -> Units {
        Units {
            page_bytes: rustix::param::page_size() as u64,
            ticks_per_second: rustix::param::clock_ticks_per_second(),
        }
    }

    /// Without `/proc` there is nothing to convert.
    #[cfg(not(target_os = "linux"))]
    fn of_this_kernel() -> Units {
        Units {
            page_bytes: 4096,
            ticks_per_second: 100,
        }
    }
}

#[derive(Debug)]
pub(super) struct HostProbe {
    proc: PathBuf,
    /// `/sys/block`, which knows what is a disk of its own.
    block: PathBuf,
    /// `/sys/fs/cgroup`.
    groups: PathBuf,
    units: Units,
    cpu: Option<CpuTicks>,
    /// Of the cores that this process may use.
    allowed_cpu: Option<CpuTicks>,
    group_cpu: GroupProbe,
    process_ticks: Counter,
    swapped_pages: Counter,
    disks: BTreeMap<String, DiskCounters>,
}

#[derive(Debug, Default)]
struct DiskCounters {
    read: Counter,
    written: Counter,
}

impl HostProbe {
    pub(super) fn new(proc: &Path, sys: &Path) -> HostProbe {
        HostProbe {
            proc: proc.to_owned(),
            block: sys.join("block"),
            groups: sys.join("fs/cgroup"),
            units: Units::of_this_kernel(),
            cpu: None,
            allowed_cpu: None,
            group_cpu: GroupProbe::default(),
            process_ticks: Counter::default(),
            swapped_pages: Counter::default(),
            disks: BTreeMap::new(),
        }
    }

    pub(super) fn sample(&mut self, now: Nanos) -> HostSample {
        let read = |name: &str| read_text(&self.proc.join(name));
        let stat = read("stat").unwrap_or_default();
        let cpu = CpuTicks::parse(&stat);
        let allowed = read("self/status").and_then(|text| allowed_cores(&text));
        let allowed_cpu = (allowed.as_ref()).and_then(|cores| CpuTicks::of_cores(&stat, cores));
        let process = read("self/stat").and_then(|text| Process::parse(&text));
        let memory = read("meminfo").map(|text| MemInfo::parse(&text));
        let memory = memory.unwrap_or_default();
        let swapped = read("vmstat").and_then(|text| swapped_pages(&text));
        let diskstats = read("diskstats").unwrap_or_default();

        let cpu_percent = cpu.zip(self.cpu).and_then(|(now, last)| now.percent(last));
        self.cpu = cpu;
        let allowed_percent = (allowed_cpu.zip(self.allowed_cpu))
            .and_then(|(now, last)| now.percent(last))
            .map(|percent| (percent * 10.0).round() / 10.0);
        self.allowed_cpu = allowed_cpu;
        let ticks = process.map(|process| process.ticks);
        let ticks = self.process_ticks.per_second(now, ticks);
        let swapped = self.swapped_pages.per_second(now, swapped);
        let (disk_read, disk_write) = self.disk_rates(now, &disks(&diskstats));
        HostSample {
            cpu_percent,
            allowed_cpu: allowed_percent
                .zip(allowed)
                .map(|(percent, cores)| AllowedCpu {
                    percent,
                    cores: cores.len() as u64,
                }),
            group_cpu: self.group_cpu.sample(now, &self.proc, &self.groups),
            process_cpu_percent: ticks
                .map(|ticks| 100.0 * ticks / self.units.ticks_per_second as f64),
            process_memory: process
                .map(|process| process.resident_pages.saturating_mul(self.units.page_bytes)),
            memory_available: memory.available,
            memory_total: memory.total,
            swap_used: memory.swap_used(),
            swap_traffic: swapped.map(|pages| (pages * self.units.page_bytes as f64) as u64),
            disk_read,
            disk_write,
        }
    }

    /// Bytes a second, read and written, of all disks that were there before and still are.
    fn disk_rates(&mut self, now: Nanos, disks: &[DiskLine<'_>]) -> (Option<u64>, Option<u64>) {
        let mut before = std::mem::take(&mut self.disks);
        let (mut read, mut written) = (None::<u64>, None::<u64>);
        for disk in disks {
            // `cciss/c0d0` is one directory there, `cciss!c0d0`.
            if !is_hardware(&self.block.join(disk.name.replace('/', "!"))) {
                continue;
            }
            let mut counters = before.remove(disk.name).unwrap_or_default();
            let bytes = |rate: f64| (rate * SECTOR_BYTES as f64) as u64;
            if let Some(rate) = counters.read.per_second(now, Some(disk.sectors_read)) {
                read = Some(bytes(rate).saturating_add(read.unwrap_or(0)));
            }
            if let Some(rate) = counters.written.per_second(now, Some(disk.sectors_written)) {
                written = Some(bytes(rate).saturating_add(written.unwrap_or(0)));
            }
            self.disks.insert(disk.name.to_owned(), counters);
        }
        (read, written)
    }
}

/// Whether bytes that move here have not been counted elsewhere. Only whole disks have a directory
/// in `/sys/block`, so a partition has none. Only what hangs on a bus has a `device` in it: loop,
/// dm and md pass their bytes on to another disk, ram and zram are memory. A hidden one is a path to
/// another disk (NVMe multipath). A network block device (nbd) has no `device` and is left out.
fn is_hardware(disk: &Path) -> bool {
    disk.join("device").exists() && read_number(&disk.join("hidden")).unwrap_or(0) == 0
}

/// `Cpus_allowed_list: 0-1,4` of `/proc/self/status`: the cores that the scheduler may give this
/// process. A quota of a container is none of them.
fn allowed_cores(status: &str) -> Option<BTreeSet<u64>> {
    let list = line_after(status, "Cpus_allowed_list:")?;
    let mut cores = BTreeSet::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u64 = first.parse().ok()?;
        let last: u64 = last.parse().ok()?;
        if last >= MOST_CORES {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores).filter(|cores| !cores.is_empty())
}

/// More than Linux can be built for: a larger number is damage, and is not counted up to.
const MOST_CORES: u64 = 1 << 16;

/// Time of some cores together since boot, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTicks {
    idle: u64,
    total: u64,
}

impl CpuTicks {
    /// `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is already
    /// in user time. Waiting for a disk is idle; what a hypervisor steals is not: we cannot have it.
    fn parse(stat: &str) -> Option<CpuTicks> {
        CpuTicks::of_line(line_after(stat, "cpu ")?)
    }

    /// Of these cores, each of which has a line `cpu<number>`.
    fn of_cores(stat: &str, cores: &BTreeSet<u64>) -> Option<CpuTicks> {
        let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
        let mut sum = CpuTicks::default();
        let mut found = 0;
        for (number, ticks) in lines.filter_map(|line| line.split_once(' ')) {
            if number.parse().is_ok_and(|number| cores.contains(&number)) {
                let ticks = CpuTicks::of_line(ticks)?;
                sum.idle = sum.idle.saturating_add(ticks.idle);
                sum.total = sum.total.saturating_add(ticks.total);
                found += 1;
            }
        }
        (found > 0).then_some(sum)
    }

    fn of_line(line: &str) -> Option<CpuTicks> {
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map(|ticks| ticks.parse().ok())
            .collect::<Option<_>>()?;
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4).unwrap_or(&0));
        let total = ticks.iter().fold(0u64, |sum, t| sum.saturating_add(*t));
        Some(CpuTicks { idle, total })
    }

    fn percent(self, before: CpuTicks) -> Option<f64> {
        let total = self.total.checked_sub(before.total)?;
        // By the kernel's documentation iowait may go back a little.
        let idle = self.idle.saturating_sub(before.idle).min(total);
        (total > 0).then(|| 100.0 * (total - idle) as f64 / total as f64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    ticks: u64,
    resident_pages: u64,
}

impl Process {
    /// `pid (name) state …`; the name may hold blanks and brackets, so fields count from the last
    /// bracket. proc(5) numbers them from 1: utime 14, stime 15, rss 24; what follows the name
    /// begins with 3.
    fn parse(stat: &str) -> Option<Process> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Process {
            ticks: field(14)?.saturating_add(field(15)?),
            resident_pages: field(24)?,
        })
    }
}

/// In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemInfo {
    pub(super) total: Option<u64>,
    pub(super) available: Option<u64>,
    swap_total: Option<u64>,
    swap_free: Option<u64>,
}

impl MemInfo {
    pub(super) fn parse(meminfo: &str) -> MemInfo {
        let bytes = |name: &str| {
            let number = line_after(meminfo, name)?.trim().strip_suffix("kB")?.trim();
            number.parse::<u64>().ok()?.checked_mul(1024)
        };
        MemInfo {
            total: bytes("MemTotal:"),
            available: bytes("MemAvailable:"),
            swap_total: bytes("SwapTotal:"),
            swap_free: bytes("SwapFree:"),
        }
    }

    fn swap_used(self) -> Option<u64> {
        self.swap_total?.checked_sub(self.swap_free?)
    }
}

/// Pages that went to swap or came from it since boot.
fn swapped_pages(vmstat: &str) -> Option<u64> {
    let pages = |name: &str| line_after(vmstat, name)?.trim().parse::<u64>().ok();
    pages("pswpin ")?.checked_add(pages("pswpout ")?)
}

/// Since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiskLine<'a> {
    name: &'a str,
    sectors_read: u64,
    sectors_written: u64,
}

/// `major minor name reads merged sectors ms writes merged sectors ms …`
fn disks(diskstats: &str) -> Vec<DiskLine<'_>> {
    let parse = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        Some(DiskLine {
            name: fields.get(2)?,
            sectors_read: fields.get(5)?.parse().ok()?,
            sectors_written: fields.get(9)?.parse().ok()?,
        })
    };
    diskstats.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(text: &str) {
        let cpu = CpuTicks::parse(text);
        let percent = cpu.and_then(|cpu| cpu.percent(CpuTicks { idle: 7, total: 9 }));
        assert!(percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
        Process::parse(text);
        MemInfo::parse(text).swap_used();
        swapped_pages(text);
        disks(text);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "(\\PC|[\n\t ()]){0,300}") {
            read_all(&text);
        }

        /// Text that has the right words followed by any numbers.
        #[test]
        fn any_numbers_can_be_read(
            words in prop::collection::vec(
                prop_oneof![
                    Just("cpu ".to_owned()),
                    Just("1 (x) R ".to_owned()),
                    Just("SwapTotal: ".to_owned()),
                    Just("SwapFree: ".to_owned()),
                    Just(" kB\n".to_owned()),
                    Just("\npswpin ".to_owned()),
                    Just("\npswpout ".to_owned()),
                    any::<u64>().prop_map(|number| format!("{number} ")),
                    Just(format!("{} ", u64::MAX)),
                ],
                0..60,
            )
        ) {
            read_all(&words.concat());
        }
    }

    #[test]
    fn cpu_time_is_what_is_neither_idle_nor_waiting_for_a_disk() {
        let before = CpuTicks::parse("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!((before.idle, before.total), (850, 1000));
        let after = CpuTicks::parse("cpu  160 0 60 820 50 0 0 10 7 0\n").unwrap();
        assert_eq!(after.percent(before), Some(80.0));
        assert_eq!(before.percent(before), None, "no time has passed");
        assert_eq!(before.percent(after), None, "time does not go back");
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "42 (a) b ( c)) R 1 42 42 0 -1 4194304 5 0 0 0 300 20 0 0 20 0 8 0 100 99999 \
                    2500 18446744073709551615 1 1";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.ticks, process.resident_pages), (320, 2500));
        assert_eq!(Process::parse("42 (short) R 1"), None);
    }

    #[test]
    fn memory_is_in_bytes_and_swap_may_be_off() {
        let memory = MemInfo::parse("MemTotal: 100 kB\nMemAvailable:   60 kB\nSwapTotal: 0 kB\n");
        assert_eq!(memory.total, Some(102_400));
        assert_eq!(memory.available, Some(61_440));
        assert_eq!(memory.swap_used(), None, "SwapFree is missing");
        let megabytes = MemInfo::parse("MemTotal: 100 MB\n");
        assert_eq!(megabytes.total, None, "another unit is not guessed");
    }

    #[test]
    fn swap_traffic_is_in_both_directions() {
        assert_eq!(swapped_pages("pgpgin 9\npswpin 3\npswpout 4\n"), Some(7));
        assert_eq!(swapped_pages("pswpin 3\n"), None);
    }

    #[test]
    fn a_disk_line_may_be_old_and_short_or_new_and_long() {
        let text = "   8  0 sda 10 1 800 5 20 2 1600 9 0 4 14 0 0 0 0 1 1\n 8 1 sda1 1 2\n";
        let found = disks(text).into_iter();
        let found = found.map(|disk| (disk.name, disk.sectors_read, disk.sectors_written));
        assert_eq!(found.collect::<Vec<_>>(), [("sda", 800, 1600)]);
    }
}
