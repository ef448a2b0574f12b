//! Changes an application's addresses at runtime.

use std::net::SocketAddr;

use tokamak_config as config;
use tokamak_upstream::remote::{Address, AddressAction, AddressChange, Endpoint, Upstream};

/// Carries out a change.
///
/// # Errors
/// Fails if the address is malformed or unknown, with a message for the operator.
pub fn run(upstreams: &[Upstream], errand: &AddressChange) -> Result<(), String> {
    let text = &errand.address;
    let endpoint = match text.parse::<config::Endpoint>()? {
        config::Endpoint::Tcp(address) => match address.parse::<SocketAddr>() {
            Ok(address) => Endpoint::Tcp(address),
            Err(_) => return Err(format!("`{text}` has a name; write an IP address")),
        },
        config::Endpoint::Srv(_) => return Err(format!("`{text}` is a name; write an IP address")),
        config::Endpoint::Unix(path) if path.is_relative() => {
            return Err(format!("`{text}` must be absolute, as in unix:/run/app.sock"));
        }
        config::Endpoint::Unix(path) => Endpoint::Unix(path),
    };
    let upstream =
        upstreams.get(usize::from(errand.upstream)).ok_or("there is no such upstream")?;
    let is_there = match errand.action {
        AddressAction::Add { weight } => {
            upstream.add(Address { endpoint, weight });
            true
        }
        AddressAction::Drain => upstream.drain(&endpoint),
        AddressAction::Remove => upstream.remove(&endpoint),
    };
    if is_there { Ok(()) } else { Err(format!("`{text}` is not an address of this upstream")) }
}
