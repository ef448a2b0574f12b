//! A web server in a test: it sends any bytes, and reads records.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tokamak_fastcgi::{Message, Messages, ProtocolStatus, Role, Stream, Values, encode};

use super::socket;
use crate::harness::Server;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

trait Wire: Read + Write {
    /// Ends this side of the connection.
    fn end(&self) -> io::Result<()>;
}

impl Wire for UnixStream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Wire for TcpStream {
    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// A connection.
pub struct Client {
    wire: Box<dyn Wire>,
    messages: Messages,
    /// Answers that are coming, by the ids of their requests.
    coming: BTreeMap<u16, Answer>,
    /// What has been read and not looked at.
    read: Vec<u8>,
    /// Before each read.
    pause: Duration,
}

/// What came for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// FCGI_STDOUT.
    pub stdout: Vec<u8>,
    /// FCGI_STDERR.
    pub stderr: Vec<u8>,
    /// FCGI_END_REQUEST.
    pub end: Option<(u32, ProtocolStatus)>,
}

impl Answer {
    /// The header block.
    pub fn head(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout).into_owned();
        text.split_once("\r\n\r\n").map_or(text.clone(), |(head, _)| head.to_owned())
    }

    /// What follows it.
    pub fn body(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout).into_owned();
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }
}

/// Something that was read.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A request has ended.
    Ended(u16, Answer),
    /// FCGI_GET_VALUES_RESULT.
    Values(Values),
    /// FCGI_UNKNOWN_TYPE.
    UnknownType(u8),
    /// The other side has closed the connection, with these answers begun.
    Closed(BTreeMap<u16, Answer>),
}

impl Client {
    /// Connects to the pool of a server.
    pub fn connect(server: &Server) -> Client {
        Client::unix(&socket(server))
    }

    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("the pool listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client::of(Box::new(stream))
    }

    /// Connects to a TCP socket.
    pub fn tcp(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the pool listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client::of(Box::new(stream))
    }

    fn of(wire: Box<dyn Wire>) -> Client {
        Client {
            wire,
            messages: Messages::new(),
            coming: BTreeMap::new(),
            read: Vec::new(),
            pause: Duration::ZERO,
        }
    }

    /// Reads slowly from now on: 16 KiB after each pause of this length.
    pub fn slow_down(&mut self, pause: Duration) {
        self.pause = pause;
    }

    /// What has come so far for a request that has not ended.
    pub fn so_far(&self, id: u16) -> usize {
        self.coming.get(&id).map_or(0, |answer| answer.stdout.len())
    }

