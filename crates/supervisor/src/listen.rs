//! The listening sockets: opened here, kept over reloads, passed to each front.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::{Domain, Socket, Type};
use tokamak_config::{Server, Site};

use crate::bind;
use crate::upgrade::PASSED;

/// Connections that the kernel may hold until the front takes them. The system's limit
/// (`net.core.somaxconn`, 4096 by default) applies anyway.
pub const BACKLOG: i32 = 4096;

/// An address on which the server cannot listen.
#[derive(Debug)]
pub struct CannotListen {
    address: SocketAddr,
    error: io::Error,
}

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)?;
        match self.error.kind() {
            io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    ". Another server is running there; stop it or choose another address (--listen)"
                )
            }
            io::ErrorKind::PermissionDenied if self.address.port() < 1024 => {
                write!(f, ". Ports below 1024 need root or the capability CAP_NET_BIND_SERVICE")
            }
            io::ErrorKind::AddrNotAvailable => {
                write!(f, ". This machine does not have that address")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CannotListen {}

/// All listening sockets of the server.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Sockets from the service manager. If there are any, they replace the configured addresses.
    passed: Vec<(SocketAddr, Socket)>,
    /// By the configured address; the port that it says may be 0.
    own: BTreeMap<SocketAddr, Socket>,
}

