//! The client: asks for one URL again and again, one request at a time on each of its
//! connections, and stamps each request with the clock that strace uses too.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_observe::text::for_terminal;

use crate::Error;

/// How long a server may be silent in the middle of a request.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a server that was asked to close may take for it. One that does not is left.
const CLOSING: Duration = Duration::from_secs(1);
/// A head longer than this is no answer of a server.
const LONGEST_HEAD: usize = 64 * 1024;

/// An address of the form `http://HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As it was typed.
    pub text: String,
    /// Host and port, for the `Host` header.
    authority: String,
    /// What is asked for.
    path: String,
    /// Where the server listens.
    pub address: SocketAddr,
}

impl Url {
    /// Reads an address and finds the host.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error(format!("{text}: {why}"));
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            wrong("only http:// can be followed: over TLS, name the plain address of the server")
        })?;
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let is_clean = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_clean(rest) {
            return Err(wrong("not of the form http://HOST[:PORT]/PATH"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let full = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let found = full.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
        // A server on one of several addresses: the first that answers is meant.
        let addresses: Vec<SocketAddr> = found.collect();
        let first = addresses.first().ok_or_else(|| wrong("the host has no address"))?;
        let answers = |at: &&SocketAddr| TcpStream::connect_timeout(at, SILENCE).is_ok();
        let address = *addresses.iter().find(answers).unwrap_or(first);
        Ok(Self { text: text.to_owned(), authority: authority.to_owned(), path, address })
    }
}

/// How requests are made.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests in all.
    pub requests: usize,
    /// Clients that ask at the same time.
    pub clients: usize,
    /// Whether each client keeps its connection.
    pub keep_alive: bool,
}

/// One answered request; times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The client's port, by which the server's calls are found.
    pub port: u16,
    /// Before connecting, or before sending on a kept connection.
    pub start: u64,
    /// When the last byte of the response was there.
    pub end: u64,
}

/// The clients, with the connections that they keep between two loads.
pub struct Clients<'a> {
    url: &'a Url,
    keep_alive: bool,
    kept: Vec<Option<TcpStream>>,
}

impl<'a> Clients<'a> {
    /// As many as the load has; none is connected yet.
    pub fn new(url: &'a Url, load: Load) -> Self {
        let kept = (0..load.clients.max(1)).map(|_| None).collect();
        Self { url, keep_alive: load.keep_alive, kept }
    }

