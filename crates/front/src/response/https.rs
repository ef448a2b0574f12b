//! Browsers that are to use `https`: the redirect of requests without TLS, and the header by which
//! they remember it.

use std::net::SocketAddr;

use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Response, StatusCode};
use tokamak_config as config;

use super::pages;
use super::source::Source;
use crate::failure::Failure;
use crate::route::canonical;
use crate::route::hosts::{host_of, strip_port};

/// The port of `https`, which URLs leave out.
const PORT: u16 = 443;

/// Sends a client to the same address with `https`, on the site's port for it, and at the canonical
/// host of the site; or only to `https`, if the site tells browsers something about the names below
/// its host. The status is 308, so that the method stays. `moved`: where a rule redirects the page,
/// and with which status.
pub fn redirect(
    server: &config::Server,
    site: &config::Site,
    parts: &Parts,
    moved: Option<(String, StatusCode)>,
) -> Response<Source> {
    let Some(name) = host_of(&parts.uri, &parts.headers).map(strip_port) else {
        return pages::failed(Failure::BadRequest);
    };
    let port = port(server, site);
    let port = if port == PORT { String::new() } else { format!(":{port}") };
    let host = [name, &port].concat();
    // Browsers apply the header of another host to the names below that host only.
    let is_elsewhere = !site.tls.hsts.subdomains;
    let canonical = site.canonical_host.as_deref().filter(|_| is_elsewhere);
    let other = canonical.and_then(|own| canonical::other_host(own, &host));
    let host = other.as_deref().unwrap_or(&host);
    let (to, status) = match moved.filter(|_| is_elsewhere) {
        Some((to, status)) => (canonical::moved("https", host, to), status),
        None => (canonical::url("https", host, &parts.uri), StatusCode::PERMANENT_REDIRECT),
    };
    let mut response = Response::new(Source::Whole(pages::page(status, "The page is at https.")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(to) = HeaderValue::from_str(&to) {
        headers.insert(LOCATION, to);
    }
    response
}

/// The port on which browsers find a site with `https`.
fn port(server: &config::Server, site: &config::Site) -> u16 {
    let is_own = |address: &&SocketAddr| site.listen.contains(address);
    let mut listeners = server.listen_tls.iter();
    // A site that is served on no address with TLS is at https, if at all, by another server.
    let found = match site.listen.is_empty() {
        true => listeners.next(),
        false => listeners.find(is_own),
    };
    site.tls.port.or(found.map(SocketAddr::port)).unwrap_or(PORT)
}

/// The value of `Strict-Transport-Security` for a site, if it has one.
pub fn hsts(site: &config::Site) -> Option<HeaderValue> {
    let config::Hsts { lifetime, subdomains, preload } = site.tls.hsts;
    let seconds = lifetime.as_secs();
    let mut value = format!("max-age={seconds}");
    for (is_set, directive) in [(subdomains, "; includeSubDomains"), (preload, "; preload")] {
        if is_set {
            value.push_str(directive);
        }
    }
    (seconds > 0).then(|| HeaderValue::try_from(value).ok()).flatten()
}

/// The value of `Alt-Svc` (RFC 7838) that tells the clients of a site of HTTP/3, if there is any. A
/// browser believes it for a day; when it cannot connect, it goes on without.
pub fn alt_svc(server: &config::Server, site: &config::Site) -> Option<HeaderValue> {
    let port = server.http3.enabled.then(|| port(server, site))?;
    HeaderValue::try_from(format!("h3=\":{port}\"; ma=86400")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;

    use super::*;

    fn server(tls: &str) -> config::Server {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "").unwrap();
        let environment = Vec::new();
        let request = config::Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment,
            directory: folder.path().to_owned(),
        };
        let listen_tls = tls.split_whitespace().map(|address| address.parse().unwrap()).collect();
        config::Server { listen_tls, ..request.load().unwrap() }
    }

    #[test]
    fn table() {
        for (tls, canonical, host, target, expected) in [
            ("0.0.0.0:443", "", "a.example", "/x?y=1", "https://a.example/x?y=1"),
            ("0.0.0.0:443", "", "a.example:80", "/", "https://a.example/"),
            ("0.0.0.0:8443 0.0.0.0:443", "", "a.example:80", "/", "https://a.example:8443/"),
            ("", "", "a.example", "/", "https://a.example/"),
            ("0.0.0.0:443", "", "[::1]:80", "/", "https://[::1]/"),
            ("0.0.0.0:443", "", "a.example", "*", "https://a.example/"),
            ("0.0.0.0:443", "www.a", "a:80", "/x", "https://www.a/x"),
            ("0.0.0.0:443", "www.a", "www.a:80", "/x", "https://www.a/x"),
            ("0.0.0.0:8443", "www.a", "a:80", "/x", "https://www.a:8443/x"),
            ("0.0.0.0:8443", "www.a:443", "www.a:80", "/x", "https://www.a:443/x"),
        ] {
            let request = Request::options(target).header("host", host).body(()).unwrap();
            let (server, parts) = (server(tls), request.into_parts().0);
            let canonical_host = (!canonical.is_empty()).then(|| canonical.to_owned());
            let site = config::Site { canonical_host, ..server.sites[0].clone() };
            let response = redirect(&server, &site, &parts, None);
            assert_eq!(response.status(), 308);
            assert_eq!(response.headers()[LOCATION], expected);
        }
        let mut server = server("0.0.0.0:8443 0.0.0.0:443");
        let site = &mut server.sites[0];
        assert_eq!(hsts(site), None);
        site.tls.hsts.lifetime = Duration::from_secs(3600);
        assert_eq!(hsts(site).unwrap(), "max-age=3600");
        site.tls.hsts.preload = true;
        site.tls.hsts.subdomains = true;
        assert_eq!(hsts(site).unwrap(), "max-age=3600; includeSubDomains; preload");
        site.canonical_host = Some("www.a".to_owned());
        let parts = Request::get("/x").header("host", "a").body(()).unwrap().into_parts().0;
        let moved = Some(("/y".to_owned(), StatusCode::FOUND));
        let response = redirect(&server, &server.sites[0], &parts, moved);
        assert_eq!(response.headers()[LOCATION], "https://a:8443/x", "first at the host itself");
        server.sites[0].listen = vec![server.listen_tls[1]];
        assert_eq!(port(&server, &server.sites[0]), 443);
        server.sites[0].listen = vec!["0.0.0.0:80".parse().unwrap()];
        server.listen_tls.truncate(1);
        assert_eq!(port(&server, &server.sites[0]), 443, "not that of another site");
        server.sites[0].tls.port = Some(444);
        assert_eq!(port(&server, &server.sites[0]), 444);
        let nameless = Request::get("/").body(()).unwrap().into_parts().0;
        assert_eq!(redirect(&server, &server.sites[0], &nameless, None).status(), 400);
    }
}
