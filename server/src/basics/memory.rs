//! How much memory there is for this process.

use std::fs;
use std::path::Path;

/// Bytes: the machine's, or what the control group of this process may have, if that is less. `None`
/// if the system does not say.
pub(crate) fn available_bytes() -> Option<u64> {
    available_below(Path::new("/"))
}

/// The same of a system whose files are below `root`.
fn available_below(root: &Path) -> Option<u64> {
    let read = |path: String| fs::read_to_string(root.join(path.trim_start_matches('/')));
    let machine = of_machine(&read("/proc/meminfo".to_owned()).ok()?)?;
    let groups = read("/proc/self/cgroup".to_owned()).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (folder, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // Each group is bounded by those above it. In a container, the files of its own group may
        // be at the top instead.
        let groups = Path::new(path).ancestors();
        let files = groups.map(|group| format!("{folder}/{}/{file}", group.display()));
        // "max" means no limit.
        let limits = files.filter_map(|file| read(file).ok()?.trim().parse::<u64>().ok());
        limits.min()
    });
    Some(limits.fold(machine, u64::min))
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "makes the files of a system")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A system with these files.
    fn available(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available_below(root.path())
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:        4194304 kB\nMemFree: 7 kB\n",
    );

    #[test]
    fn it_is_what_the_machine_has_or_the_control_group_may_have() {
        assert_eq!(available(&[]), None);
        assert_eq!(available(&[MEMINFO]), Some(4096 * MIB));
        let own = ("proc/self/cgroup", "0::/a/b\n");
        let unlimited = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(available(&[MEMINFO, own, unlimited]), Some(4096 * MIB));
        let above = ("sys/fs/cgroup/a/memory.max", "1073741824\n");
        assert_eq!(
            available(&[MEMINFO, own, unlimited, above]),
            Some(1024 * MIB)
        );
        let own = ("proc/self/cgroup", "9:cpu:/c\n4:memory:/a\n");
        let limit = (
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "536870912\n",
        );
        assert_eq!(available(&[MEMINFO, own, limit]), Some(512 * MIB));
        // What older systems say for no limit.
        let limit = (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(available(&[MEMINFO, own, limit]), Some(4096 * MIB));
    }
}
