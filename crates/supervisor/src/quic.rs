//! What HTTP/3 needs beside the listeners for TLS: a UDP socket for each of them, kept over
//! reloads; a secret that all fronts know; and a line to each front, so that another front, which
//! reads the packets of all, hands over those of its connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use socket2::{SockRef, Socket, Type};
use tokamak_config::Server;
use tokamak_sys::channel::{Channel, Received};
use tokamak_sys::memory_file;

use crate::bind;
use crate::upgrade::QUIC;

/// Bytes of packets that the kernel may hold until an event loop reads them: some milliseconds of a
/// gigabit. The system's limit (`net.core.rmem_max`, 208 KiB by default) applies anyway.
const RECEIVE_BUFFER: usize = 1024 * 1024;

/// What follows [`QUIC`] in the name of the secret, for another version of the program.
const SECRET: &str = "secret";
/// What follows it in the name of the line to a front, before the number of the front.
const LINE: &str = "line ";

/// What a front gets for HTTP/3.
#[derive(Debug)]
pub struct QuicStart {
    /// Its number.
    pub number: u8,
    /// What all fronts know.
    pub secret: [u8; 32],
    /// The UDP sockets, in the order of the listeners for TLS; those that have none have no
    /// HTTP/3.
    pub sockets: Vec<Option<OwnedFd>>,
    /// On it come packets that other fronts have read for this one.
    pub inbox: Channel,
    /// The lines to other fronts, by their numbers.
    pub others: Vec<(u8, Channel)>,
}

impl QuicStart {
    /// All that the front may keep open.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let lines = self.others.iter().map(|(_, line)| line.as_raw_fd());
        let sockets = self.sockets.iter().flatten().map(AsRawFd::as_raw_fd);
        sockets.chain(lines).chain([self.inbox.as_raw_fd()])
    }
}

/// A UDP port that cannot be had.
#[derive(Debug)]
pub struct CannotBind {
    address: SocketAddr,
    error: io::Error,
}

impl fmt::Display for CannotBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotBind { address, error } = self;
        write!(f, "cannot take the UDP port of {address} for HTTP/3: {error}")?;
        if error.kind() == io::ErrorKind::AddrInUse {
            write!(f, ". Another server has it; stop it, or set `enabled = false` in `[http3]`")?;
        }
        Ok(())
    }
}

/// The UDP sockets and lines of the server.
#[derive(Debug)]
pub struct Quic {
    secret: [u8; 32],
    /// By the real address of the listener for TLS.
    sockets: BTreeMap<SocketAddr, Socket>,
    /// Whether the sockets are those of a service manager.
    are_passed: bool,
    fronts: RefCell<Fronts>,
}

/// The fronts that live, or lived until a moment ago.
#[derive(Debug, Default)]
struct Fronts {
    last: u8,
    lines: Vec<(u8, Channel)>,
}

impl Quic {
    /// With the UDP sockets of a service manager, if it has passed any: these are used then, and no
    /// others.
    ///
    /// # Errors
    /// Fails if the address of a socket cannot be read.
    pub fn with_passed(passed: Vec<OwnedFd>) -> io::Result<Quic> {
        let words = std::array::from_fn::<_, 4, _>(|_| tokamak_tls::random().to_ne_bytes());
        let mut secret = [0; 32];
        secret.copy_from_slice(words.as_flattened());
        let are_passed = !passed.is_empty();
        let mut sockets = BTreeMap::new();
        for socket in passed.into_iter().map(Socket::from) {
            let address = socket.local_addr()?.as_socket();
            sockets.extend(address.map(|address| (address, socket)));
        }
        Ok(Quic { secret, sockets, are_passed, fronts: RefCell::default() })
    }

