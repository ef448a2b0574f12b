//! Sockets that are bound, and do not listen yet.

use std::fs::{File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// A TCP socket. `only_v6`: `[::]` does not take `0.0.0.0` as well.
pub fn tcp(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server must not wait for the old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    if only_v6 && address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

/// A UDP socket. `[::]` does not take `0.0.0.0` as well.
pub fn udp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

/// A Unix socket whose file is for its owner alone from the start: between binding and a later
/// change of mode any user could connect. On Linux the file takes over the mode of the socket.
pub fn file(path: &Path) -> io::Result<Socket> {
    let file = File::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(file));
    socket.bind(&SockAddr::unix(path)?)?;
    Ok(socket)
}
