//! What the kernel shows of a server of any make: its processes, their CPU time, the sockets that
//! listen. Without it `tokamak capacity` and `tokamak anatomy` would not find the same server.

mod process;
mod sockets;
mod units;

use std::collections::BTreeSet;
use std::net::SocketAddr;

pub use process::{
    Process, all, descriptors, machine_cpu, own_cpu, process_of, threads, with_descendants,
};
pub use sockets::{Listener, holders, is_local, listeners, places};
pub use units::of_unit;

/// The first process of the machine, or of a container.
const INIT: u32 = 1;

/// The processes of the server that answers at this address: those that have its socket, those that
/// are named, and all their descendants; without the process that asks.
pub fn server(address: SocketAddr, named: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut roots = holders(&listeners(address));
    // With socket activation init has the socket too, and its descendants are all processes. In a
    // container it may be the server.
    if roots.len() > 1 {
        roots.remove(&INIT);
    }
    roots.extend(named);
    let mut found = with_descendants(&roots, &all());
    found.remove(&std::process::id());
    found
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_server_is_what_listens_and_what_is_named_with_all_children_but_never_who_asks() {
        let own = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(holders(&listeners(address)).contains(&own));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let found = server(address, []);
        let named = server("127.0.0.1:1".parse().unwrap(), [child.id()]);
        let ended = child.id();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(found.contains(&ended) && !found.contains(&own), "{found:?}");
        assert_eq!(named, BTreeSet::from([ended]));
    }
}
