//! A FastCGI application in a thread of the test: it reads requests as any other, and answers with
//! the bytes it is told to.

use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokamak_fastcgi::params::{Limits, Pairs};
use tokamak_fastcgi::{Message, Messages, ProtocolStatus, Role, Stream, encode};

/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listening application.
pub struct Backend {
    /// For the configuration.
    pub address: String,
    /// Connections so far.
    pub connections: Arc<AtomicUsize>,
    /// Whole requests so far.
    pub requests: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    directory: TempDir,
}

/// One connection.
pub struct Client {
    stream: UnixStream,
    requests: Arc<AtomicUsize>,
}

/// One request.
#[derive(Debug)]
pub struct Asked {
    /// What the application is asked to be.
    pub role: Role,
    /// FCGI_KEEP_CONN.
    pub keep: bool,
    /// FCGI_PARAMS.
    pub params: BTreeMap<String, String>,
    /// FCGI_STDIN.
    pub body: Vec<u8>,
    /// FCGI_DATA.
    pub data: Vec<u8>,
}

impl Asked {
    /// What is behind the route's path.
    pub fn path(&self) -> &str {
        &self.params["PATH_INFO"]
    }
}

impl Backend {
    /// Listens; `serve` has each connection, in a thread of its own.
    pub fn start(serve: impl Fn(&mut Client) + Send + Sync + 'static) -> Backend {
        let directory = tempfile::Builder::new().prefix("tokamak-backend-").tempdir().unwrap();
        set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let backend = Backend {
            address: format!("unix:{}", path.display()),
            connections: Arc::default(),
            requests: Arc::default(),
            stop: Arc::default(),
            directory,
        };
        let (connections, requests, stop) =
            (backend.connections.clone(), backend.requests.clone(), backend.stop.clone());
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let (serve, requests) = (serve.clone(), requests.clone());
                std::thread::spawn(move || serve(&mut Client { stream, requests }));
            }
        });
        backend
    }

    /// Answers every request on kept connections with what `answer` makes of it.
    pub fn answering(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Backend {
        Backend::start(move |client| {
            while let Some(asked) = client.request() {
                client.send(&answer(&asked));
                if !asked.keep {
                    return;
                }
            }
        })
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Whole requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = UnixStream::connect(self.directory.path().join("socket"));
    }
}

impl Client {
    /// Reads a whole request; `None` when the server has closed the connection instead.
    pub fn request(&mut self) -> Option<Asked> {
        let mut messages = Messages::new();
        let mut pairs = Pairs::new(Limits { bytes: 1 << 20, pairs: 1000 });
        let mut asked = Asked {
            role: Role::Responder,
            keep: false,
            params: BTreeMap::new(),
            body: Vec::new(),
            data: Vec::new(),
        };
        let mut bytes = [0; 16 * 1024];
        loop {
            let n = self.stream.read(&mut bytes).ok().filter(|n| *n > 0)?;
            let mut rest = &bytes[..n];
            while let Some(message) = messages.next(&mut rest).expect("the server sends FastCGI") {
                match message {
                    Message::Begin { keep, role, .. } => (asked.keep, asked.role) = (keep, role),
                    Message::Stream { stream: Stream::Params, bytes, .. } => {
                        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                        let add = |name: &[u8], value: &[u8]| {
                            asked.params.insert(text(name), text(value));
                        };
                        pairs.feed(bytes, add).expect("sound parameters");
                    }
                    Message::Stream { stream: Stream::Stdin, bytes, .. } => {
                        asked.body.extend_from_slice(bytes)
                    }
                    Message::Stream { stream: Stream::Data, bytes, .. } => {
                        asked.data.extend_from_slice(bytes)
                    }
                    Message::StreamEnd { stream: Stream::Stdin, .. }
                        if asked.role == Role::Filter => {}
                    Message::StreamEnd { stream: Stream::Stdin | Stream::Data, .. } => {
                        assert!(rest.is_empty(), "one request at a time");
                        self.requests.fetch_add(1, Ordering::Relaxed);
                        return Some(asked);
                    }
                    Message::StreamEnd { .. } => pairs.finish().expect("whole parameters"),
                    other => panic!("the server sent {other:?}"),
                }
            }
        }
    }

