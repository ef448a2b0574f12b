//! Processes as `/proc` shows them: which ones a server has, and what CPU time they used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// One process or thread.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// Its parent.
    pub parent: u32,
    /// Seconds of CPU time so far.
    pub cpu: f64,
}

/// The socket that listens on a port, as the kernel's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its inode.
    pub inode: u64,
    /// Connections that wait to be accepted.
    pub waiting: u64,
}

/// Parses `/proc/PID/stat`; `tick` is the number of ticks of a second.
pub fn parse_stat(text: &str, tick: f64) -> Option<Process> {
    // The name may contain blanks and parentheses.
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |nth: usize| fields.get(nth)?.parse::<f64>().ok();
    Some(Process {
        name: name.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        cpu: (ticks(11)? + ticks(12)?) / tick,
    })
}

/// Ticks of a second.
pub fn tick() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// All processes of the machine that this user may see.
pub fn all() -> BTreeMap<u32, Process> {
    let tick = tick();
    numbers("/proc")
        .filter_map(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parse_stat(&text, tick)?))
        })
        .collect()
}

/// The threads of these processes.
pub fn threads(pids: &BTreeSet<u32>) -> BTreeMap<(u32, u32), Process> {
    let tick = tick();
    let of = |pid: &u32| {
        let pid = *pid;
        numbers(&format!("/proc/{pid}/task")).filter_map(move |thread| {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
            Some(((pid, thread), parse_stat(&text, tick)?))
        })
    };
    pids.iter().flat_map(of).collect()
}

/// CPU time of this process in seconds, with the threads that have ended.
pub fn own_cpu() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse_stat(&text, tick()).map_or(0.0, |own| own.cpu)
}

/// The entries of a folder whose names are numbers.
fn numbers(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// These processes, their children, and so on.
pub fn with_descendants(roots: &BTreeSet<u32>, all: &BTreeMap<u32, Process>) -> BTreeSet<u32> {
    let mut found = roots.clone();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, process)| found.contains(&process.parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// The sockets of this machine that listen where this address leads; none if it leads to another
/// machine.
pub fn listeners(address: SocketAddr) -> Vec<Listener> {
    if !is_local(address) {
        return Vec::new();
    }
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| {
            parse_listeners(&fs::read_to_string(table).unwrap_or_default(), address.port())
        })
        .collect()
}

/// Whether an address is one of this machine: then it is also the one that packets to it are from.
fn is_local(address: SocketAddr) -> bool {
    let ip = address.ip();
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let any = match ip {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    // A UDP socket sends nothing when it is connected; it only looks for its route.
    let own = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    own.is_ok_and(|own| own.ip() == ip)
}

/// The rows of `/proc/net/tcp` that listen on a port.
pub fn parse_listeners(table: &str, port: u16) -> Vec<Listener> {
    const LISTENS: &str = "0A";
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, at) = fields.get(1)?.rsplit_once(':')?;
        let here = u16::from_str_radix(at, 16).ok()? == port && *fields.get(3)? == LISTENS;
        let (_, waiting) = fields.get(4)?.split_once(':')?;
        let listener = Listener {
            inode: fields.get(9)?.parse().ok()?,
            waiting: u64::from_str_radix(waiting, 16).ok()?,
        };
        here.then_some(listener)
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// The processes that have one of these sockets open.
pub fn holders(sockets: &[Listener]) -> BTreeSet<u32> {
    let names: Vec<String> =
        sockets.iter().map(|socket| format!("socket:[{}]", socket.inode)).collect();
    let has = |pid: &u32| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| names.iter().any(|name| name == link)))
    };
    if names.is_empty() {
        return BTreeSet::new();
    }
    numbers("/proc").filter(has).collect()
}

/// Descriptors that a process has open, and may have.
pub fn descriptors(pid: u32) -> Option<(u64, u64)> {
    let open = numbers(&format!("/proc/{pid}/fd")).count() as u64;
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some((open, line.split_whitespace().next()?.parse().ok()?))
}

/// CPU time of the whole machine in seconds: used, and all that there was.
pub fn machine_cpu() -> Option<(f64, f64)> {
    parse_machine_cpu(&fs::read_to_string("/proc/stat").ok()?, tick())
}

fn parse_machine_cpu(text: &str, tick: f64) -> Option<(f64, f64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<f64> =
        line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let idle = values.get(3)? + values.get(4)?;
    let all: f64 = values.iter().sum();
    Some(((all - idle) / tick, all / tick))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_name_with_parentheses_is_one_name() {
        let line = "7 (php (pool) 1) S 3 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 1";
        let process = parse_stat(line, 100.0).unwrap();
        assert_eq!((process.name.as_str(), process.parent, process.cpu), ("php (pool) 1", 3, 3.0));
        assert!(parse_stat("7 (php", 100.0).is_none());
    }

    #[test]
    fn a_listening_row_is_found_by_its_port() {
        let table = "  sl  local_address rem_address st tx_queue:rx_queue\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 0 0 0 4711 1\n\
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 0 0 0 4712 1\n\
            2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 0 0 0 4713 1\n";
        assert_eq!(parse_listeners(table, 8080), [Listener { inode: 4711, waiting: 3 }]);
        assert!(parse_listeners("", 8080).is_empty());
    }

    #[test]
    fn a_listener_of_this_machine_is_not_that_of_another() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (host, count) in [([127, 0, 0, 1], 1), ([127, 0, 0, 2], 1), ([192, 0, 2, 1], 0)] {
            assert_eq!(listeners((host, port).into()).len(), count, "{host:?}");
        }
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let of = |parent| Process { name: String::new(), parent, cpu: 0.0 };
        let all = BTreeMap::from([(9, of(1)), (3, of(9)), (2, of(3)), (5, of(1))]);
        assert_eq!(with_descendants(&BTreeSet::from([9]), &all), BTreeSet::from([9, 3, 2]));
    }

    #[test]
    fn the_machines_time_is_used_or_idle() {
        let found = parse_machine_cpu("cpu  100 0 100 700 100 0 0 0 5 5\n", 100.0);
        assert_eq!(found, Some((2.0, 10.0)));
    }
}
