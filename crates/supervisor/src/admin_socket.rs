//! The socket of the admin listener: opened here, passed to each front.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use tokamak_config::{Admin, AdminAddress, FpmAddress};

use crate::sockets::web_server_socket;
use crate::upgrade::{ADMIN, Predecessor};

/// The socket, if there is to be one. Dropping it removes the file of a Unix socket.
#[derive(Debug)]
pub struct AdminSocket(Option<(Admin, OwnedFd)>);

impl AdminSocket {
    /// Opens it, or takes it over from a server that this one replaces.
    ///
    /// # Errors
    /// Fails, with a message that names the address, if it cannot be opened.
    pub fn open(
        admin: Option<&Admin>,
        predecessor: Option<&mut Predecessor>,
    ) -> Result<AdminSocket, String> {
        let Some(admin) = admin else { return Ok(AdminSocket(None)) };
        if let Some(socket) =
            predecessor.and_then(|predecessor| predecessor.take(&name(&admin.address)))
        {
            return Ok(AdminSocket(Some((admin.clone(), socket))));
        }
        let address = match &admin.address {
            AdminAddress::Tcp(address) => FpmAddress::Tcp(*address),
            AdminAddress::Unix(path) => FpmAddress::Unix(path.clone()),
        };
        let wrong = |error| format!("cannot open the admin listener {address}: {error}");
        // For the user who has started the server: who may connect may change things.
        let socket = web_server_socket(&address, 0o600).map_err(wrong)?;
        Ok(AdminSocket(Some((admin.clone(), socket))))
    }

    /// Where it listens, as the configuration names it.
    pub fn address(&self) -> Option<String> {
        self.0.as_ref().map(|(admin, _)| text(&admin.address))
    }

    /// The socket, for a server that is to replace this one.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn lend(&self) -> io::Result<Option<(String, OwnedFd)>> {
        Ok(self.duplicate()?.map(|(admin, socket)| (name(&admin.address), socket)))
    }

    /// Lets another server have it.
    pub fn release(&mut self) {
        // What is dropped here is the socket alone; its file stays.
        self.0 = None;
    }

    /// What a front needs of it.
    ///
    /// # Errors
    /// Fails if there is no free descriptor.
    pub fn duplicate(&self) -> io::Result<Option<(Admin, OwnedFd)>> {
        let lend = |(admin, socket): &(Admin, OwnedFd)| Ok((admin.clone(), socket.try_clone()?));
        self.0.as_ref().map(lend).transpose()
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
    format!("{ADMIN}{}", text(address))
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if let Some((Admin { address: AdminAddress::Unix(path), .. }, _)) = &self.0 {
            // If it is gone already, that is what we want.
            let _ = fs::remove_file(path);
        }
    }
}
