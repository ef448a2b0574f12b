//! What is requested: one URL, and the request that is sent for it.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

/// Most time for one of several addresses to accept a connection. A tenth would be too short for
/// another continent; ten times more would look like a program that hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A URL that was understood, with the address of its server.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was typed.
    pub url: String,
    /// Where it leads.
    pub address: SocketAddr,
    /// Path and query.
    pub path: Uri,
    /// What is sent with each request, `Host` among it.
    pub headers: HeaderMap,
}

impl Target {
    /// Understands a URL and looks its host up; `headers` are lines as `Accept: text/html`.
    ///
    /// # Errors
    /// Says what is wrong with the URL or a header, or that the host is not known.
    pub fn new(url: &str, headers: &[String]) -> Result<Target, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: no URL: {error}"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(format!("{url}: TLS is not spoken here; name an http:// address"));
            }
            _ => return Err(format!("{url}: a URL begins with http://")),
        }
        let authority = uri.authority().ok_or_else(|| format!("{url}: names no host"))?;
        if authority.as_str().contains('@') {
            return Err(format!("{url}: give a name and password by --header 'Authorization: …'"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = (host, authority.port_u16().unwrap_or(80))
            .to_socket_addrs()
            .map_err(|error| format!("{url}: {host}: {error}"))?
            .collect();
        let address =
            answering(&addresses).ok_or_else(|| format!("{url}: {host} has no address"))?;
        let value = HeaderValue::from_str(authority.as_str());
        let mut lines = HeaderMap::new();
        lines.insert(header::HOST, value.map_err(|error| format!("{url}: {error}"))?);
        lines.insert(header::USER_AGENT, HeaderValue::from_static("tokamak-capacity"));
        lines.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        let mut typed = HeaderMap::new();
        for line in headers {
            let (name, value) = header_line(line)?;
            typed.append(name, value);
        }
        // They replace those above, and not each other.
        lines.extend(typed);
        // A URL with a query and no path asks for /?query, which only to_string() writes.
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        let path = path.parse().map_err(|error| format!("{url}: no URL: {error}"))?;
        Ok(Target { url: url.to_owned(), address, path, headers: lines })
    }
}

/// The first address at which somebody accepts a connection, since `localhost` is two of them; the
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
        // Nobody listens there, as at ::1 of most servers: the listener has this port, not all.
        let closed = SocketAddr::from(([127, 0, 0, 2], open.port()));
        assert_eq!(answering(&[closed, open]), Some(open));
        assert_eq!(answering(&[closed, closed]), Some(closed));
        assert_eq!(answering(&[]), None);
    }

    #[test]
    fn a_url_leads_to_an_address() {
        let target = Target::new("http://127.0.0.1:81/a?b=c", &["host: x".into()]).unwrap();
        assert_eq!(target.address, "127.0.0.1:81".parse().unwrap());
        assert_eq!(target.path, "/a?b=c");
        assert_eq!(target.headers[header::HOST], "x");
        let bare = Target::new("http://[::1]", &[]).unwrap();
        assert_eq!(bare.address, "[::1]:80".parse().unwrap());
        assert_eq!(bare.path, "/");
        let twice = ["Cookie: a=1".to_owned(), "cookie: b=2".to_owned()];
        let twice = Target::new("http://127.0.0.1", &twice).unwrap();
        assert_eq!(twice.headers.get_all(header::COOKIE).iter().count(), 2);
        let query = Target::new("http://127.0.0.1?page=slow", &[]).unwrap();
        assert_eq!(query.path, "/?page=slow");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, header, said) in [
            ("https://127.0.0.1/", "a: b", "TLS"),
            ("127.0.0.1:80", "a: b", "begins with http://"),
            ("http://user:word@127.0.0.1/", "a: b", "--header"),
            ("http://", "a: b", "no URL"),
            ("http://127.0.0.1/", "nothing", "no header"),
            ("http://127.0.0.1/", "a b: c", "no header"),
        ] {
            let wrong = Target::new(url, &[header.into()]).unwrap_err();
            assert!(wrong.contains(said), "{url}: {wrong}");
        }
    }
}
