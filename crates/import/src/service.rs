//! Services of HTTP that configurations lead to, by `proxy_pass`, `ProxyPass` and `reverse_proxy`:
//! where they listen, what they are told, and how long they are waited for.

mod routes;

use std::time::Duration;

use crate::model::Upstream;
use crate::validity;

pub(crate) use routes::{Beside, add, is_plain, leave_out, stay_beside};

/// The most that `weight` of an address may be.
pub(crate) const HEAVIEST: u32 = 1000;

/// Keys of `[[upstream]]` that are durations, with the most seconds that each may be.
const LONGEST: &[(&str, u64)] = &[
    ("check_interval", 3600),
    ("check_timeout", 3600),
    ("connect_timeout", 3600),
    ("send_timeout", 3600),
    ("first_byte_timeout", 86_400),
    ("read_timeout", 86_400),
];

/// How a service is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    #[default]
    Http,
    Https,
}

/// What is said where the certificate of a service was not verified.
pub(crate) const VERIFIED: &str = "the certificate of the service is verified here: it has to be \
    of an authority that the system trusts, or of `tls_ca`, and to name the service";

/// What the server knows of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Address,
    /// The addresses that the client claims, and its own.
    Addresses,
    Scheme,
    Host,
}

/// Fields by which services learn of the client, with what is sent in each.
const OF_CLIENTS: &[(&str, &[Known])] = &[
    ("x-real-ip", &[Known::Address]),
    ("x-forwarded-for", &[Known::Address, Known::Addresses]),
    ("x-forwarded-proto", &[Known::Scheme]),
    ("x-forwarded-host", &[Known::Host]),
];

/// Fields that only the server writes.
const OF_THE_SERVER: &[&str] =
    &["content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding"];

/// The value of a field that a service is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told<'a> {
    /// This text; without any, the field is removed.
    Text(&'a str),
    /// What the client says in the same field.
    Same,
    Known(Known),
    /// Something that is not translated.
    Other,
}

/// How the service of a URL is asked, and what of the URL follows its scheme. Other ways to ask a
/// service than HTTP/1.1 are refused here, and nowhere else.
///
/// # Errors
/// Fails with the reason if services are not asked in that way.
pub(crate) fn split_scheme(url: &str) -> Result<(Scheme, &str), &'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match &*scheme.to_ascii_lowercase() {
        "http" => Ok((Scheme::Http, rest)),
        "https" => Ok((Scheme::Https, rest)),
        "ws" | "wss" => Err("WebSockets need no line: they pass to services of `http://`"),
        "h2c" | "h2" => Err("services of HTTP/2 are not translated; see `protocol = \"http2\"`"),
        _ => Err("services are asked by `http://` or `https://`"),
    }
}

/// The address of `[[upstream]]` for a host, with a port if it is not that of the scheme, or for
/// `unix:` and a path.
pub(crate) fn address(scheme: Scheme, text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let is_path = path.starts_with('/') && !path.chars().any(char::is_control);
        return (is_path && scheme == Scheme::Http).then(|| format!("http+unix:{path}"));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let whole = if has_port { text.to_owned() } else { format!("{text}:{}", scheme.port()) };
    let (host, port) = whole.rsplit_once(':')?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_letter)
    };
    let is_host = (host.len() <= 253 && host.split('.').all(is_label))
        || whole.parse::<std::net::SocketAddr>().is_ok();
    (is_port && is_host).then(|| format!("{}://{whole}", scheme.name()))
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// What a service is told as `Host` if that is the host of its URL.
pub(crate) fn host(scheme: Scheme, server: &str) -> String {
    match server.starts_with("unix:") {
        true => "localhost".to_owned(),
        false => {
            let port = format!(":{}", scheme.port());
            server.strip_suffix(&*port).unwrap_or(server).to_owned()
        }
    }
}