    /// Reads at least one byte of the next request, and no more than a few.
    pub fn taste(&mut self) {
        let _ = self.stream.read(&mut [0; 4]);
    }

    /// Sends these bytes; a server that has closed the connection is no failure.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The same connection, for another thread.
    pub fn another(&self) -> Client {
        let stream = self.stream.try_clone().expect("another descriptor");
        Client { stream, requests: self.requests.clone() }
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Waits until the server has closed the connection; `false` if it does not.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.stream.read(&mut [0; 1024]) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }
}

/// What comes on a connection that requests share.
#[derive(Debug)]
pub enum Heard {
    /// FCGI_GET_VALUES.
    Question,
    /// A whole request, and its id.
    Request(u16, Asked),
    /// FCGI_ABORT_REQUEST.
    Abort(u16),
}

/// The requests that are on their way on a connection.
#[derive(Default)]
pub struct Conversation {
    messages: Messages,
    input: Vec<u8>,
    begun: BTreeMap<u16, Asked>,
}

impl Client {
    /// Reads the next thing; `None` when the server has closed the connection.
    pub fn hear(&mut self, conversation: &mut Conversation) -> Option<Heard> {
        let Conversation { messages, input, begun } = conversation;
        loop {
            let mut rest = &input[..];
            let message = messages.next(&mut rest).expect("the server sends FastCGI");
            let left = rest.len();
            let heard = match message {
                None => {
                    let mut bytes = [0; 16 * 1024];
                    let n = self.stream.read(&mut bytes).ok().filter(|n| *n > 0)?;
                    *input = bytes[..n].to_vec();
                    continue;
                }
                Some(Message::GetValues(_)) => Some(Heard::Question),
                Some(Message::Begin { id, role, keep }) => {
                    let (params, body, data) = (BTreeMap::new(), Vec::new(), Vec::new());
                    let old = begun.insert(id, Asked { role, keep, params, body, data });
                    assert!(old.is_none(), "the id {id} is in use");
                    None
                }
                Some(Message::Abort { id }) => {
                    begun.remove(&id);
                    Some(Heard::Abort(id))
                }
                Some(Message::Stream { id, stream, bytes }) => {
                    let asked = begun.get_mut(&id).expect("a request that has begun");
                    let all =
                        if stream == Stream::Params { &mut asked.data } else { &mut asked.body };
                    all.extend_from_slice(bytes);
                    None
                }
                Some(Message::StreamEnd { id, stream: Stream::Stdin }) => {
                    let mut asked = begun.remove(&id).expect("a request that has begun");
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let mut pairs = Pairs::new(Limits { bytes: 1 << 20, pairs: 1000 });
                    let params = std::mem::take(&mut asked.data);
                    let add = |name: &[u8], value: &[u8]| {
                        drop(asked.params.insert(text(name), text(value)))
                    };
                    pairs.feed(&params, add).expect("sound parameters");
                    self.requests.fetch_add(1, Ordering::Relaxed);
                    Some(Heard::Request(id, asked))
                }
                Some(Message::StreamEnd { .. }) => None,
                Some(other) => panic!("the server sent {other:?}"),
            };
            input.drain(..input.len() - left);
            if heard.is_some() {
                return heard;
            }
        }
    }
}

/// The same records for the request with another id.
pub fn about(id: u16, mut records: Vec<u8>) -> Vec<u8> {
    encode::readdress(&mut records, id);
    records
}

/// Some of the response.
pub fn stdout(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    encode::stream(&mut out, 1, Stream::Stdout, bytes.as_ref());
    out
}

/// Complaints.
pub fn stderr(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode::stream(&mut out, 1, Stream::Stderr, text.as_bytes());
    out
}

/// The end of the response and of the request.
pub fn end() -> Vec<u8> {
    let mut out = Vec::new();
    encode::stream_end(&mut out, 1, Stream::Stdout);
    encode::end(&mut out, 1, 0, ProtocolStatus::Complete);
    out
}

/// A whole response with this header block and body.
pub fn whole(headers_and_body: impl AsRef<[u8]>) -> Vec<u8> {
    [stdout(headers_and_body), end()].concat()
}

/// A whole response with a text.
pub fn text(body: &str) -> Vec<u8> {
    whole(format!("Content-Type: text/plain\r\n\r\n{body}"))
}
