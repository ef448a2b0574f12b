//! Addresses behind names: A or AAAA records of a host, SRV records of a service.

mod query;
mod system;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::member::Address;
use super::stream::Endpoint;
use query::{Kind, Record, ask};
use system::{System, hosts};

/// Shortest and longest time for which an answer is used, whatever it says of itself: a server that says 0 is not asked all the
/// time, and a mistake does not stay for days. Chosen arbitrarily.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// A name that stands for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Which.
    pub name: Name,
    /// The share of each address.
    pub weight: u32,
}

/// What kind of name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A host, and the port there.
    Host(String, u16),
    /// A service, whose records have hosts, ports and weights.
    Service(String),
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub struct Names {
    /// Name servers; those of the machine if empty.
    pub servers: Vec<SocketAddr>,
}

/// What a name stands for at present.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub addresses: Vec<Address>,
    /// For so long.
    pub lasts: Duration,
}

impl Names {
    /// Finds the addresses.
    ///
    /// # Errors
    /// Why there are none: no server answers, or it has none.
    pub(super) async fn resolve(&self, source: &Source) -> Result<Resolved, String> {
        let system = if self.servers.is_empty() { System::read() } else { System::of(&self.servers) };
        let (addresses, lasts) = match &source.name {
            Name::Host(host, port) => {
                let (found, lasts) = host_addresses(&system, host).await?;
                let address = |ip| address(SocketAddr::new(ip, *port), source.weight);
                (found.into_iter().map(address).collect(), lasts)
            }
            Name::Service(service) => service_addresses(&system, service, source.weight).await?,
        };
        if addresses.is_empty() {
            return Err("the name server has no address".into());
        }
        Ok(Resolved { addresses, lasts: lasts.clamp(SHORTEST, LONGEST) })
    }
}

fn address(address: SocketAddr, weight: u32) -> Address {
    Address { endpoint: Endpoint::Tcp(address), weight }
}

/// The IPv4 addresses of a host; its IPv6 addresses if it has none, since a host with both is the same host by either.
async fn host_addresses(system: &System, host: &str) -> Result<(Vec<IpAddr>, Duration), String> {
    let known = hosts(host);
    if !known.is_empty() {
        let has_v4 = known.iter().any(IpAddr::is_ipv4);
        return Ok((known.into_iter().filter(|ip| ip.is_ipv4() == has_v4).collect(), LONGEST));
    }
    for kind in [Kind::A, Kind::Aaaa] {
        let records = records(system, host, kind).await?;
        if !records.is_empty() {
            let lasts = records.iter().map(|(_, lasts)| *lasts).min().unwrap_or(LONGEST);
            let ip = |(record, _)| match record {
                Record::V4(ip) => Some(ip.into()),
                Record::V6(ip) => Some(ip.into()),
                Record::Service { .. } => None,
            };
            return Ok((records.into_iter().filter_map(ip).collect(), lasts));
        }
    }
    Ok((Vec::new(), SHORTEST))
}

/// The addresses of a service's hosts: of those with the best priority, with their weights.
async fn service_addresses(
    system: &System,
    service: &str,
    factor: u32,
) -> Result<(Vec<Address>, Duration), String> {
    let records = records(system, service, Kind::Srv).await?;
    let mut lasts = records.iter().map(|(_, lasts)| *lasts).min().unwrap_or(SHORTEST);
    let priority_of = |record: &Record| match record {
        Record::Service { priority, .. } => *priority,
        _ => u16::MAX,
    };
    let best = records.iter().map(|(record, _)| priority_of(record)).min();
    let mut addresses: Vec<Address> = Vec::new();
    for (record, _) in records {
        let Record::Service { priority, weight, port, target } = record else { continue };
        if Some(priority) != best {
            continue;
        }
        let (found, time) = host_addresses(system, &format!("{target}.")).await?;
        lasts = lasts.min(time);
        // Weight 0 is "nearly never" beside others, and all there is without them.
        let weight = u32::from(weight).max(1).saturating_mul(factor);
        for ip in found {
            let new = address(SocketAddr::new(ip, port), weight);
            if addresses.iter().all(|other| other.endpoint != new.endpoint) {
                addresses.push(new);
            }
        }
    }
    Ok((addresses, lasts))
}

/// The records of the first meaning of a name that has any.
async fn records(system: &System, name: &str, kind: Kind) -> Result<Vec<(Record, Duration)>, String> {
    for name in system.meanings(name) {
        let records = ask(&system.servers, &name, kind).await.map_err(|failure| failure.to_string())?;
        if !records.is_empty() {
            return Ok(records);
        }
    }
    Ok(Vec::new())
}
