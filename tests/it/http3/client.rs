//! Two clients: one that speaks HTTP/3 well, and one that sends any bytes over QUIC.

use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h3_quinn::OpenStreams;
use http::{Request, Response, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TransportConfig, VarInt};

use crate::harness::{self, Head, Server};
use crate::http2::client::{PATIENCE, runtime, tls_client};
use crate::tls::Secured;

/// A server to connect to, which has a certificate for `localhost`.
pub struct Target {
    address: SocketAddr,
    config: ClientConfig,
}

/// An open connection of a client that speaks HTTP/3.
pub struct Connection {
    /// The socket.
    pub endpoint: Endpoint,
    /// The connection below HTTP.
    pub quic: quinn::Connection,
    /// What sends requests.
    pub client: h3::client::SendRequest<OpenStreams, Bytes>,
}

/// A response with all that came of it.
pub type Answer = Response<Vec<u8>>;

impl Target {
    /// This server.
    pub fn of(secured: &Secured) -> Target {
        Target::new(secured.address, &secured.folder.path("localhost.pem"))
    }

    /// The server at this address with this certificate.
    pub fn new(address: SocketAddr, certificate: &Path) -> Target {
        let tls = QuicClientConfig::try_from(tls_client(certificate, "h3")).expect("TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(PATIENCE.try_into().unwrap()));
        config.transport_config(Arc::new(transport));
        Target { address, config }
    }

    /// The same with windows of so many bytes for what comes, of a stream and of all.
    pub fn with_window(mut self, window: u32) -> Target {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(window.into()).receive_window(window.into());
        self.config.transport_config(Arc::new(transport));
        self
    }

    /// The same at another address.
    pub fn at(&self, address: SocketAddr) -> Target {
        Target { address, config: self.config.clone() }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a connection of QUIC.
    pub async fn quic(&self) -> Result<(Endpoint, quinn::Connection), Box<dyn Error>> {
        let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
        let connecting = endpoint.connect_with(self.config.clone(), self.address, "localhost")?;
        let quic = tokio::time::timeout(PATIENCE, connecting).await??;
        Ok((endpoint, quic))
    }

    /// Makes a connection of HTTP/3.
    pub async fn connect(&self) -> Result<Connection, Box<dyn Error>> {
        let (endpoint, quic) = self.quic().await?;
        let (mut driver, client) = h3::client::new(h3_quinn::Connection::new(quic.clone())).await?;
        tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
        Ok(Connection { endpoint, quic, client })
    }

    /// Sends these requests at the same time on one connection.
    pub fn exchange(&self, requests: Vec<(Request<()>, Vec<u8>)>) -> Vec<Answer> {
        runtime().block_on(async {
            let connection = self.connect().await.expect("a connection");
            let all = requests.into_iter().map(|(request, body)| {
                tokio::spawn(send(connection.client.clone(), request, body))
            });
            let mut answers = Vec::new();
            for task in all.collect::<Vec<_>>() {
                let answer = tokio::time::timeout(PATIENCE, task).await.expect("an answer");
                answers.push(answer.expect("a task").expect("an answer").1);
            }
            answers
        })
    }

    /// Gets a path on a connection of its own.
    pub fn get(&self, path: &str) -> Answer {
        self.exchange(vec![(request("GET", path), Vec::new())]).remove(0)
    }

    /// Sends a request of the harness on a connection of its own.
    pub fn ask(&self, request: &harness::Request) -> Result<harness::Response, String> {
        let host = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let host = host.map_or("localhost", |(_, value)| value.as_str());
        let url = format!("https://{host}{}", request.target);
        let mut asked = Request::builder().method(&*request.method).uri(url);
        for (name, value) in request.headers.iter().filter(|(name, _)| *name != "Host") {
            asked = asked.header(name, value);
        }
        let asked = asked.body(()).map_err(|error| error.to_string())?;
        let started = Instant::now();
        let (parts, body) =
            self.exchange(vec![(asked, request.body.clone())]).remove(0).into_parts();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = parts.headers.iter();
        let head = Head {
            version: "HTTP/3".into(),
            status: parts.status.as_u16(),
            reason: String::new(),
            headers: fields
                .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
                .collect(),
        };
        let mut response = harness::Response::new(head, Vec::new(), &request.method, started);
        response.arrived(&body);
        Ok(response)
    }
}

/// Waits until there is something, while the clients of this event loop go on.
pub async fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it happens in time")
}

/// Waits until a worker runs `hold.php` for this name.
pub async fn held(server: &Server, name: &str) {
    let note = server.state_file(&format!("held-{name}"));
    until(|| note.exists().then_some(())).await;
}

/// A request without fields.
pub fn request(method: &str, path: &str) -> Request<()> {
    let url = format!("https://localhost{path}");
    Request::builder().method(method).uri(url).body(()).expect("a request")
}

/// Sends a request, and reads interim responses and the response; its trailers are among the
/// fields.
pub async fn send(
    mut client: h3::client::SendRequest<OpenStreams, Bytes>,
    request: Request<()>,
    body: Vec<u8>,
) -> Result<(Vec<Response<()>>, Answer), h3::error::StreamError> {
    let (mut sending, mut reading) = client.send_request(request).await?.split();
    let sent = tokio::spawn(async move {
        if !body.is_empty() {
            sending.send_data(body.into()).await?;
        }
        sending.finish().await
    });
    let mut interim = Vec::new();
    let head = loop {
        let head = reading.recv_response().await?;
        if !head.status().is_informational() || head.status() == StatusCode::SWITCHING_PROTOCOLS {
            break head;
        }
        interim.push(head);
    };
    let mut body = Vec::new();
    while let Some(mut piece) = reading.recv_data().await? {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    let mut answer = head.map(|()| body);
    if let Some(trailers) = reading.recv_trailers().await? {
        answer.headers_mut().extend(trailers);
    }
    // A server that has answered may not want the rest.
    let _ = sent.await;
    Ok((interim, answer))
}

/// A client that sends any bytes.
pub struct Raw {
    _endpoint: Endpoint,
    /// The connection.
    pub quic: quinn::Connection,
    /// Its control stream.
    pub control: quinn::SendStream,
}

/// SETTINGS without any.
const SETTINGS: [u8; 2] = [4, 0];

impl Raw {
    /// A connection whose control stream has begun.
    pub async fn open(target: &Target) -> Raw {
        let (endpoint, quic) = target.quic().await.expect("a connection");
        let mut control = quic.open_uni().await.expect("a stream");
        control.write_all(&[&[0][..], &SETTINGS].concat()).await.expect("settings");
        Raw { _endpoint: endpoint, quic, control }
    }

    /// Sends these bytes on a new request's stream, and its end; what comes back.
    pub async fn request(&self, bytes: &[u8]) -> Came {
        let (mut send, mut recv) = match self.quic.open_bi().await {
            Ok(streams) => streams,
            Err(error) => return Came::Closed(error),
        };
        // A server may refuse before all has come.
        if send.write_all(bytes).await.is_ok() {
            let _ = send.finish();
        }
        self.rest(&mut recv).await
    }

    /// Reads all that comes.
    pub async fn rest(&self, recv: &mut quinn::RecvStream) -> Came {
        let read = tokio::time::timeout(PATIENCE, recv.read_to_end(1 << 20));
        match read.await.expect("an answer or an end") {
            Ok(bytes) => Came::Answer(bytes),
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(code))) => Came::Reset(code),
            Err(_) => Came::Closed(self.end().await),
        }
    }

