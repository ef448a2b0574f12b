//! Two clients: one that speaks HTTP/2 well, and one that sends any frames.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response, request::Builder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, NamedGroup, RootCertStore};

use crate::harness::Server;

/// How long a client waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An event loop for clients.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The beginning of a request.
pub fn request(method: &str, target: &str) -> Builder {
    Request::builder().method(method).uri(format!("http://localhost{target}"))
}

/// A server to connect to.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    /// Makes handshakes, if it has TLS.
    tls: Option<TlsConnector>,
    /// What connections begin with.
    first: Vec<u8>,
}

/// A client that knows this certificate alone, and speaks this protocol.
pub fn tls_client(certificate: &Path, protocol: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    Arc::new(config)
}

impl Target {
    /// A server without TLS.
    pub fn plain(address: SocketAddr) -> Target {
        Target { address, tls: None, first: Vec::new() }
    }

    /// A server with TLS, which has this certificate for `localhost`.
    pub fn secured(address: SocketAddr, certificate: &Path) -> Target {
        let tls = Some(tls_client(certificate, "h2").into());
        Target { address, tls, first: Vec::new() }
    }

    /// The same; a connection begins with these bytes, before a handshake.
    pub fn after(self, first: &[u8]) -> Target {
        Target { first: first.to_owned(), ..self }
    }

    async fn stream(&self) -> std::io::Result<tokio::net::TcpStream> {
        let mut stream = tokio::net::TcpStream::connect(self.address).await?;
        stream.write_all(&self.first).await?;
        Ok(stream)
    }

    async fn secured_stream(&self) -> Result<TlsStream<tokio::net::TcpStream>, Box<dyn Error>> {
        let stream = self.stream().await?;
        let tls = self.tls.as_ref().ok_or("a target without TLS")?;
        Ok(tls.connect(ServerName::try_from("localhost")?, stream).await?)
    }

    /// Opens a connection, and works on it in a task.
    pub async fn connect(&self) -> Result<SendRequest<Bytes>, Box<dyn Error>> {
        if self.tls.is_none() {
            let stream = self.stream().await?;
            return open(stream).await;
        }
        let stream = self.secured_stream().await?;
        open(stream).await
    }

    /// Connects; whether that resumes the session of an earlier connection.
    pub async fn resumes(&self) -> Result<bool, Box<dyn Error>> {
        let stream = self.secured_stream().await?;
        Ok(stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// The group for the exchange of keys that a handshake chooses.
    pub async fn group(&self) -> Result<NamedGroup, Box<dyn Error>> {
        let stream = self.secured_stream().await?;
        let group = stream.get_ref().1.negotiated_key_exchange_group();
        Ok(group.ok_or("no exchange of keys")?.name())
    }

    /// Makes the handshake, says nothing, and reads until the server closes the connection.
    pub async fn say_nothing(&self) -> Result<(), Box<dyn Error>> {
        let mut stream = self.secured_stream().await?;
        let mut piece = [0; 1024];
        // The server may close it without the last words of TLS.
        while let Ok(1..) = stream.read(&mut piece).await {}
        Ok(())
    }
}

async fn open<T>(stream: T) -> Result<SendRequest<Bytes>, Box<dyn Error>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

/// Sends one request and reads its response.
pub async fn send(
    client: SendRequest<Bytes>,
    request: Request<()>,
    body: Vec<u8>,
) -> Result<Response<Vec<u8>>, h2::Error> {
    let mut client = client.ready().await?;
    let (response, mut stream) = client.send_request(request, body.is_empty())?;
    let mut rest = Bytes::from(body);
    let sending = async move {
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            let Some(Ok(count)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
                return;
            };
            let part = rest.split_to(count.min(rest.len()));
            if stream.send_data(part, rest.is_empty()).is_err() {
                return;
            }
        }
    };
    let reading = async move {
        let (head, mut incoming) = response.await?.into_parts();
        let mut body = Vec::new();
        while let Some(piece) = incoming.data().await {
            let piece = piece?;
            incoming.flow_control().release_capacity(piece.len())?;
            body.extend_from_slice(&piece);
        }
        Ok(Response::from_parts(head, body))
    };
    let (_, answer) = tokio::join!(sending, reading);
    answer
}

/// Sends all requests at the same time on one connection. The responses are in their order.
pub fn exchange(server: &Server, requests: Vec<(Builder, Vec<u8>)>) -> Vec<Response<Vec<u8>>> {
    let all = async {
        let client = Target::plain(server.address).connect().await.expect("a connection");
        let requests = requests.into_iter().map(|(request, body)| {
            let client = client.clone();
            tokio::spawn(send(client, request.body(()).expect("a request"), body))
        });
        let mut answers = Vec::new();
        for request in requests.collect::<Vec<_>>() {
            answers.push(request.await.expect("no panic").expect("a response"));
        }
        answers
    };
    runtime().block_on(async { tokio::time::timeout(PATIENCE, all).await.expect("in time") })
}

/// A client that sends any bytes.
pub struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Whether the connection ended with a reset, which may take the last frames with it.
    pub was_reset: bool,
}

