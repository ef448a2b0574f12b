//! WebSockets through the server: the handshake, bytes in both directions, and their end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::backend::{Backend, Client, text};
use super::in_front_of;
use crate::harness::{Connection, Kind, Request, Server, Setup, eventually, get, numbered, post};
use crate::layers::root;
use crate::metrics::{samples_when, start};
use crate::operate::reload;
use crate::services::devtools::Page;
use crate::services::home::Home;
use crate::tls::{Folder, secured_in};

const PATIENCE: Duration = Duration::from_secs(20);

/// Close code 1001, as a server says it, and as a client without a mask.
pub const GOING_AWAY: [u8; 4] = [0x88, 0x02, 0x03, 0xE9];
pub const GOING_AWAY_MASKED: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9];

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

fn handshake(target: &str) -> Request {
    get(target)
        .header("Connection", "keep-alive, Upgrade")
        .header("Upgrade", "WebSocket")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Sec-WebSocket-Version", "13")
}

/// A frame of a server.
fn frame(payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64;
    [&[0x82, 127][..], &length.to_be_bytes(), payload].concat()
}

/// An application that agrees, and then has the connection.
fn switching(serve: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Backend {
    Backend::start(move |client: &mut Client| {
        if client.request().is_some() {
            client.send(SWITCHED.as_bytes());
            serve(client.stream());
        }
    })
}

fn echo(stream: &mut TcpStream) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// The connection of a client whose handshake has succeeded.
fn open(server: &Server) -> Connection {
    open_on(server.connect())
}

fn open_on(mut connection: Connection) -> Connection {
    connection.send(handshake("/app/socket").bytes());
    let head = connection.head().expect("a head");
    assert_eq!(head.status, 101);
    connection
}

fn read(connection: &mut Connection, count: usize) -> Vec<u8> {
    (0..count).map(|_| connection.read_byte().expect("a byte")).collect()
}

/// Tells of each connection's end.
fn told(sender: &Sender<Vec<u8>>, stream: &mut TcpStream) {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let _ = sender.send(all);
}

#[test]
fn both_ends_agree_and_talk() {
    let (sender, asked) = channel();
    let backend = Backend::start(move |client| {
        sender.send(client.request()).unwrap();
        // The first words come with the answer.
        client.send(format!("{SWITCHED}hello").as_bytes());
        echo(client.stream());
    });
    let server = in_front_of(&backend, "").start();
    let mut connection = server.connect();
    let offer = handshake("/app/socket?a=b").header("Sec-WebSocket-Protocol", "chat");
    connection.send(offer.bytes());
    let head = connection.head().unwrap();
    assert_eq!((head.status, head.header("upgrade")), (101, Some("websocket")));
    assert_eq!(head.header("connection"), Some("upgrade"));
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!((head.header("content-length"), head.header("transfer-encoding")), (None, None));
    let asked = asked.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(asked.line, "GET /app/socket?a=b HTTP/1.1");
    for (name, value) in [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(asked.field(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(read(&mut connection, 5), b"hello");
    for word in ["a", "bc", "def"] {
        connection.send(word);
        assert_eq!(read(&mut connection, word.len()), word.as_bytes());
    }
}

#[test]
fn much_passes_in_both_directions_at_once() {
    let backend = switching(echo);
    let server = in_front_of(&backend, "").start();
    let mut connection = open(&server);
    let bytes = numbered(5_000_000);
    let mut sender = connection.stream();
    let sent = bytes.clone();
    let sending = thread::spawn(move || sender.write_all(&sent).unwrap());
    let mut back = Vec::new();
    while back.len() < bytes.len() {
        back.extend(connection.take(bytes.len() - back.len()).expect("more"));
    }
    sending.join().unwrap();
    assert!(back == bytes);
}

#[test]
fn the_end_of_one_is_the_end_of_the_other() {
    let (sender, ends) = channel();
    let backend = switching(move |stream| told(&sender, stream));
    let server = in_front_of(&backend, "").start();
    let mut connection = open(&server);
    connection.send("last words");
    drop(connection);
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), b"last words");

    let backend = switching(|stream| stream.write_all(b"bye").unwrap());
    let server = in_front_of(&backend, "").start();
    let mut connection = open(&server);
    assert_eq!(read(&mut connection, 3), b"bye");
    assert!(connection.closes_within(PATIENCE));
}

/// The application cannot say more than the client takes, but for what lies in buffers.
#[test]
fn a_slow_client_holds_its_application_back() {
    const ALL: usize = 100_000_000;
    let said = Arc::new(AtomicUsize::new(0));
    let counted = said.clone();
    let backend = switching(move |stream| {
        let piece = vec![7; 64 * 1024];
        while counted.load(Ordering::SeqCst) < ALL && stream.write_all(&piece).is_ok() {
            counted.fetch_add(piece.len(), Ordering::SeqCst);
        }
    });
    let server = in_front_of(&backend, "").start();
    let mut connection = open(&server);
    let mut last = 0;
    let rests = || {
        let now = said.load(Ordering::SeqCst);
        let is_same = now > 0 && now == std::mem::replace(&mut last, now);
        thread::sleep(Duration::from_millis(300));
        is_same.then_some(now)
    };
    let held = eventually(PATIENCE, rests).expect("it is held back");
    assert!(held < ALL / 2, "{held} bytes were taken for a client that reads none");
    assert!(connection.read_rest(ALL) == ALL);
}

#[test]
fn an_application_may_decline() {
    let backend = Backend::answering(|asked| match asked.target() {
        "/app/no" => text("not here"),
        _ => b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno"
            .to_vec(),
    });
    let server = in_front_of(&backend, "").start();
    let mut connection = server.connect();
    assert_eq!(connection.exchange(&handshake("/app/no")).expect(200).text(), "not here");
    assert_eq!(connection.exchange(&handshake("/app/later")).expect(426).text(), "no");
    connection.exchange(&get("/app/no")).expect(200);
}

/// What asks for another protocol, or not as it is done, is an ordinary request.
#[test]
fn only_what_asks_for_a_websocket_alone_may_have_one() {
    let backend = Backend::answering(|asked| {
        let fields = [asked.field("upgrade"), asked.field("connection")];
        text(&fields.map(Option::unwrap_or_default).join("|"))
    });
    let server = in_front_of(&backend, "").start();
    let asking =
        |upgrade: &str| get("/app").header("Connection", "Upgrade").header("Upgrade", upgrade);
    for request in [
        asking("h2c"),
        asking("websocket, h2c"),
        asking("websocket/13"),
        asking("websocket").header("Upgrade", "h2c"),
        get("/app").header("Upgrade", "websocket"),
        post("/app", "text/x", "").header("Connection", "Upgrade").header("Upgrade", "websocket"),
        asking("websocket").body("x"),
    ] {
        assert_eq!(server.send(&request).expect(200).text(), "|", "{request:?}");
    }
    let mut old = server.connect();
    old.send("GET /app HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(old.response().expect(200).text(), "|");
    assert_eq!(server.send(&asking("WebSocket")).text(), "websocket|upgrade");
}

#[test]
fn an_answer_that_agrees_to_something_else_is_refused() {
    for answer in [
        "HTTP/1.1 101 Go\r\n\r\n",
        "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    ] {
        let backend = Backend::answering(|_| answer.into());
        let server = in_front_of(&backend, "").start();
        server.send(&handshake("/app")).expect(502);
        server.log_line(&["status=502", "changes the protocol"]);
    }
}

/// It would be another request for the server, and part of the first one for the application.
#[test]
fn a_request_behind_the_handshake_is_not_passed_on() {
    let (sender, ends) = channel();
    let backend = switching(move |stream| told(&sender, stream));
    let server = in_front_of(&backend, "").start();
    let mut connection = server.connect();
    let both = [handshake("/app").bytes(), get("/app/hidden").bytes()].concat();
    connection.send(both);
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), b"");
    connection.read_rest(usize::MAX);
}

#[test]
fn a_stored_page_is_not_the_answer() {
    let backend = Backend::answering(|asked| match asked.field("upgrade") {
        Some(_) => SWITCHED.into(),
        None => {
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\nx".into()
        }
    });
    let server = in_front_of(&backend, "").site_line("cache = true").start();
    for _ in 0..2 {
        assert_eq!(server.get("/app/socket").expect(200).text(), "x");
    }
    open(&server);
}

#[test]
fn one_on_which_nothing_comes_is_closed() {
    let (sender, ends) = channel();
    let backend = switching(move |stream| told(&sender, stream));
    let server = in_front_of(&backend, "").line("timeouts.tunnel = \"500ms\"").start();
    let mut connection = open(&server);
    assert!(connection.closes_within(PATIENCE));
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), b"");
}

