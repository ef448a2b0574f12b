//! What a person sees at the start: where to look.

use std::io::Write;
use std::net::SocketAddr;

use tokamak_config::{PoolSize, Server, Site};

/// Prints a line for each site of a server, which has the addresses of its sockets, to standard
/// output.
pub fn print(server: &Server) {
    let is_one_of_many = server.sites.len() > 1;
    let of_site = |site| {
        let is_own = |address: &SocketAddr| site_listens(site, address);
        line(site, is_one_of_many, &urls(server, is_own))
    };
    let text: String = server.sites.iter().map(of_site).collect();
    // A closed standard output must not stop a server.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn line(site: &Site, is_one_of_many: bool, urls: &[String]) -> String {
    let mode = site.mode.name();
    let workers = match site.pool.size {
        _ if !site.has_workers() => "no workers".to_owned(),
        PoolSize::Auto { least, max } => format!("{least} to {max} workers"),
        PoolSize::Static { workers: 1 } => "1 worker".to_owned(),
        PoolSize::Static { workers } => format!("{workers} workers"),
        PoolSize::Dynamic { start, max, .. } => format!("{start} to {max} workers"),
        PoolSize::Ondemand { max, .. } => format!("up to {max} workers on demand"),
    };
    let name = if is_one_of_many { format!(" for {}", site.name) } else { String::new() };
    format!(
        "tokamak: serving {} at {}{name} ({mode} mode, {workers})\n",
        site.root.display(),
        urls.join(" ")
    )
}

fn site_listens(site: &Site, address: &SocketAddr) -> bool {
    site.listen.is_empty() || site.listen.contains(address)
}

/// Those addresses of a server that fit, as a browser on this machine reaches them.
pub fn urls(server: &Server, fits: impl Fn(&SocketAddr) -> bool) -> Vec<String> {
    let plain = server.listen.iter().map(|address| ("http", address));
    let all = plain.chain(server.listen_tls.iter().map(|address| ("https", address)));
    all.filter(|(_, address)| fits(address))
        .map(|(scheme, address)| url(scheme, *address))
        .collect()
}

/// The address as a browser on this machine reaches it.
fn url(scheme: &str, address: SocketAddr) -> String {
    let host = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => "127.0.0.1".to_owned(),
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => "[::1]".to_owned(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    };
    match (scheme, address.port()) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}/"),
        (_, port) => format!("{scheme}://{host}:{port}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn lines() {
        let mut site = crate::settings::tests::server(Path::new("/srv/site")).sites.remove(0);
        let addresses =
            [url("http", "0.0.0.0:8080".parse().unwrap()), url("http", "[::]:80".parse().unwrap())];
        assert_eq!(url("https", "0.0.0.0:443".parse().unwrap()), "https://127.0.0.1/");
        assert_eq!(
            line(&site, false, &addresses),
            "tokamak: serving /srv/site at http://127.0.0.1:8080/ http://[::1]/ (classic mode, 2 \
                workers)\n"
        );
        site.mode = tokamak_config::Mode::Worker;
        site.pool.size = PoolSize::Ondemand { max: 3, idle: Duration::ZERO };
        assert_eq!(
            line(&site, true, &addresses[..1]),
            "tokamak: serving /srv/site at http://127.0.0.1:8080/ for default (worker mode, up to \
                3 workers on demand)\n"
        );
    }
}