impl Listeners {
    /// Takes the sockets that a service manager passed on; sockets other than TCP are an error.
    pub fn with_passed(sockets: Vec<OwnedFd>) -> io::Result<Listeners> {
        let mut passed = Vec::new();
        for fd in sockets {
            let socket = Socket::from(fd);
            let address =
                socket.local_addr()?.as_socket().filter(|_| socket.is_listener().unwrap_or(false));
            let address = address.ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a passed socket (LISTEN_FDS) does not listen on TCP",
                )
            })?;
            socket.set_nonblocking(true)?;
            passed.push((address, socket));
        }
        Ok(Listeners { passed, own: BTreeMap::new() })
    }

    /// Takes over the sockets of a server that this one replaces, by the names that
    /// [`Listeners::for_successor`] gave them.
    ///
    /// # Errors
    /// Fails for a socket that does not listen on TCP.
    pub fn adopt(sockets: Vec<(String, OwnedFd)>) -> io::Result<Listeners> {
        let (passed, own): (Vec<_>, Vec<_>) =
            sockets.into_iter().partition(|(name, _)| name.starts_with(PASSED));
        let passed = passed.into_iter().map(|(_, socket)| socket).collect();
        let mut all = Listeners::with_passed(passed)?;
        for (name, socket) in own {
            let address = name.parse().map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is no address"))
            })?;
            all.own.insert(address, Socket::from(socket));
        }
        Ok(all)
    }

    /// All sockets, for a server that is to replace this one.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn for_successor(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let passed =
            self.passed.iter().map(|(address, socket)| (format!("{PASSED}{address}"), socket));
        let own = self.own.iter().map(|(address, socket)| (address.to_string(), socket));
        passed.chain(own).map(|(name, socket)| Ok((name, socket.try_clone()?.into()))).collect()
    }

    /// Whether the service manager's sockets are used instead of the configuration's addresses.
    pub fn are_passed(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Opens the addresses that are not open yet. On an error none of the new ones stays open.
    ///
    /// # Errors
    /// Fails with the first address that cannot be opened.
    pub fn open(&mut self, addresses: &[SocketAddr]) -> Result<(), CannotListen> {
        if self.are_passed() {
            return Ok(());
        }
        let mut new = BTreeMap::new();
        for &address in addresses {
            if self.own.contains_key(&address) || new.contains_key(&address) {
                continue;
            }
            match listen(address) {
                Ok(socket) => {
                    new.insert(address, socket);
                }
                Err(error) if is_needless_ipv6(address, addresses, &error) => {}
                Err(error) => return Err(CannotListen { address, error }),
            }
        }
        self.own.extend(new);
        Ok(())
    }

    /// Closes every socket that none of these addresses needs.
    pub fn keep(&mut self, addresses: &[&[SocketAddr]]) {
        self.own.retain(|address, _| addresses.iter().any(|list| list.contains(address)));
    }

    /// The configuration with the addresses where its sockets really are, in place of those in the
    /// file: the kernel may have chosen a port, and those of the service manager only have the same
    /// ports.
    ///
    /// # Errors
    /// Fails if there is a socket of the service manager on which no site is served.
    pub fn with_real_addresses(&self, server: &Server) -> io::Result<Server> {
        let [listen, listen_tls] = [self.duplicate_plain(server)?, self.duplicate_tls(server)?];
        let addresses = |duplicates: Vec<(SocketAddr, OwnedFd)>| -> Vec<SocketAddr> {
            duplicates.into_iter().map(|(address, _)| address).collect()
        };
        let [listen, listen_tls] = [listen, listen_tls].map(addresses);
        let mut real = server.clone();
        real.proxies.protocol = self.real(server, &server.proxies.protocol)?;
        for site in &mut real.sites {
            site.listen = self.real(server, &site.listen)?;
        }
        for address in listen.iter().chain(&listen_tls) {
            let mut own = real.sites.iter().filter(|site| site.path.is_empty());
            let is_served = |site: &Site| site.listen.is_empty() || site.listen.contains(address);
            if self.are_passed() && !own.any(is_served) {
                let problem = format!(
                    "no site is served on {address}, a passed socket (LISTEN_FDS): all sites name \
                        other addresses in `listen`"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
        }
        Ok(Server { listen, listen_tls, ..real })
    }

    /// Where the sockets for these addresses are. An address without a socket stays, so that a site
    /// that names it is not taken for one that names none.
    fn real(&self, server: &Server, addresses: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
        let mut all = Vec::new();
        for address in addresses {
            let real = match self.own.get(address) {
                Some(socket) => socket.local_addr()?.as_socket().into_iter().collect(),
                None => self.passed_for(server, *address),
            };
            all.extend(if real.is_empty() { vec![*address] } else { real });
        }
        Ok(all)
    }

    /// The service manager's sockets for an address of the configuration: the one with exactly this
    /// address, else those with its port. A socket with exactly the address of another entry is for
    /// that entry alone, so that a site of `127.0.0.1:80` is not served on `203.0.113.1:80`.
    fn passed_for(&self, server: &Server, address: SocketAddr) -> Vec<SocketAddr> {
        let passed = || self.passed.iter().map(|(passed, _)| *passed);
        if passed().any(|passed| passed == address) {
            return vec![address];
        }
        let is_named = |passed: &SocketAddr| {
            server.listen.contains(passed) || server.listen_tls.contains(passed)
        };
        let has_port = |passed: &SocketAddr| passed.port() == address.port() && !is_named(passed);
        passed().filter(has_port).collect()
    }

    /// The sockets of a configuration for HTTP without TLS: as [`Listeners::duplicate`].
    pub fn duplicate_plain(&self, server: &Server) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        self.duplicate_either(server, &server.listen, false)
    }

    /// The sockets of a configuration for TLS: as [`Listeners::duplicate`].
    pub fn duplicate_tls(&self, server: &Server) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        self.duplicate_either(server, &server.listen_tls, true)
    }

    /// The sockets for `addresses`. If the service manager passed sockets, a socket is for TLS if
    /// an entry of `listen_tls` stands for it.
    fn duplicate_either(
        &self,
        server: &Server,
        addresses: &[SocketAddr],
        is_tls: bool,
    ) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let mut duplicates = self.duplicate(addresses)?;
        if self.are_passed() {
            let tls = server.listen_tls.iter().flat_map(|tls| self.passed_for(server, *tls));
            let tls: Vec<SocketAddr> = tls.collect();
            duplicates.retain(|(address, _)| tls.contains(address) == is_tls);
        }
        Ok(duplicates)
    }

    /// The real addresses of a configuration's sockets, and a duplicate of each for a front.
    fn duplicate(&self, addresses: &[SocketAddr]) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        if self.are_passed() {
            return self
                .passed
                .iter()
                .map(|(address, socket)| Ok((*address, socket.try_clone()?.into())))
                .collect();
        }
        let mut duplicates = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            let socket = self.own.get(address).filter(|_| !addresses[..at].contains(address));
            if let Some(socket) = socket {
                let real = socket.local_addr()?.as_socket().unwrap_or(*address);
                duplicates.push((real, socket.try_clone()?.into()));
            }
        }
        Ok(duplicates)
    }
}

