//! The kernel's statistics of a process: CPU time, memory, bytes sent to the disk.

use std::fs;
use std::io;
use std::time::Duration;

/// One reading of `/proc/<pid>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time of all threads since the start.
    pub cpu: Duration,
    pub resident_bytes: u64,
    /// The highest `resident_bytes` so far, kept by the kernel.
    pub resident_peak_bytes: u64,
    /// Heap and stacks: memory that could only be swapped out; file mappings do not count.
    pub anonymous_bytes: u64,
    /// Bytes this process caused to be sent to the storage layer.
    pub disk_write_bytes: u64,
}

impl Usage {
    pub fn of(pid: u32) -> io::Result<Usage> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Usage {
            cpu: cpu_time(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?,
            resident_bytes: kilobytes(&status, "VmRSS:")?,
            resident_peak_bytes: kilobytes(&status, "VmHWM:")?,
            anonymous_bytes: kilobytes(&status, "RssAnon:")?,
            disk_write_bytes: write_bytes(&fs::read_to_string(format!("/proc/{pid}/io"))?)?,
        })
    }
}

fn cpu_time(stat: &str) -> io::Result<Duration> {
    // The program's name is in parentheses and may hold spaces: count fields after the last one.
    let fields = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let ticks = |field: usize| {
        fields
            .split(' ')
            .nth(field)
            .and_then(|text| text.parse().ok())
    };
    let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
        return Err(malformed("stat"));
    };
    let user: u64 = user;
    let system: u64 = system;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_micros(
        (user + system) * 1_000_000 / per_second,
    ))
}

fn kilobytes(status: &str, name: &str) -> io::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    number.map(|kb| kb * 1024).ok_or_else(|| malformed(name))
}

fn write_bytes(text: &str) -> io::Result<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.parse().ok())
        .ok_or_else(|| malformed("io"))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unexpected text in /proc: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident_bytes > 0 && usage.resident_peak_bytes >= usage.resident_bytes);
        assert!(usage.anonymous_bytes > 0);
    }

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0";
        assert_eq!(cpu_time(stat).unwrap(), Duration::from_secs(2));
    }
}
