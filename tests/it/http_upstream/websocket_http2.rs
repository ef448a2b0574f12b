//! WebSockets over HTTP/2 (RFC 8441) through the server, to an application of HTTP/1.1.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use sha1::{Digest, Sha1};
use tokio::time::timeout;

use super::backend::{Asked, Backend, Client, text};
use super::in_front_of;
use super::websocket::{GOING_AWAY, GOING_AWAY_MASKED};
use crate::harness::{Server, numbered};
use crate::http2::client::{PATIENCE, Target, request, runtime, send};
use crate::metrics::{samples_when, start};
use crate::operate::reload;

/// What an application answers that agrees (RFC 6455 section 4.2.2).
fn agreed(asked: &Asked) -> String {
    let key = asked.field("sec-websocket-key").expect("a key");
    assert_eq!(STANDARD.decode(&key).expect("Base64").len(), 16, "{key}");
    let digest = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        STANDARD.encode(digest)
    )
}

/// An application that agrees, and then has the connection.
fn switching(serve: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Backend {
    Backend::start(move |client: &mut Client| {
        if let Some(asked) = client.request() {
            client.send(agreed(&asked).as_bytes());
            serve(&asked, client.stream());
        }
    })
}

fn echo(_: &Asked, stream: &mut TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// A request for a protocol on a stream.
fn asking(protocol: &'static str, path: &str) -> Request<()> {
    let mut asked = request("CONNECT", path).header("sec-websocket-version", "13");
    asked = asked.header("sec-websocket-protocol", "chat").header("origin", "http://localhost");
    let mut asked = asked.body(()).unwrap();
    asked.extensions_mut().insert(Protocol::from_static(protocol));
    asked
}

/// A WebSocket that was asked for, and the answer.
struct Socket {
    client: h2::client::SendRequest<Bytes>,
    answer: Response<RecvStream>,
    sending: SendStream<Bytes>,
}

impl Socket {
    async fn open(target: &Target, path: &str) -> Socket {
        let client = target.connect().await.expect("a connection");
        Socket::open_on(client, asking("websocket", path)).await
    }

    async fn open_on(client: h2::client::SendRequest<Bytes>, asked: Request<()>) -> Socket {
        let mut client = client.ready().await.unwrap();
        // The server's settings have come with its first words.
        while !client.is_extended_connect_protocol_enabled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (answer, sending) = client.send_request(asked, false).unwrap();
        let answer = timeout(PATIENCE, answer).await.expect("an answer").unwrap();
        Socket { client, answer, sending }
    }

    async fn say(&mut self, bytes: impl Into<Bytes>) {
        let mut bytes = bytes.into();
        while !bytes.is_empty() {
            self.sending.reserve_capacity(bytes.len());
            let room = std::future::poll_fn(|cx| self.sending.poll_capacity(cx)).await;
            let part = bytes.split_to(room.expect("a stream").unwrap().min(bytes.len()));
            self.sending.send_data(part, false).unwrap();
        }
    }

    /// Reads so many bytes, or less if the other side ends.
    async fn hear(&mut self, count: usize) -> Result<Vec<u8>, h2::Error> {
        let mut heard = Vec::new();
        let body = self.answer.body_mut();
        while heard.len() < count
            && let Some(piece) = timeout(PATIENCE, body.data()).await.expect("in time")
        {
            let piece = piece?;
            body.flow_control().release_capacity(piece.len()).unwrap();
            heard.extend_from_slice(&piece);
        }
        Ok(heard)
    }
}

fn target(server: &Server) -> Target {
    Target::plain(server.address)
}

#[test]
fn both_ends_agree_and_talk() {
    let (sender, asked) = channel();
    let backend = switching(move |request, stream| {
        sender.send(request.clone()).unwrap();
        stream.write_all(b"hello").unwrap();
        echo(request, stream);
    });
    let server = in_front_of(&backend, "").line("log.access = \"-\"").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket?a=b").await;
        assert_eq!(socket.answer.status(), 200);
        let fields = socket.answer.headers();
        assert_eq!(fields["sec-websocket-protocol"], "chat");
        for name in ["upgrade", "connection", "sec-websocket-accept", "content-length"] {
            assert!(!fields.contains_key(name), "{fields:?}");
        }
        let asked = asked.recv_timeout(PATIENCE).unwrap();
        assert_eq!(asked.line, "GET /app/socket?a=b HTTP/1.1");
        for (name, value) in [
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
            ("host", "localhost"),
            ("origin", "http://localhost"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "chat"),
            ("x-forwarded-for", "127.0.0.1"),
        ] {
            assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(socket.hear(5).await.unwrap(), b"hello");
        for word in ["a", "bc", "def"] {
            socket.say(word).await;
            assert_eq!(socket.hear(word.len()).await.unwrap(), word.as_bytes());
        }
        // Other requests of the connection are served meanwhile.
        let page = request("GET", "/none.txt").body(()).unwrap();
        let page = send(socket.client.clone(), page, Vec::new()).await.unwrap();
        assert_eq!(page.status(), 404);
    });
    server.log_line(&["\"GET /app/socket?a=b HTTP/2.0\" 101"]);
}

#[test]
fn much_passes_in_both_directions_at_once() {
    let backend = switching(echo);
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        let bytes = numbered(3_000_000);
        let mut back = Vec::new();
        for part in bytes.chunks(50_000) {
            socket.say(part.to_vec()).await;
            back.extend(socket.hear(25_000).await.unwrap());
        }
        back.extend(socket.hear(bytes.len() - back.len()).await.unwrap());
        assert!(back == bytes);
    });
}