#[test]
fn a_server_that_reloads_says_that_it_goes_away() {
    let (sender, ends) = channel();
    let message = frame(&[b'm'; 1000]);
    let (begin, rest) = message.split_at(500);
    let (begin, rest) = (begin.to_vec(), rest.to_vec());
    let go_on = Arc::new(std::sync::Barrier::new(2));
    let wait = go_on.clone();
    let backend = switching(move |stream| {
        stream.write_all(&begin).unwrap();
        wait.wait();
        stream.write_all(&rest).unwrap();
        told(&sender, stream);
    });
    let server = in_front_of(&backend, "").start();
    // Clients are told by the numbers of their ports, those of whole multiples of 64 first.
    let mut others = Vec::new();
    let is_first = |connection: &Connection| connection.own_port().is_multiple_of(64);
    let first = loop {
        match server.connect() {
            connection if is_first(&connection) => break connection,
            connection => others.push(connection),
        }
    };
    let mut connection = open_on(first);
    assert_eq!(read(&mut connection, 500), message[..500]);
    // Half of a message is under way: the farewell comes behind it.
    reload(&server).unwrap();
    go_on.wait();
    assert_eq!(read(&mut connection, message.len() - 500), message[500..]);
    assert_eq!(read(&mut connection, 4), GOING_AWAY);
    connection.send([0x88, 0x82, 1, 2, 3, 4, 0x02, 0xEB]);
    assert!(connection.closes_within(PATIENCE));
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap(), GOING_AWAY_MASKED);
}

