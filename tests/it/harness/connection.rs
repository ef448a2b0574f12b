//! One client connection: exact bytes out, parsed responses in.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::request::Request;
use super::response::{Framing, Head, Response};

/// How long a client waits for the next bytes before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a server.
pub struct Connection {
    stream: TcpStream,
    /// Bytes received and not yet consumed; the next response may already be among them.
    buffer: Vec<u8>,
}

/// Why no response could be read; the text holds what had arrived.
#[derive(Debug)]
pub enum Failure {
    /// The server closed the connection (or reset it) first.
    Closed(String),
    /// Nothing arrived for as long as the client waits.
    Silent(String),
    /// What arrived is not HTTP.
    Malformed(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Closed(text) => write!(f, "the connection was closed: {text}"),
            Failure::Silent(text) => write!(f, "nothing more came: {text}"),
            Failure::Malformed(text) => write!(f, "not HTTP: {text}"),
        }
    }
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Connection { stream, buffer: Vec::new() }
    }

    /// Changes how long a read waits.
    pub fn patience(&mut self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).unwrap();
    }

    /// The port of this end.
    pub fn own_port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    /// The same connection, for another thread.
    pub fn stream(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    /// Sends these bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("cannot send: {error}"));
    }

    /// Sends these bytes; a server that has already answered and closed makes this an error.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends a request and reads its response.
    pub fn exchange(&mut self, request: &Request) -> Response {
        self.send(request.bytes());
        self.response_to(&request.method)
    }

    /// Reads the response to a request that may have a response body.
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Reads the response to a request with this method.
    pub fn response_to(&mut self, method: &str) -> Response {
        self.try_response(method).unwrap_or_else(|failure| panic!("no response: {failure}"))
    }

    /// Reads the response to a request with this method, or says why there is none.
    pub fn try_response(&mut self, method: &str) -> Result<Response, Failure> {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.head()?;
            if (100..200).contains(&head.status) && head.status != 101 {
                interim.push(head);
            } else {
                break head;
            }
        };
        let started = Instant::now();
        let mut response = Response::new(head, interim, method, started);
        match response.framing {
            Framing::None => {}
            Framing::Length(length) => {
                while (response.body.len() as u64) < length {
                    let missing = length as usize - response.body.len();
                    let piece =
                        self.take(missing).map_err(|failure| cut_short(failure, &response))?;
                    response.arrived(&piece);
                }
            }
            Framing::Chunked => while self.chunk(&mut response)? {},
            Framing::Close => loop {
                match self.take(usize::MAX) {
                    Ok(piece) => response.arrived(&piece),
                    Err(Failure::Closed(_)) => break,
                    Err(failure) => return Err(failure),
                }
            },
        }
        response.ended = Instant::now();
        Ok(response)
    }

    /// Reads the head of the next response, interim or final.
    pub fn head(&mut self) -> Result<Head, Failure> {
        let end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.fill()?,
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        Head::parse(&head).ok_or_else(|| Failure::Malformed(show(&head)))
    }

    /// Reads one chunk into the body; false after the last one.
    fn chunk(&mut self, response: &mut Response) -> Result<bool, Failure> {
        let line = self.line()?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| {
            Failure::Malformed(format!("chunk size {line:?} after {}", show(&response.body)))
        })?;
        let mut missing = size;
        while missing > 0 {
            let piece = self.take(missing).map_err(|failure| cut_short(failure, response))?;
            missing -= piece.len();
            response.arrived(&piece);
        }
        if size > 0 {
            let end = self.line()?;
            return if end.is_empty() { Ok(true) } else { Err(Failure::Malformed(end)) };
        }
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(false);
            }
            response.trailers.push(line);
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.fill()?;
        }
    }

    /// At least one and at most `most` bytes.
    pub fn take(&mut self, most: usize) -> Result<Vec<u8>, Failure> {
        if self.buffer.is_empty() {
            self.fill()?;
        }
        let count = most.min(self.buffer.len());
        Ok(self.buffer.drain(..count).collect())
    }

    /// A socket with a time limit is not read again by the kernel when the machine was paused
    /// meanwhile.
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let mut bytes = [0; 64 * 1024];
        match self.read(&mut bytes) {
            Ok(0) => Err(Failure::Closed(show(&self.buffer))),
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Failure::Silent(show(&self.buffer)))
            }
            Err(error) => Err(Failure::Closed(format!("{error}; had {}", show(&self.buffer)))),
        }
    }

    /// Has these bytes read once more, before those that come next.
    pub fn unread(&mut self, bytes: &[u8]) {
        self.buffer.splice(..0, bytes.iter().copied());
    }

    /// Reads one byte, as the slowest of clients.
    pub fn read_byte(&mut self) -> Result<u8, Failure> {
        if self.buffer.is_empty() {
            let mut byte = [0];
            return match self.read(&mut byte) {
                Ok(1) => Ok(byte[0]),
                Ok(_) => Err(Failure::Closed("end".into())),
                Err(error) => Err(Failure::Closed(error.to_string())),
            };
        }
        Ok(self.buffer.remove(0))
    }

    /// Reads until the server closes the connection, or `most` bytes have come; how many came.
    pub fn read_rest(&mut self, most: usize) -> usize {
        let mut count = 0;
        while count < most
            && let Ok(piece) = self.take(most - count)
        {
            count += piece.len();
        }
        count
    }

    /// Whether the server closes the connection, without another byte, within this time.
    pub fn closes_within(&mut self, patience: Duration) -> bool {
        self.patience(patience);
        matches!(self.take(usize::MAX), Err(Failure::Closed(_)))
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

fn cut_short(failure: Failure, response: &Response) -> Failure {
    let so_far = format!("after {} body bytes of {:?}", response.body.len(), response.head.status);
    match failure {
        Failure::Closed(text) => Failure::Closed(format!("{text} {so_far}")),
        Failure::Silent(text) => Failure::Silent(format!("{text} {so_far}")),
        other => other,
    }
}

/// The beginning of some bytes, printable.
fn show(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(300)];
    format!("{} bytes: {:?}", bytes.len(), String::from_utf8_lossy(shown))
}