#[test]
fn the_end_of_one_is_the_end_of_the_other() {
    let (sender, ends) = channel();
    let backend = switching(move |_, stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        sender.send(all).unwrap();
    });
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        socket.say("last words").await;
        socket.sending.send_data(Bytes::new(), true).unwrap();
        assert_eq!(socket.hear(1).await.unwrap(), b"", "its own end comes back");
        assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), b"last words");

        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        socket.say("cut").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        socket.sending.send_reset(Reason::CANCEL);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ended = tokio::task::spawn_blocking(move || ends.recv_timeout(PATIENCE)).await;
        assert!(ended.unwrap().is_ok());
    });
    let backend = switching(|_, stream| stream.write_all(b"bye").unwrap());
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        assert_eq!(socket.hear(100).await.unwrap(), b"bye");
    });
}

/// The application cannot say more than the client takes, but for what lies in buffers; other
/// requests of the connection are served.
#[test]
fn a_slow_client_holds_its_application_back() {
    const ALL: usize = 100_000_000;
    let said = Arc::new(AtomicUsize::new(0));
    let counted = said.clone();
    let backend = switching(move |_, stream| {
        let piece = vec![7; 64 * 1024];
        while counted.load(Ordering::SeqCst) < ALL && stream.write_all(&piece).is_ok() {
            counted.fetch_add(piece.len(), Ordering::SeqCst);
        }
    });
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let socket = Socket::open(&target(&server), "/app/socket").await;
        let resting = async {
            let mut last = 0;
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let now = said.load(Ordering::SeqCst);
                if now > 0 && now == std::mem::replace(&mut last, now) {
                    return now;
                }
            }
        };
        let held = timeout(PATIENCE, resting).await.expect("it is held back");
        assert!(held < ALL / 2, "{held} bytes were taken for a client that reads none");
        // What this client has not read fills the window of its connection, too.
        let page = request("HEAD", "/none.txt").body(()).unwrap();
        let page = send(socket.client.clone(), page, Vec::new()).await.unwrap();
        assert_eq!(page.status(), 404);
    });
}

#[test]
fn what_is_not_agreed_is_an_ordinary_answer() {
    let backend = Backend::answering(|asked| match asked.target() {
        "/app/forged" => "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
            .into(),
        "/app/none" => {
            "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".into()
        }
        _ => text("not here"),
    });
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let target = &target(&server);
        let ask = |protocol, path| async move {
            let client = target.connect().await.unwrap();
            Socket::open_on(client, asking(protocol, path)).await
        };
        let mut socket = ask("websocket", "/app/no").await;
        assert_eq!(socket.answer.status(), 501, "200 would open it");
        assert_eq!(socket.hear(100).await.unwrap(), b"not here");
        assert_eq!(ask("websocket", "/app/forged").await.answer.status(), 502);
        assert_eq!(ask("websocket", "/app/none").await.answer.status(), 502);
        assert_eq!(ask("websocket", "/none.php").await.answer.status(), 404, "no application");
        assert_eq!(ask("webtransport", "/app/no").await.answer.status(), 405);
    });
    server.log_line(&["status=502", "Sec-WebSocket-Accept"]);
}

#[test]
fn one_on_which_nothing_comes_is_closed() {
    let backend = switching(echo);
    let server = in_front_of(&backend, "").line("timeouts.tunnel = \"500ms\"").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        socket.say("x").await;
        assert_eq!(socket.hear(1).await.unwrap(), b"x");
        assert_eq!(socket.hear(1).await.unwrap(), b"");
    });
}

/// An open one keeps its connection, however long that has no other request.
#[test]
fn an_open_one_keeps_its_connection() {
    let backend = switching(echo);
    let server = in_front_of(&backend, "").line("timeouts.idle = \"300ms\"").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        socket.say("still here").await;
        assert_eq!(socket.hear(10).await.unwrap(), b"still here");
    });
}

#[test]
fn a_server_that_reloads_says_that_it_goes_away() {
    let (sender, ends) = channel();
    let backend = switching(move |_, stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        sender.send(all).unwrap();
    });
    let server = in_front_of(&backend, "").start();
    runtime().block_on(async {
        let mut socket = Socket::open(&target(&server), "/app/socket").await;
        let said = [0x81, 0x81, 0, 0, 0, 0, b'x'];
        socket.say(said.to_vec()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        reload(&server).unwrap();
        assert_eq!(socket.hear(4).await.unwrap(), GOING_AWAY);
        socket.sending.send_data(Bytes::new(), true).unwrap();
        assert_eq!(socket.hear(1).await.unwrap(), b"");
        let heard = tokio::task::spawn_blocking(move || ends.recv_timeout(PATIENCE)).await;
        assert_eq!(heard.unwrap().unwrap(), [&said[..], &GOING_AWAY_MASKED].concat());
    });
}

#[test]
fn they_are_counted() {
    let backend = switching(echo);
    let server = start(in_front_of(&backend, ""));
    runtime().block_on(async {
        let target = target(&server);
        let first = Socket::open(&target, "/app/socket").await;
        let _second = Socket::open(&target, "/app/socket").await;
        samples_when(&server, "tokamak_websockets_open", 2.0);
        drop(first);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let samples = samples_when(&server, "tokamak_websockets_open", 1.0);
        assert_eq!(samples["tokamak_websockets_total"], 2.0);
    });
}
