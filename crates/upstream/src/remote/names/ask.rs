//! Whom a question goes to, and in which order; asking is the work of hickory-resolver.

use std::fs::read;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, Record, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};

/// How long one server may take for one answer; the resolver repeats the question meanwhile. Half
/// of what the C library allows, so that a second server still has its turn within the usual five
/// seconds; a tenth would give up on servers that are merely far away.
const LIMIT: Duration = Duration::from_millis(2500);

/// Whom to ask in one resolution. Made anew for each, since the files of the machine may change at
/// any time without notice; so nothing that the resolver remembers outlives the resolution
/// either.
pub(super) struct Ask {
    hosts: Hosts,
    /// One resolver for each server. A resolver with several asks them at once or in any order, and
    /// the first may know names that the others deny.
    servers: Vec<TokioResolver>,
}

impl Ask {
    /// These servers and no other rules; if there are none, as the machine is configured.
    ///
    /// # Errors
    /// Fails if the machine's configuration is invalid.
    pub fn new(servers: &[SocketAddr]) -> Result<Ask, String> {
        let (config, options) = if servers.is_empty() {
            machine(read("/etc/resolv.conf").unwrap_or_default())
                .map_err(|error| format!("/etc/resolv.conf cannot be used: {error}"))?
        } else {
            let servers = servers.iter().copied().map(name_server).collect();
            (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
        };
        let (domain, search, servers) = config.into_parts();
        let resolver = |server| {
            let config = ResolverConfig::from_parts(domain.clone(), search.clone(), vec![server]);
            let builder =
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            builder.with_options(ours(options.clone())).build().map_err(|error| why(&error))
        };
        Ok(Ask {
            hosts: Hosts::from_system().unwrap_or_default(),
            servers: servers.into_iter().map(resolver).collect::<Result<_, _>>()?,
        })
    }

    /// The addresses that `/etc/hosts` has for a name.
    pub fn hosts(&self, name: &Name) -> Vec<IpAddr> {
        let known = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let known = [RecordType::A, RecordType::AAAA].into_iter().filter_map(known);
        known
            .flat_map(|lookup| lookup.answers().to_vec())
            .filter_map(|record| record.data.ip_addr())
            .collect()
    }

    /// The answer of the first server that has one, with what led to it, such as a CNAME. A name
    /// that does not exist has none.
    ///
    /// # Errors
    /// Fails if no server answers, with the error of the last one.
    pub async fn records(&self, name: &Name, kind: RecordType) -> Result<Vec<Record>, String> {
        let mut failure = NetError::NoConnections;
        for server in &self.servers {
            match server.lookup(name.clone(), kind).await {
                Ok(lookup) => return Ok(lookup.answers().to_vec()),
                Err(none) if none.is_no_records_found() => return Ok(Vec::new()),
                Err(wrong) => failure = wrong,
            }
        }
        Err(why(&failure))
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

/// What resolv.conf says.
fn machine(mut text: Vec<u8>) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    let parsed = parse_resolv_conf(&text).or_else(|_| {
        // Without a server in the file, or without the file: one on this machine, as resolv.conf(5)
        // says.
        text.extend(b"\nnameserver 127.0.0.1\n");
        parse_resolv_conf(&text)
    });
    let (mut config, options) = parsed?;
    if !config.search.is_empty() {
        // The domain of the machine's own name counts only without a list; the resolver would try
        // it first.
        config.domain = None;
    }
    Ok((config, options))
}

/// The options with what we do ourselves.
fn ours(mut options: ResolverOpts) -> ResolverOpts {
    // The resolver looks a name up in /etc/hosts only with the first search domain appended.
    options.use_hosts_file = ResolveHosts::Never;
    options.timeout = LIMIT;
    options.attempts = 0;
    options
}

/// Why there is no answer.
fn why(failure: &NetError) -> String {
    match failure {
        NetError::Timeout => "the name server does not answer".into(),
        NetError::Io(error) => format!("the name server cannot be reached: {error}"),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the name server answered {code:?}"),
        other => format!("the name server's answer is of no use: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_name_servers_are_read() {
        let read = |text: &str| machine(text.into()).unwrap();
        let servers = |config: &ResolverConfig| -> Vec<String> {
            config.name_servers.iter().map(|server| server.ip.to_string()).collect()
        };
        let names = |config: &ResolverConfig| -> Vec<String> {
            config.search.iter().chain(&config.domain).map(Name::to_string).collect()
        };
        let (config, options) = read(
            "# made by hand\nnameserver 192.0.2.1\nsearch a.example b.example\noptions timeout:1 \
                ndots:2\n\
             nameserver 2001:db8::1\n",
        );
        assert_eq!(servers(&config), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(names(&config), ["a.example", "b.example"]);
        assert_eq!(options.ndots, 2);
        assert_eq!(servers(&read("").0), ["127.0.0.1"]);
        let (config, _) = read("search a.example");
        assert_eq!(
            (servers(&config), names(&config)),
            (vec!["127.0.0.1".into()], vec!["a.example".into()])
        );
    }
}
