//! How much memory this process may use.

use std::path::Path;

use super::host::Memory;
use super::{Roots, read_text};

/// The machine's memory, or what the process's control groups (a container's limit) leave of it.
/// `None` where the system does not say.
pub fn usable_memory(roots: &Roots) -> Option<u64> {
    let total = Memory::parse(&read_text(&roots.proc.join("meminfo"))?).total?;
    Some(group_limit(roots).map_or(total, |limit| limit.min(total)))
}

/// The tightest limit of this process's control group and all groups around it.
fn group_limit(roots: &Roots) -> Option<u64> {
    let groups = read_text(&roots.proc.join("self/cgroup"))?;
    // Version 2 has one hierarchy, numbered 0.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let top = roots.sys.join("fs/cgroup");
    let limit = |folder: &Path| read_text(&folder.join("memory.max"))?.trim().parse().ok();
    let own = top.join(group.trim());
    own.ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .filter_map(limit)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_container_may_use_what_its_tightest_group_leaves() {
        let home = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: home.path().join("proc"),
            sys: home.path().join("sys"),
            nvml_library: None,
        };
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(usable_memory(&roots), None);
        write("proc/meminfo", "MemTotal:       16000000 kB\n");
        assert_eq!(usable_memory(&roots), Some(16_384_000_000));
        write("proc/self/cgroup", "0::/pod/app\n");
        write("sys/fs/cgroup/pod/app/memory.max", "max\n");
        assert_eq!(usable_memory(&roots), Some(16_384_000_000));
        write("sys/fs/cgroup/pod/memory.max", "1000000000\n");
        assert_eq!(usable_memory(&roots), Some(1_000_000_000));
    }
}
