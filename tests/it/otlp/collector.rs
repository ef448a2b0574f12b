//! A collector that a test makes: it keeps what it gets, and answers as the test wants.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::eventually;
use crate::layers::root;

/// The answer of a collector that has taken everything.
pub const TAKEN: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// One request for an export.
#[derive(Clone)]
pub struct Export {
    /// The request line and the header fields.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A collector. It lives as long as the test's process.
pub struct Collector {
    /// Where it listens.
    pub address: SocketAddr,
    exports: Arc<Mutex<Vec<Export>>>,
}

impl Collector {
    /// One that takes everything.
    pub fn start() -> Collector {
        Collector::answering(|stream| stream.write_all(TAKEN).is_ok())
    }

    /// One that has each request answered like this. The connection ends if that returns false.
    pub fn answering(answer: impl Fn(&mut TcpStream) -> bool + Send + Sync + 'static) -> Collector {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let exports = Arc::<Mutex<Vec<Export>>>::default();
        let (kept, answer) = (exports.clone(), Arc::new(answer));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), answer.clone());
                thread::spawn(move || {
                    while let Some(export) = read(&mut stream) {
                        kept.lock().unwrap().push(export);
                        if !answer(&mut stream) {
                            return;
                        }
                    }
                });
            }
        });
        Collector { address, exports }
    }

    /// The line of a configuration that has spans exported to it.
    pub fn line(&self) -> String {
        format!("trace.export = \"http://{}\"", self.address)
    }

    /// What it has got.
    pub fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    /// The spans that it has got, once `is_enough` says so.
    #[track_caller]
    pub fn spans_when(&self, what: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let look = || Some(decode(&self.exports())).filter(|spans| is_enough(spans));
        eventually(Duration::from_secs(20), look)
            .unwrap_or_else(|| panic!("no {what}: {:#?}", decode(&self.exports())))
    }

    /// The span of the request for a path, and those below it, once they are here.
    #[track_caller]
    pub fn request(&self, path: &str) -> (Value, Vec<Value>) {
        let is_it = |span: &&Value| span["attributes"]["url.path"] == path;
        let spans = self.spans_when(path, |spans| spans.iter().any(|span| is_it(&span)));
        let found: Vec<&Value> = spans.iter().filter(is_it).collect();
        let [server] = found[..] else { panic!("several of {path}: {found:#?}") };
        let is_below =
            |span: &&Value| span["parent"] == server["span"] && span["trace"] == server["trace"];
        (server.clone(), spans.iter().filter(is_below).cloned().collect())
    }
}

/// Reads a request; nothing if the connection ends.
fn read(stream: &mut TcpStream) -> Option<Export> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("a head of ASCII");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).ok()?;
    Some(Export { head, body })
}

/// Where `scripts/fetch-otlp` puts OpenTelemetry's own messages for Python.
fn messages() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/../otlp-python"))
}

/// Whether exports can be read here; if not, a test can only say so.
pub fn can_read() -> bool {
    let can = messages().is_dir();
    if !can {
        eprintln!("not tested: run scripts/fetch-otlp first");
    }
    can
}

/// The spans of exports, as OpenTelemetry's own messages read them.
fn decode(exports: &[Export]) -> Vec<Value> {
    let mut reader = Command::new("/usr/bin/python3")
        .arg(root().join("tests/it/otlp/decode.py"))
        .arg(messages())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let hex = |body: &[u8]| body.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: String = exports.iter().map(|export| hex(&export.body) + "\n").collect();
    reader.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success(), "the exports cannot be read");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
