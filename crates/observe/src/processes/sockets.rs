//! Sockets: which ones listen, where, and who has them open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::process::numbers;

/// What `/proc/net/tcp` has for a socket that listens.
const LISTENS: &str = "0A";

/// The socket that listens on a port, as the kernel's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its inode.
    pub inode: u64,
    /// Connections that wait to be accepted.
    pub waiting: u64,
}

/// A socket of `/proc/net/tcp` that listens, and its port.
type Row = (u16, Listener);

/// The sockets of this machine that listen where this address leads; none if it leads to another
/// machine.
pub fn listeners(address: SocketAddr) -> Vec<Listener> {
    if !is_local(address) {
        return Vec::new();
    }
    let here = |(port, listener)| (port == address.port()).then_some(listener);
    all_listeners().into_iter().filter_map(here).collect()
}

/// Where each listening socket listens, by inode: the path of a Unix socket, or the port.
pub fn places() -> BTreeMap<u64, String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let ports = all_listeners().into_iter().map(|(port, it)| (it.inode, port.to_string()));
    table.lines().filter_map(unix_socket).chain(ports).collect()
}

/// Whether an address is one of this machine: then it is also the one that packets to it are from.
/// That a socket can be bound to it would not say so: with `ip_nonlocal_bind` it can be bound to
/// any.
pub fn is_local(address: SocketAddr) -> bool {
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

fn all_listeners() -> Vec<Row> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    tables.iter().flatten().flat_map(|table| table.lines().filter_map(row)).collect()
}

/// What a row of `/proc/net/tcp` says, if its socket listens; its first row names the columns.
fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    let listener = Listener {
        inode: fields.get(9)?.parse().ok()?,
        waiting: u64::from_str_radix(waiting, 16).ok()?,
    };
    Some((u16::from_str_radix(port, 16).ok()?, listener))
}

/// Inode and path in a row of `/proc/net/unix`.
fn unix_socket(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split_whitespace().skip(6);
    Some((fields.next()?.parse().ok()?, fields.next()?.to_owned()))
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn rows_of_sockets_that_listen_are_read_and_others_are_not() {
        let listens =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 0 0 0 4711 1";
        assert_eq!(row(listens), Some((8080, Listener { inode: 4711, waiting: 3 })));
        assert_eq!(row(&listens.replace(" 0A ", " 01 ")), None);
        assert_eq!(row("  sl  local_address rem_address st tx_queue:rx_queue"), None);
        assert_eq!(row(""), None);
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 4712 /run/php.sock";
        assert_eq!(unix_socket(line), Some((4712, "/run/php.sock".to_owned())));
        assert_eq!(unix_socket("Num       RefCount Protocol Flags Type St Inode Path"), None);
    }

    #[test]
    fn a_listener_of_this_machine_is_not_that_of_another() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (host, count) in [([127, 0, 0, 1], 1), ([127, 0, 0, 2], 1), ([192, 0, 2, 1], 0)] {
            assert_eq!(listeners((host, port).into()).len(), count, "{host:?}");
        }
    }
}
