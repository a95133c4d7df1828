//! The CPU time that a container may use: the quota of its control group, and what all programs in that group used.

use std::path::{Path, PathBuf};

use super::rate::Counter;
use super::{line_after, read_number, read_text};
use crate::event::{GroupCpu, Nanos};

/// The group with the tightest quota of this process's groups and all groups around them.
#[derive(Debug, Default)]
pub(super) struct GroupProbe {
    /// Nanoseconds that all programs in the group have used.
    used: Counter,
}

impl GroupProbe {
    /// `None` at the first sample, and where no quota is set.
    pub(super) fn sample(&mut self, now: Nanos, proc: &Path, top: &Path) -> Option<GroupCpu> {
        let group = read_text(&proc.join("self/cgroup")).and_then(|text| tightest(&text, top));
        let used = group.as_ref().and_then(ControlGroup::used_nanos);
        let used = self.used.per_second(now, used)? / 1e9;
        Some(GroupCpu {
            // There are many samples in a log, and nobody needs it closer.
            used: (used * 100.0).round() / 100.0,
            quota: group?.quota,
        })
    }
}

#[derive(Debug, PartialEq)]
struct ControlGroup {
    /// In cores.
    quota: f64,
    usage: UsageFile,
}

#[derive(Debug, PartialEq)]
enum UsageFile {
    /// `cpu.stat` of version 2, microseconds.
    Stat(PathBuf),
    /// `cpuacct.usage` of version 1, nanoseconds.
    Account(PathBuf),
}

impl ControlGroup {
    fn used_nanos(&self) -> Option<u64> {
        match &self.usage {
            UsageFile::Stat(path) => {
                let text = read_text(path)?;
                let micros: u64 = line_after(&text, "usage_usec ")?.trim().parse().ok()?;
                micros.checked_mul(1_000)
            }
            UsageFile::Account(path) => read_number(path),
        }
    }
}

fn tightest(groups: &str, top: &Path) -> Option<ControlGroup> {
    let found = groups.lines().flat_map(|line| of_line(line, top));
    found.min_by(|a, b| a.quota.total_cmp(&b.quota))
}

/// `number:controllers:/path`
fn of_line(line: &str, top: &Path) -> Vec<ControlGroup> {
    let mut parts = line.trim().splitn(3, ':');
    let (number, controllers, path) = (parts.next(), parts.next(), parts.next());
    let Some(path) = path.and_then(|path| path.strip_prefix('/')) else {
        return Vec::new();
    };
    let controllers = controllers.unwrap_or_default();
    if number == Some("0") && controllers.is_empty() {
        // Version 2 has one hierarchy.
        return around(top, path)
            .filter_map(|folder| {
                let max = read_text(&folder.join("cpu.max"))?;
                // `max 100000` is no quota, and no number.
                let (quota, period) = max.trim().split_once(' ')?;
                Some(ControlGroup {
                    quota: cores(quota.parse().ok()?, period.parse().ok()?)?,
                    usage: UsageFile::Stat(folder.join("cpu.stat")),
                })
            })
            .collect();
    }
    if !controllers.split(',').any(|name| name == "cpu") {
        return Vec::new();
    }
    // Version 1 has one for each controller, and `-1` for no quota.
    let cpu = top.join("cpu");
    around(&cpu, path)
        .filter_map(|folder| {
            let quota = read_number(&folder.join("cpu.cfs_quota_us"))?;
            let period = read_number(&folder.join("cpu.cfs_period_us"))?;
            let below = folder.strip_prefix(&cpu).ok()?;
            let account = top.join("cpuacct").join(below).join("cpuacct.usage");
            Some(ControlGroup {
                quota: cores(quota, period)?,
                usage: UsageFile::Account(account),
            })
        })
        .collect()
}

/// A group's folder and those around it.
fn around(top: &Path, group: &str) -> impl Iterator<Item = PathBuf> {
    let own = top.join(group);
    let all: Vec<PathBuf> = own
        .ancestors()
        .take_while(|folder| folder.starts_with(top))
        .map(Path::to_owned)
        .collect();
    all.into_iter()
}

fn cores(quota: u64, period: u64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Machine(tempfile::TempDir, GroupProbe);

    impl Machine {
        fn new() -> Machine {
            Machine(tempfile::tempdir().unwrap(), GroupProbe::default())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn sample(&mut self, second: u64) -> Option<GroupCpu> {
            let top = self.0.path().join("cgroup");
            self.1.sample(
                Nanos(second * 1_000_000_000),
                &self.0.path().join("proc"),
                &top,
            )
        }
    }

    fn group(used: f64, quota: f64) -> Option<GroupCpu> {
        Some(GroupCpu { used, quota })
    }

    #[test]
    fn the_tightest_quota_counts_with_what_all_its_programs_use() {
        let mut machine = Machine::new();
        assert_eq!(machine.sample(0), None);
        machine.write("proc/self/cgroup", "0::/pod/app\n");
        machine.write("cgroup/pod/app/cpu.max", "max 100000\n");
        machine.write("cgroup/pod/app/cpu.stat", "usage_usec 5\n");
        machine.sample(1);
        assert_eq!(machine.sample(2), None, "no quota");
        machine.write("cgroup/pod/cpu.max", "150000 100000\n");
        machine.write("cgroup/pod/cpu.stat", "usage_usec 1000000\nuser_usec 9\n");
        assert_eq!(machine.sample(3), None, "the first reading");
        machine.write("cgroup/pod/cpu.stat", "usage_usec 4000000\nuser_usec 9\n");
        assert_eq!(machine.sample(5), group(1.5, 1.5));
        machine.write("cgroup/pod/cpu.max", "150000 0\n");
        assert_eq!(machine.sample(6), None, "damage is no quota");
    }

    #[test]
    fn groups_of_version_1_have_quotas_too() {
        let mut machine = Machine::new();
        machine.write("proc/self/cgroup", "2:cpuacct:/a\n1:cpu:/a\n0::/\n");
        machine.write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        machine.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
        machine.write("cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
        machine.write("cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
        machine.write("cgroup/cpuacct/a/cpuacct.usage", "1000000000\n");
        assert_eq!(machine.sample(0), None);
        machine.write("cgroup/cpuacct/a/cpuacct.usage", "1500000000\n");
        assert_eq!(machine.sample(1), group(0.5, 2.0));
    }
}
