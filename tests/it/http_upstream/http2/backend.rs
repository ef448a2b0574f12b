//! Applications of HTTP/2 in threads of the test: one that speaks it well, and one that sends any
//! frames.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::http_upstream::backend::{Backend, Client};
use crate::http2::client::{Frame, field, frame, runtime};

/// A request to an application that speaks it well.
pub struct Call {
    pub request: Request<RecvStream>,
    pub respond: SendResponse<Bytes>,
}

/// An application that speaks it well.
pub struct Application {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

impl Application {
    /// Listens; `serve` has each request in a task of its own, and `settings` changes the server.
    pub fn start<F>(
        settings: impl Fn(&mut Builder) + Send + 'static,
        serve: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Application
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, serve) = (connections.clone(), Arc::new(serve));
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || {
            let accept = async move {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let mut builder = Builder::new();
                    settings(&mut builder);
                    let serve = serve.clone();
                    tokio::spawn(async move {
                        let mut connection = builder.handshake(stream).await.ok()?;
                        while let Some(Ok((request, respond))) = connection.accept().await {
                            tokio::spawn(serve(Call { request, respond }));
                        }
                        Some(())
                    });
                }
            };
            runtime().block_on(async {
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Application { address, connections, _stop: stop }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Call {
    /// The whole body, and the fields behind it.
    pub async fn body(&mut self) -> Option<(Vec<u8>, http::HeaderMap)> {
        let body = self.request.body_mut();
        let mut all = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece.ok()?;
            body.flow_control().release_capacity(piece.len()).ok()?;
            all.extend_from_slice(&piece);
        }
        Some((all, body.trailers().await.ok()?.unwrap_or_default()))
    }

    /// Answers with this body.
    pub async fn answer(mut self, head: Response<()>, body: impl Into<Bytes>) -> Option<()> {
        let body = body.into();
        let mut stream = self.respond.send_response(head, body.is_empty()).ok()?;
        if body.is_empty() { Some(()) } else { put(&mut stream, body, true).await }
    }
}

/// Sends bytes as fast as the server takes them.
pub async fn put(stream: &mut SendStream<Bytes>, mut rest: Bytes, is_end: bool) -> Option<()> {
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let count = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await?.ok()?;
        let part = rest.split_to(count.min(rest.len()));
        stream.send_data(part, is_end && rest.is_empty()).ok()?;
    }
    Some(())
}

/// A connection of the server to an application that sends any frames.
pub struct Wire<'a> {
    client: &'a mut Client,
    buffer: Vec<u8>,
}

/// An application that sends any frames. `serve` has each connection, on which the server has begun
/// and been sent settings.
pub fn raw(serve: impl Fn(&mut Wire<'_>) + Send + Sync + 'static) -> Backend {
    Backend::start(move |client| {
        if client.take(24).as_deref() == Some(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
            client.send(&frame(4, 0, 0, &[]));
            serve(&mut Wire { client, buffer: Vec::new() });
        }
    })
}

impl Wire<'_> {
    /// The next frame; `None` if the connection ends.
    pub fn next(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, d, e, f, g, ..] = self.buffer[..] {
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                if self.buffer.len() >= 9 + length {
                    let frame: Vec<u8> = self.buffer.drain(..9 + length).collect();
                    let stream = u32::from_be_bytes([d, e, f, g]);
                    return Some((kind, flags, stream, frame[9..].to_vec()));
                }
            }
            let more = self.client.take_some()?;
            self.buffer.extend_from_slice(&more);
        }
    }

    /// Reads until the head of a request has come. Gives its stream.
    pub fn request(&mut self) -> Option<u32> {
        loop {
            match self.next()? {
                (1, _, stream, _) => return Some(stream),
                (4, 0, ..) => self.send(&frame(4, 1, 0, &[])),
                (6, 0, _, payload) => self.send(&frame(6, 1, 0, &payload)),
                _ => {}
            }
        }
    }

    /// Sends any bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.client.send(bytes);
    }

    /// Answers a request with this text.
    pub fn answer(&mut self, stream: u32, text: &str) {
        self.send(&frame(1, 4, stream, &status("200")));
        self.send(&frame(0, 1, stream, text.as_bytes()));
    }

    /// Reads until the server closes the connection; the reason of its GOAWAY.
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

/// The head of a response that has a status alone.
pub fn status(status: &str) -> Vec<u8> {
    field(":status", status)
}

/// How long the test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);
