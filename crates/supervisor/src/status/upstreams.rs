//! The FastCGI applications and how their addresses stand.

use std::fmt::{self, Write};

use serde::Serialize;
use tokamak_config::Server;
use tokamak_sys::control::AddressStatus;

use super::{row, write_table};

/// What `tokamak upstream` shows.
#[derive(Debug, Serialize)]
pub struct Upstreams {
    /// In the order of the configuration.
    pub upstreams: Vec<UpstreamReport>,
}

/// One application now.
#[derive(Debug, Serialize)]
pub struct UpstreamReport {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub addresses: Vec<AddressReport>,
}

/// One address now.
#[derive(Debug, Serialize)]
pub struct AddressReport {
    /// As in the configuration.
    pub address: String,
    /// Its share.
    pub weight: u32,
    /// `up`, `out`, `trial`, `down`, `draining` or `drained`.
    pub state: &'static str,
    /// For so long.
    pub seconds: f64,
    /// Requests that it began to answer.
    pub requests: u64,
    /// Requests that it did not.
    pub failures: u64,
    /// Connections that have a request.
    pub in_use: u32,
    /// Connections that have none.
    pub idle: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
    /// What becomes of its connections: `unknown`, `kept`, `closed` (by the application, after each
    /// response) or `shared`.
    pub connections: &'static str,
}

/// The applications of this configuration, or the one with this name, from what the front has said.
pub fn upstreams(server: &Server, name: Option<&str>, heard: &[(u16, AddressStatus)]) -> Upstreams {
    let wanted = server.upstreams.iter().enumerate();
    let wanted = wanted.filter(|(_, upstream)| name.is_none_or(|name| upstream.name == name));
    let report = |(index, upstream): (usize, &tokamak_config::Upstream)| UpstreamReport {
        name: upstream.name.clone(),
        addresses: heard
            .iter()
            .filter(|(of, _)| usize::from(*of) == index)
            .map(|(_, one)| address(one))
            .collect(),
    };
    Upstreams { upstreams: wanted.map(report).collect() }
}

fn address(status: &AddressStatus) -> AddressReport {
    AddressReport {
        address: status.address.clone(),
        weight: status.weight,
        state: status.state.name(),
        seconds: (status.since.as_secs_f64() * 10.0).round() / 10.0,
        requests: status.requests,
        failures: status.failures,
        in_use: status.in_use,
        idle: status.idle,
        waiting: status.waiting,
        connections: status.connections.name(),
    }
}

impl fmt::Display for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        table(&self.upstreams, f)
    }
}

/// The same below a report of everything.
pub(super) fn write_upstreams(
    upstreams: &[UpstreamReport],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if upstreams.is_empty() {
        return Ok(());
    }
    f.write_char('\n')?;
    table(upstreams, f)
}

fn table(upstreams: &[UpstreamReport], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heading = [
        "UPSTREAM",
        "ADDRESS",
        "WEIGHT",
        "STATE",
        "SECONDS",
        "REQUESTS",
        "FAILURES",
        "IN USE",
        "IDLE",
        "WAITING",
        "CONNECTIONS",
    ];
    let mut table = vec![row(heading)];
    for UpstreamReport { name, addresses } in upstreams {
        for one in addresses {
            table.push(vec![
                name.clone(),
                one.address.clone(),
                one.weight.to_string(),
                one.state.to_owned(),
                format!("{:.1}", one.seconds),
                one.requests.to_string(),
                one.failures.to_string(),
                one.in_use.to_string(),
                one.idle.to_string(),
                one.waiting.to_string(),
                one.connections.to_owned(),
            ]);
        }
        if addresses.is_empty() {
            table.push([name, "(none)"].into_iter().chain([""; 9]).map(str::to_owned).collect());
        }
    }
    write_table(f, &table)
}