/// A browser that speaks with an application of Python, over TLS: messages of all lengths, and the
/// farewell of a server that reloads, after which it is served by the next one.
#[test]
fn a_browser_talks_with_an_application() {
    const ROUTE: &str = "[[site.route]]\npath = \"/app\"\nupstream = \"app\"";
    let program = root().join("tests/it/http_upstream/echo.py").display().to_string();
    let spawn = format!("spawn = [\"/usr/bin/python3\", \"-B\", \"{program}\"]");
    let setup = Setup::new(Kind::Fastcgi)
        .upstream(&format!("protocol = \"http\"\nconnections = 10\n{spawn}"))
        .line("timeouts.drain = \"4s\"")
        .line("log.access = \"-\"");
    let folder = Folder::new();
    folder.certificate("localhost", &["localhost"]);
    let secured = secured_in(folder, setup, &[], &[ROUTE]);
    let home = Home::new();
    home.trusts(&secured.folder.path("localhost.pem"));
    let origin = format!("https://localhost:{}", secured.address.port());
    let mut page = Page::open_by(&home, &format!("{origin}/")).expect("a page");
    let talk = "new Promise((done, fail) => { \
        const sizes = [1, 125, 126, 65535, 65536, 1000000]; \
        const socket = new WebSocket(location.origin.replace('http', 'ws') + '/app/socket'); \
        const next = () => sizes.length ? socket.send('x'.repeat(sizes[0])) : done('talked'); \
        socket.onopen = next; \
        socket.onerror = () => fail('error'); \
        window.ended = new Promise(told => { socket.onclose = end => told(end.code); }); \
        socket.onmessage = event => event.data.length === sizes.shift() \
            ? next() : fail('wrong length'); })";
    assert_eq!(page.value(talk), "talked");
    secured.server.log_line(&["\"GET /app/socket HTTP/2.0\" 101"]);
    reload(&secured.server).unwrap();
    assert_eq!(page.value("window.ended"), 1001);
    assert_eq!(page.value(talk), "talked");
}

#[test]
fn they_are_counted() {
    let backend = switching(echo);
    let server = start(in_front_of(&backend, ""));
    let first = open(&server);
    let _second = open(&server);
    samples_when(&server, "tokamak_websockets_open", 2.0);
    drop(first);
    let samples = samples_when(&server, "tokamak_websockets_open", 1.0);
    assert_eq!(samples["tokamak_websockets_total"], 2.0);
}