/// Whether `address` can be left out: it is `[::]` on a machine without IPv6, and `0.0.0.0` with
/// the same port, which is all addresses of that machine, is among `addresses`.
fn is_needless_ipv6(address: SocketAddr, addresses: &[SocketAddr], error: &io::Error) -> bool {
    let every_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    let every_v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, address.port()));
    let has_no_v6 = error.kind() == io::ErrorKind::AddrNotAvailable
        || Socket::new(Domain::IPV6, Type::STREAM, None).is_err();
    address == every_v6 && has_no_v6 && addresses.contains(&every_v4)
}

fn listen(address: SocketAddr) -> io::Result<Socket> {
    // `[::]` must not take `0.0.0.0` away from its own entry in the list.
    let socket = bind::tcp(address, true)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it: a response's last packet must not wait for an
    // acknowledgement.
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const ANY: &str = "127.0.0.1:0";

    fn any() -> SocketAddr {
        ANY.parse().unwrap()
    }

    #[test]
    fn an_open_socket_is_kept_and_a_forgotten_one_is_closed() {
        let mut listeners = Listeners::default();
        listeners.open(&[any()]).unwrap();
        let (real, duplicates) = listeners.duplicate(&[any()]).unwrap().pop().unwrap();
        assert_ne!(real.port(), 0);
        drop(duplicates);
        listeners.open(&[any()]).unwrap();
        assert_eq!(listeners.duplicate(&[any()]).unwrap()[0].0, real, "the same socket as before");
        TcpStream::connect(real).unwrap();
        listeners.keep(&[&[]]);
        assert!(TcpStream::connect(real).is_err());
        assert!(listeners.duplicate(&[any()]).unwrap().is_empty());
    }

    #[test]
    fn an_address_in_use_is_explained_and_leaves_nothing_open() {
        let other = TcpListener::bind(ANY).unwrap();
        let taken = other.local_addr().unwrap();
        let mut listeners = Listeners::default();
        let message = listeners.open(&[any(), taken]).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("cannot listen on {taken}: Address already in use")),
            "{message}"
        );
        assert!(message.contains("--listen"), "{message}");
        assert!(listeners.duplicate(&[any()]).unwrap().is_empty());
    }

    #[test]
    fn a_machine_without_ipv6_does_without() {
        let [v4, v6]: [SocketAddr; 2] =
            ["0.0.0.0:80", "[::]:80"].map(|address| address.parse().unwrap());
        let error = |kind: io::ErrorKind| io::Error::from(kind);
        let missing = error(io::ErrorKind::AddrNotAvailable);
        assert!(is_needless_ipv6(v6, &[v4, v6], &missing));
        assert!(!is_needless_ipv6(v6, &[v6], &missing), "nothing would be left");
        assert!(!is_needless_ipv6(v4, &[v4, v6], &missing));
        let other = "[::1]:80".parse().unwrap();
        assert!(!is_needless_ipv6(other, &[v4, other], &missing), "that one is meant");
        if TcpListener::bind("[::1]:0").is_ok() {
            assert!(!is_needless_ipv6(v6, &[v4, v6], &error(io::ErrorKind::AddrInUse)));
        }
    }

    /// A port on all addresses of both kinds, as `domain` wants it.
    #[test]
    fn all_addresses_of_both_kinds() {
        let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let both: Vec<SocketAddr> =
            vec![(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()];
        let mut listeners = Listeners::default();
        listeners.open(&both).unwrap();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if TcpListener::bind("[::1]:0").is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
            assert_eq!(listeners.duplicate(&both).unwrap().len(), 2);
        }
    }

    #[test]
    fn an_address_named_twice_is_lent_once() {
        let mut listeners = Listeners::default();
        listeners.open(&[any(), any()]).unwrap();
        assert_eq!(listeners.duplicate(&[any(), any()]).unwrap().len(), 1);
    }

    #[test]
    fn passed_sockets_replace_the_configured_addresses() {
        let passed = TcpListener::bind(ANY).unwrap();
        let address = passed.local_addr().unwrap();
        let mut listeners = Listeners::with_passed(vec![passed.into()]).unwrap();
        listeners.open(&["192.0.2.1:80".parse().unwrap()]).unwrap();
        let duplicates = listeners.duplicate(&["192.0.2.1:80".parse().unwrap()]).unwrap();
        assert_eq!((duplicates.len(), duplicates[0].0), (1, address));
        let stream = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(Listeners::with_passed(vec![stream.into()]).is_err());
    }

    #[test]
    fn addresses_of_sites_become_those_of_the_sockets() {
        let passed = TcpListener::bind(ANY).unwrap();
        let address = passed.local_addr().unwrap();
        let other: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let mut server = crate::settings::tests::server(std::path::Path::new("/"));
        server.listen = vec![SocketAddr::from(([0, 0, 0, 0], address.port())), other];
        server.proxies.protocol = server.listen.clone();
        server.sites[0].listen = vec![server.listen[0]];
        server.sites.push(Site { listen: vec![other], ..server.sites[0].clone() });
        let listeners = Listeners::with_passed(vec![passed.into()]).unwrap();
        let real = listeners.with_real_addresses(&server).unwrap();
        assert_eq!(real.listen, [address]);
        assert_eq!(real.proxies.protocol, [address, other]);
        let sites: Vec<_> = real.sites.into_iter().map(|site| site.listen).collect();
        assert_eq!(sites, [vec![address], vec![other]], "the second one is served nowhere");
        server.sites.remove(0);
        let wrong = listeners.with_real_addresses(&server).unwrap_err().to_string();
        assert!(wrong.contains(&format!("no site is served on {address}")), "{wrong}");

        let mut listeners = Listeners::default();
        listeners.open(&[any()]).unwrap();
        server.listen = vec![any()];
        server.sites[0].listen = vec![any()];
        let real = listeners.with_real_addresses(&server).unwrap();
        assert_ne!(real.listen[0].port(), 0);
        assert_eq!(real.sites[0].listen, real.listen);
    }

    /// Two sockets with the same port, at two addresses of this machine.
    fn with_one_port() -> [TcpListener; 2] {
        loop {
            let public = TcpListener::bind("127.0.0.2:0").unwrap();
            let port = public.local_addr().unwrap().port();
            if let Ok(inner) = TcpListener::bind(("127.0.0.1", port)) {
                return [public, inner];
            }
        }
    }

    #[test]
    fn a_passed_socket_with_exactly_the_address_goes_before_others_with_the_port() {
        let sockets = with_one_port();
        let [public, inner] = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let [one, two] = sockets.map(OwnedFd::from);
        let mut server = crate::settings::tests::server(std::path::Path::new("/"));
        server.listen = vec![public, inner];
        server.proxies.protocol = vec![inner];
        server.sites.push(Site { listen: vec![inner], ..server.sites[0].clone() });
        let both = vec![one.try_clone().unwrap(), two];
        let listeners = Listeners::with_passed(both).unwrap();
        let real = listeners.with_real_addresses(&server).unwrap();
        assert_eq!(real.sites[1].listen, [inner]);
        assert_eq!(real.proxies.protocol, [inner]);

        (server.listen, server.listen_tls) = (vec![inner], vec![public]);
        let real = listeners.with_real_addresses(&server).unwrap();
        assert_eq!((real.listen, real.listen_tls), (vec![inner], vec![public]));

        // The manager does not pass the socket of the inner site.
        let listeners = Listeners::with_passed(vec![one]).unwrap();
        (server.listen, server.listen_tls) = (vec![public, inner], Vec::new());
        let real = listeners.with_real_addresses(&server).unwrap();
        assert_eq!(real.sites[1].listen, [inner], "not on the public address");
        assert_eq!(real.proxies.protocol, [inner]);
    }
}
