//! Sockets: which ones listen, where, and who has them open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use tokamak_sys::proc::{self, InetSocket};

/// The socket that listens on a port, as the kernel's table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its inode.
    pub inode: u64,
    /// Connections that wait to be accepted.
    pub waiting: u64,
}

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
    let ports = all_listeners().into_iter().map(|(port, it)| (it.inode, port.to_string()));
    proc::unix_sockets(std::process::id()).into_iter().chain(ports).collect()
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

/// The sockets of this machine that listen, with their ports.
fn all_listeners() -> Vec<(u16, Listener)> {
    let listens = |socket: InetSocket| {
        let (_, port) = socket.local.rsplit_once(':').filter(|_| socket.is_listening)?;
        let listener = Listener { inode: socket.inode, waiting: socket.waiting };
        Some((u16::from_str_radix(port, 16).ok()?, listener))
    };
    proc::inet_sockets(std::process::id()).into_iter().filter_map(listens).collect()
}

/// The processes that have one of these sockets open.
pub fn holders(sockets: &[Listener]) -> BTreeSet<u32> {
    let names: Vec<String> =
        sockets.iter().map(|socket| format!("socket:[{}]", socket.inode)).collect();
    let has = |pid: &u32| {
        proc::descriptors(*pid).any(|(_, target)| target.is_some_and(|it| names.contains(&it)))
    };
    if names.is_empty() {
        return BTreeSet::new();
    }
    proc::processes().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_of_this_machine_is_not_that_of_another() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (host, count) in [([127, 0, 0, 1], 1), ([127, 0, 0, 2], 1), ([192, 0, 2, 1], 0)] {
            assert_eq!(listeners((host, port).into()).len(), count, "{host:?}");
        }
    }
}
