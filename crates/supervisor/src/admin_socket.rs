//! The socket of the admin listener: opened here, passed to each front.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use tokamak_config::{Admin, AdminAddress, FpmAddress};

use crate::sockets::web_server_socket;
use crate::upgrade::{ADMIN, Predecessor};

/// The socket, if there is to be one. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct AdminSocket {
    socket: Option<(Admin, OwnedFd)>,
    /// Whether the file is for this server to remove.
    is_own: bool,
}

impl AdminSocket {
    /// Opens it, or takes it over from a server that this one replaces: then its file stays until
    /// [`AdminSocket::keep`].
    ///
    /// # Errors
    /// Fails, with a message that names the address, if it cannot be opened.
    pub fn open(
        admin: Option<&Admin>,
        predecessor: Option<&mut Predecessor>,
    ) -> Result<AdminSocket, String> {
        let Some(admin) = admin else {
            return Ok(AdminSocket { socket: None, is_own: true });
        };
        if let Some(socket) =
            predecessor.and_then(|predecessor| predecessor.take(&name(&admin.address)))
        {
            return Ok(AdminSocket { socket: Some((admin.clone(), socket)), is_own: false });
        }
        let address = match &admin.address {
            AdminAddress::Tcp(address) => FpmAddress::Tcp(*address),
            AdminAddress::Unix(path) => FpmAddress::Unix(path.clone()),
        };
        let wrong = |error| format!("cannot open the admin listener {address}: {error}");
        // For the user who has started the server: who may connect may change things.
        let socket = web_server_socket(&address, 0o600).map_err(wrong)?;
        Ok(AdminSocket { socket: Some((admin.clone(), socket)), is_own: true })
    }

    /// Where it listens, as the configuration names it.
    pub fn address(&self) -> Option<String> {
        self.socket.as_ref().map(|(admin, _)| text(&admin.address))
    }

    /// The socket, for a server that is to replace this one.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn for_successor(&self) -> io::Result<Option<(String, OwnedFd)>> {
        Ok(self.duplicate()?.map(|(admin, socket)| (name(&admin.address), socket)))
    }

    /// The server that had it before has let go.
    pub fn keep(&mut self) {
        self.is_own = true;
    }

    /// Lets another server have it, unless its name is among those that the other one has no use
    /// for: then it ends here.
    pub fn release(&mut self, unused: &[String]) {
        self.is_own =
            self.socket.as_ref().is_some_and(|(admin, _)| unused.contains(&name(&admin.address)));
        if !self.is_own {
            self.socket = None;
        }
    }

    /// What a front needs of it.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn duplicate(&self) -> io::Result<Option<(Admin, OwnedFd)>> {
        let copy = |(admin, socket): &(Admin, OwnedFd)| Ok((admin.clone(), socket.try_clone()?));
        self.socket.as_ref().map(copy).transpose()
    }
}

fn text(address: &AdminAddress) -> String {
    match address {
        AdminAddress::Tcp(address) => address.to_string(),
        AdminAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// What a server that replaces this one knows the socket by.
fn name(address: &AdminAddress) -> String {
    match address {
        AdminAddress::Unix(path) => {
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            format!("{ADMIN}{}", path.display())
        }
        AdminAddress::Tcp(address) => format!("{ADMIN}{address}"),
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Some((Admin { address: AdminAddress::Unix(path), .. }, _)) = &self.socket
            && self.is_own
        {
            // If it is gone already, that is what we want.
            let _ = fs::remove_file(path);
        }
    }
}
