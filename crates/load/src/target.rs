//! What is requested: one URL, and the request that is sent for it.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use crate::tls::{Tls, Trust};

/// Most time for one of several addresses to accept a connection. A tenth would be too short for
/// another continent; ten times more would look like a program that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a body is unless a header says it: what a form sends.
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// What each request says beside its URL.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Without one `GET`, or `POST` if there is a body.
    pub method: Option<String>,
    /// Lines as `Accept: text/html`.
    pub headers: Vec<String>,
    /// The body, if it has one.
    pub body: Option<Vec<u8>>,
    /// Whose certificates are trusted.
    pub trust: Trust,
}

/// A URL that was understood, with the address of its server.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was typed.
    pub url: String,
    /// Where it leads.
    pub address: SocketAddr,
    /// How connections are encrypted; [`None`]: they are not.
    pub tls: Option<Tls>,
    /// The method of each request.
    pub method: Method,
    /// Path and query.
    pub path: Uri,
    /// What is sent with each request, `Host` among it.
    pub headers: HeaderMap,
    /// The body of each request, often empty.
    pub body: Bytes,
}

impl Target {
    /// Understands a URL, looks its host up, and tries whether its certificate is trusted.
    ///
    /// # Errors
    /// Says what is wrong with the URL or a header, that the host is not known, or why it is not
    /// trusted.
    pub fn new(url: &str, template: &Template) -> Result<Target, String> {
        let named = |error: &dyn std::fmt::Display| format!("{url}: {error}");
        let uri: Uri = url.parse().map_err(|error| format!("{url}: no URL: {error}"))?;
        let (is_encrypted, port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(format!("{url}: a URL begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| format!("{url}: names no host"))?;
        if authority.as_str().contains('@') {
            return Err(format!("{url}: give a name and password by --header 'Authorization: …'"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = (host, authority.port_u16().unwrap_or(port))
            .to_socket_addrs()
            .map_err(|error| format!("{url}: {host}: {error}"))?
            .collect();
        let address =
            answering(&addresses).ok_or_else(|| format!("{url}: {host} has no address"))?;
        let tls = match is_encrypted {
            true => Some(Tls::new(host, &template.trust).map_err(|error| named(&error))?),
            false => None,
        };
        if let Some(tls) = &tls {
            tls.check(address).map_err(|error| named(&error))?;
        }
        let body = template.body.clone().unwrap_or_default().into();
        let mut lines = HeaderMap::new();
        let value = HeaderValue::from_str(authority.as_str()).map_err(|error| named(&error))?;
        lines.insert(header::HOST, value);
        lines.insert(header::USER_AGENT, HeaderValue::from_static("tokamak"));
        lines.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if template.body.is_some() {
            lines.insert(header::CONTENT_TYPE, FORM);
        }
        let mut typed = HeaderMap::new();
        for line in &template.headers {
            let (name, value) = header_line(line)?;
            typed.append(name, value);
        }
        // They replace those above, and not each other.
        lines.extend(typed);
        // A URL with a query and no path asks for /?query, which only to_string() writes.
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let path = path.parse().map_err(|error| format!("{url}: no URL: {error}"))?;
        let method = match &template.method {
            Some(typed) => {
                typed.parse().map_err(|_| format!("`{typed}` is no method; write it as POST"))?
            }
            None if template.body.is_some() => Method::POST,
            None => Method::GET,
        };
        Ok(Target { url: url.to_owned(), address, tls, method, path, headers: lines, body })
    }
}

/// The first address at which a server accepts a connection, since `localhost` is two of them; the
/// first one if there is none.
fn answering(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    match addresses {
        [] | [_] => addresses.first(),
        several => several.iter().find(accepts).or(several.first()),
    }
    .copied()
}

fn header_line(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || format!("`{line}` is no header; write it as 'Name: value'");
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
    let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn of_several_addresses_the_one_that_accepts_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // There is no listener, as at ::1 of most servers: the listener has this port, not all.
        let closed = SocketAddr::from(([127, 0, 0, 2], open.port()));
        assert_eq!(answering(&[closed, open]), Some(open));
        assert_eq!(answering(&[closed, closed]), Some(closed));
        assert_eq!(answering(&[]), None);
    }

    #[test]
    fn a_url_leads_to_an_address() {
        let with = |lines: &[&str]| Template {
            headers: lines.iter().map(|line| (*line).to_owned()).collect(),
            ..Template::default()
        };
        let target = Target::new("http://127.0.0.1:81/a?b=c", &with(&["host: x"])).unwrap();
        assert_eq!((&target.method, target.tls.is_none()), (&Method::GET, true));
        assert_eq!(target.address, "127.0.0.1:81".parse().unwrap());
        assert_eq!(target.path, "/a?b=c");
        assert_eq!(target.headers[header::HOST], "x");
        let bare = Target::new("http://[::1]", &with(&[])).unwrap();
        assert_eq!(bare.address, "[::1]:80".parse().unwrap());
        assert_eq!(bare.path, "/");
        let twice = with(&["Cookie: a=1", "cookie: b=2"]);
        let twice = Target::new("http://127.0.0.1", &twice).unwrap();
        assert_eq!(twice.headers.get_all(header::COOKIE).iter().count(), 2);
        let query = Target::new("http://127.0.0.1?page=slow", &with(&[])).unwrap();
        assert_eq!(query.path, "/?page=slow");
    }

    #[test]
    fn a_body_is_posted_as_a_form_unless_it_is_said_otherwise() {
        let form = Template { body: Some(b"a=b".to_vec()), ..Template::default() };
        let target = Target::new("http://127.0.0.1/", &form).unwrap();
        assert_eq!((target.method, &target.body[..]), (Method::POST, &b"a=b"[..]));
        assert_eq!(target.headers[header::CONTENT_TYPE], FORM);
        let headers = vec!["content-type: application/json".to_owned()];
        let json = Template { method: Some("PUT".to_owned()), headers, ..form };
        let target = Target::new("http://127.0.0.1/", &json).unwrap();
        assert_eq!(target.method, Method::PUT);
        assert_eq!(target.headers[header::CONTENT_TYPE], "application/json");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, header, said) in [
            ("127.0.0.1:80", "a: b", "begins with http://"),
            ("http://user:word@127.0.0.1/", "a: b", "--header"),
            ("http://", "a: b", "no URL"),
            ("http://127.0.0.1/", "nothing", "no header"),
            ("http://127.0.0.1/", "a b: c", "no header"),
        ] {
            let template = Template { headers: vec![header.into()], ..Template::default() };
            let wrong = Target::new(url, &template).unwrap_err();
            assert!(wrong.contains(said), "{url}: {wrong}");
        }
        let method = Some("GE T".to_owned());
        let wrong = Target::new("http://127.0.0.1/", &Template { method, ..Template::default() });
        assert!(wrong.unwrap_err().contains("no method"));
    }
}
