//! Sets up the applications of the configuration, and the tasks that run for them beside requests.

use std::io;
use std::sync::Arc;

use tokamak_config::{self as config, HttpProxy, Protocol};
use tokamak_outbound::http::system_authorities;
use tokamak_tls::{ClientFiles, ClientSettings};
use tokamak_upstream::remote::{
    Address, Balancing, Bounds, Endpoint, Http2Bounds, LogSink, Multiplex, Name, Names, Rules,
    Settings, Source, Upstream,
};

use super::checks;
use crate::log;

/// Makes the connection pools of the applications from their configuration; `files` are those of
/// each for TLS.
///
/// # Errors
/// Fails if the files or the system's authorities cannot be used.
pub fn upstreams(config: &config::Server, files: &[ClientFiles]) -> io::Result<Arc<[Upstream]>> {
    let none = ClientFiles::default();
    let all = config.upstreams.iter().enumerate().map(|(index, config)| {
        let tls = tls(config, files.get(index).unwrap_or(&none));
        let named = |why| io::Error::other(format!("upstream {}: {why}", config.name));
        Ok(upstream(config, tls.map_err(named)?))
    });
    all.collect()
}

/// How an application is asked over TLS, if it is.
fn tls(config: &config::Upstream, files: &ClientFiles) -> Result<Option<ClientSettings>, String> {
    let Protocol::Http(HttpProxy { tls: Some(tls), http2, .. }) = &config.protocol else {
        return Ok(None);
    };
    let system = || system_authorities().map_err(|error| error.to_string());
    ClientSettings::new(files, system, tls.name.as_deref(), *http2).map(Some)
}

fn upstream(config: &config::Upstream, tls: Option<ClientSettings>) -> Upstream {
    let (mut addresses, mut sources) = (Vec::new(), Vec::new());
    for config::Address { endpoint, weight, .. } in &config.addresses {
        let weight = *weight;
        let name = match endpoint {
            config::Endpoint::Unix(path) => {
                addresses.push(Address { endpoint: Endpoint::Unix(path.clone()), weight });
                continue;
            }
            config::Endpoint::Tcp(text) => match (text.parse(), text.rsplit_once(':')) {
                (Ok(address), _) => {
                    addresses.push(Address { endpoint: Endpoint::Tcp(address), weight });
                    continue;
                }
                (Err(_), Some((host, port))) => {
                    Name::Host(host.to_owned(), port.parse().unwrap_or_default())
                }
                // An address without a port was refused when the configuration was checked.
                (Err(_), None) => continue,
            },
            config::Endpoint::Srv(name) => Name::Service(name.clone()),
        };
        sources.push(Source { name, weight });
    }
    let settings = Settings {
        policy: match config.balance {
            config::Balance::RoundRobin => Balancing::RoundRobin,
            config::Balance::LeastBusy => Balancing::LeastBusy,
        },
        stays: !config.spill,
        rules: Rules {
            failures: config.health.failures,
            window: config.health.window,
            pause: config.health.pause,
            rise: config.check.as_ref().map_or(1, |check| check.rise),
            fall: config.check.as_ref().map_or(1, |check| check.fall),
        },
        bounds: Bounds {
            connections: config.connections,
            multiplex: match config.multiplex {
                config::Multiplex::Never => Multiplex::Never,
                config::Multiplex::First => Multiplex::First,
                config::Multiplex::WhenKept => Multiplex::WhenKept,
            },
            http2: match &config.protocol {
                Protocol::Http(HttpProxy { http2: true, .. }) => {
                    Some(Http2Bounds { largest_head: config.head })
                }
                Protocol::Http(_) | Protocol::FastCgi => None,
            },
            requests: config.requests,
            idle: config.idle,
            reuse_for_all: config.reuse == config::Reuse::All,
            queue: config.queue,
            queue_timeout: config.timeouts.queue,
            connect_timeout: config.timeouts.connect,
            send_timeout: config.timeouts.send,
            first_byte_timeout: config.timeouts.first_byte,
            read_timeout: config.timeouts.read,
        },
    };
    let name = config.name.clone();
    let log_sink = LogSink::by(move |news| log::server(&format!("upstream {name}: {news}")));
    Upstream::new(settings, tls, addresses, sources, log_sink)
}

/// Resolves all names once, before the first request.
///
/// # Errors
/// Fails if a name cannot be resolved.
pub fn resolve(upstreams: &[Upstream], server: &config::Server) -> io::Result<()> {
    let names = Names { servers: server.resolver.clone() };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        for (upstream, config) in upstreams.iter().zip(&server.upstreams) {
            for source in 0..upstream.sources() {
                upstream
                    .resolve(source, &names)
                    .await
                    .map_err(|why| io::Error::other(format!("upstream {}: {why}", config.name)))?;
            }
        }
        Ok(())
    })
}

/// Starts the background tasks of the applications on the calling event loop, which is
/// `loop_index`.
pub fn attend(upstreams: &Arc<[Upstream]>, server: &config::Server, loop_index: usize) {
    let names = Names { servers: server.resolver.clone() };
    for (index, config) in server.upstreams.iter().enumerate() {
        for source in 0..upstreams[index].sources() {
            let (upstreams, names, interval) = (upstreams.clone(), names.clone(), config.resolve);
            tokio::spawn(async move { upstreams[index].follow(source, &names, interval).await });
        }
        if config.check.is_some() {
            tokio::spawn(checks::run(upstreams.clone(), index, loop_index, config.clone()));
        }
    }
}
