//! How much memory is left, of the machine and of the control groups around this process.

use std::fs;
use std::path::Path;

use crate::control_groups::{self, ControlGroup};
use crate::proc;

/// Memory for the processes of a machine or of a control group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it, or the group's limit.
    pub total: u64,
    /// What is left, with what the kernel keeps of files and would give up.
    pub available: u64,
}

/// That of the machine or group where the smallest part is left. `None` if the kernel tells
/// nothing.
pub fn scarcest() -> Option<Memory> {
    let of_machine = machine(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let of_groups = groups(Path::new(control_groups::ROOT), &proc::own_control_groups());
    let part =
        |memory: &Memory| (u128::from(memory.available) << 32) / u128::from(memory.total.max(1));
    of_machine.into_iter().chain(of_groups).min_by_key(part)
}

/// By the text of `/proc/meminfo`.
fn machine(text: &str) -> Option<Memory> {
    let value = |name| proc::value_in_bytes(text, name);
    Some(Memory { total: value("MemTotal:")?, available: value("MemAvailable:")? })
}

/// Of the groups with a limit that a process is in, by the text of its `/proc/PID/cgroup`.
fn groups(root: &Path, text: &str) -> Vec<Memory> {
    let groups = control_groups::around(text, "memory");
    groups.iter().filter_map(|group| limited(root, group)).collect()
}

/// `None` if the group has no limit. Files count as in use there, though the kernel gives them up.
fn limited(root: &Path, group: &ControlGroup) -> Option<Memory> {
    let (folder, limit, used, files) = if group.is_v1 {
        let files = ["total_active_file ", "total_inactive_file "];
        (root.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", files)
    } else {
        (root.to_owned(), "memory.max", "memory.current", ["active_file ", "inactive_file "])
    };
    let read = |name: &str| fs::read_to_string(folder.join(&group.path).join(name)).ok();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    // Of version 1 a group without a limit has one that no machine reaches.
    let total = number(&read(limit)?).filter(|total| *total < 1 << 62)?;
    let stat = read("memory.stat").unwrap_or_default();
    let rows = stat.lines().filter_map(|row| files.iter().find_map(|name| row.strip_prefix(name)));
    let kept: u64 = rows.filter_map(number).sum();
    let available = total.saturating_sub(number(&read(used)?)?.saturating_sub(kept));
    Some(Memory { total, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_some() {
        let text = "MemTotal:        1000 kB\nMemFree:  1 kB\nMemAvailable:     250 kB\n";
        assert_eq!(machine(text), Some(Memory { total: 1000 << 10, available: 250 << 10 }));
        assert_eq!(machine(""), None);
        let memory = scarcest().expect("this kernel says it");
        assert!(0 < memory.available && memory.available <= memory.total, "{memory:?}");
    }

    #[test]
    fn groups_with_a_limit_have_what_is_left_of_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, text) in [
            ("a/memory.max", "1000\n"),
            ("a/memory.current", "900\n"),
            ("a/memory.stat", "anon 300\nfile 600\ninactive_file 400\nactive_file 50\n"),
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.current", "800\n"),
            ("memory/c/memory.limit_in_bytes", "2000\n"),
            ("memory/c/memory.usage_in_bytes", "1500\n"),
            ("memory/c/memory.stat", "inactive_file 9\ntotal_inactive_file 100\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/memory.usage_in_bytes", "1\n"),
        ] {
            write(name, text);
        }
        let seen = |text: &str| groups(root.path(), text);
        assert_eq!(seen("0::/a/b\n"), [Memory { total: 1000, available: 550 }]);
        assert_eq!(seen("3:memory:/c\n2:cpu:/a\n"), [Memory { total: 2000, available: 600 }]);
        assert_eq!(seen("0::/none\n"), []);
    }
}
