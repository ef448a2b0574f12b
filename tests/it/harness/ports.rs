//! Ports for servers of tests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::{Mutex, PoisonError};

/// The ports are below the range from which the kernel takes ports for outgoing connections.
const FIRST: u16 = 12_000;
/// Ports of one block.
const BLOCK: u16 = 100;
/// Blocks, for all test programs of the machine together.
const BLOCKS: u16 = 200;

/// The blocks of this program.
struct Ports {
    /// A socket in each block that the program has for itself, until it ends.
    own: Vec<(u16, UnixDatagram)>,
    /// How many ports were given out.
    given: usize,
}

/// An address on the loopback interface that no process listens on.
///
/// A server of the test listens there a moment later. No other test program takes the port
/// meanwhile, because each has blocks of ports for itself.
pub fn free_address() -> SocketAddr {
    static PORTS: Mutex<Ports> = Mutex::new(Ports { own: Vec::new(), given: 0 });
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let (block, place) =
            (ports.given / usize::from(BLOCK), (ports.given % usize::from(BLOCK)) as u16);
        if block >= ports.own.len()
            && let Some(own) = claim(&ports.own)
        {
            ports.own.push(own);
        }
        ports.given += 1;
        // Without a further block the program begins again with its first one.
        let count = ports.own.len();
        assert!(count > 0, "other test programs have all ports");
        let port = FIRST + ports.own[block % count].0 * BLOCK + place;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Claims a block that no test program has. The kernel gives it back when the program ends. The
/// next program begins elsewhere, where no connection of this one is left in `TIME_WAIT`.
fn claim(own: &[(u16, UnixDatagram)]) -> Option<(u16, UnixDatagram)> {
    let is_own = |block: &u16| own.iter().any(|(other, _)| other == block);
    let first = (std::process::id() % u32::from(BLOCKS)) as u16;
    let blocks = (0..BLOCKS).map(|step| (first + step) % BLOCKS);
    blocks.filter(|block| !is_own(block)).find_map(|block| {
        let name = format!("tokamak-it-ports-{block}");
        let address = UnixAddress::from_abstract_name(name).expect("a name");
        UnixDatagram::bind_addr(&address).ok().map(|socket| (block, socket))
    })
}