    /// Takes over what a server has that this one replaces, by the names that
    /// [`Quic::for_successor`] gave.
    ///
    /// # Errors
    /// Fails for a name that this version does not know.
    pub fn adopt(all: Vec<(String, OwnedFd)>) -> io::Result<Quic> {
        let unknown = |name: &str| {
            let problem = format!("this version does not know what `{QUIC}{name}` is");
            io::Error::new(io::ErrorKind::InvalidInput, problem)
        };
        let mut quic = Quic::with_passed(Vec::new())?;
        for (name, fd) in all {
            let name = name.strip_prefix(QUIC).unwrap_or(&name);
            if name == SECRET {
                let bytes = memory_file::read(fd)?;
                quic.secret = bytes.try_into().map_err(|_| unknown(name))?;
            } else if let Some(number) = name.strip_prefix(LINE) {
                let number = number.parse().map_err(|_| unknown(name))?;
                let fronts = quic.fronts.get_mut();
                fronts.lines.push((number, Channel::from_fd(fd)?));
                fronts.last = number;
            } else {
                let address = name.parse().map_err(|_| unknown(name))?;
                quic.sockets.insert(address, Socket::from(fd));
            }
        }
        Ok(quic)
    }

    /// All of it, for a server that is to replace this one.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn for_successor(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let mut all = Vec::new();
        if !self.sockets.is_empty() {
            all.push((format!("{QUIC}{SECRET}"), memory_file::write("quic", &self.secret)?));
        }
        for (address, socket) in &self.sockets {
            all.push((format!("{QUIC}{address}"), socket.try_clone()?.into()));
        }
        for (number, line) in &self.fronts.borrow().lines {
            all.push((format!("{QUIC}{LINE}{number}"), line.as_fd().try_clone_to_owned()?));
        }
        Ok(all)
    }

    /// Opens the UDP ports of a configuration, with real addresses, that are not open yet. On an
    /// error none of the new ones stays open.
    ///
    /// # Errors
    /// Fails with the first one that cannot be had.
    pub fn open(&mut self, server: &Server) -> Result<(), CannotBind> {
        if self.are_passed {
            return Ok(());
        }
        let mut new = BTreeMap::new();
        for address in addresses(server) {
            if !self.sockets.contains_key(&address) {
                let socket = bind(address).map_err(|error| CannotBind { address, error })?;
                new.insert(address, socket);
            }
        }
        self.sockets.extend(new);
        Ok(())
    }

    /// Closes every socket that none of these configurations, with real addresses, needs.
    pub fn keep(&mut self, servers: &[Server]) {
        let are_passed = self.are_passed;
        let needed: Vec<_> = servers.iter().flat_map(addresses).collect();
        self.sockets.retain(|address, _| are_passed || needed.contains(address));
    }

    /// What a front of this configuration, with real addresses, gets. `None`: it has no HTTP/3.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn for_front(&self, server: &Server) -> io::Result<Option<QuicStart>> {
        let wanted: Vec<_> = addresses(server).collect();
        let socket = |address: &SocketAddr| {
            let socket = self.sockets.get(address).filter(|_| wanted.contains(address));
            socket.map(|socket| Ok(socket.try_clone()?.into())).transpose()
        };
        let sockets = server.listen_tls.iter().map(socket);
        let sockets = sockets.collect::<io::Result<Vec<Option<OwnedFd>>>>()?;
        if sockets.iter().all(Option::is_none) {
            return Ok(None);
        }
        let fronts = &mut *self.fronts.borrow_mut();
        // Nothing ever comes on a line but its end.
        fronts.lines.retain(|(_, line)| matches!(line.receive(), Ok(Received::Nothing)));
        let clone = |(number, line): &(u8, Channel)| {
            Ok((*number, Channel::from_fd(line.as_fd().try_clone_to_owned()?)?))
        };
        let others = fronts.lines.iter().map(clone).collect::<io::Result<_>>()?;
        let (line, inbox) = Channel::pair()?;
        let is_taken = |number: u8| fronts.lines.iter().any(|(other, _)| *other == number);
        let next = (1..=u8::MAX).map(|step| fronts.last.wrapping_add(step));
        let number = next.into_iter().find(|number| !is_taken(*number));
        let number = number.ok_or_else(|| io::Error::other("255 fronts are still draining"))?;
        fronts.last = number;
        fronts.lines.push((number, line));
        Ok(Some(QuicStart { number, secret: self.secret, sockets, inbox, others }))
    }
}

