//! Addresses of sites: scheme, host and port.

use crate::validity;

/// One address of a site.
#[derive(Debug, PartialEq)]
pub(super) struct Address {
    /// Empty for all hosts.
    pub host: String,
    pub port: u16,
    pub tls: bool,
}

/// Reads `[scheme://][host][:port]`; `None` for what a site cannot have here, as a path.
pub(super) fn address(text: &str, http: u16, https: u16) -> Option<Address> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("", text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (rest, None),
    };
    let host = match host {
        "" | "*" => String::new(),
        host => validity::host(host)?,
    };
    let tls = match scheme {
        "http" => false,
        "https" => true,
        // Caddy has certificates for names only.
        "" => port == Some(https) || (port != Some(http) && !host.is_empty()),
        _ => return None,
    };
    if (scheme == "http" && port == Some(https)) || (scheme == "https" && port == Some(http)) {
        return None;
    }
    let port = port.unwrap_or(if tls { https } else { http });
    Some(Address { host, port, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_follows_from_host_and_port() {
        for (text, expected) in [
            ("a.test", Some(("a.test", 443, true))),
            ("http://a.test", Some(("a.test", 80, false))),
            ("a.test:80", Some(("a.test", 80, false))),
            ("a.test:8443", Some(("a.test", 8443, true))),
            (":8080", Some(("", 8080, false))),
            ("http://", Some(("", 80, false))),
            ("https://*.a.test/", Some(("*.a.test", 443, true))),
            ("a.test/path", None),
            ("{$X}", None),
            ("ws://a", None),
            ("a.test:x", None),
        ] {
            let found = address(text, 80, 443);
            let found = found.as_ref().map(|it| (&*it.host, it.port, it.tls));
            assert_eq!(found, expected, "{text}");
        }
    }
}