    /// Sends these bytes; another side that has closed the connection is no failure.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.wire.write_all(bytes);
    }

    /// Sends nothing any more.
    pub fn end(&self) {
        self.wire.end().unwrap();
    }

    /// The next thing that is no part of an answer that is still coming.
    pub fn hear(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.look() {
                return heard;
            }
            if let Some(closed) = self.read_more() {
                return closed;
            }
        }
    }

    /// Waits until some of an answer has come.
    pub fn wait_for_answer(&mut self) {
        loop {
            assert!(self.look().is_none(), "no answer");
            if !self.coming.is_empty() {
                return;
            }
            assert!(self.read_more().is_none(), "no answer");
        }
    }

    /// What is complete in the bytes that have been read.
    fn look(&mut self) -> Option<Heard> {
        let read = std::mem::take(&mut self.read);
        let mut rest = &read[..];
        while let Some(message) =
            self.messages.next(&mut rest).expect("the other side sends FastCGI")
        {
            let heard = match message {
                Message::Stream { id, stream: Stream::Stdout, bytes } => {
                    self.coming.entry(id).or_default().stdout.extend_from_slice(bytes);
                    continue;
                }
                Message::Stream { id, stream: Stream::Stderr, bytes } => {
                    self.coming.entry(id).or_default().stderr.extend_from_slice(bytes);
                    continue;
                }
                Message::StreamEnd { .. } => continue,
                Message::End { id, app_status, status } => {
                    let mut answer = self.coming.remove(&id).unwrap_or_default();
                    answer.end = Some((app_status, status));
                    Heard::Ended(id, answer)
                }
                Message::Values(values) => Heard::Values(values),
                Message::UnknownType(kind) => Heard::UnknownType(kind),
                other => panic!("an application does not send {other:?}"),
            };
            self.read = rest.to_vec();
            return Some(heard);
        }
        None
    }

    fn read_more(&mut self) -> Option<Heard> {
        let mut bytes = [0; 16 * 1024];
        std::thread::sleep(self.pause);
        match self.wire.read(&mut bytes) {
            Ok(n @ 1..) => {
                self.read.extend_from_slice(&bytes[..n]);
                return None;
            }
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("no answer: {error}; so far {:?}", self.coming)
            }
            Ok(_) | Err(_) => {}
        }
        Some(Heard::Closed(std::mem::take(&mut self.coming)))
    }

    /// The answer to the one request that is under way.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        match self.hear() {
            Heard::Ended(_, answer) => answer,
            other => panic!("no answer but {other:?}"),
        }
    }

    /// Sends a request and reads its answer, which must be in order.
    #[track_caller]
    pub fn ask(&mut self, request: &Request) -> Answer {
        self.send(&request.bytes(1));
        let answer = self.answer();
        assert_eq!(answer.end, Some((0, ProtocolStatus::Complete)), "{answer:?}");
        answer
    }

    /// Whether the other side closes the connection without another word.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.hear(), Heard::Closed(begun) if begun.is_empty())
    }
}

/// A request.
#[derive(Clone)]
pub struct Request {
    /// FCGI_PARAMS.
    pub params: Vec<(String, String)>,
    /// FCGI_STDIN.
    pub body: Vec<u8>,
    /// What the application is asked to be.
    pub role: Role,
    /// FCGI_KEEP_CONN.
    pub keep: bool,
}

impl Request {
    /// Asks for a script of the pool's site; what follows a `?` is the query.
    pub fn new(server: &Server, target: &str) -> Request {
        Request::below(&server.places.root(), target)
    }

    /// The same of a document root.
    pub fn below(root: &Path, target: &str) -> Request {
        let (name, query) = target.split_once('?').unwrap_or((target, ""));
        let file = format!("{}{name}", root.display());
        let params = [
            ("SCRIPT_FILENAME", file.as_str()),
            ("SCRIPT_NAME", name),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", target),
            ("QUERY_STRING", query),
            ("DOCUMENT_ROOT", root.to_str().unwrap()),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
        ];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Request { params, body: Vec::new(), role: Role::Responder, keep: true }
    }

    /// Adds a parameter.
    pub fn param(mut self, name: &str, value: &str) -> Request {
        self.params.retain(|(other, _)| other != name);
        self.params.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a body, and says how long it is.
    pub fn post(self, body: &[u8]) -> Request {
        let request =
            self.param("REQUEST_METHOD", "POST").param("CONTENT_TYPE", "application/octet-stream");
        let mut request = request.param("CONTENT_LENGTH", &body.len().to_string());
        request.body = body.to_vec();
        request
    }

    /// The connection is to be closed.
    pub fn last(mut self) -> Request {
        self.keep = false;
        self
    }

    /// All of it.
    pub fn bytes(&self, id: u16) -> Vec<u8> {
        let mut out = self.head(id);
        encode::stream(&mut out, id, Stream::Stdin, &self.body);
        encode::stream_end(&mut out, id, Stream::Stdin);
        out
    }

    /// All of it but the body.
    pub fn head(&self, id: u16) -> Vec<u8> {
        let mut out = Vec::new();
        encode::begin(&mut out, id, self.role, self.keep);
        let mut params = encode::Params::new(&mut out, id);
        for (name, value) in &self.params {
            params.pair(name.as_bytes(), value.as_bytes()).unwrap();
        }
        params.finish();
        out
    }
}