/// Whether a text can be `host` of `[[upstream]]`.
pub(crate) fn is_host(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Whether the path of a URL can stand in place of that of a route.
pub(crate) fn is_path(path: &str) -> bool {
    let is_visible = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
    path.bytes().all(is_visible) && (path.is_empty() || path.starts_with('/'))
}

impl Upstream {
    /// Adds an address. One that stands there twice gets the share of both.
    pub(crate) fn add(&mut self, address: String, weight: u32) {
        let weight = weight.clamp(1, HEAVIEST);
        match self.addresses.iter_mut().find(|(other, _)| *other == address) {
            Some((_, share)) => *share = share.saturating_add(weight).min(HEAVIEST),
            None => self.addresses.push((address, weight)),
        }
    }

    /// Sets a duration by its keys.
    ///
    /// # Errors
    /// Fails with a reason if the key cannot be so long or so short.
    pub(crate) fn wait(
        &mut self,
        keys: &[&'static str],
        duration: Option<Duration>,
    ) -> Result<(), String> {
        let key = keys[0];
        let most = LONGEST.iter().find(|(own, _)| *own == key).map_or(0, |(_, most)| *most);
        let least = if key == "check_interval" { 100 } else { 1 };
        let fits =
            |it: &Duration| *it >= Duration::from_millis(least) && *it <= Duration::from_secs(most);
        let Some(duration) = duration.filter(fits) else {
            return Err(format!("no duration of `{key}`: at most {most} seconds"));
        };
        self.timeouts.extend(keys.iter().map(|key| (*key, duration)));
        Ok(())
    }

    /// Sets a field of its requests, or removes it; says what of that is left out. A field that is
    /// not translated is removed: another value stood in place of the client's, which the service
    /// may believe.
    pub(crate) fn tell(&mut self, name: &str, value: Told) -> Option<&'static str> {
        let lower = name.to_ascii_lowercase();
        let of_client = OF_CLIENTS.iter().find(|(own, _)| *own == lower).map(|(_, known)| *known);
        match (&*lower, value) {
            // WebSockets pass without a word, and connections are the server's own matter.
            ("connection" | "upgrade", _) => None,
            (own, _) if OF_THE_SERVER.contains(&own) => Some("the server alone sets this field"),
            (_, Told::Text(text)) => match validity::field(name, text) {
                Ok(()) => {
                    self.set_field(name, text);
                    None
                }
                Err(problem) => Some(problem),
            },
            (_, Told::Known(known)) if of_client.is_some_and(|own| own.contains(&known)) => None,
            (_, Told::Same) if of_client.is_none() => None,
            _ if of_client.is_some() => Some("what the server knows of the client is sent instead"),
            _ if validity::field(name, "").is_err() => Some("this is no name of a header"),
            _ => {
                self.set_field(&lower, "");
                Some("its value is not translated, so the service does not get this field")
            }
        }
    }

    fn set_field(&mut self, name: &str, value: &str) {
        self.headers.retain(|own, _| !own.eq_ignore_ascii_case(name));
        self.headers.insert(name.to_owned(), value.to_owned());
    }

    /// Puts it among the upstreams of a configuration; gives its name there, which begins with
    /// that of its server.
    pub(crate) fn named(mut self, server: &str, known: &mut Vec<Upstream>) -> String {
        if let Some(same) = known.iter().find(|other| other.is_same(&self)) {
            return same.name.clone();
        }
        let stem =
            server.trim_start_matches("unix:").trim_start_matches('/').replace([':', '/'], "-");
        let is_taken = |name: &str| known.iter().any(|other| other.name == name);
        let mut names = (2..).map(|number| format!("{stem}-{number}"));
        self.name = match is_taken(&stem) {
            true => names.find(|name| !is_taken(name)).unwrap_or_default(),
            false => stem.clone(),
        };
        let name = self.name.clone();
        known.push(self);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_asked_over_http_1() {
        assert_eq!(split_scheme("http://app/x"), Ok((Scheme::Http, "app/x")));
        assert_eq!(split_scheme("HTTPS://app"), Ok((Scheme::Https, "app")));
        for url in ["ws://a", "wss://a", "h2c://a", "fcgi://a", "a", ""] {
            assert!(split_scheme(url).is_err(), "{url}");
        }
    }

    #[test]
    fn addresses_are_those_of_upstreams() {
        for (text, expected) in [
            ("app", Some("http://app:80")),
            ("10.0.0.1:3000", Some("http://10.0.0.1:3000")),
            ("[::1]:3000", Some("http://[::1]:3000")),
            ("[::1]", Some("http://[::1]:80")),
            ("unix:/run/a.sock", Some("http+unix:/run/a.sock")),
            ("unix:a", None),
            ("app:0", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(address(Scheme::Http, text).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("app", Some("https://app:443")),
            ("app:80", Some("https://app:80")),
            ("unix:/run/a.sock", None),
        ] {
            assert_eq!(address(Scheme::Https, text).as_deref(), expected, "{text}");
        }
        assert_eq!(host(Scheme::Https, "app:443"), "app");
        assert_eq!(host(Scheme::Https, "app:80"), "app:80");
    }

    #[test]
    fn what_is_not_translated_is_no_field_of_the_client() {
        for (name, value, expected) in [
            ("X-Me", Told::Text("1"), Some("1")),
            ("Cookie", Told::Text(""), Some("")),
            ("X-User", Told::Other, Some("")),
            ("X-Address", Told::Known(Known::Address), Some("")),
            ("X-Real-IP", Told::Known(Known::Address), None),
            ("X-Forwarded-For", Told::Known(Known::Addresses), None),
            ("X-Forwarded-Proto", Told::Text("https"), Some("https")),
            ("X-Forwarded-Proto", Told::Known(Known::Host), None),
            ("Range", Told::Same, None),
            ("Upgrade", Told::Same, None),
            ("Content-Length", Told::Text("1"), None),
        ] {
            let mut upstream = Upstream::default();
            upstream.tell(name, value);
            let found = upstream.headers.values().next().map(String::as_str);
            assert_eq!(found, expected, "{name} {value:?}");
        }
    }
}