/// The addresses where a configuration, with real addresses, has HTTP/3: those for TLS but the ones
/// on which proxies speak, since the PROXY protocol is of TCP.
fn addresses(server: &Server) -> impl Iterator<Item = SocketAddr> + '_ {
    let all = server.listen_tls.iter().filter(|_| server.http3.enabled);
    all.filter(|address| !server.proxies.protocol.contains(address)).copied()
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = bind::udp(address)?;
    // The system may grant less.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    Ok(socket)
}

/// Whether a descriptor is a UDP socket.
pub fn is_udp(fd: &OwnedFd) -> bool {
    SockRef::from(fd).r#type().is_ok_and(|kind| kind == Type::DGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(listen_tls: &[SocketAddr]) -> Server {
        let mut server = crate::settings::tests::server(std::path::Path::new("/"));
        server.listen_tls = listen_tls.to_vec();
        server.http3.enabled = true;
        server
    }

    /// An address whose TCP port is taken by the socket, so that no other test has it.
    fn taken() -> (std::net::TcpListener, SocketAddr) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn fronts_have_numbers_and_lines_to_those_that_live() {
        let (_held, address) = taken();
        let server = server(&[address]);
        let mut quic = Quic::with_passed(Vec::new()).unwrap();
        quic.open(&server).unwrap();
        let first = quic.for_front(&server).unwrap().unwrap();
        let second = quic.for_front(&server).unwrap().unwrap();
        assert!(first.others.is_empty());
        assert_eq!(
            second.others.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [first.number]
        );
        assert_ne!(first.number, second.number);
        assert_eq!(first.secret, second.secret);
        second.others[0].1.send(b"packet", &[]).unwrap();
        assert!(
            matches!(first.inbox.receive(), Ok(Received::Message(bytes, _)) if bytes == b"packet")
        );
        drop(first);
        let third = quic.for_front(&server).unwrap().unwrap();
        let others: Vec<_> = third.others.iter().map(|(number, _)| *number).collect();
        assert_eq!(others, [second.number]);
    }

    #[test]
    fn another_version_knows_secret_sockets_and_fronts() {
        let (_held, address) = taken();
        let server = server(&[address]);
        let mut quic = Quic::with_passed(Vec::new()).unwrap();
        quic.open(&server).unwrap();
        let old = quic.for_front(&server).unwrap().unwrap();
        let mut other = Quic::adopt(quic.for_successor().unwrap()).unwrap();
        other.open(&server).unwrap();
        let new = other.for_front(&server).unwrap().unwrap();
        assert_eq!(new.secret, old.secret);
        assert_eq!(new.others[0].0, old.number);
        assert_ne!(new.number, old.number);
        let wrong = Quic::adopt(vec![(format!("{QUIC}x"), OwnedFd::from(_held))]).unwrap_err();
        assert!(wrong.to_string().contains("does not know"), "{wrong}");
    }

    #[test]
    fn where_there_is_no_http_3_there_is_no_socket() {
        let ((_one, address), (_two, proxied)) = (taken(), taken());
        let mut server = server(&[address, proxied]);
        server.proxies.protocol = vec![proxied];
        let mut quic = Quic::with_passed(Vec::new()).unwrap();
        quic.open(&server).unwrap();
        let start = quic.for_front(&server).unwrap().unwrap();
        assert_eq!(start.sockets.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        drop(start);
        server.http3.enabled = false;
        assert!(quic.for_front(&server).unwrap().is_none());
        quic.keep(&[server]);
        assert!(quic.sockets.is_empty());
        let other = std::net::UdpSocket::bind(address).unwrap();
        let server = self::server(&[address]);
        let wrong = quic.open(&server).unwrap_err().to_string();
        assert!(wrong.contains("UDP port") && wrong.contains("[http3]"), "{wrong}");
        drop(other);
    }
}