    /// Makes so many requests. The first that fails, or is answered by an error or a redirect, ends
    /// it.
    pub fn ask(&mut self, requests: usize) -> Result<Vec<Exchange>, Error> {
        let Self { url, keep_alive, kept } = self;
        let left = AtomicUsize::new(requests);
        let take = || {
            let less = |left: usize| left.checked_sub(1);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        let client = |kept: &mut Option<TcpStream>| -> Result<Vec<Exchange>, Error> {
            let mut done = Vec::new();
            while take() {
                match request(url, *keep_alive, kept) {
                    Ok(exchange) => done.push(exchange),
                    Err(error) => {
                        left.store(0, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(done)
        };
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let client = &client;
            let clients: Vec<_> =
                kept.iter_mut().map(|kept| scope.spawn(move || client(kept))).collect();
            for client in clients {
                all.extend(client.join().expect("a client does not panic")?);
            }
            Ok::<(), Error>(())
        })?;
        all.sort_by_key(|exchange| exchange.start);
        Ok(all)
    }
}

/// Makes all requests of a load, with new connections. Fails as [`Clients::ask`] does.
pub fn drive(url: &Url, load: Load) -> Result<Vec<Exchange>, Error> {
    Clients::new(url, load).ask(load.requests)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// One request, on the kept connection if there is one.
fn request(url: &Url, keep: bool, kept: &mut Option<TcpStream>) -> Result<Exchange, Error> {
    let failed = |what: &str, error: io::Error| {
        let error = match error.kind() {
            io::ErrorKind::WouldBlock => format!("nothing came for {} s", SILENCE.as_secs()),
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            _ => error.to_string(),
        };
        Error(format!("{}: {what}: {error}", url.text))
    };
    let connection = if keep { "keep-alive" } else { "close" };
    let text = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tokamak-anatomy\r\nAccept: */*\r\n\
         Connection: {connection}\r\n\r\n",
        url.path, url.authority
    );
    let start = now();
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect(url.address).map_err(|error| failed("cannot connect", error))?,
    };
    let prepare = |stream: &TcpStream| {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))
    };
    let port = stream.local_addr().map_err(|error| failed("no address", error))?.port();
    prepare(&stream).map_err(|error| failed("cannot set up the connection", error))?;
    stream.write_all(text.as_bytes()).map_err(|error| failed("cannot send", error))?;
    let may_keep = response(url, &mut stream).map_err(|problem| match problem {
        Problem::Broken(error) => failed("the response broke off", error),
        Problem::Refused(error) => error,
    })?;
    let end = now();
    if keep && may_keep {
        *kept = Some(stream);
    } else {
        // The server's closing belongs to this request: the next begins after it.
        let _ = stream.set_read_timeout(Some(CLOSING));
        let _ = io::copy(&mut stream, &mut io::sink());
    }
    Ok(Exchange { port, start, end })
}

enum Problem {
    Broken(io::Error),
    Refused(Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// Reads a response to its last byte; says whether the connection may be kept.
fn response(url: &Url, stream: &mut TcpStream) -> Result<bool, Problem> {
    let mut bytes = Vec::with_capacity(16 * 1024);
    let end = loop {
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > LONGEST_HEAD {
            return Err(refused(url, "the answer has no head of HTTP"));
        }
        more(stream, &mut bytes)?;
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    judge(url, &head)?;
    let mut body = bytes.split_off(end);
    let field = |name: &str| {
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let is = |name: &str, word: &str| field(name).is_some_and(|v| v.eq_ignore_ascii_case(word));
    let closes = is("connection", "close") || head.starts_with("HTTP/1.0");
    if is("transfer-encoding", "chunked") {
        while !chunks_are_whole(&body).ok_or_else(|| refused(url, "its chunks are malformed"))? {
            more(stream, &mut body)?;
        }
    } else if let Some(length) = field("content-length") {
        let length: usize =
            length.parse().map_err(|_| refused(url, "its Content-Length is no number"))?;
        while body.len() < length {
            more(stream, &mut body)?;
        }
    } else if !head.contains(" 204 ") {
        io::copy(stream, &mut io::sink())?;
        return Ok(false);
    }
    Ok(!closes)
}

fn refused(url: &Url, why: &str) -> Problem {
    Problem::Refused(Error(format!("{}: {why}", url.text)))
}

/// Only a page may be measured: the calls of an error or a redirect are not those of the page.
fn judge(url: &Url, head: &str) -> Result<(), Problem> {
    let first = head.lines().next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    let status: u16 = status
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| refused(url, "the server does not answer in HTTP/1"))?;
    let location = head
        .lines()
        .find(|line| line.get(..9).is_some_and(|name| name.eq_ignore_ascii_case("location:")));
    match (status, location) {
        (200..=299, _) => Ok(()),
        (300..=399, Some(line)) => {
            let place = for_terminal(line[9..].trim());
            let why = format!("redirects to {place}; give that address");
            Err(refused(url, &why))
        }
        _ => Err(refused(url, &format!("the server answers {status}, which is not the page"))),
    }
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    match stream.read(&mut piece)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&piece[..read]);
            Ok(())
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Whether the last chunk is there; nothing if they are malformed.
fn chunks_are_whole(mut body: &[u8]) -> Option<bool> {
    loop {
        let Some(end) = find(body, b"\r\n") else { return Some(false) };
        let line = std::str::from_utf8(&body[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(find(&body[end..], b"\r\n\r\n").is_some());
        }
        match body.get(end.checked_add(size)?.checked_add(4)?..) {
            Some(rest) => body = rest,
            None => return Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn addresses_are_read() {
        let url = Url::parse("http://127.0.0.1:1/a?b#c").unwrap();
        assert_eq!((&*url.path, &*url.authority), ("/a?b", "127.0.0.1:1"));
        assert_eq!(Url::parse("http://127.0.0.1:1").unwrap().path, "/");
        for wrong in ["https://a/", "http:///", "ftp://a", "http://u@127.0.0.1/", "http://a b/"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn chunks_end_with_the_empty_one() {
        assert_eq!(chunks_are_whole(b"3\r\nabc\r\n0\r\n\r\n"), Some(true));
        assert_eq!(chunks_are_whole(b"3\r\nabc\r\n0\r\n"), Some(false));
        assert_eq!(chunks_are_whole(b"x\r\n"), None);
        assert_eq!(chunks_are_whole(b"ffffffffffffffff\r\n"), None);
    }

    /// A server that answers each connection so, and closes it.
    fn answering(text: &'static str) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                while find(&request, b"\r\n\r\n").is_none() {
                    if more(&mut stream, &mut request).is_err() {
                        break;
                    }
                }
                let _ = stream.write_all(text.as_bytes());
            }
        });
        Url::parse(&format!("http://{address}/page")).unwrap()
    }

    #[test]
    fn answers_that_are_no_page_end_the_measurement() {
        let load = Load { requests: 2, clients: 1, keep_alive: false };
        for (answer, said) in [
            ("HTTP/1.1 500 No\r\n\r\n", "answers 500"),
            ("HTTP/1.1 302 F\r\nLocation: /login\r\n\r\n", "redirects to /login"),
            ("HTTP/1.1 302 F\r\nLocation: /\u{9b}2J\r\n\r\n", "redirects to /?2J;"),
            ("HTTP/1.1 304 N\r\n\r\n", "answers 304"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "closed the connection"),
            ("SSH-2.0-x\r\n\r\n", "does not answer in HTTP/1"),
            ("", "closed the connection"),
        ] {
            let error = drive(&answering(answer), load).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let good = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab");
        let done = drive(&good, Load { clients: 2, requests: 7, ..load }).unwrap();
        assert_eq!(done.len(), 7);
        assert!(done.iter().all(|exchange| exchange.end > exchange.start));
    }
}