/// A frame: kind, flags, stream, payload.
pub type Frame = (u8, u8, u32, Vec<u8>);

impl Raw {
    /// A connection on which nothing has been sent.
    pub fn silent(server: &Server) -> Raw {
        let stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw { stream, buffer: Vec::new(), was_reset: false }
    }

    /// A connection with the preface and these settings.
    pub fn open(server: &Server, settings: &[u8]) -> Raw {
        let mut raw = Raw::silent(server);
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        raw.frame(4, 0, 0, settings);
        raw
    }

    /// Sends bytes; the server may have closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send(&frame(kind, flags, stream, payload))
    }

    /// Begins a GET.
    pub fn get(&mut self, stream: u32, path: &str) -> bool {
        self.frame(1, 5, stream, &head("GET", path))
    }

    /// The next frame; `None` if the connection ends.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            if self.buffer.len() >= 9 {
                let [a, b, c, kind, flags, ..] = self.buffer[..] else { unreachable!() };
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                if self.buffer.len() >= 9 + length {
                    let frame: Vec<u8> = self.buffer.drain(..9 + length).collect();
                    let stream = u32::from_be_bytes(frame[5..9].try_into().unwrap());
                    return Some((kind, flags, stream, frame[9..].to_vec()));
                }
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.was_reset = true;
                    return None;
                }
                Err(error) => panic!("no frame: {error}"),
            }
        }
    }

    /// The next frame of one of these kinds.
    pub fn frame_of(&mut self, kinds: &[u8]) -> Frame {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("closed before one of {kinds:?}"));
            if kinds.contains(&frame.0) {
                return frame;
            }
        }
    }

    /// Reads until the connection ends, and answers PINGs. Returns the streams whose responses
    /// began, and the last stream and the reason of each GOAWAY.
    pub fn finish(&mut self) -> (Vec<u32>, Vec<(u32, u32)>) {
        let (mut answered, mut farewells) = (Vec::new(), Vec::new());
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        while let Some((kind, flags, stream, payload)) = self.next() {
            match kind {
                1 => answered.push(stream),
                6 if flags == 0 => {
                    self.frame(6, 1, 0, &payload);
                }
                7 => farewells.push((number(&payload[..4]), number(&payload[4..8]))),
                _ => {}
            }
        }
        (answered, farewells)
    }

    /// The reason of the GOAWAY with which the server ends the connection.
    pub fn end(&mut self) -> Option<u32> {
        let mut reason = None;
        while let Some((kind, _, _, payload)) = self.next() {
            if kind == 7 {
                reason = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        reason
    }
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A head without compression.
pub fn head(method: &str, path: &str) -> Vec<u8> {
    let fields =
        [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

/// A field without compression; it stays out of the table.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        // Lengths below 127 are one byte; the others go on with seven bits each.
        match text.len() {
            length @ 0..127 => field.push(length as u8),
            length => {
                field.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    field.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                field.push(rest as u8);
            }
        }
        field.extend_from_slice(text.as_bytes());
    }
    field
}
