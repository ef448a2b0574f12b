//! The sockets of a server that stands in for php-fpm: opened here, kept over reloads, passed to
//! each front.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;

use socket2::{SockRef, Socket};
use tokamak_config::{FpmAddress, Server};
use tokamak_fpm::config::{Address, Listen};
use tokamak_fpm::{Level, Message};
use tokamak_sys::{access_list, process};

use crate::bind;
use crate::listen::BACKLOG;
use crate::log;

/// A socket that cannot be opened, in php-fpm's words.
#[derive(Debug)]
pub struct CannotListen(String);

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All FastCGI sockets of the server. Dropping it removes the files of Unix sockets.
#[derive(Debug, Default)]
pub struct Sockets {
    open: BTreeMap<FpmAddress, Socket>,
}

impl Sockets {
    /// Opens the sockets of a configuration that are not open yet. On an error none of the new ones
    /// stays open.
    ///
    /// # Errors
    /// Fails with the first socket that cannot be opened.
    pub fn open(&mut self, server: &Server) -> Result<(), CannotListen> {
        let mut new = Sockets::default();
        for (socket, pool) in server.fpm_sockets() {
            let address = &socket.address;
            if !self.open.contains_key(address) && !new.open.contains_key(address) {
                let written = match &pool.status_listen {
                    Some(status) if socket.is_for_status => status,
                    _ => &pool.listen.address,
                };
                new.open.insert(address.clone(), bind(address, written, &pool.listen)?);
            }
        }
        self.open.append(&mut new.open);
        Ok(())
    }

    /// Closes every socket that none of these configurations needs.
    pub fn keep(&mut self, servers: &[&Server]) {
        let needed = |address: &FpmAddress| {
            servers
                .iter()
                .flat_map(|server| server.fpm_sockets())
                .any(|(socket, _)| socket.address == *address)
        };
        self.open.retain(|address, _| {
            let keep = needed(address);
            if !keep {
                remove(address);
            }
            keep
        });
    }

    /// A duplicate of each socket of a configuration, in its order, for a front.
    pub fn duplicate(&self, server: &Server) -> io::Result<Vec<OwnedFd>> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "a socket is not open");
        server
            .fpm_sockets()
            .map(|(socket, _)| {
                Ok(self.open.get(&socket.address).ok_or_else(missing)?.try_clone()?.into())
            })
            .collect()
    }
}

/// A socket on which a single process listens for web servers; `mode` is for the file of a Unix
/// socket.
///
/// # Errors
/// Fails if it cannot be opened.
pub fn web_server_socket(address: &FpmAddress, mode: u32) -> io::Result<OwnedFd> {
    let socket = match address {
        FpmAddress::Tcp(address) => bind::tcp(*address, false)?,
        FpmAddress::Unix(path) => {
            if !make_room(path) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let socket = bind::file(path)?;
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            socket
        }
    };
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether a descriptor is a socket that listens.
pub fn listens(socket: &OwnedFd) -> bool {
    SockRef::from(socket).is_listener().unwrap_or(false)
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.open.keys().for_each(remove);
    }
}

fn remove(address: &FpmAddress) {
    if let FpmAddress::Unix(path) = address {
        // If it is gone already, that is what we want.
        let _ = fs::remove_file(path);
    }
}

fn bind(address: &FpmAddress, written: &Address, listen: &Listen) -> Result<Socket, CannotListen> {
    let failed = |what: &str, error: &io::Error| {
        CannotListen(Message::of_system(format!("{what} '{written}'"), error).text)
    };
    let cannot_bind = |error| failed("unable to bind listening socket for address", &error);
    let socket = match address {
        FpmAddress::Tcp(address) => match bind::tcp(*address, false) {
            // Without IPv6 all addresses of the machine are those of IPv4.
            Err(_) if matches!(written, Address::Port(_)) && address.is_ipv6() => {
                let notice = "Failed implicitly binding to ::, retrying with 0.0.0.0";
                log::fpm(Level::Notice, format_args!("{notice}"));
                bind::tcp((Ipv4Addr::UNSPECIFIED, address.port()).into(), false)
                    .map_err(cannot_bind)?
            }
            other => other.map_err(cannot_bind)?,
        },
        FpmAddress::Unix(path) => {
            if !make_room(path) {
                let message =
                    format!("Another FPM instance seems to already listen on {}", path.display());
                return Err(CannotListen(message));
            }
            let socket = bind::file(path).map_err(cannot_bind)?;
            if let Err(error) = give(path, listen) {
                remove(address);
                return Err(CannotListen(format!(
                    "failed to hand over the socket '{written}': {error}"
                )));
            }
            socket
        }
    };
    let started = socket.listen(listen.backlog).and_then(|()| socket.set_nonblocking(true));
    started.map_err(|error| failed("failed to listen to address", &error))?;
    Ok(socket)
}

/// Makes room for a Unix socket: what a dead server left there is removed. Whether no process
/// listens there.
fn make_room(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return true };
    if UnixStream::connect(path).is_ok() {
        return false;
    }
    if found.file_type().is_socket() {
        // If it cannot be removed, binding says why.
        let _ = fs::remove_file(path);
    }
    true
}

/// Sets the owner and mode of a socket. No client is connected yet, as it does not listen.
fn give(path: &Path, listen: &Listen) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(listen.mode))?;
    if !(listen.acl_users.is_empty() && listen.acl_groups.is_empty()) {
        let users = numbers(&listen.acl_users, process::user_id)?;
        let groups = numbers(&listen.acl_groups, process::group_id)?;
        return access_list::set(path, listen.mode, &users, &groups);
    }
    let owner = listen.owner.as_deref().map(process::user_id).transpose()?;
    let group = match (&listen.group, &listen.owner) {
        (Some(group), _) => Some(process::group_id(group)?),
        // A user that is named brings the own group along.
        (None, Some(owner)) => process::find_user(owner).map(|(_, group)| group),
        (None, None) => None,
    };
    if owner.or(group).is_some() { chown(path, owner, group) } else { Ok(()) }
}

fn numbers(names: &[String], number: fn(&str) -> io::Result<u32>) -> io::Result<Vec<u32>> {
    names.iter().map(|name| number(name)).collect()
}
