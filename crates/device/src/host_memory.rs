//! How much of the host's memory this process could still take.

use std::fs;

/// The bytes of host memory that this process could still take, where the system says so: the least of what Linux' `MemAvailable`, the limits of
/// its control groups (version 2) and its own limit of address space (`ulimit -v`) leave.
pub fn free_host_bytes() -> Option<u64> {
    let text = |path: &str| fs::read_to_string(path).ok();
    let machine = text("/proc/meminfo").and_then(|info| kib_of(&info, "MemAvailable:"));
    let group = text("/proc/self/cgroup").and_then(|groups| group_room(&groups, &text));
    let limits = text("/proc/self/limits").zip(text("/proc/self/status"));
    let own = limits.and_then(|(limits, status)| address_room(&limits, &status));
    [machine, group, own].into_iter().flatten().min()
}

/// The bytes of a line such as `MemAvailable:   1024 kB`.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// What a limit of address space leaves; nothing where there is none.
fn address_room(limits: &str, status: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let soft = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = soft.split_whitespace().next()?.parse().ok()?; // or `unlimited`
    Some(limit.saturating_sub(kib_of(status, "VmSize:")?))
}

/// What the limits of a process' group, and of those around it, leave. Pages of files that were not used of late can be taken back.
fn group_room(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let mut path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut least = None;
    loop {
        let folder = format!("/sys/fs/cgroup{}", path.trim_end_matches('/'));
        let file = |name: &str| read(&format!("{folder}/{name}"));
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok(); // or `max`
        if let Some((limit, used)) = number("memory.max").zip(number("memory.current")) {
            let pages = file("memory.stat").and_then(|stat| {
                let mut lines = stat.lines();
                lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok())
            });
            let room = limit.saturating_sub(used.saturating_sub(pages.unwrap_or(0)));
            least = Some(least.unwrap_or(room).min(room));
        }
        match path.rfind('/') {
            Some(end) if !path[end..].is_empty() && path != "/" => path = &path[..end],
            _ => return least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_address_space_counts_what_is_taken() {
        let limits = "Limit   Soft Limit   Hard Limit   Units\nMax data size  unlimited unlimited bytes\nMax address space    4096000   unlimited   bytes\n";
        assert_eq!(
            address_room(limits, "VmPeak: 9 kB\nVmSize:\t  1000 kB\n"),
            Some(4096000 - 1024000)
        );
        assert_eq!(address_room(limits, "VmSize: 9000 kB"), Some(0));
        let none = limits.replace("4096000", "unlimited");
        assert_eq!(address_room(&none, "VmSize: 1000 kB"), None);
    }

    #[test]
    fn the_narrowest_group_counts() {
        let files = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/b/memory.max" | "/sys/fs/cgroup/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.max" => "1000\n",
                "/sys/fs/cgroup/a/memory.current" => "700\n",
                "/sys/fs/cgroup/a/memory.stat" => "anon 5\ninactive_file 150\n",
                "/sys/fs/cgroup/a/b/memory.current" => "600\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        for (groups, room) in [
            ("0::/a/b\n", Some(450)),
            ("1:memory:/x\n0::/a\n", Some(450)),
            ("0::/\n", None),
            ("0::/c\n", None),
            ("1:memory:/x\n", None),
        ] {
            assert_eq!(group_room(groups, &files), room, "{groups}");
        }
        let in_container = |path: &str| match path {
            "/sys/fs/cgroup/memory.max" => Some("50".to_owned()),
            "/sys/fs/cgroup/memory.current" => Some("60".to_owned()),
            _ => None,
        };
        assert_eq!(group_room("0::/", &in_container), Some(0));
    }

    #[test]
    fn no_process_can_take_more_than_is_available() {
        let Some(free) = free_host_bytes() else {
            println!("SKIPPED: this system does not say what is free");
            return;
        };
        let total = fs::read_to_string("/proc/meminfo").unwrap();
        assert!(0 < free && free <= kib_of(&total, "MemTotal:").unwrap());
    }
}
