//! The admin listener.

use std::net::SocketAddr;

use super::{Reader, text};
use crate::model::{Admin, AdminAddress, Endpoint};
use crate::option;

/// Shortest token. Who can guess a shorter one within a year, at a thousand requests a second?
/// Nobody, but people make short ones of words.
const SHORTEST: usize = 16;

impl Reader<'_> {
    /// The admin listener, if there is to be one.
    pub(super) fn admin(&mut self, top: &option::Top) -> Option<Admin> {
        let token = text(&top.admin_token);
        let origin = top.admin_token.origin;
        if token.as_ref().is_some_and(|token| token.len() < SHORTEST) {
            let problem =
                format!("is shorter than {SHORTEST} characters; `openssl rand -hex 16` makes one");
            self.report("", "admin_token", origin, problem);
        }
        let Some(endpoint) = &top.admin.value else {
            if token.is_some() {
                self.report("", "admin_token", origin, "is for `admin`, which is not set".into());
            }
            return None;
        };
        let address = match endpoint {
            Endpoint::Unix(path) => AdminAddress::Unix(self.absolute(path, top.admin.origin)),
            Endpoint::Tcp(address) => match address.parse::<SocketAddr>() {
                Ok(address) => AdminAddress::Tcp(address),
                Err(_) => {
                    let problem = "must be an IP address with a port, or a Unix socket".into();
                    self.report("", "admin", top.admin.origin, problem);
                    return None;
                }
            },
            Endpoint::Srv(_) => {
                let problem = "must be an address to listen on, not a service".into();
                self.report("", "admin", top.admin.origin, problem);
                return None;
            }
        };
        if let AdminAddress::Tcp(tcp) = &address
            && !tcp.ip().is_loopback()
            && token.is_none()
        {
            let problem = format!("{tcp} can be reached from other machines: set `admin_token`");
            self.report("", "admin", top.admin.origin, problem);
        }
        Some(Admin { address, token })
    }
}