    /// Waits for the end of the connection.
    pub async fn end(&self) -> quinn::ConnectionError {
        tokio::time::timeout(PATIENCE, self.quic.closed()).await.expect("the connection ends")
    }
}

/// What comes back on a request's stream.
#[derive(Debug)]
pub enum Came {
    /// Frames.
    Answer(Vec<u8>),
    /// The server has ended the stream with this code.
    Reset(VarInt),
    /// The connection has ended.
    Closed(quinn::ConnectionError),
}

impl Came {
    /// The status, `reset CODE` or `closed CODE`.
    pub fn verdict(&self) -> String {
        match self {
            Came::Answer(bytes) => match status(bytes) {
                Some(status) => status.to_string(),
                None => format!("{bytes:?}"),
            },
            Came::Reset(code) => format!("reset {:#x}", code.into_inner()),
            Came::Closed(error) => closed(error),
        }
    }
}

/// `closed CODE` for a connection that the other side has ended.
pub fn closed(error: &quinn::ConnectionError) -> String {
    match error {
        quinn::ConnectionError::ApplicationClosed(close) => {
            format!("closed {:#x}", close.error_code.into_inner())
        }
        other => other.to_string(),
    }
}

/// The status of an answer: by the number of QPACK's static table that its HEADERS begin with, or
/// by the page.
fn status(answer: &[u8]) -> Option<u16> {
    let at = answer.iter().position(|byte| *byte == 0)?;
    let known = match answer.get(at + 2..)? {
        [0xd9, ..] => Some(200),
        [0xff, 4, ..] => Some(400),
        [0xff, 0, ..] => Some(100),
        _ => None,
    };
    known.or_else(|| {
        let text = String::from_utf8_lossy(answer);
        let (_, title) = text.split_once("<title>")?;
        title.get(..3)?.parse().ok()
    })
}

/// A frame of this type.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&number(kind)[..], &number(payload.len() as u64), payload].concat()
}

/// HEADERS with these fields, as text.
pub fn headers(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        prefixed(&mut block, 0x20, 3, name.len());
        block.extend_from_slice(name);
        prefixed(&mut block, 0, 7, value.len());
        block.extend_from_slice(value);
    }
    frame(1, &block)
}

/// HEADERS of a request for this path, with these further fields.
pub fn head(method: &str, path: &str, fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut all: Vec<(&[u8], &[u8])> = vec![
        (b":method", method.as_bytes()),
        (b":scheme", b"https"),
        (b":authority", b"localhost"),
        (b":path", path.as_bytes()),
    ];
    all.extend_from_slice(fields);
    headers(&all)
}

/// A number of QUIC (RFC 9000 section 16).
pub fn number(value: u64) -> Vec<u8> {
    match value {
        0..0x40 => vec![value as u8],
        0x40..0x4000 => (value as u16 | 0x4000).to_be_bytes().to_vec(),
        0x4000..0x4000_0000 => (value as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (value | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// A number of header compression (RFC 9204 section 4.1.1).
fn prefixed(block: &mut Vec<u8>, flags: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        return block.push(flags | value as u8);
    }
    block.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        block.push(rest as u8 | 128);
        rest >>= 7;
    }
    block.push(rest as u8);
}
