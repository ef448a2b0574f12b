//! Addresses behind names: A or AAAA records of a host, SRV records of a service.

mod ask;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::proto::rr::{self, RData, Record, RecordType};

use super::member::Address;
use super::stream::Endpoint;
use ask::Ask;

/// Shortest and longest time for which an answer is used, whatever it says of itself. A server that
/// says 0 would otherwise be asked with every request; an answer that says a week would keep a
/// mistake for a week. Five minutes is how long an operator may have to wait for a change.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// How many aliases in a row are followed to a service. Real chains have one or two; more are a
/// circle. Each is a question to a name server, so ten times more could take a minute.
const ALIASES: usize = 4;

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
    /// Fails if no server answers, or it knows no address.
    pub(super) async fn resolve(&self, source: &Source) -> Result<Resolved, String> {
        let (addresses, lasts) = self.find(source).await?;
        if addresses.is_empty() {
            return Err("the name server has no address".into());
        }
        Ok(Resolved { addresses, lasts: lasts.clamp(SHORTEST, LONGEST) })
    }

    async fn find(&self, source: &Source) -> Result<(Vec<Address>, Duration), String> {
        let ask = Ask::new(&self.servers)?;
        match &source.name {
            Name::Host(host, port) => {
                let (found, lasts) = host_addresses(&ask, &parse(host)?).await?;
                let address = |ip| address(SocketAddr::new(ip, *port), source.weight);
                Ok((found.into_iter().map(address).collect(), lasts))
            }
            Name::Service(service) => {
                service_addresses(&ask, &parse(service)?, source.weight).await
            }
        }
    }
}

fn address(address: SocketAddr, weight: u32) -> Address {
    Address { endpoint: Endpoint::Tcp(address), weight }
}

fn parse(name: &str) -> Result<rr::Name, String> {
    // Also names with an underscore, which are common though no host names.
    rr::Name::from_str_relaxed(name).map_err(|_| "this is no name".to_owned())
}

/// The IPv4 addresses of a host; its IPv6 addresses if it has none, since a host with both is the
/// same host by either.
async fn host_addresses(ask: &Ask, host: &rr::Name) -> Result<(Vec<IpAddr>, Duration), String> {
    let known = ask.hosts(host);
    if !known.is_empty() {
        let has_v4 = known.iter().any(IpAddr::is_ipv4);
        return Ok((known.into_iter().filter(|ip| ip.is_ipv4() == has_v4).collect(), LONGEST));
    }
    for kind in [RecordType::A, RecordType::AAAA] {
        let records = ask.records(host, kind).await?;
        let found: Vec<IpAddr> =
            records.iter().filter_map(|record| record.data.ip_addr()).collect();
        if !found.is_empty() {
            return Ok((found, time_to_live(&records)));
        }
    }
    Ok((Vec::new(), SHORTEST))
}

/// The addresses of a service's hosts: of those with the best priority, with their weights.
async fn service_addresses(
    ask: &Ask,
    service: &rr::Name,
    factor: u32,
) -> Result<(Vec<Address>, Duration), String> {
    let records = service_records(ask, service).await?;
    let mut lasts = time_to_live(&records);
    let hosts = || {
        records.iter().filter_map(|record| match &record.data {
            RData::SRV(host) => Some(host),
            _ => None,
        })
    };
    let best = hosts().map(|host| host.priority).min();
    let mut addresses: Vec<Address> = Vec::new();
    for host in hosts().filter(|host| Some(host.priority) == best) {
        let (found, time) = host_addresses(ask, &host.target).await?;
        lasts = lasts.min(time);
        // Weight 0 is "nearly never" beside others, and all there is without them.
        let weight = u32::from(host.weight).max(1).saturating_mul(factor);
        for ip in found {
            let new = address(SocketAddr::new(ip, host.port), weight);
            if addresses.iter().all(|other| other.endpoint != new.endpoint) {
                addresses.push(new);
            }
        }
    }
    Ok((addresses, lasts))
}

/// The records of a service, and the aliases that led to them: the resolver follows those to
/// addresses only.
async fn service_records(ask: &Ask, service: &rr::Name) -> Result<Vec<Record>, String> {
    let mut name = service.clone();
    let mut all = Vec::new();
    for _ in 0..=ALIASES {
        let found = ask.records(&name, RecordType::SRV).await?;
        if !found.is_empty() {
            all.extend(found);
            break;
        }
        let aliases = ask.records(&name, RecordType::CNAME).await?;
        let Some(RData::CNAME(target)) = aliases.first().map(|record| &record.data) else { break };
        name = target.0.clone();
        all.extend(aliases);
    }
    Ok(all)
}

/// As long as each of them is true.
fn time_to_live(records: &[Record]) -> Duration {
    records.iter().map(|record| Duration::from_secs(record.ttl.into())).min().unwrap_or(SHORTEST)
}
