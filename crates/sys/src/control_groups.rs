//! The control groups that a process is in, of both versions.

use std::path::{Path, PathBuf};

/// Where control groups are found: those of version 2, and the folders of version 1's controllers.
pub const ROOT: &str = "/sys/fs/cgroup";

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Whether it is one of version 1, where each controller has a folder in the root.
    pub is_v1: bool,
    /// Its path below the root, or below the folders of controllers; empty: the outermost one.
    pub path: PathBuf,
}

/// The groups in which this controller counts for a process, by the text of its
/// `/proc/PID/cgroup`: its own ones and those around them. In a container the outermost one that
/// can be seen is its own. A line that cannot be read is left out.
pub fn around(text: &str, controller: &str) -> Vec<ControlGroup> {
    text.lines().flat_map(|line| around_in(line, controller).unwrap_or_default()).collect()
}

/// The same, of the hierarchy in one line of the text: `number:controllers:path`. That of version 2
/// has no controllers there; of version 1 each has a folder with its name.
fn around_in(line: &str, controller: &str) -> Option<Vec<ControlGroup>> {
    let (controllers, own) = line.split_once(':')?.1.split_once(":/")?;
    let is_v1 = controllers.split(',').any(|other| other == controller);
    if !is_v1 && !controllers.is_empty() {
        return None;
    }
    let groups = Path::new(own).ancestors();
    Some(groups.map(|path| ControlGroup { is_v1, path: path.to_owned() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_its_groups_and_in_those_around_them() {
        let of = |text: &str| -> Vec<(bool, String)> {
            let groups = around(text, "cpu");
            groups.into_iter().map(|one| (one.is_v1, one.path.display().to_string())).collect()
        };
        let named = |is_v1: bool, path: &str| (is_v1, path.to_owned());
        assert_eq!(of("0::/a/b\n"), [named(false, "a/b"), named(false, "a"), named(false, "")]);
        assert_eq!(
            of("5:cpu,cpuacct:/a\n4:cpuset:/x\n0::/\n"),
            [named(true, "a"), named(true, ""), named(false, "")]
        );
        for broken in ["", "1", "1:cpu", "1:cpu:a", "::", "x:cpuset:/a"] {
            assert_eq!(of(broken), [], "{broken}");
        }
    }
}
