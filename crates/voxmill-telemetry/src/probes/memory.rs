//! How much memory this process may use.

use std::path::Path;

use super::host::MemInfo;
use super::{Roots, read_number, read_text};

/// The machine's memory, or what the process's control groups (a container's limit) leave of it.
/// `None` where the system does not report it.
pub fn usable_memory(roots: &Roots) -> Option<u64> {
    let total = MemInfo::parse(&read_text(&roots.proc.join("meminfo"))?).total?;
    Some(group_limit(roots).map_or(total, |limit| limit.min(total)))
}

/// The tightest limit of this process's control groups and all groups around them.
fn group_limit(roots: &Roots) -> Option<u64> {
    let groups = read_text(&roots.proc.join("self/cgroup"))?;
    let top = roots.sys.join("fs/cgroup");
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.trim().splitn(3, ':');
        let (number, controllers) = (parts.next()?, parts.next()?);
        let group = parts.next()?.strip_prefix('/')?;
        if number == "0" && controllers.is_empty() {
            // Version 2 has one hierarchy.
            tightest(&top, group, "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            // Version 1 has one for each controller, and a huge number for no limit, which the
            // machine's memory is below.
            tightest(&top.join("memory"), group, "memory.limit_in_bytes")
        } else {
            None
        }
    });
    limits.min()
}

fn tightest(top: &Path, group: &str, file: &str) -> Option<u64> {
    let own = top.join(group);
    own.ancestors()
        .take_while(|folder| folder.starts_with(top))
        .filter_map(|folder| read_number(&folder.join(file)))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine with 16 GB and what else is written there.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            assert_eq!(machine.usable(), None);
            machine.write("proc/meminfo", "MemTotal:       16000000 kB\n");
            assert_eq!(machine.usable(), Some(ALL));
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn usable(&self) -> Option<u64> {
            usable_memory(&Roots {
                proc: self.0.path().join("proc"),
                sys: self.0.path().join("sys"),
                nvml_library: None,
            })
        }
    }

    const ALL: u64 = 16_384_000_000;

    #[test]
    fn a_container_may_use_what_its_tightest_group_leaves() {
        let machine = Machine::new();
        machine.write("proc/self/cgroup", "0::/pod/app\n");
        machine.write("sys/fs/cgroup/pod/app/memory.max", "max\n");
        assert_eq!(machine.usable(), Some(ALL));
        machine.write("sys/fs/cgroup/pod/memory.max", "1000000000\n");
        assert_eq!(machine.usable(), Some(1_000_000_000));
    }

    #[test]
    fn groups_of_version_1_limit_too() {
        let machine = Machine::new();
        let groups = "5:cpu,cpuacct:/pod/app\n4:hugetlb,memory:/pod/app\n0::/other\n";
        machine.write("proc/self/cgroup", groups);
        let none = "9223372036854771712\n";
        machine.write("sys/fs/cgroup/memory/pod/app/memory.limit_in_bytes", none);
        machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", none);
        assert_eq!(machine.usable(), Some(ALL));
        machine.write(
            "sys/fs/cgroup/memory/pod/memory.limit_in_bytes",
            "2000000000\n",
        );
        assert_eq!(machine.usable(), Some(2_000_000_000));
        // Both versions at once: the tighter one holds.
        machine.write("sys/fs/cgroup/other/memory.max", "1000000000\n");
        assert_eq!(machine.usable(), Some(1_000_000_000));
    }
}
