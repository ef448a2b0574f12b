//! Units of systemd: which processes are in the control group of one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where the kernel shows control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// A folder that is there if systemd is the first process (`man 3 sd_booted`).
const BOOTED: &str = "/run/systemd/system";

/// The processes of a systemd unit, which is named with or without `.service`; or why there are
/// none.
pub fn of_unit(unit: &str) -> Result<BTreeSet<u32>, String> {
    let found = in_groups(Path::new(GROUPS), unit);
    match found.is_empty() {
        false => Ok(found),
        true if !Path::new(BOOTED).exists() => {
            Err("systemd does not run here, so there are no units".to_owned())
        }
        true => Err("no control group of that name has processes: see systemctl status".to_owned()),
    }
}

/// The processes of all control groups of this name, and of those below them.
fn in_groups(root: &Path, unit: &str) -> BTreeSet<u32> {
    let names = [unit.to_owned(), format!("{unit}.service")];
    let mut found = BTreeSet::new();
    let mut left = vec![(root.to_owned(), false)];
    while let Some((folder, is_inside)) = left.pop() {
        if is_inside {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name();
                let is_it = is_inside || names.iter().any(|it| **it == *name);
                left.push((entry.path(), is_it));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_the_processes_of_its_group_and_of_those_below() {
        let folder = tempfile::tempdir().unwrap();
        for (group, processes) in [
            ("system.slice", "1\n"),
            ("system.slice/nginx.service", "12\n13\n"),
            ("system.slice/php8.2-fpm.service", ""),
            ("system.slice/php8.2-fpm.service/pool", "14\n"),
            ("system.slice/nginx.service.d", "15\n"),
        ] {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.procs"), processes).unwrap();
        }
        for (unit, processes) in [
            ("nginx", vec![12, 13]),
            ("nginx.service", vec![12, 13]),
            ("php8.2-fpm", vec![14]),
            ("system.slice", vec![1, 12, 13, 14, 15]),
            ("ngin", vec![]),
        ] {
            assert_eq!(in_groups(folder.path(), unit), processes.into_iter().collect(), "{unit}");
        }
    }

    #[test]
    fn a_unit_that_is_not_there_has_a_reason() {
        let why = of_unit("no-such-unit").unwrap_err();
        assert!(why.contains("systemd") || why.contains("systemctl"), "{why}");
    }
}
