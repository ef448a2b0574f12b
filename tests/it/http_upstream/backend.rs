//! An application of HTTP/1.1 in a thread of the test: it reads requests as any other, and answers
//! with the bytes it is told to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listening application.
pub struct Backend {
    /// For the configuration.
    pub url: String,
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The request line.
    pub line: String,
    /// Its fields, by names in small letters.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    /// What is asked for.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// All values of a field, joined as one.
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self
            .fields
            .iter()
            .filter(|(found, _)| found == name)
            .map(|(_, value)| value.as_str())
            .collect();
        (!values.is_empty()).then(|| values.join(" | "))
    }
}

impl Backend {
    /// Listens; `serve` has each connection, in a thread of its own.
    pub fn start(serve: impl Fn(&mut Client) + Send + Sync + 'static) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Backend {
            url: format!("http://{address}"),
            address,
            connections: Arc::default(),
            stop: Arc::default(),
        };
        let (connections, stop) = (backend.connections.clone(), backend.stop.clone());
        let serve = Arc::new(serve);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let serve = serve.clone();
                thread::spawn(move || serve(&mut Client { stream, input: Vec::new() }));
            }
        });
        backend
    }

    /// Answers every request on kept connections with what `answer` makes of it.
    pub fn answering(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Backend {
        Backend::start(move |client| {
            while let Some(asked) = client.request() {
                client.send(&answer(&asked));
            }
        })
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Client {
    /// Reads a whole request; `None` when the server has closed the connection instead.
    pub fn request(&mut self) -> Option<Asked> {
        let mut asked = self.head()?;
        let length = asked.field("content-length").map_or(0, |length| length.parse().unwrap());
        asked.body = self.take(length)?;
        Some(asked)
    }

    /// Reads the head of a request.
    pub fn head(&mut self) -> Option<Asked> {
        let end = loop {
            let found = self.input.windows(4).position(|four| four == b"\r\n\r\n");
            match found {
                Some(at) => break at + 4,
                None => self.read()?,
            }
        };
        let head = String::from_utf8(self.input.drain(..end).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let fields: Vec<_> = lines
            .map(|line| line.split_once(": ").expect("a field has a name"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Some(Asked { line, fields, body: Vec::new() })
    }

    /// Reads so many bytes.
    pub fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.input.len() < length {
            self.read()?;
        }
        Some(self.input.drain(..length).collect())
    }

    /// What has come, or comes next.
    pub fn take_some(&mut self) -> Option<Vec<u8>> {
        if self.input.is_empty() {
            self.read()?;
        }
        Some(std::mem::take(&mut self.input))
    }

    fn read(&mut self) -> Option<()> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        self.input.extend_from_slice(&bytes[..count]);
        Some(())
    }

    /// The connection, for what is no HTTP.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends these bytes; a server that has closed the connection is no failure.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends these bytes; `false` if the server has closed the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
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

/// A response with this body.
pub fn text(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
