//! Finds the processes of a server: by number, by systemd unit, by the port that they listen on.
//! Reads `/proc` and `/sys/fs/cgroup`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::Error;

/// The first process.
const INIT: u32 = 1;
/// What `/proc/net/tcp` has for a socket that listens.
const LISTENS: &str = "0A";

/// Programs by process number: those that listen on the port, those that were named, and the
/// children of all.
pub fn find(port: u16, pids: &[u32], units: &[String]) -> Result<BTreeMap<u32, String>, Error> {
    let mut roots: BTreeSet<u32> = listening(port);
    // Where systemd opens the socket, it holds it beside the server; and all programs are below it.
    if roots.len() > 1 {
        roots.remove(&INIT);
    }
    for pid in pids {
        if name(*pid).is_none() {
            return Err(Error(format!("--pid {pid}: there is no such process")));
        }
        roots.insert(*pid);
    }
    for unit in units {
        roots.extend(of_unit(unit)?);
    }
    if roots.is_empty() {
        return Err(Error(format!(
            "no process that this user may see listens on port {port}: run as root, or name the \
             server by --pid or --unit"
        )));
    }
    let mut all = roots.clone();
    let parents = parents();
    // A process has a larger depth than its parent, so this ends with the deepest.
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| all.contains(parent) && !all.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    all.remove(&std::process::id());
    Ok(all.into_iter().filter_map(|pid| Some((pid, name(pid)?))).collect())
}

/// The program of a process, by its short name.
pub fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// The process that a thread belongs to; itself, if it has ended.
pub fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    group.and_then(|group| group.trim().parse().ok()).unwrap_or(thread)
}

/// All processes, by their number.
fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let parent = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok()
    };
    numbers().filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// The processes that hold a socket that listens on the port.
fn listening(port: u16) -> BTreeSet<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let inodes: BTreeSet<String> = tables
        .iter()
        .flatten()
        .flat_map(|table| table.lines().filter_map(move |row| listener(row, port)))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let holds = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target.to_str().is_some_and(|target| inodes.contains(target)))
    };
    if inodes.is_empty() { BTreeSet::new() } else { numbers().filter(holds).collect() }
}

/// Where each listening socket listens, by inode: the path of a Unix socket, or the port.
pub fn listeners() -> BTreeMap<u64, String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut found: BTreeMap<u64, String> = table.lines().filter_map(unix_socket).collect();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string).iter().flatten() {
        for row in table.lines() {
            let words: Vec<&str> = row.split_whitespace().collect();
            let port = words.get(1).and_then(|local| local.rsplit_once(':'));
            let port = port.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
            let inode = port.and_then(|port| listener(row, port)?.parse().ok());
            found.extend(inode.zip(port.map(|port| port.to_string())));
        }
    }
    found
}

/// Inode and path in a row of `/proc/net/unix`.
fn unix_socket(row: &str) -> Option<(u64, String)> {
    let mut words = row.split_whitespace().skip(6);
    Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
}

/// The inode in a row of `/proc/net/tcp`, if its socket listens on the port.
fn listener(row: &str, port: u16) -> Option<&str> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let (_, local) = words.get(1)?.rsplit_once(':')?;
    let is_it = *words.get(3)? == LISTENS && u16::from_str_radix(local, 16) == Ok(port);
    is_it.then_some(())?;
    words.get(9).copied()
}

/// The processes of a systemd unit, by its control group.
fn of_unit(unit: &str) -> Result<BTreeSet<u32>, Error> {
    let names = [unit.to_owned(), format!("{unit}.service")];
    let mut found = BTreeSet::new();
    let mut left = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(folder) = left.pop() {
        let is_it = folder.components().any(|part| {
            part.as_os_str().to_str().is_some_and(|part| names.iter().any(|name| name == part))
        });
        if is_it {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    if found.is_empty() {
        return Err(Error(format!("--unit {unit}: no control group of that name has processes")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let row = "   0: 0100007F:46B5 00000000:0000 0A 00000000:00000000 00:00000000 00000000  \
                   0 0 4711 1";
        assert_eq!(listener(row, 18101), Some("4711"));
        assert_eq!(listener(row, 18102), None);
        assert_eq!(listener(&row.replace(" 0A ", " 01 "), 18101), None);
        assert_eq!(listener("  sl  local_address", 1), None);
        let row = "0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/php.sock";
        assert_eq!(unix_socket(row), Some((4712, "/run/php.sock".to_owned())));
        assert_eq!(unix_socket("Num       RefCount Protocol Flags Type St Inode Path"), None);
    }

    #[test]
    fn a_server_is_found_by_its_port_and_by_its_number() {
        let me = std::process::id();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listening(socket.local_addr().unwrap().port()).contains(&me));
        assert_eq!(process_of(me), me);
        let parent = parents()[&me];
        assert!(find(1, &[parent], &[]).unwrap().contains_key(&parent));
        assert!(!find(1, &[parent], &[]).unwrap().contains_key(&me));
        let error = find(1, &[u32::MAX], &[]).unwrap_err().to_string();
        assert!(error.contains("no such process"), "{error}");
        let error = find(1, &[], &["no-such-unit".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("no-such-unit"), "{error}");
    }
}
