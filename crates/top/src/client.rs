//! Asks an admin listener for the document of its dashboard.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use tokamak_observe::text::for_terminal;

use crate::text::cut;

/// How long an answer may take. The listener waits two seconds for the supervisor.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer: some hundred for each worker and each series. More is no dashboard.
const MOST: u64 = 64 << 20;
/// Columns of an answer that is no document, which an error shows.
const SHOWN: usize = 200;

/// Where an admin listener is, as `admin` of the configuration says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(path.into()));
        }
        text.parse().map(Address::Tcp).map_err(|_| {
            format!("`{text}` is no address of an admin listener: 127.0.0.1:9080 or unix:PATH")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The document now.
///
/// # Errors
/// Fails with what is wrong and what to do.
pub fn document(address: &Address, token: Option<&str>) -> Result<Value, String> {
    let answer = exchange(address, token).map_err(|error| {
        let hint =
            if error.kind() == io::ErrorKind::ConnectionRefused { "; does it run?" } else { "" };
        format!("no answer from the admin listener {address}: {error}{hint}")
    })?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    match head.split(' ').nth(1) {
        Some("200") => serde_json::from_str(body)
            .map_err(|error| format!("{address} does not answer as a dashboard: {error}")),
        Some("401") => {
            Err(format!("{address} asks for a token: set TOKAMAK_ADMIN_TOKEN to the server's"))
        }
        Some("404") => {
            Err(format!("{address} has no dashboard: it is no admin listener, or older"))
        }
        Some(status) => {
            let said = format!("{status}: {}", body.trim());
            Err(format!("{address} answers {}", cut(&for_terminal(&said), SHOWN)))
        }
        None => Err(format!("{address} does not answer in HTTP")),
    }
}

fn exchange(address: &Address, token: Option<&str>) -> io::Result<Vec<u8>> {
    let (host, token) = match address {
        Address::Tcp(address) => (address.to_string(), token),
        Address::Unix(_) => ("localhost".to_owned(), None),
    };
    let right = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    // Of version 1.0, so the answer is whole and the connection ends with it.
    let request = format!("GET /dashboard.json HTTP/1.0\r\nHost: {host}\r\n{right}\r\n");
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            round_trip(stream, &request)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            round_trip(stream, &request)
        }
    }
}

fn round_trip(mut stream: impl Read + Write, request: &str) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_hostile_answer_commands_no_terminal_and_floods_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let body = "\u{1b}]0;evil\u{7}".to_owned() + &"x".repeat(1000);
            stream.write_all(format!("HTTP/1.1 5\u{9b}2J no\r\n\r\n{body}").as_bytes()).unwrap();
        });
        let error = document(&address, None).unwrap_err();
        answers.join().unwrap();
        assert!(!error.contains(char::is_control) && error.contains("5?2J: ?]0;evil?x"), "{error}");
        assert!(error.len() < 300, "{error}");
    }

    #[test]
    fn addresses() {
        for text in ["127.0.0.1:9080", "[::1]:9080", "unix:/run/admin.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "9080", "http://127.0.0.1:9080", "localhost:9080"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
